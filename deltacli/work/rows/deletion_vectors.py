"""Find, verify and read deletion vectors.

A vector is in the text of its descriptor, or in a file with other vectors. There each has its size before it and its
checksum after it:

    offset  0         1            5      5 + size     9 + size
            version   size (4)     data   CRC-32 (4)   the next vector …

Spec: Deletion Vectors.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from deltacli.core.errors import DataUnreadable, FileMissing, command
from deltacli.delta.data_files import find_descriptor_fault, inline_bytes, unique_id, vector_file
from deltacli.delta.encoding.roaring import PORTABLE, BitmapFaultError, DeletedRows, parse_bitmap
from deltacli.storage import ReadStorage
from deltacli.work.table_files import TableFiles

_FIRST_OFFSET = 1
"""Offset of the first vector in a file, after the version byte."""
FRAME_BYTES = 8
"""Bytes of a vector in a file in addition to its data: the size before it, and the checksum after it."""

Descriptor = Mapping[str, Any]
"""A deletion vector descriptor as found in the log; Any: JSON values."""


class VectorFaultError(ValueError):
    """The reason why a vector cannot be read. `code` is the id of the violated rule."""

    def __init__(self, code: str, reason: str, seen: object = None, expected: object = None) -> None:
        super().__init__(reason)
        self.code = code
        self.seen = seen
        self.expected = expected


class VectorPlace(NamedTuple):
    """The place of a vector in a file.

    Attributes:
        storage: The store that has the file.
        path: The file in this store.
        shown: The path in messages.
        offset: Where the size before the data begins.
        size: The bytes of the data, by the log.
    """

    storage: ReadStorage
    path: str
    shown: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        """Return the offset of the first byte after the checksum."""
        return self.offset + self.size + FRAME_BYTES


def read_vector(files: TableFiles, descriptor: Descriptor) -> DeletedRows:
    """Return the rows that a vector deletes, fully verified.

    Its size, its checksum and its number of rows are those that file and log state: a wrong vector would bring deleted
    rows back, or hide live ones.

    Raises:
        DataUnreadable: `dv.*`, naming the vector and its file.
    """
    shown = "its descriptor"
    try:
        vector_place = find_vector(files, descriptor)
        if vector_place is None:
            return parse_vector(descriptor, decode_inline_vector(descriptor))
        shown = vector_place.shown
        stored = vector_place.storage.read_range(
            vector_place.path, vector_place.offset, vector_place.size + FRAME_BYTES
        )
        return parse_vector(descriptor, verify_stored_vector(vector_place, stored))
    except FileMissing as fault:
        raise DataUnreadable(
            f"the file of a deletion vector does not exist: {shown}",
            code="dv.file-missing",
            facts={"vector": unique_id(dict(descriptor))[:200], "in": shown},
            hint=fault.hint or command("validate", level="storage"),
        ) from fault
    except VectorFaultError as fault:
        about = (
            {}
            if find_descriptor_fault(dict(descriptor))
            else {"vector": unique_id(dict(descriptor))[:200], "in": shown}
        )
        raise DataUnreadable(
            f"a deletion vector cannot be read: {fault}",
            code=fault.code,
            facts=about,
            hint=command("validate", level="footers") if about else None,
        ) from fault


def find_vector(files: TableFiles, descriptor: Descriptor) -> VectorPlace | None:
    """Return the place of a vector; None if it is inline.

    Raises:
        VectorFaultError: If the descriptor is not valid.
        PathExternal: If the file is outside the table and the allowed prefixes.
        UsageError: If the allowed store has an unknown scheme.
    """
    if wrong := find_descriptor_fault(dict(descriptor)):
        raise VectorFaultError("dv.bad-descriptor", wrong[1])
    kind = descriptor["storageType"]
    text = descriptor["pathOrInlineDv"]

    # "i" is inline, "u" a file of the table that is named after a UUID, and "p" a file with an absolute path.
    if kind == "i":
        return None
    if kind not in ("u", "p"):
        raise VectorFaultError("dv.bad-descriptor", f"its storage type is {kind[:20]}")
    path = vector_file(text) if kind == "u" else text
    if path is None:
        raise VectorFaultError("dv.bad-z85", "its text does not identify a file")
    storage, inner = files.locate_below_root(path) if kind == "u" else files.locate(path)

    size = descriptor.get("sizeInBytes")
    offset = descriptor.get("offset")
    offset = _FIRST_OFFSET if offset is None else offset
    if not isinstance(size, int) or size < 0 or not isinstance(offset, int) or offset < 0:
        raise VectorFaultError("dv.bad-descriptor", "sizeInBytes or offset is not a valid number")
    return VectorPlace(storage, inner, path, offset, size)


def decode_inline_vector(descriptor: Descriptor) -> bytes:
    """Return the data of an inline vector. Raises VectorFaultError.

    Z85 writes four bytes as five characters. Writers pad the last group, so the data may be longer than its size.
    """
    data = inline_bytes(descriptor["pathOrInlineDv"])
    size = descriptor.get("sizeInBytes")
    if data is None:
        raise VectorFaultError("dv.bad-z85", "its text is not Z85")
    return data[:size] if isinstance(size, int) and 0 < size <= len(data) else data


def verify_stored_vector(vector_place: VectorPlace, stored: bytes, file_bytes: int | None = None) -> bytes:
    """Return the data of a vector from the bytes at its place, with size and checksum verified.

    Args:
        vector_place: The place of the vector.
        stored: The bytes there, fewer than expected if the file ends before.
        file_bytes: The size of the file, if known.

    Raises:
        VectorFaultError: If the bytes are not those of the vector.
    """
    return verify_vector_bytes(vector_place.size, vector_place.end, stored, file_bytes)


def verify_vector_bytes(expected: int, end: int, stored: bytes, file_bytes: int | None = None) -> bytes:
    """Return the data of a vector from the bytes in its file, with size and checksum verified.

    Args:
        expected: The bytes of the data, by the log.
        end: The offset of the first byte after the checksum.
        stored: The bytes of the vector, with those around the data.
        file_bytes: The size of the file, if known.

    Raises:
        VectorFaultError: If the bytes are not those of the vector.
    """
    if len(stored) < expected + FRAME_BYTES:
        reason = f"the file ends before byte {end}"
        raise VectorFaultError("dv.file-too-short", reason, seen=file_bytes, expected=f"at least {end}")
    size = int.from_bytes(stored[:4], "big")
    if size != expected:
        reason = f"it has {size} bytes by its file, but {expected} by the log"
        raise VectorFaultError("dv.size-mismatch", reason, seen=expected, expected=size)
    data = stored[4 : 4 + expected]
    checksum = int.from_bytes(stored[4 + expected :], "big")
    if (computed := zlib.crc32(data)) != checksum:
        reason = "its checksum does not match its bytes"
        raise VectorFaultError("dv.crc-mismatch", reason, seen=f"{checksum:08x}", expected=f"{computed:08x}")
    return data


def parse_vector(descriptor: Descriptor, data: bytes) -> DeletedRows:
    """Return the rows of a vector, which must be as many as its descriptor declares. Raises VectorFaultError."""
    rows = parse_deleted_rows(data)
    if rows.count != descriptor.get("cardinality"):
        raise make_cardinality_error(descriptor, rows)
    return rows


def parse_deleted_rows(data: bytes) -> DeletedRows:
    """Return the rows of a vector, however many they are. Raises VectorFaultError."""
    try:
        return parse_bitmap(data)
    except BitmapFaultError as fault:
        if fault.code == "dv.magic":
            seen = int.from_bytes(data[:4], "little")
            raise VectorFaultError(fault.code, str(fault), seen=seen, expected=PORTABLE) from fault
        raise VectorFaultError(fault.code, str(fault)) from fault


def make_cardinality_error(descriptor: Descriptor, rows: DeletedRows) -> VectorFaultError:
    """Return the fault of a vector whose number of rows differs from its descriptor."""
    told = descriptor.get("cardinality")
    reason = f"it deletes {rows.count} rows, but {told} by the log"
    return VectorFaultError("dv.cardinality-mismatch", reason, seen=told, expected=rows.count)
