"""Reading tables with Delta Kernel (Java), whose default engine other connectors such as Flink's are built on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.judges.figures import FIGURES

GETTERS = {
    "BooleanType": "getBoolean",
    "ByteType": "getByte",
    "ShortType": "getShort",
    "IntegerType": "getInt",
    "LongType": "getLong",
    "FloatType": "getFloat",
    "DoubleType": "getDouble",
    "StringType": "getString",
    "BinaryType": "getBinary",
    "DateType": "getInt",  # days since 1970
    "TimestampType": "getLong",  # microseconds since 1970
    "TimestampNTZType": "getLong",
}


class KernelReader:
    """Kernel in a Java process. Dates are read as days, timestamps as microseconds, maps as lists of pairs."""

    def __init__(self, jvm: Any) -> None:  # Any: a JVMView of Py4J, like everything that it returns
        self.jvm = jvm
        self.kernel = jvm.io.delta.kernel
        configuration = jvm.org.apache.hadoop.conf.Configuration()
        self.engine = self.kernel.defaults.engine.DefaultEngine.create(configuration)

    def snapshot(self, directory: Path, version: int | None = None) -> Any:
        """Return a version of a table, the newest one without a number."""
        FIGURES["statements"] += 1
        table = self.kernel.Table.forPath(self.engine, str(directory))
        if version is None:
            return table.getLatestSnapshot(self.engine)
        return table.getSnapshotAsOfVersion(self.engine, version)

    def columns(self, directory: Path, version: int | None = None) -> list[str]:
        """Return the names of the columns."""
        return [field.getName() for field in self.snapshot(directory, version).getSchema().fields()]

    def rows(self, directory: Path, version: int | None = None, where: Any = None) -> list[tuple[Any, ...]]:
        """Return rows as tuples, in the order of their representation.

        Args:
            directory: The table.
            version: The version, or None for the newest one.
            where: A predicate of Kernel. Kernel skips files by it, but may return other rows, too.
        """
        snapshot = self.snapshot(directory, version)
        builder = snapshot.getScanBuilder()
        if where is not None:
            builder = builder.withFilter(where)
        scan = builder.build()
        return sorted(self._read_scan(scan), key=repr)

    def comparison(self, operator: str, column: str, literal: int | float | str) -> Any:
        """Return a predicate that compares a column with a number or a text."""
        expressions = self.kernel.expressions
        literals = expressions.Literal
        if isinstance(literal, str):
            value = literals.ofString(literal)
        elif isinstance(literal, float):
            value = literals.ofDouble(literal)
        else:
            value = literals.ofLong(literal)
        return expressions.Predicate(operator, expressions.Column(column), value)

    def new_booleans(self, flags: list[bool]) -> Any:
        """Return an array of Java's booleans."""
        array = self.jvm.java.lang.reflect.Array.newInstance(self.jvm.java.lang.Boolean.TYPE, len(flags))
        for position, flag in enumerate(flags):
            array[position] = flag
        return array

    def _read_scan(self, scan: Any) -> Iterator[tuple[Any, ...]]:
        state = scan.getScanState(self.engine)
        for file_row in self.scan_files(scan):
            yield from self._read_file(state, file_row)

    def scan_files(self, scan: Any) -> Iterator[Any]:
        """Yield the rows of Kernel that describe the data files of a scan."""
        for batch in iterate(scan.getScanFiles(self.engine)):
            yield from iterate(batch.getRows())

    def _read_file(self, state: Any, file_row: Any) -> Iterator[tuple[Any, ...]]:
        for batch in self.read_batches(state, file_row):
            for row in iterate(batch.getRows()):
                yield self.read_row(row)

    def read_batches(self, state: Any, file_row: Any) -> Iterator[Any]:
        """Yield the batches of a data file as the documentation of Kernel shows: physical columns are read first.
        Kernel then adds partition values, applies the deletion vector and renames columns.
        """
        internal = self.kernel.internal
        schema = internal.data.ScanStateRow.getPhysicalDataReadSchema(state)
        status = internal.InternalScanFileUtils.getAddFileStatus(file_row)
        parquet = self.engine.getParquetHandler()
        results = parquet.readParquetFiles(self.iterator_of(status), schema, self.jvm.java.util.Optional.empty())
        for result in iterate(results):
            physical = self.iterator_of(result.getData())
            yield from iterate(self.kernel.Scan.transformPhysicalData(self.engine, state, file_row, physical))

    def iterator_of(self, value: Any) -> Any:
        """Return a Java iterator over one value."""
        return self.kernel.internal.util.Utils.singletonCloseableIterator(value)

    def read_row(self, row: Any) -> tuple[Any, ...]:
        """Return the values of a row."""
        kinds = [field.getDataType() for field in row.getSchema().fields()]
        return tuple(self._read_value(row, position, kind) for position, kind in enumerate(kinds))

    def _read_value(self, source: Any, position: int, kind: Any) -> Any:
        """Return the value at a position of a row or of a column vector, whose methods have the same names."""
        if source.isNullAt(position):
            return None
        name = kind.getClass().getSimpleName()
        if name == "DecimalType":
            return source.getDecimal(position)
        if name == "ArrayType":
            array = source.getArray(position)
            return self._read_vector(array.getElements(), array.getSize(), kind.getElementType())
        if name == "MapType":
            entries = source.getMap(position)
            keys = self._read_vector(entries.getKeys(), entries.getSize(), kind.getKeyType())
            values = self._read_vector(entries.getValues(), entries.getSize(), kind.getValueType())
            return list(zip(keys, values, strict=True))
        if name == "StructType":
            return self._read_struct(source, position, kind)
        value = getattr(source, GETTERS[name])(position)
        return bytes(value) if name == "BinaryType" else value

    def _read_vector(self, vector: Any, size: int, kind: Any) -> list[Any]:
        return [self._read_value(vector, position, kind) for position in range(size)]

    def _read_struct(self, source: Any, position: int, kind: Any) -> dict[str, Any]:
        """Return a struct: a row has it as a row, a vector as one vector for each field."""
        fields = list(kind.fields())
        if hasattr(source, "getChild") and "ColumnVector" in _interfaces(source):
            children = [(source.getChild(number), position) for number in range(len(fields))]
        else:
            row = source.getStruct(position)
            children = [(row, number) for number in range(len(fields))]
        return {
            field.getName(): self._read_value(child, place, field.getDataType())
            for field, (child, place) in zip(fields, children, strict=True)
        }


def iterate(iterator: Any) -> Iterator[Any]:
    """Yield what a Java iterator returns. Py4J's own loop over one ends silently where Java raises an error."""
    from py4j.java_gateway import get_method

    take_next = get_method(iterator, "next")
    while iterator.hasNext():
        yield take_next()


def _interfaces(value: Any) -> set[str]:
    """Return the simple names of the interfaces that the class of a Java object and its superclasses implement."""
    names = set()
    java_class = value.getClass()
    while java_class is not None:
        names |= {interface.getSimpleName() for interface in java_class.getInterfaces()}
        java_class = java_class.getSuperclass()
    return names
