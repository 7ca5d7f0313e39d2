"""The engine of one process.

It uses threads, because the work is in Arrow and in the kernel, both outside the interpreter lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from deltacli.core.garbage_collection import POLL_SECONDS
from deltacli.core.memory import count_worker_threads
from deltacli.engine.base import GROUP_BYTES, GROUPS, NOTHING_SHARED, GroupReading, is_never_cancelled
from deltacli.engine.read_ahead import ReadAhead

if TYPE_CHECKING:
    from concurrent.futures import Future

    from deltacli.core.typing import ArrowSchema, RecordBatch
    from deltacli.work.table_stores import TableStores
    from deltacli.work.task import Piece, Result, Task, TaskContext


_MOST_GROUPS = 1_024
"""Maximum number of groups of `merge_groups`."""


class EmbeddedEngine:
    """Runs pieces in threads of this process.

    Pieces that compute get one thread per processor, fewer if the address space is limited, and two pieces per thread
    are in flight. Pieces that wait for a store get as many threads as they can use instead, which the caller states as
    `at_once` (for a remote store `PARALLEL_READS` in `storage/base.py`). Then one piece per thread is in flight, or two
    of a task with `small_results`, so that a slow piece does not stop the others.

    Attributes:
        threads: The number of threads for pieces that compute.
    """

    may_repeat = False

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or count_worker_threads()

    def run(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece], *, at_once: int | None = None
    ) -> Iterator[Result]:
        return self._run(work, pieces, self._choose_limits(at_once), lambda: None)

    def _choose_limits(self, at_once: int | None, *, has_small_results: bool = False) -> _Limits:
        """Return how many threads pieces get, and how many pieces may be in flight."""
        if at_once is None:
            return _Limits(self.threads, in_flight=2 * self.threads)
        pieces_per_thread = 2 if has_small_results else 1
        return _Limits(at_once, in_flight=pieces_per_thread * at_once)

    def _run(
        self,
        work: Callable[[Piece], Result],
        pieces: Iterable[Piece],
        limits: _Limits,
        cancel: Callable[[], None],
    ) -> Iterator[Result]:
        """Yield the results of pieces, in their order.

        The results of pieces in flight are awaited from the left, and each result that is yielded makes room for one
        more piece:

            in flight  [3 done] [4 running] [5 done] [6 running]     piece 3 is yielded, and piece 7 is submitted

        Args:
            work: The function to call.
            pieces: Its arguments.
            limits: How many threads there are, and how many pieces are in flight.
            cancel: Called at the end, before running pieces are waited for: they may end early.
        """
        remaining = iter(pieces)
        first = list(islice(remaining, 2 if limits.threads > 1 else 0))

        # A single piece runs in the thread of the caller, without the cost of a pool.
        if limits.threads == 1 or len(first) < 2:
            for piece in first:
                yield work(piece)
            for piece in remaining:
                yield work(piece)
            return

        from deltacli.core.pools import TaskTracker, ThreadPool

        tracker = TaskTracker(work)
        with ThreadPool(limits.threads) as pool:
            try:
                in_flight: deque[Future[Result]] = deque(pool.submit(tracker.run, piece) for piece in first)
                room = limits.in_flight - len(first)
                in_flight.extend(pool.submit(tracker.run, piece) for piece in islice(remaining, room))
                while in_flight:
                    result = _await_result(in_flight.popleft())
                    in_flight.extend(pool.submit(tracker.run, piece) for piece in islice(remaining, 1))
                    yield result
            finally:
                cancel()
                pool.shutdown(wait=False, cancel_futures=True)
                tracker.wait_idle()

    def stream(self, work: Callable[[Piece], Iterator[Result]], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Yield what as many concurrent pieces as there are threads yield, one result of each in turn."""
        sources = map(work, pieces)
        if self.threads == 1:
            for source in sources:
                yield from source
            return

        open_sources: deque[ReadAhead[Result]] = deque()
        try:
            open_sources.extend(ReadAhead(source) for source in islice(sources, self.threads))
            while open_sources:
                for result in islice(open_sources[0], 1):
                    open_sources.rotate(-1)
                    yield result
                    break
                else:
                    # The first source is at its end: another one takes its place.
                    open_sources.popleft()
                    open_sources.extend(ReadAhead(source) for source in islice(sources, 1))
        finally:
            for source in open_sources:
                source.close()

    def run_tasks(
        self,
        task: Task[Piece, Result],
        pieces: Iterable[Piece],
        stores: TableStores,
        *,
        shared: Mapping[str, Any] = NOTHING_SHARED,  # Any: values of each operation
        weigh: Callable[[Piece], int] | None = None,
        at_once: int | None = None,
        is_cancelled: Callable[[], bool] = is_never_cancelled,
    ) -> Iterator[Result]:
        """Run tasks as `run` runs functions, with the open stores and without a copy of the shared values.

        The weight is only used for tasks with `quick_seconds`: threads take the next piece when they are free.
        """
        from deltacli.work.task import TaskContext

        is_over: list[bool] = []  # not an Event, which would have to be imported
        context = TaskContext(stores, shared, is_cancelled=lambda: bool(is_over) or is_cancelled())

        def work(piece: Piece) -> Result:
            return task(piece, context)

        def cancel() -> None:
            is_over.append(True)

        quick_seconds = getattr(task, "quick_seconds", None)
        if quick_seconds is None or weigh is None or at_once is not None:
            limits = self._choose_limits(at_once, has_small_results=getattr(task, "small_results", False))
            return self._run(work, pieces, limits, cancel)
        return self._run_while_quick(work, pieces, lambda piece: quick_seconds * weigh(piece), cancel)

    def _run_while_quick(
        self,
        work: Callable[[Piece], Result],
        pieces: Iterable[Piece],
        expected_seconds: Callable[[Piece], float],
        cancel: Callable[[], None],
    ) -> Iterator[Result]:
        """Run one piece after the other as long as each is quick, then several at once.

        Quick pieces are mostly Python, so that several threads would only wait for the interpreter. A piece that takes
        longer waits for a store or a disk, and then threads help.
        """
        remaining = iter(pieces)
        for piece in remaining:
            started = monotonic()
            result = work(piece)
            is_quick = monotonic() - started <= expected_seconds(piece)
            yield result
            if not is_quick:
                break
        yield from self._run(work, remaining, self._choose_limits(None), cancel)

    def merge_groups(
        self,
        readings: Sequence[GroupReading],
        merge: Callable[[Sequence[Sequence[RecordBatch]]], Result],
        schema: ArrowSchema,
        size_bytes: int,
        temp_dir: str | None = None,
    ) -> Iterator[Result]:
        """Keep the batches in memory, or in a temporary file where they are many, and merge one group after another."""
        from deltacli.work.spill import SpillFile
        from deltacli.work.task import TaskContext

        group_count = min(_MOST_GROUPS, size_bytes // GROUP_BYTES + 1)
        is_in_memory = group_count == 1
        open_store: AbstractContextManager[_BatchStore] = (
            nullcontext(_MemoryStore()) if is_in_memory else SpillFile(temp_dir, schema)
        )

        # The numbers of the batches of each group, and in it of each reading.
        numbers: list[list[list[int]]] = [[[] for _ in readings] for _ in range(group_count)]
        with open_store as store:
            for side, reading in enumerate(readings):
                context = TaskContext(reading.stores, {**reading.shared, GROUPS: group_count})
                work = partial(_call_task, reading.task, context)
                for group, batch in self.stream(work, reading.pieces):
                    numbers[group][side].append(store.add(batch))
            store.finish()

            for sides in numbers:
                yield merge([[store.read(number) for number in side] for side in sides])

    def abandon(self) -> None:
        """Do nothing: threads end with their process."""

    def close(self) -> None:
        """Do nothing: threads end with their run."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("an engine cannot be sent to another process: a task must not hold one")


class _Limits(NamedTuple):
    """The number of threads, and of pieces that were submitted and whose results were not yielded yet."""

    threads: int
    in_flight: int


class _BatchStore(Protocol):
    """Keeps batches: `SpillFile`, or memory."""

    def add(self, batch: RecordBatch) -> int: ...
    def finish(self) -> None: ...
    def read(self, number: int) -> RecordBatch: ...


class _MemoryStore:
    """Keeps batches in memory, with the methods of `SpillFile`."""

    def __init__(self) -> None:
        self._batches: list[RecordBatch] = []

    def add(self, batch: RecordBatch) -> int:
        self._batches.append(batch)
        return len(self._batches) - 1

    def finish(self) -> None:
        pass

    def read(self, number: int) -> RecordBatch:
        return self._batches[number]


def _call_task(task: Task[Piece, Result], context: TaskContext, piece: Piece) -> Result:
    return task(piece, context)


def _await_result(future: Future[Result]) -> Result:
    """Return the result of a future, waiting in short steps: a single long wait could miss a signal."""
    while not future.done():
        with suppress(TimeoutError):
            future.exception(timeout=POLL_SECONDS)
    return future.result()
