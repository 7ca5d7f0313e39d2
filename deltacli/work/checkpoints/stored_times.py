"""Correct the times in a checkpoint that were stored as INT96, or in the calendar of early versions of Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.schema.file_columns import Hybrid, is_known_zone, rebased, without_old_times

if TYPE_CHECKING:
    import pyarrow


_Path = tuple[str, ...]


def mark_instants_as_utc(batch: pyarrow.RecordBatch, int96_paths: Collection[_Path]) -> pyarrow.RecordBatch:
    """Return a batch whose INT96 columns at these paths, in structs, are UTC timestamps. No value is copied."""
    if not int96_paths:
        return batch
    columns = [
        _mark_instants(column, _strip_first_name(int96_paths, field.name))
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def rebase_batch(batch: pyarrow.RecordBatch, hybrid: Hybrid) -> pyarrow.RecordBatch:
    """Return a batch with its dates and times in the calendar of today.

    Statistics lack the bounds that cannot be rebased, because the time zone of a session is not known here: readers
    would skip rows by them. Parsed partition values stay as they are, of which nothing but the nulls is examined.
    """
    columns = batch.columns
    # Dates can be rebased without a time zone, times cannot.
    if hybrid.times and not is_known_zone(hybrid.zone):
        hybrid = hybrid._replace(times=False)
        columns = [_remove_old_bounds(column, name) for column, name in zip(columns, batch.schema.names, strict=True)]
    return pa.RecordBatch.from_arrays([rebased(column, hybrid) for column in columns], names=batch.schema.names)


def _remove_old_bounds(column: ArrowArray, name: str) -> ArrowArray:
    """Return the actions of a kind with null instead of each time before 1900 in their statistics."""
    position = column.type.get_field_index("stats_parsed") if name == "add" and pa.types.is_struct(column.type) else -1
    if position < 0:
        return column
    parts = [column.field(index) for index in range(column.type.num_fields)]
    parts[position] = without_old_times(parts[position])
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=mask)


def _strip_first_name(paths: Collection[_Path], name: str) -> list[_Path]:
    return [path[1:] for path in paths if path[0] == name]


def _mark_instants(column: ArrowArray, paths: Collection[_Path]) -> ArrowArray:
    kind = column.type
    if () in paths and pa.types.is_timestamp(kind) and kind.tz is None:
        return column.view(pa.timestamp(kind.unit, "UTC"))
    below = [path for path in paths if path]
    if not below or not pa.types.is_struct(kind):
        return column
    names = [kind.field(index).name for index in range(kind.num_fields)]
    fields = [_mark_instants(column.field(index), _strip_first_name(below, name)) for index, name in enumerate(names)]
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(fields, names=names, mask=mask)
