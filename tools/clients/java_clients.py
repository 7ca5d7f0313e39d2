"""The clients that run in Java, for `probe.py`: Delta for Spark, and Delta Kernel with its default engine.

They are those of `tests/judges`: `dev.py prepare` fetches them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.judges.engines import require_jars, running_java, running_spark
from tests.judges.kernel.reader import KernelReader, iterate

Table = Any  # pa.Table, which has no types

_RUNNING = ExitStack()
"""Keeps the Java processes until the probe ends."""


class SparkClient:
    """Delta for Spark in a session of its own."""

    def __init__(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix="spark-client-"))
        self._session = _RUNNING.enter_context(running_spark(directory))

    def read(self, path: str) -> Table:
        """Return the rows of a table."""
        rows = self._session.read.format("delta").load(path).toArrow()
        arrays = [_order_parts_of_variant(column.combine_chunks()) for column in rows.columns]
        return pa.Table.from_arrays(arrays, names=rows.schema.names)

    def append(self, path: str, rows: Table) -> None:
        """Append rows to a table."""
        schema = self._session.read.format("delta").load(path).schema
        frame = self._session.createDataFrame(rows, schema)
        frame.write.format("delta").mode("append").save(path)


def _order_parts_of_variant(values: Any) -> Any:  # Any: an array of Arrow
    """Return variants with their metadata before their value, as files have them; Spark gives the value first."""
    kind = values.type
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    if names != ["value", "metadata"]:
        return values
    parts = [values.field(1), values.field(0)]
    return pa.StructArray.from_arrays(parts, fields=[kind.field(1), kind.field(0)], mask=values.is_null())


class KernelClient:
    """Delta Kernel in a Java process of its own."""

    def __init__(self) -> None:
        jars = [jar for jar in require_jars() if not jar.name.startswith("paimon-")]
        self._jvm = _RUNNING.enter_context(running_java(jars))
        self._reader = KernelReader(self._jvm)

    def read(self, path: str) -> Table:
        """Return the rows of a table."""
        rows = self._reader.rows(Path(path))  # first, so that a refusal is that of Kernel
        fields = list(self._reader.snapshot(Path(path)).getSchema().fields())
        schema = pa.schema([(field.getName(), arrow_type(field.getDataType())) for field in fields])
        columns = list(zip(*rows, strict=True)) or [()] * len(fields)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def append(self, path: str, rows: Table) -> None:
        """Append a row that the table has already.

        Kernel takes rows in its own form. A row that it has read itself needs no conversion, which could be wrong.
        """
        reader, kernel, engine = self._reader, self._reader.kernel, self._reader.engine
        assert rows.num_rows == 1
        table = kernel.Table.forPath(engine, path)
        batch, values = self._find_row(table, rows)
        operation = kernel.Operation.WRITE
        transaction = table.createTransactionBuilder(engine, "deltacli probe", operation).build(engine)
        state = transaction.getTransactionState(engine)
        partition_values = self._partition_values(transaction, values)

        logical = reader.iterator_of(batch)
        physical = kernel.Transaction.transformLogicalData(engine, state, logical, partition_values)
        context = kernel.Transaction.getWriteContext(engine, state, partition_values)
        files = engine.getParquetHandler().writeParquetFiles(
            context.getTargetDirectory(), physical, context.getStatisticsColumns()
        )
        actions = kernel.Transaction.generateAppendActions(engine, state, files, context)
        transaction.commit(engine, kernel.utils.CloseableIterable.inMemoryIterable(actions))

    def _find_row(self, table: Any, wanted: Table) -> tuple[Any, dict[str, tuple[Any, Any]]]:
        """Return a batch of Kernel that has a wanted row of a table alone, and the value and type of each column.

        Without an equal row it is the first one, which then shows as another row in the table.
        """
        scan = table.getLatestSnapshot(self._reader.engine).getScanBuilder().build()
        state = scan.getScanState(self._reader.engine)
        fields = list(table.getLatestSnapshot(self._reader.engine).getSchema().fields())
        schema = pa.schema([(field.getName(), arrow_type(field.getDataType())) for field in fields])
        first = None
        for file_row in self._reader.scan_files(scan):
            for batch in self._reader.read_batches(state, file_row):
                for position, row in zip(_selected_positions(batch), iterate(batch.getRows()), strict=True):
                    values = self._reader.read_row(row)
                    found = batch, position, values
                    first = found if first is None else first
                    arrays = [pa.array([value], column.type) for value, column in zip(values, schema, strict=True)]
                    if repr(pa.Table.from_arrays(arrays, schema=schema).to_pylist()) == repr(wanted.to_pylist()):
                        return self._select(batch, position), _with_types(values, fields)
        assert first is not None, "a row is asked for of tables that have some"
        batch, position, values = first
        return self._select(batch, position), _with_types(values, fields)

    def _select(self, batch: Any, position: int) -> Any:
        """Return a batch in which nothing but one row is selected."""
        data = batch.getData()
        size = data.getSize()
        flags = self._reader.new_booleans([number == position for number in range(size)])
        optional = self._jvm.java.util.Optional
        vectors = self._reader.kernel.defaults.internal.data.vector
        selection = vectors.DefaultBooleanVector(size, optional.empty(), flags)
        return self._reader.kernel.data.FilteredColumnarBatch(data, optional.of(selection))

    def _partition_values(self, transaction: Any, values: dict[str, tuple[Any, Any]]) -> Any:
        """Return the partition values of a row as Kernel takes them."""
        found = self._jvm.java.util.HashMap()
        for column in transaction.getPartitionColumns(self._reader.engine):
            value, kind = values[column]
            found.put(column, self._literal(value, kind))
        return found

    def _literal(self, value: Any, kind: Any) -> Any:
        literals = self._reader.kernel.expressions.Literal
        name = kind.getClass().getSimpleName()
        if value is None:
            return literals.ofNull(kind)
        if name == "DecimalType":
            return literals.ofDecimal(value, kind.getPrecision(), kind.getScale())
        makers = {"StringType": "ofString", "LongType": "ofLong", "IntegerType": "ofInt", "DateType": "ofDate"}
        makers |= {
            "BinaryType": "ofBinary",
            "TimestampType": "ofTimestamp",
            "TimestampNTZType": "ofTimestampNtz",
            "BooleanType": "ofBoolean",
        }
        return getattr(literals, makers[name])(value)


def _selected_positions(batch: Any) -> list[int]:
    """Return the positions of the rows of a batch that are not deleted."""
    size = batch.getData().getSize()
    selected = batch.getSelectionVector()
    if not selected.isPresent():
        return list(range(size))
    return [position for position in range(size) if selected.get().getBoolean(position)]


def _with_types(values: tuple[Any, ...], fields: list[Any]) -> dict[str, tuple[Any, Any]]:
    """Return the value and the type of each column of a row."""
    return {field.getName(): (value, field.getDataType()) for field, value in zip(fields, values, strict=True)}


_ARROW_TYPES = {
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "StringType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
}


def arrow_type(kind: Any) -> Any:  # Any: types of Kernel and of Arrow
    """Return the Arrow type of a type of Kernel. Raises KeyError for one that has none."""
    name = kind.getClass().getSimpleName()
    if name == "DecimalType":
        return pa.decimal128(kind.getPrecision(), kind.getScale())
    if name == "ArrayType":
        return pa.list_(arrow_type(kind.getElementType()))
    if name == "MapType":
        return pa.map_(arrow_type(kind.getKeyType()), arrow_type(kind.getValueType()))
    if name == "StructType":
        return pa.struct(list(_arrow_fields(kind)))
    return _ARROW_TYPES[name]


def _arrow_fields(kind: Any) -> Iterator[tuple[str, Any]]:
    for field in kind.fields():
        yield field.getName(), arrow_type(field.getDataType())
