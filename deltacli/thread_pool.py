"""Threads that are waited for at the end, whoever ends them.

A generator that nobody closes can be part of a cycle, which the garbage collector ends: in any thread, in the middle of
any call, while that thread holds any lock. Waiting for other threads there can wait for ever.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Condition, get_ident
from typing import Generic, TypeVar

_collector = [0]
"""The thread that collects garbage; 0 if none does."""
Piece = TypeVar("Piece")
Result = TypeVar("Result")

POLL_SECONDS = 0.1
"""Seconds of a single wait.

A signal that arrives just before the main thread starts to wait does not wake it, and on Windows no signal does.
"""


class ThreadPool(ThreadPoolExecutor):
    """A pool whose end waits for its threads, unless the garbage collector ends it, which drops tasks that wait."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        abandoned = is_collecting()
        super().shutdown(wait=wait and not abandoned, cancel_futures=cancel_futures or abandoned)


def is_collecting() -> bool:
    """Return True if this thread is collecting garbage, so that the caller runs as a finalizer."""
    return _collector[0] == get_ident()


def _note(phase: str, _: dict[str, int]) -> None:
    _collector[0] = get_ident() if phase == "start" else 0


gc.callbacks.append(_note)


class TaskTracker(Generic[Piece, Result]):
    """Counts the running tasks of a pool.

    Joining threads is not sufficient: an interruption during `submit` hides a thread from its pool, and after an
    interruption during a join, Python 3.11 and 3.12 treat the thread as finished.
    """

    def __init__(self, work: Callable[[Piece], Result]) -> None:
        self._work = work
        self._changed = Condition()
        self._running = 0
        self._is_over = False

    def run(self, piece: Piece) -> Result:
        """Run one task. Raises CancelledError after `wait_idle`: a thread may hold a task not begun yet."""
        with self._changed:
            if self._is_over:
                raise CancelledError
            self._running += 1
        try:
            return self._work(piece)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait_idle(self) -> None:
        """Wait until no task is running. No further task starts. A finalizer does not wait (`is_collecting`)."""
        with self._changed:
            self._is_over = True
            while self._running and not is_collecting():
                self._changed.wait(POLL_SECONDS)
