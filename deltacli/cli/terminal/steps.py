"""The progress of the steps of a run, and its description."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.units import format_count, format_size


class Eta:
    """Estimates the remaining time of a step, once recent estimates agree. A stalled step has none."""

    _SECONDS = 3.0
    _LEAST_SECONDS = 2.0
    _TOLERANCE = 1.25

    def __init__(self) -> None:
        self._estimates: deque[tuple[float, float]] = deque()

    def remaining(self, elapsed: float, share: float | None) -> float | None:
        """Record the progress of a step and return the remaining seconds; None while they are not known."""
        if share is None or not 0 < share < 1:
            return None
        self._estimates.append((elapsed, elapsed / share))
        while self._estimates[0][0] < elapsed - self._SECONDS:
            self._estimates.popleft()
        if elapsed - self._estimates[0][0] < self._LEAST_SECONDS:
            return None
        ends = [end for _, end in self._estimates]
        began, end = self._estimates[0]
        is_moving = share > began / end
        return elapsed / share - elapsed if is_moving and max(ends) <= self._TOLERANCE * min(ends) else None


@dataclass(slots=True)
class StepState:
    """The progress of a step; `began` is a time of the progress's clock. With a `weight`, time is in proportion to the
    weight of the parts.
    """

    what: str
    unit: str
    total: int | None
    weight: int | None = None
    began: float = 0.0
    done: int = 0
    weight_done: int = 0
    eta: Eta = field(default_factory=Eta, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:
        with self._lock:
            self.done += amount
            self.weight_done += weight

    @property
    def share(self) -> float | None:
        """The share of the work that is done, None where the total is not known."""
        done, whole = (self.weight_done, self.weight) if (self.weight or 0) > 0 else (self.done, self.total)
        return min(done / whole, 1.0) if whole else None


class Shown(NamedTuple):
    """A step and the seconds since it began."""

    step: StepState
    elapsed: float


class Facts(NamedTuple):
    """The texts of a step; None for what is not known."""

    what: str
    amount: str
    share: str | None
    rate: str | None
    spent: str


def facts_of(step: StepState, elapsed: float) -> Facts:
    """Return the texts of a step."""
    amount = _amount(step.done, step.unit)
    share = None
    if step.total is not None:
        share = f"{int((step.share or 0) * 100 + 1e-9)}%"
        amount = f"{amount}/{_amount(step.total, step.unit)}"
    amount = amount if step.unit == "bytes" else f"{amount} {step.unit}"
    rate = f"{_amount(int(step.done / elapsed), step.unit)}/s" if step.done > elapsed > 0 else None
    return Facts(step.what, amount, share, rate, format_seconds(elapsed))


def describe(step: StepState, elapsed: float) -> str:
    """Return a step in one line, for a log."""
    eta = None
    if step.share and step.share < 1:
        eta = f"ETA {format_seconds(elapsed / step.share - elapsed)}"
    return "  ".join(part for part in (*facts_of(step, elapsed), eta) if part)


def _amount(number: int, unit: str) -> str:
    return format_size(number) if unit == "bytes" else format_count(number)


def format_seconds(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
