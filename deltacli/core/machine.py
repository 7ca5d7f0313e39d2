"""The machine of a run: its clocks, waiting and random bytes.

No other module reads the real clock. Code that needs the time gets a `Clock` or a `Machine`, so that a test or a
simulation decides what it is.
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

    It is an instance with a name, not a function: signatures of the Python API show `system_clock` as the default,
    and pickling refers to the one object of the process that unpickles it.
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
    """Return a clock that always shows `now_ms`, for `--now` and for tests."""
    return lambda: now_ms


@dataclass(frozen=True, slots=True)
class Machine:
    """The functions of a machine whose results differ from run to run.

    They are one value, so that a simulation replaces all of them at once. Executors of a cluster use their own.

    Attributes:
        now_ms: The wall clock. Its times are compared with those of stores and of other machines.
        monotonic: A clock in seconds that is never set back, to measure how long something takes.
        sleep: Waits for a number of seconds.
        random_bytes: Returns so many random bytes, which also differ between forked processes.
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
        """Wait for a random time.

        Writers that lost the same commit must not try again at the same moment.
        """
        # Not `random`: its state is copied when a process forks, and the copies would wait equally long.
        fraction = int.from_bytes(self.random_bytes(4), "big") / 0xFFFFFFFF
        self.sleep(longest_seconds * fraction)


MACHINE = Machine()
"""The machine that this process runs on."""
