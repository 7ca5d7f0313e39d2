"""The files of an expiry, and deleting them in order, batch by batch, so that an interrupted run leaves no gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.changing.lease import require_progress, valid_ms
from deltacli.changing.plan import Failures
from deltacli.clock import Clock, system_clock
from deltacli.short_repr import short_repr
from deltacli.work.files.deleting import (
    MOST_AT_ONCE,
    BatchOutcome,
    DeleteBatch,
    DeletePiece,
    FileOutcome,
    Stop,
    uninterrupted,
)
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle

FILES_A_BATCH = MOST_AT_ONCE


class ExpiryReason(StrEnum):
    """Why a file of the log is no longer needed."""

    COMMIT = "commit"
    CHECKSUM = "checksum"
    CHECKPOINT = "checkpoint"
    COMPACTION = "compaction"
    STAGED = "staged-commit"
    SIDECAR = "sidecar"
    LEFTOVER = "leftover"


class ExpiredFile(NamedTuple):
    """A file to delete; `path` is relative to the table."""

    path: str
    size_bytes: int
    modified_ms: int
    reason: ExpiryReason


@short_repr("deleted", "deleted_bytes", "missing", "failed=failed.count")
@dataclass(slots=True)
class ExpiryOutcome:
    """The outcome of a plan, as far as it was executed."""

    deleted: int = 0
    deleted_bytes: int = 0
    missing: int = 0
    failed: Failures = field(default_factory=lambda: Failures(limit=None))

    def as_json(self) -> dict[str, Any]:
        """As in the document."""
        return {
            "files": self.deleted,
            "sizeBytes": self.deleted_bytes,
            "missing": self.missing,
            "failed": self.failed.as_json(),
        }


def delete_in_order(
    table: TableHandle,
    files: Sequence[ExpiredFile],
    prove: Callable[[], None],
    outcome: ExpiryOutcome,
    advance: Callable[[int], None],
    *,
    wall_clock: Clock = system_clock,
) -> None:
    """Delete files and count them; a signal ends the run after a batch is done and counted.

    A batch whose time is over is sent again after another proof. Raises StorageFailed, and what `prove` raises.
    """
    for begin in range(0, len(files), FILES_A_BATCH):
        left, fruitless = list(files[begin : begin + FILES_A_BATCH]), 0
        while left:
            before = len(left)
            stop = Stop()
            uninterrupted(partial(_delete, table, left, outcome, DeleteBatch(advance, wall_clock), stop), stop)
            fruitless = fruitless + 1 if len(left) == before else 0
            if left:
                require_progress(fruitless)
                prove()


def _delete(
    table: TableHandle, files: list[ExpiredFile], outcome: ExpiryOutcome, task: DeleteBatch, stop: Stop
) -> None:
    """Delete one batch; those files that were not tried remain in the list. Raises the fault of the store.

    Always in this process: the order matters more than the speed, and a deletion that is sent once is counted exactly.
    """
    piece = DeletePiece(tuple(file.path for file in files), task.clock() + valid_ms(table))
    done = task(piece, TaskContext(table.stores, is_cancelled=stop))
    files[:] = _count(done, files, outcome)
    if done.fault is not None:
        raise done.fault


def _count(done: BatchOutcome, files: Sequence[ExpiredFile], outcome: ExpiryOutcome) -> list[ExpiredFile]:
    """Add the counts to an outcome, and return the files that were not tried."""
    left = []
    for file, (code, failure) in zip(files, done.each(), strict=True):
        match code:
            case FileOutcome.MISSING:
                outcome.missing += 1
            case FileOutcome.DELETED:
                outcome.deleted += 1
                outcome.deleted_bytes += file.size_bytes
            case FileOutcome.NOT_TRIED:
                left.append(file)
        if failure is not None:
            outcome.failed.note(file.path, failure)
    return left
