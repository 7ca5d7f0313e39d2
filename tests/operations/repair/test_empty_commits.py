"""Commits of 0 bytes that nothing else in the log has: they are written as versions without changes, with consent."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.cli.app import run
from deltacli.core.errors import UsageError
from deltacli.operations.repair.plan import RepairRequest, StepState
from deltacli.operations.repair.repair import plan_repair
from deltacli.rules.framework.repairs import StepKind
from tests.rules.table_builder import NOW_MS
from tests.support.actions import Line, add, birth, commit_info, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.repairing import content_of, execute_repair, open_damaged, repair_and_check, request

EMPTY = "commit.empty"
FIRST, OTHER, THIRD = "a.parquet", "b.parquet", "c.parquet"


def data_of(*ids: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), sink)
    return bytes(sink.getvalue().to_pybytes())


DATA = {FIRST: data_of(1), OTHER: data_of(2), THIRD: data_of(3)}


def add_of(name: str) -> Line:
    return add(name, size=len(DATA[name]), records=1, modified_ms=EPOCH_MS)


def table_of(*commits: Sequence[Line] | None, first: Sequence[Line] | None = None) -> TableBuilder:
    """Describe a table with a file in version 0 and these commits after it; None is one of 0 bytes."""
    table = TableBuilder()
    for name, data in DATA.items():
        table.file(name, data)
    table.commit(*(first or [commit_info(timestamp=EPOCH_MS), *birth(), add_of(FIRST)]))
    for lines in commits:
        table.commit(*(lines or ()), raw=b"" if lines is None else None)
    return table


def commit_of(root: Path, version: int) -> Path:
    return root / f"_delta_log/{version:020d}.json"


def ids_of(root: Path) -> list[int]:
    return sorted(open_damaged(root).snapshot().scan().to_arrow()["id"].to_pylist())


def accept(*versions: int, **others: Any) -> RepairRequest:  # Any: fields of the request
    return request(level="log", accept_empty_commits=list(versions), **others)


@pytest.mark.parametrize(
    ("commits", "accepted", "ids"),
    [
        ([None, [add_of(OTHER)]], [1], [1, 2]),
        ([None], [1], [1]),
        ([[add_of(OTHER)], None, [remove(FIRST)]], [2], [2]),
        ([None, [add_of(OTHER)], None], [1, 3], [1, 2]),
        ([None, None, None], [1, 2, 3], [1]),
    ],
)
def test_it_is_written_as_a_version_without_changes(
    commits: list[Sequence[Line] | None], accepted: list[int], ids: list[int], tmp_path: Path
) -> None:
    root = table_of(*commits).write(tmp_path / "t")

    done = repair_and_check(root, accept(*accepted))

    assert [(EMPTY, StepKind.REBUILD)] * len(accepted) == [(step.rule, step.action) for step in done.steps]
    assert ids == ids_of(root)
    for version in accepted:
        (line,) = commit_of(root, version).read_text().splitlines()
        assert ["commitInfo"] == [*json.loads(line)]
    assert len(commits) == open_damaged(root).snapshot().version


def test_the_version_keeps_its_time(tmp_path: Path) -> None:
    root = table_of(None, [add_of(OTHER)]).write(tmp_path / "t")
    modified_ns = commit_of(root, 1).stat().st_mtime_ns

    execute_repair(plan_repair(open_damaged(root), accept(1)))

    assert modified_ns == commit_of(root, 1).stat().st_mtime_ns
    info = json.loads(commit_of(root, 1).read_text())["commitInfo"]
    assert modified_ns == info["timestamp"] * 1_000_000


def test_nothing_is_written_without_consent_and_the_reason_names_it(tmp_path: Path) -> None:
    root = table_of(None, [add_of(OTHER)]).write(tmp_path / "t")

    plan = plan_repair(open_damaged(root), request(level="log"))

    assert () == plan.steps
    (left,) = plan.unrepaired
    assert re.search("accept.empty.commits.*1", left.reason)


def test_the_advice_of_the_command_line_can_be_followed_to_the_letter(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = table_of(None, [add_of(OTHER)]).write(tmp_path / "t")
    run(["repair", str(root), "--dry-run"])
    output = capsysbinary.readouterr()
    option = re.search(r"--accept-empty-commits \S+", (output.out + output.err).decode())
    assert option is not None

    assert 0 == run(["repair", str(root), "--level", "log", "--yes", *shlex.split(option[0])])

    assert [1, 2] == ids_of(root)


def checksum(files: int) -> bytes:
    (metadata_of,) = metadata().values()
    (protocol_of,) = protocol().values()
    size = len(DATA[FIRST]) * files
    content = {"tableSizeBytes": size, "numFiles": files, "numMetadata": 1, "numProtocol": 1}
    return json.dumps({**content, "metadata": metadata_of, "protocol": protocol_of}).encode()


EVIDENCE = {
    "a later commit removes a file that was never added": table_of(None, [remove(OTHER)]),
    "its checksum file counts other files": table_of(None).file(f"_delta_log/{1:020d}.crc", checksum(2)),
    "a later checksum file counts other files": table_of(None, [commit_info()]).file(
        f"_delta_log/{2:020d}.crc", checksum(2)
    ),
    "a later commit cannot be read": table_of(None, [add_of(OTHER)], None),
    "the version before cannot be read": table_of(None, None),
    "a catalog manages the table": table_of(
        None,
        first=[
            commit_info(timestamp=EPOCH_MS, inCommitTimestamp=EPOCH_MS),
            protocol(
                3,
                7,
                reader_features=["catalogManaged", "vacuumProtocolCheck"],
                writer_features=["catalogManaged", "vacuumProtocolCheck", "inCommitTimestamp"],
            ),
            metadata(configuration={"delta.enableInCommitTimestamps": "true"}),
            add_of(FIRST),
        ],
    ),
}


@pytest.mark.parametrize("case", EVIDENCE)
def test_it_is_not_accepted_against_evidence(case: str, tmp_path: Path) -> None:
    root = EVIDENCE[case].write(tmp_path / "t")
    before = content_of(root)
    version = 2 if case == "the version before cannot be read" else 1

    plan = plan_repair(open_damaged(root), accept(version))

    assert EMPTY not in {step.rule for step in plan.steps}
    assert EMPTY in {left.rule for left in plan.unrepaired}
    assert before == content_of(root)


def test_a_checkpoint_that_has_the_commit_comes_before_any_consent(tmp_path: Path) -> None:
    table = table_of([add_of(OTHER)], [add_of(THIRD)]).checkpoint(1)
    table.file(f"_delta_log/{1:020d}.json", b"")
    root = table.write(tmp_path / "t")

    repair_and_check(root, accept(1))

    assert OTHER in commit_of(root, 1).read_text()
    assert [1, 2, 3] == ids_of(root)


def test_a_version_that_has_a_commit_is_left_as_it_is(tmp_path: Path) -> None:
    root = table_of([add_of(OTHER)]).write(tmp_path / "t")
    before = content_of(root)

    plan = plan_repair(open_damaged(root), accept(1, 7))

    assert () == plan.steps
    assert before == content_of(root)


def stamped(stamp: int, *lines: Line) -> list[Line]:
    return [commit_info(timestamp=stamp, inCommitTimestamp=stamp), *lines]


def birth_with_stamps() -> list[Line]:
    features = protocol(3, 7, reader_features=[], writer_features=["inCommitTimestamp"])
    return stamped(
        EPOCH_MS, features, metadata(configuration={"delta.enableInCommitTimestamps": "true"}), add_of(FIRST)
    )


@pytest.mark.parametrize("gap_ms", [2, 3, 1_000_000])
def test_its_in_commit_timestamp_is_between_those_beside_it(gap_ms: int, tmp_path: Path) -> None:
    table = table_of(None, stamped(EPOCH_MS + gap_ms, add_of(OTHER)), first=birth_with_stamps())
    root = table.write(tmp_path / "t")

    repair_and_check(root, accept(1))

    info = json.loads(commit_of(root, 1).read_text())["commitInfo"]
    assert EPOCH_MS < info["inCommitTimestamp"] < EPOCH_MS + gap_ms
    assert [] == [
        finding.rule.id
        for finding in open_damaged(root).validate(level="log").findings
        if finding.rule.id.startswith("ict.")
    ]


def test_without_room_for_one_it_is_left(tmp_path: Path) -> None:
    table = table_of(None, stamped(EPOCH_MS + 1, add_of(OTHER)), first=birth_with_stamps())
    root = table.write(tmp_path / "t")

    assert () == plan_repair(open_damaged(root), accept(1)).steps


def test_a_commit_that_got_its_content_since_the_plan_is_kept(tmp_path: Path) -> None:
    root = table_of(None).write(tmp_path / "t")
    plan = plan_repair(open_damaged(root), accept(1))
    content = json.dumps(add_of(OTHER)).encode() + b"\n"
    commit_of(root, 1).write_bytes(content)

    done = execute_repair(plan)

    assert StepState.DONE not in {step.state for step in done.steps}
    assert content == commit_of(root, 1).read_bytes()


def test_a_commit_that_is_being_written_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    root = table_of(None).write(tmp_path / "t")
    os.utime(commit_of(root, 1), ns=((NOW_MS - 1_000) * 1_000_000,) * 2)

    plan = plan_repair(open_damaged(root), accept(1, allow_in_use=False))

    assert "repair.table-in-use" in {refusal.code for refusal in plan.refusals}
    assert StepState.PLANNED not in {step.state for step in plan.steps}


@pytest.mark.parametrize("versions", [["1"], [None], [1.5], [True]])
def test_versions_are_integers(versions: list[Any]) -> None:  # Any: what is not a version
    with pytest.raises(UsageError, match=r"accept.empty.commits"):
        RepairRequest(accept_empty_commits=versions)
