"""Deletion vector descriptors, and Z85, in which they hold bytes. Spec: Deletion Vectors; Deletion Vector Descriptor
Schema (derived fields).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from deltacli.arrow import compute as pc
from deltacli.core.patterns import pattern
from deltacli.core.typing import Json

if TYPE_CHECKING:
    import pyarrow


class DescriptorFault(NamedTuple):
    """The fault of a descriptor that does not name a vector: a rule id, and the message."""

    code: str
    text: str


def fault_of(descriptor: object) -> DescriptorFault | None:
    """Return the fault of a raw descriptor that prevents an id, or None."""
    if not isinstance(descriptor, dict):
        return DescriptorFault("action.wrong-type", "deletionVector has the wrong type")
    for name in ("storageType", "pathOrInlineDv"):
        value = descriptor.get(name)
        if value is None:
            return DescriptorFault("action.missing-required", f"deletionVector.{name} is missing")
        if not isinstance(value, str):
            return DescriptorFault("action.wrong-type", f"deletionVector.{name} has the wrong type")
    if not isinstance(descriptor.get("offset"), int | None):
        return DescriptorFault("action.wrong-type", "deletionVector.offset has the wrong type")
    return None


def unique_id(descriptor: dict[str, Json] | None) -> str:
    """Return the id that is part of a logical file's key; empty without a vector. `offset: 0` and no offset are two
    ids.
    """
    if not descriptor:
        return ""
    offset = descriptor.get("offset")
    name = f"{descriptor.get('storageType')}{descriptor.get('pathOrInlineDv')}"
    return name if offset is None else f"{name}@{offset}"


def no_vector_ids(count: int) -> pyarrow.Array:
    """Return the ids of `count` files without a vector."""
    import pyarrow

    return pyarrow.repeat(_empty_text(), count)


@lru_cache(maxsize=1)
def _empty_text() -> Any:  # Any: pyarrow has no types
    import pyarrow

    return pyarrow.scalar("")


def unique_id_column(descriptors: pyarrow.StructArray) -> pyarrow.Array:
    """Return `unique_id` for a column of descriptors: struct array in, string array out, `""` if there is none."""
    import pyarrow

    if descriptors.null_count == len(descriptors):
        return no_vector_ids(len(descriptors))
    kind, place = (
        pc.cast(pc.struct_field(descriptors, [part]), pyarrow.string()) for part in ("storageType", "pathOrInlineDv")
    )
    name = pc.binary_join_element_wise(kind, place, "")
    suffix = pyarrow.scalar("")
    if descriptors.type.get_field_index("offset") >= 0:
        offset = pc.cast(pc.struct_field(descriptors, ["offset"]), pyarrow.string())
        suffix = pc.coalesce(pc.binary_join_element_wise("@", offset, ""), pyarrow.scalar(""))
    return pc.coalesce(pc.binary_join_element_wise(name, suffix, ""), pyarrow.scalar(""))


def name_nothing(descriptors: pyarrow.StructArray) -> pyarrow.Array:
    """Return which descriptors of a checkpoint stand for none: some writers fill the struct of a file without a vector
    with nulls, or with empty texts and zeros. The Rust kernel reads the first as no vector, and refuses the second.
    """
    found = pc.is_valid(descriptors)
    for part, nothing in (("storageType", ""), ("pathOrInlineDv", ""), ("cardinality", 0)):
        if descriptors.type.get_field_index(part) >= 0:
            found = pc.and_(found, pc.equal(pc.coalesce(pc.struct_field(descriptors, [part]), nothing), nothing))
    return found


def without_empty(descriptors: pyarrow.StructArray) -> pyarrow.StructArray:
    """Return a column of descriptors with null for those that name nothing."""
    import pyarrow

    if descriptors.null_count == len(descriptors) or not (is_empty := name_nothing(descriptors)).true_count:
        return descriptors
    return pc.if_else(is_empty, pyarrow.scalar(None, descriptors.type), descriptors)


def without_empty_vectors(rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return file actions of a checkpoint with null for descriptors of vectors that name nothing."""
    index, vectors = rows.schema.get_field_index("deletionVector"), rows.column("deletionVector")
    found = without_empty(vectors)
    return rows if found is vectors else rows.set_column(index, rows.schema.field(index), found)


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


def inline_bytes(text: str) -> bytes | None:
    """Return the bytes of the text of an inline vector, or None if it is invalid. Readers and rules ask this function.

    Z85 has only groups for four bytes. A library of the Rust kernel writes `##093` for two bytes at the end: as many
    `#` as bytes are missing, and the rest in base 85. No other text can begin a group with `#`, which would not fit
    into 32 bits.
    """
    head, tail = text[:-5], text[-5:]
    missing = len(tail) - len(tail.lstrip("#"))
    if not 1 <= missing <= 3:
        return decode_z85(text) or None
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
