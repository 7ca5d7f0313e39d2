"""Read the rows of a version as a stream of Arrow record batches.

A scan skips as much as possible before it reads: partition values and statistics of the log exclude whole
files, statistics of Parquet exclude row groups, and finally the condition filters the rows. Only the
record batches that are being read or processed are in memory.

Spec: Data Files; Deletion Vectors; Per-file Statistics.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import limit_rows
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.disputed_readings import REPEATED_IN_CHECKPOINT
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.schema.to_arrow import UnreadColumn, unsupported_columns_error
from deltacli.delta.schema.type_changes import require_readable_rows
from deltacli.delta.schema.types import StructField
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import iterate_naming_table
from deltacli.table.data_files import PartitionValueWarnings, build_live_data_files, stream_rows
from deltacli.table.scan_requests import ScanRequest
from deltacli.table.selection import Selection, VersionWithSchema, require_row_ids
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.schema.misnamed_fields import MisnamedField
    from deltacli.table.output import WrittenDirectory

BY_PARTITION = "partition"
BY_STATISTICS = "statistics"
Result = TypeVar("Result")


class ScannedActions(Protocol):
    """The file actions of a version. `FileActions` implements this."""

    @property
    def pieces(self) -> Sequence[object]: ...
    def map_actions(
        self, kind: str, work: Callable[[pyarrow.RecordBatch], Result], *, fields: Sequence[str] | None = None
    ) -> Iterator[Result]: ...


class ScannedVersion(VersionWithSchema, Protocol):
    """The version that a scan reads.

    `Snapshot` implements this. It cannot be imported here, because it imports this module.
    """

    @property
    def file_actions(self) -> ScannedActions: ...


class ArrowRows(ABC):
    """Rows of data files as Arrow record batches. Each iteration reads the files again."""

    _selection: Selection
    _read_spec: ReadSpec
    _partition_warnings: PartitionValueWarnings
    _has_repeated_files = False

    @abstractmethod
    def __iter__(self) -> Iterator[pyarrow.RecordBatch]: ...

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches."""
        return self._read_spec.schema

    @property
    def columns(self) -> tuple[StructField, ...]:
        """The columns of the batches, as in the schema of the table."""
        return self._selection.columns

    @property
    def left_out(self) -> tuple[UnreadColumn, ...]:
        """The columns of the table that are not read because their types are not supported."""
        return self._selection.left_out

    @property
    def read_spec(self) -> ReadSpec:
        """The columns and rows that are read from every data file."""
        return self._read_spec

    @property
    def misnamed(self) -> tuple[MisnamedField, ...]:
        """The fields that a file contains under their logical names although the table has a column mapping.

        Such fields are read as null, as in Spark. Only files that this process has read so far are considered,
        not those that a cluster has read.
        """
        return tuple(self._read_spec.file_columns.misnamed)

    @property
    def empty_texts(self) -> tuple[str, ...]:
        """The string partition columns with an empty value, which is read as null, in the files read so far."""
        return self._partition_warnings.empty_texts

    @property
    def respelled_keys(self) -> tuple[str, ...]:
        """The partition columns whose names differ in case between schema and log, in the files read so far."""
        return self._partition_warnings.respelled_keys

    @property
    def disputed(self) -> tuple[str, ...]:
        """Ids of `validate` rules for damage in the log that engines interpret differently.

        The only such rule is `checkpoint.duplicate-key`: a checkpoint contains a file twice, and some engines
        return its rows twice. Only files that have been read so far are compared.
        """
        return (REPEATED_IN_CHECKPOINT,) if self._has_repeated_files else ()

    def require_all_columns(self) -> None:
        """Check that no column is left out: writing an incomplete copy requires selecting columns explicitly.

        Raises:
            Refused: `type.unsupported`, if columns are left out because of their types.
        """
        if self.left_out:
            raise unsupported_columns_error(self.left_out, self.columns)

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """Return the rows as a streaming reader, for engines that accept Arrow, such as DuckDB."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pyarrow.Table:
        """Read all rows into memory.

        Raises:
            DataUnreadable: If a data file is missing or damaged.
        """
        return pa.Table.from_batches(self, self.schema)


class _Pruning(NamedTuple):
    """Masks of a batch of live files.

    Attributes:
        is_kept: True for files that may contain matching rows.
        is_skipped_by_partition: True for files that are excluded by their partition values. Files for which
            both masks are false are excluded by their statistics.
    """

    is_kept: ArrowArray
    is_skipped_by_partition: ArrowArray


class Scan(ArrowRows):
    """The rows of a version as Arrow record batches.

    Each iteration reads the data files again, a few files in parallel and a few batches ahead. The order of
    files is unspecified, but always the same. Columns of unsupported types are left out, see `left_out`.
    Iterating raises DataUnreadable with the file, row group and column if a data file is missing or damaged.
    """

    def __init__(self, snapshot: ScannedVersion, request: ScanRequest) -> None:
        """Resolve the columns and the condition. No data file is read.

        Args:
            snapshot: The version to read.
            request: The columns, the condition and the limit.

        Raises:
            Unreadable: If no reader may read the rows, because of an unsupported type change (`typewidening.*`)
                or a partition column that is not in the schema (`metadata.*`).
            UsageError: If a column does not exist or the condition is invalid.
            Refused: If row ids are requested and row tracking is not enabled.
        """
        require_readable_rows(snapshot.config, snapshot.version)
        self._snapshot = snapshot
        row_ids = require_row_ids(snapshot) if request.row_ids else ()
        self._selection = Selection.resolve(snapshot.schema, request.columns, request.where, row_ids=row_ids)
        self._read_spec = self._selection.make_read_spec(snapshot.config)
        self._limit = request.limit
        self._partition_warnings = PartitionValueWarnings()
        self._has_repeated_files = False

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._snapshot.version

    @cached_property
    def _files(self) -> TableFiles:
        return self._snapshot.table.files()

    def data_files(self) -> Iterator[DataFile]:
        """Yield the live files that may contain matching rows.

        Raises:
            DataUnreadable: `partition.*`, if a partition value is invalid.
            Unreadable: `checkpoint.duplicate-key`, if the checkpoint contains a file twice with different
                partition values.
        """
        actions = self._snapshot.file_actions
        files = chain.from_iterable(actions.map_actions("add", self._build_data_files))
        # A replay of commits drops repeated files. The rows of a checkpoint are not compared before.
        return self._drop_repeated_files(files) if actions.pieces else files

    def _drop_repeated_files(self, files: Iterable[DataFile]) -> Iterator[DataFile]:
        """Yield each file once, and remember whether a file was repeated."""
        # Imported here because tables without a checkpoint do not need it.
        from deltacli.work.rows.files_once import FilesOnce

        files_once = FilesOnce()
        for file in files_once.keep_first(files):
            yield file
            # Updated after each file: if the limit is reached, the loop does not end.
            self._has_repeated_files |= files_once.has_repeated
        self._has_repeated_files |= files_once.has_repeated

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        table = self._snapshot.table
        batches = stream_rows(table.engine, self._files, self._read_spec, self.data_files(), progress=table.progress)
        return iterate_naming_table(limit_rows(batches, self._limit), table.name)

    def __repr__(self) -> str:
        return f"Scan({mask_secrets(self._snapshot.table.uri)!r}, version={self.version})"

    def write_parquet(self, directory: str | os.PathLike[str]) -> WrittenDirectory:
        """Write the rows to a directory of Parquet files.

        The file `_SUCCESS` is written last and marks a complete result. After an error, all written files are
        deleted.

        Args:
            directory: A new or empty directory outside of all tables: a path, or the URI of a store that
                supports atomic creation.

        Raises:
            UsageError: If the directory is not empty, or is inside a table.
            Refused: `type.unsupported`, if columns are left out because of their types.
            NoAtomicCreate: If the store does not support atomic creation.
            DataUnreadable: If a data file is missing or damaged.
            StorageFailed: If the directory cannot be written.
        """
        # Imported here because few scans are written to a directory.
        from deltacli.table.output import write_rows

        self.require_all_columns()
        return write_rows(self._snapshot.table, directory, self._read_spec, self.data_files(), self._limit)

    def count(self) -> int:
        """Read all rows and return their number.

        Raises:
            DataUnreadable: If a data file is missing or damaged.
        """
        return sum(batch.num_rows for batch in self)

    def files(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield all live files, and whether the scan reads them.

        Yields:
            Record batches with the columns `path` (as in the log), `size` in bytes, `records` (null if
            unknown), `kept` (True if the file is read), and `reason` (`partition` or `statistics` if the file
            is skipped, else null).
        """
        batches = self._snapshot.file_actions.map_actions("add", self._describe_files)
        yield from iterate_naming_table(batches, self._snapshot.table.name)

    def _describe_files(self, adds: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Build a batch of `files` from a batch of add actions."""
        pruning = self._prune(adds)
        reason = pc.if_else(pruning.is_skipped_by_partition, pa.scalar(BY_PARTITION), pa.scalar(BY_STATISTICS))
        reason = pc.if_else(pruning.is_kept, pa.scalar(None, pa.string()), reason)
        records = extract_num_records_column(adds.column("stats"))
        return pa.RecordBatch.from_arrays(
            [adds.column("path"), adds.column("size"), records, pruning.is_kept, reason],
            names=["path", "size", "records", "kept", "reason"],
        )

    def _prune(self, adds: pyarrow.RecordBatch) -> _Pruning:
        """Evaluate the condition on the partition values and statistics of live files."""
        if self._selection.predicate is None:
            is_kept = pa.repeat(pa.scalar(True), adds.num_rows)
            return _Pruning(is_kept, pa.repeat(pa.scalar(False), adds.num_rows))
        # Imported here because a scan of all rows needs no predicates.
        from deltacli.delta.predicate.prune import prune_files

        pruned = prune_files(adds, self._selection.predicate, self._snapshot.config)
        return _Pruning(pruned.kept, pruned.by_partition)

    def _build_data_files(self, adds: pyarrow.RecordBatch) -> list[DataFile]:
        """Convert add actions to data files, and skip files that cannot contain matching rows."""
        if self._selection.predicate is not None:
            adds = pc.filter(adds, self._prune(adds).is_kept)
        self._partition_warnings.inspect(adds, self._snapshot.config, self._selection.needed)
        return build_live_data_files(adds, self._snapshot.config, self._selection)
