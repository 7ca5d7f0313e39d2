"""The requests for rows and for commits, and reading the rows of a version, streamed as Arrow batches.

Spec: Data Files; Deletion Vectors; Column Mapping; Per-file Statistics.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import limit_rows
from deltacli.core.errors import DataUnreadable, DoubleQuoted, Refused, Unreadable, UsageError, command
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import SILENT, Progress
from deltacli.core.request_fields import Kind, option
from deltacli.core.texts import summarize_names
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.disputed_readings import REPEATED_IN_CHECKPOINT
from deltacli.delta.log.file_actions import num_records_column
from deltacli.delta.log.row_ids import ENABLED, FEATURE, MATERIALIZED_NAMES
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.column_path import nearest_place
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import (
    Judge,
    UnreadColumn,
    arrow_schema,
    read_columns,
    unread_columns,
    unread_type,
    unsupported,
)
from deltacli.delta.schema.type_changes import require_readable_rows
from deltacli.delta.schema.types import NameIndex, StructField, StructType, recorded_name
from deltacli.engine.base import Engine
from deltacli.storage.optional_interfaces import StoreOfVersions
from deltacli.storage.secrets import without_secrets
from deltacli.table.api_arguments import VersionEnds, require_count, require_optional_count
from deltacli.table.api_errors import iterate_naming_table
from deltacli.work.rows.data_files import DataFile, ReadSpec, row_id_fields, split_file
from deltacli.work.rows.row_reader import read_rows
from deltacli.work.task import TableFiles

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.predicate import Predicate
    from deltacli.delta.schema.misnamed_fields import MisnamedField
    from deltacli.table.handle import TableHandle
    from deltacli.table.output import WrittenDirectory

# -- the requests ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """Which rows of a version to read.

    Attributes:
        columns: Names of top-level columns, in the order wanted. None: all columns.
        where: A condition in SQL that the rows have to meet. None: all rows.
        row_ids: True to add the columns `_row_id` and `_row_commit_version` behind the others. `where` may use
            them.
        limit: The largest number of rows. None: all rows.
    """

    columns: Sequence[str] | None = option("Show only these columns, in this order.", "A,B,…", Kind.NAMES)
    where: str | None = option("Return only rows that match it.", "CONDITION")
    row_ids: bool = option("Add the id of each row and the version of its last change.", default=False)
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a limit that is not a number of rows."""
        object.__setattr__(self, "limit", require_optional_count(self.limit, "limit"))


@dataclass(frozen=True, kw_only=True)
class ChangesRequest(ScanRequest, VersionEnds):
    """Which changes of rows to read: those of a range of versions, both ends included.

    Attributes:
        columns: Names of top-level columns of the table. None: all of them. Those of the change follow.
    """

    columns: Sequence[str] | None = option(
        "Show only these columns of the table; those of the change follow.", "A,B,…", Kind.NAMES
    )

    def __post_init__(self) -> None:
        """Raise UsageError also for ends that are given twice, and for a range without a begin."""
        ScanRequest.__post_init__(self)
        VersionEnds.__post_init__(self)
        if self.from_version is None and self.from_timestamp_ms is None:
            raise UsageError("the range of changes has no begin", facts={"expected": "from_version or from_timestamp"})


@dataclass(frozen=True, kw_only=True)
class HistoryRequest(VersionEnds):
    """Which commits to list, and whether their files are counted.

    Attributes:
        limit: The number of commits, the newest of the range. 0: all of them.
        counts: True to count the files and bytes that each commit adds and removes.
    """

    limit: int = 0
    counts: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError also for versions in the wrong order, and a limit that is not a number of commits."""
        super().__post_init__()
        if self.from_version is not None and self.to_version is not None and self.to_version < self.from_version:
            raise UsageError(f"to_version {self.to_version} is before from_version {self.from_version}")
        object.__setattr__(self, "limit", require_count(self.limit, "limit"))


# -- reading the rows of a version -------------------------------------------------------------------------------------

BY_PARTITION, BY_STATISTICS = "partition", "statistics"
Result = TypeVar("Result")
_FEW_FILES = 8
_LARGE_FILE_BYTES = 16 << 20
"""Limits below which few but large files are read in pieces, to keep all threads busy."""


ROW_ID, ROW_COMMIT_VERSION = "_row_id", "_row_commit_version"
NOT_ENABLED = "rowtracking.not-enabled"


def row_id_columns(config: TableConfiguration) -> tuple[StructField, ...]:
    """Return the columns of ids and commit versions of rows of a version, with their names in its files; none without
    row tracking. Spec: Row Tracking.
    """
    ids, versions = (config.properties.get(key) for key in MATERIALIZED_NAMES)
    is_enabled = FEATURE in config.features and config.is_on(ENABLED)
    return row_id_fields((ROW_ID, ROW_COMMIT_VERSION), (ids, versions)) if is_enabled and ids and versions else ()


def require_row_ids(snapshot: ScannedVersion) -> tuple[StructField, ...]:
    """Return the columns of row ids of a version. Raises Refused (`rowtracking.not-enabled`) where its rows need not
    have any, or a share does not have them, and UsageError for a column of the table with such a name.
    """
    found, schema = row_id_columns(snapshot.config), snapshot.schema
    if not found and isinstance(snapshot.table.storage, StoreOfVersions):
        raise Refused(
            "the server of the share does not send the ids of rows",
            code=NOT_ENABLED,
            hint="ask the provider of the share to enable row tracking, and to send the delta format",
        )
    if not found:
        raise Refused(
            f"version {snapshot.version} has no row tracking, so its rows have no ids",
            code=NOT_ENABLED,
            facts={"note": "versions before the one that enables row tracking never get ids"},
            hint=command("properties set", {ENABLED: "true"}, upgrade_protocol=True),
        )
    _require_own_columns(snapshot, found)
    names = {column.name for column in found}
    if taken := [column.name for column in schema.fields if column.name.lower() in names]:
        raise UsageError(
            f"the column {taken[0]} of the table has the name of a column of row ids",
            code="usage.column",
            hint=command("alter", "rename", taken[0], "NAME"),
        )
    return found


def _require_own_columns(snapshot: ScannedVersion, found: Sequence[StructField]) -> None:
    """Raise Unreadable where the values of another column would be taken for ids. Files are searched ignoring case."""
    config, stored = snapshot.config, [recorded_name(column) for column in found]
    counts = Counter(name.lower() for name in (*stored, *map(config.physical_name, snapshot.schema.fields)))
    if taken := next((name for name in stored if counts[name.lower()] > 1), None):
        raise Unreadable(
            f"the column {taken} of data files is to hold the ids of rows, but also other values",
            code="rowtracking.column-names",
            hint=command("validate", select=[DoubleQuoted("rowtracking.*")]),
        )


class Selection(NamedTuple):
    """The selection to read under one schema. `needed` are the returned columns and those used in `where`, `left_out`
    those that nobody asked for by name and that are not read because of their types, `row_ids` the columns of row ids,
    which are last among those needed.
    """

    columns: tuple[StructField, ...]
    needed: tuple[StructField, ...]
    predicate: Predicate | None
    left_out: tuple[UnreadColumn, ...] = ()
    row_ids: tuple[StructField, ...] = ()

    @classmethod
    def make(
        cls,
        schema: StructType,
        columns: Sequence[str] | None,
        where: str | None,
        *,
        judge: Judge = unread_type,
        more: Sequence[StructField] = (),
        row_ids: tuple[StructField, ...] = (),
    ) -> Selection:
        """Look up the columns and parse the condition. `judge` says of types whether their values are read; `more` and
        `row_ids` are not columns of the table and follow those that were asked for.

        Raises UsageError (`usage.column`, `usage.where`), and Refused (`type.unsupported`) for a column that is named
        and cannot be read, or if none can.
        """
        if more or row_ids:
            schema = StructType((*schema.fields, *more, *row_ids))
            if columns is not None:
                columns = [*columns, *(one.name for one in (*more, *row_ids) if one.name not in columns)]
            found = cls.make(schema, columns, where, judge=judge)
            needed = sorted(found.needed, key=lambda column: column in row_ids)
            return found._replace(needed=tuple(needed) if row_ids else found.needed, row_ids=row_ids)
        chosen = schema.fields if columns is None else _find_columns(schema, columns)
        left_out = unread_columns(chosen, judge)
        if left_out:
            chosen = read_columns(chosen, judge)
            if columns is not None or not chosen:
                raise unsupported(left_out, read_columns(schema.fields, judge))
        if not chosen and columns is not None:
            raise UsageError("the list of columns is empty", code="usage.column", facts={"columns": _names(schema)})
        if repeated := _first_repeated(column.name for column in chosen):
            raise UsageError(f"column {repeated} is named twice", code="usage.column")
        if where is None:
            return cls(chosen, chosen, None, left_out)
        from deltacli.delta.predicate import parse_predicate

        predicate = parse_predicate(where, schema, judge)
        looked_at = {path[0] for path in predicate.columns}
        given_out = {field.name for field in chosen}
        others = [field for field in schema.fields if field.name in looked_at and field.name not in given_out]
        return cls(chosen, (*chosen, *others), predicate, left_out)

    def rows_wanted(self, config: TableConfiguration) -> ReadSpec:
        """The same for the files of one table configuration."""
        schema = arrow_schema(self.columns)
        whole = schema if self.needed == self.columns else arrow_schema(self.needed)
        file_columns = FileColumns(config.mapping_mode, config.physical_name, config)
        beside = {column.name: FileColumns("none", recorded_name) for column in self.row_ids}
        row_ids = (ROW_ID, ROW_COMMIT_VERSION) if self.row_ids else None
        return ReadSpec(self.needed, schema, whole, file_columns, self.predicate, beside, row_ids)


class ScannedActions(Protocol):
    """The file actions of a version: `FileActions`."""

    @property
    def pieces(self) -> Sequence[object]: ...
    def map_actions(
        self, kind: str, work: Callable[[pyarrow.RecordBatch], Result], *, fields: Sequence[str] | None = None
    ) -> Iterator[Result]: ...


class ScannedVersion(Protocol):
    """The version of a table that a scan reads: `Snapshot`, which cannot be imported here because it uses the scan."""

    @property
    def table(self) -> TableHandle: ...
    @property
    def version(self) -> int: ...
    @property
    def schema(self) -> StructType: ...
    @property
    def config(self) -> TableConfiguration: ...
    @property
    def file_actions(self) -> ScannedActions: ...


class ArrowRows(ABC):
    """Rows of files as Arrow batches, which each iteration reads again."""

    _selection: Selection
    _wanted: ReadSpec
    _odd_values: OddPartitionValues
    _has_repeated_files = False

    @abstractmethod
    def __iter__(self) -> Iterator[pyarrow.RecordBatch]: ...

    @property
    def schema(self) -> pyarrow.Schema:
        """The exact Arrow schema of the batches."""
        return self._wanted.schema

    @property
    def columns(self) -> tuple[StructField, ...]:
        """The columns of the batches as in the table's schema."""
        return self._selection.columns

    @property
    def left_out(self) -> tuple[UnreadColumn, ...]:
        """The columns of the table that are not read because of their types."""
        return self._selection.left_out

    @property
    def wanted(self) -> ReadSpec:
        """What is read from every file."""
        return self._wanted

    @property
    def misnamed(self) -> tuple[MisnamedField, ...]:
        """The fields that some file read so far has under a logical name, so that they were read as null.

        Files that a cluster has read are not among them.
        """
        return tuple(self._wanted.file_columns.misnamed)

    @property
    def empty_texts(self) -> tuple[str, ...]:
        """The partition columns of text that are empty in the log for some file read so far, and were read as null."""
        return self._odd_values.empty_texts

    @property
    def respelled_keys(self) -> tuple[str, ...]:
        """The partition columns that the log spells in another letter case for some file read so far."""
        return self._odd_values.respelled_keys

    @property
    def disputed(self) -> tuple[str, ...]:
        """The rules of `validate` for damages of the log that decided what was read so far, and that engines read
        differently.
        """
        return (REPEATED_IN_CHECKPOINT,) if self._has_repeated_files else ()

    def require_all_columns(self) -> None:
        """Raise Refused (`type.unsupported`) where columns are left out: a copy that lacks some has to be asked for."""
        if self.left_out:
            raise unsupported(self.left_out, self.columns)

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """Return the rows as a streaming reader, which engines that accept Arrow can use directly."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pyarrow.Table:
        """Return all rows as one table, in memory. Raises DataUnreadable."""
        return pa.Table.from_batches(self, self.schema)


class Scan(ArrowRows):
    """The rows of a version as Arrow batches, and their files.

    Each iteration reads again, a few files at a time and a few batches ahead. The order of files is unspecified but
    always the same. Columns of types that are not read are left out (`left_out`). Raises DataUnreadable, naming file,
    row group and column, and immediately Unreadable (`typewidening.*`) where no reader may read the version.
    """

    def __init__(self, snapshot: ScannedVersion, request: ScanRequest) -> None:
        require_readable_rows(snapshot.config, snapshot.version)
        self._snapshot = snapshot
        ids = require_row_ids(snapshot) if request.row_ids else ()
        self._selection = Selection.make(snapshot.schema, request.columns, request.where, row_ids=ids)
        self._wanted = self._selection.rows_wanted(snapshot.config)
        self._limit = request.limit
        self._odd_values = OddPartitionValues()
        self._has_repeated_files = False

    @property
    def version(self) -> int:
        return self._snapshot.version

    @cached_property
    def _files(self) -> TableFiles:
        return self._snapshot.table.files()

    def data_files(self) -> Iterator[DataFile]:
        """Yield the live files that may have rows to return, each once.

        Raises DataUnreadable (`partition.*`), and Unreadable where that leaves a doubt (`checkpoint.duplicate-key`).
        """
        actions = self._snapshot.file_actions
        files = chain.from_iterable(actions.map_actions("add", self._data_files))
        # What commits have is reconciled, and not in a checkpoint.
        return self._each_once(files) if actions.pieces else files

    def _each_once(self, files: Iterable[DataFile]) -> Iterator[DataFile]:
        from deltacli.work.rows.files_once import FilesOnce

        once = FilesOnce()
        for file in once.keep_first(files):
            yield file
            self._has_repeated_files |= once.has_repeated
        self._has_repeated_files |= once.has_repeated

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        table = self._snapshot.table
        batches = stream_files(table.engine, self._files, self._wanted, self.data_files(), progress=table.progress)
        return iterate_naming_table(limit_rows(batches, self._limit), table.name)

    def __repr__(self) -> str:
        return f"Scan({without_secrets(self._snapshot.table.uri)!r}, version={self.version})"

    def write_parquet(self, directory: str | os.PathLike[str]) -> WrittenDirectory:
        """Write the rows as Parquet files to a directory: a path, or a URI of a store that can create atomically.

        The directory must be new or empty and outside of all tables, else UsageError is raised. `_SUCCESS` in it marks
        a complete result; after an error, nothing is left. Raises DataUnreadable, StorageFailed, NoAtomicCreate, and
        Refused (`type.unsupported`) where a column is left out that the request does not.
        """
        from deltacli.table.output import write_rows

        self.require_all_columns()
        return write_rows(self._snapshot.table, directory, self._wanted, self.data_files(), self._limit)

    def count(self) -> int:
        """Return the number of rows. Raises DataUnreadable."""
        return sum(batch.num_rows for batch in self)

    def files(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield every live file: `path` (as in the log), `size` in bytes, `records` (null where unknown), `kept`, and
        the `reason` where it is skipped: `partition` or `statistics`.
        """
        yield from iterate_naming_table(
            self._snapshot.file_actions.map_actions("add", self._judged), self._snapshot.table.name
        )

    def _judged(self, adds: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        kept, by_partition = self._pruned(adds)
        reason = pc.if_else(by_partition, pa.scalar(BY_PARTITION), pa.scalar(BY_STATISTICS))
        reason = pc.if_else(kept, pa.scalar(None, pa.string()), reason)
        return pa.RecordBatch.from_arrays(
            [adds.column("path"), adds.column("size"), num_records_column(adds.column("stats")), kept, reason],
            names=["path", "size", "records", "kept", "reason"],
        )

    def _pruned(self, adds: pyarrow.RecordBatch) -> tuple[ArrowArray, ArrowArray]:
        if self._selection.predicate is None:
            return pa.repeat(pa.scalar(True), adds.num_rows), pa.repeat(pa.scalar(False), adds.num_rows)
        from deltacli.delta.predicate.prune import prune_files

        pruned = prune_files(adds, self._selection.predicate, self._snapshot.config)
        return pruned.kept, pruned.by_partition

    def _data_files(self, adds: pyarrow.RecordBatch) -> list[DataFile]:
        if self._selection.predicate is not None:
            adds = pc.filter(adds, self._pruned(adds)[0])
        self._odd_values.take(adds, self._snapshot.config, self._selection.needed)
        return live_data_files(adds, self._snapshot.config, self._selection)


def live_data_files(
    adds: pyarrow.RecordBatch, config: TableConfiguration, selection: Selection, *, version: int | None = None
) -> list[DataFile]:
    """Return the files of adds as `data_files` does. Raises DataUnreadable also for an add without wanted row ids."""
    if selection.row_ids:
        lacking = pc.or_(pc.is_null(adds.column("baseRowId")), pc.is_null(adds.column("defaultRowCommitVersion")))
        if pc.any(lacking).as_py():
            raise DataUnreadable(
                f"{pc.filter(adds.column('path'), lacking)[0]} has no row ids although row tracking is on",
                code="rowtracking.base-row-id-missing",
                hint=command("validate", select=[DoubleQuoted("rowtracking.*")]),
            )
    return data_files(adds, config, selection.needed, version=version)


def _partition_values(
    actions: pyarrow.RecordBatch, config: TableConfiguration, names: Sequence[str]
) -> dict[str, pyarrow.Array]:
    if not names:  # a table without partitions is read before all of that would be loaded
        return {}
    from deltacli.delta.partitions.values import partition_columns

    return partition_columns(actions, config, names)


class OddPartitionValues:
    """Notes which partition columns have values in the log that other engines read otherwise.

    Attributes:
        empty_texts: The columns of text with an empty one, which is read as null.
        respelled_keys: The columns whose name has another letter case beside a value. The value is read.
    """

    def __init__(self) -> None:
        self._empty_texts: dict[str, None] = {}
        self._respelled_keys: dict[str, None] = {}

    @property
    def empty_texts(self) -> tuple[str, ...]:
        return tuple(self._empty_texts)

    @property
    def respelled_keys(self) -> tuple[str, ...]:
        return tuple(self._respelled_keys)

    def take(self, actions: pyarrow.RecordBatch, config: TableConfiguration, needed: Sequence[StructField]) -> None:
        """Look at the values that file actions have for the needed columns."""
        names = {config.physical_name(column): column.name for column in needed}
        partitions = [name for name in config.partition_columns if name in names]
        if not partitions:  # a table without partitions is read before all of that would be loaded
            return
        from deltacli.delta.partitions.values import find_empty_texts, find_respelled_keys

        empty_texts = find_empty_texts(actions, config, partitions)
        self._empty_texts.update(dict.fromkeys(names[name] for name in empty_texts))
        respelled_keys = find_respelled_keys(actions, partitions)
        self._respelled_keys.update(dict.fromkeys(names[name] for name in respelled_keys))


def data_files(
    actions: pyarrow.RecordBatch,
    config: TableConfiguration,
    needed: Sequence[StructField],
    *,
    version: int | None = None,
) -> list[DataFile]:
    """Return the files of actions with their partition values. Raises DataUnreadable (`partition.*`)."""
    names = {config.physical_name(column): column.name for column in needed}
    physical = [name for name in config.partition_columns if name in names]
    values = _partition_values(actions, config, physical)
    paths, sizes = actions.column("path").to_pylist(), actions.column("size").to_pylist()
    vectors = actions.column("deletionVector")
    has_vectors = vectors.null_count < len(vectors)
    ids, versions = (actions.column(name).to_pylist() for name in ("baseRowId", "defaultRowCommitVersion"))
    return [
        DataFile(
            path,
            sizes[row],
            {names[name]: values[name][row] for name in physical},
            vectors[row].as_py() if has_vectors else None,
            version=version,
            base_row_id=ids[row],
            row_commit_version=versions[row],
        )
        for row, path in enumerate(paths)
    ]


def stream_files(
    engine: Engine, files: TableFiles, wanted: ReadSpec, pieces: Iterable[DataFile], *, progress: Progress = SILENT
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of files, several files at a time; for few large files, several row groups of each."""
    pieces = iter(pieces)
    first = list(islice(pieces, _FEW_FILES + 1))
    if 0 < len(first) <= _FEW_FILES and max(file.size_bytes or 0 for file in first) >= _LARGE_FILE_BYTES:
        split = partial(split_file, files, parts=_FEW_FILES // len(first))
        first = list(chain.from_iterable(engine.run(split, first)))
    with progress.step("reading rows", unit="files") as step:

        def tell(file: DataFile) -> Iterator[pyarrow.RecordBatch]:
            yield from read_rows(files, wanted, file)
            step.advance(1)

        yield from engine.stream(tell, chain(first, pieces))


def _find_columns(schema: StructType, names: Sequence[str]) -> tuple[StructField, ...]:
    """Return the top-level columns of these names: exact matches first, else ignoring case. Raises UsageError."""
    index = NameIndex(column.name for column in schema.fields)
    return tuple(_find_column(schema, index, name) for name in names)


def _find_column(schema: StructType, index: NameIndex, name: str) -> StructField:
    alike = index.places_of(name)
    if len(alike) == 1:
        return schema.fields[alike[0]]
    near = nearest_place(schema, name.split("."))
    reason = ""
    if near is not None and len(near.steps) > 1:
        reason = f": {'it' if near.text == name else near.text} is a field, and only whole columns can be read"
    raise UsageError(
        f"the table has no column {name}{reason}",
        code="usage.column",
        facts={} if near else {"columns": _names(schema)},
        hint=command("snapshot", schema=True),
    ).suggest_as_fact(name, near and near.column.name)


def _first_repeated(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _names(schema: StructType) -> str:
    return summarize_names([column.name for column in schema.fields], 20)
