"""Pools of threads whose end waits for all tasks, whoever ends them and whatever interrupts them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Condition
from typing import Generic, TypeVar

from deltacli.core.garbage_collection import POLL_SECONDS, is_collecting_garbage

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class ThreadPool(ThreadPoolExecutor):
    """A pool of threads for a `with` block.

    The end of the block waits for running tasks. After an exception, such as that of a signal, tasks that have not
    begun are dropped. If the garbage collector ends the block, they are dropped as well, and no thread is waited for:
    the collector may hold a lock that the thread needs.
    """

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the pool, as `ThreadPoolExecutor.shutdown` does, but without waiting in a finalizer."""
        is_abandoned = is_collecting_garbage()
        super().shutdown(wait=wait and not is_abandoned, cancel_futures=cancel_futures or is_abandoned)


class TaskTracker(Generic[Piece, Result]):
    """Counts the running tasks of a pool, so that its owner can wait for them.

    Joining threads is not sufficient: an interruption during `submit` hides a thread from its pool, and after an
    interruption during a join, Python 3.11 and 3.12 treat the thread as finished.
    """

    def __init__(self, work: Callable[[Piece], Result]) -> None:
        self._work = work
        self._changed = Condition()
        self._running = 0
        self._is_over = False

    def run(self, piece: Piece) -> Result:
        """Run one task.

        Raises:
            CancelledError: After `wait_idle`. A thread may hold a task that it has not begun yet.
        """
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
