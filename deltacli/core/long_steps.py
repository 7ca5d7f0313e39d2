"""Tell once that a step takes long in this process, so that somebody can use a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from deltacli.core.progress import SILENT, Progress, ProgressPlan, Step, WeighedStep, start_plan, weighed_step
from deltacli.core.units import format_duration, format_size

LONG_SECONDS = 1_800.0
"""From this estimate on, the engine is named: a cluster needs about a minute for its start and its first jobs."""

_HOURS_FROM = 7_200
"""Estimates are given in hours from so many seconds on, below in minutes."""


UNIT_COSTS: Mapping[tuple[str, str], tuple[float, float]] = {
    ("reading footers", "files"): (8e-5, 2.5e-3),
    ("reading rows", "bytes"): (2e-9, 1e-8),
    ("rewriting files", "bytes"): (1e-8, 1.5e-8),
    ("deleting", "files"): (5e-6, 6e-5),
    ("counting files", "rows"): (4e-7, 4e-7),
    ("reading the checkpoint", "rows"): (9e-7, 9e-7),
    ("writing file actions", "rows"): (2e-6, 2e-6),
    ("writing the checkpoint", "rows"): (2e-6, 2e-6),
}
"""Name of a step and its unit -> seconds per unit of its total, or per byte of its weight, on a disk and in a
remote store. The figures are those of docs/performance.md, with two cores; those of a remote store assume 40 ms per
request, 16 requests at once, and 100 MB per second. Other steps are not estimated: they are short, or have no known
total.
"""


class LongStepAdvisor:
    """A progress that passes everything on, and calls `suggest` once with what takes long and how long."""

    def __init__(self, inner: Progress, suggest: Callable[[str], None], *, is_far: bool) -> None:
        self._inner, self._suggest, self._is_far = inner, suggest, is_far
        self._is_done = False
        self.shows_nothing = inner is SILENT

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        self._look(what, f"{total or 0:,} {unit}", unit, total or 0)
        return self._inner.step(what, unit=unit, total=total)

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Start a step of the listener, with weights where it receives them."""
        self._look(what, f"{total:,} {unit}", unit, total)
        self._look(what, f"{total:,} {unit} ({format_size(weight)})", "bytes", weight)
        return weighed_step(self._inner, what, unit=unit, total=total, weight=weight)

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
        return start_plan(self._inner, what, costs)

    def _look(self, what: str, amount: str, unit: str, total: int) -> None:
        cost = UNIT_COSTS.get((what, unit))
        if cost is None or self._is_done:
            return
        seconds = total * cost[self._is_far]
        if seconds >= LONG_SECONDS:
            self._is_done = True
            unit_s = 60 if seconds < _HOURS_FROM else 3_600
            time = format_duration(round(seconds / unit_s) * unit_s * 1_000)
            self._suggest(f"{what}: {amount} take about {time} in this process")
