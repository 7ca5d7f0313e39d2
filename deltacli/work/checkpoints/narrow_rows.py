"""Read the file actions of a checkpoint in the few columns that a snapshot needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CheckpointUnreadable
from deltacli.core.typing import ArrowArray
from deltacli.delta.data_files import repeat_empty_vector_id, unique_id_column, without_empty
from deltacli.delta.log.file_actions import (
    FileBatch,
    FileCounts,
    SupersededFiles,
    TombstoneCounts,
    action_schemas,
    add_counts_of_batch,
    extract_num_records_column,
    find_tight_bounds,
)
from deltacli.work.checkpoints.parquet_files import CheckpointPiece, open_piece, select_rows_of_kind
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext


def read_narrow_actions(
    stores: TableStores,
    piece: CheckpointPiece,
    touched: SupersededFiles,
    *,
    with_paths: bool,
    with_records: bool = True,
    with_removes: bool = True,
) -> Iterator[FileBatch]:
    """Yield the live adds and tombstones of a row group in narrow columns.

    Actions whose key a newer commit has decided are left out: the newest action of a key counts.

    Args:
        stores: The stores of the table.
        piece: The row group.
        touched: The keys that newer commits have decided.
        with_paths: Return paths. Otherwise they are read only if `touched` needs them, and are null in the result.
        with_records: Return record counts, which are null otherwise.
        with_removes: Read tombstones, too.

    Raises:
        CheckpointUnreadable: If the file was changed, or an action lacks a required field.
    """
    need_paths = with_paths or len(touched) > 0
    with open_piece(stores, piece) as parquet:
        columns = parquet.columns
        wanted = []
        if piece.group.has_adds:
            wanted += columns.narrow_add(piece.group, with_paths=need_paths, with_records=with_records)
        if piece.group.has_removes and with_removes:
            wanted += columns.narrow_remove(piece.group, with_paths=need_paths)
        for batch in parquet.batches(piece.group.index, wanted):
            yield FileBatch(
                adds=_build_narrow_rows(batch, "add", touched, piece.path, with_ids=with_paths),
                removes=_build_narrow_rows(batch, "remove", touched, piece.path, with_ids=with_paths),
            )


def _build_narrow_rows(
    batch: Any, kind: str, touched: SupersededFiles, source: str, *, with_ids: bool
) -> Any:  # Any: pyarrow has no types
    """Return the rows of one kind of action in a batch in narrow columns.

    Args:
        batch: Rows of a checkpoint.
        kind: "add" or "remove".
        touched: The keys that newer commits have decided.
        source: The file, in errors.
        with_ids: Return the ids of deletion vectors.

    Returns:
        Rows of `narrow_add` or `narrow_remove`; None if the batch has none of the kind.
    """
    actions = select_rows_of_kind(batch, kind, source)
    if actions is None:
        return None
    names = {actions.type.field(index).name for index in range(actions.type.num_fields)}

    def column(name: str, data_type: Any) -> Any:
        return pc.cast(actions.field(name), data_type) if name in names else pa.nulls(len(actions), data_type)

    # A file and its deletion vector together are the key of an action.
    need_paths = with_ids or len(touched) > 0
    vectors = without_empty(actions.field("deletionVector")) if "deletionVector" in names else None
    if vectors is not None and lacks_vector_id(vectors):
        raise make_missing_field_error(f"{source}: a deletion vector has no id", source)
    dv_ids = unique_id_column(vectors) if vectors is not None and with_ids else repeat_empty_vector_id(len(actions))
    paths = column("path", pa.string())
    if paths.null_count and (need_paths or "path" in names):
        raise make_missing_field_error(f"{source}: {kind}.path is missing", source)

    schemas = action_schemas()
    if kind == "remove":
        rows = pa.RecordBatch.from_arrays(
            [paths, dv_ids, column("deletionTimestamp", pa.int64())], schema=schemas.narrow_remove
        )
    else:
        sizes = column("size", pa.int64())
        if sizes.null_count:
            raise make_missing_field_error(f"{source}: add.size is missing", source)
        cardinality = pa.nulls(len(actions), pa.int64())
        if vectors is not None:
            cardinality = pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64())
        stats = pc.cast(actions.field("stats"), pa.string()) if "stats" in names else None
        rows = pa.RecordBatch.from_arrays(
            [
                paths,
                dv_ids,
                sizes,
                _count_records(actions, names, stats),
                cardinality,
                find_tight_bounds(stats, cardinality),
            ],
            schema=schemas.narrow_add,
        )

    if not need_paths:
        return rows
    mask = touched.find_current_rows(paths, dv_ids if vectors is None else vectors)
    return rows if mask is None else pc.filter(rows, mask)


def make_missing_field_error(message: str, source: str) -> CheckpointUnreadable:
    """Return the error about an action that lacks a field."""
    return CheckpointUnreadable(message, code="action.missing-required", facts={"file": source})


def lacks_vector_id(vectors: ArrowArray) -> bool:
    """Return whether a vector lacks its storage type or its location."""
    parts = ("storageType", "pathOrInlineDv")
    return any(pc.struct_field(vectors, [part]).null_count != vectors.null_count for part in parts)


def _count_records(actions: Any, names: set[str], stats: Any) -> Any:  # Any: pyarrow has no types
    """Return `numRecords` of every add from the parsed statistics if present, otherwise from the JSON text."""
    parsed = None
    if "stats_parsed" in names:
        parsed = pc.cast(pc.struct_field(actions, ["stats_parsed", "numRecords"]), pa.int64())

    # The text has to be parsed, so it is looked at only for adds without parsed statistics.
    if stats is None or (parsed is not None and parsed.null_count == 0):
        return parsed if parsed is not None else pa.nulls(len(actions), pa.int64())
    from_text = extract_num_records_column(stats)
    return from_text if parsed is None else pc.coalesce(parsed, from_text)


class CountFileActions:
    """Counts the file actions of a row group that newer commits have not decided (shared `touched`).

    Tombstones with a time before `cutoff_ms` (epoch milliseconds) count as expired.
    """

    unit_seconds = 4e-7

    def __init__(self, cutoff_ms: int) -> None:
        self.cutoff_ms = cutoff_ms

    def __call__(self, piece: CheckpointPiece, context: TaskContext) -> tuple[FileCounts, TombstoneCounts]:
        """Return the counts. Raises CheckpointUnreadable."""
        files = FileCounts()
        tombstones = TombstoneCounts()
        for batch in read_narrow_actions(context.stores, piece, context.shared("touched"), with_paths=False):
            files, tombstones = add_counts_of_batch(batch, self.cutoff_ms, files, tombstones)
        return files, tombstones
