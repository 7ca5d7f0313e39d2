"""The lines of files, made from columns: one join per batch, no object per file.

A million lines take a few seconds in one process; signing their URLs takes most of that.
Spec: File; Data Change Files; File in Delta Format; File ID Hash Header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.arrow_json import characters, json_lines
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.sharing.protocol.wire_text import ascii_json

if TYPE_CHECKING:
    import pyarrow


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
    style: LineStyle, actions: pyarrow.RecordBatch, urls: Sequence[str], vector_ids: Sequence[str | None] | None = None
) -> bytes:
    """Return the lines of file actions. `actions` have the fields of the action with `path` as in the log, from which
    ids are made; `urls` replace it. Vectors have their URLs already; `vector_ids` are the ids of their files.
    """
    import pyarrow as pa

    paths = actions.column("path").cast(pa.binary()).to_pylist()
    ids = pa.array(list(map(HASHES[style.hash_by], paths)), pa.string())
    places = pa.array(urls, pa.string())
    parts = _delta_parts if style.form is ResponseFormat.DELTA else _parquet_parts
    lines = pc.binary_join_element_wise(*parts(style, actions, ids, places, vector_ids), "")
    return ascii_json(characters(lines))


def _parquet_parts(
    style: LineStyle,
    actions: pyarrow.RecordBatch,
    ids: pyarrow.Array,
    urls: pyarrow.Array,
    _vector_ids: Sequence[str | None] | None,
) -> list[pyarrow.Array | str]:
    """Return the pieces of `{"file":{"url":…,"id":…,…,"partitionValues":…}}`."""
    wrapper = _ACTION_IN_PARQUET[style.action] if style.is_change else "file"
    names = [name for name in _IN_PARQUET if name in actions.schema.names]
    rest = json_lines(_with_maps(actions.select(names)), "", "}}\n")
    return [f'{{"{wrapper}":{{"url":"', urls, '","id":"', ids, f'"{_about(style)}', rest]


def _delta_parts(
    style: LineStyle,
    actions: pyarrow.RecordBatch,
    ids: pyarrow.Array,
    urls: pyarrow.Array,
    vector_ids: Sequence[str | None] | None,
) -> list[pyarrow.Array | str]:
    """Return the pieces of `{"file":{"id":…,…,"deltaSingleAction":{"add":{"path":…,…}}}}`."""
    import pyarrow as pa

    names = [name for name in actions.schema.names if name != "path"]
    rest = json_lines(_with_maps(actions.select(names)), "", "}}}}\n")
    inner = f'{_about(style)},"deltaSingleAction":{{"{style.action}":{{"path":"'
    if vector_ids is None:
        return ['{"file":{"id":"', ids, f'"{inner}', urls, '"', rest]
    texts = ["" if name is None else f',"deletionVectorFileId":{orjson.dumps(name).decode()}' for name in vector_ids]
    return ['{"file":{"id":"', ids, '"', pa.array(texts, pa.string()), inner, urls, '"', rest]


def _with_maps(actions: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return actions with an empty map where partition values are missing, because clients require them."""
    import pyarrow as pa

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
