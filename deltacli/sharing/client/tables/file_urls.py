"""The URLs of the files of a version, by the names that files have in the client. They stand in a file without a name,
because a million of them take half a gigabyte.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import uuid
from array import array
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deltacli.delta.vectors.z85 import encode_z85
from deltacli.sharing.client.faults import invalid
from deltacli.storage.disk_faults import writing_faults
from deltacli.typing import ArrowArray

_PLAIN = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_VECTORS = uuid.UUID("6f0e2f0e-7d53-4c5e-9a0e-5a2f5c0b7a11")
_BUFFERED_BYTES = 1 << 20
UNKNOWN = -1


class FileUrl(NamedTuple):
    """Where a file can be read now. `size_bytes` and `expires_ms` are None where the server did not say."""

    url: str
    size_bytes: int | None
    expires_ms: int | None


def data_file_name(file_id: object) -> str:
    """Return the name of a data file with an id: one path segment, whatever the server put into the id."""
    if not isinstance(file_id, str) or not file_id:
        raise invalid("a file has no id")
    if _PLAIN.fullmatch(file_id):
        return f"{file_id}.parquet"
    return f"id_{hashlib.sha256(file_id.encode('utf-8', 'surrogatepass')).hexdigest()}.parquet"


def vector_uuid(vector_id: object, url: str) -> uuid.UUID:
    """Return the UUID that stands for a deletion vector file; without an id it is that of the URL's path."""
    if isinstance(vector_id, str) and vector_id:
        return uuid.uuid5(_VECTORS, f"id {vector_id}")
    parts = urlsplit(url)
    return uuid.uuid5(_VECTORS, f"url {parts.scheme}://{parts.netloc}{parts.path}")


def vector_text(name: uuid.UUID) -> str:
    """Return the UUID as in a descriptor of a file in the table's own directory."""
    return encode_z85(name.bytes)


def vector_file_name(name: uuid.UUID) -> str:
    """Return the name of a deletion vector file."""
    return f"deletion_vector_{name}.bin"


class StoredUrls:
    """URLs by file name. Fill it first; then it may be read from any thread."""

    def __init__(self) -> None:
        with writing_faults(tempfile.gettempdir(), "a temporary file"):
            self._descriptor, place = tempfile.mkstemp(prefix="deltacli-urls-")
            os.unlink(place)
        self._pending: list[Any] = []  # Any: bytes, or a buffer of Arrow
        self._pending_bytes = 0
        self._end = 0
        self._rows: dict[str, int] = {}
        self._offsets, self._sizes, self._expires = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def names(self) -> list[str]:
        """Return the names of all files, in the order of the answer."""
        return list(self._rows)

    def add(self, name: str, url: object, size_bytes: int | None, expires_ms: int | None) -> bool:
        """Add a file; return False where the name is there already, which changes nothing."""
        if not isinstance(url, str) or not url or not url.isascii():
            raise invalid("a file has no URL")
        if name in self._rows:
            return False
        data = url.encode("ascii")
        self._rows[name] = len(self._offsets)
        self._offsets.append(self._end)
        self._sizes.append(UNKNOWN if size_bytes is None else size_bytes)
        self._expires.append(UNKNOWN if expires_ms is None else expires_ms)
        self._end += len(data)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _BUFFERED_BYTES:
            self._write()
        return True

    def has_any(self, names: list[str]) -> bool:
        """Return True where a name is there already, or occurs twice among these."""
        return len(set(names)) < len(names) or not self._rows.keys().isdisjoint(names)

    def add_columns(self, names: list[str], urls: ArrowArray, sizes: ArrowArray, expires_ms: ArrowArray) -> None:
        """Add many files of which none is there. URLs are ASCII and not empty; times may be null."""
        import pyarrow as pa

        from deltacli.arrow import compute as pc

        first, count = len(self._offsets), len(names)
        self._rows.update(zip(names, range(first, first + count), strict=True))
        self._sizes.frombytes(_int64_bytes(sizes))
        self._expires.frombytes(_int64_bytes(pc.coalesce(expires_ms, pa.scalar(UNKNOWN, pa.int64()))))
        _, offsets, data = urls.buffers()
        ends = pa.Array.from_buffers(pa.int32(), count + 1, [None, offsets], offset=urls.offset)
        begin, end = ends[0].as_py(), ends[count].as_py()
        moved = pc.add(pc.cast(ends, pa.int64()), pa.scalar(self._end - begin, pa.int64()))
        self._offsets.frombytes(_int64_bytes(moved.slice(0, count)))
        self._end += end - begin
        self._pending.append(data[begin:end])
        self._pending_bytes += end - begin
        if self._pending_bytes >= _BUFFERED_BYTES:
            self._write()

    def finish(self) -> None:
        """Make all URLs readable."""
        self._write()
        self._offsets.append(self._end)

    def find(self, name: str) -> FileUrl | None:
        """Return the URL of a file, None for a name that no file has."""
        row = self._rows.get(name)
        if row is None:
            return None
        start, end = self._offsets[row], self._offsets[row + 1]
        url = os.pread(self._descriptor, end - start, start).decode("ascii")
        size, expires = self._sizes[row], self._expires[row]
        return FileUrl(url, None if size == UNKNOWN else size, None if expires == UNKNOWN else expires)

    def size_of(self, name: str) -> int | None:
        """Return the bytes of a file as the server declared them; None for an unknown file or size."""
        row = self._rows.get(name)
        return None if row is None or self._sizes[row] == UNKNOWN else self._sizes[row]

    def _write(self) -> None:
        rest = memoryview(b"".join(self._pending))
        with writing_faults(tempfile.gettempdir(), "a temporary file"):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        self._pending, self._pending_bytes = [], 0

    def __del__(self) -> None:
        os.close(self._descriptor)


def _int64_bytes(values: ArrowArray) -> memoryview:
    """Return the bytes of whole numbers."""
    return memoryview(values.buffers()[1])[values.offset * 8 : (values.offset + len(values)) * 8]
