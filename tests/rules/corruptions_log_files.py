"""Damages of the log's files: what is missing, misnamed, left over or of an odd time."""

from __future__ import annotations

import json
import shutil

from tests.rules.corruptions import damage
from tests.rules.corruptions_commit_times import ManagedTable
from tests.rules.table_builder import NOW_MS, START_MS, TableBuilder

DAY_MS = 86_400_000
UUID = "1b1c2f6e-0d5a-4c1e-9f43-3a2b1c0d9e8f"


class OldTable(TableBuilder):
    """A table whose commits were made some days before `now`."""

    days = 40

    @classmethod
    def time_of(cls, version: int) -> int:
        return TableBuilder.time_of(version) - cls.days * DAY_MS


def commit(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def bare() -> TableBuilder:
    """Commits and data files alone."""
    return TableBuilder().derive(checkpoint=False, checksums=False)


@damage("log.not-a-table")
def no_log_at_all() -> TableBuilder:
    table = TableBuilder()
    table.edit_files(lambda root: shutil.rmtree(root / "_delta_log"))
    return table


@damage("log.not-a-table")
def log_without_usable_file() -> TableBuilder:
    table = bare()
    for version in table.commits:
        table.drop(commit(version))
    return table


@damage("log.gap")
def commit_is_missing_below_the_newest() -> TableBuilder:
    table = bare()
    table.drop(commit(2))
    return table


# The versions below the gap's checkpoint are the ones that can't be read: that observation comes with it.
@damage("log.gap", also=("history.restore-risk",))
def commit_is_missing_below_the_checkpoint() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.drop(commit(1))
    return table


@damage("log.start-missing")
def first_commit_is_missing() -> TableBuilder:
    table = bare()
    table.drop(commit(0))
    return table


@damage("log.checkpoint-commit-missing")
def commit_is_missing_beside_its_checkpoint() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.drop(commit(2))
    return table


# The checkpoint's own rule says that it came before its commit, or outlived it.
@damage("log.checkpoint-commit-missing", also=("checkpoint.without-commit",))
def newest_commit_is_missing_beside_its_checkpoint() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.checkpoint_version = 3
    table.drop(commit(3))
    return table


@damage("log.name-not-padded")
def commit_without_leading_zeros() -> TableBuilder:
    table = TableBuilder()
    table.put("_delta_log/4.json", b"{}\n")
    return table


@damage("log.name-not-padded")
def checkpoint_of_21_digits() -> TableBuilder:
    table = TableBuilder()
    table.put(f"_delta_log/{2:021d}.checkpoint.parquet", b"PAR1")
    return table


@damage("log.version-too-large")
def version_beyond_64_bits() -> TableBuilder:
    table = TableBuilder()
    table.put(f"_delta_log/{2**63:020d}.json", b"{}\n")
    return table


@damage("log.version-too-large")
def version_that_nobody_counted_up_to() -> TableBuilder:
    table = TableBuilder()
    table.put(commit(1_000_004), json.dumps(table.info(4)), modified_ms=NOW_MS)
    return table


@damage("log.name-mistaken")
def temporary_file_with_the_name_of_a_commit() -> TableBuilder:
    table = bare()
    table.put("_delta_log/00000000000000000009.tmp.json", b"{}")
    return table


@damage("log.name-unknown")
def note_in_the_log() -> TableBuilder:
    table = TableBuilder()
    table.put("_delta_log/notes.txt", b"remember the milk")
    return table


@damage("log.temp-leftover")
def temporary_file_of_last_week() -> TableBuilder:
    table = TableBuilder()
    table.put(f"_delta_log/.{3:020d}.json.{UUID}.tmp", b"{", modified_ms=NOW_MS - 7 * DAY_MS)
    return table


@damage("log.temp-leftover")
def checksum_of_hadoop() -> TableBuilder:
    table = TableBuilder()
    table.put(f"_delta_log/.{3:020d}.json.crc", b"crc\0", modified_ms=NOW_MS - DAY_MS - 1)
    return table


@damage("log.subdir-unknown")
def directory_in_the_log() -> TableBuilder:
    table = TableBuilder()
    table.put("_delta_log/backup/notes.txt", b"")
    return table


@damage("log.staged-without-feature")
def staged_commit_of_a_plain_table() -> TableBuilder:
    table = TableBuilder()
    table.put(f"_delta_log/_staged_commits/{4:020d}.{UUID}.json", b"{}\n")
    return table


# That a catalog manages the table is always said.
@damage("log.staged-stale", also=("catalog.unpublished-possible",))
def staged_commit_of_the_checkpoint() -> TableBuilder:
    table = ManagedTable()
    table.put(f"_delta_log/_staged_commits/{2:020d}.{UUID}.json", b"{}\n")
    return table


@damage("log.staged-name", also=("catalog.unpublished-possible",))
def staged_commit_without_uuid() -> TableBuilder:
    table = ManagedTable()
    table.put(f"_delta_log/_staged_commits/{4:020d}.json", b"{}\n")
    return table


@damage("log.mtime-order")
def commit_file_as_old_as_the_one_before() -> TableBuilder:
    table = TableBuilder()
    table.touch(commit(3), table.time_of(2))
    return table


@damage("log.mtime-future")
def commit_file_of_the_future() -> TableBuilder:
    table = TableBuilder()
    table.touch(commit(3), NOW_MS + 300_001)
    return table


@damage("log.mtime-future")
def data_file_of_the_future() -> TableBuilder:
    table = TableBuilder()
    table.touch(table.add(3)["path"], NOW_MS + 300_001)
    return table


@damage("log.mtime-vs-commitinfo")
def copied_commit_file() -> TableBuilder:
    table = TableBuilder()
    table.touch(commit(0), START_MS - DAY_MS - 1)
    return table


@damage("log.cleanup-overdue")
def commits_of_last_month_below_a_checkpoint() -> TableBuilder:
    table = OldTable()
    table.commits[2] = [action for action in table.commits[2] if "remove" not in action]
    return table


@damage("log.no-checkpoint-long")
def hundred_and_one_commits_without_checkpoint() -> TableBuilder:
    table = bare()
    commit_often(table, 101)
    return table


def commit_often(table: TableBuilder, count: int) -> None:
    """Go on until there are so many commits."""
    while len(table.commits) < count:
        version = len(table.commits)
        table.commit({"txn": {"appId": "stream", "version": version, "lastUpdated": table.time_of(version)}})


@damage("log.nested-table")
def table_inside_the_table() -> TableBuilder:
    table = TableBuilder()
    table.put(f"inner/{commit(0)}", b"{}\n")
    table.put("inner/part-00000.parquet", b"PAR1")
    return table
