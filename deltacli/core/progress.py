"""Progress of long-running work, independent of who listens.

Work reports steps with a name, a unit and, if known, a total: `reading the log`, 12 of 40 commits. It does so per piece
or per batch, never per row. A listener implements `Progress`, and more of the protocols below if it can show more:

    Progress            steps that count                    one bar per step
    WeighingProgress    steps whose parts have weights      half of the bar is half of the time
    PlanningProgress    the steps of a whole operation      one bar over all steps

`weighed_step` and `start_plan` accept every listener. `SILENT` is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

Item = TypeVar("Item")


class Step(Protocol):
    """A started step. Its methods may be called from any thread and return at once."""

    def advance(self, amount: int = 1) -> None:
        """Add to the amount done."""


class Progress(Protocol):
    """A listener. Steps may be nested; a step ends with its `with` block, also after an error."""

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Start a step.

        Args:
            what: The name of the step, such as `reading the log`.
            unit: What is counted, such as `commits`.
            total: How many units there are, if that is known. A step of 0 units need not be shown.
        """


class WeighedStep(Step, Protocol):
    """A step whose parts take time in proportion to their weight: bytes, rows."""

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:
        """Add to the amount done, and to the weight done."""


@runtime_checkable
class WeighingProgress(Progress, Protocol):
    """A listener that also receives the weights of parts, so that half of the bar is half of the time."""

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Start a step of `total` parts that have this weight together."""


class ProgressPlan(Protocol):
    """The steps of a whole operation by name, in the order in which they end."""

    def expect(self, what: str, units: float) -> None:
        """Set how many units all steps of a name are expected to have together.

        If the steps have weights, units are those of the weight. A plan without such steps ignores the call.
        """


@runtime_checkable
class PlanningProgress(Progress, Protocol):
    """A listener that shows the steps of a plan as one bar, whose half is half of the time."""

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
        """Start an operation.

        Args:
            what: The name of the operation.
            costs: Names of steps -> seconds per unit. They were measured elsewhere; this run corrects them.
        """


class _SilentProgress:
    """A listener that ignores everything. It is its own step."""

    def __repr__(self) -> str:
        return "SILENT"

    def step(self, what: str, *, unit: str, total: int | None = None) -> _SilentProgress:  # noqa: ARG002 (protocol)
        return self

    def advance(self, amount: int = 1) -> None:
        pass

    def __enter__(self) -> _SilentProgress:
        return self

    def __exit__(self, *_: object) -> None:
        pass


SILENT: Progress = _SilentProgress()


class _IgnoredPlan:
    """The plan for a listener that shows each step for itself."""

    def expect(self, what: str, units: float) -> None:
        pass


class _CountedStep:
    """A step with weights, for a listener that only counts."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:  # noqa: ARG002 (the listener does not receive it)
        if amount:
            self._step.advance(amount)


def start_plan(progress: Progress, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
    """Start an operation whose steps are known beforehand. A listener without plans shows each step for itself."""
    if isinstance(progress, PlanningProgress):
        return progress.plan(what, costs)
    return nullcontext(_IgnoredPlan())


@contextmanager
def weighed_step(progress: Progress, what: str, *, unit: str, total: int, weight: int) -> Iterator[WeighedStep]:
    """Start a step whose parts have different weights. A listener without weights counts the parts."""
    if isinstance(progress, WeighingProgress):
        with progress.weighed_step(what, unit=unit, total=total, weight=weight) as step:
            yield step
    else:
        with progress.step(what, unit=unit, total=total) as counted_step:
            yield _CountedStep(counted_step)


def report_items(
    items: Iterator[Item], progress: Progress, what: str, *, unit: str, total: int | None = None, every: int = 1
) -> Iterator[Item]:
    """Pass items on as one step.

    Args:
        items: The items. Without a listener, this iterator itself is returned: large commits have millions of items.
        progress: The listener.
        what: The name of the step.
        unit: What is counted.
        total: How many items there are, if that is known.
        every: How many items are reported at once.
    """
    if progress is SILENT:
        return items

    start_step = partial(progress.step, what, unit=unit, total=total)
    if shows_nothing(progress):
        # The step is announced, and over. A generator around each item would cost time for nobody.
        with start_step():
            return items
    return _advance_by_count(items, start_step, every)


def report_weighed_items(
    items: Iterator[Item],
    progress: Progress,
    what: str,
    *,
    unit: str,
    weights: Sequence[int],
    weight_of: Callable[[Item], int],
) -> Iterator[Item]:
    """Pass items on as one step whose parts have different weights.

    Args:
        items: The items. Without a listener, this iterator itself is returned.
        progress: The listener.
        what: The name of the step.
        unit: What is counted.
        weights: The weights of all items, in any order.
        weight_of: Returns the weight of an item.
    """
    if progress is SILENT:
        return items

    start_step = partial(weighed_step, progress, what, unit=unit, total=len(weights), weight=sum(weights))
    if shows_nothing(progress):
        with start_step():
            return items
    return _advance_by_weight(items, start_step, weight_of)


def shows_nothing(progress: Progress) -> bool:
    """Return True for a listener that only wants to know which steps there are, not how they advance."""
    return getattr(progress, "shows_nothing", False)


def _advance_by_count(
    items: Iterable[Item], start_step: Callable[[], AbstractContextManager[Step]], every: int
) -> Iterator[Item]:
    """Yield the items within a step that begins with the first one. Report every `every` items.

    The items since the last report are reported at the end, also after an error.
    """
    unreported = 0
    with start_step() as step:
        try:
            for item in items:
                yield item
                unreported += 1
                if unreported == every:
                    step.advance(unreported)
                    unreported = 0
        finally:
            step.advance(unreported)


def _advance_by_weight(
    items: Iterable[Item],
    start_step: Callable[[], AbstractContextManager[WeighedStep]],
    weight_of: Callable[[Item], int],
) -> Iterator[Item]:
    """Yield the items within a step that begins with the first one, and report the weight of each."""
    with start_step() as step:
        for item in items:
            yield item
            step.advance(weight=weight_of(item))
