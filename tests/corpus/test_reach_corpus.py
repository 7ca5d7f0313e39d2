"""`reach` of real tables, damaged ones included: a version is readable exactly if it can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError, NotATable
from deltacli.operations.reach import ReachRequest, find_reach
from tests.support.corpus import CorpusTable, tables

FEW_VERSIONS = 6


def is_read(path: Path, version: int) -> bool:
    try:
        for _ in open_table(path).snapshot(version=version).scan():
            pass
    except DeltacliError:
        return False
    return True


def check(table: CorpusTable, root: Path) -> tuple[int, int]:
    path = table.path(root)
    try:
        found = find_reach(open_table(path), ReachRequest())
    except NotATable:
        return 0, 0
    readable = set(found.readable)
    really = {version for version in found.versions if is_read(path, version)}
    assert (table.id, readable) == (table.id, really)
    assert [one.first for one in found.ranges] == [0, *(one.last + 1 for one in found.ranges[:-1])]
    missing = {one.first for one in found.ranges if one.first not in found.versions}
    assert not any(is_read(path, version) for version in missing)
    assert found.ranges[-1].last == found.newest_version
    return len(readable), len(found.versions) - len(readable)


@pytest.mark.halved
def test_a_sample_is_readable_exactly_where_it_can_be_read(root: Path) -> None:
    chosen = [one for one in tables() if one.id.startswith("derived/") or len(one.versions) <= FEW_VERSIONS][::4]
    counts = [check(table, root) for table in chosen]
    assert sum(one for one, _ in counts) > 40
    assert sum(one for _, one in counts) > 3


@pytest.mark.soak
def test_every_version_is_readable_exactly_where_it_can_be_read(root: Path) -> None:
    counts = [check(table, root) for table in tables()]
    assert sum(one for one, _ in counts) > 500
    assert sum(one for _, one in counts) > 40
