"""Checkpoint bytes, written with pyarrow from the actions of a state. Spec: Checkpoints; Checkpoint Schema; V2 Spec."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.actions import Action, Line, to_bytes
from tests.support.model import num_records

_NAMES = uuid.UUID("a6ab0b41-0d4c-4a3f-8b3b-4f3f0c0a9d11")


class CheckpointKind(StrEnum):
    """Every form a checkpoint can take."""

    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2_PARQUET = "v2 parquet, sidecars"
    V2_PARQUET_INLINE = "v2 parquet, inline"
    V2_JSON = "v2 json, sidecars"
    V2_JSON_INLINE = "v2 json, inline"
    V2_CLASSIC_NAME = "v2 under a classic name, sidecars"
    V2_CLASSIC_NAME_INLINE = "v2 under a classic name, inline"

    @property
    def is_v2(self) -> bool:
        return self.value.startswith("v2")

    @property
    def has_sidecars(self) -> bool:
        return self.value.endswith("sidecars")

    @property
    def layout(self) -> str:
        """The word a snapshot document has for it."""
        return "v2" if self.is_v2 else self.value


@dataclass(frozen=True)
class Shape:
    """How a writer lays a checkpoint out: all of these mean the same state."""

    files: int = 2
    """Parts of a multi-part checkpoint, or sidecars."""
    row_group_rows: int = 1_000
    stats: str = "json"
    """`json`, `struct`, `both`, or `blank`: as both, but the texts are null."""
    footer_statistics: bool = True
    absent_columns: bool = False
    """Leave out the columns that no action needs, instead of filling them with nulls."""
    foreign_columns: bool = False
    """Add columns that no specification knows."""
    compression: str = "snappy"
    large_text: bool = False
    """The writer's Arrow schema, which the file carries, calls text `large_string`."""
    shuffle: int = 0
    """Seed of the order of rows."""


@dataclass(frozen=True)
class CheckpointFiles:
    """A written checkpoint: top-level files and sidecars, name below `_delta_log` -> bytes."""

    version: int
    kind: CheckpointKind
    top: Mapping[str, bytes]
    sidecars: Mapping[str, bytes]

    @property
    def all(self) -> dict[str, bytes]:
        return {**self.top, **self.sidecars}


def write_checkpoint(
    version: int, actions: Sequence[Line], kind: CheckpointKind, shape: Shape, *, tag: str = ""
) -> CheckpointFiles:
    """Lay the actions of a state out as a checkpoint of `version`; `tag` distinguishes several of one kind."""
    rows = list(actions)
    random.Random(shape.shuffle).shuffle(rows)
    base = f"{version:020d}.checkpoint"
    if kind is CheckpointKind.CLASSIC:
        return CheckpointFiles(version, kind, {f"{base}.parquet": parquet_bytes(rows, shape)}, {})
    if kind is CheckpointKind.MULTI_PART:
        parts = [rows[index :: shape.files] for index in range(shape.files)]
        names = [f"{base}.{part:010d}.{shape.files:010d}.parquet" for part in range(1, shape.files + 1)]
        return CheckpointFiles(
            version, kind, {name: parquet_bytes(part, shape) for name, part in zip(names, parts, strict=True)}, {}
        )
    sidecars: dict[str, bytes] = {}
    top_rows: list[Line] = [{"checkpointMetadata": {"version": version, "tags": {}}}]
    if kind.has_sidecars:
        file_rows = [line for line in rows if line.keys() & {"add", "remove"}]
        for index in range(shape.files):
            name = f"{base}.{index + 1:010d}.{shape.files:010d}.{_unique(version, f'{kind}{tag}{index}')}.parquet"
            data = parquet_bytes(file_rows[index :: shape.files], shape, columns=("add", "remove"))
            sidecars[f"_sidecars/{name}"] = data
            top_rows.append({"sidecar": {"path": name, "sizeInBytes": len(data), "modificationTime": 0, "tags": {}}})
        rows = [line for line in rows if not line.keys() & {"add", "remove"}]
    top_rows += rows
    if kind in (CheckpointKind.V2_JSON, CheckpointKind.V2_JSON_INLINE):
        return CheckpointFiles(
            version, kind, {f"{base}.{_unique(version, f'{kind}{tag}')}.json": to_bytes(top_rows)}, sidecars
        )
    uuid_part = (
        ""
        if kind in (CheckpointKind.V2_CLASSIC_NAME, CheckpointKind.V2_CLASSIC_NAME_INLINE)
        else f".{_unique(version, f'{kind}{tag}')}"
    )
    return CheckpointFiles(version, kind, {f"{base}{uuid_part}.parquet": parquet_bytes(top_rows, shape)}, sidecars)


def parquet_bytes(rows: Sequence[Line], shape: Shape, *, columns: Sequence[str] | None = None) -> bytes:
    """Write actions as one Parquet file of a checkpoint."""
    schema = checkpoint_schema(shape)
    present = {kind for row in rows for kind in row}
    wanted = list(columns or schema)
    if shape.absent_columns:
        wanted = [name for name in wanted if name in present] or ["add"]
    table = pa.table(
        {name: pa.array([_prepared(name, row.get(name), shape) for row in rows], schema[name]) for name in wanted},
        schema=pa.schema([(name, schema[name]) for name in wanted]),
    )
    if shape.foreign_columns:
        table = table.add_column(0, "contentRoot", pa.nulls(len(rows), pa.struct([("path", pa.string())])))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=shape.row_group_rows,
        write_statistics=shape.footer_statistics,
        compression=shape.compression,
        use_dictionary=False,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


@lru_cache
def checkpoint_schema(shape: Shape) -> dict[str, Any]:  # Any: pyarrow has no types
    """Column -> Arrow type of the actions of a checkpoint."""
    text = pa.large_string() if shape.large_text else pa.string()
    types = {"text": text, "long": pa.int64(), "int": pa.int32(), "flag": pa.bool_()}
    types |= {"texts": pa.list_(text), "map": pa.map_(text, text)}
    types["vector"] = _struct(types, "storageType:text pathOrInlineDv:text offset:int sizeInBytes:int cardinality:long")
    types["format"] = _struct(types, "provider:text options:map")
    types["counts"] = _struct(types, "id:long")
    types["statistics"] = _struct(types, "numRecords:long nullCount:counts")
    file = "path:text dataChange:flag partitionValues:map size:long deletionVector:vector baseRowId:long "
    file += "defaultRowCommitVersion:long "
    add = f"{file} modificationTime:long tags:map clusteringProvider:text"
    add += " stats:text" if shape.stats in ("json", "both", "blank") else ""
    add += " stats_parsed:statistics" if shape.stats in ("struct", "both", "blank") else ""
    add += " fromTheFuture:text" if shape.foreign_columns else ""
    specifications = {
        "txn": "appId:text version:long lastUpdated:long",
        "add": add,
        "remove": f"{file} deletionTimestamp:long extendedFileMetadata:flag",
        "metaData": "id:text name:text description:text format:format schemaString:text partitionColumns:texts "
        "configuration:map createdTime:long",
        "protocol": "minReaderVersion:int minWriterVersion:int readerFeatures:texts writerFeatures:texts",
        "domainMetadata": "domain:text configuration:text removed:flag",
        "sidecar": "path:text sizeInBytes:long modificationTime:long tags:map",
        "checkpointMetadata": "version:long tags:map",
    }
    return {name: _struct(types, specification) for name, specification in specifications.items()}


def _struct(types: Mapping[str, Any], specification: str) -> Any:  # Any: pyarrow has no types
    """A struct type out of `name:type name:type`."""
    return pa.struct([(name, types[kind]) for name, _, kind in (part.partition(":") for part in specification.split())])


def _prepared(kind: str, action: Action | None, shape: Shape) -> Action | None:
    """An action as pyarrow takes it: maps as lists of pairs, statistics as the shape wants them."""
    if action is None:
        return None
    found: Action = {name: _pairs(name, value) for name, value in action.items()}
    if kind == "add" and shape.stats in ("struct", "both", "blank"):
        records = num_records(action)
        found["stats_parsed"] = None if action.get("stats") is None else {"numRecords": records, "nullCount": {"id": 0}}
        if shape.stats == "blank":
            found["stats"] = None
    return found


def _pairs(name: str, value: object) -> object:
    if name == "format" and isinstance(value, dict):
        return {key: _pairs(key, item) for key, item in value.items()}
    return (
        list(value.items())
        if name in ("partitionValues", "tags", "configuration", "options") and isinstance(value, dict)
        else value
    )


def _unique(version: int, name: str) -> str:
    return str(uuid.uuid5(_NAMES, json.dumps([version, name])))
