"""Deleting the candidates of a plan, a wave of batches at a time; the log is checked again before each wave.

The outcome of each file is counted and recorded, also if a fault or a signal ends the run in the middle of a wave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from deltacli.arrow import compute as pc
from deltacli.clock import Clock, system_clock
from deltacli.errors import DeltacliError, PermissionRefused, Refused
from deltacli.operations.vacuum.plan import Amount, VacuumOutcome, VacuumPlan
from deltacli.storage import Failed
from deltacli.storage.retry import DEFAULT_BUDGET_SECONDS
from deltacli.work.files.deleting import (
    MOST_AT_ONCE,
    BatchOutcome,
    DeleteBatch,
    DeletePiece,
    FileOutcome,
    are_missing,
    files_of_piece,
    outcome_without_file,
)
from deltacli.work.uninterrupted import Stop, uninterrupted

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.vacuum.rechecking import NewerCommits

FILES_A_BATCH = MOST_AT_ONCE
_FRESH_SECONDS = 5.0
"""Age of a check of the files up to which they are not checked again."""
_FAILURES_NAMED = 1_000
_BATCHES_SENT = 64
"""Batches per check of the log on an engine of several processes: enough for each of them, and some seconds of work."""
_VALID_MS = 60_000
"""Age of a check of the log up to which deletions begin."""
_MOST_FRUITLESS = 3

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
    (None: no limit). `wall_clock` is compared with the clocks of other processes.
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
    wall_clock: Clock = system_clock

    def run(self) -> None:
        """Delete. Raises what the check of the log raises, and the fault of a store that cannot continue."""
        pending = [range(self.plan.files)] if self.record is None else self.record.pending
        files = FILES_A_BATCH * (max(self._at_once, _BATCHES_SENT) if self._repeats else self._at_once)
        if self.rate:
            files = min(files, max(1, int(self.rate)))
        total = sum(map(len, pending))
        begun, handled = self.ticks(), 0
        with self.table.progress.step("deleting", unit="files", total=total) as step:
            for parts in _waves(pending, files):
                wave = self._look(parts)
                step.advance(wave.rows.num_rows - sum(len(batch.rows) for batch in wave.batches))
                uninterrupted(partial(self._delete, wave, step.advance), self._stop)
                handled += wave.rows.num_rows
                if self.rate and handled < total:
                    self._wait(begun + handled / self.rate)

    @cached_property
    def _stop(self) -> Stop:
        """A cluster deletes more at a time than anyone waits for, so a signal ends it at once."""
        return Stop(at_once=self._repeats)

    @property
    def _at_once(self) -> int:
        return self.threads or self.table.storage.capabilities.parallel_reads

    @property
    def _repeats(self) -> bool:
        return self.table.engine.may_repeat

    @property
    def _looks_before(self) -> bool:
        """True if it is known of each file whether it was there before this run. Where tasks are repeated, that cannot
        be told from what becomes of a deletion. S3 does not tell it at all, except by another request per file.
        """
        if not self._repeats or (self.record is None and is_fresh(self.plan, self.ticks)):
            return False
        return self.plan.by_inventory or self.table.storage.capabilities.cheap_listing

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
        gone = pa.array(self._gone(rows) if self._looks_before else [False] * rows.num_rows, pa.bool_())
        spared, batches = self._check(rows, gone)
        missing = pc.filter(rows.column("row"), pc.and_not(gone, spared)).to_pylist()
        return _Wave(rows, spared, batches, batches, missing)

    def _gone(self, rows: pyarrow.Table) -> list[bool]:
        """Return which files of rows do not exist."""
        paths = [path.decode("utf-8", "surrogateescape") for path in rows.column("path").to_pylist()]
        if self.table.storage.capabilities.cheap_listing:
            return [size < 0 for size in self.table.storage.stat_many(paths)[0]]
        pieces = [tuple(paths[begin : begin + FILES_A_BATCH]) for begin in range(0, len(paths), FILES_A_BATCH)]
        found = self.table.engine.spread(are_missing, pieces, self.table.stores, weigh=len, is_cancelled=self._stop)
        return [bool(is_missing) for piece in found for is_missing in piece]

    def _check(self, rows: pyarrow.Table, gone: Any) -> tuple[Any, list[_Batch]]:  # Any: boolean arrays
        """Return which rows newer commits name, and batches of those that are neither named nor `gone`, to begin before
        the check is too old.
        """
        not_after_ms = self.wall_clock() + valid_ms(self.table)
        spared = self.newer.needed(rows.column("path").combine_chunks())
        return spared, list(self._batches(pc.filter(rows, pc.invert(pc.or_(spared, gone))), not_after_ms))

    def _batches(self, rows: pyarrow.Table, not_after_ms: int) -> Iterator[_Batch]:
        """Return batches of the maximum size of one request, or of the number of files deleted at a time."""
        each = FILES_A_BATCH
        is_cheap = self.table.storage.capabilities.cheap_listing
        if is_cheap and not self._repeats:
            each = min(each, max(1, -(-rows.num_rows // self._at_once)))
        for begin in range(0, rows.num_rows, each):
            part = rows.slice(begin, each)
            paths = tuple(path.decode("utf-8", "surrogateescape") for path in part.column("path").to_pylist())
            is_old = self._repeats or not is_fresh(self.plan, self.ticks)  # a batch of a cluster may begin much later
            looks = self.plan.by_inventory or (is_cheap and is_old)
            piece = DeletePiece(paths, not_after_ms, self.plan.cutoff_ms if looks else None)
            yield _Batch(part.column("row").to_pylist(), part.column("sizeBytes").to_pylist(), piece)

    def _delete(self, wave: _Wave, advance: Callable[[int], None]) -> None:
        """Delete a wave's files and count them even if it is interrupted. `advance` is called for each decided file."""
        try:
            fault = self._decide(wave, advance)
        except BaseException:  # files have been deleted already: count them before raising again
            with suppress(Exception):  # the first error is more important than one of the record
                self._settle(wave)
            raise
        self._settle(wave)
        if fault is not None:
            raise fault

    def _decide(self, wave: _Wave, advance: Callable[[int], None]) -> Exception | None:
        """Send the batches, and again those files whose time was over, after another check of the log; return the first
        fault.
        """
        fruitless = 0
        while True:
            fault = self._send(wave.last, advance)
            left = [row for batch in wave.last for row in batch.open_rows]
            if fault is not None or not left or self._stop():
                return fault
            fruitless = fruitless + 1 if len(left) == sum(len(batch.rows) for batch in wave.last) else 0
            require_progress(fruitless)
            self._send_again(wave, left, advance)

    def _send_again(self, wave: _Wave, left: list[int], advance: Callable[[int], None]) -> None:
        """Make new batches of the rows that are left, without those that commits named meanwhile."""
        import pyarrow as pa

        rows = pc.filter(wave.rows, pc.is_in(wave.rows.column("row"), value_set=pa.array(left, pa.int64())))
        spared, wave.last = self._check(rows, pa.array([False] * rows.num_rows, pa.bool_()))
        wave.more_spared += pc.filter(rows.column("row"), spared).to_pylist()
        wave.batches = [*wave.batches, *wave.last]
        advance(pc.sum(spared).as_py() or 0)

    def _send(self, batches: Sequence[_Batch], advance: Callable[[int], None]) -> Exception | None:
        """Delete batches, and return the first fault."""
        task = DeleteBatch(None if self._repeats else advance, self.wall_clock)
        outcomes = self.table.engine.spread(
            task,
            [batch.piece for batch in batches],
            self.table.stores,
            weigh=files_of_piece,
            at_once=self._at_once,
            is_cancelled=self._stop,
        )
        try:
            for batch, outcome in zip(batches, outcomes, strict=True):
                batch.outcome = outcome
                if self._repeats:
                    advance(outcome.decided)
        except Exception as fault:
            if self._repeats:
                self._find_deleted([batch for batch in batches if batch.outcome is None])
            if not isinstance(fault, CancelledError):
                raise
        return next((batch.outcome.fault for batch in batches if batch.outcome and batch.outcome.fault), None)

    def _find_deleted(self, batches: Sequence[_Batch]) -> None:
        """Look which files of batches without a result are gone: the job may have deleted some before it ended. Where
        the store cannot tell, the next execution decides.
        """
        storage = self.table.storage
        for batch in batches:
            with suppress(DeltacliError):
                paths = batch.piece.paths
                sizes, _ = storage.stat_many(paths)
                codes = (
                    FileOutcome.NOT_TRIED if size >= 0 else outcome_without_file(storage, path)
                    for path, size in zip(paths, sizes, strict=True)
                )
                batch.outcome = BatchOutcome(bytes(codes))

    def _settle(self, wave: _Wave) -> None:
        """Count the outcomes of a wave, up to the first file without one."""
        rows = wave.rows.column("row")
        left = min((row for batch in wave.last for row in batch.open_rows), default=None)
        count = wave.rows.num_rows if left is None else pc.index(rows, left).as_py()
        self.outcome.spared += pc.sum(wave.spared.slice(0, count)).as_py() or 0
        self.outcome.spared += sum(left is None or row < left for row in wave.more_spared)
        self.outcome.missing += sum(left is None or row < left for row in wave.missing)
        # A later execution finds the files after `left` again. Unless it looks first, it counts them as deleted.
        end = left if self._repeats and self.record is not None and not self._looks_before else None
        for batch in wave.batches:
            batch.count(self.outcome, self._repeats, end)
        if self.record is not None:
            self.record.advance(rows[-1].as_py() + 1 if left is None else left, self.outcome)


@dataclass
class _Batch:
    """Files that are deleted together: their rows and sizes in the plan, and the outcome once it is known."""

    rows: list[int]
    sizes: list[int | None]
    piece: DeletePiece
    outcome: BatchOutcome | None = None

    @property
    def open_rows(self) -> list[int]:
        """Return the rows without an outcome so far. With a fault of the store all of them have one."""
        if self.outcome is None:
            return self.rows
        if isinstance(self.outcome.fault, DeltacliError):
            return []
        codes = self.outcome.codes
        return [row for row, code in zip(self.rows, codes, strict=True) if code == FileOutcome.NOT_TRIED]

    def count(self, outcome: VacuumOutcome, may_repeat: bool, end: int | None = None) -> None:
        """Add the counts of the rows before `end` (None: of all) to an outcome. Where a batch may be repeated, a
        missing file was deleted by another attempt: it was there before, so it counts as deleted.
        """
        if self.outcome is None:
            return
        deleted, size_bytes = outcome.deleted
        of_rest = _failure_of(self.outcome.fault)
        each = zip(self.rows, self.piece.paths, self.sizes, self.outcome.each(), strict=True)
        for row, path, size, (code, failure) in each:
            if end is not None and row >= end:
                break
            match code:
                case FileOutcome.MISSING if not may_repeat:
                    outcome.missing += 1
                case FileOutcome.ELSEWHERE:
                    outcome.missing += 1
                case FileOutcome.DELETED | FileOutcome.MISSING:
                    deleted, size_bytes = deleted + 1, size_bytes + (size or 0)
                case FileOutcome.SPARED:
                    outcome.spared += 1
            failed = of_rest if code is FileOutcome.NOT_TRIED else failure
            if failed is not None:
                outcome.failures += 1
                outcome.denials.note(failed)
                if len(outcome.failed) < _FAILURES_NAMED:
                    outcome.failed.append((path, failed.reason))
        outcome.deleted = Amount(deleted, size_bytes)


def _failure_of(fault: Exception | None) -> Failed | None:
    """Return the failure of the files that a batch did not reach because of a fault of the store."""
    if not isinstance(fault, DeltacliError):
        return None
    return Failed(fault.message, fault if isinstance(fault, PermissionRefused) else None)


@dataclass
class _Wave:
    """Rows of the plan that are decided together. `spared` marks those that newer commits name; the others are in the
    batches, of which `last` were sent last. Files of `missing` rows did not exist before the wave; `more_spared` are
    rows that commits named since.
    """

    rows: pyarrow.Table
    spared: Any  # Any: a boolean array
    batches: list[_Batch]
    last: list[_Batch]
    missing: list[int]
    more_spared: list[int] = field(default_factory=list)


def valid_ms(table: TableHandle) -> int:
    """Return how long a batch may be sent after a check of the log, including the retries of a request."""
    location = table.stores.location
    retry_seconds = None if location is None else location.retry_seconds
    return _VALID_MS + int(1_000 * (DEFAULT_BUDGET_SECONDS if retry_seconds is None else retry_seconds))


def require_progress(fruitless: int) -> None:
    """Raise Refused where no file was tried in so many rounds, although each followed a check of the log."""
    if fruitless >= _MOST_FRUITLESS:
        raise Refused(
            f"no file could be deleted within {_VALID_MS // 1_000} s of a check of the log, in {fruitless} attempts",
            code="vacuum.clock-skew",
            facts={"why": "the clocks of the processes that delete are ahead, or they are too busy"},
            hint="date -u",
        )


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
