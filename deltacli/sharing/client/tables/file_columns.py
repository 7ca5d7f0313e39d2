"""Many lines of files at once, in columns, as `shared_files` reads them one by one.

Only lines that are certain to give the same result are read here; for any other text the answer is None, and the caller
reads it line by line, which also finds the error in it. Spec: File; File in Delta Format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray, ArrowSchema, ArrowType
from deltacli.delta.encoding.ndjson import parse_ndjson
from deltacli.delta.log.file_actions import action_schemas
from deltacli.sharing.client.tables.shared_files import data_file_name, vector_file_name, vector_text, vector_uuid
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.work.commits.blocks import count_up_to

if TYPE_CHECKING:
    import pyarrow

LEAST_BYTES = 16 << 10
"""Shorter texts are read faster line by line."""
_PLAIN_ID = r"\A[a-z0-9][a-z0-9-]{0,127}\z"
_NUMBERS = ("version", "timestamp", "expirationTimestamp")


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The adds of a text, and where the files are. `vectors`: the files of deletion vectors, by name, with their URL
    and when it expires.
    """

    adds: pyarrow.RecordBatch
    names: ArrowArray
    urls: Any
    expires_ms: Any
    versions: Any
    timestamps_ms: Any
    vectors: dict[str, tuple[str, int | None]]

    @property
    def sizes(self) -> Any:
        """The bytes of each file."""
        return self.adds.column("size")


def read_files(text: bytes, form: ResponseFormat, partitions: tuple[str, ...]) -> FileColumns | None:
    """Return the files of whole lines of `file` actions; None for a text that has to be read line by line.

    `partitions` are the expected keys of partition values.
    """
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
    return _of_delta(files, text) if form is ResponseFormat.DELTA else _of_parquet(files, text)


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
    import pyarrow as pa

    text, whole = pa.string(), pa.int64()
    fields = [("id", text), ("url", text), ("partitionValues", _values(partitions)), ("size", whole), ("stats", text)]
    return pa.schema([pa.field("file", pa.struct([*fields, *((name, whole) for name in _NUMBERS)]))])


@lru_cache(maxsize=8)
def _delta_schema(partitions: tuple[str, ...]) -> ArrowSchema:
    import pyarrow as pa

    text, whole = pa.string(), pa.int64()
    own = [field for field in action_schemas().add if field.name != "tags"]
    add = [field.with_type(_values(partitions)) if field.name == "partitionValues" else field for field in own]
    fields = [("id", text), ("deletionVectorFileId", text), *((name, whole) for name in _NUMBERS)]
    single = pa.struct([pa.field("add", pa.struct(add))])
    return pa.schema([pa.field("file", pa.struct([*fields, ("deltaSingleAction", single)]))])


def _values(partitions: tuple[str, ...]) -> ArrowType:
    import pyarrow as pa

    return pa.struct([pa.field(name, pa.string()) for name in partitions])


def _of_parquet(files: ArrowArray, text: bytes) -> FileColumns | None:
    import pyarrow as pa

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
    """Return maps whose empty texts are null. Spec: Partition Value Serialization."""
    import pyarrow as pa

    items = pc.if_else(pc.equal(maps.items, ""), pa.scalar(None, pa.string()), maps.items)
    return pa.MapArray.from_arrays(maps.offsets, maps.keys, items)


def _of_delta(files: ArrowArray, text: bytes) -> FileColumns | None:
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
    import pyarrow as pa

    tags = pc.struct_field(adds, ["tags"])
    if tags.null_count == len(tags):
        return None, True
    found = _partial_maps(tags, text) if pa.types.is_struct(tags.type) else None
    return found, found is not None


def _local_vectors(vectors: Any, files: Any, found: dict[str, tuple[str, int | None]]) -> ArrowArray:
    """Return descriptors whose files have names in the table's directory, and collect where those files are."""
    import pyarrow as pa

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
    files: ArrowArray,
    urls: ArrowArray,
    vectors: dict[str, tuple[str, int | None]],
    known: dict[str, ArrowArray],
) -> FileColumns | None:
    import pyarrow as pa

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
    import pyarrow as pa

    if ids.null_count or _any(pc.equal(ids, "")):
        return None
    if _all(pc.match_substring_regex(ids, _PLAIN_ID)):
        return pc.binary_join_element_wise(ids, ".parquet", "")
    return pa.array([data_file_name(one) for one in ids.to_pylist()], pa.string())


def _is_text(files: ArrowArray) -> bool:
    """Return True where all strings are UTF-8. Arrow 26 refuses escaped halves of surrogate pairs, which are not."""
    import pyarrow as pa

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
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.string())
    return column if pa.types.is_string(column.type) else None


def _maps(names: Sequence[str], columns: Sequence[ArrowArray], rows: int, *, drops_nulls: bool = False) -> ArrowArray:
    import pyarrow as pa

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
