"""The hash with which the reference implementation distributes actions over the parts of a checkpoint.

Murmur3, 32 bits, seed 42, of the UTF-8 text: words of four bytes, then each remaining byte as a signed number in a
separate round. Spec: Checkpoints (multi-part).
"""

from __future__ import annotations

from typing import Any

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray

SEED = 42
_WORD = 4
_MASK = 0xFFFFFFFF


def parts_of(paths: ArrowArray, parts: int) -> ArrowArray:
    """Return the part, counted from 0, of each action by its path."""
    hashes = spark_hash(paths)
    remainder = pc.subtract(hashes, pc.multiply(pc.divide(hashes, parts), parts))
    return pc.if_else(pc.less(remainder, 0), pc.add(remainder, parts), remainder)


def part_of_others(parts: int) -> int:
    """Return the part of actions without a path: a null leaves the seed unchanged."""
    return SEED % parts


def spark_hash(texts: ArrowArray) -> ArrowArray:
    """Return the hash of each text, column by column; no text is null."""
    import pyarrow as pa

    raw = pc.cast(texts, pa.binary())
    lengths = pc.cast(pc.binary_length(raw), pa.int64())
    state = pc.fill_null(pa.nulls(len(raw), pa.int64()), SEED)
    longest = pc.max(lengths).as_py() or 0
    for start in range(0, longest // _WORD * _WORD, _WORD):
        word = _little_endian(raw, start, _WORD)
        state = pc.if_else(pc.greater_equal(lengths, start + _WORD), _round(state, word), state)
    whole = pc.multiply(pc.divide(lengths, _WORD), _WORD)
    for rest in range(_WORD - 1):
        byte = _byte_before_end(raw, pc.subtract(pc.subtract(lengths, whole), rest))
        mixed = _round(state, pc.if_else(pc.greater(byte, 127), pc.subtract(byte, 256), byte))
        state = pc.if_else(pc.less(pc.add(whole, rest), lengths), mixed, state)
    state = pc.bit_wise_xor(state, lengths)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = _times(pc.bit_wise_xor(state, pc.shift_right(state, shift)), factor)
    return pc.if_else(pc.greater(state, 0x7FFFFFFF), pc.subtract(state, 1 << 32), state)


def _round(state: Any, word: Any) -> Any:
    """Mix a word, as a signed number or an unsigned one, into the state."""
    word = _times(_rotated(_times(_low(word), 0xCC9E2D51), 15), 0x1B873593)
    return _low(pc.add(pc.multiply(_rotated(pc.bit_wise_xor(state, word), 13), 5), 0xE6546B64))


def _times(value: Any, factor: int) -> Any:
    """The low 32 bits of a product of 32-bit numbers: 64 bits overflow, but keep the low ones."""
    return _low(pc.multiply(value, factor))


def _rotated(value: Any, bits: int) -> Any:
    return _low(pc.bit_wise_or(pc.shift_left(value, bits), pc.shift_right(value, 32 - bits)))


def _low(value: Any) -> Any:
    return pc.bit_wise_and(value, _MASK)


def _little_endian(raw: Any, start: int, count: int) -> Any:
    """Return the bytes of each text as a number; those beyond its end are zero."""
    import pyarrow as pa

    padded = pc.binary_join_element_wise(pc.binary_slice(raw, start, start + count), b"\x00" * 8, b"")
    return pc.cast(pc.binary_slice(padded, 0, 8), pa.binary(8)).view(pa.int64())


def _byte_before_end(raw: Any, distances: Any) -> Any:
    """The byte at a distance from 1 to 3 before the end of each text; 0 for other distances."""
    import pyarrow as pa

    byte_before_end = pc.fill_null(pa.nulls(len(raw), pa.int64()), 0)
    for distance in range(1, _WORD):
        byte = pc.binary_slice(raw, -distance, -distance + 1 or None)
        byte_before_end = pc.if_else(pc.equal(distances, distance), _little_endian(byte, 0, 1), byte_before_end)
    return byte_before_end
