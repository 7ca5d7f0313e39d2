"""Suggest a cluster once when a step takes long in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from deltacli.core.progress import SILENT, Progress, ProgressPlan, Step, WeighedStep, start_plan, weighed_step
from deltacli.core.times import format_duration
from deltacli.core.units import format_size

LONG_SECONDS = 1_800.0
"""Estimate from which on a cluster is suggested. It needs about a minute for its start and its first jobs."""

_SECONDS_SHOWN_IN_HOURS = 7_200
"""Estimates from this on are given in hours, below in minutes."""


class UnitCost(NamedTuple):
    """Seconds per unit of a step.

    Attributes:
        near: On a local disk.
        far: In a remote store.
    """

    near: float
    far: float


UNIT_COSTS: Mapping[tuple[str, str], UnitCost] = {
    ("reading footers", "files"): UnitCost(near=8e-5, far=2.5e-3),
    ("reading rows", "bytes"): UnitCost(near=2e-9, far=1e-8),
    ("rewriting files", "bytes"): UnitCost(near=1e-8, far=1.5e-8),
    ("deleting", "files"): UnitCost(near=5e-6, far=6e-5),
    ("counting files", "rows"): UnitCost(near=4e-7, far=4e-7),
    ("reading the checkpoint", "rows"): UnitCost(near=9e-7, far=9e-7),
    ("writing file actions", "rows"): UnitCost(near=2e-6, far=2e-6),
    ("writing the checkpoint", "rows"): UnitCost(near=2e-6, far=2e-6),
}
"""Name of a step and its unit -> the cost of a unit of its total, or of a byte of its weight.

The figures are those of docs/performance.md, with two cores. Those of a remote store assume 40 ms per request, 16
requests at once, and 100 MB per second. Other steps are not estimated: they are short, or have no known total.
"""


class LongStepAdvisor:
    """Passes progress on to a listener, and suggests a cluster at the first step that takes long.

    Attributes:
        shows_nothing: True if there is no listener behind this one: steps are announced and need not advance.
    """

    def __init__(self, listener: Progress, suggest: Callable[[str], None], *, is_far: bool) -> None:
        """Wrap a listener.

        Args:
            listener: Receives everything.
            suggest: Called at most once, with what takes long and how long: `deleting: 40,000,000 files take ...`.
            is_far: Whether the table is in a remote store.
        """
        self._listener = listener
        self._suggest = suggest
        self._is_far = is_far
        self._has_suggested = False
        self.shows_nothing = listener is SILENT

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Start a step of the listener."""
        units = total or 0
        self._estimate(what, f"{units:,} {unit}", unit, units)
        return self._listener.step(what, unit=unit, total=total)

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Start a step of the listener, with weights if it receives them."""
        amount = f"{total:,} {unit}"
        self._estimate(what, amount, unit, total)
        self._estimate(what, f"{amount} ({format_size(weight)})", "bytes", weight)
        return weighed_step(self._listener, what, unit=unit, total=total, weight=weight)

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
        """Start a plan of the listener, if it has plans."""
        return start_plan(self._listener, what, costs)

    def _estimate(self, what: str, amount: str, unit: str, units: int) -> None:
        """Call `suggest` if a step takes long and nothing was suggested before."""
        cost = UNIT_COSTS.get((what, unit))
        if cost is None or self._has_suggested:
            return

        seconds = units * (cost.far if self._is_far else cost.near)
        if seconds < LONG_SECONDS:
            return

        self._has_suggested = True
        rounded_to = 60 if seconds < _SECONDS_SHOWN_IN_HOURS else 3_600
        duration = format_duration(round(seconds / rounded_to) * rounded_to * 1_000)
        self._suggest(f"{what}: {amount} take about {duration} in this process")
