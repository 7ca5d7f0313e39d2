"""Limit the rate of requests to a host that has answered "too many requests"."""

from __future__ import annotations

from threading import Lock

# Errors that arrive within this time after a reduction belong to requests that were sent before it.
_REACTION_SECONDS = 1.0

# The rate is never lower than this, in requests per second.
_LOWEST_RATE = 10.0

# How much the rate grows in each second without an error, in requests per second.
_GROWTH_PER_SECOND = 5.0

# A rate above this is not limited.
_UNLIMITED_RATE = 1_000.0

_WINDOW_SECONDS = 1.0


class RequestRate:
    """The rate of requests to one host, shared by all threads of a run. Thread-safe.

    The rate is unlimited until the host reports that it is too busy. Then the rate is halved, and
    grows slowly:

        100 requests/s, HTTP 503  ->  50, 55, 60, …, 1,000 requests/s  ->  unlimited

    All times are seconds of the same clock.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # The rate after the last reduction; None: unlimited.
        self._reduced_rate: float | None = None
        self._reduced_at = 0.0
        # The earliest time at which the next request may be sent.
        self._next_request_at = 0.0
        # While the rate is unlimited, requests are counted per second to know the current rate.
        self._window_started_at = 0.0
        self._sent_in_window = 0
        self._rate_in_last_window = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds to wait before the next request, and count the request."""
        with self._lock:
            send_at = now
            rate = self._compute_rate(now)
            if rate is not None:
                send_at = max(now, self._next_request_at)
                self._next_request_at = send_at + 1 / rate

            elapsed = send_at - self._window_started_at
            if elapsed >= _WINDOW_SECONDS:
                self._rate_in_last_window = self._sent_in_window / elapsed
                self._window_started_at = send_at
                self._sent_in_window = 0
            self._sent_in_window += 1
            return send_at - now

    def slow_down(self, now: float) -> None:
        """Halve the rate, because the host was too busy."""
        with self._lock:
            if self._reduced_rate is not None and now - self._reduced_at < _REACTION_SECONDS:
                return

            current_rate = self._compute_rate(now)
            if current_rate is None:
                # The current second may already contain more requests than the last one did.
                current_rate = max(self._rate_in_last_window, self._sent_in_window / _WINDOW_SECONDS)
            self._reduced_rate = max(_LOWEST_RATE, current_rate / 2)
            self._reduced_at = now

    def _compute_rate(self, now: float) -> float | None:
        """Return the current rate in requests per second; None if it is unlimited."""
        if self._reduced_rate is None:
            return None
        rate = self._reduced_rate + _GROWTH_PER_SECOND * max(0.0, now - self._reduced_at)
        if rate >= _UNLIMITED_RATE:
            self._reduced_rate = None
            return None
        return rate
