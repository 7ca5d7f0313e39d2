"""Estimates how long a step takes in this process, and names the cluster engine where it takes long.

The unit costs come from the figures of docs/performance.md, with two cores; those of a remote store assume 40 ms per
request, 16 requests at once, and 100 MB per second. Costs of single steps are in `operations/validate/foresight.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from deltacli.progress import SILENT, Plan, Progress, Step, WeighedStep, planned, weighed
from deltacli.units import format_duration, format_size

LONG_SECONDS = 1_800.0
"""From this estimate on, the engine is named: a cluster needs about a minute for its start and its first jobs."""

_HOURS_FROM = 7_200
"""Estimates are given in hours from so many seconds on, below in minutes."""


class UnitCost(NamedTuple):
    """Seconds per unit of the total of a step, or per byte of its weight: on a disk, and in a remote store."""

    near: float
    far: float


UNIT_COSTS: Mapping[tuple[str, str], UnitCost] = {
    ("reading footers", "files"): UnitCost(8e-5, 2.5e-3),
    ("reading rows", "bytes"): UnitCost(2e-9, 1e-8),
    ("deleting", "files"): UnitCost(5e-6, 6e-5),
    ("counting files", "rows"): UnitCost(4e-7, 4e-7),
    ("reading the checkpoint", "rows"): UnitCost(9e-7, 9e-7),
    ("writing file actions", "rows"): UnitCost(2e-6, 2e-6),
    ("writing the checkpoint", "rows"): UnitCost(2e-6, 2e-6),
}
"""By the name of a step and its unit. Other steps are not estimated: they are short, or their total is not known."""


class LongJobs:
    """A progress that passes everything on, and calls `suggest` once with what takes long and how long."""

    def __init__(
        self,
        inner: Progress,
        suggest: Callable[[str], None],
        *,
        is_far: bool,
    ) -> None:
        self._inner, self._suggest, self._is_far = inner, suggest, is_far
        self._is_done = False
        self.shows_nothing = inner is SILENT

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Start a step of the listener."""
        self._look(what, f"{total or 0:,} {unit}", unit, total or 0)
        return self._inner.step(what, unit=unit, total=total)

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Start a step of the listener, with weights where it receives them."""
        self._look(what, f"{total:,} {unit}", unit, total)
        self._look(what, f"{total:,} {unit} ({format_size(weight)})", "bytes", weight)
        return weighed(self._inner, what, unit=unit, total=total, weight=weight)

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[Plan]:
        """Start an operation of the listener."""
        return planned(self._inner, what, costs)

    def _look(self, what: str, amount: str, unit: str, total: int) -> None:
        cost = UNIT_COSTS.get((what, unit))
        if cost is None or self._is_done:
            return
        seconds = total * (cost.far if self._is_far else cost.near)
        if seconds >= LONG_SECONDS:
            self._is_done = True
            unit_s = 60 if seconds < _HOURS_FROM else 3_600
            time = format_duration(round(seconds / unit_s) * unit_s * 1_000)
            self._suggest(f"{what}: {amount} take about {time} in this process")
