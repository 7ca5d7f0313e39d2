"""Deletion vectors of data files as the log describes them, and symlink manifests.

Engines write a file per partition below `_symlink_format_manifest`, with the URI of a data file per line. Paths of the
log are explained in `deltacli.delta.paths`.

Spec: Deletion Vectors; Deletion Vector Descriptor Schema (derived fields).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import Json
from deltacli.delta.paths.spelling import encode_percent_signs
from deltacli.delta.paths.spelling_columns import locate_all

# -- deletion vector descriptors ---------------------------------------------------------------------------------------


def find_descriptor_fault(descriptor: object) -> tuple[str, str] | None:
    """Return the fault of a raw descriptor that prevents an id, as a rule id and the message; or None."""
    if not isinstance(descriptor, dict):
        return ("action.wrong-type", "deletionVector has the wrong type")
    for name in ("storageType", "pathOrInlineDv"):
        value = descriptor.get(name)
        if value is None:
            return ("action.missing-required", f"deletionVector.{name} is missing")
        if not isinstance(value, str):
            return ("action.wrong-type", f"deletionVector.{name} has the wrong type")
    if not isinstance(descriptor.get("offset"), int | None):
        return ("action.wrong-type", "deletionVector.offset has the wrong type")
    return None


def unique_id(descriptor: dict[str, Json] | None) -> str:
    """Return the id that is part of a logical file's key, empty without a vector. `offset: 0` and no offset differ."""
    if not descriptor:
        return ""
    offset = descriptor.get("offset")
    name = f"{descriptor.get('storageType')}{descriptor.get('pathOrInlineDv')}"
    return name if offset is None else f"{name}@{offset}"


def repeat_empty_vector_id(count: int) -> pa.Array:
    """Return the ids of `count` files without a vector. Those of few files share their memory."""
    return _few_texts().slice(0, count) if count <= FEW_FILES else pa.repeat(pa.scalar(""), count)


FEW_FILES = 1 << 15
"""More than in a block of a commit."""


@lru_cache(maxsize=1)
def _few_texts() -> Any:  # Any: pyarrow has no types
    return pa.repeat(pa.scalar(""), FEW_FILES)


def unique_id_column(descriptors: pa.StructArray) -> pa.Array:
    """Return `unique_id` for a column of descriptors: struct array in, string array out, `""` if there is none."""
    if descriptors.null_count == len(descriptors):
        return repeat_empty_vector_id(len(descriptors))
    kind, place = (
        pc.cast(pc.struct_field(descriptors, [part]), pa.string()) for part in ("storageType", "pathOrInlineDv")
    )
    name = pc.binary_join_element_wise(kind, place, "")
    suffix = pa.scalar("")
    if descriptors.type.get_field_index("offset") >= 0:
        offset = pc.cast(pc.struct_field(descriptors, ["offset"]), pa.string())
        suffix = pc.coalesce(pc.binary_join_element_wise("@", offset, ""), pa.scalar(""))
    return pc.coalesce(pc.binary_join_element_wise(name, suffix, ""), pa.scalar(""))


def name_nothing(descriptors: pa.StructArray) -> pa.Array:
    """Return which descriptors of a checkpoint stand for none: some writers fill the struct of a file without a vector
    with nulls, or with empty texts and zeros. The Rust kernel reads the first as no vector, and refuses the second.
    """
    found = pc.is_valid(descriptors)
    for part, nothing in (("cardinality", 0), ("storageType", ""), ("pathOrInlineDv", "")):
        if found.true_count and descriptors.type.get_field_index(part) >= 0:
            found = pc.and_(found, pc.equal(pc.coalesce(pc.struct_field(descriptors, [part]), nothing), nothing))
    return found


def without_empty(descriptors: pa.StructArray) -> pa.StructArray:
    """Return a column of descriptors with null for those that name nothing."""
    if descriptors.null_count == len(descriptors) or not (is_empty := name_nothing(descriptors)).true_count:
        return descriptors
    return pc.if_else(is_empty, pa.scalar(None, descriptors.type), descriptors)


def without_empty_vectors(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return file actions of a checkpoint with null for descriptors of vectors that name nothing."""
    index, vectors = rows.schema.get_field_index("deletionVector"), rows.column("deletionVector")
    found = without_empty(vectors)
    return rows if found is vectors else rows.set_column(index, rows.schema.field(index), found)


ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(ALPHABET)}
UUID_LENGTH = 20

VECTOR_FILE = re.compile(r"(?:.*/)?deletion_vector_[^/]*\.bin", re.DOTALL)
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


EMPTY_VECTOR_DIRECTORY = "deltacli_no_rows"
"""Below the table: the directory of the vectors that delete no row. By it they are recognized in the log."""
_EMPTY_BITMAP = (1681511377).to_bytes(4, "little") + bytes(8)
"""The magic number of the format, and zero bitmaps."""


def describe_empty_vector(uuid: UUID) -> dict[str, Json]:
    """Return a descriptor of a vector that deletes no row. With it a file has another key than without a vector.

    The vector is in a file, which has to be there (`empty_vector_bytes`). An inline one would need none, but VACUUM of
    Delta for Spark 4.4.0 fails if the log has a remove with an inline vector.

    Args:
        uuid: The id in the name of the file.
    """
    return {
        "storageType": "u",
        "pathOrInlineDv": EMPTY_VECTOR_DIRECTORY + encode_z85(uuid.bytes),
        "offset": 1,
        "sizeInBytes": len(_EMPTY_BITMAP),
        "cardinality": 0,
    }


def empty_vector_bytes() -> bytes:
    """Return the content of a file with a vector that deletes no row. Spec: Deletion Vector File Storage Format."""
    size, checksum = len(_EMPTY_BITMAP).to_bytes(4, "big"), crc32(_EMPTY_BITMAP).to_bytes(4, "big")
    return b"\x01" + size + _EMPTY_BITMAP + checksum


def vector_file(path_or_inline: str) -> str | None:
    """Return the path, relative to the table, of the file that a `u` descriptor names; None for an invalid one."""
    if len(path_or_inline) < UUID_LENGTH:
        return None
    prefix, encoded = path_or_inline[:-UUID_LENGTH], path_or_inline[-UUID_LENGTH:]
    data = decode_z85(encoded)
    if data is None:
        return None
    name = f"deletion_vector_{UUID(bytes=data)}.bin"
    return f"{prefix}/{name}" if prefix else name


# -- symlink manifests -------------------------------------------------------------------------------------------------

MANIFESTS = "_symlink_format_manifest"


def is_manifest(path: str) -> bool:
    """Return True for a path below a table that engines read as a symlink manifest.

    Engines skip hidden names. One of them is `.manifest.crc`, the checksum that Hadoop writes beside each manifest on a
    local path. A directory may begin with `_` or `.`, because the name of a partition column may.
    """
    return path.startswith(f"{MANIFESTS}/") and not path.rpartition("/")[2].startswith(("_", "."))


def find_paths_in_manifest(manifest: bytes, uris: Iterable[str]) -> Sequence[set[str]]:
    """Return for each line of a manifest the paths below the table, which has these URIs, that it may mean. One with
    another root, such as that of a mount, may mean any file whose path it ends with.
    """
    lines = _lines_of(manifest)
    return [paths or _ends_of(line) for line, paths in zip(lines, locate_manifest_lines(manifest, uris), strict=True)]


def locate_manifest_lines(manifest: bytes, uris: Iterable[str]) -> Sequence[set[str]]:
    """Return for each line of a manifest the paths below these URIs that it may mean: engines write it decoded or
    percent-encoded. A line with another root has none.
    """
    lines = _lines_of(manifest)
    found = [set[str]() for _ in lines]
    for uri in uris:
        for spelled in (list(map(encode_percent_signs, lines)), lines):
            for paths, path in zip(found, locate_all(spelled, uri), strict=True):
                if path is not None:
                    paths.add(path)
    return found


def _lines_of(manifest: bytes) -> list[str]:
    text = manifest.decode("utf-8", "surrogateescape").replace("\r", "\n")
    return [line for line in text.split("\n") if line]


def _ends_of(line: str) -> set[str]:
    parts = [part for part in line.split("/") if part]
    return {"/".join(parts[start:]) for start in range(len(parts))}
