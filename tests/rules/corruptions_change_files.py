"""Damages of what lies in files of change data."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tests.rules.corruptions import damage
from tests.rules.corruptions_change_data import FEED, WITH_FEED
from tests.rules.data_table import DataTable, Rows, encoded, rows_of

KINDS = ("insert", "delete", "update_preimage", "update_postimage") + 3 * ("insert", "delete")


class ChangedTable(DataTable):
    """Its second version has two files of change data."""

    def __init__(self) -> None:
        super().__init__(protocol=dict(WITH_FEED), properties=FEED)
        self.add_changes(1, changes_of(KINDS))
        self.add_changes(2, changes_of(("update_postimage", "update_preimage")))

    def add_changes(self, number: int, rows: Rows) -> None:
        """Give version 2 a file of change data."""
        path = f"_change_data/p=a/cdc-{number:05d}.parquet"
        self.bytes[path] = encoded(rows)
        cdc = {"path": path, "partitionValues": {"p": "a"}, "size": len(self.bytes[path]), "dataChange": False}
        self.commits[2] = [action for action in self.commits[2] if action.get("cdc", {}).get("path") != path]
        self.commits[2].append({"cdc": cdc})


def changes_of(kinds: Sequence[str | None]) -> Rows:
    """Rows with these kinds of changes."""
    return rows_of(3).slice(0, len(kinds)).append_column("_change_type", pa.array(kinds, pa.string()))


@damage("cdc.no-change-type")
def changes_without_their_kind() -> ChangedTable:
    table = ChangedTable()
    table.add_changes(1, rows_of(3))
    return table


@damage("cdc.no-change-type")
def changes_whose_kind_is_a_number() -> ChangedTable:
    table = ChangedTable()
    table.add_changes(1, rows_of(3).append_column("_change_type", pa.array(range(10), pa.int64())))
    return table


@damage("cdc.bad-change-type")
def change_of_an_unknown_kind() -> ChangedTable:
    table = ChangedTable()
    table.add_changes(1, changes_of((*KINDS[:-1], "update")))
    return table


@damage("cdc.bad-change-type")
def change_of_no_kind() -> ChangedTable:
    table = ChangedTable()
    table.add_changes(1, changes_of((*KINDS[:-1], None)))
    return table


@damage("cdc.pre-post-unbalanced")
def update_without_its_image_after_it() -> ChangedTable:
    table = ChangedTable()
    table.add_changes(2, changes_of(("update_preimage", "delete")))
    return table


@damage("cdc.pre-post-unbalanced")
def insert_that_no_file_holds() -> ChangedTable:
    table = ChangedTable()
    table.add_changes(2, changes_of(("update_postimage", "update_preimage", "insert")))
    return table


@damage("data.not-parquet")
def change_data_of_zeros() -> ChangedTable:
    table = ChangedTable()
    table.bytes[table.action(2, "cdc")["path"]] = bytes(1000)
    table.action(2, "cdc")["size"] = 1000
    return table
