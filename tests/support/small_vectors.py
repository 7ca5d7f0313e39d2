"""Deletion vectors of the small writer: Z85, roaring bitmaps and files, written from the format's description alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
MAGIC = 1681511377
NO_RUNS, WITH_RUNS = 12346, 12347
OFFSETS_FROM = 4
"""A bitmap with run containers names their offsets from this number of containers on."""

Descriptor = dict[str, Any]  # Any: JSON values


def z85(data: bytes) -> str:
    """Text of bytes, five characters for four of them; the end is filled up with zeros."""
    data += b"\0" * (-len(data) % 4)
    text: list[str] = []
    for (word,) in struct.iter_unpack(">I", data):
        digits = []
        for _ in range(5):
            word, digit = divmod(word, 85)
            digits.append(Z85[digit])
        text += reversed(digits)
    return "".join(text)


def runs_of(values: Sequence[int]) -> list[tuple[int, int]]:
    """(start, length - 1) of each run of ascending values."""
    found: list[tuple[int, int]] = []
    for value in values:
        if found and found[-1][0] + found[-1][1] + 1 == value:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((value, 0))
    return found


def container(values: Sequence[int], *, as_runs: bool) -> bytes:
    """One container: runs where asked for, else an array up to 4,096 values and a bitmap above."""
    if as_runs:
        runs = runs_of(values)
        return struct.pack(f"<H{2 * len(runs)}H", len(runs), *(number for run in runs for number in run))
    if len(values) <= 4096:
        return struct.pack(f"<{len(values)}H", *values)
    bits = bytearray(8192)
    for value in values:
        bits[value >> 3] |= 1 << (value & 7)
    return bytes(bits)


def roaring32(values: Iterable[int], *, run_keys: frozenset[int] | None = frozenset()) -> bytes:
    """The portable 32-bit format; `run_keys` are the high halves stored as runs, None: all of them."""
    groups: dict[int, list[int]] = {}
    for value in sorted(values):
        groups.setdefault(value >> 16, []).append(value & 0xFFFF)
    keys = list(groups)
    in_runs = [run_keys is None or key in run_keys for key in keys]
    bodies = [container(groups[key], as_runs=runs) for key, runs in zip(keys, in_runs, strict=True)]
    if any(in_runs):
        flags = bytearray((len(keys) + 7) // 8)
        for position, runs in enumerate(in_runs):
            flags[position >> 3] |= runs << (position & 7)
        head = struct.pack("<I", WITH_RUNS | (len(keys) - 1) << 16) + flags
    else:
        head = struct.pack("<II", NO_RUNS, len(keys))
    head += b"".join(struct.pack("<HH", key, len(groups[key]) - 1) for key in keys)
    if not any(in_runs) or len(keys) >= OFFSETS_FROM:
        position = len(head) + 4 * len(keys)
        for body in bodies:
            head += struct.pack("<I", position)
            position += len(body)
    return head + b"".join(bodies)


def roaring64(rows: Iterable[int], *, run_keys: frozenset[int] | None = frozenset()) -> bytes:
    """A vector's data: the magic number, and a 32-bit bitmap for each high half of the row indexes."""
    buckets: dict[int, list[int]] = {}
    for row in sorted(rows):
        buckets.setdefault(row >> 32, []).append(row & 0xFFFFFFFF)
    body = b"".join(struct.pack("<I", key) + roaring32(rows, run_keys=run_keys) for key, rows in buckets.items())
    return struct.pack("<IQ", MAGIC, len(buckets)) + body


def inline(rows: Iterable[int], *, run_keys: frozenset[int] | None = frozenset()) -> Descriptor:
    """A descriptor that holds its vector."""
    rows = list(rows)
    data = roaring64(rows, run_keys=run_keys)
    return {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors: its content, and (offset, size, cardinality) of each."""

    data: bytes
    places: tuple[tuple[int, int, int], ...]

    def relative(self, place: int, uuid: UUID, prefix: str = "") -> Descriptor:
        """The descriptor of a vector, by the name that its file has below the table."""
        return self._descriptor(place, "u", prefix + z85(uuid.bytes))

    def absolute(self, place: int, uri: str) -> Descriptor:
        """The descriptor of a vector, by the whole address of its file."""
        return self._descriptor(place, "p", uri)

    def _descriptor(self, place: int, storage: str, path: str) -> Descriptor:
        offset, size, cardinality = self.places[place]
        return {
            "storageType": storage,
            "pathOrInlineDv": path,
            "offset": offset,
            "sizeInBytes": size,
            "cardinality": cardinality,
        }


def vector_file(vectors: Iterable[Iterable[int]], *, run_keys: frozenset[int] | None = frozenset()) -> VectorFile:
    """Several vectors in one file: a version byte, then of each its size, data and checksum."""
    data, places = b"\x01", []
    for rows in vectors:
        rows = list(rows)
        body = roaring64(rows, run_keys=run_keys)
        places.append((len(data), len(body), len(rows)))
        data += struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return VectorFile(data, tuple(places))


def vector_path(uuid: UUID, prefix: str = "") -> str:
    """Where a file of vectors lies below the table."""
    return f"{prefix}/deletion_vector_{uuid}.bin" if prefix else f"deletion_vector_{uuid}.bin"
