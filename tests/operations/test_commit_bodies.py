"""Commits with a body: written to a draft line by line, again for each version that is tried, and created once."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.commit import Committed, Dropped, NothingToDo, commit
from deltacli.changing.commit_options import CommitOptions
from deltacli.core.errors import DeltacliError, OutcomeUnknown, StorageFailed
from deltacli.delta.log.actions import Action
from deltacli.delta.log.commit_content import (
    CommitRequest,
    EveryFile,
    FilesAt,
    FilesRead,
    NextVersion,
    OnConflict,
    body_lines,
)
from deltacli.storage import Creation, PathKind
from deltacli.storage.base import Draft
from deltacli.table.handle import TableHandle
from deltacli.table.version import Snapshot
from tests.cli.support import ROOT
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.committing import Make, Rivals, commits, infos, run, table_of_commits, versions_of
from tests.support.faulty import Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at
from tests.support.waiting import SECONDS

FILES = 3
OTHER_INFO = [commit_info("OPTIMIZE", inCommitTimestamp=1)]
OTHER_FILES = [*OTHER_INFO, add("theirs")]
SITUATIONS: dict[str, list[list[Line]]] = {"alone": [], "moved": [OTHER_INFO], "made again": [OTHER_FILES]}


def adds(seen: list[int], *, transaction: int = 1) -> Make:
    """Files named after the version that they are added by; `seen` are the versions that were read."""

    def make(snapshot: Snapshot) -> CommitRequest:
        seen.append(snapshot.version)
        return request(transaction)

    return make


def request(transaction: int = 1, **more: Any) -> CommitRequest:  # Any: fields
    def body(slot: NextVersion) -> Iterator[bytes]:
        yield from body_lines((add(f"{slot.version}-{number}.parquet") for number in range(FILES)), slot)

    transactions: tuple[Action, ...] = ({"appId": "app", "version": transaction},)
    return CommitRequest("WRITE", transactions=transactions, body=body, reads=EveryFile(), **more)


def files_of(inner: MemoryStorage) -> list[str]:
    lines = [action["path"] for actions in commits(inner) for kind, action in actions if kind == "add"]
    return [path for path in lines if path[0].isdigit()]


def new_table() -> CommitRequest:
    return request(protocol=protocol()["protocol"], metadata=metadata()["metaData"])


@pytest.mark.parametrize(("rounds", "read"), list(zip(SITUATIONS.values(), [[2], [2], [2, 3]], strict=True)))
def test_a_body_follows_what_does_not_touch_its_files(rounds: list[list[Line]], read: list[int]) -> None:
    """
    The lines are those of the version that was created.
    """
    inner, seen = table_of_commits().in_memory(), list[int]()

    done = run(Rivals(inner, *rounds), adds(seen))

    assert isinstance(done, Committed)
    assert read == seen
    assert 3 + len(rounds) == done.version
    assert [f"{done.version}-{number}.parquet" for number in range(FILES)] == files_of(inner)
    assert ["commitInfo", "txn", *["add"] * FILES] == [kind for kind, _ in commits(inner)[-1]]
    assert done.version - 1 == infos(inner)[-1]["readVersion"]


def test_a_transaction_of_the_same_application_is_made_again() -> None:
    inner, seen = table_of_commits().in_memory(), list[int]()
    theirs: list[Line] = [*OTHER_INFO, {"txn": {"appId": "app", "version": 1}}]

    run(Rivals(inner, theirs), adds(seen))
    run(Rivals(inner, [*OTHER_INFO, {"txn": {"appId": "another", "version": 1}}]), adds(seen, transaction=2))

    assert [2, 3, 4] == seen


BOTOCORE_ERRORS = (Fault.BEFORE, Fault.AFTER, Fault.DUPLICATED, Fault.LOST, Fault.UNSENT, Fault.DELAYED)
ONLY_OF_CREATIONS = (Fault.LOST, Fault.UNSENT, Fault.DELAYED)
ONLY_OF_OTHERS = (Fault.AFTER,)
"""A creation that raises has left nothing behind."""


@pytest.mark.parametrize("rounds", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize(
    "fault", [Fault.BEFORE, Fault.AFTER, Fault.DUPLICATED, Fault.LOST, Fault.UNSENT, Fault.DELAYED]
)
def test_a_fault_at_any_call_never_makes_half_a_commit_or_two(fault: Fault, rounds: list[list[Line]]) -> None:
    counting = FaultyStorage(Rivals(table_of_commits().in_memory(), *rounds))
    run(counting, adds([]))
    assert 1 + len(rounds) == [verb for verb, _ in counting.calls].count("publish")

    for at, (verb, _) in enumerate(counting.calls, 1):
        if fault in (ONLY_OF_OTHERS if verb == "publish" else ONLY_OF_CREATIONS):
            continue
        inner = table_of_commits().in_memory()
        store = FaultyStorage(Rivals(inner, *rounds), at, fault, delay=2)
        try:
            found: object = run(store, adds([]))
        except DeltacliError as fault_said:
            found = fault_said
        store.arrive()
        ours = versions_of(inner)
        match found:
            case Committed(version=version):
                assert [version] == ours
                assert [f"{version}-{number}.parquet" for number in range(FILES)] == files_of(inner)
            case OutcomeUnknown():
                assert len(ours) <= 1
            case _:
                assert isinstance(found, StorageFailed), found
                assert [] == ours
        assert FILES * len(ours) == len(files_of(inner))
        assert len(commits(inner)) - 1 == open_at(inner).snapshot().version


def test_a_new_table_is_created_once() -> None:
    """
    Who loses version 0 reads the table of the other, and has nothing to do.
    """
    inner, read = MemoryStorage("new"), list[int]()

    def read_newest(table: TableHandle) -> Snapshot | None:
        return open_at(table.writable()).snapshot() if inner.kind_of(LOG) is PathKind.DIRECTORY else None

    def make(snapshot: Snapshot) -> None:
        read.append(snapshot.version)

    first = commit(open_at(inner), make, read=read_newest, build_first_request=new_table)
    second_inner = MemoryStorage("new")
    rival = Rivals(second_inner, [commit_info(), protocol(), metadata()])
    inner = second_inner
    second = commit(
        open_at(rival),
        make,
        read=read_newest,
        build_first_request=new_table,
        options=CommitOptions(pause=lambda _: None),
    )

    assert isinstance(first, Committed)
    assert (0, -1, [0]) == (first.version, first.read_version, read)
    assert NothingToDo(0) == second


def test_a_body_is_not_held_in_memory() -> None:
    inner = table_of_commits().in_memory()
    long = "x" * 1_000
    written: list[int] = []

    class Measured(Rivals):
        def draft(self, path: str) -> Draft:
            tracemalloc.start()
            draft = self._inner.draft(path)
            publish = draft.publish

            def measured(*, replace: bool = False) -> Creation:
                written.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
                return publish(replace=replace)

            draft.publish = measured  # type: ignore[method-assign]
            return draft

    many = CommitRequest(
        "WRITE", body=lambda slot: body_lines((add(f"{number}{long}") for number in range(5_000)), slot)
    )
    run(Measured(inner), lambda _snapshot: many)

    assert written[0] < 2 << 20 < len(inner.read(commit_path(3)))


def reading(files: FilesRead, on_conflict: OnConflict, made: list[int]) -> Make:
    def make(snapshot: Snapshot) -> CommitRequest:
        made.append(snapshot.version)
        lines = [remove("part-0.parquet"), add("both.parquet")]
        return CommitRequest(
            "OPTIMIZE", body=lambda slot: body_lines(lines, slot), reads=files, on_conflict=on_conflict
        )

    return make


ADDS = [commit_info("WRITE", engineInfo="theirs"), add("n.parquet")]
REMOVES_OURS = [commit_info("DELETE", engineInfo="theirs"), remove("part-0.parquet")]
INPUTS = FilesAt(["part-0.parquet"])


def test_a_group_whose_files_are_gone_is_dropped() -> None:
    """
    The caller goes on with others: nothing was committed, and the reason says which version was first.
    """
    inner, made = table_of_commits().in_memory(), list[int]()

    dropped = run(Rivals(inner, ADDS, REMOVES_OURS), reading(INPUTS, OnConflict.DROP, made))

    assert isinstance(dropped, Dropped)
    assert (2, [2]) == (dropped.read_version, made)
    assert "version 4 was committed by another writer: it removes part-0.parquet" == dropped.reason
    assert [] == versions_of(inner)


def test_a_group_whose_files_are_there_follows_the_winner() -> None:
    inner, made = table_of_commits().in_memory(), list[int]()

    done = run(
        Rivals(inner, ADDS, [commit_info("DELETE"), remove("part-1.parquet")]), reading(INPUTS, OnConflict.DROP, made)
    )

    assert isinstance(done, Committed)
    assert (5, 2, [2]) == (done.version, done.lost_attempts, made)


@pytest.mark.long
def test_two_million_files_are_committed_in_little_memory(tmp_path: Path) -> None:
    files, builder = 1_000_000, TableBuilder()
    names = ["domainMetadata", "rowTracking"]
    builder.commit(commit_info(), protocol(1, 7, writer_features=names), metadata(partition_columns=["p"]))
    place = builder.write(tmp_path / "table")
    command = [sys.executable, "-m", "tests.support.large_commit", str(place), str(files)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)

    assert "" == done.stderr  # it says what failed, such as a full disk
    peak, seconds = done.stdout.split()
    assert int(peak) < 400, (peak, seconds)
    with open(place / commit_path(1), "rb") as file:
        lines = [*islice(file, 4), *islice(file, files - 3, files - 1), *islice(file, files - 2, None)]
    kinds = [next(iter(json.loads(line))) for line in lines]
    assert ["commitInfo", "domainMetadata", "add", "add", "add", "remove", "remove"] == kinds
    last = json.loads(lines[4])["add"]
    assert 10 * (files - 1) == last["baseRowId"]
    assert f'{{"rowIdHighWaterMark":{10 * files - 1}}}' == json.loads(lines[1])["domainMetadata"]["configuration"]
