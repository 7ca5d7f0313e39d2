"""What becomes of our commit when another writer was first, for each action of the winner and each kind of request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from deltacli.delta.log.commit_content import (
    CommitRequest,
    EveryFile,
    FilesAt,
    FilesOfPartitions,
    OnConflict,
    PartitionValues,
)
from deltacli.delta.log.conflicts import ConcurrentCommit, Drop, Rebase, Recompute, examine_commit, resolve_conflicts
from tests.cli.support import ROOT
from tests.delta.test_commit_content import ICT, base, with_configuration
from tests.support.actions import (
    Action,
    Line,
    add,
    commit_info,
    deletion_vector,
    domain,
    metadata,
    protocol,
    remove,
    txn,
)

P1, P2 = {"p": "1"}, {"p": "2"}


def of_p1(values: PartitionValues) -> bool:
    return values.get("p") == "1"


REQUESTS = {
    "settings": CommitRequest("SET TBLPROPERTIES", metadata=metadata()["metaData"]),
    "restore": CommitRequest("RESTORE", reads=EveryFile(), domains_read=("delta.clustering",)),
    "partitions": CommitRequest("RESTORE", reads=FilesOfPartitions(of_p1)),
    "compaction": CommitRequest("OPTIMIZE", reads=FilesAt(["a", "b c"]), on_conflict=OnConflict.DROP),
}
"""Kinds of requests. The compaction reads the files `a` and `b c`, which are of p=1 as the restored partitions are."""

GO, AGAIN, DROP = Rebase, Recompute, Drop
Verdict = type[Rebase] | type[Recompute] | type[Drop]


class Winner(NamedTuple):
    """Lines of a winning commit, and what becomes of each of `REQUESTS`, in their order."""

    lines: list[Line]
    verdicts: tuple[Verdict, Verdict, Verdict, Verdict]


def blind(*lines: Line) -> list[Line]:
    return [commit_info("WRITE", isBlindAppend=True), *lines]


def other(*lines: Line) -> list[Line]:
    return [commit_info("DELETE", isBlindAppend=False), *lines]


V, W = deletion_vector("v"), deletion_vector("w")
NOTHING_READ = (GO, GO, GO, GO)
EVERYTHING = (AGAIN, AGAIN, AGAIN, AGAIN)

MATRIX: dict[str, Winner] = {
    "add, blind append": Winner(blind(add("n", partition_values=P1)), (GO, AGAIN, AGAIN, GO)),
    "add, blind append to another partition": Winner(blind(add("n", partition_values=P2)), (GO, AGAIN, GO, GO)),
    "add, not blind": Winner(other(add("n", partition_values=P1)), (GO, AGAIN, AGAIN, GO)),
    "add, dataChange false": Winner(other(add("n", partition_values=P1, dataChange=False)), (GO, AGAIN, AGAIN, GO)),
    "remove of our input": Winner(other(remove("a", partitionValues=P1)), (GO, AGAIN, AGAIN, DROP)),
    "remove of our input, dataChange false": Winner(
        other(remove("a", partitionValues=P1, dataChange=False)), (GO, AGAIN, AGAIN, DROP)
    ),
    "remove of our input in another spelling": Winner(
        other(remove("./b%20c", partitionValues=P1)), (GO, AGAIN, AGAIN, DROP)
    ),
    "remove of our input without partition values": Winner(other(remove("a")), (GO, AGAIN, AGAIN, DROP)),
    "remove of another file": Winner(other(remove("n", partitionValues=P1)), (GO, AGAIN, AGAIN, GO)),
    "remove in another partition": Winner(other(remove("n", partitionValues=P2)), (GO, AGAIN, GO, GO)),
    "remove of another file without partition values": Winner(other(remove("n")), (GO, AGAIN, AGAIN, GO)),
    "another vector of our input": Winner(
        other(remove("a", partitionValues=P1), add("a", partition_values=P1, vector=V)),
        (GO, AGAIN, AGAIN, DROP),
    ),
    "another vector of our input, only its add": Winner(
        other(add("a", partition_values=P1, vector=V)), (GO, AGAIN, AGAIN, DROP)
    ),
    "our input again, with row ids": Winner(
        other(add("a", partition_values=P1, dataChange=False, baseRowId=4)), (GO, AGAIN, AGAIN, DROP)
    ),
    "metaData": Winner(other(metadata()), EVERYTHING),
    "protocol": Winner(other(protocol()), EVERYTHING),
    "metaData that enables row tracking": Winner(
        other(protocol(1, 7, writer_features=["domainMetadata", "rowTracking"]), metadata()), EVERYTHING
    ),
    "txn of an application": Winner(other(txn("app", 1)), NOTHING_READ),
    "domain": Winner(other(domain("d")), NOTHING_READ),
    "clustering": Winner(other(domain("delta.clustering")), (GO, AGAIN, GO, GO)),
    "high-water mark of row ids": Winner(other(domain("delta.rowTracking", '{"rowIdHighWaterMark":4}')), NOTHING_READ),
    "cdc": Winner(other({"cdc": {"path": "a", "partitionValues": P1, "size": 1, "dataChange": False}}), NOTHING_READ),
    "only commitInfo": Winner([commit_info("VACUUM START")], NOTHING_READ),
    "unknown action": Winner(other({"checkpoint": {}}), EVERYTHING),
    "unknown action without fields": Winner(other({"futureAction": {}}), EVERYTHING),
}

CELLS = [
    pytest.param(REQUESTS[request], winner.lines, verdict, id=f"{name} x {request}")
    for name, winner in MATRIX.items()
    for request, verdict in zip(REQUESTS, winner.verdicts, strict=True)
]


def won(request: CommitRequest, version: int, *lines: Line, modified_ms: int = 0) -> ConcurrentCommit:
    return examine_commit(request, version, modified_ms, [pair for line in lines for pair in line.items()])


def verdict_of(request: CommitRequest, *winners: list[Line]) -> Any:  # Any: one of four classes
    return resolve_conflicts(
        request, base(), [won(request, 8 + number, *lines) for number, lines in enumerate(winners)]
    )


@pytest.mark.parametrize(("request_", "lines", "verdict"), CELLS)
def test_a_winner_lets_pass_what_it_does_not_disturb(
    request_: CommitRequest, lines: list[Line], verdict: Verdict
) -> None:
    """
    Wherever it stands among winners, and its lines in its commit.
    """
    harmless = [commit_info("WRITE"), txn("b", 1)]
    for winners in ([lines], [lines[::-1]], [harmless, lines], [lines, harmless]):
        found = verdict_of(request_, *winners)
        assert isinstance(found, verdict), found
        if isinstance(found, Rebase):
            assert 7 + len(winners) == found.previous_version.version
        else:
            version = 8 + winners.index(lines) if lines in winners else 8
            assert f"version {version} " in found.reason


def test_the_documentation_has_this_matrix() -> None:
    words = {GO: "follow", AGAIN: "plan again", DROP: "drop"}
    rows = [[name, *(words[verdict] for verdict in winner.verdicts)] for name, winner in MATRIX.items()]
    lines = [f"| {' | '.join(row)} |" for row in (["winner has", *REQUESTS], *rows)]

    documented = (ROOT / "docs" / "guarantees.md").read_text("utf-8").splitlines()

    start = documented.index(lines[0])
    assert lines == [lines[0], *documented[start + 2 : start + 1 + len(lines)]]
    assert "" == documented[start + 1 + len(lines)]


def test_of_several_obstacles_the_files_of_a_winner_drop_a_group() -> None:
    gone, changed = other(remove("a", partitionValues=P1)), other(metadata())
    compaction = REQUESTS["compaction"]

    assert isinstance(verdict_of(compaction, gone, changed), Drop)
    assert isinstance(verdict_of(compaction, changed, gone), Recompute)


def parts(*places: tuple[str, str | None]) -> CommitRequest:
    """Reads and writes some partitions of a table that is partitioned by p and q."""
    return CommitRequest("X", reads=FilesOfPartitions(lambda values: (values.get("p"), values.get("q")) in places))


def level_one(value: str) -> CommitRequest:
    return CommitRequest("X", reads=FilesOfPartitions(lambda values: values.get("p") == value))


def values(p: str, q: str | None) -> dict[str, str | None]:
    return {"p": p, "q": q}


WRITES_T1 = CommitRequest("X", transactions=(txn("t1", 1)["txn"],))
WRITES_D = CommitRequest("X", domains=(domain("d")["domainMetadata"],))
NAMES_VERSION = CommitRequest("X", contains_own_version=True)
NEW_ROWS = CommitRequest("X", new_rows=1)
BETWEEN = CommitRequest("X", reads=FilesOfPartitions(lambda values: 2 <= int(values["p"] or 0) <= 5))
ODD_NAME = CommitRequest("X", reads=FilesOfPartitions(lambda values: values["partitionValues"] == "1"))

CASES: dict[str, tuple[CommitRequest, list[Line], Verdict]] = {
    "append, winner appends": (CommitRequest("WRITE"), blind(add("n")), GO),
    "append, winner changes metadata": (CommitRequest("WRITE"), blind(metadata()), AGAIN),
    "partition 1, winner adds to 2": (level_one("1"), blind(add("n", partition_values=values("2", "1"))), GO),
    "partition 1, winner adds to it": (level_one("1"), blind(add("n", partition_values=values("1", "1"))), AGAIN),
    "partitions 1 and 2, winner adds to 1": (
        parts(("1", "1"), ("2", "1")),
        blind(add("n", partition_values=values("1", "1"))),
        AGAIN,
    ),
    "partition 1, winner removes from 2": (level_one("1"), other(remove("n", partitionValues=values("2", "1"))), GO),
    "partition 1, winner removes from it": (
        level_one("1"),
        other(remove("n", partitionValues=values("1", "1"))),
        AGAIN,
    ),
    "both remove a": (CommitRequest("X", reads=FilesAt(["a"])), other(remove("a")), AGAIN),
    "whole table, winner adds anywhere": (REQUESTS["restore"], blind(add("n")), AGAIN),
    "whole table, winner removes anything": (REQUESTS["restore"], other(remove("n")), AGAIN),
    "blind append, winner removes and adds": (CommitRequest("WRITE"), other(remove("a"), add("n")), GO),
    "read, remove and add, winner empty": (REQUESTS["restore"], [commit_info("X")], GO),
    "whole table, winner without a line": (REQUESTS["restore"], [], GO),
    "rearrange, winner adds": (REQUESTS["compaction"], blind(add("n")), GO),
    "rearrange, winner removed an input": (REQUESTS["compaction"], other(remove("a")), DROP),
    "disjoint nested partitions": (parts(("1", "1")), blind(add("n", partition_values=values("1", "2"))), GO),
    "level 1, winner writes level 2 under it": (
        level_one("1"),
        blind(add("n", partition_values=values("1", "9"))),
        AGAIN,
    ),
    "level 1, winner writes level 2 elsewhere": (
        level_one("1"),
        blind(add("n", partition_values=values("3", "9"))),
        GO,
    ),
    "range over partitions, winner inside": (BETWEEN, blind(add("n", partition_values=values("5", None))), AGAIN),
    "range over partitions, winner outside": (BETWEEN, blind(add("n", partition_values=values("6", None))), GO),
    "null partition": (parts(("1", None)), blind(add("n", partition_values=values("1", None))), AGAIN),
    "column named partitionValues": (ODD_NAME, blind(add("n", partition_values={"partitionValues": "1"})), AGAIN),
    "column named partitionValues, elsewhere": (
        ODD_NAME,
        blind(add("n", partition_values={"partitionValues": "2"})),
        GO,
    ),
    "txn t1, winner t2": (WRITES_T1, other(txn("t2", 1)), GO),
    "txn t1, winner t1": (WRITES_T1, other(txn("t1", 0)), AGAIN),
    "domain d, winner e": (WRITES_D, other(domain("e")), GO),
    "domain d, winner adds": (WRITES_D, blind(add("n")), GO),
    "domain d, winner d": (WRITES_D, other(domain("d")), AGAIN),
    "domain d, winner removes it": (WRITES_D, other(domain("d", removed=True)), AGAIN),
    "protocol, protocol": (
        CommitRequest("X", protocol=protocol(1, 7, writer_features=[])["protocol"]),
        other(protocol()),
        AGAIN,
    ),
    "names its version": (NAMES_VERSION, blind(), AGAIN),
    "new rows, winner without a mark": (NEW_ROWS, other(domain("delta.rowTracking", "{}")), AGAIN),
    "new rows, winner removes the mark": (NEW_ROWS, other(domain("delta.rowTracking", removed=True)), AGAIN),
    "add without a path": (REQUESTS["compaction"], other({"add": {"partitionValues": P2}}), DROP),
    "remove with partition values that are none": (level_one("1"), other(remove("n", partitionValues=None)), AGAIN),
}


@pytest.mark.parametrize(("request_", "lines", "verdict"), CASES.values(), ids=CASES)
def test_a_pair_of_commits(request_: CommitRequest, lines: list[Line], verdict: Verdict) -> None:
    assert isinstance(found := verdict_of(request_, lines), verdict), found


@pytest.mark.parametrize("on_conflict", OnConflict)
@pytest.mark.parametrize("versions", [[], [9], [8, 10]])
def test_a_changed_log_is_never_followed(versions: list[int], on_conflict: OnConflict) -> None:
    request = CommitRequest("X", on_conflict=on_conflict)

    verdict = resolve_conflicts(request, base(), [won(request, version) for version in versions])

    assert isinstance(verdict, Recompute)


def test_the_timestamp_of_the_last_winner_counts() -> None:
    request = CommitRequest("X")
    winners = [won(request, 8 + n, commit_info(inCommitTimestamp=50 - n), modified_ms=9_999) for n in range(2)]

    assert Rebase(base(ICT)._replace(version=9, committed_ms=49)) == resolve_conflicts(
        request, base(ICT, committed_ms=5), winners
    )


def test_a_winner_without_its_required_timestamp_requires_a_new_plan() -> None:
    request = CommitRequest("X")
    late = won(request, 8, txn("a", 1), commit_info(inCommitTimestamp=50))

    assert isinstance(resolve_conflicts(request, base(ICT, committed_ms=5), [late]), Recompute)


def test_before_timestamps_the_times_of_files_count_and_never_go_back() -> None:
    request = with_configuration(enableInCommitTimestamps="true")
    winners = [won(request, 8, commit_info(inCommitTimestamp=1), modified_ms=70), won(request, 9, modified_ms=70)]

    assert Rebase(base()._replace(version=9, committed_ms=71)) == resolve_conflicts(
        request, base(committed_ms=5), winners
    )


def test_a_winner_is_read_only_as_far_as_it_matters() -> None:
    """
    A commit of a million removes is not parsed to its end after the first.
    """

    def actions() -> Iterator[tuple[str, Action]]:
        yield "commitInfo", {"txnId": "theirs"}
        yield "remove", {"path": "a"}
        raise AssertionError("read on")

    found = examine_commit(REQUESTS["restore"], 8, 0, actions())

    late = won(REQUESTS["restore"], 8, remove("a"), commit_info(txnId="late"))
    assert ("theirs", "remove") == (found.txn_id, found.conflict and found.conflict.kind)
    assert "late" == late.txn_id
