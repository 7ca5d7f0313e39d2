"""The rows that a deletion vector deletes, kept in their compressed bitmap.

A chunk has 65,536 rows and is decoded when its rows are read; runs are never expanded before. Spec: Deletion Vector
Format; the portable format of Roaring bitmaps, extended to 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

PORTABLE, NATIVE = 1_681_511_377, 1_681_511_376
"The magic numbers of a vector. The second is an older layout of the reference implementation, which reads both."

CHUNK_ROWS = 1 << 16
_CHUNK_BYTES = CHUNK_ROWS // 8
_MOST_IN_ARRAY = 4_096
_WITH_RUNS, _WITHOUT_RUNS = 12_347, 12_346
_FEWEST_WITH_OFFSETS = 4
_MAX_ROW = 1 << 63


class BitmapFaultError(ValueError):
    """Bytes that are not a deletion vector. `code` is the rule they violate."""

    def __init__(self, reason: str, code: str = "dv.bitmap-corrupt") -> None:
        super().__init__(reason)
        self.code = code


class _Form(StrEnum):
    ARRAY = "array"
    BITSET = "bitset"
    RUNS = "runs"


class _Chunk(NamedTuple):
    """Rows of one chunk as stored: positions, one bit a row, or pairs of (first position, how many follow)."""

    form: _Form
    data: memoryview
    rows: int

    @property
    def last(self) -> int:
        if self.form is _Form.ARRAY:
            return int.from_bytes(self.data[-2:], "little")
        if self.form is _Form.RUNS:
            first, more = struct.unpack("<HH", self.data[-4:])
            return int(first + more)
        return int.from_bytes(self.data, "little").bit_length() - 1

    def bits(self) -> bytes:
        """Return one bit per row, the lowest first, as in Arrow."""
        if self.form is _Form.BITSET:
            return bytes(self.data)
        bits = bytearray(_CHUNK_BYTES)
        if self.form is _Form.ARRAY:
            for position in _shorts(self.data):
                bits[position >> 3] |= 1 << (position & 7)
            return bytes(bits)
        for first, more in _runs(self.data):
            _fill(bits, first, first + more)
        return bytes(bits)


class DeletedRows:
    """A set of row numbers of one file; immutable."""

    def __init__(self, chunks: Mapping[int, _Chunk]) -> None:
        self._chunks = chunks

    @property
    def count(self) -> int:
        return sum(chunk.rows for chunk in self._chunks.values())

    @property
    def last(self) -> int:
        """Return the highest row number; -1 if there is none."""
        if not self._chunks:
            return -1
        number = max(self._chunks)
        return number * CHUNK_ROWS + self._chunks[number].last

    def count_below(self, rows: int) -> int:
        """Return how many of the first `rows` rows of a file are in the set: others are not in the file."""
        if self.last < rows:
            return self.count
        count = 0
        for number, chunk in self._chunks.items():
            first = number * CHUNK_ROWS
            if first + chunk.last < rows:
                count += chunk.rows
            elif first < rows and (mask := self.mask(first, rows - first)) is not None:
                count += mask.true_count
        return count

    def mask(self, start: int, rows: int) -> pa.BooleanArray | None:
        """Return True for those of `rows` rows from `start` that are in the set, or None if none is."""
        first, last = start // CHUNK_ROWS, (start + rows - 1) // CHUNK_ROWS
        if not any(number in self._chunks for number in range(first, last + 1)):
            return None
        parts = [
            self._chunks[number].bits() if number in self._chunks else bytes(_CHUNK_BYTES)
            for number in range(first, last + 1)
        ]
        data = pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))
        return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, data], null_count=0, offset=start % CHUNK_ROWS)


def parse_bitmap(data: bytes) -> DeletedRows:
    """Read a vector from its magic number on. Raises BitmapFaultError."""
    reader = _Reader(memoryview(data))
    magic = reader.integer(4)
    if magic == PORTABLE:
        buckets = _portable(reader)
    elif magic == NATIVE:
        buckets = _native(reader)
    else:
        raise BitmapFaultError(f"it begins with {magic} instead of {PORTABLE}", "dv.magic")
    chunks: dict[int, _Chunk] = {}
    for high, inner in buckets:
        for low, chunk in _containers(inner):
            number = high << 16 | low
            if (number + 1) * CHUNK_ROWS > _MAX_ROW:
                raise BitmapFaultError("a row number of more than 63 bits")
            chunks[number] = chunk
    return DeletedRows(chunks)


class _Reader:
    """Reads bytes from the front."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> memoryview:
        end = self.at + length
        if end > len(self.data):
            raise BitmapFaultError("it is incomplete")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def integer(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")


def _portable(reader: _Reader) -> Iterator[tuple[int, _Reader]]:
    """Yield the 32-bit bitmaps, each with the upper half of its row numbers."""
    before = -1
    for _ in range(reader.integer(8)):
        high = reader.integer(4)
        if high <= before:
            raise BitmapFaultError("its parts are not in ascending order")
        if high >> 31:
            raise BitmapFaultError("a row number of more than 63 bits")
        before = high
        yield high, reader


def _native(reader: _Reader) -> Iterator[tuple[int, _Reader]]:
    for high in range(reader.integer(4)):
        yield high, _Reader(reader.take(reader.integer(4)))


def _containers(reader: _Reader) -> Iterator[tuple[int, _Chunk]]:
    """Yield the chunks of one 32-bit bitmap, each with its number."""
    cookie = reader.integer(4)
    count, has_runs = 0, b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        has_runs = bytes(reader.take((count + 7) // 8))
    elif cookie == _WITHOUT_RUNS:
        count = reader.integer(4)
    else:
        raise BitmapFaultError(f"a bitmap begins with {cookie}")
    if count > CHUNK_ROWS:
        raise BitmapFaultError(f"a bitmap has {count} chunks")
    heads = list(_runs(reader.take(4 * count)))  # number and rows less one
    if any(later[0] <= earlier[0] for earlier, later in pairwise(heads)):
        raise BitmapFaultError("its chunks are not in ascending order")
    if not has_runs or count >= _FEWEST_WITH_OFFSETS:
        reader.take(4 * count)  # where each chunk begins: they are consecutive anyway
    for index, (number, rows_less_one) in enumerate(heads):
        is_runs = bool(has_runs) and has_runs[index >> 3] >> (index & 7) & 1
        yield number, _container(reader, rows_less_one + 1, is_runs=bool(is_runs))


def _container(reader: _Reader, rows: int, *, is_runs: bool) -> _Chunk:
    if is_runs:
        data = reader.take(4 * reader.integer(2))
        runs = list(_runs(data))
        is_sound = all(later[0] > earlier[0] + earlier[1] for earlier, later in pairwise(runs))
        is_sound = is_sound and bool(runs) and runs[-1][0] + runs[-1][1] < CHUNK_ROWS
        if not is_sound or sum(more + 1 for _, more in runs) != rows:
            raise BitmapFaultError("the runs of a chunk do not match its header")
        return _Chunk(_Form.RUNS, data, rows)
    if rows > _MOST_IN_ARRAY:
        data = reader.take(_CHUNK_BYTES)
        if int.from_bytes(data, "little").bit_count() != rows:
            raise BitmapFaultError("the number of bits of a chunk does not match its header")
        return _Chunk(_Form.BITSET, data, rows)
    data = reader.take(2 * rows)
    positions = _shorts(data)
    if sorted(set(positions)) != list(positions):
        raise BitmapFaultError("the rows of a chunk are not in ascending order")
    return _Chunk(_Form.ARRAY, data, rows)


def _shorts(data: memoryview) -> tuple[Any, ...]:  # Any: integers
    return struct.unpack(f"<{len(data) // 2}H", data)


def _runs(data: memoryview) -> Iterator[tuple[Any, ...]]:  # Any: pairs of integers
    return struct.iter_unpack("<HH", data)


def _fill(bits: bytearray, first: int, last: int) -> None:
    head, tail = first >> 3, last >> 3
    first_mask, last_mask = 0xFF << (first & 7) & 0xFF, 0xFF >> (7 - (last & 7))
    if head == tail:
        bits[head] |= first_mask & last_mask
        return
    bits[head] |= first_mask
    bits[tail] |= last_mask
    bits[head + 1 : tail] = b"\xff" * (tail - head - 1)
