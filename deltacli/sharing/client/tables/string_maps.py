"""Objects of strings that Arrow has read as structs, as maps again.

A struct does not show whether a null was a value or a missing key, so what the text has of each is looked up in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from deltacli.arrow import compute as pc
from deltacli.typing import ArrowArray


def complete_maps(values: Any, text: bytes) -> Any:  # Any: a struct array; a map array, or None
    """Return the maps of structs whose keys all rows have; None where that is not certain, or for other values."""
    columns = [_strings(column) for column in values.flatten()]
    names = [field.name for field in values.type]
    if values.null_count or not all(
        column is not None and (not column.null_count or text.count(_null_value(name)) == column.null_count)
        for name, column in zip(names, columns, strict=True)
    ):
        return None
    return _maps(names, columns, len(values))


def partial_maps(values: Any, text: bytes) -> Any:  # Any: as above
    """Return the maps of structs whose nulls are missing keys; None where one is a value, or for other values."""
    columns = [_strings(column) for column in values.flatten()]
    names = [field.name for field in values.type]
    if values.null_count or any(column is None for column in columns):
        return None
    has_nulls = [name for name, column in zip(names, columns, strict=True) if column.null_count]
    if any(re.search(rb"%b\s*:\s*null" % re.escape(json.dumps(name).encode()), text) for name in has_nulls):
        return None
    return _maps(names, columns, len(values), drops_nulls=bool(has_nulls))


def _null_value(name: str) -> bytes:
    return f"{json.dumps(name, ensure_ascii=False)}:null".encode()


def _strings(column: Any) -> Any:  # Any: an array; None for another type
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.string())
    return column if pa.types.is_string(column.type) else None


def _maps(names: Sequence[str], columns: Sequence[ArrowArray], rows: int, *, drops_nulls: bool = False) -> ArrowArray:
    import pyarrow as pa

    width = len(names)
    if width == 0:
        return pa.MapArray.from_arrays([0] * (rows + 1), pa.nulls(0, pa.string()), pa.nulls(0, pa.string()))
    if width == 1:
        keys, items = pa.repeat(pa.scalar(names[0]), rows), columns[0]
    else:
        entries = _count(rows * width)
        row = pc.divide(entries, width)
        column = pc.subtract(entries, pc.multiply(row, width))
        items = pc.take(pa.concat_arrays(columns), pc.add(pc.multiply(column, rows), row))
        keys = pc.take(pa.array(names, pa.string()), column)
    offsets = pc.cast(pc.multiply(_count(rows + 1), width), pa.int32())
    if drops_nulls:
        is_kept = pc.is_valid(items)
        kept_before = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(pc.cast(is_kept, pa.int32()))])
        keys, items, offsets = pc.filter(keys, is_kept), pc.filter(items, is_kept), pc.take(kept_before, offsets)
    return pa.MapArray.from_arrays(offsets, keys, items)


def _count(numbers: int) -> ArrowArray:
    """Return 0, 1, 2, …."""
    import pyarrow as pa

    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), numbers)), pa.scalar(1, pa.int32()))
