"""Nulls where the schema allows none. Spec: Struct Field (nullable); Array Type (containsNull); Map Type."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.typing import ArrowField

if TYPE_CHECKING:
    import pyarrow


def column_with_null(batch: pyarrow.RecordBatch) -> str | None:
    """Return the path of a column or nested field that must not be null but is in some row, or None.

    Fields within a null struct, and elements within a null list, are not checked.
    """
    for field, values in zip(batch.schema, batch.columns, strict=True):
        if _asks(field) and (null_place := _null_at(values, field, field.name)) is not None:
            return null_place
    return None


@lru_cache(maxsize=4096)
def _asks(field: ArrowField) -> bool:
    """Return True if the field, or one within it, must not be null."""
    return not field.nullable or any(_asks(child) for child in _children(field.type))


def _children(kind: Any) -> list[Any]:
    """Return the fields within a type, without the keys of maps, which are never null."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) else []


def _null_at(values: Any, field: Any, path: str) -> str | None:
    import pyarrow as pa

    if not field.nullable and values.null_count:
        return path
    for position, child in enumerate(_children(field.type)):
        if not _asks(child):
            continue
        if pa.types.is_struct(field.type):
            present = pc.drop_null(values) if values.null_count else values
            inner, place = present.field(position), f"{path}.{child.name}"
        elif pa.types.is_map(field.type):
            inner, place = pc.list_flatten(pa.ListArray.from_arrays(values.offsets, values.items)), f"{path}.value"
        else:
            inner, place = pc.list_flatten(values), f"{path}.element"
        if (null_place := _null_at(inner, child, place)) is not None:
            return null_place
    return None
