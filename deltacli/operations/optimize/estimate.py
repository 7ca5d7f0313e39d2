"""How long an optimization is expected to take, and what a query gains by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.typing import Json

if TYPE_CHECKING:
    from deltacli.operations.optimize.live import LiveFiles
    from deltacli.operations.optimize.select import Bin, Selection
    from deltacli.operations.table.handle import TableHandle

_NEAR, _FAR = (1e-3, 2e-8), (8e-3, 3e-8)
"""Seconds per file and per byte of one thread: measured on a disk with 1,000 files of 3 kB to 90 kB and 20 of 4 MB, of
eight columns, the new files read back. Remote stores are estimated, with two requests per file and eight files at a
time.
"""
_THREADS = 2
_VERIFYING = 1.5
"""What `verify` adds: it reads the old and the new files once more."""
_SORTING = 2.5
"""What sorting adds: rows are written to temporary files twice."""


class Planned(NamedTuple):
    """What the estimate of a plan depends on; `sort_columns` is 0 where rows keep their order."""

    table: TableHandle
    live: LiveFiles
    selection: Selection
    sort_columns: int
    verify: bool


def estimate(plan: Planned) -> dict[str, Json]:
    """Return the mean number of files of a partition, which a query of one partition opens, now and afterwards, in
    sorted files with a narrow condition on one of the columns; the bytes to read; and about how many seconds two
    threads take, null on a cluster.
    """
    files, partitions, chosen = len(plan.live.keys), max(plan.live.partitions, 1), plan.selection
    after = files - chosen.files + sum(one.outputs ** _opened_share(plan.sort_columns) for one in chosen.bins)
    return {
        "filesPerQueryBefore": round(files / partitions, 2),
        "filesPerQueryAfter": round(after / partitions, 2),
        "bytes": chosen.size_bytes,
        "seconds": None if plan.table.engine.may_repeat else round(_seconds(plan), 1),
    }


def _opened_share(sort_columns: int) -> float:
    """Return the power of a number of files that such a query opens: of n files that are sorted by two columns, each
    has a range of one in √n in both.
    """
    return 1 - 1 / sort_columns if sort_columns else 1.0


def _seconds(plan: Planned) -> float:
    per_file, per_byte = _costs(plan.table)
    one_thread = plan.selection.files * per_file + plan.selection.size_bytes * per_byte
    more = (_VERIFYING if plan.verify else 1) * (_SORTING if plan.sort_columns else 1)
    return one_thread / max(min(len(plan.selection.bins), _THREADS), 1) * more


def weight_of(table: TableHandle, one: Bin) -> int:
    """Return the share of a bin in the time, in bytes."""
    per_file, per_byte = _costs(table)
    return one.size_bytes + round(one.files * per_file / per_byte)


def _costs(table: TableHandle) -> tuple[float, float]:
    return _NEAR if table.storage.capabilities.cheap_listing else _FAR
