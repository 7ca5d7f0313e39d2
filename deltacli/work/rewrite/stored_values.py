"""The values of the columns of Parquet files as Arrow reads them, without the column mapping of the table.

A rewrite and its verification read rows with the same reader. Where that finds a column or a field of a struct in the
wrong place, both make the same error, and the rows agree. The values of each leaf column, found by its stored name
alone, do not: they are counted and summed here with no code in common but Arrow's.

Spec: Column Mapping; Parquet's LogicalTypes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowField, ArrowType, RecordBatch
from deltacli.delta.encoding.digests import MultisetDigest
from deltacli.work.rewrite.sources import RowsDigest, digest_rows
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.rows.deletion_vectors import read_vector
from deltacli.work.task import TaskContext

STORED_COLUMNS = "stored columns"
"""The name of the shared `StoredColumns`."""

Leaf = tuple[str, ...]
"""The path of a leaf column: for each field of a struct its name, or its id (`#3`) where the table maps columns by id,
`element` for those of a list, `entry` and then `key` or `value` for those of a map.
"""

_FIELD_ID = b"PARQUET:field_id"
_ROWS_AT_ONCE = 1 << 16
_VARIANT_FIELDS = {"metadata", "value"}
NO_VALUES: RowsDigest = (0, 0, 0)
"""The digest of a column without values."""


class StoredColumns(NamedTuple):
    """The leaf columns of new files that are compared, each with its type; `by_id` where ids name the fields."""

    types: Mapping[Leaf, ArrowType]
    by_id: bool

    @classmethod
    def from_schema(cls, schema: pa.Schema, *, by_id: bool, left_out: Sequence[str]) -> StoredColumns:
        """Describe files of a schema. `left_out` are columns of it that not every file has: those of partitions and of
        row ids. Variants are left out, too: the same value can be stored in several ways.
        """
        types: dict[Leaf, ArrowType] = {}
        for field in schema:
            if field.name not in left_out:
                empty = pa.array([], field.type)
                types |= {leaf: values.type for leaf, values in _iterate_leaves(field, empty, (), by_id=by_id)}
        return cls(types, by_id)


class PieceDigest(NamedTuple):
    """The digests of some files that are compared: of their rows, and of the values of each leaf column.

    Attributes:
        rows: The digest of the rows.
        columns: The digest of the values that are not null, by leaf column. It is None if a file has the column with
            values that cannot be expressed in the type of new files.
    """

    rows: RowsDigest
    columns: Mapping[Leaf, RowsDigest | None]


def digest_piece(piece: Sequence[DataFile], context: TaskContext) -> PieceDigest:
    """Return the digests of some files, read in two ways. A task. Raises what `digest_rows` raises."""
    wanted: StoredColumns = context.shared(STORED_COLUMNS)
    columns: dict[Leaf, MultisetDigest | None] = {}
    for file in piece:
        for batch in _live_batches(file, context):
            _add_values(columns, batch, wanted)
    answers = {leaf: None if digest is None else digest.answer() for leaf, digest in columns.items()}
    return PieceDigest(digest_rows(piece, context), answers)


def _live_batches(file: DataFile, context: TaskContext) -> Iterator[RecordBatch]:
    """Yield the rows of a file that its deletion vector does not delete, with all stored columns."""
    deleted = None if file.vector is None else read_vector(context.files, file.vector)
    with open_data_file(context.files, file, whole=True) as opened:
        leaves = range(len(opened.parquet.paths))
        first = 0
        for group in range(opened.parquet.metadata.num_row_groups):
            for batch in opened.parquet.read_leaves(_ROWS_AT_ONCE, group, leaves):
                is_deleted = None if deleted is None else deleted.mask(first, batch.num_rows)
                first += batch.num_rows
                yield batch if is_deleted is None else pc.filter(batch, pc.invert(is_deleted))


def _add_values(columns: dict[Leaf, MultisetDigest | None], batch: RecordBatch, wanted: StoredColumns) -> None:
    for field, values in zip(batch.schema, batch.columns, strict=True):
        for leaf, leaf_values in _iterate_leaves(field, values, (), by_id=wanted.by_id):
            if leaf not in wanted.types or columns.get(leaf, NO_VALUES) is None:
                continue
            try:
                cast_values = leaf_values.cast(wanted.types[leaf])
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                columns[leaf] = None
                continue
            digest = columns.setdefault(leaf, MultisetDigest())
            assert digest is not None
            digest.take(pa.record_batch([cast_values.drop_null()], names=["value"]))


def _iterate_leaves(
    field: ArrowField, values: ArrowArray, above: Leaf, *, by_id: bool
) -> Iterator[tuple[Leaf, ArrowArray]]:
    """Yield the values of the leaf columns of a column or a field, also nulls; those of lists one after the other."""
    field_id = (field.metadata or {}).get(_FIELD_ID) if by_id else None
    yield from _iterate_leaves_at(
        (*above, field.name.lower() if field_id is None else f"#{field_id.decode()}"), values, by_id
    )


def _iterate_leaves_at(path: Leaf, values: ArrowArray, by_id: bool) -> Iterator[tuple[Leaf, ArrowArray]]:
    """Yield the values of the leaf columns below a path."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _iterate_leaves_at(path, values.storage, by_id)
    elif pa.types.is_struct(kind):
        if {inner.name for inner in kind} >= _VARIANT_FIELDS:
            return
        for inner, part in zip(kind, values.flatten(), strict=True):
            yield from _iterate_leaves(inner, part, path, by_id=by_id)
    elif pa.types.is_map(kind):
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        entries = values.view(pa.list_(pa.field("entries", entry, nullable=False))).flatten()
        for name, part in zip(("key", "value"), entries.flatten(), strict=True):
            yield from _iterate_leaves_at((*path, "entry", name), part, by_id)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _iterate_leaves_at((*path, "element"), values.flatten(), by_id)
    else:
        yield path, values


def find_differing_columns(
    removed: Mapping[Leaf, RowsDigest | None], added: Mapping[Leaf, RowsDigest | None]
) -> list[tuple[Leaf, int, int]]:
    """Return the columns whose values differ, each with how many there were and how many there are. A column that some
    file does not have is null there.
    """
    pairs = {leaf: (removed.get(leaf, NO_VALUES), added.get(leaf, NO_VALUES)) for leaf in {**removed, **added}}
    return [
        (leaf, before[0], after[0])
        for leaf, (before, after) in sorted(pairs.items())
        if before is not None and after is not None and before != after
    ]
