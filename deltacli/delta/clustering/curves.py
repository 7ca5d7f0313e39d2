"""Positions on space-filling curves: columns of small numbers in, one column of keys out.

Rows with near keys are near in each of the columns, so that a file of a range of keys has a short range of each column.
Keys are computed in columns, without a loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from deltacli.arrow import compute as pc
from deltacli.delta.clustering.range_ids import ID_BITS
from deltacli.typing import ArrowArray

MOST_COLUMNS = 32
"""Of a z-order: each has at least one bit of a key."""
_KEY_BITS = 63

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
