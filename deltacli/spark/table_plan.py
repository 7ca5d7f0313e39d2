"""A plan: which files of a version are read, and how; its frame, and a description for people.

Spec: Data Files; Deletion Vectors; Column Mapping; Type Widening; Partition Value Serialization; Add CDC File; Change
Data Files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial, reduce
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from deltacli.api.table import Table, open_table
from deltacli.core.errors import UsageError, quote_identifier
from deltacli.core.typing import SparkFrame, SparkSchema
from deltacli.core.units import format_size, plural
from deltacli.delta.schema.type_changes import changed_fields, require_readable_rows
from deltacli.delta.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    holds,
    simple_name,
)
from deltacli.engine.spark.jobs import make_local_frame
from deltacli.spark import parquet_scan, parquet_schema
from deltacli.spark.executor_rows import rows_through_python
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import api_function, api_method, iterate_naming_table
from deltacli.table.selection import Selection, require_row_ids
from deltacli.table.version import Snapshot
from deltacli.work.rows.data_files import OpenDataFile, open_data_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SHOWN_COLUMNS = 12
_VALUE = "__deltacli_value_"


class OwnFile(NamedTuple):
    """A file that our own scan reads, and why."""

    file: parquet_scan.SparkFile
    reason: str


class FileGroup(NamedTuple):
    """Files that Spark's scan reads alike: of one shape, all with deletion vectors or all without."""

    shape: parquet_schema.Shape
    files: tuple[parquet_scan.SparkFile, ...]

    @property
    def has_vectors(self) -> bool:
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
    values: parquet_scan.Values
    groups: tuple[FileGroup, ...] = field(repr=False)
    own_files: tuple[OwnFile, ...] = field(repr=False)
    session: SparkSession = field(repr=False)
    selection: Selection = field(repr=False)
    locations: parquet_scan.Locations = field(repr=False)

    @property
    def name(self) -> str | None:
        return self.snapshot.name

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def files(self) -> int:
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

    def _all_files(self) -> Iterable[parquet_scan.SparkFile]:
        yield from (file for group in self.groups for file in group.files)
        yield from (own.file for own in self.own_files)

    @api_method
    def dataframe(self) -> DataFrame:
        """Return the rows as a frame. Nothing is read before an action, except to verify the files.

        Spark lists the files. For files with deletion vectors, and for a join, a job returns how Spark spells them;
        the first frame that our own scan has a part in sends deltacli to executors. Raises DataUnreadable for a
        missing file and a damaged vector, Refused (`spark.listing`, `spark.spelling`), and what `SparkEngine` raises.
        """
        frames = [frame for group in self.groups for frame in self._frames(group)]
        if self.own_files:
            spec = self.selection.make_read_spec(self.snapshot.config)
            files = [own.file.file for own in self.own_files]
            schema = parquet_schema.spark_schema(self.columns, described=True)
            frames.append(rows_through_python(self.session, self.snapshot.table.stores, spec, files, schema))
        if not frames:
            return self.session.createDataFrame([], parquet_schema.spark_schema(self.columns, described=True))
        return with_metadata(reduce(lambda one, other: one.union(other), frames), self.columns)

    def _frames(self, group: FileGroup) -> Iterable[Any]:
        match self.values:
            case parquet_scan.Values.NONE:
                yield self._finished(group.shape, self._rows(group.shape, group.files), {})
            case parquet_scan.Values.DIRECTORIES:
                physical = {column.name: name for name, column in self._partitions()}
                columns = {name: _column(physical[name]) for name in self._needed_partitions()}
                yield self._finished(group.shape, self._rows(group.shape, group.files, self._hive_fields()), columns)
            case parquet_scan.Values.LITERALS:
                yield from self._by_literals(group)
            case parquet_scan.Values.JOIN:
                yield self._by_join(group)

    def _rows(
        self,
        shape: parquet_schema.Shape,
        files: Sequence[parquet_scan.SparkFile],
        hive: tuple[Any, ...] = (),
        *,
        with_path: bool = False,
    ) -> Any:
        """Return the rows of files as stored, without deleted rows."""
        scanner = parquet_scan.Scanner(self.session, self.locations, hive)
        has_vectors = files[0].file.vector is not None
        frame = scanner.scan(
            files,
            read_schema(shape, {column.name: column.data_type for column in self.selection.needed}),
            with_path=with_path or has_vectors,
            with_rows=has_vectors or with_path,
        )
        if not has_vectors:
            return frame
        return parquet_scan.without_deleted(self.session, frame, files, self.snapshot.table.files())

    def _by_literals(self, group: FileGroup) -> Iterable[Any]:
        types = self._needed_partitions()
        by_key: dict[tuple[Any, ...], list[parquet_scan.SparkFile]] = {}
        for file in group.files:
            by_key.setdefault(parquet_scan.key_of(file, list(types)), []).append(file)
        for files in by_key.values():
            literals = {
                name: parquet_schema.scalar_literal(types[name], files[0].file.constants[name]) for name in types
            }
            yield self._finished(group.shape, self._rows(group.shape, files), literals)

    def _by_join(self, group: FileGroup) -> Any:
        from pyspark.sql import functions as fn

        frame = self._rows(group.shape, group.files, with_path=True)
        scanner = parquet_scan.Scanner(self.session, self.locations)
        whole = scanner.scan(group.files, read_schema((), {}), with_path=True, with_rows=True)
        keys = parquet_scan.file_keys(whole, group.files)
        present = [file for file in group.files if keys[file.place][0] is not None]
        types = self._needed_partitions()
        names = {name: f"{_VALUE}{number}" for number, name in enumerate(types)}
        known = {parquet_scan.PATH: (pa.array([keys[file.place][0] for file in present], pa.string()), "string")}
        for name in types:
            values = pa.array([file.file.constants[name] for file in present], group.files[0].file.constants[name].type)
            known[names[name]] = values, parquet_schema.spark_type(types[name])
        joined = frame.join(fn.broadcast(make_local_frame(self.session, known)), parquet_scan.PATH)
        columns = {name: _column(names[name]) for name in types}
        return self._finished(group.shape, joined, columns)

    def _finished(self, shape: parquet_schema.Shape, frame: Any, values: dict[str, Any]) -> Any:
        """Return the columns of the plan for the rows that match."""
        needed = self.selection.needed
        if not values and all(map(is_as_wanted, shape, (column.data_type for column in needed))):
            frame = frame.drop(parquet_scan.PATH, parquet_scan.ROW)
            if any(part.name != part.stored_name for part in shape):
                frame = frame.toDF(*(part.name for part in shape))
        else:
            parts: dict[str, parquet_schema.Part] = {part.name: part for part in shape}
            columns = [
                values[column.name].alias(column.name)
                if column.name in values
                else table_column(parts[column.name], column.data_type)
                for column in needed
            ]
            frame = frame.select(*columns)
        if self.selection.predicate is not None:
            frame = frame.where(parquet_schema.spark_condition(self.selection.predicate.condition))
        if self.selection.needed == self.columns:
            return frame
        return frame.select(*(_column(column.name) for column in self.columns))

    def _partitions(self) -> list[tuple[str, StructField]]:
        return [(name, column) for name, column in self.snapshot.config.partition_columns.items() if column is not None]

    def _needed_partitions(self) -> dict[str, Any]:
        needed = {column.name for column in self.selection.needed}
        return {column.name: column.data_type for _, column in self._partitions() if column.name in needed}

    def _hive_fields(self) -> tuple[Any, ...]:
        """Return the partition columns as Spark reads them from directories; those not needed as text."""
        from pyspark.sql import types

        needed = self._needed_partitions()
        return tuple(
            types.StructField(
                name,
                parquet_schema.spark_type(needed[column.name]) if column.name in needed else types.StringType(),
                True,
            )
            for name, column in self._partitions()
        )

    def __repr__(self) -> str:
        lines = [f"{name:<8} {text}" for name, text in self._facts()]
        return "\n".join([f"TablePlan({mask_secrets(self.snapshot.table.uri)!r}, version={self.version})", *lines])

    def _repr_html_(self) -> str:
        """Return the description as a table of HTML, for notebooks."""
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts())
        title = f"{mask_secrets(self.snapshot.table.uri)}, version {self.version}"
        return f"<table><caption>{escape(title)}</caption>{rows}</table>"

    def _facts(self) -> list[tuple[str, str]]:
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

    return fn.col(quote_identifier(name))


def read_schema(shape: parquet_schema.Shape, types: Mapping[str, DataType]) -> SparkSchema:
    """Return what Spark reads from the files of a shape: only fields that they have, under their names there.

    `types` are those of the table. A column that is read in such a type has the metadata of the fields in it.
    """
    from pyspark.sql.types import StructField, StructType

    def type_of(part: parquet_schema.Part) -> Any:
        wanted = types[part.name]
        return (
            parquet_schema.spark_type(wanted, described=True) if is_as_wanted(part, wanted) else _read_type(part.node)
        )

    present = [part for part in shape if not isinstance(part.node, parquet_schema.Missing)]
    return StructType([StructField(part.stored_name, type_of(part), True) for part in present])


def _read_struct(parts: list[parquet_schema.Part]) -> Any:
    from pyspark.sql import types

    return types.StructType([types.StructField(part.stored_name, _read_type(part.node), True) for part in parts])


def _read_type(node: parquet_schema.Node) -> Any:
    from pyspark.sql import types

    match node:
        case parquet_schema.Leaf(stored, _):
            return parquet_schema.spark_type(PrimitiveType(stored))
        case parquet_schema.Struct(parts, witness):
            present = [part for part in parts if not isinstance(part.node, parquet_schema.Missing)]
            return _read_struct(present or ([witness] if witness is not None else []))
        case parquet_schema.List(element):
            return types.ArrayType(_read_type(element), True)
        case parquet_schema.Map(key, value):
            return types.MapType(_read_type(key), _read_type(value), True)
        case parquet_schema.Missing():
            raise AssertionError("a missing field is not read")


def with_metadata(frame: SparkFrame, columns: Sequence[StructField]) -> SparkFrame:
    """Return a frame with the comments and the other metadata of columns, as delta-spark has them."""
    schema = parquet_schema.spark_schema(columns, described=True)
    if not any(field.metadata for field in schema):
        return frame
    if all(isinstance(column.data_type, PrimitiveType) for column in columns):
        return frame.to(schema)  # one call for all; but it takes structs apart, and keeps filters from the scan
    from pyspark.sql import functions as fn

    return frame.select(
        *(
            fn.col(quote_identifier(field.name)).alias(field.name, metadata=field.metadata)
            if field.metadata
            else quote_identifier(field.name)
            for field in schema
        )
    )


def is_as_wanted(part: parquet_schema.Part, data_type: DataType) -> bool:
    """Return whether a column is read in the table's type, whatever its name."""
    return not parquet_schema.has_missing(part.node) and _read_type(part.node) == parquet_schema.spark_type(data_type)


def table_column(part: parquet_schema.Part, data_type: DataType) -> Any:  # Any: pyspark.sql.Column, or a name
    """Return a column of the table from what was read. `data_type` is its type in the table."""
    from pyspark.sql import functions as fn

    if isinstance(part.node, parquet_schema.Missing):
        return fn.lit(None).cast(parquet_schema.spark_type(data_type, described=True)).alias(part.name)
    if part.name == part.stored_name and is_as_wanted(part, data_type):
        return quote_identifier(part.name)  # a column of Spark takes 20 calls of Java
    found = _value(fn.col(quote_identifier(part.stored_name)), part.node, data_type)
    described = parquet_schema.spark_type(data_type, described=True)
    if parquet_schema.has_missing(part.node) and described != parquet_schema.spark_type(data_type):
        found = found.cast(described)
    return found.alias(part.name)


def _value(column: Any, node: parquet_schema.Node, data_type: DataType) -> Any:
    """Return a value in the table's type. A cast renames the fields of structs, but cannot add any."""
    wanted = parquet_schema.spark_type(data_type)
    if not parquet_schema.has_missing(node):
        return (
            column if _read_type(node) == wanted else column.cast(parquet_schema.spark_type(data_type, described=True))
        )
    from pyspark.sql import functions as fn

    match node, data_type:
        case parquet_schema.Struct(parts, _), StructType(fields):
            values = [
                fn.lit(None).cast(parquet_schema.spark_type(field.data_type)).alias(field.name)
                if isinstance(part.node, parquet_schema.Missing)
                else _value(column.getField(part.stored_name), part.node, field.data_type).alias(field.name)
                for part, field in zip(parts, fields, strict=True)
            ]
            return fn.when(column.isNotNull(), fn.struct(*values))
        case parquet_schema.List(element), ArrayType(element_type):
            return fn.transform(column, lambda each: _value(each, element, element_type))
        case parquet_schema.Map(_, value), MapType(_, value_type):
            changed = fn.transform_values(column, lambda _, each: _value(each, value, value_type))
            return changed if _read_type(node).keyType == wanted.keyType else changed.cast(wanted)
    raise AssertionError(f"{node} cannot have the type {data_type}")


# -- read a version of a table as a DataFrame --------------------------------------------------------------------------

MOST_FOOTERS = 1_000
"""Files whose footers are read even where the log does not call for it. It takes about 0.2 s on a local disk."""


@api_function
def read_table(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    row_ids: bool = False,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> DataFrame:
    """Return the rows of a version of a table as a DataFrame: `plan_table(…).dataframe()`.

    The columns are those of the table, or `columns` of them in the order given, in Spark's types, all nullable; with
    `row_ids` followed by `_row_id` and `_row_commit_version`.
    Raises what `plan_table` and `TablePlan.dataframe` raise.
    """
    return plan_table(
        spark,
        uri,
        version=version,
        timestamp=timestamp,
        columns=columns,
        where=where,
        row_ids=row_ids,
        storage_options=storage_options,
        allow_external=allow_external,
    ).dataframe()


@api_function
def plan_table(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    row_ids: bool = False,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> TablePlan:
    """Plan how Spark reads a version of a table: the newest, `version`, or the newest one committed until `timestamp`.

    `spark` is a session of Spark 4.0 to 4.3, classic or Connect. `where` is a condition as in `Snapshot.scan`; it
    selects rows, and files that cannot have any of them are pruned here. With `row_ids` deltacli reads all files;
    Refused (`rowtracking.not-enabled`) is raised where the version has no row tracking. `storage_options` and
    `allow_external` are as in `open_table`; Spark itself finds stores and credentials in its own configuration, and the
    URI has to have a scheme that Spark knows, such as `s3a`.

    Files that Spark's own scan would read wrong, or not at all, are read by deltacli on executors. Settings of the
    session are considered as they are now. Raises UsageError for arguments and sessions that cannot be used; what
    `Table.snapshot` raises; Unreadable (`typewidening.*`) for a version that cannot be read; Refused
    (`type.unsupported`) for a column that is named and has a type that is not read, which is left out otherwise;
    DataUnreadable for a file that is missing or damaged; PathExternal.
    """
    parquet_scan.require_session(spark)
    table = open_table(uri, storage_options=storage_options, allow_external=allow_external)
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    return _Planner(spark, table, snapshot, columns, where, row_ids=row_ids).plan()


class _Planner:
    """Chooses how each file of a version is read."""

    def __init__(
        self,
        session: Any,
        table: Table,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        where: str | None,
        *,
        row_ids: bool,
    ) -> None:
        self._session, self._table, self._snapshot, self._where = session, table, snapshot, where
        self._config = snapshot.config
        ids = require_row_ids(snapshot) if row_ids else ()
        names = parquet_schema.columns_for_spark(snapshot.schema, columns)
        self._selection = Selection.resolve(snapshot.schema, names, where, row_ids=ids)
        self._is_case_sensitive = parquet_scan.is_case_sensitive(session)
        partitions = {column.name for column in self._config.partition_columns.values() if column is not None}
        self._stored = tuple(column for column in self._selection.needed if column.name not in partitions)
        self._partitions = tuple(column for column in self._selection.needed if column.name in partitions)

    @property
    def name(self) -> str | None:
        """The table, as errors and hints name it."""
        return self._table.name

    @api_method
    def plan(self) -> TablePlan:
        require_readable_rows(self._config, self._snapshot.version)
        parquet_schema.spark_schema(self._selection.needed)
        self._require_distinct_names()
        live = parquet_scan.find_live_files(self._snapshot, self._selection)
        locations = parquet_scan.Locations(
            self._table.files(), self._table.storage, self._table.name or self._table.uri
        )
        files = [locations.locate(file) for file in live.files]
        own, native = self._divided(files)
        if own and len(own) <= MOST_FOOTERS:
            self._open_each([each.file for each in own], lambda _: "")  # else executors find the first missing file
        shapes = self._shapes(native)
        own += [OwnFile(file, shape) for file, shape in zip(native, shapes, strict=True) if isinstance(shape, str)]
        groups = _grouped(
            (file, shape) for file, shape in zip(native, shapes, strict=True) if not isinstance(shape, str)
        )
        return TablePlan(
            snapshot=self._snapshot,
            columns=self._selection.columns,
            where=self._where,
            pruned_by_partition=live.by_partition,
            pruned_by_statistics=live.by_statistics,
            values=self._values(groups),
            groups=groups,
            own_files=tuple(own),
            session=self._session,
            selection=self._selection,
            locations=locations,
        )

    def _require_distinct_names(self) -> None:
        if self._is_case_sensitive:
            return
        seen: dict[str, str] = {}
        for column in self._selection.needed:
            other = seen.setdefault(column.name.lower(), column.name)
            if other != column.name:
                raise UsageError(
                    f"columns {other} and {column.name} have the same name for this session",
                    code="usage.column",
                    hint='spark.conf.set("spark.sql.caseSensitive", "true"), or choose one of them by columns=[…]',
                )

    def _divided(self, files: list[parquet_scan.SparkFile]) -> tuple[list[OwnFile], list[parquet_scan.SparkFile]]:
        """Return the files that our own scan reads for reasons known without opening them, and the others."""
        reason = self._reason_for_all()
        if reason is not None:
            return [OwnFile(file, reason) for file in files], []
        repeated = {id(file) for file in parquet_scan.repeated_places(files)}
        own, native, deleted = [], [], 0
        for file in files:
            why = parquet_scan.odd_name(file)
            odd = [
                column.name
                for column in self._partitions
                if not parquet_schema.has_literal(column.data_type, file.file.constants[column.name])
            ]
            if why is None and odd:
                why = f"Spark has no literal for the value of {odd[0]}"
            if why is None and id(file) in repeated:
                why = "the log has it twice"
            if why is None and file.file.vector is not None:
                deleted += parquet_scan.deleted_count(file)
                why = (
                    f"vectors delete more than {parquet_scan.MOST_DELETED_ROWS:,} rows"
                    if deleted > parquet_scan.MOST_DELETED_ROWS
                    else None
                )
            if why is None:
                native.append(file)
            else:
                own.append(OwnFile(file, why))
        return own, native

    def _reason_for_all(self) -> str | None:
        """Return why no file is read by Spark's own scan, None where some are."""
        names = [column.name for column in self._selection.needed]
        if not names:
            return "no column is needed"
        if self._selection.row_ids:
            return "row ids are wanted"
        if any(name.lower() in (parquet_scan.PATH, parquet_scan.ROW) for name in names):
            return "a column has a name of deltacli"
        if self._selection.predicate is not None:
            try:
                parquet_schema.spark_condition(self._selection.predicate.condition)
            except parquet_schema.NotNative as fault:
                return str(fault)
        if parquet_scan.is_before_4_1(self._session) and holds(self._snapshot.schema, PrimitiveType("variant")):
            return "Spark 4.0 cannot open files with variants of newer versions"
        return parquet_scan.hazard_of(self._session)

    def _shapes(self, files: list[parquet_scan.SparkFile]) -> list[parquet_schema.Shape | str]:
        """Return how Spark reads each file, or why it does not."""
        if not files:
            return []
        if len(files) > MOST_FOOTERS and not self._needs_footers():
            return [parquet_schema.assumed_shape(self._stored, self._config.physical_name)] * len(files)
        finder = parquet_schema.FileShapes(
            self._config.mapping_mode, self._config.physical_name, is_case_sensitive=self._is_case_sensitive
        )

        def shape_of(opened: OpenDataFile) -> parquet_schema.Shape | str:
            try:
                return finder.shape_of(opened.schema, opened.parquet.int96_paths, self._stored)
            except parquet_schema.NotNative as reason:
                return str(reason)

        return self._open_each(files, shape_of)

    def _open_each(
        self, files: list[parquet_scan.SparkFile], look: Callable[[OpenDataFile], parquet_schema.Shape | str]
    ) -> list[parquet_schema.Shape | str]:
        """Return what a look at each open file returns. Raises DataUnreadable for a file that is missing or damaged."""
        resolver = self._table.files()

        def open_one(file: parquet_scan.SparkFile) -> parquet_schema.Shape | str:
            with open_data_file(resolver, file.file) as opened:
                return look(opened)

        reads = self._table.storage.capabilities.parallel_reads
        with self._table.progress.step("reading footers", unit="files", total=len(files)) as step:
            found: list[parquet_schema.Shape | str] = []
            for shape in self._table.engine.run(open_one, files, at_once=reads if reads > 1 else None):
                found.append(shape)
                step.advance(1)
        return found

    def _needs_footers(self) -> bool:
        """Return whether only footers tell what is in files: ids, widened types, fields of structs, case of names."""
        return (
            self._is_case_sensitive
            or self._config.mapping_mode == "id"
            or bool(changed_fields(self._config))
            or any(_has_struct(column) for column in self._stored)
        )

    def _values(self, groups: Sequence[FileGroup]) -> parquet_scan.Values:
        files = list(chain.from_iterable(group.files for group in groups))
        if not files:
            return parquet_scan.Values.NONE
        columns = self._config.partition_columns
        chosen = parquet_scan.choose_values(files, self._partitions, columns, scans=len(groups))
        stored = {part.stored_name.lower() for group in groups for part in group.shape}
        if chosen is parquet_scan.Values.DIRECTORIES and stored & {name.lower() for name in columns}:
            return parquet_scan.Values.JOIN
        return chosen


def _has_struct(column: StructField) -> bool:
    waiting = [column.data_type]
    while waiting:
        match waiting.pop():
            case StructType():
                return True
            case ArrayType(element, _):
                waiting.append(element)
            case MapType(key, value, _):
                waiting += [key, value]
    return False


def _grouped(files: Any) -> tuple[FileGroup, ...]:  # Any: pairs of a file and its shape
    """Return the files by shape, those with deletion vectors apart from those without."""
    found: dict[tuple[parquet_schema.Shape, bool], list[parquet_scan.SparkFile]] = {}
    known: dict[
        tuple[int, bool], list[parquet_scan.SparkFile]
    ] = {}  # by identity: to hash 5,000 columns takes milliseconds
    for file, shape in files:
        key = id(shape), file.file.vector is not None
        if key not in known:
            known[key] = found.setdefault((shape, key[1]), [])
        known[key].append(file)
    return tuple(FileGroup(shape, tuple(members)) for (shape, _), members in found.items())


@api_function
def read_changes(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    from_version: int,
    to_version: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    row_ids: bool = False,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> DataFrame:
    """Return the changes of the versions from `from_version` to `to_version` (None: the newest), both included.

    The columns of the last version, or `columns` of them, are followed by `_change_type` (`insert`, `delete`,
    `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`; with `row_ids` by `_row_id` and
    `_row_commit_version`, which are null in rows of change data files. `where` may use these. The rows are in no order.
    All are read by deltacli on executors: in the language of Spark, nothing is pushed into the scan,
    so prefer `columns` and `where` here. An action raises an error of Spark whose text begins with the code of ours.

    Raises what `Table.changes` raises, UsageError for a session that cannot be used, and what `SparkEngine` raises.
    """
    parquet_scan.require_session(spark)
    table = open_table(uri, storage_options=storage_options, allow_external=allow_external)
    read = partial(table.changes, from_version=from_version, to_version=to_version, where=where, row_ids=row_ids)
    changes = read(columns=columns)
    kept = parquet_schema.columns_for_spark(changes.snapshot.schema, columns)
    if kept is not columns:
        changes = read(columns=kept)
    schema = parquet_schema.spark_schema(changes.columns, described=True)
    files = iterate_naming_table(changes.changed_files(), table.name)
    return rows_through_python(spark, table.stores, changes.read_spec, files, schema)
