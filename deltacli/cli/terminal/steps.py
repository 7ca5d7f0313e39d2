"""The state of the steps of a run, the estimate of their remaining time, and their description in words."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.core.units import format_count, format_size


class Eta:
    """Estimates the remaining time of a step, once recent estimates agree. A stalled step has none."""

    _WINDOW_SECONDS = 3.0
    """How long estimates count as recent."""
    _MIN_SPAN_SECONDS = 2.0
    """The time that recent estimates must cover, so that a first burst of progress is not extrapolated."""
    _TOLERANCE = 1.25
    """The factor by which the highest of them may exceed the lowest."""

    def __init__(self) -> None:
        self._estimates: deque[tuple[float, float]] = deque()
        """Seconds of a measurement -> estimated seconds of the whole step, the oldest first."""

    def estimate_remaining(self, elapsed: float, share: float | None) -> float | None:
        """Record the progress of a step and return its remaining seconds.

        Args:
            elapsed: Seconds since the step began.
            share: The share of the step that is done; None if the total is not known.

        Returns:
            The seconds; None while recent estimates differ or nothing moves.
        """
        if share is None or not 0 < share < 1:
            return None
        self._estimates.append((elapsed, elapsed / share))
        while self._estimates[0][0] < elapsed - self._WINDOW_SECONDS:
            self._estimates.popleft()

        oldest_elapsed, oldest_total = self._estimates[0]
        if elapsed - oldest_elapsed < self._MIN_SPAN_SECONDS:
            return None
        is_moving = share > oldest_elapsed / oldest_total
        totals = [total for _, total in self._estimates]
        is_stable = max(totals) <= self._TOLERANCE * min(totals)
        return elapsed / share - elapsed if is_moving and is_stable else None


@dataclass(slots=True)
class StepState:
    """The progress of a step.

    Attributes:
        what: The name of the step, such as `reading the log`.
        unit: What is counted: `files`, `bytes`.
        total: How many of them there are; None if that is not known.
        weight: The weight of all parts together, if time is in proportion to the weight of the parts.
        plan: The plan of the steps within this one, which has no amount of its own.
        began: A time of the progress's clock, in seconds.
        done: How many are done.
        weight_done: The weight of the parts that are done.
        eta: The estimate of the remaining time.
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
        """Add to what is done. May be called by any thread."""
        with self._lock:
            self.done += amount
            self.weight_done += weight

    @property
    def units_done(self) -> int:
        """Return how much of the work is done: the weight if there is one, else the number of parts."""
        return self.weight_done if self.weight else self.done

    @property
    def units_total(self) -> int | None:
        """Return the same for all of the work; None if that is not known."""
        return self.weight or self.total

    @property
    def share(self) -> float | None:
        """Return the share of the work that is done; None if the total is not known."""
        if not self.units_total:
            return None
        return min(self.units_done / self.units_total, 1.0)


_PRIOR_SHARE = 0.05
"""The share of a phase that must be done until its measured cost counts as much as the expected one."""
_MIN_PACE = 0.2
_MAX_PACE = 20.0
"""Limits of the pace, so that one odd measurement does not decide the remaining time of all phases."""
_PRIOR_SECONDS = 0.1
"""Seconds at the expected pace that are added to those measured, so that the first milliseconds decide nothing."""


@dataclass(slots=True)
class _Phase:
    """The steps of one name within a plan.

    Attributes:
        cost: The expected seconds per unit.
        units: The units expected in all steps of the phase.
        ended_units: The units of the steps that have ended.
        spent: The measured seconds.
        running: The step that is running now.
        is_over: Whether no more steps of the phase follow.
    """

    cost: float
    units: float = 0.0
    ended_units: float = 0.0
    spent: float = 0.0
    running: StepState | None = None
    is_over: bool = False

    @property
    def done(self) -> float:
        """Return the units that are done."""
        return self.ended_units + (0 if self.running is None else self.running.units_done)

    def estimate_remaining(self, pace: float) -> float:
        """Return the seconds until the end of the phase.

        Args:
            pace: How many times slower than expected this machine is, as measured in all phases.
        """
        if self.is_over:
            return 0.0
        units = max(self.units, self.done)
        expected = self.cost * pace * units
        if not self.done:
            # Some steps report nothing before their end: time passes, but a tenth of it always remains.
            return max(expected - self.spent, expected / 10)

        # The more of the phase is done, the more its own measurement counts.
        cost_per_unit = (self.spent + _PRIOR_SHARE * expected) / (self.done + _PRIOR_SHARE * units)
        return cost_per_unit * (units - self.done)


class PlanState:
    """The phases of an operation in the order in which they end, and the remaining time of all of them.

    Not safe for threads: its owner calls one method at a time, except `expect`, which may be called at any time.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        """Make the plan. `costs` are the names of the steps and their expected seconds per unit."""
        self._phases = {what: _Phase(cost) for what, cost in costs.items()}
        self._running: list[_Phase] = []
        self._settled = 0.0
        self._share = 0.0
        self.eta = Eta()

    def expect(self, what: str, units: float) -> None:
        """Set the units of a phase. See `Plan`."""
        if what in self._phases:
            self._phases[what].units = units

    def begin(self, step: StepState, now: float) -> None:
        """Start a step, which may be within another. A step that is in no plan takes the time of no phase."""
        phase = self._phases.get(step.what)
        if phase is None:
            return
        self._add_time(now)
        if not self._running:
            phase.units = step.units_total or phase.units
        phase.running = step
        self._running.append(phase)

    def end(self, step: StepState, now: float) -> None:
        """End a step. With the outermost one, the phases before it are over, whether they were needed or not."""
        phase = self._phases.get(step.what)
        if phase is None or phase.running is not step:
            return
        self._add_time(now)
        phase.ended_units = phase.done
        phase.running = None
        self._running.remove(phase)
        if self._running:
            return
        for earlier in self._phases.values():
            earlier.is_over = True
            if earlier is phase:
                break

    def estimate_remaining(self, now: float) -> float | None:
        """Return the seconds until the end; None if it is not known what there is to do."""
        self._add_time(now)
        phases = self._phases.values()
        if not any(phase.units for phase in phases):
            return None
        measured = [phase for phase in phases if phase.done]
        spent = sum(phase.spent for phase in measured)
        expected = sum(phase.cost * phase.done for phase in measured)
        pace = (spent + _PRIOR_SECONDS) / (expected + _PRIOR_SECONDS)
        pace = min(max(pace, _MIN_PACE), _MAX_PACE)
        return sum(phase.estimate_remaining(pace) for phase in phases)

    def advance_share(self, elapsed: float, remaining: float | None) -> float | None:
        """Return the share of the time that has passed. It never becomes less than it was."""
        if remaining is None:
            return None
        self._share = max(self._share, elapsed / ((elapsed + remaining) or 1))
        return self._share

    def _add_time(self, now: float) -> None:
        """Add the time since the last call to the innermost running phase."""
        if self._running:
            self._running[-1].spent += now - self._settled
        self._settled = now


class StepSnapshot(NamedTuple):
    """A step at one time. Within a plan, share and times are those of the plan.

    Attributes:
        step: The step, whose amounts may go on changing.
        elapsed: Seconds since the step began.
        share: The share that is done; None if that is not known.
        remaining: The estimated seconds until the end; None if they are not known.
        eta: What decides whether the estimate is stable.
        spent: Seconds since the beginning of the plan, or of the step.
    """

    step: StepState
    elapsed: float
    share: float | None
    remaining: float | None
    eta: Eta
    spent: float

    @classmethod
    def take(cls, step: StepState, now: float, planned: StepState | None = None) -> StepSnapshot:
        """Return a step as it is now; `planned` is the step with the plan that it is in."""
        elapsed = now - step.began
        if planned is None or planned.plan is None:
            remaining = elapsed / step.share - elapsed if step.share else None
            return cls(step, elapsed, step.share, remaining, step.eta, elapsed)
        plan = planned.plan
        spent = now - planned.began
        remaining = plan.estimate_remaining(now)
        return cls(step, elapsed, plan.advance_share(spent, remaining), remaining, plan.eta, spent)

    def estimate_stable_remaining(self) -> float | None:
        """Return the remaining seconds once recent estimates agree."""
        if self.remaining is None:
            return self.eta.estimate_remaining(self.spent, None)
        share = self.spent / ((self.spent + self.remaining) or 1)
        return self.eta.estimate_remaining(self.spent, share)


class StepTexts(NamedTuple):
    """The texts of a step; None for what is not known."""

    what: str
    amount: str
    share: str | None
    rate: str | None
    spent: str


def format_step(snapshot: StepSnapshot) -> StepTexts:
    """Return the texts of a step."""
    step = snapshot.step
    return StepTexts(
        step.what,
        "" if step.plan is not None else _format_progress(step),
        _format_share(snapshot),
        _format_rate(step, snapshot.elapsed),
        format_seconds(snapshot.spent),
    )


def _format_progress(step: StepState) -> str:
    """Return what is done of how much: `3/12 files`, `1.5 MiB/2.0 GiB`."""
    amount = _format_amount(step.done, step.unit)
    if step.total is not None:
        amount = f"{amount}/{_format_amount(step.total, step.unit)}"
    return amount if step.unit == "bytes" else f"{amount} {step.unit}"


def _format_share(snapshot: StepSnapshot) -> str | None:
    if snapshot.share is None and snapshot.step.total is None:
        return None
    percent = (snapshot.share or 0) * 100
    # 29 of 100 are 28.999999999999996 %, which would be cut to 28.
    return f"{int(percent + 1e-9)}%"


def _format_rate(step: StepState, elapsed: float) -> str | None:
    """Return the speed of a step; None as long as it is less than one per second."""
    if not step.done > elapsed > 0:
        return None
    return f"{_format_amount(int(step.done / elapsed), step.unit)}/s"


def describe_step(snapshot: StepSnapshot) -> str:
    """Return a step in one line, for a log."""
    eta = None
    if snapshot.remaining and snapshot.share and snapshot.share < 1:
        eta = f"ETA {format_seconds(snapshot.remaining)}"
    return "  ".join(text for text in (*format_step(snapshot), eta) if text)


def _format_amount(number: int, unit: str) -> str:
    return format_size(number) if unit == "bytes" else format_count(number)


def format_seconds(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any: `1:05`, `2:00:09`."""
    minutes, seconds_left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds_left:02d}"
    return f"{minutes}:{seconds_left:02d}"
