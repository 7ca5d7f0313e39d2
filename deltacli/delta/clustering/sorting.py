"""Sorting rows so that readers skip files: space-filling curves, and the files that are sorted together.

Rows with near keys are near in each of the columns, so that a file of a range of keys has a short range of each column.
A column is divided into about a thousand ranges with the same number of rows of a sample. Null is below all values. The
numbers are spread over ten bits: a column of two values decides the highest bit, as one of a thousand values does. Keys
are computed in columns, without a loop over rows.

A cube is what one run of clustering has sorted as a whole: its files share a tag with an id. Everything that grows with
the number of files is a column.

Spec: Clustered Table.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray

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
    lowest = columns - 1 - place
    spread = [sum((value >> bit & 1) << (bit * columns + lowest) for bit in range(bits)) for value in range(1 << bits)]
    return pa.array(spread, pa.int64())


def orderable_values(values: ArrowArray) -> ArrowArray:
    """Return values that Arrow orders as Delta does: texts by the bytes of their beginning, NaN as the greatest number.

    Arrays of numbers, dates, timestamps, booleans and texts are accepted.
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.binary_slice(pc.cast(values, pa.binary()), 0, _COMPARED_BYTES)
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(values), pa.scalar(float("inf"), kind), values)
    return pc.cast(values, pa.uint8()) if pa.types.is_boolean(kind) else values


def range_bounds(sample: ArrowArray, ranges: int = RANGES) -> ArrowArray:
    """Return the least value of each range but the first, ascending and distinct, for a sample of comparable values."""
    present = pc.drop_null(sample)
    present = pc.take(present, pc.sort_indices(present))
    count = len(present)
    places = sorted({count * number // ranges for number in range(1, ranges)} - {0})
    bounds = pc.unique(pc.take(present, pa.array(places, pa.int64())))
    return pc.filter(bounds, pc.greater(bounds, present[0])) if len(bounds) else bounds


def range_ids(values: ArrowArray, bounds: ArrowArray) -> ArrowArray:
    """Return the range of each comparable value as a number of ten bits (int64), ascending; null is in the lowest."""
    ranges = len(bounds) + 2
    ids = pc.coalesce(pc.add(ranks(values, bounds), 1), pa.scalar(0, pa.int64()))
    return pc.divide(pc.multiply(ids, 1 << ID_BITS), ranges)


def ranks(values: ArrowArray, bounds: ArrowArray) -> ArrowArray:
    """Return how many bounds are less than or equal to each value (int64); null for null.

    A binary search of all rows at once: pyarrow has a function for it since version 24 only.
    """
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


# -- which files are sorted together -----------------------------------------------------------------------------------

CUBE_ID, CUBE_COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
"""The tags of clustered files: the id of their cube, and a JSON list of the logical names of its columns."""
Z_ORDER_TAG = "deltacli.zorderBy"
"""The tag of files that deltacli has sorted by a z-order: a JSON list of physical names, or of paths of them."""
PROVIDER = "liquid"

COMPLETE_CUBE_BYTES, MOST_BYTES = 100 << 30, 150 << 30
"""Live bytes from which on a cube is left alone for ever, and the most that are sorted together."""
SORTED, OTHER_COLUMNS = "sorted", "other-clustering"
"""Why files are left alone: they are in this order, they are clustered by other columns."""


class ChosenFiles(NamedTuple):
    """Files to sort: those at `order[start:stop]` together, for each of the bounds. `skipped` counts the others, apart
    from excluded ones.
    """

    order: ArrowArray
    bounds: Sequence[tuple[int, int]]
    skipped: Mapping[str, int]


def z_order_tag(columns: Sequence[Sequence[str]]) -> str:
    """Return the value of the tag for the paths of columns."""
    return json.dumps([list(path) if len(path) > 1 else path[0] for path in columns], ensure_ascii=False)


def files_to_z_order(
    groups: ArrowArray, live: ArrowArray, tags: ArrowArray, wanted: str, is_excluded: ArrowArray
) -> ChosenFiles:
    """Return the files of each partition in which one lacks the wanted tag.

    `groups` are numbers of partitions, `live` the bytes of live rows, `tags` the values of `Z_ORDER_TAG`.
    """
    is_open = pc.invert(pc.or_(is_excluded, pc.fill_null(pc.equal(tags, wanted), False)))
    due = pc.unique(pc.filter(groups, is_open))
    return _chosen(groups, live, pc.and_not(pc.is_in(groups, value_set=due), is_excluded), is_excluded, {})


def files_to_cluster(
    live: ArrowArray,
    cubes: ArrowArray,
    columns: ArrowArray,
    wanted: Sequence[str],
    is_excluded: ArrowArray,
    *,
    complete_bytes: int = COMPLETE_CUBE_BYTES,
) -> ChosenFiles:
    """Return the files that no cube has, and those of cubes of the wanted columns that are not complete; none if all
    are of one cube. `cubes` and `columns` are the values of `CUBE_ID` and `CUBE_COLUMNS`.
    """
    in_cube = pc.and_(pc.is_valid(cubes), pc.is_valid(columns))
    texts = [text for text in pc.unique(columns).to_pylist() if text is not None and _names(text) == list(wanted)]
    is_other = pc.and_not(in_cube, pc.is_in(columns, value_set=pa.array(texts, pa.string())))
    ids = pc.if_else(in_cube, cubes, pa.scalar(None, pa.string()))
    is_left = pc.and_not(pc.invert(is_other), is_excluded)
    sizes = {}
    for cube in pc.drop_null(pc.unique(pc.filter(ids, is_left))):  # most have 100 GiB: there are few
        sizes[cube.as_py()] = pc.sum(pc.filter(live, pc.and_(is_left, pc.equal(ids, cube)))).as_py() or 0
    complete = [cube for cube, size in sizes.items() if size >= complete_bytes]
    is_left = pc.and_not(is_left, pc.is_in(ids, value_set=pa.array(complete, pa.string())))
    if len(sizes) - len(complete) == 1 and not pc.any(pc.and_not(is_left, in_cube)).as_py():
        is_left = pc.and_(is_left, pa.scalar(False))
    skipped = {OTHER_COLUMNS: pc.sum(pc.and_not(is_other, is_excluded)).as_py() or 0}
    ranks = pc.coalesce(pc.cast(pc.dictionary_encode(ids).indices, pa.int64()), len(ids))  # files of no cube are last
    return _chosen(pa.repeat(pa.scalar(0, pa.int64()), len(ids)), live, is_left, is_excluded, skipped, within=ranks)


def _names(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _chosen(
    groups: ArrowArray,
    live: ArrowArray,
    is_chosen: ArrowArray,
    is_excluded: ArrowArray,
    skipped: dict[str, int],
    *,
    within: ArrowArray | None = None,
) -> ChosenFiles:
    """Return chosen files group by group, within these by a rank, then in the order of the version."""
    order = pc.cast(pc.indices_nonzero(is_chosen), pa.int64())
    for ranks in (within, groups):  # sorting is stable
        order = order if ranks is None else pc.take(order, pc.sort_indices(pc.take(ranks, order)))
    left = len(live) - len(order) - (pc.sum(is_excluded).as_py() or 0) - sum(skipped.values())
    counts = {**skipped, SORTED: left}
    bounds = list(_packed(pc.take(groups, order).to_pylist(), pc.take(live, order).to_pylist()))
    return ChosenFiles(order, bounds, {reason: count for reason, count in counts.items() if count})


def _packed(groups: Sequence[int], live: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of files of one group, until the next one does not fit."""
    begin = size = 0
    end = bisect_right(groups, groups[0]) if groups else 0
    for place, bytes_ in enumerate(live):
        if place == end or (place > begin and size + bytes_ > MOST_BYTES):
            yield begin, place
            begin, size = place, 0
            end = bisect_right(groups, groups[place], place)
        size += bytes_
    if begin < len(live):
        yield begin, len(live)
