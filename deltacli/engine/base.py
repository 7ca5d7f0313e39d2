"""The engine port, and the engine of one process.

It uses threads, because the work is in Arrow and in the kernel, both outside the interpreter lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import islice
from threading import Event, Thread
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from deltacli.core.garbage_collection import POLL_SECONDS, is_collecting_garbage
from deltacli.core.memory import count_worker_threads

if TYPE_CHECKING:
    from concurrent.futures import Future
    from queue import Queue

    from deltacli.core.typing import ArrowSchema, RecordBatch
    from deltacli.work.task import Piece, Result, TableStores, Task, TaskContext

NOTHING_SHARED: Mapping[str, Any] = MappingProxyType({})  # Any: values of each operation
GROUPS = "groups"
"""The shared value that tells a task of `regroup` the number of groups."""
GROUP_BYTES = 64 << 20
"""About the bytes of a group: Arrow needs several times as much to compare it."""


class Reading(NamedTuple):
    """What `regroup` distributes: the rows of pieces of a table. The task yields batches with the group of each."""

    task: Task[Any, Iterator[tuple[int, RecordBatch]]]  # Any: a piece with `weight`
    pieces: Iterable[Any]
    stores: TableStores
    shared: Mapping[str, Any]  # Any: values of each operation


def never() -> bool:
    return False


class Engine(Protocol):
    """Runs pieces of work, several at a time.

    `run` and `stream` always run in this process, and accept any function. `spread` is the verb of distribution: it
    runs tasks (`deltacli.work.task`) in this process or on a cluster.
    """

    @property
    def may_repeat(self) -> bool:
        """True where tasks run in other processes, perhaps more than once for a piece: what a first attempt deleted, a
        second one finds missing, and hashes that Python seeds per process differ.
        """

    def run(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece], *, at_once: int | None = None
    ) -> Iterator[Result]:
        """Yield the result of every piece, in the order of the pieces.

        Few are in flight at a time, so results can be large. The first piece that raises ends the run with its error; a
        caller that stops early stops the pieces that have not begun. `at_once` is the useful number of concurrent
        pieces, for pieces that wait for a store instead of computing; the default suits computing.
        """

    def stream(self, work: Callable[[Piece], Iterator[Result]], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Yield what the pieces yield, a few pieces at once and a few results ahead.

        The order depends only on the pieces. The first error ends the stream; a caller that stops early closes the
        started pieces.
        """

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
        """Yield the result of every piece, in the order of the pieces, wherever the pieces ran.

        Every piece runs at least once, perhaps several times at the same time; one result of each is returned. The
        first piece that raises, in this order, ends the run with its error. A caller that stops early cancels the
        others. `shared` values reach each process once; a task finds them, and the `stores`, in its context. `weigh`
        returns the relative cost of a piece (default: all cost the same); `at_once` is as in `run`.

        `is_cancelled` is called from other threads. Once it returns True, tasks may end early, or the run ends with
        `concurrent.futures.CancelledError`, after which no task runs any more.
        """

    def regroup(
        self,
        readings: Sequence[Reading],
        merge: Callable[[Sequence[Sequence[RecordBatch]]], Result],
        schema: ArrowSchema,
        size_bytes: int,
        temp_dir: str | None = None,
    ) -> Iterator[Result]:
        """Yield what `merge` makes of each group: of its batches, in `schema`, of each reading. Groups are in no order,
        and those without rows may be left out.

        `size_bytes` is about what all batches have; the engine chooses the number of groups by it. Batches that do not
        fit in memory are kept in a file in `temp_dir`, or by the cluster. Raises what the tasks raise, StorageFailed
        and NoSpace.
        """

    def abandon(self) -> None:
        """Ask for the end of what still runs in other processes, without waiting for it: this process is about to end.

        Can be called from a signal handler. It takes two seconds at the most.
        """

    def close(self) -> None:
        """Release what the engine holds. It runs nothing afterwards."""


# -- the engine of one process -----------------------------------------------------------------------------------------

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


Item = TypeVar("Item")


class _Failed:
    """The exception that ended the source early."""

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


class ReadAhead(Generic[Item]):
    """Iterates over `items`, in order, while a thread, started at once, fetches up to `depth` more.

    An error of the source is raised in its place. A caller that stops early calls `close`, which stops the thread and
    closes the source. The thread is waited for at the end, whoever ends it, as those of `core/pools.py` are.
    """

    def __init__(self, items: Iterator[Item], *, depth: int = 2) -> None:
        from queue import Queue

        self._queue: Queue[Item | _Failed] = Queue(depth)
        self._items = items
        self._stopped = Event()
        self._ended = (
            Event()
        )  # `Thread.is_alive` returns False after an interruption in the middle of it (Python 3.11, 3.12)
        self._thread = Thread(target=self._run, name="deltacli-ahead", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # an interruption: the thread may still run, but nothing will close it
            self._stopped.set()
            raise

    def __iter__(self) -> ReadAhead[Item]:
        return self

    def __next__(self) -> Item:
        if self._stopped.is_set():
            raise StopIteration
        item = self._wait()
        if not isinstance(item, _Failed):
            return item
        self.close()
        if item.cause is not None:
            raise item.cause
        raise StopIteration

    def close(self) -> None:
        """Stop the thread and wait for its end, except as a finalizer. It may be waiting for room in the queue."""
        self._stopped.set()
        if is_collecting_garbage():
            return
        from queue import Empty

        while not self._ended.is_set():
            try:
                self._queue.get(timeout=0.01)
            except Empty:
                continue
        self._thread.join()

    def _wait(self) -> Item | _Failed:
        """Wait for the next item, never in one long sleep, which could miss a signal that arrives just before it."""
        from queue import Empty

        while True:
            try:
                return self._queue.get(timeout=0.1)
            except Empty:
                continue

    def _run(self) -> None:
        try:
            self._fetch()
        finally:
            self._ended.set()

    def _fetch(self) -> None:
        try:
            for item in self._items:
                self._put(item)
                if self._stopped.is_set():
                    break
            end = _Failed(None)
        except BaseException as fault:  # noqa: BLE001  (raised again in the caller's thread)
            end = _Failed(fault)
        try:
            if close := getattr(self._items, "close", None):
                close()
        except BaseException as fault:  # noqa: BLE001
            end = end if end.cause is not None else _Failed(fault)
        self._put(end)

    def _put(self, item: Item | _Failed) -> None:
        """Hand an item over, or drop it if the caller has stopped."""
        from queue import Full

        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except Full:
                continue
            return
