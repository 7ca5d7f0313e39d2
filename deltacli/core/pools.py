"""Thread pools that do not leave tasks running after their end, also after a signal or in a finalizer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Condition
from typing import Generic, TypeVar

from deltacli.core.garbage_collection import POLL_SECONDS, is_collecting_garbage

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class ThreadPool(ThreadPoolExecutor):
    """A thread pool for a `with` block.

    At its end, the block waits for running tasks. After an exception, such as that of a signal handler, it cancels the
    tasks that have not started. If the block is ended by the garbage collector, it cancels these tasks, too, but waits
    for no thread: see `is_collecting_garbage`.
    """

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the pool as `ThreadPoolExecutor.shutdown` does. A finalizer does not wait, and cancels pending tasks."""
        is_abandoned = is_collecting_garbage()
        super().shutdown(wait=wait and not is_abandoned, cancel_futures=cancel_futures or is_abandoned)


class TaskTracker(Generic[Piece, Result]):
    """Counts the running tasks of a pool, so that its owner can wait until none is running.

    Joining the threads of the pool is not sufficient. If a signal interrupts `submit`, the pool does not know the new
    thread. If a signal interrupts `join`, Python 3.11 and 3.12 treat the thread as finished.
    """

    def __init__(self, work: Callable[[Piece], Result]) -> None:
        self._work = work
        self._changed = Condition()
        self._running = 0
        self._is_over = False

    def run(self, piece: Piece) -> Result:
        """Run one task. The pool calls this method in its threads.

        Raises:
            CancelledError: If `wait_idle` was called after the task had been submitted and before it started.
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
        """Prevent further tasks from starting, and wait until no task is running.

        A finalizer does not wait: see `is_collecting_garbage`.
        """
        with self._changed:
            self._is_over = True
            while self._running and not is_collecting_garbage():
                self._changed.wait(POLL_SECONDS)
