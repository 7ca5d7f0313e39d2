"""Delete a batch of files, as a task: what became of each file is its result, and it may run more than once.

A signal ends deletions only in an orderly way: they run in a thread of their own, which is always waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import Refused
from deltacli.core.machine import Clock, system_clock
from deltacli.storage import Deleted, Failed, Missing, PathKind, ReadStorage, Storage
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.directory_identity import DirectoryIdentity, DirectoryStore
from deltacli.storage.repeat_condition import repeat_only_while

if TYPE_CHECKING:
    from deltacli.work.task import TableStores, TaskContext

MOST_AT_ONCE = 1_000
"""Maximum number of files that are deleted together: what S3 accepts in one request."""
_PATIENCE = 0.1


class FileOutcome(IntEnum):
    """What became of one file of a batch."""

    NOT_TRIED = 0
    DELETED = 1
    MISSING = 2
    SPARED = 3
    """It was written since the plan was made."""
    FAILED = 4
    ELSEWHERE = 5
    """It is behind a link by now, or no file. Unlike a missing one, no attempt has deleted it."""


class Permit(NamedTuple):
    """Deletions that a look at the log allows: in the directory looked at, begun up to a time (epoch milliseconds)."""

    place: DirectoryIdentity | None
    not_after_ms: int


@dataclass(frozen=True, slots=True)
class DeletePiece:
    """Files to delete together, by a permit.

    With `cutoff_ms` each is checked again: one that was written since is spared, and one that is missing or now behind
    a link is not touched.
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
        return not self.context.is_cancelled() and self.task.clock() <= self.piece.permit.not_after_ms

    def run(self) -> None:
        place, storage = self.piece.permit.place, self.storage
        if place is not None and isinstance(storage, DirectoryStore) and storage.directory_identity != place:
            storage.bind_to_directory(place)  # raises where another directory is at its path
        paths = self.piece.paths
        due: Sequence[int] = range(len(paths))
        if self.piece.cutoff_ms is not None:
            if not self.is_in_time():
                return
            due = self._checked(self.piece.cutoff_ms)
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

    def _checked(self, cutoff_ms: int) -> list[int]:
        """Return the positions of files that are there and as old as they were."""
        sizes, times = self.storage.stat_many(self.piece.paths)
        due = []
        for position, (size, modified_ms) in enumerate(zip(sizes, times, strict=True)):
            if size < 0:
                self.codes[position] = outcome_without_file(self.storage, self.piece.paths[position])
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


def outcome_without_file(storage: ReadStorage, path: str) -> FileOutcome:
    """Return what became of a path that is no file inside the table."""
    if storage.capabilities.has_directories and storage.kind_of(path) is not PathKind.MISSING:
        return FileOutcome.ELSEWHERE
    return FileOutcome.MISSING


def are_missing(paths: tuple[str, ...], context: TaskContext) -> bytes:
    """Return a byte per path, as a task: 1 for one that is no file inside the table. Raises what `stat_many` raises."""
    sizes, _ = context.storage.stat_many(paths)
    return bytes(size < 0 for size in sizes)


def files_of_piece(piece: DeletePiece) -> int:
    return len(piece.paths)


class Stop:
    """Tells work in another thread to end early. `at_once`: at the first signal. Else the first signal lets what was
    begun finish, and a second one ends it.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._asked, self._ending = Event(), Event()
        self._at_once = at_once

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    def __call__(self) -> bool:
        """Return True once the work is to end as soon as possible."""
        return self._asked.is_set()

    def after_signals(self, number: int) -> None:
        """Take note that so many signals have arrived."""
        self._ending.set()
        if self._at_once or number > 1:
            self._asked.set()


def uninterrupted(work: Callable[[], None], stop: Stop) -> None:
    """Run a function in a thread of its own and wait for it, so that a signal to the main thread ends the run only
    after the work has ended, and what it did is recorded. `stop` tells the work when to end early.

    However many signals arrive, no work is left behind. The first one is raised again.
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
            _await_despite_signals(done, stop)
        raise
    if raised:
        raise raised[0]


def _await_despite_signals(done: Event, stop: Stop) -> None:
    signals = 1
    while not done.is_set():
        try:
            stop.after_signals(signals)
            _await(done)
        except BaseException:  # noqa: BLE001  (another signal; the first one is raised by the caller)
            signals += 1


def _await(done: Event) -> None:
    while not done.wait(_PATIENCE):  # the system may deliver a signal to another thread, so poll for it
        pass


# -- how long a look at the log is good for deletions that follow it ---------------------------------------------------

_VALID_MS = 60_000
"""Age of a check of the log up to which deletions begin."""
_MOST_FRUITLESS = 3


def valid_ms(stores: TableStores) -> int:
    """Return how long a batch may be sent after a check of the log, including the retries of a request."""
    location = stores.location
    retry_seconds = None if location is None else location.retry_seconds
    return _VALID_MS + int(1_000 * (RETRY_BUDGET.total_seconds() if retry_seconds is None else retry_seconds))


def permit(stores: TableStores, now_ms: int) -> Permit:
    """Return the permit of a check of the log that begins now, for deletions in the directory of a table."""
    storage = stores.storage
    return Permit(
        storage.directory_identity if isinstance(storage, DirectoryStore) else None, now_ms + valid_ms(stores)
    )


def require_progress(fruitless: int) -> None:
    """Raise Refused where no file was tried in so many rounds, although each followed a check of the log."""
    if fruitless >= _MOST_FRUITLESS:
        raise Refused(
            f"no file could be deleted within {_VALID_MS // 1_000} s of a check of the log, in {fruitless} attempts",
            code="vacuum.clock-skew",
            facts={"why": "the clocks of the processes that delete are ahead, or they are too busy"},
            hint="date -u",
        )
