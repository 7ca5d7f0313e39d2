"""Commits that are written anew in tables with features that add something to each commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from deltacli.operations.repair.repair import plan_repair
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.operations.validate.validate import validate_table
from deltacli.rules.framework.base import Severity
from deltacli.rules.framework.repairs import StepKind
from tests.operations.repair.test_rebuilt_commits import (
    FIRST,
    actions,
    add_to,
    commit,
    of_files,
    readable_rows_of,
    remove_of,
)
from tests.rules.table_builder import NOW_MS
from tests.support.damaged_tables import DELETION, LAST, MIDDLE, DamagedTable
from tests.support.repairing import content_of, execute_repair, open_damaged, repair_and_check, request
from tests.support.small_vectors import inline

Action = dict[str, Any]  # Any: JSON values
MARK = "delta.rowTracking"
DAY_MS = 86_400_000


def with_change_data() -> DamagedTable:
    table = DamagedTable()
    table.protocol["minWriterVersion"] = 4
    table.configure({"delta.enableChangeDataFeed": "true"})
    return table


def with_timestamps() -> DamagedTable:
    table = DamagedTable()
    table.protocol.update(minWriterVersion=7, writerFeatures=["appendOnly", "inCommitTimestamp", "invariants"])
    table.configure({"delta.enableInCommitTimestamps": "true"})
    for version, lines in table.commits.items():
        lines[0]["commitInfo"] = {"inCommitTimestamp": table.time_of(version) + 7} | lines[0]["commitInfo"]
    return table


def with_row_ids() -> DamagedTable:
    """Each file has the ids after those of the files before, and each commit that adds one raises the mark."""
    table = DamagedTable()
    table.protocol.update(minWriterVersion=7, writerFeatures=["domainMetadata", "rowTracking"])
    names = {"materializedRowIdColumnName": "_row-id", "materializedRowCommitVersionColumnName": "_row-commit-version"}
    table.configure({"delta.enableRowTracking": "true"})
    table.configure({f"{MARK}.{name}": value for name, value in names.items()})
    count, ids = 0, dict[str, Action]()
    for version, lines in table.commits.items():
        for action in list(lines):
            if "add" in action:
                ids[action["add"]["path"]] = {"baseRowId": count, "defaultRowCommitVersion": version}
                count += 10
            for fields in action.values():
                fields.update(ids.get(fields.get("path"), {}))
        if any("add" in action for action in lines):
            lines.append({"domainMetadata": mark(count - 1)})
    return table


def mark(value: int) -> Action:
    return {"domain": MARK, "configuration": f'{{"rowIdHighWaterMark":{value}}}', "removed": False}


def with_a_vector() -> DamagedTable:
    """The deletion takes three rows out of a file, instead of files."""
    table = DamagedTable()
    table.protocol.update(
        minReaderVersion=3, minWriterVersion=7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"]
    )
    table.configure({"delta.enableDeletionVectors": "true"})
    add = table.add(MIDDLE)
    remove = table.new_remove(*table.partition_and_number(MIDDLE), DELETION, size=add["size"])
    stats = json.loads(add["stats"]) | {"tightBounds": False}
    fresh = add | {"deletionVector": inline([1, 2, 3]), "stats": json.dumps(stats, separators=(",", ":"))}
    table.commits[DELETION] = [table.info(DELETION, "DELETE"), remove, {"add": fresh}]
    return table


def written(table: DamagedTable, place: Path, *, last: int = LAST, checksums: Iterable[int] = ()) -> Path:
    """Write a table with a compaction of the commits from the checkpoint on, and some checksums."""
    root = table.write(place)
    open_damaged(root).compact_log(FIRST, last)
    for version in checksums:
        open_damaged(root).write_checksum(version=version)
    return root


HEALTHY: dict[str, Callable[[], DamagedTable]] = {
    "change data": with_change_data,
    "timestamps": with_timestamps,
    "row ids": with_row_ids,
    "a vector": with_a_vector,
}


@pytest.mark.parametrize(
    ("feature", "version"),
    [
        (feature, version)
        for feature in HEALTHY
        for version in (MIDDLE, DELETION)
        if (feature, version) != ("a vector", MIDDLE)  # the deletion hides the add
    ],
)
def test_a_commit_is_exactly_as_it_was(feature: str, version: int, tmp_path: Path) -> None:
    root = written(HEALTHY[feature](), tmp_path / "t", checksums=[version])
    found = errors(root)
    states = {at: readable_rows_of(root, at) for at in range(LAST + 1)}
    healthy, lines = of_files(commit(root, version)), actions(commit(root, version))
    commit(root, version).unlink()

    done = repair_and_check(root, request(level="log"))

    assert ["log.gap"] == [step.rule for step in done.steps]
    assert {StepKind.REBUILD} == {step.action for step in done.steps}
    assert healthy == of_files(commit(root, version))
    assert states == {at: readable_rows_of(root, at) for at in range(LAST + 1)}
    assert others(lines) == others(actions(commit(root, version)))
    assert found == errors(root)


def errors(root: Path) -> set[str]:
    found = validate_table(open_damaged(root), ValidateRequest(level="data")).findings
    return {one.rule.id for one in found if one.severity is Severity.ERROR}


def others(lines: list[Action]) -> list[Action]:
    """What a commit has beside files, and the time in it."""
    infos = [{"time": line["commitInfo"].get("inCommitTimestamp")} for line in lines if "commitInfo" in line]
    return infos + sorted((line for line in lines if not line.keys() & {"add", "remove", "commitInfo"}), key=str)


def test_the_time_is_taken_from_what_is_left_of_the_commit(tmp_path: Path) -> None:
    root = written(with_timestamps(), tmp_path / "t")
    data, healthy = commit(root, MIDDLE).read_bytes(), of_files(commit(root, MIDDLE))
    commit(root, MIDDLE).write_bytes(data[:-20])

    repair_and_check(root, request(level="log"))

    assert data.splitlines()[0] in commit(root, MIDDLE).read_bytes().replace(b": ", b":").replace(b", ", b",")
    assert healthy == of_files(commit(root, MIDDLE))


def replaced_with_change_data(place: Path) -> tuple[Path, int]:
    table = with_change_data()
    table.commit(remove_of(table, LAST), add_to(table))
    return written(table, place, last=LAST + 1), LAST + 1


def with_change_data_that_can_be_read(place: Path) -> tuple[Path, int]:
    table = with_change_data()
    cdc = {"path": "_change_data/c.parquet", "partitionValues": {"p": "a"}, "size": 9, "dataChange": False}
    table.commits[MIDDLE].insert(1, {"cdc": cdc})
    root = written(table, place)
    commit(root, MIDDLE).write_bytes(commit(root, MIDDLE).read_bytes()[:-20])
    return root, MIDDLE


def without_a_time(place: Path) -> tuple[Path, int]:
    return written(with_timestamps(), place), MIDDLE


def with_the_time_of_another(place: Path) -> tuple[Path, int]:
    root = written(with_timestamps(), place, checksums=[MIDDLE])
    checksum = root / f"_delta_log/{MIDDLE:020d}.crc"
    wrong = {"inCommitTimestampOpt": DamagedTable.time_of(DELETION) + 7}
    checksum.write_text(json.dumps(json.loads(checksum.read_text()) | wrong))
    return root, MIDDLE


def with_expired_tombstones(place: Path) -> tuple[Path, int]:
    root = DamagedTable().write(place)
    open_damaged(root, lambda: NOW_MS + 30 * DAY_MS).checkpoint(version=LAST)
    return root, DELETION


def with_expired_transactions(place: Path) -> tuple[Path, int]:
    table = DamagedTable()
    table.configure({"delta.setTransactionRetentionDuration": "interval 1 days"})
    root = table.write(place)
    open_damaged(root).checkpoint(version=LAST)
    return root, DELETION


def with_a_file_without_its_id(place: Path) -> tuple[Path, int]:
    table = with_row_ids()
    del table.add(MIDDLE)["defaultRowCommitVersion"]
    return written(table, place), MIDDLE


def with_ids_that_were_skipped(place: Path) -> tuple[Path, int]:
    """The mark of the commit may have been 5 higher than its last id, or the next commit has skipped them."""
    table = with_row_ids()
    for version in (11, 12):
        table.add(version)["baseRowId"] += 5
        table.action(version, "domainMetadata").update(mark(table.add(version)["baseRowId"] + 9))
    return written(table, place), MIDDLE


def with_another_domain_later(place: Path) -> tuple[Path, int]:
    table = with_row_ids()
    table.commits[LAST].append({"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}})
    return written(table, place), DELETION


UNKNOWN: dict[Callable[[Path], tuple[Path, int]], str] = {
    replaced_with_change_data: "it does not have the change data of the commit",
    with_change_data_that_can_be_read: "the damaged commit has another cdc that can be read",
    without_a_time: "it does not have the in-commit timestamp",
    with_the_time_of_another: "is recorded, which the commits beside it, or its checksum file, contradict",
    with_expired_tombstones: "which was live before: a remove may have expired",
    with_expired_transactions: "whether it had transactions that have expired",
    with_a_file_without_its_id: "the row ids of some of its files",
    with_ids_that_were_skipped: "the high-water mark of its row ids is hidden by a later commit",
    with_another_domain_later: f"commit {LAST} has another domainMetadata, so that of commit {DELETION} is unknown",
}


@pytest.mark.parametrize("make", UNKNOWN, ids=lambda make: make.__name__)
def test_what_stays_unknown_is_named_and_nothing_is_written(
    make: Callable[[Path], tuple[Path, int]], tmp_path: Path
) -> None:
    root, version = make(tmp_path / "t")
    damaged = commit(root, version).read_bytes()
    if damaged.endswith(b"\n"):
        commit(root, version).write_bytes(b"")
    before = content_of(root)

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert before == content_of(root)
    reasons = [one.reason for one in done.plan.unrepaired if "determine it" in one.reason]
    assert 1 == len(reasons)
    assert UNKNOWN[make] in reasons[0]
