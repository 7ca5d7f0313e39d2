"""Z85, the spelling of bytes in deletion vector descriptors. Spec: Deletion Vector Descriptor Schema."""

from __future__ import annotations

import re
from uuid import UUID

from deltacli.patterns import pattern

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(ALPHABET)}
UUID_LENGTH = 20

VECTOR_FILE = pattern(r"(?:.*/)?deletion_vector_[^/]*\.bin", re.DOTALL)
"""Paths of files of deletion vectors."""


def decode_z85(text: str) -> bytes | None:
    """Return the bytes, four for every five characters, or None if the text is invalid."""
    if len(text) % 5:
        return None
    decoded = bytearray()
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            value = _VALUES.get(character)
            if value is None:
                return None
            number = number * 85 + value
        if number >= 1 << 32:
            return None
        decoded += number.to_bytes(4, "big")
    return bytes(decoded)


def encode_z85(data: bytes) -> str:
    """Return the text of bytes, whose number is a multiple of four."""
    digits = []
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        digits += [ALPHABET[number // 85**power % 85] for power in range(4, -1, -1)]
    return "".join(digits)


def decode_padded_z85(text: str) -> bytes | None:
    """Return the bytes of a text whose last group may represent fewer than four, or None if it is invalid.

    Z85 has no such group. A library used by the Rust kernel writes `##093` for two bytes: as many `#` as bytes are
    missing, and the rest in base 85. No other text can begin a group with `#`, which would not fit into 32 bits.
    """
    head, tail = text[:-5], text[-5:]
    missing = len(tail) - len(tail.lstrip("#"))
    if not 1 <= missing <= 3:
        return decode_z85(text)
    start, number = decode_z85(head), 0
    for character in tail[missing:]:
        number = number * 85 + _VALUES.get(character, 1 << 32)
    left = 4 - missing
    return None if start is None or number >> (8 * left) else start + number.to_bytes(left, "big")


def vector_file(path_or_inline: str) -> str | None:
    """Return the path, relative to the table, of the file that a `u` descriptor names, or None if the text is
    invalid.
    """
    if len(path_or_inline) < UUID_LENGTH:
        return None
    prefix, encoded = path_or_inline[:-UUID_LENGTH], path_or_inline[-UUID_LENGTH:]
    data = decode_z85(encoded)
    if data is None:
        return None
    name = f"deletion_vector_{UUID(bytes=data)}.bin"
    return f"{prefix}/{name}" if prefix else name
