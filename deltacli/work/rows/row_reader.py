"""Read the rows of one data file in batches, without deleted rows, decoding only rows that match the condition.

A row group is read in two passes that run side by side. The columns of the condition are decoded first. The other
columns are decoded only as far as batches have rows that match:

    batch                 0      1      2
    columns of condition  read   read   read
    rows that match       0      12     0
    other columns         skip   read   skip      (pages that are skipped at the end are never decoded)

Spec: Deletion Vectors; Column Mapping; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader, read_footer_bytes
from deltacli.core.errors import DataUnreadable, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import ArrowArray, ArrowField
from deltacli.delta.encoding.roaring import DeletedRows
from deltacli.delta.schema.file_columns import FileColumn, absent, hybrid_column, hybrid_leaf, nulls_of, rebased
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType, get_recorded_physical_name, holds
from deltacli.delta.schema.variants import TYPED, not_a_type
from deltacli.work.rows.data_files import (
    DataFile,
    OpenDataFile,
    ReadSpec,
    contains_required_field,
    list_checked_fields,
    mentions_encryption,
    open_data_file,
)
from deltacli.work.rows.deletion_vectors import read_vector
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    from deltacli.delta.predicate.row_groups import PredicateLeaf

ROWS_A_BATCH = 32_768
MAX_BATCH_BYTES = 64 << 20
"""Maximum bytes of a batch, estimated by the mean of its row group. Batches have fewer rows where rows are long."""


def read_rows(files: TableFiles, spec: ReadSpec, file: DataFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file. Raises DataUnreadable, naming the file, the row group and the column at fault."""
    with open_data_file(files, file) as opened:
        yield from read_opened(files, spec, file, opened)


def read_opened(files: TableFiles, spec: ReadSpec, file: DataFile, opened: OpenDataFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open file. Raises DataUnreadable as `read_rows` does."""
    return _FileReader(files, spec, file, opened).batches()


class PlainReader:
    """Reads the rows of files of one schema without converting or checking a value.

    It is possible where the files have the columns as the table has them. Rows of several files can be put together as
    they are stored, and converted as one table.
    """

    def __init__(self, spec: ReadSpec, columns: _ColumnReader) -> None:
        self._spec = spec
        self._columns = columns

    @classmethod
    def of(cls, spec: ReadSpec, file: DataFile, opened: OpenDataFile) -> PlainReader | None:
        """Return the reader of all files like this one; None where its rows have to be looked at."""
        must_look = spec.required_positions or spec.extra_columns or spec.row_numbers is not None
        if must_look or spec.predicate is not None:
            return None
        columns = _ColumnReader(spec, file, opened, list(zip(spec.columns, spec.full_schema, strict=True)))
        return cls(spec, columns) if columns.is_plain else None

    def stored(self, opened: OpenDataFile) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file like the first one, without a vector, as they are stored. Raises DataUnreadable."""
        metadata = opened.parquet.metadata
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            rows = row_group.num_rows
            if rows:
                yield from self._columns.raw_batches(group, _choose_batch_rows(row_group), rows, opened.parquet)

    def convert_to_table_types(self, stored: pa.Table) -> pa.Table:
        """Return the columns of the table of stored rows."""
        values = self._columns.values(stored)
        return pa.Table.from_arrays(list(values.values()), schema=self._spec.schema)


def _choose_batch_rows(row_group: Any) -> int:  # Any: the metadata of a row group with rows
    mean: int = max(row_group.total_byte_size // row_group.num_rows, 1)
    return max(min(ROWS_A_BATCH, MAX_BATCH_BYTES // mean), 1)


class _RowMask(NamedTuple):
    """The rows of a batch to read; `is_empty` if it is certain that none is. A mask of None selects all rows."""

    mask: ArrowArray
    is_empty: bool = False


class _Vectors(NamedTuple):
    """The rows of a file that are excluded, and the only rows that are read (None: all)."""

    excluded: DeletedRows | None
    only: DeletedRows | None

    def mask(self, start: int, rows: int) -> _RowMask:
        """Return which of `rows` rows, the first of which is row `start` of the file, are read."""
        mask = None
        if self.only is not None:
            mask = self.only.mask(start, rows)
            if mask is None:
                return _RowMask(None, is_empty=True)

        deleted = None if self.excluded is None else self.excluded.mask(start, rows)
        if deleted is not None:
            is_live = pc.invert(deleted)
            mask = is_live if mask is None else pc.and_(mask, is_live)
        return _RowMask(mask)


class _FileReader:
    """Reads one open file: the columns of the condition first, then the others for the matching rows."""

    def __init__(self, files: TableFiles, spec: ReadSpec, file: DataFile, opened: OpenDataFile) -> None:
        self._files = files
        self._spec = spec
        self._file = file
        self._opened = opened

        columns = list(zip(spec.columns, spec.full_schema, strict=True))
        condition_columns = {path[0] for path in spec.predicate.columns} if spec.predicate is not None else set()
        # Without a condition, all columns are decoded in the first pass.
        early = [pair for pair in columns if pair[0].name in condition_columns or not condition_columns]
        late = [pair for pair in columns if pair[0].name not in condition_columns and condition_columns]
        self._early = _ColumnReader(spec, file, opened, early)
        self._late = _ColumnReader(spec, file, opened, late) if late else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, one row group at a time."""
        metadata = self._opened.parquet.metadata
        vectors = self._read_vectors()
        selected_groups = set(self._select_row_groups())
        start = 0
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            if group in selected_groups and row_group.num_rows:
                yield from self._read_row_group(group, row_group, start, vectors)
            # Deletion vectors count all rows of the file, also those of row groups that are not read.
            start += row_group.num_rows

    def _read_vectors(self) -> _Vectors:
        file = self._file
        excluded = file.deleted
        if excluded is None and file.vector is not None:
            excluded = read_vector(self._files, file.vector)
        only = None if file.only is None else read_vector(self._files, file.only)
        return _Vectors(excluded, only)

    def _select_row_groups(self) -> Sequence[int]:
        """Return the row groups of the piece that may contain rows matching the condition."""
        predicate = self._spec.predicate
        metadata = self._opened.parquet.metadata
        groups = range(metadata.num_row_groups) if self._file.groups is None else self._file.groups
        # The statistics in the log are as precise as those of a single row group.
        if predicate is None or (metadata.num_row_groups == 1 and not self._opened.is_near):
            return groups

        from deltacli.delta.predicate.row_groups import kept_row_groups

        columns = {column.name: column for column in self._spec.columns}
        leaves = {path: self._find_leaf(_find_fields_along(columns, path)) for path in predicate.columns}
        footer = read_footer_bytes(self._opened.source)
        matching_groups = set(kept_row_groups(predicate, metadata, leaves, footer))
        return [group for group in groups if group in matching_groups]

    def _find_leaf(self, fields: Sequence[StructField]) -> PredicateLeaf:
        """Return the leaf of a column of the condition in the file, as far as its statistics can be trusted.

        Args:
            fields: The fields along the path of the column.
        """
        from deltacli.delta.predicate.row_groups import PredicateLeaf

        name = fields[0].name
        if name in self._file.constants:
            return PredicateLeaf(None, None, constant=self._file.constants[name])
        if name in self._spec.extra_columns:
            # A null in the file stands for another value of the row, such as an id that follows from its number.
            return PredicateLeaf(None, None)

        leaf = self._spec.file_columns.leaf(self._opened.schema, fields)
        if leaf is None:
            return PredicateLeaf(None, None, absent=True)

        # Bounds in the hybrid calendar are those of other dates than the rows get.
        number, _ = leaf
        metadata = self._opened.parquet.metadata
        is_hybrid = number is not None and hybrid_leaf(metadata.schema.column(number), metadata.metadata) is not None
        return PredicateLeaf(None, None) if is_hybrid else PredicateLeaf(*leaf)

    def _read_row_group(self, group: int, row_group: Any, start: int, vectors: _Vectors) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one row group, the first of which is row `start` of the file."""
        parquet = self._opened.parquet
        batch_rows = _choose_batch_rows(row_group)
        late = None
        if self._late is not None:
            late = _SkippingReader(self._late.raw_batches(group, batch_rows, row_group.num_rows, parquet))

        for raw in self._early.raw_batches(group, batch_rows, row_group.num_rows, parquet):
            rows = raw.num_rows
            mask, is_empty = vectors.mask(start, rows)
            first = start
            start += rows

            columns: dict[str, Any] = {}
            if not is_empty:
                columns = self._add_row_ids(self._early.values(raw), first)
                mask = self._apply_condition(columns, mask)
                is_empty = mask is not None and not mask.true_count
            if is_empty:
                if late is not None:
                    late.skip(rows)
                continue

            if late is not None and self._late is not None:
                columns |= self._add_row_ids(self._late.values(late.take(rows)), first)
            if self._spec.row_numbers is not None:
                columns[self._spec.row_numbers] = _number_rows(first, rows)
            yield self._select_rows(columns, mask)

    def _add_row_ids(self, columns: dict[str, Any], first: int) -> dict[str, Any]:
        """Return columns of rows whose missing ids and commit versions are those that follow from the add.

        A row has the id that its file stores. If that is null, the id is the base row id of the file plus the number of
        the row in it; the first row here has the number `first`. Spec: Row Tracking.
        """
        if self._spec.row_ids is None:
            return columns
        id_column, version_column = self._spec.row_ids
        file = self._file

        if id_column in columns and file.base_row_id is not None:
            ids = columns[id_column]
            if ids.null_count:
                columns[id_column] = pc.coalesce(ids, _number_rows(file.base_row_id + first, len(ids)))
        if version_column in columns and file.row_commit_version is not None:
            versions = columns[version_column]
            if versions.null_count:
                columns[version_column] = pc.coalesce(versions, pa.scalar(file.row_commit_version, pa.int64()))
        return columns

    def _apply_condition(self, columns: dict[str, Any], mask: Any) -> Any:
        """Return the mask without the rows that do not match the condition."""
        predicate = self._spec.predicate
        if predicate is None:
            return mask
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=self._early.schema)
        matches = predicate.matches(batch)
        return matches if mask is None else pc.and_(mask, matches)

    def _select_rows(self, columns: dict[str, Any], mask: Any) -> pa.RecordBatch:
        """Return the rows of a mask. Raises DataUnreadable for a null in a column that is NOT NULL."""
        schema = self._spec.schema
        all_rows = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        selects_all = mask is None or mask.true_count == len(mask)
        rows = all_rows if selects_all else pc.filter(all_rows, mask)

        column = _find_column_with_null(rows, self._spec.required_positions)
        if column is not None:
            raise DataUnreadable(
                f"column {column} is NOT NULL but contains a null", code="notnull.violated", facts={"column": column}
            )
        return rows


class _ColumnReader:
    """Reads columns of a file together, and converts them to the types of the table.

    Attributes:
        schema: The columns, in the types of the table.
    """

    def __init__(
        self, spec: ReadSpec, file: DataFile, opened: OpenDataFile, columns: Sequence[tuple[StructField, Any]]
    ) -> None:  # Any: Arrow fields
        """Find the columns in the file. Raises DataUnreadable where one cannot be read in the type of the table."""
        self._file = file
        self.schema = pa.schema([kind for _, kind in columns])

        # What the file itself has to provide: the columns of the table by its rules, and extra columns by their own.
        stored = [column for column, _ in columns if column.name not in file.constants]
        table_columns = [column for column in stored if column.name not in spec.extra_columns]
        leaves = spec.file_columns.find(opened.schema, table_columns)
        self._file_columns = dict(zip((column.name for column in table_columns), leaves, strict=True))
        for column in stored:
            if column.name in spec.extra_columns:
                self._file_columns[column.name] = find_extra_column(spec, column, opened.schema)
                self._require_ids(spec, column, opened.schema)
        self._require_no_int96_in_variants(stored, opened.parquet)

        # Spark wrote these in the calendar that was Julian before 1582.
        present = {name: column for name, column in self._file_columns.items() if column is not None}
        parquet_schema = opened.parquet.metadata.schema
        marks = opened.parquet.metadata.metadata
        calendars = ((name, hybrid_column(parquet_schema, column.leaves, marks)) for name, column in present.items())
        self._calendars = {name: calendar for name, calendar in calendars if calendar is not None}

        self._leaves = sorted({leaf for column in present.values() for leaf in column.leaves})
        positions = sorted({column.position for column in present.values()})
        self._index_of_position = {position: index for index, position in enumerate(positions)}

    def _require_ids(self, spec: ReadSpec, column: StructField, stored: pa.Schema) -> None:
        """Raise DataUnreadable if the ids in a file cannot be read: without them its rows would get other ids."""
        name = get_recorded_physical_name(column)
        is_row_id_column = column.name in (spec.row_ids or ())
        if is_row_id_column and self._file_columns[column.name] is None and name in stored.names:
            raise DataUnreadable(f"column {name} holds the ids of rows, but cannot be read", code="data.type-mismatch")

    def _require_no_int96_in_variants(self, columns: Sequence[StructField], parquet: ParquetReader) -> None:
        """Raise DataUnreadable for a shredded variant of INT96 values, which Arrow has as timestamps without a zone."""
        for column in columns:
            file_column = self._file_columns[column.name]
            if file_column is None or not holds(column.data_type, PrimitiveType("variant")):
                continue
            schema = parquet.metadata.schema
            for leaf in map(schema.column, file_column.leaves):
                if leaf.physical_type == "INT96" and f".{TYPED}" in leaf.path:
                    raise not_a_type(column.name, "INT96")

    @property
    def is_plain(self) -> bool:
        """Return whether the values are returned as they are stored."""
        needs_no_conversion = all(column is None or column.convert is None for column in self._file_columns.values())
        return needs_no_conversion and not self._calendars

    def raw_batches(self, group: int, batch_rows: int, rows: int, parquet: ParquetReader) -> Iterator[pa.RecordBatch]:
        """Yield a row group of `rows` rows as stored, `batch_rows` at a time. Raises DataUnreadable.

        The error names the column at fault.
        """
        # None of the columns is in the file: there is nothing to read but the number of rows.
        if not self._leaves:
            for first in range(0, rows, batch_rows):
                yield pa.record_batch([pa.nulls(min(batch_rows, rows - first))], names=[""])
            return

        count = 0
        try:
            for batch in parquet.read_leaves(batch_rows, group, self._leaves):
                count += batch.num_rows
                if count > rows:
                    break
                yield batch
        except (pa.ArrowException, OSError) as fault:
            raise_if_out_of_memory(fault)
            raise self._make_damage_error(group, fault, parquet) from fault

        # Arrow stops where the pages end, without an error. A shorter row group would lose rows silently.
        if count != rows:
            names = ", ".join(self.schema.names[:5])
            raise DataUnreadable(
                f"row group {group} has {rows} rows, but its pages have {'more' if count > rows else count}",
                facts={"row group": str(group), "columns": names},
            )

    def values(self, raw: pa.RecordBatch) -> dict[str, Any]:
        """Return the columns of a raw batch as defined by the table, by name."""
        return {field.name: self._convert_column(raw, field) for field in self.schema}

    def _convert_column(self, raw: pa.RecordBatch, field: ArrowField) -> ArrowArray:
        """Return the values of one column: constant, absent from the file, or stored."""
        if field.name in self._file.constants:
            value = self._file.constants[field.name]
            return pa.repeat(value, raw.num_rows) if value.is_valid else nulls_of(raw.num_rows, field.type)

        column: FileColumn | None = self._file_columns[field.name]
        if column is None:
            return absent(raw.num_rows, raw.num_rows, field, field.name)

        values = raw.column(self._index_of_position[column.position])
        if field.name in self._calendars:
            values = rebased(values, self._calendars[field.name])
        return values if column.convert is None else column.convert(values)

    def _make_damage_error(self, group: int, fault: Exception, parquet: ParquetReader) -> DataUnreadable:
        """Return the error for an unreadable row group, naming the column, found by reading each column separately."""
        damaged_column = "several columns together"
        for name, column in self._file_columns.items():
            try:
                leaves = list(column.leaves) if column else []
                for _ in parquet.read_leaves(ROWS_A_BATCH, group, leaves):
                    pass
            except (pa.ArrowException, OSError) as column_fault:
                raise_if_out_of_memory(column_fault)
                damaged_column = name
                fault = column_fault
                break

        reason = " ".join(str(fault).split())[:200]
        level = "footers" if mentions_encryption(reason) else "data"
        return DataUnreadable(
            f"column {damaged_column} cannot be read",
            facts={"row group": str(group), "column": damaged_column, "reason": reason},
            hint=command("validate", level=level),
        )


class _SkippingReader:
    """Reads batches only as far as their rows are taken, in pieces of any size."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rows_to_skip = 0
        self._remaining: pa.RecordBatch | None = None

    def skip(self, rows: int) -> None:
        """Skip rows. They are read only when later rows are taken."""
        self._rows_to_skip += rows

    def take(self, rows: int) -> pa.RecordBatch:
        """Return the next rows."""
        while self._rows_to_skip:
            self._rows_to_skip -= self._read(self._rows_to_skip).num_rows

        parts = []
        while rows:
            parts.append(self._read(rows))
            rows -= parts[-1].num_rows
        return parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def _read(self, most: int) -> pa.RecordBatch:
        """Return at most this many rows, and at least one."""
        batch = next(self._batches) if self._remaining is None else self._remaining
        remaining = batch.slice(most)
        self._remaining = remaining if remaining.num_rows else None
        return batch.slice(0, most)


def find_extra_column(spec: ReadSpec, column: StructField, stored: pa.Schema) -> FileColumn | None:
    """Return a column of `ReadSpec.extra_columns` in a file; None if it is missing or has another type."""
    try:
        return spec.extra_columns[column.name].find(stored, [column])[0]
    except DataUnreadable:
        return None


def _number_rows(first: int, count: int) -> ArrowArray:
    """Return `count` successive numbers from `first` on."""
    return pc.add(_count_from_zero(max(ROWS_A_BATCH, count)).slice(0, count), first)


@lru_cache(maxsize=1)
def _count_from_zero(count: int) -> ArrowArray:
    return pa.array(range(count), pa.int64())


def _find_fields_along(columns: Mapping[str, StructField], path: Sequence[str]) -> list[StructField]:
    """Return the fields along a path of logical names, given the top-level columns by name."""
    fields = [columns[path[0]]]
    for name in path[1:]:
        inner_fields = fields[-1].data_type.fields if isinstance(fields[-1].data_type, StructType) else ()
        fields.append(next(column for column in inner_fields if column.name == name))
    return fields


def _find_column_with_null(batch: pa.RecordBatch, positions: Sequence[int]) -> str | None:
    """Return the path of a column or nested field that must not be null but is in some row, or None.

    Fields within a null struct, and elements within a null list, are not checked.

    Args:
        batch: The rows.
        positions: The columns that must not be null, or contain fields that must not be.
    """
    for position in positions:
        field = batch.schema.field(position)
        null_path = _find_null_within(batch.column(position), field, field.name)
        if null_path is not None:
            return null_path
    return None


def _find_null_within(values: Any, field: Any, path: str) -> str | None:
    """Return the path of the first null in an array that its field forbids, at any depth; None without one."""
    if not field.nullable and values.null_count:
        return path

    for position, child in enumerate(list_checked_fields(field.type)):
        if not contains_required_field(child):
            continue
        if pa.types.is_struct(field.type):
            present = pc.drop_null(values) if values.null_count else values
            inner_values = present.field(position)
            inner_path = f"{path}.{child.name}"
        elif pa.types.is_map(field.type):
            inner_values = pc.list_flatten(pa.ListArray.from_arrays(values.offsets, values.items))
            inner_path = f"{path}.value"
        else:
            inner_values = pc.list_flatten(values)
            inner_path = f"{path}.element"
        null_path = _find_null_within(inner_values, child, inner_path)
        if null_path is not None:
            return null_path
    return None
