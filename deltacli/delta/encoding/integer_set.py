"""Sets of integers that are close together, to find duplicates: one bit each, in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc

if TYPE_CHECKING:
    import pyarrow

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

    def add(self, values: pyarrow.Int64Array) -> Repeated:
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


def _bits(ordered: pyarrow.Int64Array) -> int:
    """Return a bit for each of some ascending integers of one chunk, some of which may be repeated."""
    import pyarrow as pa

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
