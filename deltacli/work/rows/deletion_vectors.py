"""Find, verify and read deletion vectors.

Spec: Deletion Vectors.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import DataUnreadable, FileMissing, command
from deltacli.delta.data_files import fault_of, inline_bytes, unique_id, vector_file
from deltacli.delta.encoding.roaring import PORTABLE, BitmapFaultError, DeletedRows, parse_bitmap
from deltacli.storage import ReadStorage
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    pass


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
    """The place of a vector in a file, with size and checksum around it. `shown`: the path in messages."""

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
    """Return the rows that a vector deletes, fully verified. Raises DataUnreadable (`dv.*`), naming vector and file."""
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
        about = {} if fault_of(dict(descriptor)) else {"vector": unique_id(dict(descriptor))[:200], "in": shown}
        raise DataUnreadable(
            f"a deletion vector cannot be read: {fault}",
            code=fault.code,
            facts=about,
            hint=command("validate", level="footers") if about else None,
        ) from fault


def find_vector(files: TableFiles, descriptor: Descriptor) -> VectorPlace | None:
    """Return the place of a vector, None if it is inline. Raises VectorFaultError, UsageError for an unknown scheme."""
    if wrong := fault_of(dict(descriptor)):
        raise VectorFaultError("dv.bad-descriptor", wrong[1])
    kind = descriptor["storageType"]
    text = descriptor["pathOrInlineDv"]
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
    """Return the data of an inline vector, which writers pad to groups of five characters. Raises VectorFaultError."""
    data = inline_bytes(descriptor["pathOrInlineDv"])
    size = descriptor.get("sizeInBytes")
    if data is None:
        raise VectorFaultError("dv.bad-z85", "its text is not Z85")
    return data[:size] if isinstance(size, int) and 0 < size <= len(data) else data


def verify_stored_vector(vector_place: VectorPlace, stored: bytes, file_bytes: int | None = None) -> bytes:
    """Return the data of a vector from the bytes at its place, with its checksum verified. Raises VectorFaultError.

    `file_bytes` is the size of the file, if known.
    """
    return verify_vector_bytes(vector_place.size, vector_place.end, stored, file_bytes)


def verify_vector_bytes(expected: int, end: int, stored: bytes, file_bytes: int | None = None) -> bytes:
    """Return the same for a vector of `expected` bytes whose checksum ends at `end`. Raises VectorFaultError."""
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
    """Read the data of a vector, which must have as many rows as its descriptor declares. Raises VectorFaultError."""
    rows = parse_deleted_rows(data)
    if rows.count != descriptor.get("cardinality"):
        raise make_cardinality_error(descriptor, rows)
    return rows


def parse_deleted_rows(data: bytes) -> DeletedRows:
    """Read the data of a vector with any number of rows. Raises VectorFaultError."""
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
