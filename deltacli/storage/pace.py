"""The rate of requests to a host that was too busy, which all threads of a run share."""

from __future__ import annotations

from threading import Lock

_REACTION_SECONDS = 1.0
"""Faults in this time after a reduction belong to requests that were sent before it."""
_LOWEST = 10.0
"""Requests per second that are always sent."""
_GROWTH = 5.0
"""Requests per second that are added each second without such faults."""
_UNLIMITED = 1_000.0
_WINDOW_SECONDS = 1.0


class Pace:
    """Has no limit until the host is too busy. Then the rate is halved, and rises slowly. Thread-safe.

    Times are seconds of one clock.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._base: float | None = None
        """The rate after the last reduction."""
        self._slowed = 0.0
        self._next = 0.0
        self._window, self._sent, self._before = 0.0, 0, 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent, and count it."""
        with self._lock:
            rate = self._rate(now)
            turn = now if rate is None else max(now, self._next)
            if rate is not None:
                self._next = turn + 1 / rate
            self._count(turn)
            return turn - now

    def slow_down(self, now: float) -> None:
        """Halve the rate because the host was too busy."""
        with self._lock:
            if self._base is not None and now - self._slowed < _REACTION_SECONDS:
                return
            current = self._rate(now) or max(self._before, self._sent / _WINDOW_SECONDS)
            self._base, self._slowed = max(_LOWEST, current / 2), now

    def _rate(self, now: float) -> float | None:
        if self._base is None:
            return None
        rate = self._base + _GROWTH * max(0.0, now - self._slowed)
        if rate >= _UNLIMITED:
            self._base = None
        return None if self._base is None else rate

    def _count(self, moment: float) -> None:
        """Count a request for the rate of the last whole window."""
        elapsed = moment - self._window
        if elapsed >= _WINDOW_SECONDS:
            self._before = self._sent / elapsed
            self._window, self._sent = moment, 0
        self._sent += 1
