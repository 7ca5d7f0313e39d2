"""Looking up columns of keys among very many: `is_in` makes a hash table of all of them in each call."""

from __future__ import annotations

from array import array

from deltacli.arrow import compute as pc
from deltacli.typing import ArrowArray

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
