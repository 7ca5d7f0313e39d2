"""Tables made by hand whose columns have types that few readers know, each beside a column `a` that all know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.small_vectors import inline

GEOMETRY = "geometry(OGC:CRS84)"
NEWER = "decfloat"
"""A name that no version of the protocol has."""
_RW = ["timestampNtz", "timestampNanos", "geospatial", "deletionVectors"]
_NOW_MS = 1_767_225_600_000

VALUES: Mapping[str, tuple[Any, list[Any]]] = {  # Any: types and values of Arrow
    GEOMETRY: (pa.binary(), [b"\x01\x02", None, b"\x03"]),
    NEWER: (pa.binary(), [b"\x01", b"\x02", b"\x03"]),
    "interval year to month": (pa.int32(), [18, -1, None]),
    "interval day": (pa.int64(), [86_400_000_000, None, -1]),
    "timestamp_nanos": (pa.timestamp("ns", tz="UTC"), [1_700_000_000_123_456_789, -1, None]),
    "timestamp_ntz_nanos": (pa.timestamp("ns"), [1_700_000_000_123_456_789, -1, None]),
}
"""By the type in the schema: the type in files, and three values."""
UNREAD = (GEOMETRY, NEWER)
READ = tuple(name for name in VALUES if name not in UNREAD)


def within(shape: str, name: str) -> tuple[Any, pa.Array]:
    """Return the type of a column of a table, and its three values in a file: of a type, or of one that has it within
    (`struct`, `array`, `map`).
    """
    kind, values = VALUES[name]
    plain = pa.array(values, kind)
    if shape == "struct":
        ours = [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]
        ours.append({"name": "g", "type": name, "nullable": True, "metadata": {}})
        return {"type": "struct", "fields": ours}, pa.StructArray.from_arrays(
            [pa.array([7, 8, 9], pa.int64()), plain], names=["x", "g"]
        )
    if shape == "array":
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), plain)
        return {"type": "array", "elementType": name, "containsNull": True}, lists
    if shape == "map":
        maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["k", "l", "m"]), plain)
        return {"type": "map", "keyType": "string", "valueType": name, "valueContainsNull": True}, maps
    return name, plain


def make(
    place: Path,
    name: str,
    *,
    shape: str = "",
    is_mapped: bool = False,
    has_vector: bool = False,
    has_older_files: bool = False,
    partition: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Path:
    """Write a table of two files of three rows: `a` from 1 to 6, and `g` of the type or, with `partition`, with this
    text as its value in each file. With `has_older_files` two files of `a` alone precede them; with `has_vector` the
    first row of the first file with `g` is deleted.
    """
    place.mkdir(parents=True)
    (place / "_delta_log").mkdir()
    stored = {"a": "col-1", "g": "col-2"} if is_mapped else {"a": "a", "g": "g"}
    kind, values = within(shape, name)
    fields = [_field("a", "long", 1, is_mapped), _field("g", kind, 2, is_mapped)]
    config = dict(properties or {})
    if is_mapped:
        config |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
        _name_parts(fields[1]["type"])
    features = [*_RW, *(["columnMapping"] if is_mapped else [])]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    metadata = {
        "id": "00000000-0000-4000-8000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [] if partition is None else [stored["g"]],
        "configuration": config,
        "createdTime": _NOW_MS,
    }
    adds = []
    for number in range(2 if has_older_files else 0):
        old = pa.table({stored["a"]: pa.array(_numbers(number), pa.int64())})
        adds.append(_add(place, f"old-{number}.parquet", old, stored, partition))
    for number in range(2):
        columns: dict[str, Any] = {stored["a"]: pa.array(_numbers(len(adds)), pa.int64())}
        if partition is None:
            columns[stored["g"]] = values
        vector = [0] if has_vector and not number else ()
        adds.append(_add(place, f"new-{number}.parquet", pa.table(columns), stored, partition, vector))
    info = {"timestamp": _NOW_MS, "operation": "WRITE"}
    _commit(place, 0, [{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}])
    _commit(place, 1, [{"commitInfo": info}, *({"add": add} for add in adds)])
    return place


def _numbers(file: int) -> list[int]:
    return [3 * file + 1, 3 * file + 2, 3 * file + 3]


def _field(name: str, kind: Any, number: int, is_mapped: bool) -> dict[str, Any]:
    ours = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"} if is_mapped else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": ours}


def _name_parts(kind: Any) -> None:
    """Give the fields of a struct the names that they have in files."""
    for number, field in enumerate(kind.get("fields", ()) if isinstance(kind, dict) else ()):
        field["metadata"] = {
            "delta.columnMapping.id": 5 + number,
            "delta.columnMapping.physicalName": field["name"],
        }


def _add(
    place: Path,
    name: str,
    table: pa.Table,
    stored: Mapping[str, str],
    partition: str | None,
    deleted: Sequence[int] = (),
) -> dict[str, Any]:
    pq.write_table(table, place / name)
    numbers = table.column(stored["a"]).to_pylist()
    bounds = {stored["a"]: numbers[0]}, {stored["a"]: numbers[-1]}
    nulls = {name: column.null_count for name, column in zip(table.column_names, table.columns, strict=True)}
    nulls = {name: count for name, count in nulls.items() if not pa.types.is_struct(table.schema.field(name).type)}
    stats = {"numRecords": 3, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": nulls}
    if deleted:
        stats["tightBounds"] = False
    return {
        "path": name,
        "partitionValues": {} if partition is None else {stored["g"]: partition},
        "size": (place / name).stat().st_size,
        "modificationTime": _NOW_MS,
        "dataChange": True,
        "stats": json.dumps(stats),
        **({"deletionVector": inline(deleted)} if deleted else {}),
    }


def _commit(place: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    lines = "".join(json.dumps(action) + "\n" for action in actions)
    (place / "_delta_log" / f"{version:020}.json").write_text(lines)
