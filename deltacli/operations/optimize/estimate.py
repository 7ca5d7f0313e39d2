"""How long an optimization is expected to take, and what a query gains by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.typing import Json

if TYPE_CHECKING:
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.operations.optimize.select import Bin

_NEAR, _FAR = (1e-3, 2e-8), (3e-2, 3e-8)
"""Seconds per file and per byte of one thread: measured on a disk with 1,000 files of 3 kB to 90 kB and 20 of 4 MB, of
eight columns, the new files read back. Remote stores are estimated, with three requests per file.
"""
_THREADS = 2
_VERIFYING = 1.5
"""What `verify` adds: it reads the old and the new files once more."""
_SORTING = 2.5
"""What sorting adds: rows are written to temporary files twice."""


def estimate(plan: OptimizePlan) -> dict[str, Json]:
    """Return the mean number of files of a partition, which a query of one partition opens, now and afterwards, in
    sorted files with a narrow condition on one of the columns; the bytes to read; and about how many seconds two
    threads take, null on a cluster.
    """
    files, partitions, chosen = len(plan.live.keys), max(plan.live.partitions, 1), plan.selection
    after = files - chosen.files + sum(one.outputs ** _opened_share(plan) for one in chosen.bins)
    return {
        "filesPerQueryBefore": round(files / partitions, 2),
        "filesPerQueryAfter": round(after / partitions, 2),
        "bytes": chosen.size_bytes,
        "seconds": None if plan.table.engine.may_repeat else round(_seconds(plan), 1),
    }


def _opened_share(plan: OptimizePlan) -> float:
    """Return the power of a number of files that such a query opens: of n files that are sorted by two columns, each
    has a range of one in √n in both.
    """
    return 1.0 if plan.order is None else 1 - 1 / len(plan.order.columns)


def _seconds(plan: OptimizePlan) -> float:
    per_file, per_byte = _costs(plan)
    one_thread = plan.selection.files * per_file + plan.selection.size_bytes * per_byte
    more = (_VERIFYING if plan.request.verify else 1) * (1 if plan.order is None else _SORTING)
    return one_thread / max(min(len(plan.selection.bins), _THREADS), 1) * more


def weight_of(plan: OptimizePlan, one: Bin) -> int:
    """Return the share of a bin in the time, in bytes."""
    per_file, per_byte = _costs(plan)
    return one.size_bytes + round(one.files * per_file / per_byte)


def _costs(plan: OptimizePlan) -> tuple[float, float]:
    return _NEAR if plan.table.storage.capabilities.cheap_listing else _FAR
