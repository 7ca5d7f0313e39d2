"""Deleting the candidates of a plan, a wave of batches at a time; the log is checked again before each wave.

The outcome of each file is counted and recorded, also if a fault or a signal ends the run in the middle of a wave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.arrow import compute as pc
from deltacli.errors import DeltacliError, PermissionRefused
from deltacli.operations.vacuum.plan import Amount, VacuumOutcome, VacuumPlan
from deltacli.storage import Deleted, Deletion, Failed, Missing

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.vacuum.rechecking import NewerCommits
    from deltacli.storage import Storage

FILES_A_BATCH = 1_000
_FRESH_SECONDS = 5.0
"""Age of a check of the files up to which they are not checked again."""
_FAILURES_NAMED = 1_000
_PATIENCE = 0.1

Pause = Callable[[float], None]
Ticks = Callable[[], float]


class Record(Protocol):
    """A record of the progress of an execution, so that a later one can continue."""

    @property
    def pending(self) -> Sequence[range]:
        """The rows of the plan left to decide, ascending: those that failed, and those not tried yet."""

    @property
    def counts(self) -> VacuumOutcome:
        """The outcome of the other rows, to which the run adds."""

    def advance(self, up_to: int, outcome: VacuumOutcome) -> None:
        """Record that every pending row of the plan before `up_to` is decided."""

    def finish(self, outcome: VacuumOutcome, *, completed: bool) -> None:
        """Record the end of the execution."""


def is_fresh(plan: VacuumPlan, ticks: Ticks) -> bool:
    """Return True if this process has just checked the files of a plan."""
    begun = plan.looked_at
    return begun is not None and not plan.by_inventory and 0 <= ticks() - begun <= _FRESH_SECONDS


@dataclass(frozen=True)
class Deletions:
    """The files to delete and the speed: batches at a time (None: as many as the store prefers), files per second
    (None: no limit).
    """

    table: TableHandle
    plan: VacuumPlan
    outcome: VacuumOutcome
    newer: NewerCommits
    record: Record | None
    threads: int | None
    rate: float | None
    pause: Pause
    ticks: Ticks

    def run(self) -> None:
        """Delete. Raises what the check of the log raises, and the fault of a store that cannot continue."""
        pending = [range(self.plan.files)] if self.record is None else self.record.pending
        files = FILES_A_BATCH * self._at_once
        if self.rate:
            files = min(files, max(1, int(self.rate)))
        total = sum(map(len, pending))
        begun, handled = self.ticks(), 0
        with self.table.progress.step("deleting", unit="files", total=total) as step:
            for parts in _waves(pending, files):
                wave = self._look(parts)
                step.advance(wave.rows.num_rows - sum(len(batch.rows) for batch in wave.batches))
                to_the_end(partial(self._delete, wave, step.advance))
                handled += wave.rows.num_rows
                if self.rate and handled < total:
                    self._wait(begun + handled / self.rate)

    @property
    def _at_once(self) -> int:
        return self.threads or self.table.storage.capabilities.parallel_reads

    def _wait(self, moment: float) -> None:
        ahead = moment - self.ticks()
        if ahead > 0:
            self.pause(ahead)

    def _look(self, parts: Sequence[range]) -> _Wave:
        """Return the rows of a wave, with those that newer commits name."""
        import pyarrow as pa

        candidates = self.plan.candidates
        rows = pa.concat_tables([candidates.slice(part.start, len(part)) for part in parts])
        rows = rows.append_column("row", pa.array([row for part in parts for row in part], pa.int64()))
        spared = self.newer.needed(rows.column("path").combine_chunks())
        return _Wave(rows, spared, list(self._batches(pc.filter(rows, pc.invert(spared)))))

    def _batches(self, rows: pyarrow.Table) -> Iterator[_Batch]:
        """Return batches of the maximum size of one request, or of the number of files deleted at a time."""
        each = FILES_A_BATCH
        is_cheap = self.table.storage.capabilities.cheap_listing
        if is_cheap:
            each = min(each, max(1, -(-rows.num_rows // self._at_once)))
        for begin in range(0, rows.num_rows, each):
            part = rows.slice(begin, each)
            paths = [path.decode("utf-8", "surrogateescape") for path in part.column("path").to_pylist()]
            sizes = part.column("sizeBytes").to_pylist()
            looks = self.plan.by_inventory or (is_cheap and not is_fresh(self.plan, self.ticks))
            yield _Batch(part.column("row").to_pylist(), paths, sizes, self.plan.cutoff_ms if looks else None)

    def _delete(self, wave: _Wave, advance: Callable[[int], None]) -> None:
        """Delete a wave's files and count them even if it is interrupted. `advance` is called for each decided file."""
        try:
            faults = self._send(wave.batches, advance)
        except BaseException:  # files have been deleted already: count them before raising again
            with suppress(Exception):  # the first error is more important than one of the record
                self._settle(wave)
            raise
        self._settle(wave)
        if faults:
            raise faults[0]

    def _send(self, batches: Sequence[_Batch], advance: Callable[[int], None]) -> list[DeltacliError]:
        storage = self.table.storage

        def work(batch: _Batch) -> DeltacliError | None:
            return batch.delete(storage, advance)

        outcomes = self.table.engine.run(work, batches, at_once=self._at_once)
        return [fault for fault in outcomes if fault is not None]

    def _settle(self, wave: _Wave) -> None:
        """Count the outcomes of a wave, up to the first file without one."""
        rows = wave.rows.column("row")
        left = min((row for batch in wave.batches for row in batch.open_rows), default=None)
        count = wave.rows.num_rows if left is None else pc.index(rows, left).as_py()
        self.outcome.spared += pc.sum(wave.spared.slice(0, count)).as_py() or 0
        for batch in wave.batches:
            batch.count(self.outcome)
        if self.record is not None:
            self.record.advance(rows[-1].as_py() + 1 if left is None else left, self.outcome)


@dataclass
class _Batch:
    """Files that are deleted together, and their known outcomes; None for spared files.

    With `cutoff_ms` each is checked again: one that was written since is spared, and one that is missing or now behind
    a link is not touched.
    """

    rows: list[int]
    paths: list[str]
    sizes: list[int | None]
    cutoff_ms: int | None
    outcomes: dict[int, Deletion | None] = field(default_factory=dict)
    """By the position in the batch."""

    @property
    def open_rows(self) -> list[int]:
        """Return the rows without an outcome so far."""
        return [row for position, row in enumerate(self.rows) if position not in self.outcomes]

    def delete(self, storage: Storage, advance: Callable[[int], None]) -> DeltacliError | None:
        """Delete the files; return a fault of the store, with which all files without an outcome have failed."""
        try:
            self._delete(storage, advance)
        except DeltacliError as fault:
            failed = Failed(fault.message, fault if isinstance(fault, PermissionRefused) else None)
            self.outcomes = {position: self.outcomes.get(position, failed) for position in range(len(self.rows))}
            return fault
        return None

    def _delete(self, storage: Storage, advance: Callable[[int], None]) -> None:
        if self.cutoff_ms is not None:
            sizes, times = storage.stat_many(self.paths)
            young = [position for position, modified_ms in enumerate(times) if modified_ms >= self.cutoff_ms]
            gone = [position for position, size in enumerate(sizes) if size < 0]
            self.outcomes |= dict.fromkeys(young) | dict.fromkeys(gone, Missing())
            advance(len(self.outcomes))
        due = [position for position in range(len(self.rows)) if position not in self.outcomes]
        deletions = storage.delete_many([self.paths[position] for position in due])
        for (_, what), position in zip(deletions, due, strict=True):
            self.outcomes[position] = what
            advance(1)

    def count(self, outcome: VacuumOutcome) -> None:
        """Add the counts to an outcome."""
        deleted, size_bytes = outcome.deleted
        for position in sorted(self.outcomes):
            path, size = self.paths[position], self.sizes[position]
            match self.outcomes[position]:
                case Deleted():
                    deleted, size_bytes = deleted + 1, size_bytes + (size or 0)
                case Missing():
                    outcome.missing += 1
                case None:
                    outcome.spared += 1
                case Failed(reason) as failure:
                    outcome.failures += 1
                    outcome.denials.note(failure)
                    if len(outcome.failed) < _FAILURES_NAMED:
                        outcome.failed.append((path, reason))
        outcome.deleted = Amount(deleted, size_bytes)


class _Wave(NamedTuple):
    """Rows of the plan that are decided together. `spared` marks those that newer commits name; the others are in the
    batches.
    """

    rows: pyarrow.Table
    spared: Any  # Any: a boolean array
    batches: list[_Batch]


def to_the_end(work: Callable[[], None]) -> None:
    """Run a function in a thread of its own and wait for it, so that a signal to the main thread ends the run only
    after the work is done and recorded.
    """
    raised: list[BaseException] = []
    begun = Lock()  # the first thread to acquire it decides whether the work is done or dropped
    done = Event()  # `Thread.join` may consider a thread dead after a signal (Python 3.11 and 3.12)

    def run() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            work()
        except BaseException as fault:  # noqa: BLE001  (raised again in the waiting thread)
            raised.append(fault)
        finally:
            done.set()

    try:
        Thread(target=run, name="deltacli-delete").start()
        _await(done)
    except BaseException:  # a signal, or no more threads: work that has not started is dropped
        if not begun.acquire(blocking=False):
            _await(done)
        raise
    if raised:
        raise raised[0]


def _await(done: Event) -> None:
    while not done.wait(_PATIENCE):  # the system may deliver a signal to another thread, so poll for it
        pass


def _waves(pending: Sequence[range], each: int) -> Iterator[list[range]]:
    """Yield the rows of ranges, in order, this many at a time."""
    wave: list[range] = []
    room = each
    for rows in pending:
        start = rows.start
        while start < rows.stop:
            part = range(start, min(rows.stop, start + room))
            wave.append(part)
            start, room = part.stop, room - len(part)
            if not room:
                yield wave
                wave, room = [], each
    if wave:
        yield wave
