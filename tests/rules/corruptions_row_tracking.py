"""Damages of row tracking: each table has row ids, a high water mark, and commits that tell what becomes of ids."""

from __future__ import annotations

import json

from tests.rules.corruptions import damage
from tests.rules.table_builder import Action, TableBuilder

PROPERTIES = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}
PROTOCOL: Action = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata", "rowTracking"]}


def mark(value: object) -> Action:
    configuration = json.dumps({"rowIdHighWaterMark": value})
    return {"domainMetadata": {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}}


def tracked_table(properties: dict[str, str] | None = None) -> TableBuilder:
    """Ten row ids for each file: 0 to 19 in version 1, 20 to 29 in version 2, 30 to 39 in version 3."""
    table = TableBuilder(protocol=dict(PROTOCOL), properties=PROPERTIES | (properties or {}))
    first = 0
    for version in (1, 2, 3):
        table.action(version, "commitInfo")["tags"] = {"delta.rowTracking.preserved": "true"}
        for action in table.commits[version]:
            if "add" in action:
                action["add"] |= {"baseRowId": first, "defaultRowCommitVersion": version}
                first += 10
        table.commits[version].append(mark(first - 1))
    table.action(2, "remove").update(baseRowId=0, defaultRowCommitVersion=1)
    return table


def again(table: TableBuilder, **changes: object) -> Action:
    """The file of version 3, to be added again with other fields."""
    return {"add": {**table.add(3), "dataChange": False, **changes}}


def tagged(table: TableBuilder, *actions: Action) -> int:
    version = table.commit(*actions, operation="COMPUTE STATS")
    table.action(version, "commitInfo")["tags"] = {"delta.rowTracking.preserved": "true"}
    return version


@damage("rowtracking.base-row-id-missing")
def file_without_base_row_id() -> TableBuilder:
    table = tracked_table()
    del table.add(3)["baseRowId"]
    return table


@damage("rowtracking.base-row-id-missing")
def file_without_row_commit_version() -> TableBuilder:
    """The file of the checkpoint lacks it."""
    table = tracked_table()
    del table.add(1, 1)["defaultRowCommitVersion"]
    return table


@damage("rowtracking.overlap")
def last_row_id_of_another_file() -> TableBuilder:
    """Ids 29 to 38 and 20 to 29: one id occurs twice."""
    table = tracked_table()
    table.add(3)["baseRowId"] = 29
    return table


@damage("rowtracking.high-water-mark")
def mark_one_below_the_highest_id() -> TableBuilder:
    table = tracked_table()
    table.commits[3][-1] = mark(38)
    return table


@damage("rowtracking.high-water-mark")
def no_mark_at_all() -> TableBuilder:
    table = tracked_table()
    for version in (1, 2, 3):
        del table.commits[version][-1]
    return table


@damage("rowtracking.high-water-mark")
def mark_that_is_no_number() -> TableBuilder:
    table = tracked_table()
    table.commits[3][-1] = mark("39")
    return table


@damage("rowtracking.high-water-mark")
def ids_beyond_the_largest_number() -> TableBuilder:
    """Ten rows from the last but one number on: their ids are negative if nobody looks."""
    table = tracked_table()
    table.add(3)["baseRowId"] = (1 << 63) - 2
    table.commits[3][-1] = mark((1 << 63) - 1)
    return table


@damage("rowtracking.high-water-mark-decreased")
def mark_goes_down() -> TableBuilder:
    """Still above every id that is in use."""
    table = tracked_table()
    table.commits[2][-1] = mark(99)
    table.commits[3][-1] = mark(98)
    return table


@damage("rowtracking.commit-version")
def commit_version_of_the_future() -> TableBuilder:
    table = tracked_table()
    table.add(3)["defaultRowCommitVersion"] = 4
    return table


@damage("rowtracking.commit-version")
def commit_version_of_an_older_add_changes() -> TableBuilder:
    table = tracked_table()
    tagged(table, again(table, defaultRowCommitVersion=4))
    return table


@damage("rowtracking.base-row-id-changed")
def added_again_with_other_row_ids() -> TableBuilder:
    table = tracked_table()
    tagged(table, again(table, baseRowId=40), mark(49))
    return table


@damage("rowtracking.base-row-id-changed")
def removed_with_other_row_ids() -> TableBuilder:
    table = tracked_table()
    table.action(2, "remove")["baseRowId"] = 5
    return table


@damage("rowtracking.column-names")
def name_of_a_column() -> TableBuilder:
    return tracked_table({"delta.rowTracking.materializedRowIdColumnName": "NAME"})


@damage("rowtracking.column-names")
def one_name_for_both() -> TableBuilder:
    return tracked_table({"delta.rowTracking.materializedRowCommitVersionColumnName": "_row-id-col-1"})


@damage("rowtracking.column-names")
def no_name_for_row_ids() -> TableBuilder:
    table = tracked_table()
    table.configure({"delta.rowTracking.materializedRowIdColumnName": None})
    return table


@damage("rowtracking.suspended-and-enabled")
def on_and_suspended() -> TableBuilder:
    return tracked_table({"delta.rowTrackingSuspended": "true"})


@damage("rowtracking.preserved-tag")
def commit_that_does_not_tell() -> TableBuilder:
    table = tracked_table()
    del table.action(2, "commitInfo")["tags"]
    return table
