"""Times that do not fit into 64-bit nanoseconds, as which some engines read timestamps of the physical type INT96.

Spark writes timestamps as INT96 by default. A sentinel such as 9999-12-31 is then another time to deltalake and polars,
and chDB refuses the file.

Whether files have such times is answered here from the statistics in the log. `work/rows/int96_times.py` looks at rows.

Spec: Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.ndjson import read_lines
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import TIMESTAMPS, has_timestamps
from deltacli.delta.stats.columns import CUT_MICROSECONDS, read_in_pieces, safe_lines
from deltacli.delta.stats.schema import NULL_COUNT, PER_COLUMN, ColumnPath, StatSchema, leaf_columns, stats_fields

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
        has_unit: The footer has an Arrow schema with the unit, by which deltalake and polars read the times rightly.
    """

    column: str
    values: int
    example: int
    has_unit: bool


def may_exceed_nanoseconds(
    texts: ArrowArray, config: TableConfiguration, names: Collection[str] = TIMESTAMPS
) -> ArrowArray:
    """Return for each file whether it may have a timestamp that does not fit into 64-bit nanoseconds.

    Args:
        texts: The statistics of the files, as in their adds; null if a file has none.
        config: The configuration of the table.
        names: The types of timestamps that are looked at.

    Returns:
        An array of booleans. It is false only if bounds exclude such times in every column of timestamps. Timestamps in
        arrays and maps have no bounds.
    """
    columns = [path for _, path, data_type in leaf_columns(config) if has_timestamps(data_type, names)]
    if not columns or not len(texts):
        return pa.repeat(False, len(texts))

    shape = _shape_of(columns)
    fields = stats_fields(StatSchema(config), dict.fromkeys(PER_COLUMN, shape))
    is_object = pc.fill_null(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}")), pa.scalar(False))
    objects = pc.if_else(is_object, texts, "{}")
    found = []
    for _, piece, parsed in read_in_pieces(objects, partial(_read_bounds, fields)):
        # What Arrow cannot read has no bounds that are trusted, such as years beyond 9999.
        are_within = pa.repeat(False, len(piece)) if parsed is None else _are_within(parsed, columns)
        found.append(pc.invert(are_within))
    return pa.concat_arrays(found)


def _shape_of(columns: Iterable[ColumnPath]) -> dict[str, Any]:
    """Return the names along the paths of some columns as nested dictionaries."""
    shape: dict[str, Any] = {}
    for path in columns:
        below = shape
        for name in path[:-1]:
            below = below.setdefault(name, {})
        below[path[-1]] = None
    return shape


def _read_bounds(fields: pa.Schema, texts: ArrowArray) -> pa.Table | None:
    """Read statistics that are JSON objects, without other columns. Return None if Arrow cannot read one of them."""
    lines = safe_lines(texts)
    parsed = None if lines is None else read_lines(lines, fields, infer=False)
    return parsed if parsed is not None and parsed.num_rows == len(texts) else None


def _are_within(parsed: pa.Table, columns: Iterable[ColumnPath]) -> ArrowArray:
    """Return for each row whether the bounds of all columns are within the range, or the columns have no values."""
    records = parsed.column("numRecords").combine_chunks()
    are_within = pa.repeat(True, len(records))
    for column in columns:
        low, high, nulls = (_find(parsed, part, column) for part in ("minValues", "maxValues", NULL_COUNT))
        is_within = pc.fill_null(pc.equal(nulls, records), pa.scalar(False))
        if low is not None and high is not None:
            # Writers cut off the microseconds of bounds, so the greatest value may be above its bound.
            last = pa.scalar(LAST_MICROSECOND - CUT_MICROSECONDS, low.type)
            covers = pc.and_(pc.greater_equal(low, pa.scalar(FIRST_MICROSECOND, low.type)), pc.less_equal(high, last))
            is_within = pc.or_(is_within, pc.fill_null(covers, pa.scalar(False)))
        are_within = pc.and_(are_within, is_within)
    return are_within


def _find(parsed: pa.Table, part: str, path: ColumnPath) -> ArrowArray | None:
    """Return a statistic of a column; None for bounds of arrays and maps, which have none."""
    values = parsed.column(part).combine_chunks()
    for name in path:
        if name not in [field.name for field in values.type]:
            return None
        values = pc.struct_field(values, [name])
    return values
