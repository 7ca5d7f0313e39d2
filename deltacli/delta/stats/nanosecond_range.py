"""Times that do not fit into 64-bit nanoseconds, as which some engines read timestamps of the physical type INT96.

Spark writes timestamps as INT96 by default. A sentinel such as 9999-12-31 is then another time to deltalake and polars,
and chDB refuses the file.

Whether files have such times is answered here from the statistics in the log. `work/rows/int96_times.py` looks at rows.

Spec: Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.arrow import compute as pc
from deltacli.arrow import pa
from deltacli.core.made_once import NamedTuple
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import has_timestamps
from deltacli.delta.stats.columns import CUT_MICROSECONDS, Leaf, StatsBlock, parse_stats
from deltacli.delta.stats.schema import NULL_COUNT, ColumnPath, leaf_columns

FIRST_MICROSECOND, LAST_MICROSECOND = -9_223_372_036_854_775, 9_223_372_036_854_775
"""The first and the last microsecond since 1970 whose nanoseconds fit into 64 bits."""

RANGE = "1677-09-21 to 2262-04-11"
"""The days of these microseconds."""


class TimesBeyondNanoseconds(NamedTuple):
    """A column that a file stores as INT96, with times that do not fit into 64-bit nanoseconds.

    Attributes:
        column: The name of the top-level column.
        values: How many values do not fit.
        example: One of them, as microseconds since 1970.
        has_arrow_schema: The footer has an Arrow schema, by which deltalake and polars read the times rightly.
    """

    column: str
    values: int
    example: int
    has_arrow_schema: bool


def may_exceed_nanoseconds(texts: ArrowArray, config: TableConfiguration) -> ArrowArray:
    """Return for each file whether it may have a timestamp that does not fit into 64-bit nanoseconds.

    Args:
        texts: The statistics of the files, as in their adds; null if a file has none.
        config: The configuration of the table.

    Returns:
        An array of booleans. It is false only if bounds exclude such times in every column of timestamps. Timestamps in
        arrays and maps have no bounds.
    """
    columns = [path for _, path, data_type in leaf_columns(config) if has_timestamps(data_type)]
    if not columns:
        return pa.repeat(False, len(texts))

    may_exceed = [True] * len(texts)
    for block in parse_stats(texts, config).blocks:
        for index, is_within in enumerate(_are_within(block, columns).to_pylist()):
            may_exceed[block.row(index)] = not is_within
    return pa.array(may_exceed, pa.bool_())


def _are_within(block: StatsBlock, columns: Iterable[ColumnPath]) -> ArrowArray:
    """Return for each row of a block whether the bounds of all columns are within the range."""
    are_within = pa.repeat(True, len(block.records))
    for column in columns:
        are_within = pc.and_(are_within, _is_column_within(block, column))
    return are_within


def _is_column_within(block: StatsBlock, column: ColumnPath) -> ArrowArray:
    low, high, nulls = (_find(block.leaves[part], column) for part in ("minValues", "maxValues", NULL_COUNT))
    is_within = pa.repeat(False, len(block.records))
    if low is not None and high is not None and pa.types.is_timestamp(low.type) and pa.types.is_timestamp(high.type):
        # Writers cut off the microseconds of bounds, so the greatest value may be above its bound.
        last = pa.scalar(LAST_MICROSECOND - CUT_MICROSECONDS, low.type)
        covers = pc.and_(pc.greater_equal(low, pa.scalar(FIRST_MICROSECOND, low.type)), pc.less_equal(high, last))
        is_within = pc.fill_null(covers, pa.scalar(False))
    if nulls is not None:
        has_no_value = pc.fill_null(pc.equal(nulls, block.records), pa.scalar(False))
        is_within = pc.or_(is_within, has_no_value)
    return is_within


def _find(leaves: Iterable[Leaf], path: ColumnPath) -> ArrowArray | None:
    return next((leaf.values for leaf in leaves if leaf.path == path), None)
