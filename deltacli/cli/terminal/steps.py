"""The progress of the steps of a run, and its description."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.core.units import format_count, format_size


class Eta:
    """Estimates the remaining time of a step, once recent estimates agree. A stalled step has none."""

    _AGREEMENT_SECONDS = 3.0
    _LEAST_SECONDS = 2.0
    _TOLERANCE = 1.25

    def __init__(self) -> None:
        self._estimates: deque[tuple[float, float]] = deque()

    def remaining(self, elapsed: float, share: float | None) -> float | None:
        """Record the progress of a step and return the remaining seconds; None while they are not known."""
        if share is None or not 0 < share < 1:
            return None
        self._estimates.append((elapsed, elapsed / share))
        while self._estimates[0][0] < elapsed - self._AGREEMENT_SECONDS:
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
    weight of the parts. `plan` is that of the steps within this one, which has no amount of its own.
    """

    what: str
    unit: str
    total: int | None
    weight: int | None = None
    plan: PlanState | None = None
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
        done, whole = self.units
        return min(done / whole, 1.0) if whole else None

    @property
    def units(self) -> tuple[int, int | None]:
        return (self.weight_done, self.weight) if (self.weight or 0) > 0 else (self.done, self.total)


@dataclass(slots=True)
class _Phase:
    """The steps of one name within a plan: the expected seconds per unit, and what was measured."""

    cost: float
    units: float = 0.0
    ended: float = 0.0
    """Units of steps that have ended."""
    spent: float = 0.0
    running: StepState | None = None
    is_over: bool = False

    @property
    def done(self) -> float:
        return self.ended + (self.running.units[0] if self.running else 0)

    def left(self, pace: float) -> float:
        """The seconds until its end, on a machine that is `pace` times slower than expected."""
        if self.is_over:
            return 0.0
        units = max(self.units, self.done)
        whole = self.cost * pace * units
        if self.done:  # what was measured counts more, the more there is of it
            return (self.spent + _TRUST * whole) / (self.done + _TRUST * units) * (units - self.done)
        return max(whole - self.spent, whole / 10)  # steps that report nothing before their end


_TRUST = 0.05
"""The share of a phase that must be done until its measured cost counts as much as the expected one."""
_LEAST_PACE, _MOST_PACE = 0.2, 20.0
_BEFORE = 0.1
"""Seconds at the expected pace that are added to those measured, so that the first milliseconds decide nothing."""


class PlanState:
    """The phases of an operation in the order in which they end, and the remaining time of all of them.

    Not safe for threads: its owner calls one method at a time, except `expect`, which may be called at any time.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        self._phases = {what: _Phase(cost) for what, cost in costs.items()}
        self._running: list[_Phase] = []
        self._settled = self._share = 0.0
        self.eta = Eta()

    def expect(self, what: str, units: float) -> None:
        """See `Plan`."""
        if what in self._phases:
            self._phases[what].units = units

    def begin(self, step: StepState, now: float) -> None:
        """Start a step, which may be within another. A step that is in no plan takes the time of no phase."""
        phase = self._phases.get(step.what)
        if phase is None:
            return
        self._settle(now)
        if not self._running:
            phase.units = step.units[1] or phase.units
        phase.running = step
        self._running.append(phase)

    def end(self, step: StepState, now: float) -> None:
        phase = self._phases.get(step.what)
        if phase is not None and phase.running is step:
            self._settle(now)
            phase.ended, phase.running = phase.done, None
            self._running.remove(phase)
            if not self._running:  # with it, those within it, and those that were not needed
                for earlier in self._phases.values():
                    earlier.is_over = True
                    if earlier is phase:
                        break

    def remaining(self, now: float) -> float | None:
        """The seconds until the end, None where nothing is known of what there is to do."""
        self._settle(now)
        phases = self._phases.values()
        measured = [phase for phase in phases if phase.done]
        spent, foreseen = sum(phase.spent for phase in measured), sum(phase.cost * phase.done for phase in measured)
        pace = min(max((spent + _BEFORE) / (foreseen + _BEFORE), _LEAST_PACE), _MOST_PACE)
        return sum(phase.left(pace) for phase in phases) if any(phase.units for phase in phases) else None

    def share(self, elapsed: float, remaining: float | None) -> float | None:
        """The share of the time that has passed; it never becomes less."""
        if remaining is None:
            return None
        self._share = max(self._share, elapsed / ((elapsed + remaining) or 1))
        return self._share

    def _settle(self, now: float) -> None:
        if self._running:
            self._running[-1].spent += now - self._settled
        self._settled = now


class Shown(NamedTuple):
    """A step: its seconds, share and remaining seconds, of the whole plan that it is in, which has taken `spent`."""

    step: StepState
    elapsed: float
    share: float | None
    left: float | None
    eta: Eta
    spent: float

    @classmethod
    def of(cls, step: StepState, now: float, whole: StepState | None = None) -> Shown:
        """Return a step as it is now; `whole`: the step with the plan."""
        elapsed = now - step.began
        if whole is None or whole.plan is None:
            left = elapsed / step.share - elapsed if step.share else None
            return cls(step, elapsed, step.share, left, step.eta, elapsed)
        spent, left = now - whole.began, whole.plan.remaining(now)
        return cls(step, elapsed, whole.plan.share(spent, left), left, whole.plan.eta, spent)

    def stable_left(self) -> float | None:
        """Return the remaining seconds once recent estimates agree."""
        share = None if self.left is None else self.spent / ((self.spent + self.left) or 1)
        return self.eta.remaining(self.spent, share)


class Facts(NamedTuple):
    """The texts of a step; None for what is not known."""

    what: str
    amount: str
    share: str | None
    rate: str | None
    spent: str


def facts_of(shown: Shown) -> Facts:
    """Return the texts of a step."""
    step, elapsed = shown.step, shown.elapsed
    amount = _amount(step.done, step.unit)
    if step.total is not None:
        amount = f"{amount}/{_amount(step.total, step.unit)}"
    amount = amount if step.unit == "bytes" else f"{amount} {step.unit}"
    share = None if shown.share is None and step.total is None else f"{int((shown.share or 0) * 100 + 1e-9)}%"
    rate = f"{_amount(int(step.done / elapsed), step.unit)}/s" if step.done > elapsed > 0 else None
    return Facts(step.what, amount if step.plan is None else "", share, rate, format_seconds(shown.spent))


def describe(shown: Shown) -> str:
    """Return a step in one line, for a log."""
    eta = f"ETA {format_seconds(shown.left)}" if shown.left and shown.share and shown.share < 1 else None
    return "  ".join(part for part in (*facts_of(shown), eta) if part)


def _amount(number: int, unit: str) -> str:
    return format_size(number) if unit == "bytes" else format_count(number)


def format_seconds(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
