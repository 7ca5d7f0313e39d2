"""The clock, `sleep` and random bytes of the machine that runs deltacli.

No other module reads the clock. Code that needs the time takes a `Clock` or a `Machine` as a parameter, so that tests
and simulations can replace it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

Clock = Callable[[], int]
"""Returns milliseconds since the epoch, UTC."""


class _SystemClock:
    """The wall clock of this machine.

    It is an object instead of a function for two reasons. Its `repr` is `system_clock`, which signatures in the
    documentation of the Python API show as a default. And a pickled clock refers to the object `system_clock` of the
    process that unpickles it.
    """

    def __call__(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def __repr__(self) -> str:
        return "system_clock"

    def __reduce__(self) -> str:
        return "system_clock"


system_clock = _SystemClock()


def fixed_clock(now_ms: int) -> Clock:
    """Return a clock that always returns `now_ms`, for the option `--now` and for tests."""
    return lambda: now_ms


@dataclass(frozen=True, slots=True)
class Machine:
    """The functions of a machine whose results are different in each run.

    They are grouped in one object, so that a simulation can replace all of them together. Each Spark executor uses the
    functions of its own machine.

    Attributes:
        now_ms: Returns the wall clock time in epoch milliseconds, for comparisons with the times of stores and commits.
        monotonic: Returns seconds of a clock that is never set back, for measuring durations.
        sleep: Waits for a number of seconds.
        random_bytes: Returns a number of random bytes. Forked processes get different bytes.
    """

    now_ms: Clock = system_clock
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random_bytes: Callable[[int], bytes] = os.urandom

    def new_hex(self, count: int = 16) -> str:
        """Return `count` random bytes as hexadecimal digits."""
        return self.random_bytes(count).hex()

    def new_uuid(self) -> str:
        """Return a random UUID (version 4) as text."""
        return str(UUID(bytes=self.random_bytes(16), version=4))

    def sleep_up_to(self, longest_seconds: float) -> None:
        """Wait for a random time from 0 to `longest_seconds`.

        Writers that lost the same commit conflict would otherwise all try again at the same time.
        """
        # The module `random` is not suitable: forked processes share its state, and would all wait equally long.
        fraction = int.from_bytes(self.random_bytes(4), "big") / 0xFFFFFFFF
        self.sleep(longest_seconds * fraction)


MACHINE = Machine()
"""The machine that this process runs on."""
