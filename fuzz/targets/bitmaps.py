"""Bitmaps of deletion vectors: rows, or a fault."""

from __future__ import annotations

import contextlib
import struct

from deltacli.delta.encoding.roaring import NATIVE, BitmapFaultError, parse_bitmap
from tests.support.small_vectors import roaring64

TOKENS = (
    struct.pack("<I", NATIVE),
    struct.pack("<I", 12_346),
    struct.pack("<I", 12_347 | 5 << 16),
    b"\xff\xff\xff\xff",
    b"\xff\xff",
    b"\0\0",
    b"\x01\0\0\0\0\0\0\0",
)


def seeds() -> list[bytes]:
    """Arrays, bits and runs, in one part and in several."""
    sets = [[], [0], [3, 4, 7], [1, 1 << 16, 1 << 33], list(range(0, 1 << 14, 2)), list(range(70_000))]
    return [roaring64(rows, run_keys=keys) for rows in sets for keys in (frozenset[int](), None)]


def test_one_input(data: bytes) -> None:
    """What is read has as many rows as it says, the highest among them."""
    found = None
    with contextlib.suppress(BitmapFaultError):
        found = parse_bitmap(data)
    if found is None or not found.count:
        return
    last = found.last
    start = max(last - 65_535, 0)
    mask = found.mask(start, last - start + 1)
    if mask is None or not mask[-1].as_py() or mask.true_count > found.count:
        raise AssertionError(f"{found.count} rows, the last is {last}, and the mask says {mask}")
