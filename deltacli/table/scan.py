"""Read the rows of a version, streamed as Arrow batches.

A scan goes from coarse to fine: partition values and statistics skip whole files, what is left of them is
read row group by row group, and the condition is applied to the rows. Nothing is held but the batches that
are on their way.

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
from deltacli.delta.log.file_actions import num_records_column
from deltacli.delta.schema.to_arrow import UnreadColumn, unsupported
from deltacli.delta.schema.type_changes import require_readable_rows
from deltacli.delta.schema.types import StructField
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import iterate_naming_table
from deltacli.table.data_files import OddPartitionValues, build_live_data_files, stream_rows
from deltacli.table.scan_requests import ScanRequest
from deltacli.table.selection import Selection, VersionWithSchema, require_row_ids
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.task import TableFiles

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.schema.misnamed_fields import MisnamedField
    from deltacli.table.output import WrittenDirectory

BY_PARTITION = "partition"
BY_STATISTICS = "statistics"
Result = TypeVar("Result")


class ScannedActions(Protocol):
    """The file actions of a version: `FileActions`."""

    @property
    def pieces(self) -> Sequence[object]: ...
    def map_actions(
        self, kind: str, work: Callable[[pyarrow.RecordBatch], Result], *, fields: Sequence[str] | None = None
    ) -> Iterator[Result]: ...


class ScannedVersion(VersionWithSchema, Protocol):
    """The version of a table that a scan reads: `Snapshot`, which cannot be imported here because it uses the scan."""

    @property
    def file_actions(self) -> ScannedActions: ...


class ArrowRows(ABC):
    """Rows of files as Arrow batches, which each iteration reads again."""

    _selection: Selection
    _read_spec: ReadSpec
    _odd_values: OddPartitionValues
    _has_repeated_files = False

    @abstractmethod
    def __iter__(self) -> Iterator[pyarrow.RecordBatch]: ...

    @property
    def schema(self) -> pyarrow.Schema:
        """The exact Arrow schema of the batches."""
        return self._read_spec.schema

    @property
    def columns(self) -> tuple[StructField, ...]:
        """The columns of the batches as in the table's schema."""
        return self._selection.columns

    @property
    def left_out(self) -> tuple[UnreadColumn, ...]:
        """The columns of the table that are not read because of their types."""
        return self._selection.left_out

    @property
    def read_spec(self) -> ReadSpec:
        """The columns and rows that are read from every file."""
        return self._read_spec

    @property
    def misnamed(self) -> tuple[MisnamedField, ...]:
        """The fields that some file read so far has under a logical name, so that they were read as null.

        Files that a cluster has read are not among them.
        """
        return tuple(self._read_spec.file_columns.misnamed)

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
        """Raise Refused (`type.unsupported`) if columns are left out: a copy that lacks some has to be asked for."""
        if self.left_out:
            raise unsupported(self.left_out, self.columns)

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """Return the rows as a streaming reader, which engines that accept Arrow can use directly."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pyarrow.Table:
        """Return all rows as one table, in memory. Raises DataUnreadable."""
        return pa.Table.from_batches(self, self.schema)


class _Pruning(NamedTuple):
    """Masks of a batch of live files.

    Attributes:
        is_kept: Files that may have rows to return.
        is_skipped_by_partition: Files that their partition values exclude. Statistics exclude the others.
    """

    is_kept: ArrowArray
    is_skipped_by_partition: ArrowArray


class Scan(ArrowRows):
    """The rows of a version as Arrow batches, and their files.

    Each iteration reads again, a few files at a time and a few batches ahead. The order of files is unspecified but
    always the same. Columns of types that are not read are left out (`left_out`). Raises DataUnreadable, naming file,
    row group and column, and immediately Unreadable (`typewidening.*`) where no reader may read the version.
    """

    def __init__(self, snapshot: ScannedVersion, request: ScanRequest) -> None:
        require_readable_rows(snapshot.config, snapshot.version)
        self._snapshot = snapshot
        row_ids = require_row_ids(snapshot) if request.row_ids else ()
        self._selection = Selection.make(snapshot.schema, request.columns, request.where, row_ids=row_ids)
        self._read_spec = self._selection.make_read_spec(snapshot.config)
        self._limit = request.limit
        self._odd_values = OddPartitionValues()
        self._has_repeated_files = False

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._snapshot.version

    @cached_property
    def _files(self) -> TableFiles:
        return self._snapshot.table.files()

    def data_files(self) -> Iterator[DataFile]:
        """Yield the live files that may have rows to return, each once.

        Raises DataUnreadable (`partition.*`), and Unreadable where that leaves a doubt (`checkpoint.duplicate-key`).
        """
        actions = self._snapshot.file_actions
        files = chain.from_iterable(actions.map_actions("add", self._build_data_files))
        # Commits are reconciled, so that they have a file once. Rows of a checkpoint are not.
        return self._iterate_each_once(files) if actions.pieces else files

    def _iterate_each_once(self, files: Iterable[DataFile]) -> Iterator[DataFile]:
        from deltacli.work.rows.files_once import FilesOnce

        files_once = FilesOnce()
        for file in files_once.keep_first(files):
            yield file
            # Noted file by file, because the reader may stop at a limit.
            self._has_repeated_files |= files_once.has_repeated
        self._has_repeated_files |= files_once.has_repeated

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        table = self._snapshot.table
        batches = stream_rows(table.engine, self._files, self._read_spec, self.data_files(), progress=table.progress)
        return iterate_naming_table(limit_rows(batches, self._limit), table.name)

    def __repr__(self) -> str:
        return f"Scan({mask_secrets(self._snapshot.table.uri)!r}, version={self.version})"

    def write_parquet(self, directory: str | os.PathLike[str]) -> WrittenDirectory:
        """Write the rows as Parquet files to a directory: a path, or a URI of a store that can create atomically.

        The directory must be new or empty and outside of all tables, else UsageError is raised. `_SUCCESS` in it marks
        a complete result; after an error, nothing is left. Raises DataUnreadable, StorageFailed, NoAtomicCreate, and
        Refused (`type.unsupported`) where a column is left out that the request does not.
        """
        from deltacli.table.output import write_rows

        self.require_all_columns()
        return write_rows(self._snapshot.table, directory, self._read_spec, self.data_files(), self._limit)

    def count(self) -> int:
        """Return the number of rows. Raises DataUnreadable."""
        return sum(batch.num_rows for batch in self)

    def files(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield every live file: `path` (as in the log), `size` in bytes, `records` (null where unknown), `kept`, and
        the `reason` where it is skipped: `partition` or `statistics`.
        """
        batches = self._snapshot.file_actions.map_actions("add", self._describe_files)
        yield from iterate_naming_table(batches, self._snapshot.table.name)

    def _describe_files(self, adds: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        pruning = self._prune(adds)
        reason = pc.if_else(pruning.is_skipped_by_partition, pa.scalar(BY_PARTITION), pa.scalar(BY_STATISTICS))
        reason = pc.if_else(pruning.is_kept, pa.scalar(None, pa.string()), reason)
        records = num_records_column(adds.column("stats"))
        return pa.RecordBatch.from_arrays(
            [adds.column("path"), adds.column("size"), records, pruning.is_kept, reason],
            names=["path", "size", "records", "kept", "reason"],
        )

    def _prune(self, adds: pyarrow.RecordBatch) -> _Pruning:
        if self._selection.predicate is None:
            is_kept = pa.repeat(pa.scalar(True), adds.num_rows)
            return _Pruning(is_kept, pa.repeat(pa.scalar(False), adds.num_rows))
        from deltacli.delta.predicate.prune import prune_files

        pruned = prune_files(adds, self._selection.predicate, self._snapshot.config)
        return _Pruning(pruned.kept, pruned.by_partition)

    def _build_data_files(self, adds: pyarrow.RecordBatch) -> list[DataFile]:
        if self._selection.predicate is not None:
            adds = pc.filter(adds, self._prune(adds).is_kept)
        self._odd_values.take(adds, self._snapshot.config, self._selection.needed)
        return build_live_data_files(adds, self._snapshot.config, self._selection)
