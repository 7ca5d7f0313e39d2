"""Reading a deletion vector, from its file or out of its descriptor. Spec: Deletion Vectors."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from deltacli.delta.deletion_vector import fault_of, unique_id
from deltacli.delta.roaring import BitmapFaultError, DeletedRows, parse_bitmap
from deltacli.delta.z85 import decode_padded_z85, vector_file
from deltacli.errors import DataUnreadable, FileMissing
from deltacli.work.table_files import TableFiles

_FIRST = 1
"""Where the first vector of a file begins: after the byte that tells the version."""

Descriptor = Mapping[str, Any]
"""A deletion vector descriptor as found in the log; Any: JSON values."""


def read_vector(files: TableFiles, descriptor: Descriptor) -> DeletedRows:
    """Return the rows that a vector deletes, its checksum, size and cardinality proven.

    Raises DataUnreadable (`dv.*`), naming the vector and its file.
    """
    if wrong := fault_of(dict(descriptor)):
        raise DataUnreadable(f"a deletion vector can't be read: {wrong.text}", code="dv.bad-descriptor")
    kind, text = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "i":
        place, data = "its descriptor", _inline(descriptor, text)
    elif kind in ("u", "p"):
        path = vector_file(text) if kind == "u" else None
        if kind == "u" and path is None:
            raise _fault(descriptor, "its descriptor", "dv.bad-z85", "its file can't be told from the text")
        place, data = _stored(files, descriptor, path, text)
    else:
        raise _fault(descriptor, "its descriptor", "dv.bad-descriptor", f"its storage type is {kind[:20]}")
    try:
        rows = parse_bitmap(data)
    except BitmapFaultError as fault:
        raise _fault(descriptor, place, fault.code, str(fault)) from fault
    if rows.count != descriptor.get("cardinality"):
        reason = f"it deletes {rows.count} rows, and the log says {descriptor.get('cardinality')}"
        raise _fault(descriptor, place, "dv.cardinality-mismatch", reason)
    return rows


def _inline(descriptor: Descriptor, text: str) -> bytes:
    """The bytes of an inline vector; writers fill up the text to whole groups of five characters."""
    data, size = decode_padded_z85(text), descriptor.get("sizeInBytes")
    if data is None:
        raise _fault(descriptor, "its descriptor", "dv.bad-z85", "its text is no Z85")
    return data[:size] if isinstance(size, int) and 0 < size <= len(data) else data


def _stored(files: TableFiles, descriptor: Descriptor, path: str | None, text: str) -> tuple[str, bytes]:
    """The place of a vector in a file, for errors, and its bytes."""
    storage, inner = files.below_root(path) if path is not None else files.locate(text)
    size, offset = descriptor.get("sizeInBytes"), descriptor.get("offset")
    offset = _FIRST if offset is None else offset
    if not isinstance(size, int) or size < 0 or not isinstance(offset, int) or offset < 0:
        raise _fault(descriptor, "its descriptor", "dv.bad-descriptor", "sizeInBytes or offset is no such number")
    place = path if path is not None else text
    try:
        data = storage.read_range(inner, offset, size + 8)
    except FileMissing as fault:
        raise DataUnreadable(
            f"the file of a deletion vector does not exist: {place}",
            code="dv.file-missing",
            facts={"vector": unique_id(dict(descriptor))[:200], "in": place},
            hint="deltacli validate {table} --level storage",
        ) from fault
    if len(data) < size + 8:
        reason = f"the file ends before byte {offset + size + 8}"
        raise _fault(descriptor, place, "dv.file-too-short", reason)
    found = int.from_bytes(data[:4], "big")
    if found != size:
        raise _fault(descriptor, place, "dv.size-mismatch", f"the file says {found} bytes, and the log {size}")
    content = data[4 : 4 + size]
    if zlib.crc32(content) != int.from_bytes(data[4 + size :], "big"):
        raise _fault(descriptor, place, "dv.crc-mismatch", "its checksum does not fit its bytes")
    return place, content


def _fault(descriptor: Descriptor, place: str, code: str, reason: str) -> DataUnreadable:
    return DataUnreadable(
        f"a deletion vector can't be read: {reason}",
        code=code,
        facts={"vector": unique_id(dict(descriptor))[:200], "in": place},
        hint="deltacli validate {table} --level storage",
    )
