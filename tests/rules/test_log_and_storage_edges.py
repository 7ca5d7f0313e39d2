"""Where the rules about logs, files and times begin to report, and what they leave alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.delta.paths.spelling_columns import locate_all
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import Severity
from deltacli.storage import open_storage
from tests.rules.corruptions_change_data import FeedTable, OldFeedTable, deletion_vector_in_a_growing_table
from tests.rules.corruptions_commit_times import LateTable, ManagedTable, TimedTable
from tests.rules.corruptions_history import WEEK_MS, log_was_cleaned, vacuumed
from tests.rules.corruptions_log_files import DAY_MS, OldTable, bare, commit
from tests.rules.corruptions_row_tracking import tracked_table
from tests.rules.corruptions_storage import RecentTable
from tests.rules.table_builder import NOW_MS, START_MS, TableBuilder
from tests.support.validating import validate_table

SKEW_MS = 300_000
SILENT: list[tuple[str, Callable[[], TableBuilder]]] = []
LOUD: list[tuple[str, Callable[[], TableBuilder]]] = []


def silent(rule: str) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a table on which a rule has just nothing to say."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        SILENT.append((rule, make))
        return make

    return register


def loud(rule: str) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a table on which a rule has just something to say."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        LOUD.append((rule, make))
        return make

    return register


def inspect(table: TableBuilder, root: Path) -> Validation:
    storage = open_storage(str(table.write(root)))
    return validate_table(storage, EmbeddedEngine(), level="storage", now_ms=NOW_MS)


def severities(found: Validation) -> dict[str, Severity]:
    return {finding.rule.id: finding.severity for finding in found.findings}


@silent("log.temp-leftover")
def temporary_file_of_one_day() -> TableBuilder:
    table = TableBuilder()
    table.put("_delta_log/.x.tmp", b"", modified_ms=NOW_MS - DAY_MS)
    return table


@silent("log.name-unknown")
def young_temporary_file() -> TableBuilder:
    table = TableBuilder()
    table.put(f"_delta_log/{4:020d}.json#1", b"")
    return table


@silent("log.mtime-future")
def files_within_the_skew() -> TableBuilder:
    table = TableBuilder()
    table.touch(commit(3), NOW_MS + SKEW_MS)
    table.touch(table.add(3)["path"], NOW_MS + SKEW_MS)
    return table


@silent("log.mtime-future")
def hidden_file_of_the_future() -> TableBuilder:
    table = TableBuilder()
    table.put("_temporary/part-00000.parquet", b"PAR1", modified_ms=NOW_MS + DAY_MS)
    return table


@silent("log.mtime-vs-commitinfo")
def commit_file_of_one_day_before() -> TableBuilder:
    table = TableBuilder()
    table.touch(commit(0), START_MS - DAY_MS)
    return table


@silent("log.mtime-order")
def in_commit_timestamps_need_no_file_times() -> TableBuilder:
    table = TimedTable()
    table.touch(commit(3), table.time_of(2))
    return table


@silent("log.version-too-large")
def a_million_versions() -> TableBuilder:
    table = TableBuilder()
    table.put(commit(1_000_003), json.dumps(table.info(4)), modified_ms=NOW_MS)
    return table


@silent("log.cleanup-overdue")
def nothing_below_the_old_checkpoint() -> TableBuilder:
    table = OldTable()
    table.checkpoint_version = 0
    return table


@silent("log.cleanup-overdue")
def cleanup_is_off() -> TableBuilder:
    table = OldTable()
    table.configure({"delta.enableExpiredLogCleanup": "false"})
    return table


@silent("log.cleanup-overdue")
def log_within_its_retention() -> TableBuilder:
    return RecentTable()


@silent("log.staged-stale")
def staged_commit_after_the_checkpoint() -> TableBuilder:
    table = ManagedTable()
    table.put(f"_delta_log/_staged_commits/{3:020d}.1b1c2f6e-0d5a-4c1e-9f43-3a2b1c0d9e8f.json", b"{}\n")
    return table


@silent("rowtracking.preserved-tag")
def commit_of_adds_that_does_not_tell() -> TableBuilder:
    """There are no rows whose ids could be preserved."""
    table = tracked_table()
    del table.action(3, "commitInfo")["tags"]
    return table


@silent("rowtracking.preserved-tag")
def commit_of_removes_that_does_not_tell() -> TableBuilder:
    table = tracked_table()
    del table.action(2, "commitInfo")["tags"]
    table.commits[2] = [action for action in table.commits[2] if "add" not in action]
    return table


def randomly_placed(path: str, **properties: str) -> TableBuilder:
    """A table with change data at a path."""
    table = FeedTable()
    table.action(2, "cdc")["path"] = path
    table.configure({**properties})
    return table


@silent("cdc.location")
def change_data_below_a_random_prefix() -> TableBuilder:
    return randomly_placed("fG/cdc-00001.parquet", **{"delta.randomizeFilePrefixes": "true"})


@silent("cdc.location")
def change_data_below_a_longer_random_prefix() -> TableBuilder:
    longer = {"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "4"}
    return randomly_placed("fGx9/cdc-00001.parquet", **longer)


@loud("cdc.location")
def change_data_below_a_random_prefix_of_a_table_without() -> TableBuilder:
    return randomly_placed("fG/cdc-00001.parquet")


@loud("cdc.location")
def change_data_below_a_name_that_is_no_random_prefix() -> TableBuilder:
    return randomly_placed("p=a/cdc-00001.parquet", **{"delta.randomizeFilePrefixes": "true"})


@silent("log.gap")
def only_a_checkpoint_stands_between() -> TableBuilder:
    table = TableBuilder()
    table.drop(commit(2))
    return table


@silent("history.restore-risk")
def checkpoint_stands_for_its_commit() -> TableBuilder:
    return only_a_checkpoint_stands_between()


@silent("data.modified-after-add")
def file_within_the_skew() -> TableBuilder:
    table = TableBuilder()
    table.touch(table.add(3)["path"], table.time_of(3) + SKEW_MS)
    return table


@silent("data.modified-after-add")
def copied_table() -> TableBuilder:
    table = TableBuilder()
    for version in table.commits:
        table.touch(commit(version), table.time_of(version) - 2 * DAY_MS)
    return table


@silent("data.small-files")
def ninety_nine_small_files() -> TableBuilder:
    table = TableBuilder()
    table.commits[3] += [table.new_add("c", 100 + number, 3) for number in range(96)]
    return table


@silent("data.expired-tombstone-present")
def tombstone_at_its_end() -> TableBuilder:
    table = RecentTable()
    table.action(2, "remove")["deletionTimestamp"] = NOW_MS - WEEK_MS
    return table


@silent("data.file-missing-tombstoned")
def tombstone_past_its_end() -> TableBuilder:
    table = RecentTable()
    remove = table.action(2, "remove")
    remove["deletionTimestamp"] = NOW_MS - WEEK_MS - 1
    table.drop(remove["path"])
    return table


@silent("log.mtime-future")
def hidden_directories_like_partitions_of_the_future() -> TableBuilder:
    table = TableBuilder()
    for path in ("_backup=2024/x.parquet", ".staging=1/x.parquet", "p=a/_tmp=1/x.parquet"):
        table.put(path, b"x", modified_ms=NOW_MS + DAY_MS)
    return table


@silent("data.orphan")
@silent("data.orphan-young")
@silent("dv.orphan")
def files_that_a_vacuum_keeps() -> TableBuilder:
    table = TableBuilder()
    vector = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    for path in ("_backup=2024/x.parquet", ".staging=1/x.parquet", f"_tmp/{vector}", f"inner/{vector}"):
        table.put(path, b"x", modified_ms=NOW_MS - 30 * DAY_MS)
    table.put("inner/_delta_log/00000000000000000000.json", b"x")
    return table


@silent("dv.orphan")
def a_vector_that_may_be_about_to_be_committed() -> TableBuilder:
    table = TableBuilder()
    table.put("deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", b"x", modified_ms=NOW_MS - DAY_MS)
    return table


@silent("data.orphan-young")
def names_that_no_vacuum_looks_at() -> TableBuilder:
    table = TableBuilder()
    for path in (
        "_SUCCESS",
        ".part-00001.parquet.crc",
        "p=a/_temporary/x.parquet",
        "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "metadata/v1.metadata.json",
        "metadata/x.parquet",
        "inner/_delta_log/00000000000000000000.json",
        "inner/part-00000.parquet",
        "p=a_$folder$",
    ):
        table.put(path, b"x")
    return table


def _rename(root: Path) -> None:
    (root / "p=a/left encoded.parquet").rename(root / "p=a/left%20encoded.parquet")


@silent("data.file-missing")
def paths_that_lead_into_the_table() -> TableBuilder:
    """Encoded, and left encoded in the name of the file (another rule says so)."""
    table = TableBuilder()
    table.add(3)["path"] = "p=b/a%20b%25.parquet"
    table.add(2)["path"] = "p=a/left%20encoded.parquet"
    table.edit_files(_rename)
    return table


@silent("history.vacuum-short-retention")
def vacuum_of_the_very_retention() -> TableBuilder:
    return vacuumed(specifiedRetentionMillis=WEEK_MS)


@silent("history.vacuum-start-without-end")
def two_vacuums_at_once() -> TableBuilder:
    table = vacuumed()
    table.commits[4], table.commits[5] = table.commits[4], table.commits[4]
    for operation in ("VACUUM END", "VACUUM END"):
        table.commit(operation=operation)
    return table


@silent("ict.future")
def timestamp_within_the_skew() -> TableBuilder:
    table = TimedTable()
    table.action(3, "commitInfo")["inCommitTimestamp"] = NOW_MS + SKEW_MS
    return table


@silent("ict.not-monotone")
def timestamp_one_later() -> TableBuilder:
    table = TimedTable()
    table.action(3, "commitInfo")["inCommitTimestamp"] = table.action(2, "commitInfo")["inCommitTimestamp"] + 1
    return table


@silent("ict.enable-before-mtime")
def enabling_is_one_later_than_the_file_before() -> TableBuilder:
    table = LateTable()
    time = table.time_of(2) + 1
    table.action(3, "commitInfo")["inCommitTimestamp"] = time
    table.action(3, "metaData")["configuration"]["delta.inCommitTimestampEnablementTimestamp"] = str(time)
    return table


@silent("ict.enablement-properties")
def enablement_is_told_rightly() -> TableBuilder:
    return LateTable()


@silent("cdc.missing-when-enabled")
def overwrite_of_whole_files() -> TableBuilder:
    table = FeedTable()
    table.commits[2].pop()
    table.action(2, "commitInfo").update(operation="WRITE")
    return table


@silent("cdc.missing-when-enabled")
def delete_that_copied_nothing() -> TableBuilder:
    table = FeedTable()
    table.commits[2].pop()
    table.action(2, "commitInfo").update(operation="DELETE", operationMetrics={"numCopiedRows": "0"})
    return table


@silent("appendonly.violated")
def rearranged_rows() -> TableBuilder:
    table = TableBuilder(properties={"delta.appendOnly": "true"})
    for kind in ("add", "remove"):
        table.action(2, kind)["dataChange"] = False
    return table


@silent("appendonly.violated")
def property_comes_with_the_removal() -> TableBuilder:
    table = TableBuilder()
    metadata = table.change_metadata()
    metadata["metaData"]["configuration"]["delta.appendOnly"] = "true"
    table.commits[2].insert(1, metadata)
    return table


@loud("appendonly.violated")
def property_goes_with_the_removal() -> TableBuilder:
    table = TableBuilder(properties={"delta.appendOnly": "true"})
    metadata = table.change_metadata()
    del metadata["metaData"]["configuration"]["delta.appendOnly"]
    table.commits[2].insert(1, metadata)
    return table


@silent("history.time-travel-broken")
def file_removed_by_the_oldest_version() -> TableBuilder:
    table = log_was_cleaned()
    table.drop(table.action(2, "remove")["path"])
    return table


@loud("log.cleanup-overdue")
def commit_as_old_as_the_retention() -> TableBuilder:
    """The clock stands at midnight, and so does what the retention cuts off."""
    table = RecentTable()
    for version, before_ms in ((0, 2), (1, 1), (2, 0)):
        table.touch(commit(version), NOW_MS - 30 * DAY_MS - before_ms)
    return table


@loud("data.file-missing-tombstoned")
def file_gone_at_the_end_of_its_tombstone() -> TableBuilder:
    table = tombstone_at_its_end()
    table.drop(table.action(2, "remove")["path"])
    return table


@loud("data.modified-after-add")
def file_modified_at_the_end_of_the_skew() -> TableBuilder:
    table = TableBuilder()
    table.touch(table.add(3)["path"], NOW_MS + SKEW_MS)
    return table


@loud("data.size-mismatch")
def add_of_no_bytes() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["size"] = 0
    return table


@loud("appendonly.dv-delete")
def vector_for_a_live_file_without_its_remove() -> TableBuilder:
    table = deletion_vector_in_a_growing_table()
    table.commits[2] = [action for action in table.commits[2] if "remove" not in action]
    return table


@pytest.mark.parametrize(("rule", "make"), LOUD, ids=lambda value: getattr(value, "__name__", value))
def test_a_rule_reports_from_its_threshold_on(rule: str, make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    assert rule in severities(inspect(make(), tmp_path / "t"))


@pytest.mark.parametrize(("rule", "make"), SILENT, ids=lambda value: getattr(value, "__name__", value))
def test_a_rule_leaves_alone_what_is_just_right(rule: str, make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make(), tmp_path / "t")

    assert [] == [finding.message for finding in found.findings if finding.rule.id == rule]


def test_a_gap_is_an_error_where_the_newest_version_needs_it_and_else_a_warning(tmp_path: Path) -> None:
    needed, old = bare(), TableBuilder()
    needed.drop(commit(2))
    old.drop(commit(1))

    assert Severity.ERROR == severities(inspect(needed, tmp_path / "needed"))["log.gap"]
    assert Severity.WARNING == severities(inspect(old, tmp_path / "old"))["log.gap"]


def test_change_data_that_a_vacuum_took_is_only_noted(tmp_path: Path) -> None:
    young, old = FeedTable(), OldFeedTable()
    for table in (young, old):
        table.drop(table.action(2, "cdc")["path"])
    edge = OldFeedTable()
    edge.drop(edge.action(2, "cdc")["path"])
    edge.touch(commit(2), NOW_MS - WEEK_MS)

    assert Severity.WARNING == severities(inspect(edge, tmp_path / "edge"))["cdc.file-missing"]
    assert Severity.WARNING == severities(inspect(young, tmp_path / "young"))["cdc.file-missing"]
    assert Severity.INFO == severities(inspect(old, tmp_path / "old"))["cdc.file-missing"]


def test_time_travel_names_the_newest_version_that_lacks_files(tmp_path: Path) -> None:
    table = RecentTable()
    table.drop(table.action(2, "remove")["path"])

    found = {finding.rule.id: finding for finding in inspect(table, tmp_path / "t").findings}

    assert 1 == found["history.time-travel-broken"].place.version
    assert "2" == found["history.restore-risk"].seen


def test_absolute_paths_inside_the_table_are_its_own_files(tmp_path: Path) -> None:
    root = tmp_path / "a table"
    table = TableBuilder()
    add = table.add(3)
    name = add["path"]
    add["path"] = f"{open_storage(str(root)).uri}/{name}"
    table.put(name, b"x" * add["size"], modified_ms=table.time_of(3))

    found = inspect(table, root)

    assert set() == {finding.rule.id for finding in found.findings if finding.rule.id.startswith("data.")}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("p=a%2520b/x", "p=a%20b/x"),
        ("a//./b", "a/b"),
        ("file:/lake/t/x%20y", "x y"),
        ("/lake/t/x", "x"),
        ("file:///lake/tt/x", None),
        ("../x", None),
        ("_delta_log/x", None),
        ("", None),
        ("t%3A1/x", "t:1/x"),
        ("\ud800", None),
        (7, None),
    ],
)
def test_paths_are_located_relative_to_the_table(path: object, expected: str | None) -> None:
    assert [expected] == locate_all([path], "file:///lake/t")
