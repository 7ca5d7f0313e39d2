"""Telling how far lasting work has come, without knowing who listens: steps with a name, a unit and, where known, a
total.

Silent unless somebody asks. Reported a piece or a batch at a time, never a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Step(Protocol):
    """One step that has begun. Its methods may be called from any thread and return at once."""

    def advance(self, amount: int = 1) -> None:
        """Add to what is done."""


class Progress(Protocol):
    """Whoever is told. Steps may lie within each other; a step ends with its `with`, also by an error."""

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Begin a step: `reading the log`, in `commits`, of `total` where that is known; of 0 nothing need be said."""


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
