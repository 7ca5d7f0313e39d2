"""Telling how far lasting work has come, without knowing who listens: steps with a name, a unit and, where known, a
total.

Silent unless somebody asks. Reported a piece or a batch at a time, never a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar, runtime_checkable

Item = TypeVar("Item")


class Step(Protocol):
    """One step that has begun. Its methods may be called from any thread and return at once."""

    def advance(self, amount: int = 1) -> None:
        """Add to what is done."""


class Progress(Protocol):
    """Whoever is told. Steps may be within each other; a step ends with its `with`, also by an error."""

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Begin a step: `reading the log`, in `commits`, of `total` where that is known; of 0 nothing need be said."""


class WeighedStep(Step, Protocol):
    """A step whose parts take as long as they weigh: bytes, rows."""

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:
        """Add to what is done."""


@runtime_checkable
class WeighingProgress(Progress, Protocol):
    """A progress that is also told what the parts of a step weigh, so that half of the bar is half of the time."""

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Begin a step of `total` parts that weigh so much together."""


class _Unweighed:
    """A step of a progress that only counts."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:  # noqa: ARG002  (what this one is spared)
        if amount:
            self._step.advance(amount)


@contextmanager
def weighed(progress: Progress, what: str, *, unit: str, total: int, weight: int) -> Iterator[WeighedStep]:
    """Begin a step whose parts weigh differently; a progress that does not weigh counts them."""
    if isinstance(progress, WeighingProgress):
        with progress.weighed_step(what, unit=unit, total=total, weight=weight) as step:
            yield step
    else:
        with progress.step(what, unit=unit, total=total) as counted:
            yield _Unweighed(counted)


class _Silent:
    """Tells nobody."""

    def step(self, what: str, *, unit: str, total: int | None = None) -> _Silent:  # noqa: ARG002  (the port's names)
        return self

    def advance(self, amount: int = 1) -> None:
        pass

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass


SILENT: Progress = _Silent()


def reported(
    items: Iterator[Item], progress: Progress, what: str, *, unit: str, total: int | None = None, every: int = 1
) -> Iterator[Item]:
    """Pass items on as one step, reporting `every` so many; the same iterator where nobody listens."""
    return items if progress is SILENT else _report(items, progress, what, unit, total, every)


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


def reported_weighed(
    items: Iterator[Item],
    progress: Progress,
    what: str,
    *,
    unit: str,
    weights: list[int],
    weight_of: Callable[[Item], int],
) -> Iterator[Item]:
    """Pass items on as one step whose parts weigh differently; the same iterator where nobody listens."""
    return items if progress is SILENT else _report_weighed(items, progress, what, unit, weights, weight_of)


def _report_weighed(
    items: Iterator[Item],
    progress: Progress,
    what: str,
    unit: str,
    weights: list[int],
    weight_of: Callable[[Item], int],
) -> Iterator[Item]:
    with weighed(progress, what, unit=unit, total=len(weights), weight=sum(weights)) as step:
        for item in items:
            yield item
            step.advance(weight=weight_of(item))
