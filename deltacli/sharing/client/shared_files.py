"""The files of answers, one by one and in columns: actions of a log whose paths are names made of ids, and their URLs.

Only lines that are certain to give the same result are read here; for any other text the answer is None, and the caller
reads it line by line, which also finds the error in it.

Spec: File; Data Change Files; File in Delta Format; Deletion Vectors in Delta Sharing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import uuid
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowSchema, ArrowType, Json
from deltacli.delta.data_files import encode_z85
from deltacli.delta.encoding.ndjson import parse_ndjson
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas
from deltacli.sharing.client.faults import invalid_answer
from deltacli.sharing.client.table_requests import ActionLine
from deltacli.sharing.protocol.parameters import ResponseFormat
from deltacli.storage.open_descriptor import OpenDescriptor
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.commits.blocks import count_up_to

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
        raise invalid_answer("deltaSingleAction is not one action of a file")
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
        raise invalid_answer("a file has no size", {"id": file_id})
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
        raise invalid_answer("a file has no size", {"id": fields.get("id")})
    timestamp_ms = _whole(fields, "timestamp")
    values = fields.get("partitionValues") or {}
    if not isinstance(values, dict):
        raise invalid_answer("partitionValues is not an object", {"id": fields.get("id")})
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
    """Return a descriptor whose file has a name in the table's directory, the name, and the URL; else an inline one."""
    if not isinstance(vector, dict):
        raise invalid_answer("a deletion vector is not an object")
    if vector.get("storageType") == "i":
        return vector, None, None
    url = vector.get("pathOrInlineDv")
    if vector.get("storageType") != "p" or not isinstance(url, str):
        raise invalid_answer("a deletion vector has no URL", {"storageType": vector.get("storageType")})
    try:
        name = vector_uuid(vector_id, url)
    except ValueError:
        raise invalid_answer("a deletion vector has no URL") from None
    return {**vector, "storageType": "u", "pathOrInlineDv": vector_text(name)}, vector_file_name(name), url


def _url(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise invalid_answer("a file has no URL")
    return value


def _whole(fields: dict[str, Json], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (type(value) is not int or not 0 <= value <= _LARGEST):
        raise invalid_answer(f"{name} of a file is not a whole number", {"found": value})
    return value


def _unexpected(kind: str) -> Exception:
    return invalid_answer("a line has an unexpected action", {"found": kind})


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
        raise invalid_answer("a file has no id")
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
        with translate_write_errors(tempfile.gettempdir(), "a temporary file"):
            descriptor, place = tempfile.mkstemp(prefix="deltacli-urls-")
            self._file = OpenDescriptor(descriptor)
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
        url = _url(url)
        if not url.isascii():
            # Percent-encoding it here could break the signature of the URL.
            other = next(character for character in url if not character.isascii())
            raise invalid_answer(
                "the URL of a file has a character that is not percent-encoded",
                {"file": name, "character": ascii(other)},
            )
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
        url = os.pread(self._file.number, end - start, start).decode("ascii")
        size, expires = self._sizes[row], self._expires[row]
        return FileUrl(url, None if size == UNKNOWN else size, None if expires == UNKNOWN else expires)

    def size_of(self, name: str) -> int | None:
        """Return the bytes of a file as the server declared them; None for an unknown file or size."""
        row = self._rows.get(name)
        return None if row is None or self._sizes[row] == UNKNOWN else self._sizes[row]

    def _write(self) -> None:
        rest = memoryview(b"".join(self._pending))
        with translate_write_errors(tempfile.gettempdir(), "a temporary file"):
            while rest:
                rest = rest[os.write(self._file.number, rest) :]
        self._pending, self._pending_bytes = [], 0


def _int64_bytes(values: ArrowArray) -> memoryview:
    return memoryview(values.buffers()[1])[values.offset * 8 : (values.offset + len(values)) * 8]


# -- many lines of files at once, in columns ---------------------------------------------------------------------------

LEAST_BYTES = 16 << 10
"""Shorter texts are read faster line by line."""
_PLAIN_ID = r"\A[a-z0-9][a-z0-9-]{0,127}\z"
_NUMBERS = ("version", "timestamp", "expirationTimestamp")


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The adds of a text, and where the files are. `vectors`: files of deletion vectors by name, with URL and end."""

    adds: pa.RecordBatch
    names: ArrowArray
    urls: Any
    expires_ms: Any
    versions: Any
    timestamps_ms: Any
    vectors: dict[str, tuple[str, int | None]]

    @property
    def sizes(self) -> Any:
        return self.adds.column("size")


def read_files(text: bytes, form: ResponseFormat, partitions: tuple[str, ...]) -> FileColumns | None:
    """Return the files of whole lines of `file` actions; None for a text that has to be read line by line."""
    rows = _count_objects(text)
    schema = _delta_schema(partitions) if form is ResponseFormat.DELTA else _parquet_schema(partitions)
    if rows == 0:
        return None
    table = parse_ndjson(text, schema, only=True)
    if table is None:  # the first field without a name here ends it; inferring all types takes a fifth longer
        table = parse_ndjson(text, schema, infer=True)
    if table is None or table.num_rows != rows or table.column_names != ["file"]:
        return None
    files = table.column("file").combine_chunks()
    if files.null_count or not _is_text(files) or not _are_whole(files, _NUMBERS):
        return None
    return _columns_of_delta(files, text) if form is ResponseFormat.DELTA else _columns_of_parquet(files, text)


def _count_objects(text: bytes) -> int:
    """Return the number of lines where each is one object, which is certain if the parser finds as many; else 0.

    A line feed between braces is never inside an object.
    """
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return len(lines) if {line[:1] + line[-1:] for line in lines} == {b"{}"} else 0


@lru_cache(maxsize=8)
def _parquet_schema(partitions: tuple[str, ...]) -> ArrowSchema:
    text, whole = pa.string(), pa.int64()
    fields = [("id", text), ("url", text), ("partitionValues", _values(partitions)), ("size", whole), ("stats", text)]
    return pa.schema([pa.field("file", pa.struct([*fields, *((name, whole) for name in _NUMBERS)]))])


@lru_cache(maxsize=8)
def _delta_schema(partitions: tuple[str, ...]) -> ArrowSchema:
    text, whole = pa.string(), pa.int64()
    own = [field for field in action_schemas().add if field.name != "tags"]
    add = [field.with_type(_values(partitions)) if field.name == "partitionValues" else field for field in own]
    fields = [("id", text), ("deletionVectorFileId", text), *((name, whole) for name in _NUMBERS)]
    single = pa.struct([pa.field("add", pa.struct(add))])
    return pa.schema([pa.field("file", pa.struct([*fields, ("deltaSingleAction", single)]))])


def _values(partitions: tuple[str, ...]) -> ArrowType:
    return pa.struct([pa.field(name, pa.string()) for name in partitions])


def _columns_of_parquet(files: ArrowArray, text: bytes) -> FileColumns | None:
    values = _complete_maps(pc.struct_field(files, ["partitionValues"]), text)
    times = pc.struct_field(files, ["timestamp"])
    if values is None:
        return None
    known = {
        "partitionValues": _without_empty(values),
        "size": pc.struct_field(files, ["size"]),
        "stats": pc.struct_field(files, ["stats"]),
        "modificationTime": pc.coalesce(times, pa.scalar(0, pa.int64())),
    }
    return _columns(files, pc.struct_field(files, ["url"]), {}, known)


def _without_empty(maps: ArrowArray) -> ArrowArray:
    items = pc.if_else(pc.equal(maps.items, ""), pa.scalar(None, pa.string()), maps.items)
    return pa.MapArray.from_arrays(maps.offsets, maps.keys, items)


def _columns_of_delta(files: ArrowArray, text: bytes) -> FileColumns | None:
    singles = pc.struct_field(files, ["deltaSingleAction"])
    if singles.null_count or singles.type.num_fields != 1:
        return None
    adds = pc.struct_field(singles, ["add"])
    values = None if adds.null_count else _complete_maps(pc.struct_field(adds, ["partitionValues"]), text)
    tags, has_tags = _tags(adds, text)
    if values is None or not has_tags:
        return None
    known = {field.name: pc.struct_field(adds, [field.name]) for field in action_schemas().add if field.name != "tags"}
    known |= {"partitionValues": values} | ({} if tags is None else {"tags": tags})
    vectors: dict[str, tuple[str, int | None]] = {}
    local = _local_vectors(known["deletionVector"], files, vectors)
    if local is None:
        return None
    return _columns(files, known["path"], vectors, known | {"deletionVector": local})


def _tags(adds: Any, text: bytes) -> tuple[Any, bool]:  # Any: a struct array; a map array, None without tags
    """Return the tags, and whether they can be read here."""
    if adds.type.get_field_index("tags") < 0:
        return None, True
    tags = pc.struct_field(adds, ["tags"])
    if tags.null_count == len(tags):
        return None, True
    found = _partial_maps(tags, text) if pa.types.is_struct(tags.type) else None
    return found, found is not None


def _local_vectors(vectors: Any, files: Any, found: dict[str, tuple[str, int | None]]) -> ArrowArray:
    """Return descriptors whose files have names in the table's directory, and collect where those files are."""
    if vectors.null_count == len(vectors):
        return vectors
    if not vectors.type.equals(action_schemas().add.field("deletionVector").type):
        return None  # an unrecognized field inside a known one
    kinds, urls = pc.struct_field(vectors, ["storageType"]), pc.struct_field(vectors, ["pathOrInlineDv"])
    is_file = pc.fill_null(pc.equal(kinds, "p"), False)
    if not _all(pc.or_(is_file, pc.or_(pc.is_null(vectors), pc.fill_null(pc.equal(kinds, "i"), False)))):
        return None
    ids = pc.if_else(is_file, pc.struct_field(files, ["deletionVectorFileId"]), None)
    if _any(pc.and_(is_file, pc.or_(pc.is_null(ids), pc.or_(pc.equal(ids, ""), _is_not_url(urls))))):
        return None
    encoded = pc.dictionary_encode(ids)
    names = [vector_uuid(one, "") for one in encoded.dictionary.to_pylist()]
    first = pc.index_in(encoded.dictionary, ids)
    expires = pc.take(pc.struct_field(files, ["expirationTimestamp"]), first).to_pylist()
    places = zip(pc.take(urls, first).to_pylist(), expires, strict=True)
    found |= {vector_file_name(name): place for name, place in zip(names, places, strict=True)}
    texts = pc.take(pa.array([vector_text(name) for name in names], pa.string()), encoded.indices)
    columns = [pc.struct_field(vectors, [field.name]) for field in vectors.type]
    columns[0] = pc.if_else(is_file, "u", kinds)
    columns[1] = pc.if_else(is_file, texts, urls)
    return pa.StructArray.from_arrays(columns, fields=list(vectors.type), mask=pc.is_null(vectors))


def _columns(
    files: ArrowArray, urls: ArrowArray, vectors: dict[str, tuple[str, int | None]], known: dict[str, ArrowArray]
) -> FileColumns | None:
    names = _names(pc.struct_field(files, ["id"]))
    if names is None or urls.null_count or _any(_is_not_url(urls)):
        return None
    arrays, schema = known | {"path": names}, action_schemas().add
    columns = [arrays[field.name] if field.name in arrays else pa.nulls(len(files), field.type) for field in schema]
    if any(not column.type.equals(field.type) for column, field in zip(columns, schema, strict=True)):
        return None
    adds = pa.RecordBatch.from_arrays(columns, schema=schema)
    sizes = adds.column("size")
    if sizes.null_count or pc.min(sizes).as_py() < 0:
        return None
    versions, times, expires = (pc.struct_field(files, [name]) for name in _NUMBERS)
    return FileColumns(adds, names, urls, expires, versions, times, vectors)


def _names(ids: ArrowArray) -> ArrowArray:
    """Return the names of data files. Ids that are not plain are rare, and get theirs one by one."""
    if ids.null_count or _any(pc.equal(ids, "")):
        return None
    if _all(pc.match_substring_regex(ids, _PLAIN_ID)):
        return pc.binary_join_element_wise(ids, ".parquet", "")
    return pa.array([data_file_name(one) for one in ids.to_pylist()], pa.string())


def _is_text(files: ArrowArray) -> bool:
    """Return True where all strings are UTF-8. Arrow 26 refuses escaped halves of surrogate pairs, which are not."""
    try:
        files.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _are_whole(files: ArrowArray, names: tuple[str, ...]) -> bool:
    found = (pc.min(pc.struct_field(files, [name])).as_py() for name in names)
    return all(one is None or one >= 0 for one in found)


def _is_not_url(urls: ArrowArray) -> ArrowArray:
    """Return True for texts that are empty, null or not ASCII."""
    is_odd = pc.or_(pc.equal(urls, ""), pc.not_equal(pc.utf8_length(urls), pc.binary_length(urls)))
    return pc.fill_null(is_odd, True)


def _all(mask: ArrowArray) -> bool:
    return mask.null_count == 0 and pc.min(mask).as_py() is not False


def _any(mask: Any) -> bool:  # Any: as above
    return pc.max(mask).as_py() is True


def _complete_maps(values: Any, text: bytes) -> Any:  # Any: a struct array; a map array, or None
    """Return the maps of structs whose keys all rows have; None where that is not certain, or for other values."""
    columns = [_strings(column) for column in values.flatten()]
    names = [field.name for field in values.type]
    if values.null_count or not all(
        column is not None and (not column.null_count or text.count(_null_value(name)) == column.null_count)
        for name, column in zip(names, columns, strict=True)
    ):
        return None
    return _maps(names, columns, len(values))


def _partial_maps(values: Any, text: bytes) -> Any:  # Any: as above
    """Return the maps of structs whose nulls are missing keys; None where one is a value, or for other values.

    A struct does not show which of the two a null was, so it is looked up in the text.
    """
    columns = [_strings(column) for column in values.flatten()]
    names = [field.name for field in values.type]
    if values.null_count or any(column is None for column in columns):
        return None
    has_nulls = [name for name, column in zip(names, columns, strict=True) if column.null_count]
    if any(re.search(rb"%b\s*:\s*null" % re.escape(json.dumps(name).encode()), text) for name in has_nulls):
        return None
    return _maps(names, columns, len(values), drops_nulls=bool(has_nulls))


def _null_value(name: str) -> bytes:
    return f"{json.dumps(name, ensure_ascii=False)}:null".encode()


def _strings(column: Any) -> Any:  # Any: an array; None for another type
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.string())
    return column if pa.types.is_string(column.type) else None


def _maps(names: Sequence[str], columns: Sequence[ArrowArray], rows: int, *, drops_nulls: bool = False) -> ArrowArray:
    width = len(names)
    if width == 0:
        return pa.MapArray.from_arrays([0] * (rows + 1), pa.nulls(0, pa.string()), pa.nulls(0, pa.string()))
    if width == 1:
        keys, items = pa.repeat(pa.scalar(names[0]), rows), columns[0]
    else:
        entries = count_up_to(rows * width)
        row = pc.divide(entries, width)
        column = pc.subtract(entries, pc.multiply(row, width))
        items = pc.take(pa.concat_arrays(columns), pc.add(pc.multiply(column, rows), row))
        keys = pc.take(pa.array(names, pa.string()), column)
    offsets = pc.cast(pc.multiply(count_up_to(rows + 1), width), pa.int32())
    if drops_nulls:
        is_kept = pc.is_valid(items)
        kept_before = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(pc.cast(is_kept, pa.int32()))])
        keys, items, offsets = pc.filter(keys, is_kept), pc.filter(items, is_kept), pc.take(kept_before, offsets)
    return pa.MapArray.from_arrays(offsets, keys, items)
