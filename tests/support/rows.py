"""Tables with real rows in them, of one or a few Parquet files, for tests that look at one thing."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.schema.to_arrow import table_schema
from tests.support.actions import Action, Line, add, metadata, protocol
from tests.support.builder import TableBuilder


def parquet_bytes(rows: pa.Table, **options: Any) -> bytes:  # Any: what pyarrow's writer takes
    """A Parquet file."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    return sink.getvalue()


def schema_of(rows: pa.Table, **nullable: bool) -> str:
    """The schemaString of a table that holds such rows."""
    schema = table_schema(rows.schema)
    for field in schema["fields"]:
        field["nullable"] = nullable.get(field["name"], True)
    return json.dumps(schema)


def table_of(
    files: Mapping[str, bytes],
    schema_string: str,
    *,
    vectors: Mapping[str, Action] | None = None,
    partition_columns: Sequence[str] = (),
    partition_values: Mapping[str, Mapping[str, str | None]] | None = None,
) -> TableBuilder:
    """A table of one version that holds these files."""
    features = ["deletionVectors"] if vectors else []
    lines: list[Line] = [
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(schema_string=schema_string, partition_columns=partition_columns),
    ]
    builder = TableBuilder()
    for path, data in files.items():
        builder.file(path, data)
        values = (partition_values or {}).get(path)
        lines.append(add(path, size=len(data), vector=(vectors or {}).get(path), partition_values=values))
    return builder.commit(*lines)
