"""The only place that reads the real clock, and what else a run takes from its machine: waiting, random numbers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

# -- the only place that reads the real clock --------------------------------------------------------------------------

Clock = Callable[[], int]
"""Milliseconds since the epoch, UTC."""


class _SystemClock:
    def __call__(self) -> int:
        """Return the wall clock of this machine in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def __repr__(self) -> str:
        return "system_clock"

    __reduce__ = __repr__


system_clock = _SystemClock()
"""The wall clock of this machine, which is one object in each process, with a name in signatures."""


def fixed_clock(now_ms: int) -> Clock:
    """Return a clock that always shows `now_ms` (`--now`, tests)."""
    return lambda: now_ms


# -- what a run takes from its machine ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Machine:
    """One value, so that a test or a simulation can decide all of it. Executors of a cluster use their own."""

    now_ms: Clock = system_clock
    """The wall clock, which is compared with those of other machines."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds, to measure how long something took."""
    sleep: Callable[[float], None] = time.sleep
    random_bytes: Callable[[int], bytes] = os.urandom
    """So many bytes that are not the same in a forked process."""

    def new_hex(self, count: int = 16) -> str:
        """Return so many random bytes as hexadecimal digits."""
        return self.random_bytes(count).hex()

    def new_uuid(self) -> str:
        """Return a unique id."""
        from uuid import UUID

        return str(UUID(bytes=self.random_bytes(16), version=4))

    def sleep_up_to(self, longest: float) -> None:
        """Wait for a random time."""
        self.sleep(longest * int.from_bytes(self.random_bytes(4), "big") / 0xFFFFFFFF)


MACHINE = Machine()
"""This machine."""
