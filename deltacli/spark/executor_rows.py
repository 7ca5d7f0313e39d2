"""What runs on an executor: read the rows of pieces of a table, for the data source in the types that Spark expects.

Imports nothing that only the driver needs.

The rows go through Python, which is several times slower than Spark's scan, and right for every file that `Scan` reads.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import pyarrow as pa

from deltacli.core.errors import DeltacliError, PathExternal, Unreadable, UsageError
from deltacli.core.typing import RecordBatch, SparkFrame, SparkSchema, SparkSession
from deltacli.delta.schema.types import PrimitiveType, StructField, holds
from deltacli.engine.spark.engine import SparkEngine
from deltacli.engine.spark.jobs import assign_tasks, make_partitioned_frame
from deltacli.engine.spark.regrouping import BatchesBySide
from deltacli.engine.spark.worker import open_context
from deltacli.storage.secrets import mask_secrets
from deltacli.work.outputs.row_outputs import plan_row_pieces, read_piece_rows
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext

# -- what runs on an executor ------------------------------------------------------------------------------------------


def rows_of_partition(partition: bytes | None, schema: SparkSchema) -> Iterator[pa.RecordBatch]:
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


def arrow_schema_of(schema: SparkSchema) -> pa.Schema:
    """Return the types in which Spark sends and expects the columns of a schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # before Spark 4.2


def _as_expected(batch: pa.RecordBatch, expected: pa.Schema) -> pa.RecordBatch:
    """Return a batch in a schema that differs in what may be null, and in the names of the parts of maps."""
    columns = [_column(column, field.type) for column, field in zip(batch.columns, expected, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=expected)


def _column(column: pa.Array, expected: pa.DataType) -> pa.Array:
    if column.type.equals(expected):
        return column
    if pa.types.is_struct(expected) and not all(field.nullable for field in expected):  # a variant
        parts = [column.field(field.name) for field in expected]
        return pa.StructArray.from_arrays(parts, fields=list(expected), mask=column.is_null())
    return column.cast(expected)


SPEC = "spec"
"""The name of the shared `ReadSpec`."""


def read_piece(piece: Any, context: TaskContext) -> Iterator[pa.RecordBatch]:  # Any: a RowsPiece
    """Yield the rows of a piece as the shared `ReadSpec` describes them."""
    return read_piece_rows(context.files, context.shared(SPEC), piece)


def variant_columns(columns: Iterable[StructField]) -> frozenset[str]:
    return frozenset(column.name for column in columns if column.data_type == PrimitiveType("variant"))


def as_spark_has_it(batch: pa.RecordBatch, variants: Collection[str]) -> pa.RecordBatch:
    """Return rows with the parts of variants in Spark's order: it takes them by position, whatever their names."""
    for position, field in enumerate(batch.schema):
        if field.name in variants:
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
        context = open_context(described)
        variants = variant_columns(context.shared(SPEC).columns)
        for piece in pieces:
            for batch in described.task(pickle.loads(piece), context):
                yield as_spark_has_it(batch, variants)
    except DeltacliError as fault:
        raise searchable(fault) from None


@dataclass(frozen=True)
class MergedRows:
    """A `GroupMerger` that yields the rows of two tables that differ (`engine/spark/regrouping.py`).

    Attributes:
        merge: Compares the rows of a group, and returns their counts and the rows that differ.
        schema: The schema of the batches of a group.
    """

    merge: Callable[[BatchesBySide], tuple[Any, RecordBatch | None]]  # Any: the counts, which are not used here
    schema: pa.Schema

    def merge_group(self, batches_by_side: BatchesBySide) -> Iterator[RecordBatch]:
        """Yield the rows of a group that differ. Raises RuntimeError, whose text begins with the code of the error."""
        try:
            _, rows = self.merge(batches_by_side)
        except DeltacliError as fault:
            self.report_error(fault)
        if rows is not None:
            yield rows

    def report_error(self, error: DeltacliError) -> NoReturn:
        """Raise a RuntimeError whose text begins with the code of the error."""
        raise searchable(error) from None


def searchable(fault: DeltacliError) -> RuntimeError:
    """Return an error whose text begins with the code in brackets, because Spark shows it within a traceback."""
    facts = "".join(f"; {name}: {value}" for name, value in fault.facts.items())
    hint = fault.hint
    if hint is not None and "{" in hint:
        hint = None  # a command whose table is not filled in cannot be pasted
    if "did you mean" in fault.facts:
        hint = None  # a call of another function than the data source
    if isinstance(fault, PathExternal) and fault.prefix is not None:
        hint = f'allow_external=[{fault.prefix!r}], or .option("allowExternal", {fault.prefix!r}) of the data source'
    text = f"[{fault.code}] {fault.message}{facts}" + (f"; try: {hint}" if hint else "")
    return RuntimeError(mask_secrets(text))


# -- rows that Spark's own scan cannot read right ----------------------------------------------------------------------

_VARIANT = PrimitiveType("variant")
_engines: WeakKeyDictionary[Any, SparkEngine] = WeakKeyDictionary()


def engine_of(session: SparkSession) -> SparkEngine:
    """Return the engine of a session, one for all plans, because its first job takes a second."""
    engine = _engines.get(session)
    if engine is None:
        engine = _engines[session] = SparkEngine(session)
    return engine


def rows_through_python(
    session: Any, stores: TableStores, spec: ReadSpec, files: Iterable[DataFile], schema: Any
) -> SparkFrame:
    """Return the rows of files as a frame of a schema of Spark, as `read_rows` reads them.

    Raises what `SparkEngine.prepare` raises. An action raises an error of Spark whose text begins with the code of
    our own: `[data.file-missing] …`.
    """
    require_no_nested_variant(spec.columns)
    pieces = list(plan_row_pieces(files))
    if not pieces:
        return session.createDataFrame([], schema)
    engine = engine_of(session)
    shared: Mapping[str, Any] = {SPEC: spec}
    job = pickle.dumps(engine.prepare(read_piece, shared, stores))
    parts = assign_tasks([piece.weight for piece in pieces], engine.slots)
    pickled = pa.array([pickle.dumps(piece, pickle.HIGHEST_PROTOCOL) for piece in pieces], pa.binary())
    spread = make_partitioned_frame(session, parts, piece=(pickled, "binary"))
    return spread.mapInArrow(_task(job), schema)


def require_no_nested_variant(columns: Iterable[StructField]) -> None:
    """Raise Unreadable for a variant within another type, which Spark would take in another order of its parts."""
    for column in columns:
        if column.data_type != _VARIANT and holds(column.data_type, _VARIANT):
            raise Unreadable(
                f"column {column.name} has a variant within another type, which deltacli does not read on executors",
                code="schema.unknown-type",
                facts={"column": column.name},
                hint="read the other columns: columns=[…]",
            )


def _task(job: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task. It is sent by value."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from rows_of_pieces(job, batch.column("piece").to_pylist())

    return run
