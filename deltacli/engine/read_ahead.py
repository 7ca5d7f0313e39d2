"""Iterate over a source while a thread fetches a few items more."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from deltacli.core.garbage_collection import is_collecting_garbage

if TYPE_CHECKING:
    from queue import Queue


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
