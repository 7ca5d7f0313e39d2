"""Reading rows of data files: the columns of the table, without the rows that are deleted.

Spec: Data Files; Deletion Vectors; Column Mapping; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli import arrow_compute as pc
from deltacli.delta.roaring import DeletedRows
from deltacli.delta.schema.file_columns import FileColumn, FileColumns, absent
from deltacli.delta.schema.required import column_with_null
from deltacli.delta.schema.types import StructField, StructType
from deltacli.errors import DataUnreadable, FileMissing
from deltacli.work.checkpoint_limits import THRIFT_LIMITS, read_footer
from deltacli.work.deletion_vectors import Descriptor, read_vector
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from deltacli.delta.predicate import Predicate
    from deltacli.delta.predicate.row_groups import FileLeaf

ROWS_A_BATCH = 32_768
BUFFER_BYTES = 128 << 10
"""Column chunks go through a buffer, so that a large one is never held; a larger buffer is a tenth slower."""
MAX_BATCH_BYTES = 64 << 20
"""What a batch may take, by the mean of its row group: fewer rows are read at a time where they are long."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read. `path` is as in the log; `constants` are the columns that are the same in each of its rows, by
    logical name.

    Rows of `vector` are left out. Where `only` is given, its rows and no others are read, less those of `vector`.
    `groups` are the row groups to read (None: all), `metadata` the footer where it was read before.
    """

    path: str
    size_bytes: int | None
    constants: Mapping[str, Any] = field(default_factory=dict)  # Any: Arrow scalars
    vector: Descriptor | None = None
    only: Descriptor | None = None
    version: int | None = None
    """The version whose changes are read; None: rows of a snapshot."""
    groups: tuple[int, ...] | None = None
    metadata: pyarrow.parquet.FileMetaData | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RowsWanted:
    """What is read of every file: `columns` of the table, of which `schema` are given out, where `predicate` holds."""

    columns: tuple[StructField, ...]
    schema: pyarrow.Schema
    whole_schema: pyarrow.Schema
    """That of `columns`."""
    file_columns: FileColumns
    predicate: Predicate | None = None


@contextmanager
def data_faults(file: DataFile) -> Iterator[None]:
    """Turn every fault of a data file's bytes into DataUnreadable, naming the file."""
    import pyarrow

    try:
        yield
    except DataUnreadable as fault:
        raise DataUnreadable(
            f"{file.path}: {fault.message}", code=fault.code, facts=_facts(file) | fault.facts, hint=fault.hint
        ) from fault
    except FileMissing as fault:
        raise DataUnreadable(
            f"{file.path} does not exist",
            code="data.file-missing",
            facts=_facts(file),
            hint="deltacli validate {table} --level storage",
        ) from fault
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError) as fault:
        reason = " ".join(str(fault).split())[:200]
        raise DataUnreadable(
            f"{file.path} can't be read as a Parquet file", facts=_facts(file) | {"reason": reason}
        ) from fault


def _facts(file: DataFile) -> dict[str, str]:
    version = {} if file.version is None else {"version": str(file.version)}
    return {"file": file.path} | version


class OpenDataFile(NamedTuple):
    """A data file that is open."""

    parquet: Any  # Any: pyarrow.parquet.ParquetFile
    source: Any  # Any: as in the storage port
    is_near: bool


@contextmanager
def open_data_file(files: TableFiles, file: DataFile) -> Iterator[OpenDataFile]:
    """Open a data file as Parquet; on a far store what is read is fetched in few requests. Every fault while it is open
    is DataUnreadable.
    """
    import pyarrow.parquet

    storage, path = files.locate(file.path)
    is_near = storage.capabilities.cheap_listing
    with (
        data_faults(file),
        storage.open(path) as source,
        pyarrow.parquet.ParquetFile(
            source,
            metadata=file.metadata,
            pre_buffer=not is_near,
            buffer_size=BUFFER_BYTES if is_near else 0,
            coerce_int96_timestamp_unit="us",
            **THRIFT_LIMITS,
        ) as parquet,
    ):
        yield OpenDataFile(parquet, source, is_near)


def split_file(files: TableFiles, file: DataFile, parts: int) -> list[DataFile]:
    """The same file in up to `parts` pieces of whole row groups."""
    with open_data_file(files, file) as opened:
        metadata = opened.parquet.metadata
    groups = range(metadata.num_row_groups)
    step = max(1, -(-len(groups) // parts))
    starts = groups[::step] or [0]
    return [replace(file, groups=tuple(groups[start : start + step]), metadata=metadata) for start in starts]


def read_rows(files: TableFiles, wanted: RowsWanted, file: DataFile) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a file. Raises DataUnreadable, naming the file, the row group and the column at fault."""
    with open_data_file(files, file) as opened:
        yield from _Reader(files, wanted, file, opened).batches()


class _Reader:
    """One open file."""

    def __init__(self, files: TableFiles, wanted: RowsWanted, file: DataFile, opened: OpenDataFile) -> None:
        self._files, self._wanted, self._file = files, wanted, file
        self._parquet, self._source, self._is_near = opened
        parquet = opened.parquet
        columns = [column for column in wanted.columns if column.name not in file.constants]
        self._names = [column.name for column in columns]
        self._found = dict(zip(self._names, wanted.file_columns.find(parquet.schema_arrow, columns), strict=True))
        present = [column for column in self._found.values() if column is not None]
        self._leaves = sorted({leaf for column in present for leaf in column.leaves})
        self._positions = sorted({column.position for column in present})

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        metadata = self._parquet.metadata
        excluded, only = self._vectors(metadata.num_rows)
        kept = set(self._kept_groups())
        start = 0
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            if group in kept and row_group.num_rows:
                yield from self._group(group, row_group, start, excluded, only)
            start += row_group.num_rows

    def _vectors(self, rows: int) -> tuple[DeletedRows | None, DeletedRows | None]:
        found = []
        for descriptor in (self._file.vector, self._file.only):
            vector = None if descriptor is None else read_vector(self._files, descriptor)
            if vector is not None and vector.last >= rows:
                raise DataUnreadable(
                    f"its deletion vector deletes row {vector.last}, and it has {rows} rows",
                    code="dv.row-out-of-range",
                )
            found.append(vector)
        return found[0], found[1]

    def _kept_groups(self) -> Sequence[int]:
        """The row groups of the piece that may hold rows which the condition keeps."""
        predicate, count = self._wanted.predicate, self._parquet.metadata.num_row_groups
        groups = range(count) if self._file.groups is None else self._file.groups
        if predicate is None or (count == 1 and not self._is_near):
            return groups  # the statistics in the log are as good as those of one row group
        from deltacli.delta.predicate.row_groups import kept_row_groups

        leaves = {path: self._leaf(path) for path in predicate.columns}
        kept = set(kept_row_groups(predicate, self._parquet.metadata, leaves, read_footer(self._source)))
        return [group for group in groups if group in kept]

    def _leaf(self, path: Sequence[str]) -> FileLeaf:
        """Where a column of the condition is in the file."""
        from deltacli.delta.predicate.row_groups import FileLeaf

        fields = fields_at(self._wanted.columns, path)
        kind = fields[-1].data_type
        if path[0] in self._file.constants:
            return FileLeaf(None, None, kind, constant=self._file.constants[path[0]])
        found = self._wanted.file_columns.leaf(self._parquet.schema_arrow, fields)
        return FileLeaf(None, None, kind, absent=True) if found is None else FileLeaf(*found, kind)

    def _group(
        self, group: int, row_group: Any, start: int, excluded: DeletedRows | None, only: DeletedRows | None
    ) -> Iterator[pyarrow.RecordBatch]:
        """The rows of one row group, the first of which is row `start` of the file."""
        mean = max(row_group.total_byte_size // row_group.num_rows, 1)
        size = max(min(ROWS_A_BATCH, MAX_BATCH_BYTES // mean), 1)
        at = start
        for raw in self._raw_batches(group, size, row_group.num_rows):
            rows = raw.num_rows
            mask, is_empty = _mask(at, rows, excluded, only)
            at += rows
            if not is_empty:
                batch = self._select(raw, mask)
                if batch.num_rows:
                    yield batch

    def _raw_batches(self, group: int, size: int, rows: int) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        if not self._leaves:  # only columns that are no part of the file
            for first in range(0, rows, size):
                yield pa.record_batch([pa.nulls(min(size, rows - first))], names=[""])
            return
        try:
            yield from self._parquet.reader.iter_batches(size, [group], self._leaves, use_threads=False)
        except (pa.ArrowException, OSError) as fault:
            raise self._damaged(group, fault) from fault

    def _damaged(self, group: int, fault: Exception) -> DataUnreadable:
        """The error for a row group that can't be read, naming the column: each is tried by itself."""
        import pyarrow as pa

        at_fault = "several columns together"
        for name, column in self._found.items():
            try:
                for _ in self._parquet.reader.iter_batches(
                    ROWS_A_BATCH, [group], list(column.leaves) if column else [], use_threads=False
                ):
                    pass
            except (pa.ArrowException, OSError) as found:
                at_fault, fault = name, found
                break
        return DataUnreadable(
            f"column {at_fault} can't be read",
            facts={"row group": str(group), "column": at_fault, "reason": " ".join(str(fault).split())[:200]},
        )

    def _select(self, raw: pyarrow.RecordBatch, mask: Any) -> pyarrow.RecordBatch:
        """The rows of a raw batch that are wanted, as the table has them."""
        import pyarrow as pa

        wanted = self._wanted
        columns = [self._column(raw, kind) for kind in wanted.whole_schema]
        whole = pa.RecordBatch.from_arrays(columns, schema=wanted.whole_schema)
        if wanted.predicate is not None:
            matches = wanted.predicate.matches(whole)
            mask = matches if mask is None else pc.and_(mask, matches)
        if wanted.schema is not wanted.whole_schema:
            whole = whole.select(wanted.schema.names)
        kept = whole if mask is None or mask.true_count == len(mask) else pc.filter(whole, mask)
        if (column := column_with_null(kept)) is not None:
            raise DataUnreadable(
                f"column {column} is NOT NULL, and holds a null", code="notnull.violated", facts={"column": column}
            )
        return kept

    def _column(self, raw: pyarrow.RecordBatch, kind: Any) -> Any:  # Any: an Arrow field, an Arrow array
        import pyarrow as pa

        name = kind.name
        if name in self._file.constants:
            value = self._file.constants[name]
            return pa.repeat(value, raw.num_rows) if value.is_valid else pa.nulls(raw.num_rows, kind.type)
        column: FileColumn | None = self._found[name]
        if column is None:
            return absent(raw.num_rows, raw.num_rows, kind, name)
        values = raw.column(self._positions.index(column.position))
        return values if column.convert is None else column.convert(values)


def fields_at(columns: Sequence[StructField], path: Sequence[str]) -> list[StructField]:
    """The fields along a path of logical names, from the top-level column on."""
    found: list[StructField] = []
    for name in path:
        found.append(next(column for column in columns if column.name == name))
        columns = found[-1].data_type.fields if isinstance(found[-1].data_type, StructType) else ()
    return found


def _mask(
    start: int, rows: int, excluded: DeletedRows | None, only: DeletedRows | None
) -> tuple[Any, bool]:  # Any: a boolean array, None for all rows
    """Which of some rows are read, and whether it is surely none."""
    mask = None
    if only is not None:
        mask = only.mask(start, rows)
        if mask is None:
            return None, True
    deleted = None if excluded is None else excluded.mask(start, rows)
    if deleted is not None:
        kept = pc.invert(deleted)
        mask = kept if mask is None else pc.and_(mask, kept)
    return mask, False
