"""Pools of threads, and their tasks, that are waited for at the end, whoever ends them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Condition
from typing import Generic, TypeVar

from deltacli.core.garbage_collection import POLL_SECONDS, is_collecting_garbage

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class ThreadPool(ThreadPoolExecutor):
    """A pool whose end waits for its threads. After an exception, as of a signal, it drops the tasks that wait; where
    the garbage collector ends it, it does so, too, and waits for no thread.
    """

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        abandoned = is_collecting_garbage()
        super().shutdown(wait=wait and not abandoned, cancel_futures=cancel_futures or abandoned)


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
        """Wait until no task is running, and let no further task start.

        A finalizer does not wait: see `is_collecting_garbage`.
        """
        with self._changed:
            self._is_over = True
            while self._running and not is_collecting_garbage():
                self._changed.wait(POLL_SECONDS)
