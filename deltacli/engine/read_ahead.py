"""Iterate over a source while a thread fetches a few items more."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from deltacli.core.garbage_collection import is_collecting_garbage

if TYPE_CHECKING:
    from queue import Queue

Item = TypeVar("Item")

_PUT_SECONDS = 0.1
_GET_SECONDS = 0.1
_DRAIN_SECONDS = 0.01


class _SourceEnd:
    """Stands in the queue for the end of the source; `cause` is the exception that ended it early, if any."""

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


class ReadAhead(Generic[Item]):
    """Iterates over `items`, in order, while a thread, started at once, fetches up to `depth` more.

    An error of the source is raised in its place. A caller that stops early calls `close`, which stops the thread and
    closes the source. The thread is waited for at the end, whoever ends it, as those of `core/pools.py` are.
    """

    def __init__(self, items: Iterator[Item], *, depth: int = 2) -> None:
        """Start the thread."""
        from queue import Queue

        self._queue: Queue[Item | _SourceEnd] = Queue(depth)
        self._items = items
        self._stopped = Event()
        # Not `Thread.is_alive`: after an interruption in the middle of it, it returns False (Python 3.11, 3.12).
        self._ended = Event()
        self._thread = Thread(target=self._run, name="deltacli-ahead", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            # An interruption: the thread may run already, but nobody will call `close`.
            self._stopped.set()
            raise

    def __iter__(self) -> ReadAhead[Item]:
        return self

    def __next__(self) -> Item:
        if self._stopped.is_set():
            raise StopIteration

        item = self._await_item()
        if not isinstance(item, _SourceEnd):
            return item

        self.close()
        if item.cause is not None:
            raise item.cause
        raise StopIteration

    def close(self) -> None:
        """Stop the thread and wait for its end, unless this is called as a finalizer.

        The garbage collector calls finalizers in any thread, which may hold a lock that the source waits for.
        """
        self._stopped.set()
        if is_collecting_garbage():
            return

        from queue import Empty

        # The thread may be waiting for room in the queue.
        while not self._ended.is_set():
            try:
                self._queue.get(timeout=_DRAIN_SECONDS)
            except Empty:
                continue
        self._thread.join()

    def _await_item(self) -> Item | _SourceEnd:
        """Wait for the next item, never in one long sleep, which could miss a signal that arrives just before it."""
        from queue import Empty

        while True:
            try:
                return self._queue.get(timeout=_GET_SECONDS)
            except Empty:
                continue

    def _run(self) -> None:
        try:
            self._fetch()
        finally:
            self._ended.set()

    def _fetch(self) -> None:
        """Put all items of the source into the queue, and its end. Nothing is raised in this thread."""
        try:
            for item in self._items:
                self._put(item)
                if self._stopped.is_set():
                    break
            end = _SourceEnd(None)
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            end = _SourceEnd(error)

        # A source that is closed early may fail as well. Its first error is the one that matters.
        try:
            close = getattr(self._items, "close", None)
            if close:
                close()
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            if end.cause is None:
                end = _SourceEnd(error)

        self._put(end)

    def _put(self, item: Item | _SourceEnd) -> None:
        """Hand an item over, or drop it if the caller has stopped."""
        from queue import Full

        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_PUT_SECONDS)
            except Full:
                continue
            return
