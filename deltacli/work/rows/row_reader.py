"""Read the rows of one data file in batches, without deleted rows, decoding only rows that match the condition.

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
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType, holds, recorded_name
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


def read_rows(files: TableFiles, wanted: ReadSpec, file: DataFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file. Raises DataUnreadable, naming the file, the row group and the column at fault."""
    with open_data_file(files, file) as opened:
        yield from read_opened(files, wanted, file, opened)


def read_opened(files: TableFiles, wanted: ReadSpec, file: DataFile, opened: OpenDataFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open file. Raises DataUnreadable as `read_rows` does."""
    return _Reader(files, wanted, file, opened).batches()


class PlainReader:
    """Reads the rows of files of one schema that has the columns as the table has them, so that nothing is converted
    and checked: rows of several files can be put together as they are stored.
    """

    def __init__(self, wanted: ReadSpec, columns: _Columns) -> None:
        self._wanted, self._columns = wanted, columns

    @classmethod
    def of(cls, wanted: ReadSpec, file: DataFile, opened: OpenDataFile) -> PlainReader | None:
        """Return the reader of all files like this one, None where its rows have to be looked at."""
        if wanted.required_positions or wanted.beside or wanted.row_numbers is not None or wanted.predicate is not None:
            return None
        columns = _Columns(wanted, file, opened, list(zip(wanted.columns, wanted.full_schema, strict=True)))
        return cls(wanted, columns) if columns.is_plain else None

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
        return pa.Table.from_arrays(list(values.values()), schema=self._wanted.schema)


def _choose_batch_rows(row_group: Any) -> int:  # Any: the metadata of a row group with rows
    mean: int = max(row_group.total_byte_size // row_group.num_rows, 1)
    return max(min(ROWS_A_BATCH, MAX_BATCH_BYTES // mean), 1)


class _Vectors(NamedTuple):
    """The rows of a file that are excluded, and the only rows that are read (None: all)."""

    excluded: DeletedRows | None
    only: DeletedRows | None

    def mask(self, start: int, rows: int) -> tuple[ArrowArray, bool]:
        """Return a mask of the rows to read, and whether it is certain that none is read."""
        mask = None
        if self.only is not None:
            mask = self.only.mask(start, rows)
            if mask is None:
                return None, True
        deleted = None if self.excluded is None else self.excluded.mask(start, rows)
        if deleted is not None:
            kept = pc.invert(deleted)
            mask = kept if mask is None else pc.and_(mask, kept)
        return mask, False


class _Reader:
    """Reads one open file: the columns of the condition first, then the others for the matching rows."""

    def __init__(self, files: TableFiles, wanted: ReadSpec, file: DataFile, opened: OpenDataFile) -> None:
        self._files, self._wanted, self._file, self._opened = files, wanted, file, opened
        columns = list(zip(wanted.columns, wanted.full_schema, strict=True))
        looked_at = {path[0] for path in wanted.predicate.columns} if wanted.predicate is not None else set()
        early = [pair for pair in columns if pair[0].name in looked_at or not looked_at]
        late = [pair for pair in columns if pair[0].name not in looked_at and looked_at]
        self._early = _Columns(wanted, file, opened, early)
        self._late = _Columns(wanted, file, opened, late) if late else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, one row group at a time."""
        metadata = self._opened.parquet.metadata
        vectors = self._vectors()
        kept = set(self._kept_groups())
        start = 0
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            if group in kept and row_group.num_rows:
                yield from self._group(group, row_group, start, vectors)
            start += row_group.num_rows

    def _vectors(self) -> _Vectors:
        vectors = []
        for descriptor, known in ((self._file.vector, self._file.deleted), (self._file.only, None)):
            vector = read_vector(self._files, descriptor) if descriptor is not None and known is None else known
            vectors.append(vector)
        return _Vectors(*vectors)

    def _kept_groups(self) -> Sequence[int]:
        """Return the row groups of the piece that may contain rows matching the condition."""
        predicate, count = self._wanted.predicate, self._opened.parquet.metadata.num_row_groups
        groups = range(count) if self._file.groups is None else self._file.groups
        if predicate is None or (count == 1 and not self._opened.is_near):
            return groups  # the statistics in the log are as precise as those of a single row group
        from deltacli.delta.predicate.row_groups import kept_row_groups

        columns = {column.name: column for column in self._wanted.columns}
        leaves = {path: self._leaf(_find_fields_along(columns, path)) for path in predicate.columns}
        kept = set(
            kept_row_groups(predicate, self._opened.parquet.metadata, leaves, read_footer_bytes(self._opened.source))
        )
        return [group for group in groups if group in kept]

    def _leaf(self, fields: Sequence[StructField]) -> PredicateLeaf:
        """Return the location of a column of the condition in the file. `fields` are the fields along its path."""
        from deltacli.delta.predicate.row_groups import PredicateLeaf

        if fields[0].name in self._file.constants:
            return PredicateLeaf(None, None, constant=self._file.constants[fields[0].name])
        if fields[0].name in self._wanted.beside:
            return PredicateLeaf(None, None)  # a null in the file is another value of the row
        leaf = self._wanted.file_columns.leaf(self._opened.schema, fields)
        if leaf is None:
            return PredicateLeaf(None, None, absent=True)
        metadata = self._opened.parquet.metadata
        is_hybrid = leaf[0] is not None and hybrid_leaf(metadata.schema.column(leaf[0]), metadata.metadata) is not None
        return PredicateLeaf(None, None) if is_hybrid else PredicateLeaf(*leaf)

    def _group(self, group: int, row_group: Any, start: int, vectors: _Vectors) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one row group, the first of which is row `start` of the file."""
        size, parquet = _choose_batch_rows(row_group), self._opened.parquet
        late = (
            None
            if self._late is None
            else _SkippingReader(self._late.raw_batches(group, size, row_group.num_rows, parquet))
        )
        for raw in self._early.raw_batches(group, size, row_group.num_rows, parquet):
            rows = raw.num_rows
            mask, is_empty = vectors.mask(start, rows)
            first, start = start, start + rows
            columns: dict[str, Any] = {}
            if not is_empty:
                columns = self._with_row_ids(self._early.values(raw), first)
                mask = self._with_condition(columns, mask)
                is_empty = mask is not None and not mask.true_count
            if is_empty:
                if late is not None:
                    late.skip(rows)
                continue
            if late is not None and self._late is not None:
                columns |= self._with_row_ids(self._late.values(late.take(rows)), first)
            if self._wanted.row_numbers is not None:
                columns[self._wanted.row_numbers] = _number_rows(first, rows)
            yield self._kept(columns, mask)

    def _with_row_ids(self, columns: dict[str, Any], first: int) -> dict[str, Any]:
        """Return the columns of rows from `first` on, with the ids and versions of their add. Spec: Row Tracking."""
        if self._wanted.row_ids is None:
            return columns
        (ids, versions), file = self._wanted.row_ids, self._file
        if ids in columns and file.base_row_id is not None and columns[ids].null_count:
            columns[ids] = pc.coalesce(columns[ids], _number_rows(file.base_row_id + first, len(columns[ids])))
        if versions in columns and file.row_commit_version is not None and columns[versions].null_count:
            columns[versions] = pc.coalesce(columns[versions], pa.scalar(file.row_commit_version, pa.int64()))
        return columns

    def _with_condition(self, columns: dict[str, Any], mask: Any) -> Any:
        """Return the mask without the rows that do not match the condition."""
        predicate = self._wanted.predicate
        if predicate is None:
            return mask
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=self._early.schema)
        matches = predicate.matches(batch)
        return matches if mask is None else pc.and_(mask, matches)

    def _kept(self, columns: dict[str, Any], mask: Any) -> pa.RecordBatch:
        schema = self._wanted.schema
        whole = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        kept = whole if mask is None or mask.true_count == len(mask) else pc.filter(whole, mask)
        column = _find_column_with_null(kept, self._wanted.required_positions)
        if column is not None:
            raise DataUnreadable(
                f"column {column} is NOT NULL but contains a null", code="notnull.violated", facts={"column": column}
            )
        return kept


class _Columns:
    """Columns of a file that are read together."""

    def __init__(
        self, wanted: ReadSpec, file: DataFile, opened: OpenDataFile, columns: Sequence[tuple[StructField, Any]]
    ) -> None:  # Any: Arrow fields
        self._file = file
        self.schema = pa.schema([kind for _, kind in columns])
        stored = [column for column, _ in columns if column.name not in file.constants]
        own = [column for column in stored if column.name not in wanted.beside]
        leaves = wanted.file_columns.find(opened.schema, own)
        self._found = dict(zip((column.name for column in own), leaves, strict=True))
        for column in stored:
            if column.name in wanted.beside:
                self._found[column.name] = find_extra_column(wanted, column, opened.schema)
                self._require_ids(wanted, column, opened.schema)
        by_name = {name: column for name, column in self._found.items() if column is not None}
        present = [*by_name.values()]
        self._require_no_instants(stored, opened.parquet)
        # Spark wrote these in the calendar that was Julian before 1582.
        schema, marks = opened.parquet.metadata.schema, opened.parquet.metadata.metadata
        hybrid = ((name, hybrid_column(schema, column.leaves, marks)) for name, column in by_name.items())
        self._hybrid = {name: found for name, found in hybrid if found is not None}
        self._leaves = sorted({leaf for column in present for leaf in column.leaves})
        positions = sorted({column.position for column in present})
        self._place = {position: place for place, position in enumerate(positions)}

    def _require_ids(self, wanted: ReadSpec, column: StructField, stored: pa.Schema) -> None:
        """Raise DataUnreadable if the ids in a file cannot be read: without them its rows would get other ids."""
        name = recorded_name(column)
        if column.name in (wanted.row_ids or ()) and self._found[column.name] is None and name in stored.names:
            raise DataUnreadable(f"column {name} holds the ids of rows, but cannot be read", code="data.type-mismatch")

    def _require_no_instants(self, columns: Sequence[StructField], parquet: ParquetReader) -> None:
        """Raise DataUnreadable for a shredded variant of INT96 values, which Arrow has as timestamps without a zone."""
        for column in columns:
            found = self._found[column.name]
            if found is None or not holds(column.data_type, PrimitiveType("variant")):
                continue
            schema = parquet.metadata.schema
            for leaf in map(schema.column, found.leaves):
                if leaf.physical_type == "INT96" and f".{TYPED}" in leaf.path:
                    raise not_a_type(column.name, "INT96")

    @property
    def is_plain(self) -> bool:
        """Return whether the values are returned as they are stored."""
        is_stored = all(column is None or column.convert is None for column in self._found.values())
        return is_stored and not self._hybrid

    def raw_batches(self, group: int, size: int, rows: int, parquet: ParquetReader) -> Iterator[pa.RecordBatch]:
        """Yield a row group as stored, `size` rows at a time. Raises DataUnreadable, naming the column."""
        if not self._leaves:  # only columns that are not in the file
            for first in range(0, rows, size):
                yield pa.record_batch([pa.nulls(min(size, rows - first))], names=[""])
            return
        count = 0
        try:
            for batch in parquet.read_leaves(size, group, self._leaves):
                count += batch.num_rows
                if count > rows:
                    break
                yield batch
        except (pa.ArrowException, OSError) as fault:
            raise_if_out_of_memory(fault)
            raise self._damaged(group, fault, parquet) from fault
        if count != rows:  # Arrow stops where the pages end, without an error
            names = ", ".join(self.schema.names[:5])
            raise DataUnreadable(
                f"row group {group} has {rows} rows, but its pages have {'more' if count > rows else count}",
                facts={"row group": str(group), "columns": names},
            )

    def values(self, raw: pa.RecordBatch) -> dict[str, Any]:
        """Return the columns as defined by the table, by name."""
        return {field.name: self._column(raw, field) for field in self.schema}

    def _column(self, raw: pa.RecordBatch, field: ArrowField) -> ArrowArray:
        if field.name in self._file.constants:
            value = self._file.constants[field.name]
            return pa.repeat(value, raw.num_rows) if value.is_valid else nulls_of(raw.num_rows, field.type)
        column: FileColumn | None = self._found[field.name]
        if column is None:
            return absent(raw.num_rows, raw.num_rows, field, field.name)
        values = raw.column(self._place[column.position])
        if field.name in self._hybrid:
            values = rebased(values, self._hybrid[field.name])
        return values if column.convert is None else column.convert(values)

    def _damaged(self, group: int, fault: Exception, parquet: ParquetReader) -> DataUnreadable:
        """Return the error for an unreadable row group, naming the column, found by reading each column separately."""
        at_fault = "several columns together"
        for name, column in self._found.items():
            try:
                leaves = list(column.leaves) if column else []
                for _ in parquet.read_leaves(ROWS_A_BATCH, group, leaves):
                    pass
            except (pa.ArrowException, OSError) as found:
                raise_if_out_of_memory(found)
                at_fault, fault = name, found
                break
        reason = " ".join(str(fault).split())[:200]
        facts = {"row group": str(group), "column": at_fault, "reason": reason}
        level = "footers" if mentions_encryption(reason) else "data"
        hint = command("validate", level=level)
        return DataUnreadable(f"column {at_fault} cannot be read", facts=facts, hint=hint)


class _SkippingReader:
    """Batches that are read only as far as their rows are taken, in pieces of any size."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._skipped = 0
        self._remaining: pa.RecordBatch | None = None

    def skip(self, rows: int) -> None:
        """Skip rows. They are read only when later rows are taken."""
        self._skipped += rows

    def take(self, rows: int) -> pa.RecordBatch:
        """Return the next rows."""
        while self._skipped:
            self._next(self._skipped, is_skipped=True)
        parts = []
        while rows:
            parts.append(self._next(rows))
            rows -= parts[-1].num_rows
        return parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def _next(self, most: int, *, is_skipped: bool = False) -> pa.RecordBatch:
        batch = next(self._batches) if self._remaining is None else self._remaining
        head, left = batch.slice(0, most), batch.slice(most)
        self._remaining = left if left.num_rows else None
        if is_skipped:
            self._skipped -= head.num_rows
        return head


def find_extra_column(wanted: ReadSpec, column: StructField, stored: pa.Schema) -> FileColumn | None:
    """Return a column of `ReadSpec.beside` in a file; None if it is missing or has another type."""
    try:
        return wanted.beside[column.name].find(stored, [column])[0]
    except DataUnreadable:
        return None


def _number_rows(first: int, count: int) -> ArrowArray:
    return pc.add(_count_from_zero(max(ROWS_A_BATCH, count)).slice(0, count), first)


@lru_cache(maxsize=1)
def _count_from_zero(count: int) -> ArrowArray:
    return pa.array(range(count), pa.int64())


def _find_fields_along(columns: Mapping[str, StructField], path: Sequence[str]) -> list[StructField]:
    """Return the fields along a path of logical names, given the top-level columns by name."""
    fields = [columns[path[0]]]
    for name in path[1:]:
        inside = fields[-1].data_type.fields if isinstance(fields[-1].data_type, StructType) else ()
        fields.append(next(column for column in inside if column.name == name))
    return fields


def _find_column_with_null(batch: pa.RecordBatch, demanding: Sequence[int]) -> str | None:
    """Return the path of a column or nested field that must not be null but is in some row, or None. Only the columns
    at the given positions have one.

    Fields within a null struct, and elements within a null list, are not checked.
    """
    for place in demanding:
        field = batch.schema.field(place)
        if (null_place := _find_null_within(batch.column(place), field, field.name)) is not None:
            return null_place
    return None


def _find_null_within(values: Any, field: Any, path: str) -> str | None:
    if not field.nullable and values.null_count:
        return path
    for position, child in enumerate(list_checked_fields(field.type)):
        if not contains_required_field(child):
            continue
        if pa.types.is_struct(field.type):
            present = pc.drop_null(values) if values.null_count else values
            inner, place = present.field(position), f"{path}.{child.name}"
        elif pa.types.is_map(field.type):
            inner, place = pc.list_flatten(pa.ListArray.from_arrays(values.offsets, values.items)), f"{path}.value"
        else:
            inner, place = pc.list_flatten(values), f"{path}.element"
        if (null_place := _find_null_within(inner, child, place)) is not None:
            return null_place
    return None
