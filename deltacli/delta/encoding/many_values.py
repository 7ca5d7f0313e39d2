"""Sets of many values: integers that are close together as bits, and keys by eight bytes of their hashes."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray

_SHIFT = 16
_CHUNK = 1 << _SHIFT
_CHUNK_BYTES = _CHUNK // 8
_ALL = (1 << _CHUNK) - 1
_FEW = 16
"Up to this number, integers of a chunk are added one by one, because an array of the whole chunk would cost more."


class Repeated(NamedTuple):
    """How often integers were repeated, and the least of them (None if none was)."""

    times: int = 0
    least: int | None = None

    def plus(self, other: Repeated) -> Repeated:
        """Return both together."""
        known = [each for each in (self.least, other.least) if each is not None]
        return Repeated(self.times + other.times, min(known, default=None))


class IntegerSet:
    """A set of 64-bit integers. A set that would need more than `most_bytes` stops growing and `is_full`."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes // _CHUNK_BYTES
        self._chunks: dict[int, int] = {}
        self.is_full = False

    def add(self, values: pa.Int64Array) -> Repeated:
        """Add values without nulls, in any order. Return those that were already present or are repeated."""
        ordered = pc.take(values, pc.sort_indices(values))
        repeated = Repeated()
        if len(ordered) > 1:
            later, earlier = ordered.slice(1), ordered.slice(0, len(ordered) - 1)
            twice = pc.filter(later, pc.equal(later, earlier))
            repeated = Repeated(len(twice), twice[0].as_py() if len(twice) else None)
        runs = pc.run_end_encode(pc.shift_right(ordered, _SHIFT))
        start = 0
        for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            if not self._has_room(number):
                break
            repeated = repeated.plus(self._put(number, _bits(ordered.slice(start, end - start))))
            start = end
        return repeated

    def add_range(self, first: int, count: int) -> None:
        """Add a number of integers from the first one on."""
        last = first + count - 1
        for number in range(first >> _SHIFT, (last >> _SHIFT) + 1):
            if not self._has_room(number):
                return
            low = max(first - (number << _SHIFT), 0)
            high = min(last - (number << _SHIFT), _CHUNK - 1)
            self._put(number, _run(low, high))

    def merge(self, other: IntegerSet) -> Repeated:
        """Add all of another set. Return those that were already present."""
        repeated = Repeated()
        self.is_full = self.is_full or other.is_full
        for number, bits in other._chunks.items():
            if not self._has_room(number):
                break
            repeated = repeated.plus(self._put(number, bits))
        return repeated

    def common(self, other: IntegerSet) -> Repeated:
        """Return those that are in both sets."""
        repeated = Repeated()
        fewer, more = sorted((self._chunks, other._chunks), key=len)
        for number, bits in fewer.items():
            if (shared := bits & more.get(number, 0)) != 0:
                repeated = repeated.plus(_told(number, shared))
        return repeated

    def _has_room(self, number: int) -> bool:
        if number not in self._chunks and len(self._chunks) >= self._most:
            self.is_full = True
        return not self.is_full

    def _put(self, number: int, bits: int) -> Repeated:
        before = self._chunks.get(number, 0)
        self._chunks[number] = before | bits
        again = before & bits
        return _told(number, again) if again else Repeated()


def _told(number: int, bits: int) -> Repeated:
    return Repeated(bits.bit_count(), (number << _SHIFT) + (bits & -bits).bit_length() - 1)


def _run(low: int, high: int) -> int:
    return _ALL >> (_CHUNK - 1 - high + low) << low


def _bits(ordered: pa.Int64Array) -> int:
    """Return a bit for each of some ascending integers of one chunk, some of which may be repeated."""
    if len(ordered) <= _FEW:
        bits = 0
        for value in ordered.to_pylist():
            bits |= 1 << (value & (_CHUNK - 1))
        return bits
    places = pc.bit_wise_and(ordered, _CHUNK - 1)
    low, high = places[0].as_py(), places[-1].as_py()
    if high - low + 1 == len(ordered) and len(pc.unique(places)) == len(ordered):
        return _run(low, high)
    bitmap = pc.scatter(pa.repeat(pa.scalar(True), len(places)), places, max_index=_CHUNK - 1)
    present = bitmap.buffers()[0]  # null where nothing was put
    return _ALL if present is None else int.from_bytes(present.to_pybytes()[:_CHUNK_BYTES], "little")


# -- looking for keys among millions -----------------------------------------------------------------------------------

FINGERPRINTED_BYTES = 48
_SALT = 31
_HASHED_AT_ONCE = 16_384


def compute_fingerprints(keys: ArrowArray) -> ArrowArray:
    """Return eight bytes for each key, computed from its last 48 bytes: equal for equal keys, and nearly always
    different for keys with different ends, as file names have.
    """
    if len(keys) and pc.min_max(pc.binary_length(keys)).as_py()["min"] < FINGERPRINTED_BYTES:
        keys = pc.binary_join_element_wise(pa.scalar(b"\x00" * FINGERPRINTED_BYTES), keys, b"")
    prints = None
    for end in range(0, FINGERPRINTED_BYTES, 8):
        part = pc.binary_slice(keys, -end - 8, -end) if end else pc.binary_slice(keys, -8)
        eight = pc.cast(part, pa.binary(8)).view(pa.int64())
        prints = eight if prints is None else pc.bit_wise_xor(pc.multiply(prints, _SALT), eight)
    return prints


def find_repeated_hashes(prints: ArrowArray) -> ArrowArray:
    """Return the fingerprints that occur more than once, in order. Sorting takes a tenth of the memory of a hash
    table. Numbers are looked at in sixteen ranges, and sorted only where a hash table of one has fewer: two thirds of
    the time, and a sixth of the memory.
    """
    if len(prints) <= _HASHED_AT_ONCE or not prints.type.equals(pa.int64()):
        return _repeated(prints)
    found = [pa.array([], pa.int64())]
    for low in range(-1 << 63, 1 << 63, 1 << 60):
        is_within = pc.and_(pc.greater_equal(prints, low), pc.less_equal(prints, low + (1 << 60) - 1))
        part = pc.filter(prints, is_within)
        if len(pc.unique(part)) < len(part):
            found.append(_repeated(part))
    return pa.concat_arrays(found)


def _repeated(prints: ArrowArray) -> ArrowArray:
    ordered = pc.take(prints, pc.sort_indices(prints))
    again = pc.equal(ordered.slice(1), ordered.slice(0, max(len(ordered) - 1, 0)))
    return pc.unique(pc.filter(ordered.slice(1), again))


def hash_column(keys: ArrowArray) -> ArrowArray:
    """Return Python's hashes (int64) of keys."""
    hashes = array("q")
    for begin in range(0, len(keys), _HASHED_AT_ONCE):
        hashes.extend(map(hash, keys.slice(begin, _HASHED_AT_ONCE).to_pylist()))
    return pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])


class KeyIndex:
    """Binary keys in buckets by their hashes, of about one key each. Thread-safe; another process makes its own."""

    def __init__(self, keys: ArrowArray) -> None:
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
        if len(keys) > _CHUNK:
            return pa.concat_arrays([self.contains(keys.slice(at, _CHUNK)) for at in range(0, len(keys), _CHUNK)])
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
        hashes = hash_column(keys).view(pa.uint64())
        return pc.cast(pc.shift_right(hashes, pa.scalar(self._shift, pa.uint64())), pa.int32())


def _counts(buckets: ArrowArray, total: int) -> ArrowArray:
    found = array("i", bytes(4 * total))
    for bucket in memoryview(buckets.buffers()[1]).cast("i")[: len(buckets)]:
        found[bucket] += 1
    return pa.Array.from_buffers(pa.int32(), total, [None, pa.py_buffer(found)])
