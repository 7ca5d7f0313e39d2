"""Find the columns of some rows that contain NaN, also those within structs, lists and maps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowType
from deltacli.delta.schema.file_columns import count_leaves, is_list

if TYPE_CHECKING:
    import pyarrow


def has_floats(kind: ArrowType) -> bool:
    """Return True if values of a type are floating-point numbers, or contain some."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_floats(kind.storage_type)
    if pa.types.is_map(kind):
        return has_floats(kind.key_type) or has_floats(kind.item_type)
    if is_list(kind):
        return has_floats(kind.value_type)
    if pa.types.is_struct(kind):
        return any(has_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def find_nan_leaves(rows: pyarrow.Table) -> set[int]:
    """Return the numbers of the leaf columns, as Parquet counts them, in which a value is NaN."""
    leaves = set[int]()
    first_leaf = 0
    for column in rows.columns:
        if has_floats(column.type):
            for chunk in column.chunks:
                leaves.update(_find_in_array(chunk, first_leaf))
        first_leaf += count_leaves(column.type)
    return leaves


def _find_in_array(values: ArrowArray, leaf: int) -> Iterator[int]:
    """Yield the leaves with NaN of an array whose first leaf has the number `leaf`."""
    kind = values.type
    if not has_floats(kind):
        return

    if isinstance(kind, pa.BaseExtensionType):
        yield from _find_in_array(values.storage, leaf)
    elif pa.types.is_map(kind):
        # `keys` and `items` have the entries of the whole array also where `values` is a slice of it.
        keys, items = (
            pc.list_flatten(pa.ListArray.from_arrays(values.offsets, parts)) for parts in (values.keys, values.items)
        )
        yield from _find_in_array(keys, leaf)
        yield from _find_in_array(items, leaf + count_leaves(kind.key_type))
    elif is_list(kind):
        yield from _find_in_array(values.flatten(), leaf)
    elif pa.types.is_struct(kind):
        for position, field in enumerate(kind):
            yield from _find_in_array(values.field(position), leaf)
            leaf += count_leaves(field.type)
    elif has_nan(values):
        yield leaf


def has_nan(values: ArrowArray) -> bool:
    """Return True if a value of an array of floating-point numbers is NaN."""
    # The sum is NaN if a value is, and is found faster than each of them. It is also NaN for infinities of both signs.
    total = pc.sum(values).as_py()
    if total is None or not math.isnan(total):
        return False
    return bool(pc.any(pc.is_nan(values)).as_py())
