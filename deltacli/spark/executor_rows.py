"""What runs on an executor: read the rows of pieces of a table, for the data source in the types that Spark expects.

Imports nothing that only the driver needs.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn

from deltacli.core.errors import DeltacliError, PathExternal, UsageError
from deltacli.core.typing import RecordBatch, SparkSchema
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.engine.spark.worker import context_of
from deltacli.storage.secrets import without_secrets
from deltacli.work.outputs.rows import rows_of_piece

if TYPE_CHECKING:
    import pyarrow

    from deltacli.work.task import TaskContext


def rows_of_partition(partition: bytes | None, schema: SparkSchema) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a partition; none of None, which Spark makes where there are no partitions."""
    if partition is None:
        return
    expected = arrow_schema_of(schema)
    job, pieces = pickle.loads(partition)
    for batch in rows_of_pieces(job, pieces):
        yield _as_expected(batch, expected)


def no_writer(name: str) -> RuntimeError:
    """Return the error for rows that are written to a data source of shares."""
    return searchable(
        UsageError(
            f"format {name} is read only",
            code="spark.read-only",
            hint='frame.write.format("deltacli").mode("append") to a table of your own',
        )
    )


def no_stream_writer(spark: str) -> RuntimeError:
    """Return the error for a query that writes to a version of Spark without Arrow writers of streams."""
    return searchable(
        UsageError(
            f"Spark {spark} cannot append the batches of a query to a table",
            code="usage.stream-option",
            facts={"needed": "Spark 4.1"},
            hint='foreachBatch: batch.write.format("deltacli").mode("append"), with txnAppId and txnVersion',
        )
    )


def arrow_schema_of(schema: SparkSchema) -> pyarrow.Schema:
    """Return the types in which Spark sends and expects the columns of a schema."""
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


SPEC = "spec"
"""The name of the shared `ReadSpec`."""


def read_piece(piece: Any, context: TaskContext) -> Iterator[pyarrow.RecordBatch]:  # Any: a RowsPiece
    """Yield the rows of a piece as the shared `ReadSpec` describes them."""
    return rows_of_piece(context.files, context.shared(SPEC), piece)


def variant_columns(columns: Iterable[StructField]) -> frozenset[str]:
    """Return the names of the columns that are variants."""
    return frozenset(column.name for column in columns if column.data_type == PrimitiveType("variant"))


def as_spark_has_it(batch: pyarrow.RecordBatch, variants: Collection[str]) -> pyarrow.RecordBatch:
    """Return rows with the parts of variants in Spark's order: it takes them by position, whatever their names."""
    for position, field in enumerate(batch.schema):
        if field.name in variants:
            import pyarrow as pa

            column = batch.column(position)
            parts = [column.field("value"), column.field("metadata")]
            swapped = pa.StructArray.from_arrays(parts, ["value", "metadata"], mask=column.is_null())
            batch = batch.set_column(position, field.name, swapped)
    return batch


def rows_of_pieces(job: bytes, pieces: Sequence[bytes]) -> Iterator[RecordBatch]:
    """Yield the rows of pickled pieces as the job reads them.

    Raises RuntimeError, whose text begins with the code of the error: Spark shows it within a traceback.
    """
    try:
        described = pickle.loads(job)
        context = context_of(described)
        variants = variant_columns(context.shared(SPEC).columns)
        for piece in pieces:
            for batch in described.task(pickle.loads(piece), context):
                yield as_spark_has_it(batch, variants)
    except DeltacliError as fault:
        raise searchable(fault) from None


@dataclass(frozen=True)
class MergedRows:
    """Merges groups of rows to batches of a frame; `schema` is that of the groups. See `engine/spark/regroup.py`."""

    merge: Any
    schema: pyarrow.Schema

    def rows(self, sides: Any) -> Iterator[RecordBatch]:
        """Yield the rows of a group that differ. Raises RuntimeError, whose text begins with the code of the error."""
        try:
            _, rows = self.merge(sides)
        except DeltacliError as fault:
            self.refuse(fault)
        if rows is not None:
            yield rows

    def refuse(self, fault: DeltacliError) -> NoReturn:
        """Raise an error of a reading in the same way."""
        raise searchable(fault) from None


def searchable(fault: DeltacliError) -> RuntimeError:
    """Return an error whose text begins with the code in brackets, because Spark shows it within a traceback."""
    facts = "".join(f"; {name}: {value}" for name, value in fault.facts.items())
    hint = fault.hint if fault.hint and "{" not in fault.hint else None
    if "did you mean" in fault.facts:
        hint = None  # a call of another function than the data source
    if isinstance(fault, PathExternal) and fault.prefix is not None:
        hint = f'allow_external=[{fault.prefix!r}], or .option("allowExternal", {fault.prefix!r}) of the data source'
    text = f"[{fault.code}] {fault.message}{facts}" + (f"; try: {hint}" if hint else "")
    return RuntimeError(without_secrets(text))
