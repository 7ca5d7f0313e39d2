"""Bitmaps of deletion vectors: every form reads as the set it is, and damaged ones are refused, not guessed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.encoding.roaring import NATIVE, PORTABLE, BitmapFaultError, DeletedRows, parse_bitmap
from tests.support.small_vectors import roaring64 as bitmap

CHUNK = 1 << 16

some_rows = st.sets(
    st.one_of(
        st.integers(0, 200),
        st.integers(CHUNK - 5, CHUNK + 5),
        st.integers((1 << 32) - 3, (1 << 32) + 3),
        st.integers(0, (1 << 40)),
    ),
    max_size=60,
)
spans = st.tuples(st.integers(0, 3 * CHUNK), st.integers(0, 2 * CHUNK)).map(lambda span: range(span[0], sum(span)))


def rows_of(found: DeletedRows, start: int, count: int) -> list[int]:
    mask = found.mask(start, count)
    return [] if mask is None else [start + row for row, is_in in enumerate(mask.to_pylist()) if is_in]


@given(some_rows, st.one_of(st.none(), spans), st.booleans(), st.integers(0, 2 * CHUNK))
def test_a_bitmap_reads_as_the_rows_it_was_made_of(
    few: set[int], many: range | None, as_runs: bool, start: int
) -> None:
    rows = few | set(many or ())

    found = parse_bitmap(bitmap(sorted(rows), run_keys=None if as_runs else frozenset()))

    assert (len(rows), max(rows, default=-1)) == (found.count, found.last)
    window = range(start, start + 70_000)
    assert sorted(rows.intersection(window)) == rows_of(found, start, len(window))
    for row in sorted(rows)[-3:]:
        assert [row] == rows_of(found, row, 1)


def test_the_older_layout_of_the_reference_implementation_is_read() -> None:
    whole = bitmap([3, 4, 7, (1 << 32) + 1])
    parts = [bitmap([3, 4, 7])[16:], bitmap([1])[16:]]
    native = struct.pack("<II", NATIVE, 2) + b"".join(struct.pack("<I", len(part)) + part for part in parts)

    assert PORTABLE == struct.unpack("<I", whole[:4])[0]
    assert [3, 4, 7] == rows_of(parse_bitmap(native), 0, 100)
    assert [1 << 32 | 1] == rows_of(parse_bitmap(native), 1 << 32, 100)


ARRAY = bitmap([1, 2, 5])
RUNS = bitmap(range(10, 20), run_keys=None)
BITS = bitmap(range(0, CHUNK, 2))


def changed(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "dv.bitmap-corrupt"),
        (changed(ARRAY, 0, b"\0\0\0\0"), "dv.magic"),
        (ARRAY[:-1], "dv.bitmap-corrupt"),
        (changed(ARRAY, 16, b"\x01\x02\x03\x04"), "dv.bitmap-corrupt"),
        (changed(ARRAY, len(ARRAY) - 2, b"\x02\0"), "dv.bitmap-corrupt"),  # the same row twice
        (changed(ARRAY, len(ARRAY) - 2, b"\0\0"), "dv.bitmap-corrupt"),  # rows that do not ascend
        (changed(RUNS, len(RUNS) - 2, b"\xff\xff"), "dv.bitmap-corrupt"),  # a run beyond its chunk
        (changed(RUNS, len(RUNS) - 2, b"\x05\0"), "dv.bitmap-corrupt"),  # fewer rows than its head says
        (changed(BITS, len(BITS) - 1, b"\0"), "dv.bitmap-corrupt"),  # fewer bits than its head says
        (changed(ARRAY, 12, b"\xff\xff\xff\xff"), "dv.bitmap-corrupt"),  # row numbers of more than 63 bits
        (ARRAY[:4] + struct.pack("<Q", 2) + ARRAY[12:] + ARRAY[12:], "dv.bitmap-corrupt"),  # parts that repeat
    ],
)
def test_a_damaged_bitmap_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(BitmapFaultError) as refused:
        parse_bitmap(data)

    assert code == refused.value.code


def test_runs_of_many_chunks_are_not_unfolded_before_they_are_read() -> None:
    heads = b"".join(struct.pack("<HH", number, 0xFFFF) for number in range(CHUNK))
    flags = b"\xff" * (CHUNK // 8)
    offsets = bytes(4 * CHUNK)
    runs = struct.pack("<HHH", 1, 0, 0xFFFF) * CHUNK
    cookie = struct.pack("<I", 12_347 | (CHUNK - 1) << 16)
    data = struct.pack("<IQI", PORTABLE, 1, 0) + cookie + flags + heads + offsets + runs

    found = parse_bitmap(data)

    assert 1 << 32 == found.count
    assert 10 == len(rows_of(found, 5 * CHUNK - 3, 10))
