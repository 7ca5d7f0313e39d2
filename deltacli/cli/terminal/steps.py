"""How far the steps of a run are, and what can be said about them."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.units import format_count, format_size


class Eta:
    """How long a step still takes, as soon as the estimates of the last seconds agree with each other. A step that
    stands still has none.
    """

    _SECONDS = 3.0
    _LEAST_SECONDS = 2.0
    _TOLERANCE = 1.25

    def __init__(self) -> None:
        self._estimates: deque[tuple[float, float]] = deque()

    def remaining(self, elapsed: float, share: float | None) -> float | None:
        """Note how far a step is, and return the seconds that are left; None while that is not known."""
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
    """How far a step is; `began` is a moment of the progress's clock. With a `weight` the parts of the work differ, and
    the share of the time that is over is the share of the weight.
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
        """The part of the work that is done, None where the whole is not known."""
        done, whole = (self.weight_done, self.weight) if (self.weight or 0) > 0 else (self.done, self.total)
        return min(done / whole, 1.0) if whole else None


class Shown(NamedTuple):
    """A step and the seconds since it began."""

    step: StepState
    elapsed: float


class Facts(NamedTuple):
    """A step in words; None for what is not known."""

    what: str
    amount: str
    share: str | None
    rate: str | None
    spent: str


def facts_of(step: StepState, elapsed: float) -> Facts:
    """Say how far a step is."""
    amount = _amount(step.done, step.unit)
    share = None
    if step.total is not None:
        share = f"{int((step.share or 0) * 100 + 1e-9)}%"
        amount = f"{amount}/{_amount(step.total, step.unit)}"
    amount = amount if step.unit == "bytes" else f"{amount} {step.unit}"
    rate = f"{_amount(int(step.done / elapsed), step.unit)}/s" if step.done > elapsed > 0 else None
    return Facts(step.what, amount, share, rate, format_seconds(elapsed))


def describe(step: StepState, elapsed: float) -> str:
    """A step in one line, for a log."""
    eta = None
    if step.share and step.share < 1:
        eta = f"ETA {format_seconds(elapsed / step.share - elapsed)}"
    return "  ".join(part for part in (*facts_of(step, elapsed), eta) if part)


def _amount(number: int, unit: str) -> str:
    return format_size(number) if unit == "bytes" else format_count(number)


def format_seconds(seconds: float) -> str:
    """Minutes and seconds, with hours where there are some."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
