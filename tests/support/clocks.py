"""A clock that moves only when somebody waits."""

from __future__ import annotations

from collections.abc import Callable

from deltacli.storage.retry import Retry


class FakeClock:
    """Seconds from 0. `waits` holds what was waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def retry(
        self,
        budget_seconds: float = 60.0,
        *,
        is_explicit: bool = True,
        note: Callable[[str], None] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> Retry:
        """Return a policy that uses this clock and starts no thread."""
        return Retry(
            budget_seconds,
            is_explicit=is_explicit,
            note=note,
            is_stopping=is_stopping,
            clock=lambda: self.now,
            pause=self.pause,
            is_watching=False,
        )
