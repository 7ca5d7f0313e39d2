"""Values of a column as numbers of quantile ranges, which curves can combine with those of other columns.

A column is divided into about a thousand ranges with the same number of rows of a sample. Null is below all values. The
numbers are spread over ten bits: a column of two values decides the highest bit, as one of a thousand values does.
"""

from __future__ import annotations

from deltacli.arrow import compute as pc
from deltacli.typing import ArrowArray

RANGES = 1000
ID_BITS = 10
_COMPARED_BYTES = 128
"""Of a text: statistics in the log have 32 characters, which are at most 128 bytes."""


def comparable(values: ArrowArray) -> ArrowArray:
    """Return values that Arrow orders as Delta does: texts by the bytes of their beginning, NaN as the greatest number.

    Arrays of numbers, dates, timestamps, booleans and texts are accepted.
    """
    import pyarrow as pa

    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.binary_slice(pc.cast(values, pa.binary()), 0, _COMPARED_BYTES)
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(values), pa.scalar(float("inf"), kind), values)
    return pc.cast(values, pa.uint8()) if pa.types.is_boolean(kind) else values


def range_bounds(sample: ArrowArray, ranges: int = RANGES) -> ArrowArray:
    """Return the least value of each range but the first, ascending and distinct, for a sample of comparable values."""
    import pyarrow as pa

    present = pc.drop_null(sample)
    present = pc.take(present, pc.sort_indices(present))
    count = len(present)
    places = sorted({count * number // ranges for number in range(1, ranges)} - {0})
    bounds = pc.unique(pc.take(present, pa.array(places, pa.int64())))
    return pc.filter(bounds, pc.greater(bounds, present[0])) if len(bounds) else bounds


def range_ids(values: ArrowArray, bounds: ArrowArray) -> ArrowArray:
    """Return the range of each comparable value as a number of ten bits (int64), ascending; null is in the lowest."""
    import pyarrow as pa

    ranges = len(bounds) + 2
    ids = pc.coalesce(pc.add(ranks(values, bounds), 1), pa.scalar(0, pa.int64()))
    return pc.divide(pc.multiply(ids, 1 << ID_BITS), ranges)


def ranks(values: ArrowArray, bounds: ArrowArray, *, is_below: bool = False) -> ArrowArray:
    """Return how many bounds are less than or equal to each value (int64), with `is_below` less than it; null for null.

    A binary search of all rows at once: pyarrow has a function for it since version 24 only.
    """
    import pyarrow as pa

    count = len(bounds)
    found = pc.if_else(pc.is_valid(values), pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
    if count == 0:
        return found
    compare = pc.less if is_below else pc.less_equal
    steps = count.bit_length()
    last = bounds.slice(count - 1)
    padded = pa.concat_arrays([bounds, pc.take(last, pa.array([0] * ((1 << steps) - 1 - count), pa.int64()))])
    for step in (1 << bit for bit in range(steps - 1, -1, -1)):
        middle = pc.take(padded, pc.add(found, step - 1))
        found = pc.add(
            found, pc.if_else(compare(middle, values), pa.scalar(step, pa.int64()), pa.scalar(0, pa.int64()))
        )
    return pc.if_else(pc.greater(found, count), pa.scalar(count, pa.int64()), found)
