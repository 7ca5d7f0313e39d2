"""Descriptors of deletion vectors as their bitmaps are: length, offset and cardinality. Spec: Deletion Vectors.

A bitmap is intact where its checksum is right. Which one of a file is meant is known only where two of the three values
point to it and to no other: deleted rows must not come back, and others not vanish.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.delta.vectors import vector_file
from deltacli.errors import DeltacliError
from deltacli.typing import JsonObject
from deltacli.work.rows.deletion_vectors import AROUND, Descriptor, VectorFaultError, inline_data, parse_rows

if TYPE_CHECKING:
    from deltacli.work.rows.table_files import TableFiles

_VERSION = b"\x01"
_MOST_BYTES = 256 << 20


class _Stored(NamedTuple):
    """A vector as it is in its file."""

    offset: int
    size: int
    rows: int
    last: int

    def agreement(self, stated: Descriptor) -> int:
        """Return how many of the three values of a descriptor it has."""
        return sum(
            (
                self.offset == (1 if stated.get("offset") is None else stated["offset"]),
                self.size == stated.get("sizeInBytes"),
                self.rows == stated.get("cardinality"),
            )
        )


def true_descriptor(files: TableFiles, stated: Descriptor, records: int | None, taken: Set[int]) -> JsonObject | None:
    """Return a descriptor with the values of its bitmap, None where it is not known which bitmap is meant, or where it
    is damaged. `records` are the rows of the data file, `taken` the offsets of the vectors of other live files there.
    """
    if stated.get("storageType") == "i":
        return _inline(stated, records)
    path = stated.get("pathOrInlineDv")
    if stated.get("storageType") == "u" and isinstance(path, str):
        path = vector_file(path)
    if not isinstance(path, str):
        return None
    try:
        storage, inner = files.below_root(path) if stated["storageType"] == "u" else files.locate(path)
        if storage.stat(inner).size_bytes > _MOST_BYTES:
            return None
        found = list(_vectors(storage.read(inner)))
    except (DeltacliError, VectorFaultError):
        return None
    close = [one for one in found if one.offset not in taken and one.agreement(stated) >= 2]
    if len(close) != 1 or (records is not None and close[0].last >= records):
        return None
    (meant,) = close
    return {**stated, "offset": meant.offset, "sizeInBytes": meant.size, "cardinality": meant.rows}


def _inline(stated: Descriptor, records: int | None) -> Mapping[str, Any] | None:
    """Return the descriptor of an inline vector of another length. It has no checksum: its cardinality proves it."""
    try:
        data = inline_data({**stated, "sizeInBytes": None})
        rows = parse_rows(data)
    except (VectorFaultError, KeyError, TypeError):
        return None
    if rows.count != stated.get("cardinality") or (records is not None and rows.last >= records):
        return None
    return {**stated, "sizeInBytes": len(data)}


def _vectors(data: bytes) -> Iterator[_Stored]:
    """Yield the vectors of a file. Raises VectorFaultError for one that is damaged anywhere."""
    if data[:1] != _VERSION:
        raise VectorFaultError("", "it has another version")
    offset = 1
    while offset < len(data):
        size = int.from_bytes(data[offset : offset + 4], "big")
        end = offset + size + AROUND
        bitmap = data[offset + 4 : offset + 4 + size]
        if end > len(data) or zlib.crc32(bitmap) != int.from_bytes(data[end - 4 : end], "big"):
            raise VectorFaultError("", "its checksum does not match its bytes")
        rows = parse_rows(bitmap)
        yield _Stored(offset, size, rows.count, rows.last)
        offset = end
