"""Versions without a checksum: those that Spark writes none of are not reported."""

from __future__ import annotations

import pytest

from tests.support.actions import birth, commit_info, txn
from tests.support.builder import TableBuilder
from tests.support.reading import open_built


@pytest.mark.parametrize(("operation", "is_reported"), [("RESTORE", False), ("WRITE", True)])
def test_a_restore_has_no_checksum(operation: str, is_reported: bool) -> None:
    builder = TableBuilder().commit(commit_info("CREATE TABLE"), *birth())
    for version in range(1, 6):
        builder.commit(commit_info(operation if version == 3 else "WRITE"), txn("job", version))
    table = open_built(builder)
    for version in (0, 1, 2, 4, 5):
        table.write_checksum(version=version)

    found = {finding.rule.id for finding in table.validate(level="log").findings}

    assert is_reported == ("crc.missing" in found)
