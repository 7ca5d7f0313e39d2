"""Looking for keys among millions: by eight bytes that represent each text, and in buckets of their hashes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray

_PRINTED = 48
_SALT = 31


def fingerprints(keys: ArrowArray) -> ArrowArray:
    """Return eight bytes for each key, computed from its last 48 bytes: equal for equal keys, and nearly always
    different for keys with different ends, as file names have.
    """
    import pyarrow as pa

    if len(keys) and pc.min_max(pc.binary_length(keys)).as_py()["min"] < _PRINTED:
        keys = pc.binary_join_element_wise(pa.scalar(b"\x00" * _PRINTED), keys, b"")
    prints = None
    for end in range(0, _PRINTED, 8):
        part = pc.binary_slice(keys, -end - 8, -end) if end else pc.binary_slice(keys, -8)
        eight = pc.cast(part, pa.binary(8)).view(pa.int64())
        prints = eight if prints is None else pc.bit_wise_xor(pc.multiply(prints, _SALT), eight)
    return prints


def repeated(prints: ArrowArray) -> ArrowArray:
    """Return the fingerprints that occur more than once, in order. Sorting takes a tenth of the memory of a hash
    table.
    """
    ordered = pc.take(prints, pc.sort_indices(prints))
    again = pc.equal(ordered.slice(1), ordered.slice(0, max(len(ordered) - 1, 0)))
    return pc.unique(pc.filter(ordered.slice(1), again))


def rows_that_may_repeat(keys: Iterable[ArrowArray]) -> ArrowArray:
    """Return which of millions of keys may occur more than once: all that do, and very few others.

    Arrays of keys are taken one after another, so that only one needs to be in memory.
    """
    import pyarrow as pa

    prints = [fingerprints(chunk) for chunk in keys if len(chunk)]
    if not prints:
        return pa.chunked_array([], pa.bool_())
    often = repeated(pa.concat_arrays(prints))
    return pa.chunked_array([pc.is_in(prints_of_chunk, value_set=often) for prints_of_chunk in prints], pa.bool_())


_HASHED_AT_ONCE = 16_384


class KeyIndex:
    """Binary keys in buckets by their hashes, of about one key each. Thread-safe; another process makes its own."""

    def __init__(self, keys: ArrowArray) -> None:
        import pyarrow as pa

        self._shift = 64 - max(len(keys).bit_length(), 1)
        buckets = self._buckets(keys)
        counts = _counts(buckets, 1 << (64 - self._shift))
        self._starts = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), counts]))
        self._deepest: int = pc.max(counts).as_py()
        self._rows = pc.cast(pc.sort_indices(buckets), pa.uint32())
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __reduce__(self) -> tuple[type[KeyIndex], tuple[ArrowArray]]:
        return KeyIndex, (self.keys,)

    def contains(self, keys: ArrowArray) -> ArrowArray:
        """Return which of some keys are among these."""
        import pyarrow as pa

        found = pa.repeat(False, len(keys))
        if not len(self.keys):
            return found
        buckets = self._buckets(keys)
        place, end = pc.take(self._starts, buckets), pc.take(self._starts, pc.add(buckets, 1))
        for _ in range(self._deepest):
            is_left = pc.less(place, end)
            if not pc.any(is_left).as_py():
                break
            rows = pc.take(self._rows, pc.if_else(is_left, place, 0))
            there = pc.equal(pc.take(self.keys, rows), keys)
            found = pc.or_(found, pc.and_(is_left, there))
            place = pc.add(place, 1)
        return found

    def _buckets(self, keys: ArrowArray) -> ArrowArray:
        """Return the highest bits of the hashes."""
        import pyarrow as pa

        hashes = array("q")
        for begin in range(0, len(keys), _HASHED_AT_ONCE):
            hashes.extend(map(hash, keys.slice(begin, _HASHED_AT_ONCE).to_pylist()))
        column = pa.Array.from_buffers(pa.uint64(), len(hashes), [None, pa.py_buffer(hashes)])
        return pc.cast(pc.shift_right(column, pa.scalar(self._shift, pa.uint64())), pa.int32())


def _counts(buckets: ArrowArray, total: int) -> ArrowArray:
    """Return how many keys each bucket has."""
    import pyarrow as pa

    found = array("i", bytes(4 * total))
    for bucket in memoryview(buckets.buffers()[1]).cast("i")[: len(buckets)]:
        found[bucket] += 1
    return pa.Array.from_buffers(pa.int32(), total, [None, pa.py_buffer(found)])
