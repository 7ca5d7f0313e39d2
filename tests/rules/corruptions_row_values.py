"""Damages of row ids, identity columns and partition values that only the rows of files tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.rules.corruptions import damage
from tests.rules.corruptions_row_tracking import PROPERTIES, PROTOCOL, mark
from tests.rules.data_table import DATA_SCHEMA, DataTable, Rows, rows_of
from tests.rules.table_builder import Action, column, struct

ROW_ID = PROPERTIES["delta.rowTracking.materializedRowIdColumnName"]


class TrackedTable(DataTable):
    """Ten row ids for each file: 0 to 19 in version 1, 20 to 29 in version 2, 30 to 39 in version 3."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"protocol": dict(PROTOCOL), "properties": PROPERTIES} | options))
        first = 0
        for version in (1, 2, 3):
            self.action(version, "commitInfo")["tags"] = {"delta.rowTracking.preserved": "true"}
            for action in self.commits[version]:
                if "add" in action:
                    action["add"] |= {"baseRowId": first, "defaultRowCommitVersion": version}
                    first += 10
            self.commits[version].append(mark(first - 1))
        self.action(2, "remove").update(baseRowId=0, defaultRowCommitVersion=1)

    def store_ids(self, version: int, ids: Sequence[int | None]) -> None:
        """Let the file of a version keep row ids in a column."""
        rows = self.tables[self.add(version)["path"]]
        self.rewrite(version, rows.append_column(ROW_ID, pa.array(ids, pa.int64())))


class IdentityTable(DataTable):
    """Its `id` starts at 10 in steps of 1; the files that were written last have 20 to 49."""

    def __init__(self, *, explicit: bool = False, mark: int | None = 49, step: int = 1) -> None:
        identity: Action = {
            "delta.identity.start": 10,
            "delta.identity.step": step,
            "delta.identity.allowExplicitInsert": explicit,
            "delta.identity.highWaterMark": mark,
        }
        schema = struct(column("id", "long"), *DATA_SCHEMA["fields"][1:])
        schema["fields"][0]["metadata"] = identity
        super().__init__(
            schema=schema,
            protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["identityColumns"]},
        )


class MaterialisedTable(DataTable):
    """Its files hold the partition values."""

    def __init__(self) -> None:
        features = ["materializePartitionColumns"]
        super().__init__(
            protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features},
            properties={"delta.enableMaterializePartitionColumnsFeature": "true"},
        )
        for version, number, partition in ((1, 0, "a"), (1, 1, "b"), (2, 0, "a"), (3, 0, "b")):
            self.store_values(version, [partition] * 10, number)
        self.action(2, "remove")["size"] = self.add(1)["size"]

    def store_values(self, version: int, values: Sequence[str | int | None], number: int = 0) -> None:
        """Let a file hold these partition values."""
        rows = self.tables[self.add(version, number)["path"]]
        self.rewrite(version, rows.append_column("p", pa.array(values)), number=number)


@damage("rowtracking.materialised-duplicate")
def row_id_is_stored_twice_in_one_file() -> TrackedTable:
    table = TrackedTable()
    table.store_ids(3, [*range(30, 39), 38])
    return table


@damage("rowtracking.materialised-duplicate")
def stored_row_id_is_that_of_a_live_row() -> TrackedTable:
    """12 is the id of the third row of the file that was added second, and is still live."""
    table = TrackedTable()
    table.store_ids(3, [12, *([None] * 9)])
    return table


@damage("rowtracking.materialised-duplicate")
def row_id_is_stored_in_two_files() -> TrackedTable:
    """0 to 9 are those of the file that was removed."""
    table = TrackedTable()
    table.store_ids(2, list(range(10)))
    table.store_ids(3, [*([None] * 9), 9])
    return table


@damage("rowtracking.materialised-duplicate")
def stored_row_id_is_that_of_a_later_file() -> TrackedTable:
    """35 is the id of a row of version 3."""
    table = TrackedTable()
    table.store_ids(2, [35, *([None] * 9)])
    return table


@damage("rowtracking.materialised-duplicate")
def stored_row_id_is_one_that_the_same_file_derives() -> TrackedTable:
    table = TrackedTable()
    table.store_ids(3, [31, *([None] * 9)])
    return table


@damage("rowtracking.materialised-beyond-mark")
def stored_row_id_is_above_the_mark() -> TrackedTable:
    """39 is the mark."""
    table = TrackedTable()
    table.store_ids(3, [40, *([None] * 9)])
    return table


@damage("identity.high-water-mark")
def identity_goes_beyond_its_mark() -> IdentityTable:
    return IdentityTable(mark=48)


@damage("identity.high-water-mark")
def identity_has_values_and_no_mark() -> IdentityTable:
    return IdentityTable(mark=None)


@damage("identity.high-water-mark")
def identity_is_off_its_steps() -> IdentityTable:
    return IdentityTable(step=2)


@damage("identity.high-water-mark")
def identity_lies_before_its_start() -> IdentityTable:
    table = IdentityTable()
    table.put_rows(table.add(3), _with_ids([9, *range(41, 50)]), 3)
    return table


@damage("identity.high-water-mark")
def identity_comes_twice() -> IdentityTable:
    table = IdentityTable()
    table.put_rows(table.add(3), _with_ids([29, *range(41, 50)]), 3)
    return table


@damage("data.partition-column-differs")
def file_holds_another_partition_value() -> MaterialisedTable:
    table = MaterialisedTable()
    table.store_values(3, ["b"] * 9 + ["c"])
    return table


@damage("data.partition-column-differs")
def file_holds_no_partition_value() -> MaterialisedTable:
    table = MaterialisedTable()
    table.store_values(3, ["b"] * 9 + [None])
    return table


def _with_ids(ids: list[int]) -> Rows:
    return rows_of(4).set_column(0, "id", pa.array(ids, pa.int64()))
