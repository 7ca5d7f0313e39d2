"""The change feed of a restore: no file of it is written, and readers derive exactly the rows that differ."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from deltacli import open_table
from tests.support.small_types import Column
from tests.support.small_writer import SmallTable

COLUMNS = (Column("n", "long", 1, "n"),)


def test_changes_of_a_restore_are_the_difference_of_rows_also_of_vectors(tmp_path: Path) -> None:
    """
    Version 3 deletes rows by vectors, 4 more of one file and appends another: undone are single rows and a whole file.
    """
    on = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    table = SmallTable(tmp_path, COLUMNS, features=("deletionVectors", "changeDataFeed"), configuration=on).create()
    first, second = (table.new_file([{1: row} for row in range(start, start + 5)]) for start in (0, 10))
    table.append([first, second])
    for number, rows in enumerate(({1, 3}, {0, 1, 3})):
        deleted = {first.path: frozenset(rows), second.path: frozenset({4})}
        table.mark(deleted, table.vectors(deleted, how="u", uuid=UUID(int=number)))
    table.append([table.new_file([{1: row} for row in (20, 21)])])
    opened = open_table(tmp_path)
    assert opened.snapshot().properties["delta.enableChangeDataFeed"] == "true"
    newest = opened.snapshot().version

    for target in range(1, newest):
        before, after = (rows_of(opened.snapshot(version=version).scan()) for version in (None, target))
        version = opened.restore(version=target).committed_version
        assert version is not None
        told = pa.Table.from_batches(opened.changes(from_version=version, to_version=version))
        found = Counter(zip(told["n"].to_pylist(), told["_change_type"].to_pylist(), strict=True))
        gone, back = before - after, after - before
        assert found == Counter({(n, "delete"): 1 for n in gone} | {(n, "insert"): 1 for n in back}), target


def rows_of(scan: object) -> Counter[int]:
    return Counter(pa.Table.from_batches(scan)["n"].to_pylist())
