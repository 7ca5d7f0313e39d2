"""Batches of deletions, the groups in which they are checked, and those that are on their way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from deltacli.changing.plan import Amount
from deltacli.errors import DeltacliError, PermissionRefused
from deltacli.operations.vacuum.plan import VacuumOutcome
from deltacli.storage import Failed
from deltacli.typing import ArrowArray
from deltacli.work.files.deleting import BatchOutcome, DeleteBatch, DeletePiece, FileOutcome, Stop

if TYPE_CHECKING:
    import pyarrow

    from deltacli.work.task import TaskContext


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
                outcome.failed.note(path, failed)
        outcome.deleted = Amount(deleted, size_bytes)


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
        """Return the rows without an outcome so far."""
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

    def is_ending(self, stop: Stop) -> bool:
        """Return True if nothing more is to be sent in this round."""
        return self.has_trouble or self.fault is not None or stop.is_ending

    def batches(self, again: Sequence[Batch], stop: Stop) -> Iterator[Batch]:
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
    stop: Stop
    small_results = True

    def __call__(self, piece: DeletePiece, context: TaskContext) -> BatchOutcome:
        """Return the outcome."""
        if self.begun.is_ending(self.stop):
            return BatchOutcome(bytes([FileOutcome.NOT_TRIED]) * len(piece.paths))
        outcome = self.delete(piece, context)
        self.begun.note(outcome)
        return outcome
