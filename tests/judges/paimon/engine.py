"""Asking Paimon (Java) about tables that are directories: open, write, read, compact, expire.

Rows are tuples of Python values in the order of the columns. Numbers, text and bytes are themselves; dates, times,
decimals and timestamps are text as Paimon prints it; arrays are lists, rows are tuples, maps and multisets are sorted
lists of pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tests.judges.figures import FIGURES

JavaObject: TypeAlias = Any  # Py4J makes the methods of a Java object up when they are called
Row: TypeAlias = tuple[Any, ...]
Column: TypeAlias = tuple[str, Any]
"""A name, and a type as a schema file writes it: text, or an object."""

_INTEGERS = {"TINYINT": "Byte", "SMALLINT": "Short", "INTEGER": "Int", "BIGINT": "Long"}
_SIMPLE = {**_INTEGERS, "BOOLEAN": "Boolean", "FLOAT": "Float", "DOUBLE": "Double"}
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_DAYS_AND_TIMES = ("DATE", "TIME_WITHOUT_TIME_ZONE")
_TIMESTAMPS = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
_MAPS = ("MAP", "MULTISET")


class PaimonJudge:
    """A Java process with Paimon on its class path.

    Attributes:
        jvm: The view of Py4J, for everything that has no method here.
        paimon: The package `org.apache.paimon`.
    """

    def __init__(self, jvm: JavaObject, directory: Path) -> None:
        self.jvm = jvm
        self.paimon = jvm.org.apache.paimon
        self.files = self.paimon.fs.local.LocalFileIO.create()
        self.io_manager = self.paimon.disk.IOManager.create(str(directory))

    def create(
        self,
        directory: Path,
        columns: Sequence[Column],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> PaimonTable:
        """Let Paimon create a table, and return it. Ids of columns are given by Paimon."""
        FIGURES["tables"] += 1
        fields = [{"id": number, "name": name, "type": type_} for number, (name, type_) in enumerate(columns)]
        listed = self.parse_schema(fields).fields()
        schema = self.paimon.schema.Schema(list(listed), list(partition_keys), list(primary_keys), options or {}, "")
        self.schemas(directory).createTable(schema)
        return self.open(directory)

    def parse_schema(self, fields: Sequence[Mapping[str, Any]], options: Mapping[str, str] | None = None) -> JavaObject:
        """Return the TableSchema of a schema file without keys."""
        content = {
            "version": 3,
            "id": 0,
            "fields": list(fields),
            "highestFieldId": 1_000,
            "partitionKeys": [],
            "primaryKeys": [],
            "options": dict(options or {}),
        }
        return self.paimon.schema.TableSchema.fromJson(json.dumps(content))

    def schemas(self, directory: Path) -> JavaObject:
        """Return the SchemaManager of a table."""
        return self.paimon.schema.SchemaManager(self.files, self.path(directory))

    def path(self, directory: Path) -> JavaObject:
        """Return a directory as a path of Paimon."""
        return self.paimon.fs.Path(str(directory))

    def open(self, directory: Path) -> PaimonTable:
        """Open a table with its newest schema, as an engine that has never seen it before."""
        FIGURES["opened"] += 1
        return PaimonTable(self, self.paimon.table.FileStoreTableFactory.create(self.files, self.path(directory)))

    def why_not_opened(self, directory: Path) -> str | None:
        """Return the message with which Paimon refuses to open a table; None if it opens the table."""
        try:
            self.open(directory)
        except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
            return cause_of(error)
        return None

    # Values

    def row(self, row_type: JavaObject, values: Sequence[Any], kind: str = "+I") -> JavaObject:
        """Return a row of Paimon."""
        types = list(row_type.getFieldTypes())
        row = self.paimon.data.BinaryRow(len(types))
        writer = self.paimon.data.BinaryRowWriter(row)
        for position, (data_type, value) in enumerate(zip(types, values, strict=True)):
            if value is None:
                writer.setNullAt(position)
            else:
                self._write(writer, position, data_type, value)
        writer.complete()
        row.setRowKind(self.paimon.types.RowKind.fromShortString(kind))
        return row

    def _write(self, writer: JavaObject, position: int, data_type: JavaObject, value: Any) -> None:
        root = root_of(data_type)
        data = self.paimon.data
        serializers = data.serializer
        if root in _SIMPLE:
            getattr(writer, f"write{_SIMPLE[root]}")(position, value)
        elif root in _TEXTS:
            writer.writeString(position, data.BinaryString.fromString(value))
        elif root in _BYTES:
            writer.writeBinary(position, value, 0, len(value))
        elif root == "BLOB":
            writer.writeBlob(position, data.BlobData(value))
        elif root == "VARIANT":
            writer.writeVariant(position, data.variant.GenericVariant.fromJson(value))
        elif root in _DAYS_AND_TIMES:
            writer.writeInt(position, self.internal_value(data_type, value))
        elif root == "DECIMAL":
            writer.writeDecimal(position, self.internal_value(data_type, value), data_type.getPrecision())
        elif root in _TIMESTAMPS:
            # Conversions of text cut a timestamp at milliseconds.
            moment = data.Timestamp.fromLocalDateTime(self.jvm.java.time.LocalDateTime.parse(value))
            writer.writeTimestamp(position, moment, data_type.getPrecision())
        elif root == "ARRAY":
            element = data_type.getElementType()
            writer.writeArray(position, self._array(element, value), serializers.InternalArraySerializer(element))
        elif root == "VECTOR":
            element = data_type.getElementType()
            serializer = serializers.InternalVectorSerializer(element, len(value))
            writer.writeVector(position, self._vector(element, value), serializer)
        elif root in _MAPS:
            key_type, value_type = self._map_types(data_type)
            keys = self._array(key_type, [key for key, _ in value])
            values = self._array(value_type, [counted for _, counted in value])
            serializer = serializers.InternalMapSerializer(key_type, value_type)
            writer.writeMap(position, data.BinaryMap.valueOf(keys, values), serializer)
        elif root == "ROW":
            writer.writeRow(position, self.row(data_type, value), serializers.InternalRowSerializer(data_type))
        else:
            raise AssertionError(f"no values of {root}")

    def internal_value(self, data_type: JavaObject, text: str) -> JavaObject:
        """Return the internal value that Paimon casts a text to."""
        cast = self.paimon.casting.CastExecutors.resolve(self.paimon.types.DataTypes.STRING(), data_type)
        return cast.cast(self.paimon.data.BinaryString.fromString(text))

    def _map_types(self, data_type: JavaObject) -> tuple[JavaObject, JavaObject]:
        if root_of(data_type) == "MULTISET":
            return data_type.getElementType(), self.paimon.types.DataTypes.INT()
        return data_type.getKeyType(), data_type.getValueType()

    def _array(self, element: JavaObject, values: Sequence[Any]) -> JavaObject:
        array = self.paimon.data.BinaryArray()
        size = self.paimon.data.BinaryArray.calculateFixLengthPartSize(element)
        writer = self.paimon.data.BinaryArrayWriter(array, len(values), size)
        for position, value in enumerate(values):
            if value is None:
                writer.setNullAt(position, element)
            else:
                self._write(writer, position, element, value)
        writer.complete()
        return array

    def _vector(self, element: JavaObject, values: Sequence[Any]) -> JavaObject:
        return self.paimon.data.BinaryVector.fromInternalArray(self._array(element, values), element)

    def values(self, row_type: JavaObject, row: JavaObject) -> Row:
        """Return a row of Paimon as a tuple."""
        return tuple(
            self._value(
                data_type, self.paimon.data.InternalRow.createFieldGetter(data_type, position).getFieldOrNull(row)
            )
            for position, data_type in enumerate(row_type.getFieldTypes())
        )

    def _value(self, data_type: JavaObject, value: JavaObject) -> Any:
        root = root_of(data_type)
        if value is None or root in _SIMPLE:
            return value
        if root in _BYTES:
            return bytes(value)
        if root == "BLOB":
            return bytes(value.toData())
        if root in ("ARRAY", "VECTOR"):
            return self._elements(data_type.getElementType(), value)
        if root in _MAPS:
            key_type, value_type = self._map_types(data_type)
            keys = self._elements(key_type, value.keyArray())
            # Some formats keep the order of the pairs, others do not.
            return sorted(zip(keys, self._elements(value_type, value.valueArray()), strict=True), key=repr)
        if root == "ROW":
            return self.values(data_type, value)
        if root == "DATE":
            return str(self.jvm.java.time.LocalDate.ofEpochDay(value).toString())
        if root == "TIME_WITHOUT_TIME_ZONE":
            return str(self.jvm.java.time.LocalTime.ofNanoOfDay(value * 1_000_000).toString())
        return str(value.toString())

    def _elements(self, element: JavaObject, array: JavaObject) -> list[Any]:
        getter = self.paimon.data.InternalArray.createElementGetter(element)
        return [self._value(element, getter.getElementOrNull(array, place)) for place in range(array.size())]


def root_of(data_type: JavaObject) -> str:
    """Return the name of a type without its arguments, as Paimon's `DataTypeRoot` has it."""
    return str(data_type.getTypeRoot().name())


def cause_of(error: Exception) -> str:
    """Return the class and the message of the innermost cause of an error in Java, in one line."""
    cause = getattr(error, "java_exception", None)
    if cause is None:
        return f"{type(error).__name__}: {error}"
    while cause.getCause() is not None:
        cause = cause.getCause()
    return " ".join(str(cause.toString()).split())


class PaimonTable:
    """A table that Paimon has opened with the schema that was the newest at that time.

    Attributes:
        table: The FileStoreTable, for everything that has no method here.
    """

    def __init__(self, judge: PaimonJudge, table: JavaObject) -> None:
        self._judge = judge
        self.table = table

    def with_options(self, options: Mapping[str, str]) -> PaimonTable:
        """Return the table with other options, as an engine sets them for one query."""
        return PaimonTable(self._judge, self.table.copy(dict(options)))

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.rowType().getFieldNames())

    def _writes(self) -> JavaObject:
        # The classes of tables are not public, so Py4J does not find the methods that they inherit from interfaces.
        return self._judge.paimon.table.sink.BatchWriteBuilderImpl(self.table)

    def _reads(self) -> JavaObject:
        return self._judge.paimon.table.source.ReadBuilderImpl(self.table)

    def write(self, rows: Iterable[Sequence[Any]], *, kind: str = "+I") -> None:
        """Commit rows; `kind` is +I for new rows, -D for rows to be deleted by their keys."""
        FIGURES["writes"] += 1
        row_type = self.table.rowType()
        # Engines assign dynamic buckets before they write. A table of a few rows has one.
        bucket = [0] if str(self.table.bucketMode().name()) == "HASH_DYNAMIC" else []
        builder = self._writes()
        with closing(builder.newWrite().withIOManager(self._judge.io_manager)) as writer:
            for values in rows:
                writer.write(self._judge.row(row_type, values, kind), *bucket)
            with closing(builder.newCommit()) as commit:
                commit.commit(writer.prepareCommit())

    def rows(self, *, above: tuple[str, str] | None = None) -> list[Row]:
        """Return the rows of the newest snapshot, in the order of their representation.

        Args:
            above: A column and a value as text: only rows with greater values are asked for. Paimon may return more.
        """
        FIGURES["reads"] += 1
        builder = self._reads()
        if above is not None:
            builder = builder.withFilter(self._greater_than(*above))
        return sorted(self._rows(builder), key=repr)

    def _greater_than(self, column: str, value: str) -> JavaObject:
        row_type = self.table.rowType()
        place = row_type.getFieldIndex(column)
        literal = self._judge.internal_value(row_type.getTypeAt(place), value)
        return self._judge.paimon.predicate.PredicateBuilder(row_type).greaterThan(place, literal)

    def _rows(self, builder: JavaObject) -> Iterator[Row]:
        row_type = builder.readType()
        read = builder.newRead().withIOManager(self._judge.io_manager)
        for split in builder.newScan().plan().splits():
            with closing(self._judge.paimon.reader.RecordReaderIterator(read.createReader(split))) as iterator:
                while iterator.hasNext():
                    yield self._judge.values(row_type, iterator.next())

    def can_compact(self) -> bool:
        """Return False for tables whose compaction by this version of Paimon fails whatever deltacli did."""
        return str(self.table.options().get("data-evolution.enabled")) != "true"

    def compact(self) -> None:
        """Rewrite all files of a table in full, whatever is in its buckets."""
        FIGURES["compactions"] += 1
        splits = list(self._reads().newScan().plan().splits())
        builder = self._writes()
        with closing(builder.newWrite().withIOManager(self._judge.io_manager)) as writer:
            messages = list(self._compacted_without_buckets()) if self._has_no_buckets() else []
            for split in [] if self._has_no_buckets() else splits:
                writer.compact(split.partition(), split.bucket(), True)
            messages += list(writer.prepareCommit())
            with closing(builder.newCommit()) as commit:
                commit.commit(messages)

    def _has_no_buckets(self) -> bool:
        return str(self.table.bucketMode().name()) == "BUCKET_UNAWARE"

    def _compacted_without_buckets(self) -> Iterator[JavaObject]:
        """Yield the messages of tasks that a coordinator hands out for append tables without buckets."""
        eager = self.table.copy({"compaction.min.file-num": "2"})
        coordinator = self._judge.paimon.append.AppendCompactCoordinator(eager, False)
        with closing(eager.store().newWrite("judge")) as writer:
            for task in coordinator.run():
                yield task.doCompact(eager, writer)

    def alter(self, changes: Sequence[Mapping[str, Any]]) -> None:
        """Change the schema by SchemaChange objects of the REST API. This object keeps the schema that it has.

        The JSON is the one that `deltacli alter --apply` reads.
        """
        jvm = self._judge.jvm
        kind = jvm.java.lang.Class.forName("org.apache.paimon.schema.SchemaChange")
        parse = self._judge.paimon.utils.JsonSerdeUtil.fromJson
        self.table.schemaManager().commitChanges([parse(json.dumps(change), kind) for change in changes])

    def expire(self) -> int:
        """Expire all snapshots but the newest one, and return their number."""
        config = self._judge.paimon.options.ExpireConfig.builder()
        duration = self._judge.jvm.java.time.Duration.ZERO
        built = config.snapshotRetainMax(1).snapshotRetainMin(1).snapshotTimeRetain(duration).build()
        return int(self.table.newExpireSnapshots().config(built).expire())

    def snapshots(self) -> list[int]:
        """Return the ids of the snapshots."""
        manager = self.table.snapshotManager()
        return list(range(int(manager.earliestSnapshotId()), int(manager.latestSnapshotId()) + 1))


@contextmanager
def judge_of(jvm: JavaObject, directory: Path) -> Iterator[PaimonJudge]:
    """Yield a judge that keeps its temporary files below a directory."""
    judge = PaimonJudge(jvm, directory)
    yield judge
    judge.io_manager.close()
