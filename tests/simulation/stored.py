"""What the model writers write: data files, statistics, row ids, protocols and schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.reading import HIGH_WATER_MARK, ROW_ID, ROW_VERSION, Column, Tracked, configuration_of, is_mapped
from tests.support.actions import Action, Line, domain
from tests.support.model import State, identity

Values = dict[str, Any]  # Any: values of a row, by the names of columns in files
READER_FEATURES = ("columnMapping", "deletionVectors", "typeWidening", "v2Checkpoint")
LEGACY = ("appendOnly", "invariants")
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "rowTracking": {"delta.enableRowTracking": "true", ROW_ID: "_row-id", ROW_VERSION: "_row-version"},
    "typeWidening": {"delta.enableTypeWidening": "true"},
    "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
}
"""Feature -> the properties that turn it on."""
LATER = ("deletionVectors", "inCommitTimestamp", "typeWidening", "v2Checkpoint")
"""Features that a table can have from any version on."""
_TYPES = {"integer": pa.int32(), "long": pa.int64(), "string": pa.string()}


@dataclass(frozen=True)
class Stored:
    """Rows to be written, with the ids that they keep."""

    values: Values
    row_id: int | None = None
    version: int | None = None


def stored_row(row: Tracked) -> Stored:
    """A row that is written again: it keeps its id and version, where it has them."""
    return Stored(dict(row.row), *((row.row_id, row.version) if row.row_id >= 0 else ()))


def with_row_ids(lines: Sequence[Line], before: State, version: int) -> list[Line]:
    """Give fresh ids to new files, above the mark, and move the mark."""
    found = before.domains.get(HIGH_WATER_MARK)
    mark = start = -1 if found is None else int(json.loads(found["configuration"])["rowIdHighWaterMark"])
    known = {path for path, _ in before.live}
    result: list[Line] = []
    for line in lines:
        if (add := line.get("add")) is not None and identity(add["path"]) not in known:
            line = {"add": {**add, "baseRowId": mark + 1, "defaultRowCommitVersion": version}}
            mark += int(json.loads(add["stats"])["numRecords"])
        result.append(line)
    if mark != start:
        result.append(domain(HIGH_WATER_MARK, json.dumps({"rowIdHighWaterMark": mark})))
    return result


def protocol_of(features: Sequence[str]) -> Line:
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    wanted = {*features, *LEGACY, *(("domainMetadata",) if "rowTracking" in features else ())}
    readers = sorted(wanted & {*READER_FEATURES})
    writer: Action = {"minWriterVersion": 7, "writerFeatures": sorted(wanted)}
    return {
        "protocol": {"minReaderVersion": 3 if readers else 1, **writer}
        | ({"readerFeatures": readers} if readers else {})
    }


def schema_of(fields: Sequence[Action]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)}, separators=(",", ":"))


def data_file(columns: Sequence[Column], rows: Sequence[Stored], state: State) -> bytes:
    """A data file; with the columns of row ids where rows have them already."""
    arrays = {
        column.physical: pa.array([one.values.get(column.physical) for one in rows], _TYPES[column.type])
        for column in columns
    }
    names = configuration_of(state)
    if ROW_ID in names and any(one.row_id is not None for one in rows):
        arrays[names[ROW_ID]] = pa.array([one.row_id for one in rows], pa.int64())
        arrays[names[ROW_VERSION]] = pa.array([one.version for one in rows], pa.int64())
    table = pa.table(arrays)
    if is_mapped(state):
        numbers = {
            one["metadata"]["delta.columnMapping.physicalName"]: str(one["metadata"]["delta.columnMapping.id"])
            for one in json.loads((state.metadata or {})["schemaString"])["fields"]
        }
        fields = [
            one.with_metadata({"PARQUET:field_id": numbers[one.name]}) if one.name in numbers else one
            for one in table.schema
        ]
        table = table.cast(pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="none", use_dictionary=False) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def statistics_of(columns: Sequence[Column], rows: Sequence[Stored]) -> str:
    low: Values = {}
    high: Values = {}
    nulls: Values = {}
    for column in columns:
        values = [value for one in rows if (value := one.values.get(column.physical)) is not None]
        nulls[column.physical] = len(rows) - len(values)
        if values:
            low[column.physical], high[column.physical] = min(values), max(values)
    return json.dumps({"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls})
