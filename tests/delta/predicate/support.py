"""Tables of one schema for the tests of predicates: rows, adds, and what is kept of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.state import Metadata, TableConfiguration
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.prune import Pruned, prune_files
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.to_arrow import typed
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType


def primitive(name: str) -> PrimitiveType:
    return PrimitiveType(name)


def schema_of(columns: Mapping[str, str | DataType], physical: Mapping[str, str] | None = None) -> StructType:
    """A schema of columns given by name and type, with physical names where there are some."""
    names = physical or {}
    return StructType(
        tuple(
            StructField(
                name,
                primitive(kind) if isinstance(kind, str) else kind,
                True,
                {"delta.columnMapping.physicalName": names[name]} if name in names else {},
            )
            for name, kind in columns.items()
        )
    )


def arrow_type(kind: DataType) -> Any:  # Any: pyarrow has no types
    if isinstance(kind, StructType):
        return pa.struct([(field.name, arrow_type(field.data_type)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(arrow_type(kind.element))
    if isinstance(kind, MapType):
        return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
    return typed(kind)


def batch_of(schema: StructType, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    fields = [(field.name, arrow_type(field.data_type)) for field in schema.fields]
    return pa.RecordBatch.from_pylist(list(rows), schema=pa.schema(fields))


def config_of(schema: StructType, partitions: Sequence[str] = (), *, is_mapped: bool = False) -> TableConfiguration:
    configuration = {"delta.columnMapping.mode": "name"} if is_mapped else {}
    metadata = Metadata("id", None, None, "parquet", {}, None, tuple(partitions), configuration, None)
    features = ["columnMapping"] if is_mapped else []
    protocol = Protocol(3, 7, tuple(features), tuple(features))
    return TableConfiguration(protocol=protocol, metadata=metadata, schema=schema)


def adds_of(stats: Sequence[Any], partitions: Sequence[Mapping[str, str | None]] | None = None) -> pa.RecordBatch:
    """Add actions with statistics given as values or texts."""
    values = partitions or [{} for _ in stats]
    rows = [
        {
            "path": f"part-{number}",
            "partitionValues": list(values[number].items()),
            "stats": given if isinstance(given, str | None) else json.dumps(given),
        }
        for number, given in enumerate(stats)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=action_schemas().add)


def pruned(
    where: str,
    columns: Mapping[str, str | DataType],
    stats: Sequence[Any],
    partitions: Sequence[Mapping[str, str | None]] | None = None,
) -> Pruned:
    schema = schema_of(columns)
    names = sorted({name for values in partitions or () for name in values})
    config = config_of(schema, [name for name in names if name in columns])
    return prune_files(adds_of(stats, partitions), parse_predicate(where, schema), config)


def kept(where: str, columns: Mapping[str, str | DataType], *stats: Any) -> list[bool]:
    """Which of the files with these statistics are kept."""
    found: list[bool] = pruned(where, columns, stats).kept.to_pylist()
    return found


def stats(low: Any, high: Any, nulls: Any = 0, records: int | None = 10, name: str = "c") -> dict[str, Any]:
    """The statistics of a file with one column; None: left out."""
    parts = {"minValues": low, "maxValues": high, "nullCount": nulls}
    found: dict[str, Any] = {part: {name: value} for part, value in parts.items() if value is not None}
    return found if records is None else {"numRecords": records, **found}
