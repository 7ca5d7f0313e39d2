"""The rate of requests to a host that was too busy."""

from __future__ import annotations

from threading import Lock

# Errors within this time after a reduction belong to requests that were sent before it.
_REACTION_SECONDS = 1.0

# Requests per second that are always sent.
_LOWEST_RATE = 10.0

# Requests per second that are added each second without an error.
_GROWTH_PER_SECOND = 5.0

# From here on there is no limit.
_UNLIMITED_RATE = 1_000.0

_WINDOW_SECONDS = 1.0


class RequestRate:
    """The rate of requests to one host, which all threads of a run share. Thread-safe.

    There is no limit until the host is too busy. Then the rate is halved, and grows slowly:

        requests/s   100 -> 503 -> 50, 55, 60 … 1,000 -> no limit

    Times are seconds of one clock.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # The rate after the last reduction; None: no limit.
        self._base: float | None = None
        self._slowed_at = 0.0
        self._next_turn = 0.0
        # Requests are counted in windows of a second, to know what rate to halve.
        self._window_began = 0.0
        self._sent_in_window = 0
        self._previous_rate = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent, and count it."""
        with self._lock:
            turn = now
            rate = self._rate(now)
            if rate is not None:
                turn = max(now, self._next_turn)
                self._next_turn = turn + 1 / rate

            elapsed = turn - self._window_began
            if elapsed >= _WINDOW_SECONDS:
                self._previous_rate = self._sent_in_window / elapsed
                self._window_began = turn
                self._sent_in_window = 0
            self._sent_in_window += 1
            return turn - now

    def slow_down(self, now: float) -> None:
        """Halve the rate because the host was too busy."""
        with self._lock:
            if self._base is not None and now - self._slowed_at < _REACTION_SECONDS:
                return
            # Without a limit so far, the rate is that of the last whole window, or of this one if
            # that is higher.
            current = self._rate(now) or max(self._previous_rate, self._sent_in_window / _WINDOW_SECONDS)
            self._base = max(_LOWEST_RATE, current / 2)
            self._slowed_at = now

    def _rate(self, now: float) -> float | None:
        """Return the rate now; None if there is no limit (any more)."""
        if self._base is None:
            return None
        rate = self._base + _GROWTH_PER_SECOND * max(0.0, now - self._slowed_at)
        if rate >= _UNLIMITED_RATE:
            self._base = None
            return None
        return rate
