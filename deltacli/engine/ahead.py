"""Fetching ahead: one thread makes the next items while the caller is busy with the last."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Failure:
    """What ended the source instead of its end."""

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


class ReadAhead(Generic[Item]):
    """Iterates over `items`, in order, while a thread, which begins at once, fetches up to `depth` more.

    An error of the source is raised in its place. Who stops early calls `close`: it stops the thread, which closes the
    source.
    """

    def __init__(self, items: Iterator[Item], *, depth: int = 2) -> None:
        self._queue: Queue[Item | _Failure] = Queue(depth)
        self._items = items
        self._stopped = Event()
        self._thread = Thread(target=self._fetch, name="deltacli-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> ReadAhead[Item]:
        return self

    def __next__(self) -> Item:
        if self._stopped.is_set():
            raise StopIteration
        item = self._wait()
        if not isinstance(item, _Failure):
            return item
        self.close()
        if item.cause is not None:
            raise item.cause
        raise StopIteration

    def close(self) -> None:
        """Let the thread end: it may be waiting for room in the queue."""
        self._stopped.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.01)
            except Empty:
                continue

    def _wait(self) -> Item | _Failure:
        """Wait for the next item, never in one long sleep: that could miss a signal that comes just before it."""
        while True:
            try:
                return self._queue.get(timeout=0.1)
            except Empty:
                continue

    def _fetch(self) -> None:
        try:
            for item in self._items:
                self._queue.put(item)
                if self._stopped.is_set():
                    break
            end = _Failure(None)
        except BaseException as fault:  # noqa: BLE001  (raised again in the caller's thread)
            end = _Failure(fault)
        try:
            if close := getattr(self._items, "close", None):
                close()
        except BaseException as fault:  # noqa: BLE001
            end = end if end.cause is not None else _Failure(fault)
        if not self._stopped.is_set():
            self._queue.put(end)
