"""Suggest a Spark cluster when a step is going to take long in this process.

The command line puts a `LongStepAdvisor` between an operation and its progress display. From the name and the size of
each step the advisor estimates the duration, before the step begins:

    note: deleting: 40,000,000 files take about 40m in this process; on a Spark cluster: deltacli vacuum ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from deltacli.core.progress import SILENT, Progress, ProgressPlan, Step, WeighedStep, start_plan, start_weighed_step
from deltacli.core.times import format_duration
from deltacli.core.units import format_size

MIN_SUGGESTED_SECONDS = 1_800.0
"""Shortest estimate for which a cluster is suggested. A cluster needs about a minute to start and run a first job."""

_MIN_SECONDS_IN_HOURS = 7_200
"""Shortest estimate that the message rounds to hours. Shorter estimates are rounded to minutes."""


class UnitCost(NamedTuple):
    """Duration of a step per unit.

    Attributes:
        local_seconds: Seconds per unit for a table on a local disk.
        remote_seconds: Seconds per unit for a table in an object store.
    """

    local_seconds: float
    remote_seconds: float


UNIT_COSTS: Mapping[tuple[str, str], UnitCost] = {
    ("reading footers", "files"): UnitCost(local_seconds=8e-5, remote_seconds=2.5e-3),
    ("reading rows", "bytes"): UnitCost(local_seconds=2e-9, remote_seconds=1e-8),
    ("rewriting files", "bytes"): UnitCost(local_seconds=1e-8, remote_seconds=1.5e-8),
    ("deleting", "files"): UnitCost(local_seconds=5e-6, remote_seconds=6e-5),
    ("counting files", "rows"): UnitCost(local_seconds=4e-7, remote_seconds=4e-7),
    ("reading the checkpoint", "rows"): UnitCost(local_seconds=9e-7, remote_seconds=9e-7),
    ("writing file actions", "rows"): UnitCost(local_seconds=2e-6, remote_seconds=2e-6),
    ("writing the checkpoint", "rows"): UnitCost(local_seconds=2e-6, remote_seconds=2e-6),
}
"""Name of a step and unit of its total -> cost per unit. Steps whose parts have weights have their cost per byte.

The figures were measured with two cores and are listed in docs/performance.md. Those of object stores assume 40 ms per
request, 16 concurrent requests and 100 MB per second. Steps that are not listed are short, or have no known total.
"""


class LongStepAdvisor:
    """A progress listener that forwards all calls to another listener, and reports the first step that takes long.

    Attributes:
        ignores_advance: True if no listener shows progress: steps only have to be started, for their estimate.
    """

    def __init__(self, listener: Progress, suggest: Callable[[str], None], *, is_remote: bool) -> None:
        """Wrap a listener.

        Args:
            listener: The listener that all calls are forwarded to.
            suggest: Called at most once, with the step and its estimate: `deleting: 40,000,000 files take about ...`.
            is_remote: Whether the table is in an object store.
        """
        self._listener = listener
        self._suggest = suggest
        self._is_remote = is_remote
        self._has_suggested = False
        self.ignores_advance = listener is SILENT

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Estimate a step, and start it in the listener."""
        units = total or 0
        self._estimate(what, f"{units:,} {unit}", unit, units)
        return self._listener.step(what, unit=unit, total=total)

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Estimate a step by its number of parts and by its weight in bytes, and start it in the listener."""
        amount = f"{total:,} {unit}"
        self._estimate(what, amount, unit, total)
        self._estimate(what, f"{amount} ({format_size(weight)})", "bytes", weight)
        return start_weighed_step(self._listener, what, unit=unit, total=total, weight=weight)

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[ProgressPlan]:
        """Start a plan in the listener."""
        return start_plan(self._listener, what, costs)

    def _estimate(self, what: str, amount: str, unit: str, units: int) -> None:
        """Call `suggest` if the step takes longer than `MIN_SUGGESTED_SECONDS`, unless it has been called before."""
        cost = UNIT_COSTS.get((what, unit))
        if cost is None or self._has_suggested:
            return

        seconds = units * (cost.remote_seconds if self._is_remote else cost.local_seconds)
        if seconds < MIN_SUGGESTED_SECONDS:
            return

        self._has_suggested = True
        precision_seconds = 60 if seconds < _MIN_SECONDS_IN_HOURS else 3_600
        rounded_seconds = round(seconds / precision_seconds) * precision_seconds
        self._suggest(f"{what}: {amount} take about {format_duration(rounded_seconds * 1_000)} in this process")
