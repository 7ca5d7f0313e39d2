"""Report the progress of long operations to a listener, such as the progress bar of the command line.

An operation consists of steps. A step has a name, a unit and, if it is known, a total: `reading the log`, 12 of 40
commits. Operations report each part or batch, never each row, so that listeners need not be fast.

A listener implements `Progress`. It can implement one or both of the other protocols to show better estimates:

    Progress            counts parts             12 of 40 files
    WeighingProgress    knows sizes of parts     half of the bar is half of the bytes, not half of the files
    PlanningProgress    knows later steps        one bar for the whole operation

Operations call `start_weighed_step` and `start_plan`, which accept every listener. The default listener is `SILENT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

Item = TypeVar("Item")


class Step(Protocol):
    """A step that has started. Its methods can be called from any thread and do not block."""

    def advance(self, amount: int = 1) -> None:
        """Add to the number of finished parts."""


class Progress(Protocol):
    """A listener. Steps may be nested. A step ends with its `with` block, also after an exception."""

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Start a step.

        Args:
            what: The name of the step, such as `reading the log`.
            unit: The plural of the counted parts, such as `commits`.
            total: The number of parts; None if it is not known. A step without parts need not be shown.
        """


class WeighedStep(Step, Protocol):
    """A step whose parts have weights. The duration of a part is proportional to its weight in bytes or rows."""

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:
        """Add to the number and to the weight of finished parts."""


@runtime_checkable
class WeighingProgress(Progress, Protocol):
    """A listener that shows the finished share of the weight instead of the finished share of the parts."""

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Start a step.

        Args:
            what: The name of the step, such as `rewriting files`.
            unit: The plural of the counted parts, such as `files`.
            total: The number of parts.
            weight: The weight of all parts together.
        """


class ProgressPlan(Protocol):
    """The steps of a whole operation, as a `PlanningProgress` shows them in one bar."""

    def expect(self, what: str, units: float) -> None:
        """Set the total of all steps of a name, as soon as the operation knows it.

        Args:
            what: The name of the steps. Names that the plan does not contain are ignored.
            units: The total number of parts; the total weight for steps with weights.
        """


@runtime_checkable
class PlanningProgress(Progress, Protocol):
    """A listener that shows all steps of an operation as one bar. Half of the bar is half of the estimated time."""

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
        """Start an operation.

        Args:
            what: The name of the operation.
            costs: Names of steps -> seconds per unit, in the order in which the steps end. The listener corrects these
                averages by the speed of the current run.
        """


class _SilentProgress:
    """A listener that ignores all calls. It is also the step that its method `step` returns."""

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
    """A plan that ignores all calls, for listeners without plans."""

    def expect(self, what: str, units: float) -> None:
        pass


class _CountedStep:
    """Adapts a step without weights to `WeighedStep`: it forwards the counts and drops the weights."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:  # noqa: ARG002 (the listener has no weights)
        if amount:
            self._step.advance(amount)


def start_plan(progress: Progress, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
    """Start an operation whose steps are known in advance. See `PlanningProgress.plan`.

    A listener without plans shows one bar for each step instead.
    """
    if isinstance(progress, PlanningProgress):
        return progress.plan(what, costs)
    return nullcontext(_IgnoredPlan())


@contextmanager
def start_weighed_step(progress: Progress, what: str, *, unit: str, total: int, weight: int) -> Iterator[WeighedStep]:
    """Start a step whose parts have weights. See `WeighingProgress.weighed_step`.

    A listener without weights counts the parts instead.
    """
    if isinstance(progress, WeighingProgress):
        with progress.weighed_step(what, unit=unit, total=total, weight=weight) as step:
            yield step
    else:
        with progress.step(what, unit=unit, total=total) as counted_step:
            yield _CountedStep(counted_step)


def report_items(
    items: Iterator[Item], progress: Progress, what: str, *, unit: str, total: int | None = None, every: int = 1
) -> Iterator[Item]:
    """Return an iterator over the same items that reports them as the parts of one step.

    Args:
        items: The items. Without a listener, this iterator itself is returned: a commit can have millions of items.
        progress: The listener.
        what: The name of the step.
        unit: The plural of the counted items.
        total: The number of items; None if it is not known.
        every: The number of items after which progress is reported.
    """
    if progress is SILENT:
        return items

    start_step = partial(progress.step, what, unit=unit, total=total)
    if ignores_advance(progress):
        # The listener only needs to know that there is such a step. A generator would slow down each item.
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
    """Return an iterator over the same items that reports them as the parts of one step with weights.

    Args:
        items: The items. Without a listener, this iterator itself is returned.
        progress: The listener.
        what: The name of the step.
        unit: The plural of the counted items.
        weights: The weights of all items, in any order.
        weight_of: Returns the weight of an item.
    """
    if progress is SILENT:
        return items

    start_step = partial(start_weighed_step, progress, what, unit=unit, total=len(weights), weight=sum(weights))
    if ignores_advance(progress):
        with start_step():
            return items
    return _advance_by_weight(items, start_step, weight_of)


def ignores_advance(progress: Progress) -> bool:
    """Return True for a listener that uses the names and totals of steps only, such as a `LongStepAdvisor`."""
    return getattr(progress, "ignores_advance", False)


def _advance_by_count(
    items: Iterable[Item], start_step: Callable[[], AbstractContextManager[Step]], every: int
) -> Iterator[Item]:
    """Start a step, yield the items, and report progress after every `every` items.

    The step starts when the first item is requested. The remaining items are reported at the end, also after an
    exception.
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
            # Also if the caller stops early: closing a generator raises GeneratorExit at its `yield`.
            step.advance(unreported)


def _advance_by_weight(
    items: Iterable[Item],
    start_step: Callable[[], AbstractContextManager[WeighedStep]],
    weight_of: Callable[[Item], int],
) -> Iterator[Item]:
    """Start a step when the first item is requested, yield the items, and report the weight of each."""
    with start_step() as step:
        for item in items:
            yield item
            step.advance(weight=weight_of(item))
