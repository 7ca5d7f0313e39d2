"""Read a version of a table as a DataFrame: choose for each file how Spark reads it, from the log and the footers.

Spec: Data Files; Deletion Vectors; Column Mapping; Type Widening; Partition Value Serialization; Add CDC File;
Change Data Files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from deltacli.api.table import Table, open_table
from deltacli.core.errors import UsageError
from deltacli.delta.schema.type_changes import changed_fields, require_readable_rows
from deltacli.delta.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType, holds
from deltacli.spark.conditions import has_literal, spark_condition
from deltacli.spark.live_files import Locations, SparkFile, find_live_files, odd_name, repeated_places
from deltacli.spark.parquet_scan import MOST_DELETED_ROWS, PATH, ROW, deleted_count
from deltacli.spark.parquet_schema import FileShapes, NotNative, Shape, assumed_shape
from deltacli.spark.partition_values import Values, choose_values
from deltacli.spark.python_rows import rows_through_python
from deltacli.spark.session_settings import hazard_of, is_before_4_1, is_case_sensitive, require_session
from deltacli.spark.spark_types import columns_for_spark, spark_schema
from deltacli.spark.table_plan import FileGroup, OwnFile, TablePlan
from deltacli.table.api_arguments import named, named_call, named_items
from deltacli.table.scan import Selection
from deltacli.table.version import Snapshot
from deltacli.work.rows.data_files import OpenDataFile, open_data_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_FOOTERS = 1_000
"""Files whose footers are read even where the log does not call for it. It takes about 0.2 s on a local disk."""


@named_call
def read_table(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> DataFrame:
    """Return the rows of a version of a table as a DataFrame: `plan_table(…).dataframe()`.

    The columns are those of the table, or `columns` of them in the order given, in Spark's types, all nullable.
    Raises what `plan_table` and `TablePlan.dataframe` raise.
    """
    return plan_table(
        spark,
        uri,
        version=version,
        timestamp=timestamp,
        columns=columns,
        where=where,
        storage_options=storage_options,
        allow_external=allow_external,
    ).dataframe()


@named_call
def plan_table(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> TablePlan:
    """Plan how Spark reads a version of a table: the newest, `version`, or the newest one committed until `timestamp`.

    `spark` is a session of Spark 4.0 to 4.3, classic or Connect. `where` is a condition as in `Snapshot.scan`; it
    selects rows, and files that cannot have any of them are pruned here. `storage_options` and `allow_external` are as
    in `open_table`; Spark itself finds stores and credentials in its own configuration, and the URI has to have a
    scheme that Spark knows, such as `s3a`.

    Files that Spark's own scan would read wrong, or not at all, are read by deltacli on executors. Settings of the
    session are considered as they are now. Raises UsageError for arguments and sessions that cannot be used; what
    `Table.snapshot` raises; Unreadable (`typewidening.*`) for a version that cannot be read; Refused
    (`type.unsupported`) for a column that is named and has a type that is not read, which is left out otherwise;
    DataUnreadable for a file that is missing or damaged; PathExternal.
    """
    require_session(spark)
    table = open_table(uri, storage_options=storage_options, allow_external=allow_external)
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    return _Planner(spark, table, snapshot, columns, where).plan()


class _Planner:
    """Chooses how each file of a version is read."""

    def __init__(
        self, session: Any, table: Table, snapshot: Snapshot, columns: Sequence[str] | None, where: str | None
    ) -> None:
        self._session, self._table, self._snapshot, self._where = session, table, snapshot, where
        self._config = snapshot.config
        self._selection = Selection.make(snapshot.schema, columns_for_spark(snapshot.schema, columns), where)
        self._is_case_sensitive = is_case_sensitive(session)
        partitions = {column.name for column in self._config.partition_columns.values() if column is not None}
        self._stored = tuple(column for column in self._selection.needed if column.name not in partitions)
        self._partitions = tuple(column for column in self._selection.needed if column.name in partitions)

    @property
    def name(self) -> str | None:
        """The table, as errors and hints name it."""
        return self._table.name

    @named
    def plan(self) -> TablePlan:
        """Return the plan."""
        require_readable_rows(self._config, self._snapshot.version)
        spark_schema(self._selection.needed)
        self._require_distinct_names()
        live = find_live_files(self._snapshot, self._selection)
        locations = Locations(self._table.files(), self._table.storage, self._table.name or self._table.uri)
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
        """Raise UsageError where the session cannot tell two columns of the frame."""
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

    # -- files --------------------------------------------------------------------------------------------------------

    def _divided(self, files: list[SparkFile]) -> tuple[list[OwnFile], list[SparkFile]]:
        """Return the files that our own scan reads for reasons known without opening them, and the others."""
        reason = self._reason_for_all()
        if reason is not None:
            return [OwnFile(file, reason) for file in files], []
        repeated = {id(file) for file in repeated_places(files)}
        own, native, deleted = [], [], 0
        for file in files:
            why = odd_name(file)
            odd = [
                column.name
                for column in self._partitions
                if not has_literal(column.data_type, file.file.constants[column.name])
            ]
            if why is None and odd:
                why = f"Spark has no literal for the value of {odd[0]}"
            if why is None and id(file) in repeated:
                why = "the log has it twice"
            if why is None and file.file.vector is not None:
                deleted += deleted_count(file)
                why = f"vectors delete more than {MOST_DELETED_ROWS:,} rows" if deleted > MOST_DELETED_ROWS else None
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
        if any(name.lower() in (PATH, ROW) for name in names):
            return "a column has a name of deltacli"
        if self._selection.predicate is not None:
            try:
                spark_condition(self._selection.predicate.condition)
            except NotNative as fault:
                return str(fault)
        if is_before_4_1(self._session) and holds(self._snapshot.schema, PrimitiveType("variant")):
            return "Spark 4.0 cannot open files with variants of newer versions"
        return hazard_of(self._session)

    def _shapes(self, files: list[SparkFile]) -> list[Shape | str]:
        """Return how Spark reads each file, or why it does not."""
        if not files:
            return []
        if len(files) > MOST_FOOTERS and not self._needs_footers():
            return [assumed_shape(self._stored, self._config.physical_name)] * len(files)
        finder = FileShapes(
            self._config.mapping_mode, self._config.physical_name, is_case_sensitive=self._is_case_sensitive
        )

        def shape_of(opened: OpenDataFile) -> Shape | str:
            try:
                return finder.shape_of(opened.schema, opened.parquet.int96_paths, self._stored)
            except NotNative as reason:
                return str(reason)

        return self._open_each(files, shape_of)

    def _open_each(self, files: list[SparkFile], look: Callable[[OpenDataFile], Shape | str]) -> list[Shape | str]:
        """Return what a look at each open file returns. Raises DataUnreadable for a file that is missing or damaged."""
        resolver = self._table.files()

        def open_one(file: SparkFile) -> Shape | str:
            with open_data_file(resolver, file.file) as opened:
                return look(opened)

        reads = self._table.storage.capabilities.parallel_reads
        with self._table.progress.step("reading footers", unit="files", total=len(files)) as step:
            found: list[Shape | str] = []
            for shape in self._table.engine.run(open_one, files, at_once=reads if reads > 1 else None):
                found.append(shape)
                step.advance(1)
        return found

    def _needs_footers(self) -> bool:
        """Return whether only footers tell what is in files: ids, widened types, missing fields of structs, and the
        case of names where it matters.
        """
        return (
            self._is_case_sensitive
            or self._config.mapping_mode == "id"
            or bool(changed_fields(self._config))
            or any(_has_struct(column) for column in self._stored)
        )

    # -- partition values ---------------------------------------------------------------------------------------------

    def _values(self, groups: Sequence[FileGroup]) -> Values:
        files = list(chain.from_iterable(group.files for group in groups))
        if not files:
            return Values.NONE
        columns = self._config.partition_columns
        chosen = choose_values(files, self._partitions, columns, scans=len(groups))
        stored = {part.stored_name.lower() for group in groups for part in group.shape}
        if chosen is Values.DIRECTORIES and stored & {name.lower() for name in columns}:
            return Values.JOIN
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
    found: dict[tuple[Shape, bool], list[SparkFile]] = {}
    known: dict[tuple[int, bool], list[SparkFile]] = {}  # by identity: to hash 5,000 columns takes milliseconds
    for file, shape in files:
        key = id(shape), file.file.vector is not None
        if key not in known:
            known[key] = found.setdefault((shape, key[1]), [])
        known[key].append(file)
    return tuple(FileGroup(shape, tuple(members)) for (shape, _), members in found.items())


@named_call
def read_changes(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    from_version: int,
    to_version: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> DataFrame:
    """Return the changes of the versions from `from_version` to `to_version` (None: the newest), both included.

    The columns of the last version, or `columns` of them, are followed by `_change_type` (`insert`, `delete`,
    `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`; `where` may use these. The rows
    are in no order. All are read by deltacli on executors: in the language of Spark, nothing is pushed into the scan,
    so prefer `columns` and `where` here. An action raises an error of Spark whose text begins with the code of ours.

    Raises what `Table.changes` raises, UsageError for a session that cannot be used, and what `SparkEngine` raises.
    """
    require_session(spark)
    table = open_table(uri, storage_options=storage_options, allow_external=allow_external)
    changes = table.changes(from_version=from_version, to_version=to_version, columns=columns, where=where)
    kept = columns_for_spark(changes.snapshot.schema, columns)
    if kept is not columns:
        changes = table.changes(from_version=from_version, to_version=to_version, columns=kept, where=where)
    schema = spark_schema(changes.columns, described=True)
    files = named_items(changes.changed_files(), table.name)
    return rows_through_python(spark, table.stores, changes.wanted, files, schema)
