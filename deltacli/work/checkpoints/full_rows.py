"""Read the file actions of a checkpoint with all their fields.

Spec: Checkpoint Schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import RecordBatch
from deltacli.delta.data_files import without_empty_vectors
from deltacli.delta.encoding.value_text import json_column
from deltacli.delta.log.file_actions import (
    FileBatch,
    SupersededFiles,
    action_schemas,
)
from deltacli.work.checkpoints.narrow_rows import lacks_vector_id, make_missing_field_error
from deltacli.work.checkpoints.parquet_files import CheckpointPiece, open_piece, select_rows_of_kind
from deltacli.work.table_stores import TableStores

_WHOLE_ROWS_A_BATCH = 8_192
"""All fields of 8,192 adds take about 3 MB, which fits into the processor cache while they are read and encoded."""
_FEW_FIELDS_ROWS_A_BATCH = 16_384
"""Of adds without their statistics: a quarter less time than half as many, and 10 MB more."""

_FEW_DROPPED = 4
_NEEDED = ("path", "size", "deletionVector")


def read_full_actions(
    stores: TableStores,
    piece: CheckpointPiece,
    touched: SupersededFiles,
    kind: str,
    fields: Sequence[str] | None = None,
) -> Iterator[RecordBatch]:
    """Yield the live adds or the tombstones of a row group with all their fields.

    Actions whose key a newer commit has decided are left out: the newest action of a key counts.

    Args:
        stores: The stores of the table.
        piece: The row group.
        touched: The keys that newer commits have decided.
        kind: "add" or "remove".
        fields: The fields that are needed; None for all. The others are null, except those that make up a key.

    Raises:
        CheckpointUnreadable: If the file was changed, or an action lacks a required field.
    """
    if not (piece.group.has_adds if kind == "add" else piece.group.has_removes):
        return
    schema = action_schemas().add if kind == "add" else action_schemas().remove
    with open_piece(stores, piece) as parquet:
        columns = parquet.columns
        names = [name for name in schema.names if fields is None or name in fields or name in _NEEDED]
        wanted = columns.whole(kind, names)
        if kind == "add" and piece.group.needs_parsed_stats and "stats" in names:
            wanted.append("add.stats_parsed")
        at_once = _WHOLE_ROWS_A_BATCH if "stats" in names else _FEW_FIELDS_ROWS_A_BATCH
        for batch in parquet.batches(piece.group.index, wanted, rows=at_once):
            rows = select_full_rows(batch, kind, schema, piece.path)
            if rows is not None:
                rows.validate(full=True)  # invalid UTF-8 would reach the output
                rows = without_empty_vectors(rows)
                _require_key_fields(rows, kind, piece.path)
                if len(touched):
                    mask = touched.find_current_rows(rows.column("path"), rows.column("deletionVector"))
                    yield from _select_runs(rows, mask)
                else:
                    yield rows


def read_all_full_actions(stores: TableStores, piece: CheckpointPiece, touched: SupersededFiles) -> Iterator[FileBatch]:
    """Yield the tombstones of a row group, then its live files, with all fields. Raises CheckpointUnreadable."""
    yield from (FileBatch(removes=removes) for removes in read_full_actions(stores, piece, touched, "remove"))
    yield from (FileBatch(adds=adds) for adds in read_full_actions(stores, piece, touched, "add"))


def _require_key_fields(rows: RecordBatch, kind: str, source: str) -> None:
    """Raise CheckpointUnreadable if an action lacks a field that its key or its file needs."""
    for name in ("path", "size") if kind == "add" else ("path",):
        if rows.column(name).null_count:
            raise make_missing_field_error(f"{source}: {kind}.{name} is missing", source)
    vectors = rows.column("deletionVector")
    if vectors.null_count < len(vectors) and lacks_vector_id(vectors):
        raise make_missing_field_error(f"{source}: a deletion vector has no id", source)


def _select_runs(rows: Any, mask: Any) -> Iterator[Any]:  # Any: pyarrow has no types
    """Yield the rows selected by `mask` (None: all): slices if few rows are dropped, a copy if many are."""
    # Slices copy nothing, but each becomes a batch of its own.
    if mask is not None and rows.num_rows - mask.true_count > _FEW_DROPPED:
        yield pc.filter(rows, mask)
        return
    dropped = [] if mask is None else pc.indices_nonzero(pc.invert(mask)).to_pylist()
    for before, after in pairwise([-1, *dropped, rows.num_rows]):
        if after - before > 1:
            yield rows.slice(before + 1, after - before - 1)


def select_full_rows(batch: Any, kind: str, schema: Any, source: str) -> Any:  # Any: pyarrow has no types
    """Return the actions of one kind in a batch, as of `schema`, with null for missing fields; None without any."""
    actions = select_rows_of_kind(batch, kind, source)
    if actions is None:
        return None
    names = {actions.type.field(index).name for index in range(actions.type.num_fields)}
    columns = []
    for wanted in schema:
        if wanted.name == "stats" and "stats_parsed" in names:
            columns.append(_build_statistics(actions, names, wanted.type))
        elif wanted.name in names:
            columns.append(_cast_by_name(actions.field(wanted.name), wanted.type))
        else:
            columns.append(pa.nulls(len(actions), wanted.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast_by_name(column: Any, wanted: Any) -> Any:  # Any: pyarrow has no types
    """Cast a column of a checkpoint to the type of the checkpoint schema. Struct fields are matched by name."""
    if column.type.equals(wanted):
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), wanted)
    if (
        pa.types.is_map(wanted)
        and pa.types.is_map(column.type)
        and column.type.item_type.equals(wanted.item_type)
        and column.type.key_type.equals(wanted.key_type)
    ):
        # Only the names of the inner fields differ; a cast would copy every entry.
        mask = pc.is_null(column) if column.null_count else None
        return pa.MapArray.from_arrays(column.offsets, column.keys, column.items, type=wanted, mask=mask)
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        present = {column.type.field(index).name for index in range(column.type.num_fields)}
        fields = [
            _cast_by_name(pc.struct_field(column, [part.name]), part.type)
            if part.name in present
            else pa.nulls(len(column), part.type)
            for part in wanted
        ]
        mask = pc.is_null(column) if column.null_count else None  # a mask loads all of `pyarrow.compute`
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)
    return pc.cast(column, wanted)


def _build_statistics(actions: Any, names: set[str], wanted: Any) -> Any:  # Any: pyarrow has no types
    """Return statistics as JSON, derived from the struct where they are missing. Spec: Checkpoint Schema."""
    texts = _cast_by_name(actions.field("stats"), wanted) if "stats" in names else None
    if texts is not None and not texts.null_count:
        return texts
    from_parsed = json_column(actions.field("stats_parsed"))
    return from_parsed if texts is None else pc.coalesce(texts, pc.cast(from_parsed, wanted))
