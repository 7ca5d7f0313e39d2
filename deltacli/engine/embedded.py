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
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from deltacli.core.garbage_collection import POLL_SECONDS
from deltacli.core.memory import count_worker_threads
from deltacli.engine.base import GROUP_BYTES, GROUPS, NOTHING_SHARED, Reading, never
from deltacli.engine.read_ahead import ReadAhead

if TYPE_CHECKING:
    from concurrent.futures import Future

    from deltacli.core.typing import ArrowSchema, RecordBatch
    from deltacli.work.table_stores import TableStores
    from deltacli.work.task import Piece, Result, Task, TaskContext


_MOST_GROUPS = 1_024


class EmbeddedEngine:
    """Runs pieces in `threads` threads, with at most two pieces per thread in flight.

    Default: one thread per processor, fewer if the address space is limited. Pieces that wait for a store get as many
    threads as they can use instead: `at_once`, of a remote store `PARALLEL_READS` in `storage/base.py`. One piece per
    thread is in flight then, or two of a task with `small_results`, so that a slow piece does not stop the others.
    """

    may_repeat = False

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or count_worker_threads()

    def run(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece], *, at_once: int | None = None
    ) -> Iterator[Result]:
        return self._run(work, pieces, at_once, 1, lambda: None)

    def _run(
        self,
        work: Callable[[Piece], Result],
        pieces: Iterable[Piece],
        at_once: int | None,
        each: int,
        cancel: Callable[[], None],
    ) -> Iterator[Result]:
        """Run pieces, `each` per thread in flight with `at_once`; `cancel` comes before the wait for running ones."""
        threads, in_flight = (self.threads, 2 * self.threads) if at_once is None else (at_once, each * at_once)
        remaining = iter(pieces)
        first = list(islice(remaining, 2 if threads > 1 else 0))
        if threads == 1 or len(first) < 2:
            for piece in first:
                yield work(piece)
            for piece in remaining:
                yield work(piece)
            return
        from deltacli.core.pools import TaskTracker, ThreadPool

        tracker = TaskTracker(work)
        with ThreadPool(threads) as pool:
            try:
                flying: deque[Future[Result]] = deque(pool.submit(tracker.run, piece) for piece in first)
                flying.extend(pool.submit(tracker.run, piece) for piece in islice(remaining, in_flight - 2))
                while flying:
                    result = _result(flying.popleft())
                    flying.extend(pool.submit(tracker.run, piece) for piece in islice(remaining, 1))
                    yield result
            finally:
                cancel()
                pool.shutdown(wait=False, cancel_futures=True)
                tracker.wait_idle()

    def stream(self, work: Callable[[Piece], Iterator[Result]], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Yield what `threads` concurrent pieces yield, in turns."""
        sources = map(work, pieces)
        if self.threads == 1:
            for source in sources:
                yield from source
            return
        open_ones: deque[ReadAhead[Result]] = deque()
        try:
            open_ones.extend(ReadAhead(source) for source in islice(sources, self.threads))
            while open_ones:
                for result in islice(open_ones[0], 1):
                    open_ones.rotate(-1)
                    yield result
                    break
                else:
                    open_ones.popleft()
                    open_ones.extend(ReadAhead(source) for source in islice(sources, 1))
        finally:
            for source in open_ones:
                source.close()

    def spread(
        self,
        task: Task[Piece, Result],
        pieces: Iterable[Piece],
        stores: TableStores,
        *,
        shared: Mapping[str, Any] = NOTHING_SHARED,  # Any: values of each operation
        weigh: Callable[[Piece], int] | None = None,
        at_once: int | None = None,
        is_cancelled: Callable[[], bool] = never,
    ) -> Iterator[Result]:
        """Run tasks as `run` runs functions, with the open stores and without a copy of the shared values.

        The weight is only used for tasks with `quick_seconds`: threads take the next piece when they are free.
        """
        from deltacli.work.task import TaskContext

        cancelled: list[bool] = []  # an Event, without its import
        context = TaskContext(stores, shared, is_cancelled=lambda: bool(cancelled) or is_cancelled())
        quick = getattr(task, "quick_seconds", None)

        def work(piece: Piece) -> Result:
            return task(piece, context)

        def cancel() -> None:
            cancelled.append(True)

        if quick is None or weigh is None or at_once is not None:
            return self._run(work, pieces, at_once, 2 if getattr(task, "small_results", False) else 1, cancel)
        return self._first_alone(work, pieces, lambda piece: quick * weigh(piece), cancel)

    def _first_alone(
        self,
        work: Callable[[Piece], Result],
        pieces: Iterable[Piece],
        seconds: Callable[[Piece], float],
        cancel: Callable[[], None],
    ) -> Iterator[Result]:
        """Run one piece after the other as long as each is quick, then several at once."""
        remaining = iter(pieces)
        for piece in remaining:
            begun = monotonic()
            result = work(piece)
            is_quick = monotonic() - begun <= seconds(piece)
            yield result
            if not is_quick:
                break
        yield from self._run(work, remaining, None, 1, cancel)

    def regroup(
        self,
        readings: Sequence[Reading],
        merge: Callable[[Sequence[Sequence[RecordBatch]]], Result],
        schema: ArrowSchema,
        size_bytes: int,
        temp_dir: str | None = None,
    ) -> Iterator[Result]:
        """Keep the batches in memory, or in a temporary file where they are many, and merge one group after another."""
        from deltacli.work.spill import SpillFile
        from deltacli.work.task import TaskContext

        groups = min(_MOST_GROUPS, size_bytes // GROUP_BYTES + 1)
        store: AbstractContextManager[_Store] = nullcontext(_Memory()) if groups == 1 else SpillFile(temp_dir, schema)
        places: list[list[list[int]]] = [[[] for _ in readings] for _ in range(groups)]
        with store as kept:
            for side, reading in enumerate(readings):
                context = TaskContext(reading.stores, {**reading.shared, GROUPS: groups})
                work = partial(_work, reading.task, context)
                for group, batch in self.stream(work, reading.pieces):
                    places[group][side].append(kept.add(batch))
            kept.finish()
            for sides in places:
                yield merge([[kept.read(place) for place in side] for side in sides])

    def abandon(self) -> None:
        """Do nothing: threads end with their process."""

    def close(self) -> None:
        """Do nothing: threads end with their run."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("an engine cannot be sent to another process: a task must not hold one")


class _Store(Protocol):
    """Keeps batches: `SpillFile`, or memory."""

    def add(self, batch: RecordBatch) -> int: ...
    def finish(self) -> None: ...
    def read(self, number: int) -> RecordBatch: ...


class _Memory:
    def __init__(self) -> None:
        self._batches: list[RecordBatch] = []

    def add(self, batch: RecordBatch) -> int:
        self._batches.append(batch)
        return len(self._batches) - 1

    def finish(self) -> None:
        pass

    def read(self, number: int) -> RecordBatch:
        return self._batches[number]


def _work(task: Task[Piece, Result], context: TaskContext, piece: Piece) -> Result:
    return task(piece, context)


def _result(future: Future[Result]) -> Result:
    while not future.done():
        with suppress(TimeoutError):
            future.exception(timeout=POLL_SECONDS)
    return future.result()
