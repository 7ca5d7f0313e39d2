"""The files of answers: their lines as actions of a log, whose paths are names made of ids, and their URLs, which are
kept aside.

Spec: File; Data Change Files; File in Delta Format; Deletion Vectors in Delta Sharing.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import uuid
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.vectors import encode_z85
from deltacli.sharing.client.answers import ActionLine
from deltacli.sharing.client.faults import invalid
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.storage.disk_faults import writing_faults

_LARGEST = 2**63 - 1
_KINDS_OF_PARQUET = {"file": "add", "add": "add", "remove": "remove", "cdf": "cdc"}
_KINDS = ("add", "remove", "cdc")


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One file of an answer. `action` is an `add`, `remove` or `cdc` of a log, whose path is `name`."""

    kind: str
    file_id: str
    name: str
    action: Action
    url: str
    size_bytes: int | None
    expires_ms: int | None
    version: int | None
    timestamp_ms: int | None
    vector_name: str | None = None
    vector_url: str | None = None

    def add_urls(self, urls: StoredUrls) -> bool:
        """Add the URLs of the file and of its deletion vector; return False where the file is there already."""
        if self.vector_name is not None:
            urls.add(self.vector_name, self.vector_url, None, self.expires_ms)  # several vectors share a file
        return urls.add(self.name, self.url, self.size_bytes, self.expires_ms)


def read_file(line: ActionLine, form: ResponseFormat) -> SharedFile:
    """Return the file of a line. Raises AnswerInvalid."""
    if form is ResponseFormat.PARQUET:
        return _of_parquet(line)
    if line.kind != "file":
        raise _unexpected(line.kind)
    single = line.fields.get("deltaSingleAction")
    found = [(kind, value) for kind, value in (single or {}).items() if value] if isinstance(single, dict) else []
    if len(found) != 1 or found[0][0] not in _KINDS or not isinstance(found[0][1], dict):
        raise invalid("deltaSingleAction is not one action of a file")
    kind, action = found[0]
    return _of_delta(line.fields, kind, action)


def _of_delta(fields: dict[str, Json], kind: str, wire: Action) -> SharedFile:
    file_id = fields.get("id")
    name, url, action = data_file_name(file_id), wire.get("path"), dict(wire)
    expires_ms = _whole(fields, "expirationTimestamp")
    action["path"] = name
    vector_name = vector_url = None
    if (vector := wire.get("deletionVector")) is not None:
        action["deletionVector"], vector_name, vector_url = _local_vector(vector, fields.get("deletionVectorFileId"))
    size = _whole(wire, "size") if "size" in wire else _whole(fields, "size")
    if kind == "add" and size is None:
        raise invalid("a file has no size", {"id": file_id})
    if kind != "remove":
        action["size"] = size
    return SharedFile(
        kind,
        str(file_id),
        name,
        action,
        _url(url),
        size,
        expires_ms,
        _whole(fields, "version"),
        _whole(fields, "timestamp"),
        vector_name,
        vector_url,
    )


def _of_parquet(line: ActionLine) -> SharedFile:
    kind, fields = _KINDS_OF_PARQUET.get(line.kind), line.fields
    if kind is None:
        raise _unexpected(line.kind)
    name, size = data_file_name(fields.get("id")), _whole(fields, "size")
    if size is None and kind == "add":
        raise invalid("a file has no size", {"id": fields.get("id")})
    timestamp_ms = _whole(fields, "timestamp")
    values = fields.get("partitionValues") or {}
    if not isinstance(values, dict):
        raise invalid("partitionValues is not an object", {"id": fields.get("id")})
    # An empty text is null. Spec: Partition Value Serialization.
    partition = {key: None if value == "" else value for key, value in values.items()}
    action: Action = {"path": name, "partitionValues": partition, "size": size, "stats": fields.get("stats")}
    if kind == "add":
        action["modificationTime"] = timestamp_ms or 0
    return SharedFile(
        kind,
        str(fields["id"]),
        name,
        action,
        _url(fields.get("url")),
        size,
        _whole(fields, "expirationTimestamp"),
        _whole(fields, "version"),
        timestamp_ms,
    )


def _local_vector(vector: object, vector_id: object) -> tuple[Action, str | None, str | None]:
    """Return a descriptor whose file has a name in the table's directory, the name, and the URL; an inline vector as it
    is.
    """
    if not isinstance(vector, dict):
        raise invalid("a deletion vector is not an object")
    if vector.get("storageType") == "i":
        return vector, None, None
    url = vector.get("pathOrInlineDv")
    if vector.get("storageType") != "p" or not isinstance(url, str):
        raise invalid("a deletion vector has no URL", {"storageType": vector.get("storageType")})
    try:
        name = vector_uuid(vector_id, url)
    except ValueError:
        raise invalid("a deletion vector has no URL") from None
    return {**vector, "storageType": "u", "pathOrInlineDv": vector_text(name)}, vector_file_name(name), url


def _url(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise invalid("a file has no URL")
    return value


def _whole(fields: dict[str, Json], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (type(value) is not int or not 0 <= value <= _LARGEST):
        raise invalid(f"{name} of a file is not a whole number", {"found": value})
    return value


def _unexpected(kind: str) -> Exception:
    return invalid("a line has an unexpected action", {"found": kind})


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
    return memoryview(values.buffers()[1])[values.offset * 8 : (values.offset + len(values)) * 8]
