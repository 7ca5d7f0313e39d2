"""A thread that fetches ahead and is waited for at the end, whoever ends it, as those of `pools.py` are.

A generator that nobody closes can be part of a cycle, which the garbage collector ends: in any thread, in the middle of
any call, while that thread holds any lock. Waiting for other threads there can wait for ever.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread, get_ident
from typing import Generic, TypeVar

_collector = [0]
"""The thread that collects garbage; 0 if none does."""
Item = TypeVar("Item")

POLL_SECONDS = 0.1
"""Seconds of a single wait.

A signal that arrives just before the main thread starts to wait does not wake it, and on Windows no signal does.
"""


def is_collecting() -> bool:
    """Return True if this thread is collecting garbage, so that the caller runs as a finalizer."""
    return _collector[0] == get_ident()


def _note(phase: str, _: dict[str, int]) -> None:
    _collector[0] = get_ident() if phase == "start" else 0


gc.callbacks.append(_note)


class _Failure:
    """The exception that ended the source early."""

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


class ReadAhead(Generic[Item]):
    """Iterates over `items`, in order, while a thread, started at once, fetches up to `depth` more.

    An error of the source is raised in its place. A caller that stops early calls `close`, which stops the thread and
    closes the source.
    """

    def __init__(self, items: Iterator[Item], *, depth: int = 2) -> None:
        self._queue: Queue[Item | _Failure] = Queue(depth)
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
        if not isinstance(item, _Failure):
            return item
        self.close()
        if item.cause is not None:
            raise item.cause
        raise StopIteration

    def close(self) -> None:
        """Stop the thread and wait for its end, except as a finalizer. It may be waiting for room in the queue."""
        self._stopped.set()
        if is_collecting():
            return
        while not self._ended.is_set():
            try:
                self._queue.get(timeout=0.01)
            except Empty:
                continue
        self._thread.join()

    def _wait(self) -> Item | _Failure:
        """Wait for the next item, never in one long sleep, which could miss a signal that arrives just before it."""
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
            end = _Failure(None)
        except BaseException as fault:  # noqa: BLE001  (raised again in the caller's thread)
            end = _Failure(fault)
        try:
            if close := getattr(self._items, "close", None):
                close()
        except BaseException as fault:  # noqa: BLE001
            end = end if end.cause is not None else _Failure(fault)
        self._put(end)

    def _put(self, item: Item | _Failure) -> None:
        """Hand an item over, or drop it if the caller has stopped."""
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except Full:
                continue
            return
