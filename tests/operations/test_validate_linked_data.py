"""Files below a link that leads outside the table: whether they exist is unknown, so nothing is reported about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import open_storage
from deltacli.work.table_files import parse_allowed_prefixes
from tests.support.external import add, put_commit, put_rows, write_table
from tests.support.validating import validate_table

NOW_MS = 1_800_000_000_000
OF_ABSENT_FILES = {"history.time-travel-broken", "history.restore-risk", "data.file-missing-tombstoned"}


@pytest.mark.parametrize(("is_allowed", "is_gone", "told"), [(False, False, False), (True, False, False), (True,) * 3])
def test_removed_files_behind_a_link_are_missing_only_if_access_is_allowed(
    is_allowed: bool, is_gone: bool, told: bool, tmp_path: Path
) -> None:
    source = put_rows(tmp_path / "source" / "b.parquet", 2)
    root = write_table(tmp_path / "t", add("linked/b.parquet", source.stat().st_size))
    (root / "linked").symlink_to(source.parent)
    remove = {"path": "linked/b.parquet", "deletionTimestamp": NOW_MS, "dataChange": True}
    put_commit(root, 1, {"remove": remove})
    if is_gone:
        source.unlink()
    allowed = parse_allowed_prefixes([str(source.parent)] if is_allowed else [])

    storage = open_storage(str(root), allowed=allowed)
    found = validate_table(storage, EmbeddedEngine(), level="storage", now_ms=NOW_MS, allowed=allowed)

    assert told == bool(OF_ABSENT_FILES & {finding.rule.id for finding in found.findings})
