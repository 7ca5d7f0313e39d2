"""The only place that reads the real clock; everything else is passed a `Clock`."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Milliseconds since the epoch, UTC."""


def system_clock() -> int:
    """Return the wall clock of this machine in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def fixed_clock(now_ms: int) -> Clock:
    """Return a clock that always shows `now_ms` (`--now`, tests)."""
    return lambda: now_ms
