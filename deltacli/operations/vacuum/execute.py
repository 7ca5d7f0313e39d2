"""Executing the plan of a vacuum: START, deletions in batches with a check of newer commits before each, END.

Batches are checked in groups: the log is read again before the first of each group is sent.

In one process a batch follows the next as soon as a thread is free, so the groups overlap; a cluster, and a run with a
limited rate, end a group before the next one is checked. The outcome of each file is counted and recorded, also if a
fault or a signal ends the run in the middle.

Spec: Delta Log Entries; VACUUM Protocol Check.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import BaseVersion
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed, commit
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import (
    DeltacliError,
    NoSpace,
    PermissionRefused,
    Refusal,
    Refused,
    StorageFailed,
    Unreadable,
    UsageError,
    command,
    parameter,
)
from deltacli.core.lock_free_property import cached_property
from deltacli.core.times import CLOCK_SKEW_MS, format_timestamp
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.actions import require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.segment import LOG_DIRECTORY, commit_name
from deltacli.delta.paths.keys import PathKeys
from deltacli.operations.vacuum.lite_plan import write_last_vacuum
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan, VacuumRequest, VacuumResult
from deltacli.operations.vacuum.rechecking import NewerCommits, adopted
from deltacli.storage import Deleted, Failed, folds_names, is_inside
from deltacli.storage.directory_identity import is_directory_store, other_directory_refusal
from deltacli.table.find_log import list_log
from deltacli.table.nested_tables import find_tables_containing
from deltacli.table.rebuild import read_snapshot
from deltacli.work.files.deleting import (
    MOST_AT_ONCE,
    BatchOutcome,
    DeleteBatch,
    DeletePiece,
    FileOutcome,
    classify_absent_file,
    count_files,
    flag_missing_files,
)
from deltacli.work.files.permits import Permit, make_permit, require_progress
from deltacli.work.files.uninterrupted import StopRequest, run_uninterrupted

if TYPE_CHECKING:
    import pyarrow

    from deltacli.changing.execution import ChangeExecution
    from deltacli.operations.vacuum.quarantine import Quarantine
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot
    from deltacli.work.task import TaskContext

# -- deletion in batches -----------------------------------------------------------------------------------------------


@dataclass
class Batch:
    """Files that are deleted together: their rows and sizes in the plan, and the outcome once it is known."""

    rows: list[int]
    sizes: list[int | None]
    piece: DeletePiece
    outcome: BatchOutcome | None = None

    @property
    def is_open(self) -> bool:
        """True if a row has no outcome so far. With a fault of the store all of them have one."""
        if self.outcome is None:
            return bool(self.rows)
        return not isinstance(self.outcome.fault, DeltacliError) and FileOutcome.NOT_TRIED in self.outcome.codes

    @property
    def open_rows(self) -> list[int]:
        """Return the rows without an outcome so far."""
        if not self.is_open:
            return []
        codes = b"" if self.outcome is None else self.outcome.codes
        if not codes:
            return self.rows
        return [row for row, code in zip(self.rows, codes, strict=True) if code == FileOutcome.NOT_TRIED]

    def count(self, outcome: VacuumOutcome, may_repeat: bool, end: int | None = None) -> None:
        """Add the counts of the rows before `end` (None: of all) to an outcome. Where a batch may be repeated, a
        missing file was deleted by another attempt: it was there before, so it counts as deleted.
        """
        if self.outcome is None:
            return
        deleted, size_bytes = outcome.deleted.files, outcome.deleted.size_bytes
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
                outcome.failed.add(path, failed)
        outcome.deleted = FileTotals(deleted, size_bytes)


def _failure_of(fault: Exception | None) -> Failed | None:
    """Return the failure of the files that a batch did not reach because of a fault of the store."""
    if not isinstance(fault, DeltacliError):
        return None
    return Failed(fault.message, fault if isinstance(fault, PermissionRefused) else None)


@dataclass
class Group:
    """Rows of the plan that are checked together. `spared` marks those that newer commits name; the others are in the
    batches, of which `last` are the newest. Files of `missing` rows did not exist before; `more_spared` are rows that
    commits named since.
    """

    rows: pyarrow.Table
    spared: ArrowArray
    batches: list[Batch]
    last: list[Batch]
    missing: list[int]
    more_spared: list[int] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """True if a row has no outcome so far."""
        return any(batch.is_open for batch in self.last)

    @property
    def open_rows(self) -> list[int]:
        return [row for batch in self.last for row in batch.open_rows]


@dataclass
class Begun:
    """The groups that were begun and are not counted yet, in order, those still to come, and the batches on their way.

    Nothing more is sent after a fault; batches on their way come to their end.
    """

    coming: Iterator[Group]
    groups: list[Group] = field(default_factory=list)
    flying: deque[Batch] = field(default_factory=deque)
    fault: Exception | None = None
    """The first one: of the store, or of a check of the log."""
    has_tried: bool = False
    """A file of this round was decided."""
    has_trouble: bool = False
    """A batch of this round had a fault, or ran out of time. It is set by the thread of the batch."""

    def is_ending(self, stop: StopRequest) -> bool:
        """Return True if nothing more is to be sent in this round."""
        return self.has_trouble or self.fault is not None or stop.is_ending

    def batches(self, again: Sequence[Batch], stop: StopRequest) -> Iterator[Batch]:
        """Yield the batches of a round, each when it is asked for: those to send again, then those of new groups."""
        self.has_tried = self.has_trouble = False
        for batch in chain(again, self._new_ones()):
            if self.is_ending(stop):
                return
            self.flying.append(batch)
            yield batch

    def _new_ones(self) -> Iterator[Batch]:
        while self.fault is None and (group := self._next()) is not None:
            self.groups.append(group)
            yield from group.last

    def _next(self) -> Group | None:
        """Return the next group. A fault of its check is kept: raised here, it would end the batches on their way."""
        try:
            return next(self.coming, None)
        except Exception as caught:  # noqa: BLE001  (raised once the batches on their way have ended)
            self.fault = caught
            return None

    def take(self, outcome: BatchOutcome) -> None:
        """Take the outcome of the batch that was sent first."""
        batch = self.flying.popleft()
        batch.outcome = outcome
        self.fault = self.fault or outcome.fault
        self.note(outcome)
        self.has_tried |= len(batch.open_rows) < len(batch.rows)

    def note(self, outcome: BatchOutcome) -> None:
        """Let nothing more be sent in this round if a batch is not done."""
        if outcome.fault is not None or FileOutcome.NOT_TRIED in outcome.codes:
            self.has_trouble = True

    def complete(self) -> list[Group]:
        """Take the groups from the front of which every row has an outcome."""
        count = next((place for place, group in enumerate(self.groups) if group.is_open), len(self.groups))
        taken, self.groups = self.groups[:count], self.groups[count:]
        return taken


@dataclass(frozen=True, eq=False)
class DeleteUnlessEnding:
    """Deletes a batch in this process, unless the run is ending by the time a thread is free for it."""

    delete: DeleteBatch
    begun: Begun
    stop: StopRequest
    small_results = True

    def __call__(self, piece: DeletePiece, context: TaskContext) -> BatchOutcome:
        if self.begun.is_ending(self.stop):
            return BatchOutcome(bytes([FileOutcome.NOT_TRIED]) * len(piece.paths))
        outcome = self.delete(piece, context)
        self.begun.note(outcome)
        return outcome


FILES_A_BATCH = MOST_AT_ONCE
_MOST_THREADS = 1_000
_FRESH_SECONDS = 5.0
"""Age of a check of the files up to which they are not checked again."""
_BATCHES_SENT = 64
"""Batches per check of the log on an engine of several processes: enough for each of them, and some seconds of work."""


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


def is_fresh(plan: VacuumPlan) -> bool:
    """Return True if this process has just checked the files of a plan."""
    begun, ticks = plan.looked_at, plan.base_version.table.machine.monotonic
    return begun is not None and not plan.is_looked_at_again and 0 <= ticks() - begun <= _FRESH_SECONDS


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

    def run(self) -> None:
        """Delete. Raises what the check of the log raises, and the fault of a store that cannot continue."""
        pending = [range(self.plan.files)] if self.record is None else self.record.pending
        files = FILES_A_BATCH * (max(self._at_once, _BATCHES_SENT) if self._repeats else self._at_once)
        if self.rate:
            files = min(files, max(1, int(self.rate)))
        total = sum(map(len, pending))
        with self.table.progress.step("deleting", unit="files", total=total) as step:
            groups = self._groups(pending, files, step.advance)
            if not self._repeats and not self.rate:
                run_uninterrupted(partial(self._delete, groups, step.advance), self._stop)
                return
            begun, handled = self.table.machine.monotonic(), 0
            for group in groups:
                run_uninterrupted(partial(self._delete, iter([group]), step.advance), self._stop)
                handled += group.rows.num_rows
                if self.rate and handled < total:
                    self._wait(begun + handled / self.rate)

    @cached_property
    def _stop(self) -> StopRequest:
        """A cluster deletes more at a time than anyone waits for, so a signal ends it at once."""
        return StopRequest(at_once=self._repeats)

    @property
    def _at_once(self) -> int:
        return min(self.threads or self.table.storage.capabilities.parallel_reads, _MOST_THREADS)

    @property
    def _repeats(self) -> bool:
        return self.table.engine.may_repeat

    @property
    def _looks_before(self) -> bool:
        """True if it is known of each file whether it was there before this run. Where tasks are repeated, that cannot
        be told from what becomes of a deletion. S3 does not tell it at all, except by another request per file.
        """
        if not self._repeats or (self.record is None and is_fresh(self.plan)):
            return False
        return self.plan.is_looked_at_again or self.table.storage.capabilities.has_cheap_requests

    def _wait(self, moment: float) -> None:
        ahead = moment - self.table.machine.monotonic()
        if ahead > 0:
            self.table.machine.sleep(ahead)

    def _groups(self, pending: Sequence[range], files: int, advance: Callable[[int], None]) -> Iterator[Group]:
        """Yield groups of so many rows, each checked when it is asked for. `advance` is called for decided files."""
        for parts in _parts(pending, files):
            group = self._look(parts)
            advance(group.rows.num_rows - sum(len(batch.rows) for batch in group.batches))
            yield group

    def _look(self, parts: Sequence[range]) -> Group:
        """Return the rows of a group, with those that newer commits name."""
        candidates = self.plan.candidates
        rows = pa.concat_tables([candidates.slice(part.start, len(part)) for part in parts])
        rows = rows.append_column("row", pa.array([row for part in parts for row in part], pa.int64()))
        gone = pa.array(self._gone(rows) if self._looks_before else [False] * rows.num_rows, pa.bool_())
        spared, batches = self._check(rows, gone)
        missing = pc.filter(rows.column("row"), pc.and_not(gone, spared)).to_pylist()
        return Group(rows, spared, batches, batches, missing)

    def _gone(self, rows: pyarrow.Table) -> list[bool]:
        paths = [path.decode("utf-8", "surrogateescape") for path in rows.column("path").to_pylist()]
        if self.table.storage.capabilities.has_cheap_requests:
            return [size < 0 for size in self.table.storage.stat_many(paths)[0]]
        pieces = [tuple(paths[begin : begin + FILES_A_BATCH]) for begin in range(0, len(paths), FILES_A_BATCH)]
        found = self.table.engine.run_tasks(
            flag_missing_files, pieces, self.table.stores, weigh=len, is_cancelled=self._stop
        )
        return [bool(is_missing) for piece in found for is_missing in piece]

    def _check(self, rows: pyarrow.Table, gone: ArrowArray) -> tuple[ArrowArray, list[Batch]]:
        """Return which rows newer commits name, and batches of the others that are not `gone`, to begin in time."""
        allowed = make_permit(self.table.stores, self.table.machine.now_ms())
        spared = self.newer.needed(rows.column("path").combine_chunks())
        return spared, list(self._batches(pc.filter(rows, pc.invert(pc.or_(spared, gone))), allowed))

    def _batches(self, rows: pyarrow.Table, allowed: Permit) -> Iterator[Batch]:
        """Return batches of the maximum size of one request, or of the number of files deleted at a time."""
        each = FILES_A_BATCH
        is_cheap = self.table.storage.capabilities.has_cheap_requests
        if is_cheap and not self._repeats:
            each = min(each, max(1, -(-rows.num_rows // self._at_once)))
        for begin in range(0, rows.num_rows, each):
            part = rows.slice(begin, each)
            paths = tuple(path.decode("utf-8", "surrogateescape") for path in part.column("path").to_pylist())
            is_old = self._repeats or not is_fresh(self.plan)  # a batch of a cluster may begin much later
            looks = self.plan.is_looked_at_again or (is_cheap and is_old)
            piece = DeletePiece(allowed, paths, self.plan.cutoff_ms if looks else None)
            yield Batch(part.column("row").to_pylist(), part.column("sizeBytes").to_pylist(), piece)

    def _delete(self, groups: Iterator[Group], advance: Callable[[int], None]) -> None:
        """Delete the files of groups and count them even if interrupted. `advance` is called for each decided file."""
        begun = Begun(groups)
        try:
            fault = self._decide(begun, advance)
        except BaseException:  # files have been deleted already: count them before raising again
            with suppress(Exception):  # the first error is more important than one of the record
                self._settle(begun.groups)
            raise
        self._settle(begun.groups)
        if fault is not None:
            raise fault

    def _decide(self, begun: Begun, advance: Callable[[int], None]) -> Exception | None:
        """Send the batches, and again what ran out of time, after another look at the log; return the first fault."""
        fruitless, again = 0, list[Batch]()
        while True:
            self._send(begun, begun.batches(again, self._stop), advance)
            left = [group for group in begun.groups if group.is_open]
            if begun.fault is not None or self._stop.is_ending or not left:
                return begun.fault
            fruitless = 0 if begun.has_tried else fruitless + 1
            require_progress(fruitless)
            again = [batch for group in left for batch in self._batches_again(group, advance)]

    def _batches_again(self, group: Group, advance: Callable[[int], None]) -> list[Batch]:
        """Return new batches of the rows that are left, without those that commits named meanwhile."""
        left = pa.array(group.open_rows, pa.int64())
        rows = pc.filter(group.rows, pc.is_in(group.rows.column("row"), value_set=left))
        spared, group.last = self._check(rows, pa.array([False] * rows.num_rows, pa.bool_()))
        group.more_spared += pc.filter(rows.column("row"), spared).to_pylist()
        group.batches = [*group.batches, *group.last]
        advance(pc.sum(spared).as_py() or 0)
        return group.last

    def _send(self, begun: Begun, batches: Iterator[Batch], advance: Callable[[int], None]) -> None:
        """Delete batches. Groups that are complete are counted at once."""
        delete = DeleteBatch(None if self._repeats else advance, self.table.machine.now_ms)
        pieces = (batch.piece for batch in batches)
        outcomes = self.table.engine.run_tasks(
            delete if self._repeats else DeleteUnlessEnding(delete, begun, self._stop),
            list(pieces) if self._repeats else pieces,
            self.table.stores,
            weigh=count_files,
            at_once=self._at_once,
            is_cancelled=self._stop,
        )
        try:
            for outcome in outcomes:
                begun.take(outcome)
                if self._repeats:
                    advance(outcome.decided)
                self._settle(begun.complete())
        except Exception as fault:
            if self._repeats:
                self._find_deleted(begun.flying)
            if not isinstance(fault, CancelledError):
                raise

    def _find_deleted(self, batches: Iterable[Batch]) -> None:
        """Look which files of batches without a result are gone: the job may have deleted some before it ended. Where
        the store cannot tell, the next execution decides.
        """
        storage = self.table.storage
        for batch in batches:
            with suppress(DeltacliError):
                paths = batch.piece.paths
                sizes, _ = storage.stat_many(paths)
                codes = (
                    FileOutcome.NOT_TRIED if size >= 0 else classify_absent_file(storage, path)
                    for path, size in zip(paths, sizes, strict=True)
                )
                batch.outcome = BatchOutcome(bytes(codes))

    def _settle(self, groups: Sequence[Group]) -> None:
        """Count the outcomes of groups, and record them up to the first file without one."""
        if not groups:
            return
        left = min((row for group in groups for row in group.open_rows), default=None)
        # A later execution finds the files after `left` again. Unless it looks first, it counts them as deleted.
        end = left if self._repeats and self.record is not None and not self._looks_before else None
        for group in groups:
            rows = group.rows.column("row")
            count = len(rows) if left is None else pc.sum(pc.less(rows, left)).as_py()
            self.outcome.spared += pc.sum(group.spared.slice(0, count)).as_py() or 0
            self.outcome.spared += sum(left is None or row < left for row in group.more_spared)
            self.outcome.missing += sum(left is None or row < left for row in group.missing)
            for batch in group.batches:
                batch.count(self.outcome, self._repeats, end)
        if self.record is not None:
            last = groups[-1].rows.column("row")[-1].as_py()
            self.record.advance(last + 1 if left is None else left, self.outcome)


def _parts(pending: Sequence[range], each: int) -> Iterator[list[range]]:
    """Yield the rows of ranges, in order, this many at a time."""
    parts: list[range] = []
    room = each
    for rows in pending:
        start = rows.start
        while start < rows.stop:
            part = range(start, min(rows.stop, start + room))
            parts.append(part)
            start, room = part.stop, room - len(part)
            if not room:
                yield parts
                parts, room = [], each
    if parts:
        yield parts


# -- executing the plan of a vacuum ------------------------------------------------------------------------------------


@dataclass(eq=False)
class SavedVacuum:
    """The plan of a file, compared with the table and resumed where an earlier run stopped. `tell` gets notes."""

    kind: ClassVar[ChangeKind] = ChangeKind.DELETE_FILES

    path: str
    request: VacuumRequest
    accept_copy: bool = False
    tell: Callable[[str], None] = lambda _: None
    was_complete: bool = False
    """An earlier run has executed the whole plan."""

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> VacuumPlan:
        """Read the plan. That it cannot be executed on this table is among its refusals."""
        from deltacli.operations.vacuum.saved import read_plan

        plan = read_plan(self.path)
        if self.request.quarantine is not None:
            plan = with_quarantine(table, plan, self.request.quarantine)
        try:
            return adopted(table, plan, now, accept_copy=self.accept_copy)
        except Refused as refused:
            first = Refusal(refused.code, refused.message, refused.hint, refused.override, facts=refused.facts)
            refusals = (first, *plan.refusals)
            return replace(plan, table=table.uri, refusals=refusals, made_from=BaseVersion(table, -1, plan.now_ms))

    def outcome(self, plan: VacuumPlan) -> VacuumResult:
        return VacuumResult(plan, VacuumOutcome())

    def execute(self, execution: ChangeExecution[VacuumPlan, VacuumResult]) -> None:
        """Delete what the record beside the file does not list as done, and write a report there. Raises what
        `execute_vacuum` and the record raise.
        """
        from deltacli.operations.vacuum.saved import ProgressRecord, describe, write_report

        with ProgressRecord(self.path, execution.plan) as record:
            execution.outcome = VacuumResult(execution.plan, record.counts)
            if record.is_completed or record.resume_at:
                self.tell(describe(record))
            self.was_complete = record.is_completed
            if self.was_complete:
                return
            execute_by(execution, self.request, record)
        report = write_report(*execution.outcome, self.path, now_ms=execution.table.clock())
        self.tell(f"the report is {report}")


def execute_by(
    execution: ChangeExecution[VacuumPlan, VacuumResult], request: VacuumRequest, record: Record | None = None
) -> None:
    """Execute the plan of a change, and note whether something was committed or deleted."""
    outcome = execution.outcome.outcome
    assert outcome is not None  # it begins with an empty one
    before = outcome.start_version, outcome.deleted
    try:
        execute_vacuum(execution.table, execution.plan, request, outcome=outcome, record=record)
    except BaseException as stop:
        if outcome.quarantine is not None and outcome.start_version is None and not isinstance(stop, Exception):
            stop.add_note(f"no file was deleted, and copies of files may be in {outcome.quarantine}")
        raise
    finally:
        execution.has_begun = before != (outcome.start_version, outcome.deleted)


def note_progress(plan: VacuumPlan) -> None:
    """Record how far the log was examined where there was nothing to delete, so that LITE continues from there."""
    if plan.is_noop:
        _note_horizon(plan.base_version.table, plan)


def execute_vacuum(
    table: TableHandle,
    plan: VacuumPlan,
    request: VacuumRequest | None = None,
    *,
    outcome: VacuumOutcome | None = None,
    record: Record | None = None,
) -> VacuumOutcome:
    """Delete the candidates of a plan, except files that a newer version needs. `outcome` is updated meanwhile; with a
    `record` it begins with the record's counts. Where the plan or the request names a quarantine, all of them are
    copied first.

    Raises Refused where the plan has refusals, or is of another table or past (`adopted`, of a saved plan), or where a
    newer version forbids it; what `commit` raises; and StorageFailed. On any error END is committed with the status
    FAILED where that is still possible.
    """
    chosen = request or VacuumRequest()
    found = outcome if outcome is not None else record.counts if record is not None else VacuumOutcome()
    require_unreserved_keys(chosen.commit_metadata)
    _require_executable(plan)
    if plan.made_from is None:
        plan = adopted(table, plan)
    table = bound(table, plan)
    if plan.is_noop:
        _note_horizon(table, plan)
        return found
    if chosen.quarantine is not None:
        plan = with_quarantine(table, plan, chosen.quarantine)
    quarantine = None
    if plan.quarantine is not None:
        quarantine = _fill(table, plan, plan.quarantine, found, record)
        table = bound(table, plan)
    was_looked_at = quarantine is None and plan.looked_at is not None
    if not was_looked_at or (table.storage.capabilities.has_cheap_requests and not is_fresh(plan)):
        _require_no_new_tables(table, plan)
    keys = PathKeys((table.uri, *table.storage.aliases), folds_case=folds_names(table.storage))
    newer = NewerCommits(table, keys, plan)
    deletions = Deletions(table, plan, found, newer, record, chosen.threads, chosen.rate)
    logs = chosen.log_entries and plan.files > 0
    if logs:
        found.start_version = _commit_start(table, plan, newer, chosen.commit_metadata)
    else:
        newer.require_same(read_snapshot(table))
    status = "FAILED"
    try:
        _require_store_clock(table, plan, found)
        if quarantine is not None:
            quarantine.require_filled()
        deletions.run()
        storage = table.writable()
        for path in plan.directories if storage.capabilities.has_directories else ():  # deepest first
            with suppress(StorageFailed):  # one that contains a file by now is kept
                found.directories_removed += isinstance(storage.remove_directory(path), Deleted)
        status = "FAILED" if found.failed.count else "COMPLETED"
    finally:
        if logs:
            _commit_end(table, found, status, chosen.commit_metadata)
    if quarantine is not None and not found.failed.count:
        quarantine.complete()
    if not found.failed.count and not found.spared:  # LITE would skip files that were spared for their age
        _note_horizon(table, plan)  # before the record is marked as complete
    if record is not None:
        record.finish(found, completed=not found.failed.count)
    return found


def bound(table: TableHandle, plan: VacuumPlan) -> TableHandle:
    """Return the table bound to the directory of a plan. Raises Refused (`plan.other-place`) where it is another."""
    own = plan.base_version.table.storage
    if is_directory_store(own) and is_directory_store(table.storage):
        return table.bind_to_directory(own.directory_identity)
    if not (is_inside(own, table.storage) and is_inside(table.storage, own)):
        raise other_directory_refusal(table.uri)
    plan.base_version.table.bind_to_directory()
    return table


def with_quarantine(table: TableHandle, plan: VacuumPlan, uri: str) -> VacuumPlan:
    """Return the plan with a quarantine. Raises UsageError where it has another, and as `open_quarantine`."""
    from deltacli.operations.vacuum.quarantine import open_quarantine

    asked = open_quarantine(table, uri)
    if plan.quarantine is not None:
        own = table.open_other(plan.quarantine)
        if not (is_inside(own, asked) and is_inside(asked, own)):
            raise UsageError(
                "the plan was made for another quarantine",
                facts={"of the plan": plan.quarantine, "asked for": asked.uri},
                hint=f"leave out {parameter('vacuum.quarantine')}, or make another plan",
            )
    return replace(plan, quarantine=plan.quarantine or asked.uri)


def _fill(table: TableHandle, plan: VacuumPlan, uri: str, outcome: VacuumOutcome, record: Record | None) -> Quarantine:
    """Copy the files of a plan to its quarantine. Raises what that raises, with nothing deleted."""
    from deltacli.operations.vacuum.quarantine import Quarantine

    quarantine = Quarantine(table, plan, uri)
    outcome.quarantine = quarantine.uri
    quarantine.fill([range(plan.files)] if record is None else record.pending)
    return quarantine


def _require_store_clock(table: TableHandle, plan: VacuumPlan, outcome: VacuumOutcome) -> None:
    """Raise Refused where the store's clock is behind the local one, because files may then be newer than they appear.

    Only where the time is that of the local clock; a given `--now` is accepted.
    """
    version = outcome.start_version
    if version is None or table.has_given_clock:
        return
    now_ms = max(plan.now_ms, table.clock())
    written_ms = table.storage.stat(f"{LOG_DIRECTORY}/{commit_name(version)}").modified_ms
    if 0 < written_ms < now_ms - CLOCK_SKEW_MS:
        raise Refused(
            f"the store's clock is {format_timestamp(written_ms)}, the local clock {format_timestamp(now_ms)}: one is "
            "wrong, and files may be newer than they appear",
            code="vacuum.clock-skew",
            hint="date -u",
        )


def _require_no_new_tables(table: TableHandle, plan: VacuumPlan) -> None:
    """Raise Refused where another table was created in a directory that a plan deletes from."""
    found = find_tables_containing(table, plan.candidates.column("path").combine_chunks())
    new = sorted(directory for directory in found if directory)
    if new:
        raise Refused(
            f"{new[0]} has become a table of its own, whose files would be deleted",
            code="vacuum.nested-table",
            facts={"plan": f"of version {plan.snapshot_version}, {format_timestamp(plan.now_ms)}"},
            hint=command("vacuum", dry_run=True),
        )


def _note_horizon(table: TableHandle, plan: VacuumPlan) -> None:
    """Record the version up to which everything was deleted, from which LITE continues. A failure only affects LITE."""
    if plan.horizon is not None:
        with suppress(StorageFailed, Unreadable, Refused):
            newest = list_log(table.storage, start_version=plan.snapshot_version).newest_version
            write_last_vacuum(table.writable(), plan.horizon, plan.cutoff_ms, newest=newest)


def _require_executable(plan: VacuumPlan) -> None:
    if (refusal := plan.build_refusal()) is not None:
        raise refusal


def _commit_start(table: TableHandle, plan: VacuumPlan, newer: NewerCommits, commit_metadata: Mapping[str, str]) -> int:
    def make(snapshot: Snapshot) -> CommitRequest:
        newer.require_same(snapshot)
        parameters: dict[str, object] = {
            "retentionCheckEnabled": not plan.allows_below,
            "defaultRetentionMillis": plan.own_retention_ms,
        }
        if plan.retention_ms != plan.own_retention_ms:
            parameters["specifiedRetentionMillis"] = plan.retention_ms
        return CommitRequest(
            "VACUUM START", parameters, {"numFilesToDelete": plan.files, "sizeOfDataToDelete": plan.size_bytes}
        )

    try:
        made = commit(table, make, options=CommitOptions(metadata=commit_metadata))
    except NoSpace as fault:
        raise NoSpace(
            f"nothing was deleted, because VACUUM START could not be committed: {fault.message}",
            facts={
                "to free space": f"{parameter('vacuum.log_entries', False)} deletes the same files and commits nothing"
            },
            hint=command("vacuum", log_entries=False),
        ) from fault
    assert isinstance(made, Committed)  # `make` never returns None
    newer.start = made.commit_file
    return made.version


def _commit_end(table: TableHandle, outcome: VacuumOutcome, status: str, commit_metadata: Mapping[str, str]) -> None:
    """Commit END. Because the files are deleted already, a failure is recorded in the outcome and not raised."""
    is_complete = status == "COMPLETED"
    metrics = {"numDeletedFiles": outcome.deleted.files, "numVacuumedDirectories": outcome.directories_removed}
    request = CommitRequest("VACUUM END", {"status": status}, metrics if is_complete else {})
    try:
        made = commit(table, lambda _snapshot: request, options=CommitOptions(metadata=commit_metadata))
    except DeltacliError as fault:
        outcome.end_problem = fault.message
    else:
        assert isinstance(made, Committed)  # the request is never None
        outcome.end_version, outcome.end_status = made.version, status
