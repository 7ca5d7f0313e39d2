"""Delete a batch of files, as a task that reports the outcome of each file and may run more than once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from deltacli.core.machine import Clock, system_clock
from deltacli.storage import Deleted, Failed, Missing, PathKind, ReadStorage, Storage
from deltacli.storage.directory_identity import is_directory_store
from deltacli.storage.repeat_condition import repeat_only_while
from deltacli.work.files.permits import Permit

if TYPE_CHECKING:
    from deltacli.work.task import TaskContext


MOST_AT_ONCE = 1_000
"""Maximum number of files that are deleted together: what S3 accepts in one request."""


class FileOutcome(IntEnum):
    """The outcome for one file of a batch."""

    NOT_TRIED = 0
    DELETED = 1
    MISSING = 2
    SPARED = 3
    """It was written since the plan was made."""
    FAILED = 4
    ELSEWHERE = 5
    """It is behind a link by now, or no file. Unlike a missing one, no attempt has deleted it."""


@dataclass(frozen=True, slots=True)
class DeletePiece:
    """Files to delete together.

    Attributes:
        permit: Says how long deletions may begin, and in which directory.
        paths: The files, below the table.
        cutoff_ms: If it is given, each file is checked again. One that was written since this time (epoch milliseconds)
            is spared, and one that is missing or now behind a link is not touched.
    """

    permit: Permit
    paths: tuple[str, ...]
    cutoff_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch: a `FileOutcome` per file in `codes`, and the failures by position.

    `fault` is the error with which the batch ended; files that are not tried come after it, or after the time.
    """

    codes: bytes
    failures: tuple[tuple[int, Failed], ...] = ()
    fault: Exception | None = None

    @property
    def decided(self) -> int:
        """The number of files that were tried."""
        return len(self.codes) - self.codes.count(FileOutcome.NOT_TRIED)

    def each(self) -> Iterator[tuple[FileOutcome, Failed | None]]:
        """Yield the outcome of each file, in order, with the failure of one that failed."""
        failures = dict(self.failures)
        return ((FileOutcome(code), failures.get(position)) for position, code in enumerate(self.codes))


@dataclass(frozen=True, eq=False)
class DeleteBatch:
    """Deletes the files of a piece, until it is cancelled. A repetition finds files missing that an earlier attempt
    deleted.

    `advance` is called for each decided file, in this process only: it is not sent with the task.
    """

    advance: Callable[[int], None] | None = None
    clock: Clock = system_clock

    def __call__(self, piece: DeletePiece, context: TaskContext) -> BatchOutcome:
        """Return the outcomes. An error of the store is part of them, so that what was deleted before is counted."""
        # A request that is sent again after the permit has ended could delete a file that a newer commit needs.
        attempt = _Attempt(piece, context, self)
        fault = None
        try:
            with repeat_only_while(attempt.is_in_time):
                attempt.run()
        except Exception as caught:  # noqa: BLE001  (returned, with the outcomes so far)
            fault = caught
        return BatchOutcome(bytes(attempt.codes), tuple(sorted(attempt.failures.items())), fault)

    def __reduce__(self) -> tuple[Any, ...]:
        return DeleteBatch, (None, self.clock)


@dataclass
class _Attempt:
    """One attempt to delete the files of a piece, with the outcomes so far."""

    piece: DeletePiece
    context: TaskContext
    task: DeleteBatch
    codes: bytearray = field(init=False)
    failures: dict[int, Failed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.codes = bytearray(len(self.piece.paths))

    @property
    def storage(self) -> Storage:
        return self.context.storage

    def is_in_time(self) -> bool:
        """Return whether a deletion may still begin."""
        return not self.context.is_cancelled() and self.task.clock() <= self.piece.permit.not_after_ms

    def run(self) -> None:
        """Delete the files, and record the outcome of each. Raises what the store raises."""
        permitted_place = self.piece.permit.place
        storage = self.storage
        if (
            permitted_place is not None
            and is_directory_store(storage)
            and storage.directory_identity != permitted_place
        ):
            storage.bind_to_directory(permitted_place)  # raises where another directory is at its path

        paths = self.piece.paths
        due: Sequence[int] = range(len(paths))
        if self.piece.cutoff_ms is not None:
            if not self.is_in_time():
                return
            due = self._find_unchanged(self.piece.cutoff_ms)

        # The store's iterator comes first, so that it is run to its end; it may stop early, after the time.
        for (_, what), position in zip(self.storage.delete_many(self._in_time(due)), due, strict=False):
            match what:
                case Deleted():
                    self.codes[position] = FileOutcome.DELETED
                case Missing():
                    self.codes[position] = FileOutcome.MISSING
                case Failed() as failure:
                    self.codes[position] = FileOutcome.FAILED
                    self.failures[position] = failure
            self._advance(1)

    def _find_unchanged(self, cutoff_ms: int) -> list[int]:
        """Return the positions of files that exist and are as old as they were. The others get their outcome."""
        sizes, times = self.storage.stat_many(self.piece.paths)
        due = []
        for position, (size, modified_ms) in enumerate(zip(sizes, times, strict=True)):
            if size < 0:
                self.codes[position] = classify_absent_file(self.storage, self.piece.paths[position])
            elif modified_ms >= cutoff_ms:
                self.codes[position] = FileOutcome.SPARED
            else:
                due.append(position)
        self._advance(len(sizes) - len(due))
        return due

    def _in_time(self, due: Sequence[int]) -> Iterator[str]:
        """Yield the paths until the time is over. A store takes them just before it sends a request."""
        for position in due:
            if not self.is_in_time():
                return
            yield self.piece.paths[position]

    def _advance(self, files: int) -> None:
        if self.task.advance is not None:
            self.task.advance(files)


def classify_absent_file(storage: ReadStorage, path: str) -> FileOutcome:
    """Return what became of a path that is no file inside the table."""
    if storage.capabilities.has_directories and storage.kind_of(path) is not PathKind.MISSING:
        return FileOutcome.ELSEWHERE
    return FileOutcome.MISSING


def flag_missing_files(paths: tuple[str, ...], context: TaskContext) -> bytes:
    """Return a byte per path, as a task: 1 for one that is no file inside the table. Raises what `stat_many` raises."""
    sizes, _ = context.storage.stat_many(paths)
    return bytes(size < 0 for size in sizes)


def count_files(piece: DeletePiece) -> int:
    return len(piece.paths)
