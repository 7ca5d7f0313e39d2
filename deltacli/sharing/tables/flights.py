"""One computation for all callers that need the same thing at the same time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar

Result = TypeVar("Result")


class Flights:
    """Runs the work for a key once, while callers with the same key wait for its result."""

    def __init__(self) -> None:
        self._running: dict[Hashable, Future[Any]] = {}  # Any: the result of the caller's own work
        self._lock = Lock()

    def run(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, or of the same work of another caller. Raises what the work raises."""
        with self._lock:
            running = self._running.get(key)
            mine = running is None
            future: Future[Result] = Future() if running is None else running
            self._running[key] = future
        if not mine:
            return future.result()
        try:
            future.set_result(work())
        except BaseException as fault:
            future.set_exception(fault)
            raise
        finally:
            with self._lock:
                del self._running[key]
        return future.result()
