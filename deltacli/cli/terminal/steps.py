"""Keep the state of running steps, estimate their remaining time, and format both as text.

The remaining time of a single step follows from its speed: 25 % in 10 s means 30 s more.

A plan has several steps (phases) of different speed, for example `listing` before `copying`. While files are
listed, the speed of copying is not known. So a plan starts with expected costs per unit, and replaces them
by measured costs as phases advance.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.core.units import format_count, format_size


class Eta:
    """Estimates the remaining time of a step from its progress.

    An estimate is returned only after the estimates of the last seconds were similar. Otherwise users would see
    `ETA 0:10`, `ETA 2:00` and `ETA 0:30` within a second.
    """

    _WINDOW_SECONDS = 3.0
    """Age of the oldest estimate that is compared."""
    _MIN_SPAN_SECONDS = 2.0
    """Minimum time between the oldest and the newest estimate. The first burst of progress is not extrapolated."""
    _TOLERANCE = 1.25
    """Maximum ratio between the highest and the lowest of the compared estimates."""

    def __init__(self) -> None:
        # Pairs of elapsed seconds and the estimated duration of the step, the oldest first.
        self._estimates: deque[tuple[float, float]] = deque()

    def estimate_remaining(self, elapsed: float, share: float | None) -> float | None:
        """Record the progress of a step and return its remaining time.

        Args:
            elapsed: Seconds since the step began.
            share: The completed share of the step, from 0 to 1; None if the total is not known.

        Returns:
            The remaining time in seconds. None if recent estimates differ, or if the step has stalled.
        """
        if share is None or not 0 < share < 1:
            return None
        duration = elapsed / share
        self._estimates.append((elapsed, duration))
        while self._estimates[0][0] < elapsed - self._WINDOW_SECONDS:
            self._estimates.popleft()

        oldest_elapsed, oldest_duration = self._estimates[0]
        if elapsed - oldest_elapsed < self._MIN_SPAN_SECONDS:
            return None
        oldest_share = oldest_elapsed / oldest_duration
        has_advanced = share > oldest_share
        durations = [estimated_duration for _, estimated_duration in self._estimates]
        is_stable = max(durations) <= self._TOLERANCE * min(durations)
        return duration - elapsed if has_advanced and is_stable else None


@dataclass(slots=True)
class StepState:
    """The progress of a running step.

    Attributes:
        what: The name of the step, such as `reading the log`.
        unit: The unit of the counter: `files`, `bytes`.
        total: The final value of the counter; None if it is not known.
        weight: The weight of all parts together, such as their bytes. None if all parts take the same time.
        plan: The plan, if this step is an operation that consists of other steps. Such a step has no counter.
        began: The beginning of the step, as a time of the progress's clock, in seconds.
        done: The value of the counter.
        weight_done: The weight of the completed parts.
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
        """Increase the counter, and the weight of the completed parts. Can be called from any thread."""
        with self._lock:
            self.done += amount
            self.weight_done += weight

    @property
    def units_done(self) -> int:
        """Return the completed weight. For steps without weights, return the counter."""
        return self.weight_done if self.weight else self.done

    @property
    def units_total(self) -> int | None:
        """Return the total weight. For steps without weights, return the total of the counter, if it is known."""
        return self.weight or self.total

    @property
    def share(self) -> float | None:
        """Return the completed share of the step, from 0 to 1; None if the total is not known."""
        if not self.units_total:
            return None
        return min(self.units_done / self.units_total, 1.0)


_PRIOR_SHARE = 0.05
"""Completed share of a phase at which its measured cost and its expected cost have the same weight."""

_MIN_PACE = 0.2
_MAX_PACE = 20.0
"""Limits of the pace. A single extreme measurement must not determine the remaining time of all phases."""

_PRIOR_SECONDS = 0.1
"""Seconds at the expected pace to add to the measured time. The first milliseconds are not significant."""


@dataclass(slots=True)
class _Phase:
    """All steps of a plan that have the same name.

    Attributes:
        cost: The expected time per unit, in seconds.
        units: The expected number of units in all steps of the phase.
        ended_units: The number of units in completed steps.
        spent: The measured time, in seconds.
        running: The running step of the phase, if any.
        is_over: Whether the phase is completed.
    """

    cost: float
    units: float = 0.0
    ended_units: float = 0.0
    spent: float = 0.0
    running: StepState | None = None
    is_over: bool = False

    @property
    def done(self) -> float:
        """Return the number of completed units."""
        return self.ended_units + (0 if self.running is None else self.running.units_done)

    def estimate_remaining(self, pace: float) -> float:
        """Return the remaining time of the phase, in seconds.

        Args:
            pace: The ratio of measured to expected time in all phases. 2.0 means twice as slow as expected.
        """
        if self.is_over:
            return 0.0
        units = max(self.units, self.done)
        expected = self.cost * pace * units
        if not self.done:
            # Some steps report no progress before their end. Until then, assume at least a tenth of the time.
            return max(expected - self.spent, expected / 10)

        # Weight the measured cost by the completed units, and the expected cost by a constant share.
        cost_per_unit = (self.spent + _PRIOR_SHARE * expected) / (self.done + _PRIOR_SHARE * units)
        return cost_per_unit * (units - self.done)


class PlanState:
    """Estimates the remaining time of an operation that consists of several phases.

    Not thread-safe: `LiveProgress` holds a lock during each call. Only `expect` can be called at any time.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        """Create a plan.

        Args:
            costs: The names of the steps, in the order in which they end, and their expected seconds per unit.
        """
        self._phases = {what: _Phase(cost) for what, cost in costs.items()}
        # The phases of the running steps, the innermost one last.
        self._running: list[_Phase] = []
        self._last_measured = 0.0
        self._share = 0.0
        self.eta = Eta()

    def expect(self, what: str, units: float) -> None:
        """Set the expected number of units of a phase. Steps without a phase are ignored. See `Plan`."""
        if what in self._phases:
            self._phases[what].units = units

    def begin(self, step: StepState, now: float) -> None:
        """Record the beginning of a step. The time of steps without a phase counts for the enclosing phase."""
        phase = self._phases.get(step.what)
        if phase is None:
            return
        self._add_elapsed_time(now)
        if not self._running:
            phase.units = step.units_total or phase.units
        phase.running = step
        self._running.append(phase)

    def end(self, step: StepState, now: float) -> None:
        """Record the end of a step.

        If the step is not nested, its phase and all earlier phases are completed. Earlier phases without a step
        were not necessary.
        """
        phase = self._phases.get(step.what)
        if phase is None or phase.running is not step:
            return
        self._add_elapsed_time(now)
        phase.ended_units = phase.done
        phase.running = None
        self._running.remove(phase)
        if self._running:
            return

        for completed_phase in self._phases.values():
            completed_phase.is_over = True
            if completed_phase is phase:
                break

    def estimate_remaining(self, now: float) -> float | None:
        """Return the remaining time of the operation in seconds; None if no phase has an expected number of units."""
        self._add_elapsed_time(now)
        phases = self._phases.values()
        if not any(phase.units for phase in phases):
            return None

        # Compare the measured time with the expected time of the units that are completed in all phases.
        measured_phases = [phase for phase in phases if phase.done]
        spent = sum(phase.spent for phase in measured_phases)
        expected = sum(phase.cost * phase.done for phase in measured_phases)
        pace = (spent + _PRIOR_SECONDS) / (expected + _PRIOR_SECONDS)
        pace = min(max(pace, _MIN_PACE), _MAX_PACE)
        return sum(phase.estimate_remaining(pace) for phase in phases)

    def advance_share(self, elapsed: float, remaining: float | None) -> float | None:
        """Return the elapsed share of the total time, from 0 to 1. It never decreases: bars do not move backwards."""
        if remaining is None:
            return None
        self._share = max(self._share, elapsed / ((elapsed + remaining) or 1))
        return self._share

    def _add_elapsed_time(self, now: float) -> None:
        """Add the time since the last call to the phase of the innermost running step."""
        if self._running:
            self._running[-1].spent += now - self._last_measured
        self._last_measured = now


class StepSnapshot(NamedTuple):
    """The times of a step at one moment. For a step within a plan, `share` and the times refer to the plan.

    Attributes:
        step: The step. Its counters may change after the snapshot.
        elapsed: Seconds since the beginning of the step.
        share: The completed share, from 0 to 1; None if it is not known.
        remaining: The estimated remaining seconds; None if there is no estimate.
        eta: The estimator that decides whether `remaining` is stable enough to be shown on a terminal.
        spent: Seconds since the beginning of the plan. For a step without a plan, the same as `elapsed`.
    """

    step: StepState
    elapsed: float
    share: float | None
    remaining: float | None
    eta: Eta
    spent: float

    @classmethod
    def take(cls, step: StepState, now: float, planned: StepState | None = None) -> StepSnapshot:
        """Return a snapshot of a step.

        Args:
            step: The step.
            now: The current time of the progress's clock, in seconds.
            planned: The operation with a plan that contains the step, if any.
        """
        elapsed = now - step.began
        if planned is None or planned.plan is None:
            remaining = elapsed / step.share - elapsed if step.share else None
            return cls(step, elapsed, step.share, remaining, step.eta, elapsed)
        plan = planned.plan
        spent = now - planned.began
        remaining = plan.estimate_remaining(now)
        return cls(step, elapsed, plan.advance_share(spent, remaining), remaining, plan.eta, spent)

    def estimate_stable_remaining(self) -> float | None:
        """Return the remaining seconds; None while recent estimates differ."""
        if self.remaining is None:
            return self.eta.estimate_remaining(self.spent, None)
        share = self.spent / ((self.spent + self.remaining) or 1)
        return self.eta.estimate_remaining(self.spent, share)


class StepTexts(NamedTuple):
    """The progress of a step as texts. A value that is not known is None.

    Attributes:
        what: The name of the step.
        amount: The counter and its total: `3/12 files`. Empty for a plan.
        share: The completed share: `25%`.
        rate: The speed: `3 files/s`, or None for less than one unit per second.
        spent: The elapsed time: `1:05`.
    """

    what: str
    amount: str
    share: str | None
    rate: str | None
    spent: str


def format_step(snapshot: StepSnapshot) -> StepTexts:
    """Format the progress of a step as texts."""
    step = snapshot.step
    return StepTexts(
        step.what,
        "" if step.plan is not None else _format_progress(step),
        _format_share(snapshot),
        _format_rate(step, snapshot.elapsed),
        format_seconds(snapshot.spent),
    )


def _format_progress(step: StepState) -> str:
    """Format the counter of a step: `3/12 files`, `1.5 MiB/2.0 GiB`."""
    amount = _format_amount(step.done, step.unit)
    if step.total is not None:
        amount = f"{amount}/{_format_amount(step.total, step.unit)}"
    return amount if step.unit == "bytes" else f"{amount} {step.unit}"


def _format_share(snapshot: StepSnapshot) -> str | None:
    if snapshot.share is None and snapshot.step.total is None:
        return None
    percent = (snapshot.share or 0) * 100
    # 0.29 * 100 is 28.999999999999996, which would be truncated to 28.
    return f"{int(percent + 1e-9)}%"


def _format_rate(step: StepState, elapsed: float) -> str | None:
    """Format the average speed of a step; None for less than one unit per second."""
    if not step.done > elapsed > 0:
        return None
    return f"{_format_amount(int(step.done / elapsed), step.unit)}/s"


def describe_step(snapshot: StepSnapshot) -> str:
    """Format the progress of a step as one line for a log file."""
    eta = None
    if snapshot.remaining and snapshot.share and snapshot.share < 1:
        eta = f"ETA {format_seconds(snapshot.remaining)}"
    return "  ".join(text for text in (*format_step(snapshot), eta) if text)


def _format_amount(number: int, unit: str) -> str:
    return format_size(number) if unit == "bytes" else format_count(number)


def format_seconds(seconds: float) -> str:
    """Format a duration as minutes and seconds, or as hours, minutes and seconds: `1:05`, `2:00:09`."""
    minutes, seconds_left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds_left:02d}"
    return f"{minutes}:{seconds_left:02d}"
