"""What the data source does on an executor: read the rows of a partition, in the exact types that Spark expects."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any

from deltacli.errors import UsageError
from deltacli.spark.executor_rows import rows_of_pieces, searchable

if TYPE_CHECKING:
    import pyarrow


def rows_of_partition(partition: bytes | None, schema: Any) -> Iterator[pyarrow.RecordBatch]:  # Any: StructType
    """Yield the rows of a partition; none of None, which Spark makes where there are no partitions."""
    if partition is None:
        return
    expected = _arrow_schema(schema)
    job, pieces = pickle.loads(partition)
    for batch in rows_of_pieces(job, pieces):
        yield _as_expected(batch, expected)


def no_writer(name: str) -> RuntimeError:
    """Return the error for rows that are written to a data source."""
    return searchable(
        UsageError(
            f"format {name} is read only",
            code="spark.read-only",
            hint='frame.write.format("delta") with the jar of delta-spark, or write_deltalake of the package deltalake',
        )
    )


def _arrow_schema(schema: Any) -> pyarrow.Schema:  # Any: StructType
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # before Spark 4.2


def _as_expected(batch: pyarrow.RecordBatch, expected: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return a batch in a schema that differs in what may be null, and in the names of the parts of maps."""
    import pyarrow as pa

    columns = [_column(column, field.type) for column, field in zip(batch.columns, expected, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=expected)


def _column(column: pyarrow.Array, expected: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa

    if column.type.equals(expected):
        return column
    if pa.types.is_struct(expected) and not all(field.nullable for field in expected):  # a variant
        parts = [column.field(field.name) for field in expected]
        return pa.StructArray.from_arrays(parts, fields=list(expected), mask=column.is_null())
    return column.cast(expected)
