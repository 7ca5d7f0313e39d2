"""Synthetic tables for measurements at scale: any number of files and tombstones in one checkpoint, in V2 or not.

The files are named `d=000123/part-00042-…-c000.snappy.parquet`, 1,000 to a directory, so that a store can compute the
name of each by its number (`s3_stub.py`).
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FILES_A_DIRECTORY = 1_000
ROWS_A_FILE = 1_000
ROWS_A_GROUP = 250_000
MODIFIED_MS = 1_700_000_000_000
"""The time of every data file, in epoch milliseconds: older than any retention."""
_NAME_END = "-7d1c6c1e-3c5b-4b8e-9b5e-1a2b3c4d5e6f-c000.snappy.parquet"
_STATS_END = ',"minValues":{"c0":0,"c1":0.0},"maxValues":{"c0":999,"c1":999.0},"nullCount":{"c0":0,"c1":0}}'
_FIELDS = [("c0", "long"), ("c1", "double"), ("d", "string")]
_SCHEMA = {
    "type": "struct",
    "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _FIELDS],
}
_FEATURES = ["v2Checkpoint", "vacuumProtocolCheck"]
_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": _FEATURES,
    "writerFeatures": _FEATURES,
}
_METADATA: dict[str, Any] = {
    "id": "8b8a9a1e-0000-4000-8000-000000000000",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(_SCHEMA, separators=(",", ":")),
    "partitionColumns": ["d"],
    "configuration": {"delta.checkpointPolicy": "v2"},
    "createdTime": 0,
}


def data_file() -> bytes:
    """Return a small Parquet file that agrees with the actions of every data file."""
    numbers = pa.array(range(ROWS_A_FILE), pa.int64())
    sink = io.BytesIO()
    pq.write_table(pa.table({"c0": numbers, "c1": numbers.cast(pa.float64())}), sink, compression="snappy")
    return sink.getvalue()


def name_of(number: int, files_a_directory: int = FILES_A_DIRECTORY) -> str:
    """Return the path of a data file below the table."""
    directory, file = divmod(number, files_a_directory)
    return f"d={directory:07d}/part-{file:05d}{_NAME_END}"


def write_table(
    root: Path,
    adds: int,
    removes: int = 0,
    *,
    first_removed: int | None = None,
    removed_ms: int = MODIFIED_MS,
    rows_a_group: int = ROWS_A_GROUP,
    files_a_directory: int = FILES_A_DIRECTORY,
) -> None:
    """Write the log of a table: a classic checkpoint of version 1 and commit 2, which has no file action.

    Live files are numbered from 0, tombstones from `first_removed` (default: after them); `removed_ms` is their time.
    """
    log = root / "_delta_log"
    log.mkdir(parents=True)
    small = [{"protocol": _PROTOCOL}, {"metaData": _METADATA}]
    size_bytes, second = len(data_file()), adds if first_removed is None else first_removed
    info = {"timestamp": MODIFIED_MS, "operation": "WRITE"}
    for version in (1, 2):
        (log / f"{version:020d}.json").write_text(_lines([{"commitInfo": info | {"timestamp": MODIFIED_MS + version}}]))
    schema = _schema()
    with pq.ParquetWriter(log / f"{1:020d}.checkpoint.parquet", schema, compression="snappy") as writer:
        writer.write_table(pa.Table.from_pylist(small, schema=schema))
        for kind, start, stop in (("add", 0, adds), ("remove", second, second + removes)):
            for first in range(start, stop, rows_a_group):
                numbers = pa.array(range(first, min(first + rows_a_group, stop)), pa.int64())
                writer.write_table(_actions(schema, kind, numbers, removed_ms, size_bytes, files_a_directory))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": adds + removes + 2}))


def _lines(actions: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)


def _schema() -> pa.Schema:
    from deltacli.delta.log.file_actions import action_schemas

    text, strings = pa.string(), pa.map_(pa.string(), pa.string())
    number = pa.int32()
    features = pa.list_(text)
    versions = pa.struct(
        [
            ("minReaderVersion", number),
            ("minWriterVersion", number),
            ("readerFeatures", features),
            ("writerFeatures", features),
        ]
    )
    meta = pa.struct(
        [
            ("id", text),
            ("format", pa.struct([("provider", text), ("options", strings)])),
            ("schemaString", text),
            ("partitionColumns", pa.list_(text)),
            ("configuration", strings),
            ("createdTime", pa.int64()),
        ]
    )
    actions = action_schemas()
    return pa.schema(
        [
            ("protocol", versions),
            ("metaData", meta),
            ("add", pa.struct(list(actions.add))),
            ("remove", pa.struct(list(actions.remove))),
        ]
    )


def _actions(schema: pa.Schema, kind: str, numbers: Any, removed_ms: int, size_bytes: int, each: int) -> pa.Table:
    rows, text = len(numbers), pa.string()
    directories = pc.utf8_lpad(pc.divide(numbers, each).cast(text), 7, "0")
    within = pc.subtract(numbers, pc.multiply(pc.divide(numbers, each), each))
    files = pc.utf8_lpad(within.cast(text), 5, "0")
    offsets = pa.array(range(rows + 1), pa.int32())
    known = {
        "path": pc.binary_join_element_wise("d=", directories, "/part-", files, _NAME_END, ""),
        "partitionValues": pa.MapArray.from_arrays(offsets, pa.repeat("d", rows), directories),
        "size": pa.repeat(pa.scalar(size_bytes, pa.int64()), rows),
        "modificationTime": pa.repeat(pa.scalar(MODIFIED_MS, pa.int64()), rows),
        "deletionTimestamp": pa.repeat(pa.scalar(removed_ms, pa.int64()), rows),
        "dataChange": pa.repeat(kind == "remove", rows),
        "stats": pa.repeat(f'{{"numRecords":{ROWS_A_FILE}{_STATS_END}', rows),
        "extendedFileMetadata": pa.repeat(True, rows),
    }
    fields = list(schema.field(kind).type)
    columns = [known.get(field.name, pa.nulls(rows, field.type)) for field in fields]
    columns = [column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
    structs = {kind: pa.StructArray.from_arrays(columns, fields=fields)}
    return pa.table([structs.get(field.name, pa.nulls(rows, field.type)) for field in schema], schema=schema)
