"""A retry policy that also limits the rate of requests to each host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from deltacli.storage.retry import Retry


class ThrottledRetry(Retry):
    """A policy whose requests to a host are at least a fixed time apart, over all threads and stores that share it."""

    def __init__(self, budget_seconds: float, calls_per_second: float, **options: Any) -> None:  # Any: those of Retry
        super().__init__(budget_seconds, **options)
        self._apart = 1 / calls_per_second
        self._next: dict[str, float] = {}
        self._queue = Lock()

    @contextmanager
    def watched(self, host: str) -> Iterator[None]:
        """Wait for the turn of a request, then write a note about it if it takes long."""
        with self._queue:
            now = self._clock()
            turn = max(now, self._next.get(host, now))
            self._next[host] = turn + self._apart
        if turn > now:
            self._wait(turn - now)
        with super().watched(host):
            yield
