"""Positions on space-filling curves: columns of values in, numbers of quantile ranges, and one column of keys out.

Rows with near keys are near in each of the columns, so that a file of a range of keys has a short range of each column.
A column is divided into about a thousand ranges with the same number of rows of a sample. Null is below all values. The
numbers are spread over ten bits: a column of two values decides the highest bit, as one of a thousand values does. Keys
are computed in columns, without a loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray

MOST_COLUMNS = 32
"""Of a z-order: each has at least one bit of a key."""
_KEY_BITS = 63
RANGES = 1000
ID_BITS = 10
_COMPARED_BYTES = 128
"""Of a text: statistics in the log have 32 characters, which are at most 128 bytes."""

Curve = Callable[[Sequence[ArrowArray]], ArrowArray]


def z_order(ids: Sequence[ArrowArray], *, bits: int = ID_BITS) -> ArrowArray:
    """Return the bits of the numbers interleaved, the highest bit of the first column first (int64).

    Numbers are not negative and have `bits` bits. Of more than six columns only the highest bits are used, so that a
    key has 63 bits.
    """
    kept = min(bits, _KEY_BITS // len(ids))
    return _interleaved([pc.shift_right(column, bits - kept) for column in ids] if kept < bits else ids, kept)


def hilbert(ids: Sequence[ArrowArray], *, bits: int = ID_BITS) -> ArrowArray:
    """Return the position of each point on the Hilbert curve (int64) for the coordinates of two to four columns.

    Points with successive positions differ by one in one coordinate. J. Skilling, Programming the Hilbert curve, 2004:
    the transposed position is computed in place, its bits are then interleaved.
    """
    import pyarrow as pa

    axes = list(ids)
    for bit in range(bits - 1, 0, -1):
        below = (1 << bit) - 1
        for place, axis in enumerate(axes):
            is_set = _mask(axis, bit)
            swapped = pc.bit_wise_and(pc.bit_wise_xor(axes[0], axis), pc.bit_wise_and(pc.bit_wise_not(is_set), below))
            axes[0] = pc.bit_wise_xor(axes[0], pc.bit_wise_or(pc.bit_wise_and(is_set, below), swapped))
            if place:
                axes[place] = pc.bit_wise_xor(axis, swapped)
    for place in range(1, len(axes)):
        axes[place] = pc.bit_wise_xor(axes[place], axes[place - 1])
    turned = pc.bit_wise_and(axes[-1], pa.scalar(0, pa.int64()))
    for bit in range(bits - 1, 0, -1):
        turned = pc.bit_wise_xor(turned, pc.bit_wise_and(_mask(axes[-1], bit), (1 << bit) - 1))
    return _interleaved([pc.bit_wise_xor(axis, turned) for axis in axes], bits)


def _mask(column: ArrowArray, bit: int) -> ArrowArray:
    """Return -1 (all bits) where the bit is set, else 0."""
    return pc.negate(pc.bit_wise_and(pc.shift_right(column, bit), 1))


def _interleaved(columns: Sequence[ArrowArray], bits: int) -> ArrowArray:
    keys = None
    for place, column in enumerate(columns):
        part = pc.take(_spread(bits, len(columns), place), column)
        keys = part if keys is None else pc.bit_wise_or(keys, part)
    return keys


@lru_cache(maxsize=64)
def _spread(bits: int, columns: int, place: int) -> ArrowArray:
    """Return, for each number of `bits` bits, the number with its bits at their places in a key."""
    import pyarrow as pa

    lowest = columns - 1 - place
    spread = [sum((value >> bit & 1) << (bit * columns + lowest) for bit in range(bits)) for value in range(1 << bits)]
    return pa.array(spread, pa.int64())


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


def ranks(values: ArrowArray, bounds: ArrowArray) -> ArrowArray:
    """Return how many bounds are less than or equal to each value (int64); null for null.

    A binary search of all rows at once: pyarrow has a function for it since version 24 only.
    """
    import pyarrow as pa

    count = len(bounds)
    found = pc.if_else(pc.is_valid(values), pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
    if count == 0:
        return found
    steps = count.bit_length()
    last = bounds.slice(count - 1)
    padded = pa.concat_arrays([bounds, pc.take(last, pa.array([0] * ((1 << steps) - 1 - count), pa.int64()))])
    for step in (1 << bit for bit in range(steps - 1, -1, -1)):
        middle = pc.take(padded, pc.add(found, step - 1))
        found = pc.add(
            found, pc.if_else(pc.less_equal(middle, values), pa.scalar(step, pa.int64()), pa.scalar(0, pa.int64()))
        )
    return pc.if_else(pc.greater(found, count), pa.scalar(count, pa.int64()), found)
