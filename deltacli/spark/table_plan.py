"""A plan: which files of a version are read, and how; its frame, and a description for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.hints import in_backticks
from deltacli.core.typing import SparkFrame, SparkSchema
from deltacli.core.units import format_size, plural
from deltacli.delta.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    simple_name,
)
from deltacli.engine.spark.tasks import local_frame
from deltacli.spark.conditions import scalar_literal, spark_condition
from deltacli.spark.live_files import Locations, SparkFile
from deltacli.spark.parquet_scan import PATH, ROW, Scanner, file_keys, without_deleted
from deltacli.spark.parquet_schema import Leaf, List, Map, Missing, Node, Part, Shape, Struct, has_missing
from deltacli.spark.partition_values import Values, key_of
from deltacli.spark.python_rows import rows_through_python
from deltacli.spark.spark_types import spark_schema, spark_type
from deltacli.storage.secrets import without_secrets
from deltacli.table.api_arguments import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltacli.table.scan import Selection
    from deltacli.table.version import Snapshot


_SHOWN_COLUMNS = 12
_VALUE = "__deltacli_value_"


class OwnFile(NamedTuple):
    """A file that our own scan reads, and why."""

    file: SparkFile
    reason: str


class FileGroup(NamedTuple):
    """Files that Spark's scan reads alike: of one shape, all with deletion vectors or all without."""

    shape: Shape
    files: tuple[SparkFile, ...]

    @property
    def has_vectors(self) -> bool:
        """Return whether rows of the files are deleted."""
        return self.files[0].file.vector is not None


@dataclass(frozen=True, eq=False)
class TablePlan:
    """How a version of a table is read by Spark: made by `plan_table`, turned into a frame by `dataframe`.

    `files` counts the files that are read, `pruned_by_partition` and `pruned_by_statistics` those that `where`
    excludes. `native_files` are read by Spark's own Parquet scan, the others by deltacli on executors, for the
    reasons in `reasons`.
    """

    snapshot: Snapshot
    columns: tuple[StructField, ...]
    where: str | None
    pruned_by_partition: int
    pruned_by_statistics: int
    values: Values
    groups: tuple[FileGroup, ...] = field(repr=False)
    own_files: tuple[OwnFile, ...] = field(repr=False)
    session: SparkSession = field(repr=False)
    selection: Selection = field(repr=False)
    locations: Locations = field(repr=False)

    @property
    def name(self) -> str | None:
        """The table as the caller wrote it."""
        return self.snapshot.name

    @property
    def version(self) -> int:
        """The version that is read."""
        return self.snapshot.version

    @property
    def files(self) -> int:
        """The number of files that are read."""
        return self.native_files + len(self.own_files)

    @property
    def native_files(self) -> int:
        """The number of files that Spark's own scan reads."""
        return sum(len(group.files) for group in self.groups)

    @property
    def size_bytes(self) -> int:
        """The size of the files that are read."""
        return sum(file.file.size_bytes or 0 for file in self._all_files())

    @property
    def vectors(self) -> int:
        """The number of files with deletion vectors."""
        return sum(file.file.vector is not None for file in self._all_files())

    @property
    def reasons(self) -> Counter[str]:
        """Why files are not read by Spark's own scan -> how many."""
        return Counter(own.reason for own in self.own_files)

    def _all_files(self) -> Iterable[SparkFile]:
        yield from (file for group in self.groups for file in group.files)
        yield from (own.file for own in self.own_files)

    @named
    def dataframe(self) -> DataFrame:
        """Return the rows as a frame. Nothing is read before an action, except to verify the files.

        Spark lists the files. For files with deletion vectors, and for a join, a job returns how Spark spells them;
        the first frame that our own scan has a part in sends deltacli to executors. Raises DataUnreadable for a
        missing file and a damaged vector, Refused (`spark.listing`, `spark.spelling`), and what `SparkEngine` raises.
        """
        frames = [frame for group in self.groups for frame in self._frames(group)]
        if self.own_files:
            spec = self.selection.rows_wanted(self.snapshot.config)
            files = [own.file.file for own in self.own_files]
            schema = spark_schema(self.columns, described=True)
            frames.append(rows_through_python(self.session, self.snapshot.table.stores, spec, files, schema))
        if not frames:
            return self.session.createDataFrame([], spark_schema(self.columns, described=True))
        return with_metadata(reduce(lambda one, other: one.union(other), frames), self.columns)

    # -- frames -------------------------------------------------------------------------------------------------------

    def _frames(self, group: FileGroup) -> Iterable[Any]:
        """Yield the frames of a group, with the columns of the plan."""
        match self.values:
            case Values.NONE:
                yield self._finished(group.shape, self._rows(group.shape, group.files), {})
            case Values.DIRECTORIES:
                physical = {column.name: name for name, column in self._partitions()}
                columns = {name: _column(physical[name]) for name in self._needed_partitions()}
                yield self._finished(group.shape, self._rows(group.shape, group.files, self._hive_fields()), columns)
            case Values.LITERALS:
                yield from self._by_literals(group)
            case Values.JOIN:
                yield self._by_join(group)

    def _rows(
        self, shape: Shape, files: Sequence[SparkFile], hive: tuple[Any, ...] = (), *, with_path: bool = False
    ) -> Any:
        """Return the rows of files as stored, without deleted rows."""
        scanner = Scanner(self.session, self.locations, hive)
        has_vectors = files[0].file.vector is not None
        frame = scanner.scan(
            files,
            read_schema(shape, self._types()),
            with_path=with_path or has_vectors,
            with_rows=has_vectors or with_path,
        )
        if not has_vectors:
            return frame
        return without_deleted(self.session, frame, files, self.snapshot.table.files())

    def _by_literals(self, group: FileGroup) -> Iterable[Any]:
        types = self._needed_partitions()
        by_key: dict[tuple[Any, ...], list[SparkFile]] = {}
        for file in group.files:
            by_key.setdefault(key_of(file, list(types)), []).append(file)
        for files in by_key.values():
            literals = {name: scalar_literal(types[name], files[0].file.constants[name]) for name in types}
            yield self._finished(group.shape, self._rows(group.shape, files), literals)

    def _by_join(self, group: FileGroup) -> Any:
        import pyarrow as pa
        from pyspark.sql import functions as fn

        frame = self._rows(group.shape, group.files, with_path=True)
        scanner = Scanner(self.session, self.locations)
        whole = scanner.scan(group.files, read_schema((), {}), with_path=True, with_rows=True)
        keys = file_keys(whole, group.files)
        present = [file for file in group.files if keys[file.place][0] is not None]
        types = self._needed_partitions()
        names = {name: f"{_VALUE}{number}" for number, name in enumerate(types)}
        known = {PATH: (pa.array([keys[file.place][0] for file in present], pa.string()), "string")}
        for name in types:
            values = pa.array([file.file.constants[name] for file in present], group.files[0].file.constants[name].type)
            known[names[name]] = values, spark_type(types[name])
        joined = frame.join(fn.broadcast(local_frame(self.session, known)), PATH)
        columns = {name: _column(names[name]) for name in types}
        return self._finished(group.shape, joined, columns)

    def _finished(self, shape: Shape, frame: Any, values: dict[str, Any]) -> Any:
        """Return the columns of the plan for the rows that match."""
        needed = self.selection.needed
        if not values and all(map(is_as_wanted, shape, (column.data_type for column in needed))):
            frame = frame.drop(PATH, ROW)
            if any(part.name != part.stored_name for part in shape):
                frame = frame.toDF(*(part.name for part in shape))
        else:
            parts: dict[str, Part] = {part.name: part for part in shape}
            columns = [
                values[column.name].alias(column.name)
                if column.name in values
                else table_column(parts[column.name], column.data_type)
                for column in needed
            ]
            frame = frame.select(*columns)
        if self.selection.predicate is not None:
            frame = frame.where(spark_condition(self.selection.predicate.condition))
        if self.selection.needed == self.columns:
            return frame
        return frame.select(*(_column(column.name) for column in self.columns))

    def _types(self) -> dict[str, Any]:
        return {column.name: column.data_type for column in self.selection.needed}

    def _partitions(self) -> list[tuple[str, StructField]]:
        """Return the partition columns with their physical names, in order."""
        return [(name, column) for name, column in self.snapshot.config.partition_columns.items() if column is not None]

    def _needed_partitions(self) -> dict[str, Any]:
        """Return the names and types of the partition columns that are needed."""
        needed = {column.name for column in self.selection.needed}
        return {column.name: column.data_type for _, column in self._partitions() if column.name in needed}

    def _hive_fields(self) -> tuple[Any, ...]:
        """Return the partition columns as Spark reads them from directories; those not needed as text."""
        from pyspark.sql import types

        needed = self._needed_partitions()
        return tuple(
            types.StructField(
                name, spark_type(needed[column.name]) if column.name in needed else types.StringType(), True
            )
            for name, column in self._partitions()
        )

    # -- description --------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        lines = [f"{name:<8} {text}" for name, text in self._facts()]
        return "\n".join([f"TablePlan({without_secrets(self.snapshot.table.uri)!r}, version={self.version})", *lines])

    def _repr_html_(self) -> str:
        """Return the description as a table of HTML, for notebooks."""
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts())
        title = f"{without_secrets(self.snapshot.table.uri)}, version {self.version}"
        return f"<table><caption>{escape(title)}</caption>{rows}</table>"

    def _facts(self) -> list[tuple[str, str]]:
        """Return what the plan does, as names and texts."""
        shown = [f"{column.name} {simple_name(column.data_type)}" for column in self.columns[:_SHOWN_COLUMNS]]
        more = len(self.columns) - len(shown)
        facts = [("schema", ", ".join(shown) + (f" and {more} more" if more > 0 else ""))]
        pruned = self.pruned_by_partition + self.pruned_by_statistics
        facts.append(("files", f"{self.files} of {self.files + pruned} ({format_size(self.size_bytes)})"))
        if self.where is not None:
            by = f"{self.pruned_by_partition} by partition values, {self.pruned_by_statistics} by statistics"
            facts += [("where", self.where), ("pruned", by)]
        if self.vectors:
            facts.append(("deleted", f"{plural(self.vectors, 'file')} with deletion vectors"))
        if self.native_files:
            how = f"{plural(self.native_files, 'file')} by Spark's Parquet scan, {self.values.value}"
            facts.append(("read", how))
        for reason, count in sorted(self.reasons.items()):
            facts.append(("read", f"{plural(count, 'file')} by deltacli on executors: {reason}"))
        return facts


def _column(name: str) -> Any:
    from pyspark.sql import functions as fn

    return fn.col(in_backticks(name))


def read_schema(shape: Shape, types: Mapping[str, DataType]) -> SparkSchema:
    """Return what Spark reads from the files of a shape: only fields that they have, under their names there.

    `types` are those of the table. A column that is read in such a type has the metadata of the fields in it.
    """
    from pyspark.sql.types import StructField, StructType

    def type_of(part: Part) -> Any:
        wanted = types[part.name]
        return spark_type(wanted, described=True) if is_as_wanted(part, wanted) else _read_type(part.node)

    present = [part for part in shape if not isinstance(part.node, Missing)]
    return StructType([StructField(part.stored_name, type_of(part), True) for part in present])


def _read_struct(parts: list[Part]) -> Any:
    from pyspark.sql import types

    return types.StructType([types.StructField(part.stored_name, _read_type(part.node), True) for part in parts])


def _read_type(node: Node) -> Any:
    from pyspark.sql import types

    match node:
        case Leaf(stored, _):
            return spark_type(PrimitiveType(stored))
        case Struct(parts, witness):
            present = [part for part in parts if not isinstance(part.node, Missing)]
            return _read_struct(present or ([witness] if witness is not None else []))
        case List(element):
            return types.ArrayType(_read_type(element), True)
        case Map(key, value):
            return types.MapType(_read_type(key), _read_type(value), True)
        case Missing():
            raise AssertionError("a missing field is not read")


def with_metadata(frame: SparkFrame, columns: Sequence[StructField]) -> SparkFrame:
    """Return a frame with the comments and the other metadata of columns, as delta-spark has them."""
    schema = spark_schema(columns, described=True)
    if not any(field.metadata for field in schema):
        return frame
    if all(isinstance(column.data_type, PrimitiveType) for column in columns):
        return frame.to(schema)  # one call for all; but it takes structs apart, and keeps filters from the scan
    from pyspark.sql import functions as fn

    return frame.select(
        *(
            fn.col(in_backticks(field.name)).alias(field.name, metadata=field.metadata)
            if field.metadata
            else in_backticks(field.name)
            for field in schema
        )
    )


def is_as_wanted(part: Part, data_type: DataType) -> bool:
    """Return whether a column is read in the table's type, whatever its name."""
    return not has_missing(part.node) and _read_type(part.node) == spark_type(data_type)


def table_column(part: Part, data_type: DataType) -> Any:  # Any: pyspark.sql.Column, or a name
    """Return a column of the table from what was read. `data_type` is its type in the table."""
    from pyspark.sql import functions as fn

    if isinstance(part.node, Missing):
        return fn.lit(None).cast(spark_type(data_type, described=True)).alias(part.name)
    if part.name == part.stored_name and is_as_wanted(part, data_type):
        return in_backticks(part.name)  # a column of Spark takes 20 calls of Java
    found = _value(fn.col(in_backticks(part.stored_name)), part.node, data_type)
    described = spark_type(data_type, described=True)
    if has_missing(part.node) and described != spark_type(data_type):
        found = found.cast(described)
    return found.alias(part.name)


def _value(column: Any, node: Node, data_type: DataType) -> Any:
    """Return a value in the table's type. A cast renames the fields of structs, but cannot add any."""
    wanted = spark_type(data_type)
    if not has_missing(node):
        return column if _read_type(node) == wanted else column.cast(spark_type(data_type, described=True))
    from pyspark.sql import functions as fn

    match node, data_type:
        case Struct(parts, _), StructType(fields):
            values = [
                fn.lit(None).cast(spark_type(field.data_type)).alias(field.name)
                if isinstance(part.node, Missing)
                else _value(column.getField(part.stored_name), part.node, field.data_type).alias(field.name)
                for part, field in zip(parts, fields, strict=True)
            ]
            return fn.when(column.isNotNull(), fn.struct(*values))
        case List(element), ArrayType(element_type):
            return fn.transform(column, lambda each: _value(each, element, element_type))
        case Map(_, value), MapType(_, value_type):
            changed = fn.transform_values(column, lambda _, each: _value(each, value, value_type))
            return changed if _read_type(node).keyType == wanted.keyType else changed.cast(wanted)
    raise AssertionError(f"{node} cannot have the type {data_type}")
