"""Timestamps of type INT96 in a checkpoint, as instants.

INT96 has no time zone, so Arrow reads it as a time without one. Writers use it for `timestamp` only, in UTC.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.typing import ArrowArray

if TYPE_CHECKING:
    import pyarrow

_Path = tuple[str, ...]


def with_utc(batch: pyarrow.RecordBatch, int96_paths: Collection[_Path]) -> pyarrow.RecordBatch:
    """Return a batch whose INT96 columns, given by the names that lead to them, are timestamps in UTC.

    Only fields of structs are checked, and no value is copied.
    """
    import pyarrow as pa

    if not int96_paths:
        return batch
    columns = [
        _instants(column, _below(int96_paths, field.name))
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _below(paths: Collection[_Path], name: str) -> list[_Path]:
    return [path[1:] for path in paths if path[0] == name]


def _instants(column: ArrowArray, paths: Collection[_Path]) -> ArrowArray:
    import pyarrow as pa

    kind = column.type
    if () in paths and pa.types.is_timestamp(kind) and kind.tz is None:
        return column.view(pa.timestamp(kind.unit, "UTC"))
    below = [path for path in paths if path]
    if not below or not pa.types.is_struct(kind):
        return column
    names = [kind.field(index).name for index in range(kind.num_fields)]
    fields = [_instants(column.field(index), _below(below, name)) for index, name in enumerate(names)]
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(fields, names=names, mask=mask)
