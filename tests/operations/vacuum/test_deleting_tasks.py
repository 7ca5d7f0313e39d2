"""Deleting as a task: it is repeated, its time is over, or its store fails in the middle."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.changing.file_totals import FileTotals
from deltacli.cli.terminal.signals import Interrupted
from deltacli.core.errors import Refused, StorageFailed
from deltacli.core.machine import Machine, fixed_clock
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.log.expire import ExpiryOutcome, ExpiryRequest, LogExpiry, plan_expiry
from deltacli.operations.vacuum import execute as deleting
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumOutcome
from deltacli.storage import Deletion, LocalStorage, Storage
from deltacli.storage.repeat_condition import repeat_only_while
from deltacli.storage.retry import Retry
from deltacli.work.files.deleting import DeleteBatch, DeletePiece, FileOutcome
from deltacli.work.files.permits import Permit
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.committing import infos
from tests.support.reading import NOW_MS
from tests.support.shipping import ShippingEngine
from tests.support.vacuuming import (
    FILES_A_BATCH,
    GARBAGE,
    NEEDED,
    MortalStorage,
    check_table,
    files_of,
    vacuum_request,
    write_table,
)
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
NOW, LATER = 1_700_000_000_000, 1_700_000_000_000 + HOUR_MS


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "FILES_A_BATCH", FILES_A_BATCH)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_table(tmp_path / "t")


class Breaking(MortalStorage):
    """Loses its connection before it deletes one of the files, each time."""

    is_broken = True

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            if self.is_broken and path == "gone-4.parquet":
                raise StorageFailed("the network is down")
            yield from super().delete_many([path])


def repeating() -> ShippingEngine:
    return ShippingEngine(varying=("DeleteBatch",))


def table_at(storage: Storage, engine: Engine) -> Table:
    return Table(storage, clock=fixed_clock(NOW_MS), engine=engine)


def clock_of(*times: int) -> Callable[[], int]:
    """A clock that shows these times, and then the last one."""
    remaining: Iterator[int] = chain(times, repeat(times[-1]))
    return lambda: next(remaining)


def last_info(place: Path) -> tuple[object, object]:
    info = infos(LocalStorage(str(place)))[-1]
    return info["operationParameters"]["status"], info.get("operationMetrics", {}).get("numDeletedFiles")


def test_a_repeated_batch_finds_its_files_missing_and_changes_nothing_else(place: Path) -> None:
    context = TaskContext(TableStores(LocalStorage(str(place))))
    task: DeleteBatch = pickle.loads(pickle.dumps(DeleteBatch(advance=print)))
    piece = DeletePiece(Permit(None, LATER * 2), ("gone-0.parquet", "young.parquet", "absent"), EPOCH_MS + HOUR_MS)

    first, second = task(piece, context), task(piece, context)

    assert task.advance is None
    assert bytes([FileOutcome.DELETED, FileOutcome.SPARED, FileOutcome.MISSING]) == first.codes
    assert bytes([FileOutcome.MISSING, FileOutcome.SPARED, FileOutcome.MISSING]) == second.codes
    assert (place / "young.parquet").exists()


def test_a_vacuum_whose_batches_run_twice_counts_each_file_once(place: Path) -> None:
    engine = repeating()
    table = table_at(LocalStorage(str(place)), engine)

    outcome = execute_vacuum(table, plan_vacuum(table, vacuum_request()))

    assert (FileTotals(len(GARBAGE), len(GARBAGE)), 0, 0) == (outcome.deleted, outcome.missing, outcome.failed.count)
    assert ("COMPLETED", str(len(GARBAGE))) == last_info(place)
    assert set(NEEDED) == files_of(place)
    assert -(-len(GARBAGE) // FILES_A_BATCH) == engine.shipped.pieces["DeleteBatch"]


def test_nothing_is_deleted_after_the_time(place: Path) -> None:
    before = files_of(place)
    context = TaskContext(TableStores(LocalStorage(str(place))))

    for cutoff_ms in (None, NOW_MS):
        outcome = DeleteBatch(clock=lambda: NOW + 1)(DeletePiece(Permit(None, NOW), GARBAGE, cutoff_ms), context)
        assert (0, None) == (outcome.decided, outcome.fault)

    assert before == files_of(place)


def test_a_batch_ends_where_its_time_is_over(place: Path) -> None:
    context = TaskContext(TableStores(LocalStorage(str(place))))

    outcome = DeleteBatch(clock=clock_of(NOW, NOW, LATER))(DeletePiece(Permit(None, NOW), GARBAGE[:4]), context)

    assert bytes([FileOutcome.DELETED] * 2 + [FileOutcome.NOT_TRIED] * 2) == outcome.codes
    assert {*GARBAGE[2:]} == {*GARBAGE} & files_of(place)


def test_files_whose_time_was_over_are_sent_again_after_another_check_of_the_log(place: Path) -> None:
    """While the first batch waits, a writer adds a file again."""
    table = table_at(LocalStorage(str(place)), EmbeddedEngine())
    plan = plan_vacuum(table, vacuum_request())
    line = b'{"add":{"path":"gone-0.parquet","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}\n'
    times = iter([NOW])

    def clock() -> int:
        if (now := next(times, None)) is not None:
            return now
        log = place / "_delta_log" / f"{5:020d}.json"
        if not log.exists():
            log.write_bytes(line)
            os.utime(log, ns=(1, 1))
        return LATER

    table.stores = replace(table.stores, machine=Machine(clock))
    outcome = execute_vacuum(table, plan)

    assert (len(GARBAGE) - 1, 1, 0) == (outcome.deleted.files, outcome.spared, outcome.failed.count)
    assert {*NEEDED, "gone-0.parquet"} == files_of(place)
    assert ("COMPLETED", str(len(GARBAGE) - 1)) == last_info(place)


def test_clocks_that_differ_end_the_run_with_nothing_deleted(place: Path) -> None:
    table = table_at(LocalStorage(str(place)), EmbeddedEngine())
    plan, times = plan_vacuum(table, vacuum_request()), iter(range(NOW, NOW + 10**12, HOUR_MS))
    table.stores = replace(table.stores, machine=Machine(lambda: next(times)))

    with pytest.raises(Refused) as caught:
        execute_vacuum(table, plan)

    assert "vacuum.clock-skew" == caught.value.code
    assert {*NEEDED, *GARBAGE} == files_of(place)
    assert ("FAILED", None) == last_info(place)


@pytest.mark.parametrize("engine", [EmbeddedEngine(), repeating()], ids=["embedded", "repeating"])
def test_a_fault_in_the_middle_counts_what_is_gone(engine: Engine, place: Path) -> None:
    storage = Breaking(LocalStorage(str(place)))
    table, outcome = table_at(storage, engine), VacuumOutcome()

    with pytest.raises(StorageFailed, match="the network is down"):
        execute_vacuum(table, plan_vacuum(table, vacuum_request()), outcome=outcome)

    check_table(place)
    gone = {*GARBAGE} - files_of(place)
    assert (len(gone), "FAILED") == (outcome.deleted.files, last_info(place)[0])
    assert 0 < len(gone) < len(GARBAGE)
    assert "gone-4.parquet" in dict(outcome.failed.examples)
    storage.is_broken = False
    again = execute_vacuum(table, plan_vacuum(table, vacuum_request()))
    assert len(GARBAGE) == outcome.deleted.files + again.deleted.files
    assert set(NEEDED) == files_of(place)


def test_an_expiry_counts_the_same_whatever_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.operations.log.expire.FILES_A_BATCH", 3)
    later = fixed_clock(EPOCH_MS + 60 * 24 * HOUR_MS)
    outcomes: list[ExpiryOutcome] = []

    for engine in (EmbeddedEngine(), repeating()):
        storage = TableBuilder().commits(9).checkpoint(4).in_memory()
        table = Table(storage, clock=later, engine=engine)
        plan = plan_expiry(table, ExpiryRequest())
        deque(storage.delete_many([plan.files[0].path]), maxlen=0)  # somebody else was faster
        outcomes.append(execute_change(LogExpiry(plan.request), table, plan=plan))

    assert outcomes[0] == outcomes[1]
    assert (3, 1, []) == (outcomes[0].deleted, outcomes[0].missing, outcomes[0].failed.examples)


def test_a_request_is_not_repeated_after_the_time() -> None:
    sent: list[int] = []

    def send() -> None:
        sent.append(1)
        raise TimeoutError

    retry = Retry(pause=lambda _: None, clock=lambda: 0.0)
    with repeat_only_while(lambda: len(sent) < 3), pytest.raises(TimeoutError):
        retry.call(send, host="h", errors=(TimeoutError,), temporary_cause=lambda _: "timeout")

    assert 3 == len(sent)


def test_files_that_are_already_gone_do_not_count_as_deleted(place: Path) -> None:
    """The plan was saved; meanwhile another run has deleted a file of it."""
    table = table_at(LocalStorage(str(place)), repeating())
    plan = replace(plan_vacuum(table, vacuum_request()), looked_at=None)
    (place / "gone-0.parquet").unlink()

    outcome = execute_vacuum(table, plan)

    assert (len(GARBAGE) - 1, 1, 0) == (outcome.deleted.files, outcome.missing, outcome.failed.count)
    assert ("COMPLETED", str(len(GARBAGE) - 1)) == last_info(place)


def test_by_an_inventory_each_file_is_looked_at_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = TableBuilder().commits(3)
    for number in range(3):
        builder.file(f"part-{number:05d}.parquet", b"x").file(f"old-{number}.parquet", b"x", modified_ms=EPOCH_MS)
    storage = builder.in_memory()
    monkeypatch.setattr(
        type(storage), "capabilities", storage.capabilities._replace(has_cheap_requests=False), raising=False
    )
    table = table_at(storage, repeating())
    plan = replace(plan_vacuum(table, vacuum_request()), looked_at=None, by_inventory=True)
    deque(storage.delete_many(["old-0.parquet"]), maxlen=0)

    outcome = execute_vacuum(table, plan)

    assert (plan.files - 1, 1) == (outcome.deleted.files, outcome.missing)


class _Cancelling(ShippingEngine):
    """A cluster that is interrupted after its tasks have deleted some files, and cancels its job."""

    def run_tasks(self, task: Any, pieces: Any, stores: Any, **given: Any) -> Any:
        if isinstance(task, DeleteBatch):
            deque(super().run_tasks(task, pieces[:1], stores, **given), maxlen=0)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            wait_until(given["is_cancelled"], "the job is cancelled")
            raise CancelledError
        yield from super().run_tasks(task, pieces, stores, **given)


@pytest.mark.parametrize("is_cheap", [True, False], ids=["disk", "remote"])
def test_an_interrupted_cluster_counts_what_its_job_has_deleted(
    is_cheap: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(str(place))
    monkeypatch.setattr(
        LocalStorage, "capabilities", storage.capabilities._replace(has_cheap_requests=is_cheap), raising=False
    )
    table, outcome = table_at(storage, _Cancelling(varying=("DeleteBatch",))), VacuumOutcome()
    plan = plan_vacuum(table, vacuum_request())
    before = signal.signal(signal.SIGTERM, interrupt)

    try:
        with pytest.raises(Interrupted):
            execute_vacuum(table, plan, outcome=outcome)
    finally:
        signal.signal(signal.SIGTERM, before)

    gone = {*GARBAGE} - files_of(place)
    assert (FILES_A_BATCH, "FAILED") == (len(gone), last_info(place)[0])
    assert len(gone) == outcome.deleted.files == outcome.deleted.size_bytes


def interrupt(number: int, _frame: object) -> None:
    raise Interrupted(number)
