"""Damages of a table's history: vacuums, writers, and versions that can't be read any more."""

from __future__ import annotations

from typing import Any

from tests.rules.corruptions import damage
from tests.rules.corruptions_log_files import commit_often
from tests.rules.corruptions_storage import RecentTable
from tests.rules.table_builder import TableBuilder

WEEK_MS = 7 * 86_400_000


def vacuumed(**parameters: Any) -> TableBuilder:
    """A table that was vacuumed with these parameters."""
    table = TableBuilder()
    start = table.commit(operation="VACUUM START")
    defaults = {"retentionCheckEnabled": True, "defaultRetentionMillis": WEEK_MS}
    table.action(start, "commitInfo")["operationParameters"] = defaults | parameters
    end = table.commit(operation="VACUUM END")
    table.action(end, "commitInfo")["operationParameters"] = {"status": "COMPLETED"}
    return table


@damage("history.operation-missing")
def commit_info_without_operation() -> TableBuilder:
    table = TableBuilder()
    del table.action(3, "commitInfo")["operation"]
    return table


@damage("history.vacuum-start-without-end")
def vacuum_was_broken_off() -> TableBuilder:
    table = vacuumed()
    del table.commits[5]
    return table


@damage("history.vacuum-short-retention")
def vacuum_one_millisecond_too_short() -> TableBuilder:
    return vacuumed(specifiedRetentionMillis=str(WEEK_MS - 1))


@damage("history.vacuum-short-retention")
def vacuum_without_check() -> TableBuilder:
    return vacuumed(retentionCheckEnabled=False, specifiedRetentionMillis=WEEK_MS)


# Versions below the removal can't be read: how far back one can go is told as well.
@damage("history.time-travel-broken", also=("history.restore-risk",))
def removed_file_was_vacuumed() -> TableBuilder:
    table = RecentTable()
    table.drop(table.action(2, "remove")["path"])
    return table


# With the older commits gone there is nothing to compare the checkpoint with.
@damage("history.restore-risk", also=("checkpoint.replay-unavailable",))
def log_was_cleaned() -> TableBuilder:
    table = TableBuilder()
    for version in (0, 1):
        table.drop(f"_delta_log/{version:020d}.json")
        table.drop(f"_delta_log/{version:020d}.crc")
    return table


@damage("history.writer-mix")
def second_engine() -> TableBuilder:
    table = TableBuilder()
    table.action(3, "commitInfo")["engineInfo"] = "other/2.0"
    return table


@damage("history.concurrent-version-hole")
def commit_on_a_version_far_below() -> TableBuilder:
    table = TableBuilder()
    commit_often(table, 14)
    table.action(13, "commitInfo").update(readVersion=1, isBlindAppend=False)
    return table
