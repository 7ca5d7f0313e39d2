"""Commits that no source has are written from a checkpoint or a compaction, where these determine them exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.operations.repair.repair import RepairOutcome, plan_repair
from deltacli.rules.framework.repairs import StepKind
from tests.rules.data_table import rows_of
from tests.support.damaged_tables import DELETION, LAST, DamagedTable, tear
from tests.support.repairing import Rows, content_of, execute_repair, open_damaged, repair_and_check, request

Action = dict[str, Any]  # Any: JSON values
FIRST = 8
"""The first version of the compaction: the one after the checkpoint."""
COMPACTION = f"{FIRST:020d}.{LAST:020d}.compacted.json"


def commit(root: Path, version: int) -> Path:
    return root / f"_delta_log/{version:020d}.json"


def actions(path: Path) -> list[Action]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewrite(path: Path, change: Callable[[list[Action]], list[Action]]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in change(actions(path))))


def of_files(path: Path) -> list[Action]:
    """The file actions of a commit, without what is null and what readers compare by content."""
    found = [line for line in actions(path) if line.keys() & {"add", "remove"}]
    for line in found:
        (action,) = line.values()
        if "stats" in action:
            action["stats"] = json.loads(action["stats"])
    return sorted(found, key=str)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The table with a compaction of all commits after its checkpoint."""
    root = DamagedTable().write(tmp_path / "t")
    open_damaged(root).compact_log(FIRST, LAST)
    return root


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.halved
@pytest.mark.parametrize(
    ("version", "damage"),
    [
        *((version, damage) for version in (5, 7, 9, DELETION) for damage in (Path.unlink, tear, empty)),
        *((LAST, damage) for damage in (tear, empty)),  # without the last commit, the version before is the newest
    ],
)
def test_what_the_commit_did_is_written(version: int, damage: Callable[[Path], None], root: Path) -> None:
    states = {at: readable_rows_of(root, at) for at in range(LAST + 1)}
    healthy, modified = of_files(commit(root, version)), commit(root, version).stat().st_mtime
    damage(commit(root, version))

    done = repair_and_check(root, request(level="log"))

    assert {StepKind.REBUILD} == {step.action for step in done.steps}
    assert [] == done.versions, "no new version"
    assert healthy == of_files(commit(root, version))
    assert states == {at: readable_rows_of(root, at) for at in range(LAST + 1)}
    before, after = (commit(root, one).stat().st_mtime for one in (version - 1, min(version + 1, LAST)))
    assert before <= commit(root, version).stat().st_mtime <= after, modified


def readable_rows_of(root: Path, version: int) -> Rows:
    snapshot = open_damaged(root).snapshot(version=version)
    return Counter(tuple(row.values()) for batch in snapshot.scan() for row in batch.to_pylist())


def remove_of(table: DamagedTable, version: int) -> Action:
    """A remove, in the next commit, of the file that a version adds."""
    return table.new_remove(*table.partition_and_number(version), LAST + 1, size=table.add(version)["size"])


def add_to(table: DamagedTable) -> Action:
    partition, number = table.partition_and_number(LAST + 1)
    add = table.new_add(partition, number, LAST + 1)
    table.put_rows(add["add"], rows_of(number), LAST + 1)
    return add


def replaced(table: DamagedTable) -> int:
    """As many rows go as come: an UPDATE, or a compaction of files."""
    table.commit(remove_of(table, LAST), add_to(table))
    return LAST + 1


def removed_later(table: DamagedTable) -> int:
    table.commit(remove_of(table, LAST))
    return LAST


def added_back(table: DamagedTable) -> int:
    """A file goes and comes back, as by a RESTORE."""
    table.commit(remove_of(table, LAST))
    table.commit({"add": table.add(LAST) | {"dataChange": True}})
    return LAST + 1


def with_metadata_later(table: DamagedTable) -> int:
    table.commit(table.change_metadata())
    return LAST


def with_transaction_later(table: DamagedTable) -> int:
    table.commit({"txn": {"appId": "stream", "version": 7}}, add_to(table))
    return LAST


UNKNOWN: dict[Callable[[DamagedTable], int], str] = {
    replaced: "whether its rows were changed or only rewritten",
    removed_later: f"what commit {LAST} recorded of {DamagedTable().add(LAST)['path']} is hidden by a later",
    added_back: f"whether commit {LAST + 1} removed {DamagedTable().add(LAST)['path']} is hidden by a later",
    with_metadata_later: f"commit {LAST + 1} has another metaData",
    with_transaction_later: f"the version of transaction stream at version {LAST} is hidden",
}


@pytest.mark.parametrize("make", UNKNOWN, ids=lambda make: make.__name__)
def test_what_stays_unknown_is_not_guessed(make: Callable[[DamagedTable], int], tmp_path: Path) -> None:
    table = DamagedTable()
    version = make(table)
    root = table.write(tmp_path / "t")
    open_damaged(root).compact_log(FIRST, len(list((root / "_delta_log").glob("*[0-9].json"))) - 1)
    commit(root, version).write_bytes(b"")
    before = content_of(root)

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert not done.steps
    assert before == content_of(root)
    assert f"does not determine it: {UNKNOWN[make]}" in reason_of(done, "commit.empty")


def reason_of(done: RepairOutcome, rule: str) -> str:
    return {one.rule: one.reason for one in done.plan.unrepaired}[rule]


def test_a_compaction_that_lacks_something_is_not_a_source(root: Path) -> None:
    rewrite(root / "_delta_log" / COMPACTION, lambda lines: lines[:-1])
    commit(root, 9).unlink()

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert not done.steps
    assert "so it may be incomplete" in reason_of(done, "log.gap")


def test_two_commits_of_a_compaction_are_not_told_apart(root: Path) -> None:
    commit(root, 9).unlink()
    commit(root, 10).unlink()

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert not done.steps
    assert "it does not record which of them changed what" in reason_of(done, "log.gap")


def test_a_checksum_that_counts_other_files_is_believed(root: Path) -> None:
    commit(root, 9).unlink()
    (root / f"_delta_log/{9:020d}.crc").write_text(json.dumps({"numFiles": 99}))

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert "its checksum file says otherwise" in reason_of(done, "log.gap")
    assert not commit(root, 9).exists()


def test_a_source_is_tried_first(root: Path, tmp_path: Path) -> None:
    copy = DamagedTable().write(tmp_path / "copy")
    healthy = commit(root, 9).read_bytes()
    commit(root, 9).unlink()

    done = repair_and_check(root, request(level="log", sources=[copy]))

    assert {StepKind.RECOVER} == {step.action for step in done.steps}
    assert healthy == commit(root, 9).read_bytes()
