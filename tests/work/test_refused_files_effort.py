"""Thousands of files outside the table cost little: directories are resolved once, and refusals are not worded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import local, open_storage, path_external_error
from deltacli.storage.secrets import mask_secrets
from deltacli.work import table_files
from deltacli.work.table_files import TableFiles, parse_allowed_prefixes
from tests.support.external import add, put_rows, write_table
from tests.support.validating import validate_table

FILES = 400


@pytest.mark.parametrize("level", ["footers", "data"])
def test_the_effort_for_refused_files_does_not_grow_with_them(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_table(tmp_path / "t", *(add(f"file://{tmp_path}/src/f{number}.parquet") for number in range(FILES)))
    done: list[str] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:  # Any: whatever it takes
        def call(*given: Any, **more: Any) -> Any:
            done.append(function.__name__)
            return function(*given, **more)

        return call

    monkeypatch.setattr(os.path, "realpath", counted(os.path.realpath))
    for module in (table_files, local):
        monkeypatch.setattr(module, "path_external_error", counted(path_external_error))

    found = validate_table(open_storage(str(root)), EmbeddedEngine(), level=level, now_ms=1)

    assert len(done) < FILES / 4
    assert any(f"{FILES} files outside the table" in sentence for sentence in found.not_checked)


def test_a_link_in_a_directory_that_was_allowed_is_resolved_by_itself(tmp_path: Path) -> None:
    source = put_rows(tmp_path / "src" / "a.parquet", 1).parent
    put_rows(tmp_path / "secret.parquet", 2)
    (source / "b.parquet").symlink_to(tmp_path / "secret.parquet")
    root = write_table(tmp_path / "t")
    files = TableFiles(open_storage(str(root)), open_storage, parse_allowed_prefixes([str(source)]))

    refused = [files.is_refused(f"{source}/{name}.parquet") for name in "aba"]

    assert [False, True, False] == refused


def test_a_secret_that_the_environment_gets_later_is_kept_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mask_secrets("a-secret-of-mine")

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-mine")

    assert ("a-secret-of-mine", "\u2026") == (before, mask_secrets("a-secret-of-mine"))
