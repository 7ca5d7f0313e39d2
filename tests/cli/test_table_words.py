"""What shells ask for to complete versions and columns of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.cli.terminal.table_words import table_words
from tests.cli.support import deltacli
from tests.support.altering import table_of


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return table_of("id bigint, `$(c)` int, ride struct<city: string, `a b`: int>").commits(11).write(tmp_path / "t")


def test_versions_and_columns_that_no_shell_has_to_quote(table: Path) -> None:
    (table / "_delta_log" / f"{4:020d}.json").unlink()
    (table / "_delta_log" / f"{12:020d}.json.tmp").touch()

    assert ["11", "10", "9", "8", "7", "6", "5", "3", "2", "1", "0"] == table_words("versions", str(table))
    (table / "_delta_log" / f"{4:020d}.json").write_text("{}")
    assert ["id", "ride"] == table_words("columns", str(table))
    assert ["id", "ride", "ride.city"] == table_words("paths", str(table))


@pytest.mark.parametrize("kind", ["versions", "columns", "paths"])
@pytest.mark.parametrize("name", ["", "nowhere", "s3://bucket/t", "a.share#s.t.u"])
def test_nothing_is_said_about_what_is_no_local_table(kind: str, name: str, tmp_path: Path) -> None:
    done = deltacli("--table-words", kind, name, cwd=tmp_path)

    assert (0, "", "") == (done.code, done.out, done.err)
