"""Progress of long-running work, independent of the listener: steps with a name, a unit and, if known, a total.

Silent by default. Reported per piece or per batch, never per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TypeVar, runtime_checkable

Item = TypeVar("Item")


class Step(Protocol):
    """A started step. Its methods may be called from any thread and return at once."""

    def advance(self, amount: int = 1) -> None:
        """Add to the amount done."""


class Progress(Protocol):
    """The listener. Steps may be nested; a step ends with its `with`, also after an error."""

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Start a step: `reading the log`, in `commits`, of `total` if known. A step of 0 need not be shown."""


class WeighedStep(Step, Protocol):
    """A step whose parts take time in proportion to their weight: bytes, rows."""

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:
        """Add to the amount done."""


@runtime_checkable
class WeighingProgress(Progress, Protocol):
    """A progress that also receives the weights of parts, so that half of the bar is half of the time."""

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Start a step of `total` parts that weigh so much together."""


class ProgressPlan(Protocol):
    """The steps of a whole operation, by name, in the order in which they end: one bar over all of them."""

    def expect(self, what: str, units: float) -> None:
        """Set how many units (of the weight, if there is one) all steps of a name are expected to have together. A plan
        without such steps ignores it.
        """


@runtime_checkable
class PlanningProgress(Progress, Protocol):
    """A progress that shows the steps of a plan as one bar, whose half is half of the time."""

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
        """Start an operation: names of steps -> seconds per unit, as measured elsewhere; this run corrects them."""


class _Unplanned:
    """A plan without a listener."""

    def expect(self, what: str, units: float) -> None:
        pass


def start_plan(progress: Progress, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
    """Start an operation whose steps are known beforehand. A progress without plans shows each for itself."""
    return progress.plan(what, costs) if isinstance(progress, PlanningProgress) else nullcontext(_Unplanned())


class _Unweighed:
    """A step of a progress that only counts."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:  # noqa: ARG002  (what this one is spared)
        if amount:
            self._step.advance(amount)


@contextmanager
def weighed_step(progress: Progress, what: str, *, unit: str, total: int, weight: int) -> Iterator[WeighedStep]:
    """Start a step whose parts have different weights. A progress without weights counts them."""
    if isinstance(progress, WeighingProgress):
        with progress.weighed_step(what, unit=unit, total=total, weight=weight) as step:
            yield step
    else:
        with progress.step(what, unit=unit, total=total) as counted:
            yield _Unweighed(counted)


class _Silent:
    def __repr__(self) -> str:
        return "SILENT"

    def step(self, what: str, *, unit: str, total: int | None = None) -> _Silent:  # noqa: ARG002  (the port's names)
        return self

    def advance(self, amount: int = 1) -> None:
        pass

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass


SILENT: Progress = _Silent()


def report_items(
    items: Iterator[Item], progress: Progress, what: str, *, unit: str, total: int | None = None, every: int = 1
) -> Iterator[Item]:
    """Pass items on as one step, reporting every `every` items; the same iterator if there is no listener."""
    if progress is SILENT:
        return items
    if shows_nothing(progress):
        with progress.step(what, unit=unit, total=total):
            return items
    return _report(items, progress, what, unit, total, every)


def shows_nothing(progress: Progress) -> bool:
    """Return whether a listener only wants to know which steps there are, not how they advance."""
    return getattr(progress, "shows_nothing", False)


def _report(
    items: Iterator[Item], progress: Progress, what: str, unit: str, total: int | None, every: int
) -> Iterator[Item]:
    untold = 0
    with progress.step(what, unit=unit, total=total) as step:
        try:
            for item in items:
                yield item
                untold += 1
                if untold == every:
                    step.advance(untold)
                    untold = 0
        finally:
            step.advance(untold)


def report_weighed_items(
    items: Iterator[Item],
    progress: Progress,
    what: str,
    *,
    unit: str,
    weights: list[int],
    weight_of: Callable[[Item], int],
) -> Iterator[Item]:
    """Pass items on as one step whose parts have different weights; the same iterator if there is no listener."""
    if progress is SILENT:
        return items
    if shows_nothing(progress):
        with weighed_step(progress, what, unit=unit, total=len(weights), weight=sum(weights)):
            return items
    return _report_weighed(items, progress, what, unit, weights, weight_of)


def _report_weighed(
    items: Iterator[Item],
    progress: Progress,
    what: str,
    unit: str,
    weights: list[int],
    weight_of: Callable[[Item], int],
) -> Iterator[Item]:
    with weighed_step(progress, what, unit=unit, total=len(weights), weight=sum(weights)) as step:
        for item in items:
            yield item
            step.advance(weight=weight_of(item))
