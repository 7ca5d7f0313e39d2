"""One computation for all callers that need the same thing at the same time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any, TypeVar

Result = TypeVar("Result")


class SingleFlight:
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


Steps = Callable[[Hashable, Callable[[], bytes]], bytes]
"""Returns the result of a step, given what names it and its work."""


class SharedSteps:
    """Long work in steps that several callers go through at the same time: each step is done once, as long as they stay
    close together. Of all results, at most `max_bytes` are kept, and none of work that nobody or one caller does.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._callers: dict[Hashable, int] = {}
        self._kept: OrderedDict[tuple[Hashable, Hashable], bytes] = OrderedDict()
        self._kept_bytes = 0
        self._flights = SingleFlight()
        self._lock = RLock()  # whoever is interrupted by the garbage collector may hold it, and an answer ends there

    @property
    def kept_bytes(self) -> int:
        """Return the size of the results that are kept."""
        return self._kept_bytes

    @contextmanager
    def joined(self, key: Hashable) -> Iterator[Steps]:
        """Take part in the work for a key, and yield what does a step."""
        with self._lock:
            self._callers[key] = self._callers.get(key, 0) + 1
        try:
            yield lambda step, work: self._do((key, step), work)
        finally:
            self._leave(key)

    def _do(self, place: tuple[Hashable, Hashable], work: Callable[[], bytes]) -> bytes:
        with self._lock:
            known = self._kept.get(place)
            is_alone = self._callers[place[0]] == 1
        if known is not None:
            return known
        return work() if is_alone else self._flights.run(place, lambda: self._keep(place, work))

    def _keep(self, place: tuple[Hashable, Hashable], work: Callable[[], bytes]) -> bytes:
        known = self._kept.get(place)  # since the caller looked
        if known is not None:
            return known
        result = work()
        with self._lock:
            self._kept[place] = result
            self._kept_bytes += len(result)
            while self._kept_bytes > self._max_bytes:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return result

    def _leave(self, key: Hashable) -> None:
        with self._lock:
            self._callers[key] -= 1
            if not self._callers[key]:
                del self._callers[key]
                for place in [place for place in self._kept if place[0] == key]:
                    self._kept_bytes -= len(self._kept.pop(place))
