"""Rules about the minimum and the maximum of a column, compared in the order of their type."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.delta.rules.framework.base import Area, Finding
from deltacli.delta.rules.framework.view_stats import stats_of
from deltacli.delta.rules.framework.views import FilesView
from deltacli.delta.stats.columns import Leaf, StatsBlock
from deltacli.delta.stats.schema import BOUNDS, ColumnPath, StatColumn, StatKind
from deltacli.delta.stats.values import dig, read_bound, read_json
from deltacli.typing import Json

AREA = Area("statistics")

_SPEC = "Per-file Statistics"
_RECOMMIT = "commit the same add again with correct statistics, or without any, and dataChange=false"
MIN_GREATER_MAX = AREA.error(
    "stats.min-greater-max",
    "The minimum of a column is above its maximum.",
    spec=_SPEC,
    broken="queries skip rows that are in the file, so results are silently wrong",
    repair=_RECOMMIT,
    example='"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"id\\":9},\\"maxValues\\":{\\"id\\":1}}"',
)
TIMESTAMP_PRECISION = AREA.info(
    "stats.timestamp-precision",
    "The maximum of a timestamp column was truncated to milliseconds and is therefore below its minimum.",
    spec="Per-file Statistics, footnote 1",
    broken="readers that do not add a millisecond to the maximum skip the file",
    repair="no repair needed for readers that follow the protocol",
    example='"minValues":{"at":"2026-01-01T00:00:00.000700Z"},"maxValues":{"at":"2026-01-01T00:00:00.000Z"}',
)


_ORDERED = frozenset(
    {
        StatKind.WHOLE,
        StatKind.FLOAT,
        StatKind.DECIMAL,
        StatKind.DATE,
        StatKind.TIMESTAMP,
        StatKind.TEXT,
        StatKind.BOOLEAN,
    }
)
_CUT_MICROSECONDS = 1_000
"Timestamps are truncated to milliseconds, including the maximum. The true maximum is less than this above it."


@AREA.check(FilesView, MIN_GREATER_MAX, TIMESTAMP_PRECISION)
def minima_above_maxima(view: FilesView) -> Iterator[Finding]:
    """Report a minimum above the maximum. They are equal in a column with one value."""
    for block in stats_of(view).blocks:
        maxima = {leaf.path: leaf for leaf in block.leaves["maxValues"]}
        for low in block.leaves["minValues"]:
            high = maxima.get(low.path)
            if high is None or low.column is None or low.column.kind not in _ORDERED:
                continue
            if low.values.type.equals(high.values.type):
                yield from _compare(view, block, low, high)


def _compare(view: FilesView, block: StatsBlock, low: Leaf, high: Leaf) -> Iterator[Finding]:
    above = pc.greater(low.values, high.values)
    if low.column is None or not pc.any(above).as_py():
        return
    name = low.column.name
    for index in pc.indices_nonzero(above).to_pylist():
        row = block.row(index)
        minimum, maximum = _as_written(view, row, low.path)
        if low.column.kind is StatKind.FLOAT and _are_in_order(low.column, minimum, maximum):
            continue  # the greatest floats replace those without a number
        place = view.place(row)
        if low.column.kind is StatKind.TIMESTAMP and _was_cut(low, high, index):
            text = f"the maximum of column {name} was truncated to milliseconds and is below its minimum"
            yield TIMESTAMP_PRECISION.at(place, text, seen=maximum, expected=f"{minimum} or later")
        else:
            text = f"the minimum of column {name} is above its maximum"
            seen = "true to false" if low.column.kind is StatKind.BOOLEAN else f"{minimum} to {maximum}"
            yield MIN_GREATER_MAX.at(place, text, seen=seen, expected="minimum to maximum")


def _was_cut(low: Leaf, high: Leaf, index: int) -> bool:
    """Return True if the maximum has no digits below milliseconds, so that truncation may have put it below the
    minimum.
    """
    minimum, maximum = low.values[index].value, high.values[index].value
    return bool(maximum % _CUT_MICROSECONDS == 0 and minimum - maximum < _CUT_MICROSECONDS)


def _are_in_order(column: StatColumn, minimum: Json, maximum: Json) -> bool:
    low, high = read_bound(column, minimum), read_bound(column, maximum)
    return bool(low <= high)


def _as_written(view: FilesView, row: int, path: ColumnPath) -> tuple[Json, Json]:
    """Return both bounds of a column as in the log."""
    value = read_json(view.adds.column("stats")[row].as_py())
    minimum, maximum = (dig(value.get(part), path) for part in BOUNDS)
    return minimum, maximum
