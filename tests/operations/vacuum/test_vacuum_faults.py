"""`vacuum` on a store that fails, or whose process ends: nothing needed is deleted, reports are true, END says
FAILED, and a rerun does the rest.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count as counter
from pathlib import Path
from threading import Barrier, Event, Lock
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import require_complete
from deltacli.cli.terminal.signals import Interrupted, raise_on_signals
from deltacli.core.errors import (
    ConflictLost,
    DeltacliError,
    NoSpace,
    OutcomeUnknown,
    PartlyDone,
    Refused,
    StorageFailed,
)
from deltacli.core.machine import Machine, fixed_clock
from deltacli.operations.vacuum import execute as deleting
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumRequest, VacuumResult
from deltacli.operations.vacuum.saved import ProgressRecord, read_plan
from deltacli.storage import Creation, Deletion, Existed, Failed, LocalStorage, Unknown
from deltacli.work.files.uninterrupted import StopRequest
from tests.cli.support import ROOT
from tests.support.actions import Line, commit_info, metadata, protocol, to_bytes
from tests.support.committing import infos
from tests.support.faulty import Fault
from tests.support.reading import NOW_MS, open_at
from tests.support.vacuuming import (
    FILES_A_BATCH,
    GARBAGE,
    INFO,
    NEEDED,
    MortalStorage,
    check_table,
    files_of,
    save,
    vacuum,
    vacuum_request,
    write_table,
)

START, END = "VACUUM START", "VACUUM END"
Delete = Callable[[str], None]
"""Called before a file is deleted."""


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are small, and there is no wait between attempts."""
    monkeypatch.setattr(deleting, "FILES_A_BATCH", FILES_A_BATCH)
    monkeypatch.setattr("deltacli.changing.commit._LONGEST_PAUSE_SECONDS", 0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_table(tmp_path / "t")


class Hooked(MortalStorage):
    """Calls somebody before each deletion."""

    def __init__(self, place: Path, hook: Delete) -> None:
        super().__init__(LocalStorage(str(place)))
        self._hook = hook

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            self._hook(path)
            yield from super().delete_many([path])


def execute(storage: MortalStorage, plan_path: str | None = None, **options: Any) -> VacuumOutcome | DeltacliError:
    """Vacuum; what became of it. Any: VacuumRequest."""
    outcome = VacuumOutcome()
    try:
        return vacuum(storage, plan_path, outcome=outcome, **options) or outcome
    except DeltacliError as fault:
        return fault


def gone(place: Path) -> int:
    return len(set(GARBAGE) - files_of(place))


def said(place: Path) -> list[tuple[str, str | None]]:
    """The operations of our commits, with what END says."""
    found = infos(LocalStorage(str(place)))[4:]
    return [(info["operation"], info.get("operationParameters", {}).get("status")) for info in found]


def make(place: Path, saved: bool) -> tuple[Path, str | None]:
    """A table, and where its plan is saved."""
    write_table(place)
    if not saved:
        return place, None
    save(LocalStorage(str(place)), f"{place}.plan")
    return place, f"{place}.plan"


def verbs_of(place: Path, saved: bool = False) -> list[str]:
    table, plan = make(place, saved)
    storage = MortalStorage(LocalStorage(str(table)))
    execute(storage, plan)
    return [verb for verb, _ in storage.calls]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("saved", [False, True], ids=["at once", "saved plan"])
@pytest.mark.long
@pytest.mark.halved
def test_a_fault_at_any_call(fault: Fault, saved: bool, tmp_path: Path) -> None:
    verbs = verbs_of(tmp_path / "whole", saved)
    up_to_start = verbs.index("put_if_absent") + 1
    for at, verb in enumerate(verbs, 1):
        if verb == "put_if_absent" and fault is Fault.AFTER:
            continue  # a back end that raises has left nothing behind
        place, plan = make(tmp_path / str(at), saved)

        found = execute(MortalStorage(LocalStorage(str(place)), at, fault), plan)

        check_table(place)
        log = said(place)
        if isinstance(found, StorageFailed):
            assert log == ([] if at <= up_to_start else [(START, None), (END, "FAILED")]), (at, verb)
            assert log or not gone(place)
        else:
            assert isinstance(found, VacuumOutcome), found
            assert (len(GARBAGE), 0) == (found.deleted.files, found.failed.count)
            assert (found.end_problem is None) == (found.end_version is not None)
            assert log == [(START, None), (END, "COMPLETED")][: 1 + (found.end_problem is None)]
        assert not isinstance(execute(MortalStorage(LocalStorage(str(place))), plan), DeltacliError)
        assert set(NEEDED) == files_of(place)
        assert not isinstance(execute(MortalStorage(LocalStorage(str(place)))), DeltacliError)
        assert (place / INFO).exists()


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.UNSENT, Fault.DELAYED])
@pytest.mark.parametrize("which", [0, 1], ids=["START", "END"])
def test_a_commit_without_an_answer_is_found_out(which: int, fault: Fault, tmp_path: Path) -> None:
    verbs = verbs_of(tmp_path / "whole")
    at = [number for number, verb in enumerate(verbs, 1) if verb == "put_if_absent"][which]
    place = write_table(tmp_path / "t")

    found = execute(MortalStorage(LocalStorage(str(place)), at, fault))

    assert isinstance(found, VacuumOutcome)
    assert (4, 5, None) == (found.start_version, found.end_version, found.end_problem)
    check_table(place)


class Answering(MortalStorage):
    """Creates nothing from the `first` creation on."""

    def __init__(self, place: Path, first: int, answer: Creation) -> None:
        super().__init__(LocalStorage(str(place)))
        self._left, self._answer = first, answer

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        self._left -= 1
        return self._answer if self._left < 0 else super().put_if_absent(path, data, modified_ms=modified_ms)


def test_without_knowing_what_became_of_start_nothing_is_deleted(place: Path) -> None:
    found = execute(Answering(place, 0, Unknown("nobody answered")))

    assert isinstance(found, OutcomeUnknown)
    assert 8 == found.exit_code
    assert 0 == gone(place)


def test_where_others_always_come_first_nothing_is_deleted(place: Path) -> None:
    class Losing(MortalStorage):
        def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:  # noqa: ARG002
            super().put_if_absent(path, b'{"commitInfo":{"operation":"OTHER"}}\n', modified_ms=modified_ms)
            return Existed()

    found = execute(Losing(LocalStorage(str(place))))

    assert isinstance(found, ConflictLost)
    assert 6 == found.exit_code
    assert 0 == gone(place)


def test_an_unknown_outcome_of_the_end_commit_is_reported_and_the_files_are_deleted(place: Path) -> None:
    found = execute(Answering(place, 1, Unknown("nobody answered")))

    assert isinstance(found, VacuumOutcome)
    assert found.end_version is None
    assert "version 5 was sent" in str(found.end_problem)
    assert set(NEEDED) == files_of(place)


class Refusing(MortalStorage):
    """Refuses to delete some files; `asked` counts how often each was to be deleted."""

    def __init__(self, place: Path, *paths: str) -> None:
        super().__init__(LocalStorage(str(place)))
        self.paths, self.asked = set(paths), Counter[str]()

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            self.asked[path] += 1
            if path in self.paths:
                yield path, Failed("permission denied")
            else:
                yield from super().delete_many([path])


def test_files_that_are_refused_are_named_and_only_they_are_tried_again(place: Path, tmp_path: Path) -> None:
    plan = f"{tmp_path}/plan"
    save(LocalStorage(str(place)), plan)
    stubborn = ("gone-1.parquet", "gone-2.parquet", "p=2/uncommitted.parquet")

    first = execute(Refusing(place, *stubborn), plan)

    assert isinstance(first, VacuumOutcome)
    assert (8, 3) == (first.deleted.files, first.failed.count)
    assert [(path, "permission denied") for path in sorted(stubborn)] == first.failed.examples
    with pytest.raises(PartlyDone) as caught:
        require_complete(VacuumResult(read_plan(plan), first))
    assert 5 == caught.value.exit_code
    assert [(START, None), (END, "FAILED")] == said(place)
    assert not (place / INFO).exists()

    again = Refusing(place)
    second = execute(again, plan)

    assert isinstance(second, VacuumOutcome)
    assert set(stubborn) == set(again.asked)
    assert (11, 0, 0, 8) == (second.deleted.files, second.failed.count, second.missing, second.resumed_after)
    assert (END, "COMPLETED") == said(place)[-1]
    assert set(NEEDED) == files_of(place)


def test_a_batch_that_fails_takes_nothing_from_the_others(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All batches at the same time: the first loses its store at once, the others are finished and counted."""
    monkeypatch.setattr(deleting, "FILES_A_BATCH", 4)  # 11 files are as many batches as threads
    plan = f"{tmp_path}/plan"
    save(LocalStorage(str(place)), plan)
    together = Barrier(3)

    class Breaking(MortalStorage):
        def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
            batch = list(paths)
            together.wait(30)
            for path in batch:
                if path == "_change_data/old.parquet":
                    raise StorageFailed("the network is down")
                yield from super().delete_many([path])

    outcome = VacuumOutcome()
    with pytest.raises(StorageFailed, match="the network is down"):
        vacuum(Breaking(LocalStorage(str(place))), plan, outcome=outcome, threads=3)

    assert (7, 4) == (outcome.deleted.files, outcome.failed.count) == (gone(place), 4)
    assert [(START, None), (END, "FAILED")] == said(place)
    rest = Refusing(place)
    found = execute(rest, plan)
    assert isinstance(found, VacuumOutcome)
    assert (11, 0) == (found.deleted.files, found.missing)
    assert 4 == rest.asked.total()


def test_no_more_batches_are_in_flight_than_configured(place: Path) -> None:
    running, most, lock = 0, 0, Lock()
    together = Barrier(2)

    class Counting(MortalStorage):
        def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            together.wait(30)
            yield from super().delete_many(paths)
            with lock:
                running -= 1

    assert isinstance(execute(Counting(LocalStorage(str(place))), threads=2), VacuumOutcome)

    assert 2 == most


@pytest.mark.parametrize(("rate", "files"), [(2.0, 2), (0.5, 1), (100.0, 3)])
def test_a_rate_is_kept_all_along(rate: float, files: int, place: Path) -> None:
    """Also from the first second on: what a second may delete is never sent at once with more."""
    now, deleted, pauses = 0.0, [0], []

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)
        deleted.append(0)

    def count(_: str) -> None:
        deleted[-1] += 1
        assert sum(deleted) <= rate * now + files

    machine = Machine(sleep=pause, monotonic=lambda: now)
    table = Table(Hooked(place, count), clock=fixed_clock(NOW_MS), machine=machine)
    execute_vacuum(table, plan_vacuum(table, vacuum_request()), VacuumRequest(threads=1, rate=rate))

    assert len(GARBAGE) == sum(deleted)
    assert files == max(deleted)
    assert (len(GARBAGE) - deleted[-1]) / rate == pytest.approx(now)


def test_files_that_come_back_into_the_table_meanwhile_are_spared(place: Path) -> None:
    """Between the second batch and the third another writer adds files again, one of them by its vector alone."""
    line = b'{"add":{"path":"%s","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}\n'
    deleted: list[str] = []

    def hook(path: str) -> None:
        deleted.append(path)
        if len(deleted) == 6:
            lines = line % b"p=2/uncommitted.parquet" + line % b"gone-6.parquet"
            LocalStorage(str(place)).put_if_absent(f"_delta_log/{5:020d}.json", lines, modified_ms=1)

    found = execute(Hooked(place, hook), threads=1)

    assert isinstance(found, VacuumOutcome)
    assert (9, 2, 6) == (found.deleted.files, found.spared, found.end_version)
    assert {"p=2/uncommitted.parquet", "gone-6.parquet"} == files_of(place) - set(NEEDED)


@pytest.mark.parametrize("change", ["gone", "replaced", "shorter"])
def test_a_replaced_log_ends_the_run(change: str, place: Path) -> None:
    seen: list[str] = []

    def hook(path: str) -> None:
        seen.append(path)
        if len(seen) != 1:
            return
        start = place / "_delta_log" / f"{4:020d}.json"
        match change:
            case "gone":
                start.unlink()
            case "replaced":
                start.write_bytes((place / "_delta_log" / f"{0:020d}.json").read_bytes())
            case _:
                for version in (2, 3, 4):
                    (place / "_delta_log" / f"{version:020d}.json").unlink()

    found = execute(Hooked(place, hook), threads=1)

    assert isinstance(found, DeltacliError)
    assert "vacuum.plan-other-past" == found.code
    assert 3 == gone(place)


CHANGES = {
    "vacuum.plan-retention": metadata(configuration={"delta.deletedFileRetentionDuration": "interval 30 days"}),
    "vacuum.plan-other-table": metadata("00000000-0000-0000-0000-000000000000"),
    "catalog.managed": protocol(3, 7, reader_features=["catalogManaged"], writer_features=["catalogManaged"]),
}


def change(place: Path, version: int, line: Line) -> None:
    data = to_bytes([commit_info("SET"), line])
    LocalStorage(str(place)).put_if_absent(f"_delta_log/{version:020d}.json", data, modified_ms=NOW_MS)


@pytest.mark.parametrize("code", [code for code in CHANGES if code != "catalog.managed"])
def test_changes_before_the_start_end_the_run_without_deletions(code: str, place: Path) -> None:
    table = open_at(LocalStorage(str(place)))
    plan = plan_vacuum(table, vacuum_request())
    change(place, 4, CHANGES[code])

    with pytest.raises(Refused) as caught:
        execute_vacuum(table, plan)

    assert code == caught.value.code
    assert 0 == gone(place)
    assert [] == said(place)[1:]


@pytest.mark.parametrize("code", CHANGES)
def test_changes_between_two_waves_end_the_run(code: str, place: Path) -> None:
    seen: list[str] = []

    def hook(path: str) -> None:
        seen.append(path)
        if len(seen) == 1:
            change(place, 5, CHANGES[code])

    found = execute(Hooked(place, hook), threads=1)

    assert isinstance(found, DeltacliError)
    assert (4, 3) == (found.exit_code, gone(place))


def test_a_slow_batch_holds_up_no_other_thread(place: Path) -> None:
    """The first deletion ends when the other thread has come to the last group: groups are no barriers."""
    deletions, last = counter(1), Event()

    def hook(_: str) -> None:
        number = next(deletions)
        if number == 1:
            assert last.wait(30)
        elif number > 2 * FILES_A_BATCH:
            last.set()

    found = execute(Hooked(place, hook), threads=2)

    assert isinstance(found, VacuumOutcome)
    assert len(GARBAGE) == found.deleted.files == gone(place)


# Signals


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Delete]:
    """A signal comes before so many deletions, and the deletions from there on wait until it was heard."""
    made: list[StopRequest] = []

    def make(**options: bool) -> StopRequest:
        made.append(StopRequest(**options))
        return made[-1]

    def hooked(count: int) -> Delete:
        deletions = counter(1)  # several threads delete

        def hook(_: str) -> None:
            number = next(deletions)
            if number == count:
                os.kill(os.getpid(), signal.SIGTERM)
            if number >= count:
                made[-1]._ending.wait(30)

        return hook

    monkeypatch.setattr(deleting, "StopRequest", make)
    return hooked


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_finishes_batches_in_flight_and_the_next_run_resumes(
    threads: int, interrupt_at: Callable[[int], Delete], place: Path, tmp_path: Path
) -> None:
    plan = f"{tmp_path}/plan"
    save(LocalStorage(str(place)), plan)
    outcome = VacuumOutcome()

    with raise_on_signals(), pytest.raises(Interrupted):
        vacuum(Hooked(place, interrupt_at(4)), plan, outcome=outcome, threads=threads)

    done = gone(place)
    assert done in {6, 3 * (threads + 1)}  # with two threads, another batch may have begun
    assert done == outcome.deleted.files
    assert ([(START, None), (END, "FAILED")], 5) == (said(place), outcome.end_version)
    check_table(place)
    with ProgressRecord(plan, read_plan(plan)) as record:
        assert (range(done, 11),) == record.pending
    rest = Refusing(place)
    found = execute(rest, plan)
    assert isinstance(found, VacuumOutcome)
    assert (FileTotals(11, 11), 0, 11 - done) == (found.deleted, found.missing, rest.asked.total())
    assert set(NEEDED) == files_of(place)


def test_a_second_signal_leaves_at_once(place: Path) -> None:
    """The first comes while a deletion hangs, the others when the first was heard."""
    program = f"""
import os, signal, sys, threading
from pathlib import Path
from deltacli.cli.terminal import signals
from tests.support import vacuuming
from tests.operations.vacuum.test_vacuum_faults import Hooked
def hook(_):
    os.kill(os.getpid(), signal.SIGINT)
    while not signals.is_interrupted():
        threading.Event().wait(0.01)
    while True:  # one that arrives just before the main thread waits is heard by the next one
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(0.5)
with signals.raise_on_signals():
    vacuuming.vacuum(Hooked(Path({str(place)!r}), hook))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=50)

    assert 128 + signal.SIGINT == done.returncode, done.stderr
    assert [(START, None)] == said(place)
    check_table(place)
    assert isinstance(execute(MortalStorage(LocalStorage(str(place)))), VacuumOutcome)
    assert set(NEEDED) == files_of(place)


def test_a_full_disk_at_start_names_the_way_to_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def take_nothing(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_table(tmp_path)
    table = open_at(LocalStorage(str(tmp_path)))
    plan = plan_vacuum(table, vacuum_request())
    monkeypatch.setattr("deltacli.storage.local_write.LocalDraft.write", take_nothing)

    with pytest.raises(NoSpace) as raised:
        execute_vacuum(table, plan)
    before = set(files_of(tmp_path))
    outcome = execute_vacuum(table, plan, VacuumRequest(log_entries=False))

    assert ("storage.no-space", 7) == (raised.value.code, raised.value.exit_code)
    assert raised.value.hint is not None
    assert "--no-log-entries" in raised.value.hint
    assert set(GARBAGE) <= before
    assert outcome.deleted.files == plan.files > 0
