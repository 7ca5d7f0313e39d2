"""The lines of answers: protocol and metadata, the same bytes for the same version, then files, made from columns: one
join per batch, no object per file. A million lines take a few seconds in one process; signing their URLs takes most of
that. All are in ASCII, because some clients split answers at every character that Unicode counts as the end of a line.

Spec: Metadata; Metadata in Delta Format; Protocol in Delta Format; File; Data Change Files; File in Delta
Format; File ID Hash Header.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import Json
from deltacli.delta.encoding.value_text import characters, json_lines
from deltacli.delta.log.state import CHANGE_FEED, Metadata
from deltacli.delta.schema.types import NO_COLUMNS
from deltacli.sharing.protocol.parameters import ResponseFormat

_KEPT = ("comment",)


@dataclass(frozen=True, slots=True)
class TableTotals:
    """Number and bytes of the files of a version."""

    files: int
    size_bytes: int


def protocol_line(form: ResponseFormat, protocol: Mapping[str, Any], *, version: int | None = None) -> bytes:
    """Return the line of the protocol. `version` is that of a change in the middle of a range."""
    if form is ResponseFormat.PARQUET:
        return json_line({"protocol": {"minReaderVersion": 1}})
    dated = {} if version is None else {"version": version}
    return json_line({"protocol": {"deltaProtocol": dict(protocol), **dated}})


def metadata_line(
    form: ResponseFormat,
    metadata: Metadata,
    in_delta: Mapping[str, Any],
    *,
    version: int | None = None,
    totals: TableTotals | None = None,
    shows_change_data: bool = True,
    access: Mapping[str, Json] = MappingProxyType({}),
) -> bytes:
    """Return the line of the metadata.

    Args:
        form: The format of the answer.
        metadata: The metadata, for the parquet format.
        in_delta: The action for the delta format, which has it unchanged.
        version: The version of the metadata, where the client chose one.
        totals: Number and bytes of the files, where the answer has all of them.
        shows_change_data: The history is shared, so the parquet format names the change data feed of the table.
        access: How the table may be read, where that is said.
    """
    about: dict[str, Any] = {} if version is None else {"version": version}
    if totals is not None:
        about |= {"size": totals.size_bytes, "numFiles": totals.files}
    about |= access
    if form is ResponseFormat.DELTA:
        return json_line({"metaData": {"deltaMetadata": dict(in_delta), **about}})
    return json_line({"metaData": _in_parquet(metadata, shows_change_data=shows_change_data) | about})


def _in_parquet(metadata: Metadata, *, shows_change_data: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.provider},
        "schemaString": json.dumps(
            _plain(json.loads(metadata.schema_string or NO_COLUMNS)), separators=(",", ":"), ensure_ascii=False
        ),
        "partitionColumns": list(metadata.partition_columns),
    }
    feed = metadata.configuration.get(CHANGE_FEED, "")
    if shows_change_data and feed.lower() == "true":
        document["configuration"] = {"enableChangeDataFeed": "true"}
    return {name: value for name, value in document.items() if value is not None}


def _plain(value: Json) -> Json:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _plain(item) for name, item in value.items()}
    if isinstance(value.get("metadata"), dict):
        found["metadata"] = {name: item for name, item in value["metadata"].items() if name in _KEPT}
    return found


_HANDLER = "deltacli-json"


def _escape(fault: UnicodeError) -> tuple[str, int]:
    assert isinstance(fault, UnicodeEncodeError)
    pairs = fault.object[fault.start : fault.end].encode("utf-16-be", "surrogatepass")
    units = (pairs[place : place + 2].hex() for place in range(0, len(pairs), 2))
    return "".join(f"\\u{unit}" for unit in units), fault.end


codecs.register_error(_HANDLER, _escape)


def _ascii_json(text: str) -> bytes:
    """Return JSON text in ASCII. Other characters occur in its strings only, where an escape means the same."""
    return text.encode("ascii", _HANDLER)


def json_line(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


class IdHash(StrEnum):
    """How file ids are made from paths: by MD5, as the parquet format does, or by SHA-256, as the delta format does."""

    PARQUET = "parquet"
    DELTA = "delta"


HASHES: dict[IdHash, Callable[[bytes], str]] = {
    IdHash.PARQUET: lambda path: hashlib.md5(path, usedforsecurity=False).hexdigest(),
    IdHash.DELTA: lambda path: hashlib.sha256(path).hexdigest(),
}

_IN_PARQUET = ("partitionValues", "size", "stats")
_ACTION_IN_PARQUET = {"add": "add", "remove": "remove", "cdc": "cdf"}


@dataclass(frozen=True, slots=True)
class LineStyle:
    """What all lines of an answer have in common. `action`: `add`, `remove` or `cdc`. `is_change`: the file belongs to
    a change feed, where the parquet format names the action. Times are epoch milliseconds.
    """

    form: ResponseFormat
    hash_by: IdHash
    expires_ms: int
    action: str = "add"
    version: int | None = None
    time_ms: int | None = None
    is_change: bool = False


def lines_of(
    style: LineStyle, actions: pa.RecordBatch, urls: Sequence[str], vector_ids: Sequence[str | None] | None = None
) -> bytes:
    """Return the lines of file actions. `actions` have the fields of the action with `path` as in the log, from which
    ids are made; `urls` replace it. Vectors have their URLs already; `vector_ids` are the ids of their files.
    """
    paths = actions.column("path").cast(pa.binary()).to_pylist()
    ids = pa.array(list(map(HASHES[style.hash_by], paths)), pa.string())
    places = pa.array(urls, pa.string())
    parts = _delta_parts if style.form is ResponseFormat.DELTA else _parquet_parts
    lines = pc.binary_join_element_wise(*parts(style, actions, ids, places, vector_ids), "")
    return _ascii_json(characters(lines))


def _parquet_parts(
    style: LineStyle, actions: pa.RecordBatch, ids: pa.Array, urls: pa.Array, _vector_ids: Sequence[str | None] | None
) -> list[pa.Array | str]:
    """Return the pieces of `{"file":{"url":…,"id":…,…,"partitionValues":…}}`."""
    wrapper = _ACTION_IN_PARQUET[style.action] if style.is_change else "file"
    names = [name for name in _IN_PARQUET if name in actions.schema.names]
    rest = json_lines(_with_maps(actions.select(names)), "", "}}\n")
    return [f'{{"{wrapper}":{{"url":"', urls, '","id":"', ids, f'"{_about(style)}', rest]


def _delta_parts(
    style: LineStyle, actions: pa.RecordBatch, ids: pa.Array, urls: pa.Array, vector_ids: Sequence[str | None] | None
) -> list[pa.Array | str]:
    """Return the pieces of `{"file":{"id":…,…,"deltaSingleAction":{"add":{"path":…,…}}}}`."""
    names = [name for name in actions.schema.names if name != "path"]
    rest = json_lines(_with_maps(actions.select(names)), "", "}}}}\n")
    inner = f'{_about(style)},"deltaSingleAction":{{"{style.action}":{{"path":"'
    if vector_ids is None:
        return ['{"file":{"id":"', ids, f'"{inner}', urls, '"', rest]
    texts = ["" if name is None else f',"deletionVectorFileId":{orjson.dumps(name).decode()}' for name in vector_ids]
    return ['{"file":{"id":"', ids, '"', pa.array(texts, pa.string()), inner, urls, '"', rest]


def _with_maps(actions: pa.RecordBatch) -> pa.RecordBatch:
    """Return actions with an empty map where partition values are missing, because clients require them."""
    place = actions.schema.get_field_index("partitionValues")
    if place < 0 or not actions.column(place).null_count:
        return actions
    column = actions.column(place)
    values = [[] if value is None else value for value in column.to_pylist()]
    return actions.set_column(place, actions.schema.field(place), pa.array(values, column.type))


def _about(style: LineStyle) -> str:
    """Return the fields that all lines share, each with a comma before it."""
    dated = {"version": style.version, "timestamp": style.time_ms, "expirationTimestamp": style.expires_ms}
    return "".join(f',"{name}":{value}' for name, value in dated.items() if value is not None)
