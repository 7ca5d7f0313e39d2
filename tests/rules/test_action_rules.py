"""Rules about actions, paths and compactions where they must stay silent, and at their limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.log.state import TableConfiguration
from deltacli.operations.validate.log_reader import next_config
from deltacli.rules.actions.commit_contents import MOST_ACTIONS, MOST_BYTES, commits_too_large_to_hold, provenance
from deltacli.rules.framework.base import Severity
from deltacli.rules.framework.views import CommitView, LocatedAction
from deltacli.rules.paths import faults_of_path, suspicious
from tests.rules.corruptions_actions import (
    DAY_MS,
    INLINE_VECTOR,
    again,
    another_vector_without_a_remove,
    domain,
    edit_first_add,
    resize,
    with_domains,
    with_features,
    with_vectors,
    without_the_first_commits,
)
from tests.rules.corruptions_compactions import compact, healthy
from tests.rules.table_builder import NOW_MS, TableBuilder
from tests.rules.test_corruptions import inspect, rules_of

HOUR_MS = 3_600_000


def a_commit(**changes: Any) -> CommitView:
    view = CommitView(
        version=3,
        size_bytes=100,
        modified_ms=NOW_MS,
        others=[],
        adds=[],
        removes=[],
        first_kind=None,
        before=TableConfiguration(),
        after=TableConfiguration(),
        live_at=lambda _: [],
    )
    return replace(view, **changes)


def test_a_commit_is_huge_above_a_gigabyte_or_a_million_actions() -> None:
    few, many = [LocatedAction("add", {}, 1)] * MOST_ACTIONS, [LocatedAction("add", {}, 1)] * (MOST_ACTIONS + 1)

    silent = [
        *commits_too_large_to_hold(a_commit(size_bytes=MOST_BYTES)),
        *commits_too_large_to_hold(a_commit(adds=few)),
    ]
    reported = [
        *commits_too_large_to_hold(a_commit(size_bytes=MOST_BYTES + 1)),
        *commits_too_large_to_hold(a_commit(adds=few, removes=few[:1])),
        *commits_too_large_to_hold(a_commit(adds=many)),
    ]

    assert [] == silent
    assert ["commit.huge"] * 3 == [finding.rule.id for finding in reported]


def test_a_missing_commit_info_weighs_more_where_row_ids_are_tracked() -> None:
    table = with_features("rowTracking", "domainMetadata", enableRowTracking="true")
    config = config_of(table)

    found = list(provenance(a_commit(after=config)))

    assert [Severity.WARNING] == [finding.severity for finding in found]


def test_a_missing_commit_info_is_the_matter_of_another_rule_under_in_commit_timestamps() -> None:
    table = with_features("inCommitTimestamp", enableInCommitTimestamps="true")

    assert [] == list(provenance(a_commit(after=config_of(table))))


def config_of(table: TableBuilder) -> TableConfiguration:
    placed = [LocatedAction("protocol", table.protocol, 1), LocatedAction("metaData", table.metadata, 2)]
    return next_config(TableConfiguration(), placed, 0)


# -- tables that are in order -----------------------------------------------------------------------------------------


def files_of_the_earliest_and_latest_time() -> TableBuilder:
    table = TableBuilder()
    table.add(1)["modificationTime"] = 100_000_000_000
    table.add(3)["modificationTime"] = table.time_of(3) + DAY_MS
    return table


def checkpoint_with_a_file_of_the_latest_time() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.edit_rows(edit_first_add(modificationTime=NOW_MS + DAY_MS))
    return without_the_first_commits(table)


def remove_an_hour_late() -> TableBuilder:
    table = TableBuilder()
    table.action(2, "remove")["deletionTimestamp"] = table.time_of(2) + HOUR_MS
    return table


def remove_an_hour_early() -> TableBuilder:
    table = TableBuilder()
    table.action(2, "remove")["deletionTimestamp"] = table.add(1)["modificationTime"] - HOUR_MS
    return table


def short_remove() -> TableBuilder:
    """A remove as old writers made it has a size at most."""
    table = TableBuilder()
    for name in ("extendedFileMetadata", "partitionValues"):
        del table.action(2, "remove")[name]
    return table


def file_described_anew() -> TableBuilder:
    """Adding a live file again replaces its statistics."""
    table = TableBuilder()
    time = table.time_of(1) - 1000
    stats = json.dumps({"numRecords": 10})
    table.commit(table.new_add("b", 2, 4, dataChange=False, modificationTime=time, stats=stats))
    return table


def files_put_together() -> TableBuilder:
    """Two files become one, with as many rows."""
    table = TableBuilder()
    removes = [table.new_remove("b", number, 4, dataChange=False) for number in (2, 4)]
    stats = json.dumps({"numRecords": 20})
    table.commit(*removes, table.new_add("b", 5, 4, dataChange=False, stats=stats), operation="OPTIMIZE")
    return table


def files_put_together_without_statistics() -> TableBuilder:
    table = TableBuilder()
    add = table.new_add("b", 5, 4, dataChange=False)
    del add["add"]["stats"]
    table.commit(table.new_remove("b", 2, 4, dataChange=False), add, operation="OPTIMIZE")
    return table


def hidden_rows_purged() -> TableBuilder:
    """Rows hidden by a deletion vector do not count."""
    table = with_vectors()
    table.commit(
        table.new_remove("b", 2, 5, dataChange=False, deletionVector=INLINE_VECTOR),
        table.new_add("b", 5, 5, dataChange=False, stats=json.dumps({"numRecords": 4})),
        operation="REORG",
    )
    return table


def vector_replaced() -> TableBuilder:
    table = with_vectors()
    table.commit(
        table.new_remove("b", 2, 5, deletionVector=INLINE_VECTOR),
        again(table, 5, INLINE_VECTOR | {"pathOrInlineDv": "0rr91" + "0" * 50}),
        operation="DELETE",
    )
    return table


def removed_file_restored() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_add("a", 1, 4, modificationTime=table.time_of(1) - 1000), operation="RESTORE")
    return table


def application_that_stands_still() -> TableBuilder:
    table = TableBuilder()
    for version in (1, 3):
        table.commits[version].append({"txn": {"appId": "stream", "version": 5}})
    return table


def as_many_applications_as_may_be() -> TableBuilder:
    table = TableBuilder()
    table.commits[3] += [{"txn": {"appId": f"run-{number}", "version": 1}} for number in range(10_000)]
    return table


def expired_applications() -> TableBuilder:
    table = TableBuilder(properties={"delta.setTransactionRetentionDuration": "interval 1 day"})
    updated = NOW_MS - DAY_MS
    table.commits[3] += [
        {"txn": {"appId": f"run-{number}", "version": 1, "lastUpdated": updated}} for number in range(10_001)
    ]
    return table


def removed_domain() -> TableBuilder:
    table = with_domains()
    table.commit(domain("app.settings", "{}", removed=True))
    return table


def commits_compacted() -> TableBuilder:
    return compact(healthy(), 1, 4)


def compaction_with_less_said() -> TableBuilder:
    """Statistics, dataChange and fields without a value are up to the writer."""

    def edit(actions: list[dict[str, Any]]) -> None:
        for action in actions:
            if "add" in action:
                action["add"].pop("stats")
                action["add"] |= {"dataChange": False, "tags": {}, "baseRowId": None}
            if "metaData" in action:
                action["metaData"] |= {"name": None}

    return compact(healthy(), 1, 4, edit)


def compaction_after_the_oldest_checkpoint() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.commit(table.new_add("b", 5, 4))
    return without_the_first_commits(compact(table, 3, 4))


def empty_file_of_a_table_of_csv() -> TableBuilder:
    table = TableBuilder()
    table.metadata["format"] = {"provider": "csv", "options": {}}
    table.add(3)["size"] = 0
    resize(table, table.path_of("b", 4), 0)
    return table


@pytest.mark.parametrize(
    "make",
    [
        files_of_the_earliest_and_latest_time,
        checkpoint_with_a_file_of_the_latest_time,
        remove_an_hour_late,
        remove_an_hour_early,
        short_remove,
        file_described_anew,
        files_put_together,
        files_put_together_without_statistics,
        hidden_rows_purged,
        vector_replaced,
        removed_file_restored,
        application_that_stands_still,
        as_many_applications_as_may_be,
        expired_applications,
        removed_domain,
        commits_compacted,
        compaction_with_less_said,
        compaction_after_the_oldest_checkpoint,
        empty_file_of_a_table_of_csv,
    ],
    ids=lambda make: make.__name__,
)
def test_valid_values_are_not_reported(make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    """
    Only these areas count: other rules have their own opinion on such tables.
    """
    found = rules_of(inspect(make().write(tmp_path / "t")))

    areas = ("commit.", "commitinfo.", "action.", "txn.", "domain.", "path.", "compaction.", "validate.")
    assert set() == {rule for rule in found if rule.startswith(areas)}


# -- paths ------------------------------------------------------------------------------------------------------------

PLAIN_PATHS = (
    "part-00000-3935a07c.c000.snappy.parquet",
    "p=a/q=2020-01-01%2000%253A00/part-0.parquet",
    "rate=5%25/part-0.parquet",
    "city=M%C3%BCnchen/part-0.parquet",
    "a..b/c../part-0.parquet",
    "_p=1/part-0.parquet",
    "p=_x/_part-0.parquet",
    "Ab/x(1),~'!*;&+$@=:.parquet",
    "00000000000000000001.parquet",
)


@pytest.mark.parametrize("path", PLAIN_PATHS)
def test_plain_paths_are_valid(path: str) -> None:
    assert [] == list(faults_of_path(path, "file:///t"))


@pytest.mark.parametrize(
    ("path", "rules"),
    [
        ("%", ["path.bad-encoding"]),
        ("a%F", ["path.bad-encoding"]),
        ("a%C3", ["path.bad-encoding"]),
        ("%ED%A0%80", ["path.bad-encoding"]),
        ("a b", ["path.not-encoded"]),
        ("a\tb", ["path.not-encoded"]),
        ("a?b", ["path.not-encoded"]),
        ("\u65e5\u672c", ["path.not-encoded"]),
        ("..", ["path.escapes-root"]),
        ("a/../..", ["path.escapes-root"]),
        ("%2e%2E/a", ["path.escapes-root"]),
        (".", ["path.not-normalised"]),
        ("a/./b", ["path.not-normalised"]),
        ("a/..", ["path.not-normalised"]),
        ("a/", ["path.not-normalised"]),
        ("a\\b", ["path.not-encoded", "path.not-normalised"]),
        ("a:b/c", ["path.colon"]),
        ("1:2", ["path.colon"]),
        (":a", ["path.colon"]),
        ("./a:b", ["path.not-normalised"]),
        ("a\u00a0b", ["path.not-encoded"]),
        ("s3:/a", ["path.absolute"]),
        ("a//b", ["path.not-normalised"]),
        ("//host/a", ["path.not-normalised", "path.absolute"]),
        ("/x/a", ["path.absolute"]),
        ("s3a://bucket/x//a", ["path.not-normalised", "path.absolute"]),
        ("s3a://bucket/table/a", ["path.absolute-inside-root"]),
        ("s3://bucket/tables/a", ["path.absolute"]),
        ("_x/a", ["path.hidden-location"]),
        ("a/.x/b", ["path.hidden-location"]),
        ("a/_delta_log/b", ["path.reserved-name"]),
        ("a/00000000000000000001.json", ["path.reserved-name"]),
        ("_last_checkpoint", ["path.reserved-name"]),
    ],
)
def test_each_fault_of_a_path_is_seen_in_columns_and_alone(path: str, rules: list[str]) -> None:
    import pyarrow as pa

    column = pa.array(["plain", path, "a%20b"], pa.string())

    assert [False, True, False] == suspicious(column).to_pylist()
    assert rules == [fault.rule.id for fault in faults_of_path(path, "s3://bucket/table")]


def test_plain_paths_are_not_looked_at_one_by_one() -> None:
    import pyarrow as pa

    assert not any(suspicious(pa.array(PLAIN_PATHS, pa.string())).to_pylist())


# -- faults beside each other -----------------------------------------------------------------------------------------


def test_a_compaction_keeps_the_add_of_a_commit_that_also_removes_the_file(tmp_path: Path) -> None:
    table = TableBuilder()
    add = table.new_add("b", 5, 4)
    table.commit(add, table.new_remove("b", 5, 4))

    def edit(actions: list[dict[str, Any]]) -> None:
        actions[:] = [action for action in actions if "remove" not in action or "00001" in action["remove"]["path"]]
        actions.append(add)

    table = compact(table.derive(checksums=False), 2, 4, edit)

    found = rules_of(inspect(table.write(tmp_path / "t")))

    assert {"action.add-remove-same-key"} == {rule for rule in found if rule.startswith(("action.", "compaction."))}


def test_a_file_that_is_there_twice_differs_from_itself_in_nothing(tmp_path: Path) -> None:
    table = another_vector_without_a_remove()
    table.commit(table.new_add("b", 5, 5), table.new_add("b", 5, 5, path=table.path_of("b", 5).upper()))

    found = inspect(table.write(tmp_path / "t"))

    assert 1 == sum(finding.rule.id == "path.case-collision" for finding in found.findings)
    assert "validate.check-crashed" not in rules_of(found)
