"""Values of Arrow tables in a form in which equal means the same value: no rounding, no time zone, no limit of years.

`to_pylist` of pyarrow fails for the years -44 and 12345, says that 0.0 equals -0.0 and NaN does not equal NaN. Here
dates and times are integers, and floating-point numbers are text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import VariantVal

MISSING_VARIANT = "<no variant>"
"""Stands for a null variant in answers of Spark, whose Arrow export refuses them."""


def list_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table in an order of their own, that of their representation."""
    if not table.num_columns:
        return [()] * table.num_rows
    columns = [list_values(column) for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def list_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the exact values of a column. A variant is the value that pyspark decodes, and its type."""
    microseconds = column.cast(_replace_leaves(column.type, _in_microseconds))
    integers = microseconds.cast(_replace_leaves(microseconds.type, _as_integer))
    return [_exact(value, column.type) for value in integers.to_pylist()]


def describe_columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return names and types of columns. Whether a value may be null is left out: Spark forgets it when it reads."""
    return [(field.name, _describe(field.type)) for field in schema]


def is_variant(kind: pa.DataType) -> bool:
    """Return whether a type is that of a variant, whose two parts Spark and deltacli put in different orders."""
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"metadata", "value"}


def _describe(kind: pa.DataType) -> str:
    if is_variant(kind):
        return "variant"
    if pa.types.is_map(kind):
        return f"map<{_describe(kind.key_type)}, {_describe(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"list<{_describe(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_describe(field.type)}' for field in kind)}>"
    return str(kind)


def _in_microseconds(leaf: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", leaf.tz) if pa.types.is_timestamp(leaf) else leaf


def _as_integer(leaf: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(leaf):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(leaf) else leaf


def _replace_leaves(kind: pa.DataType, replace: Any) -> pa.DataType:  # Any: a function of a type
    if pa.types.is_map(kind):
        return pa.map_(_replace_leaves(kind.key_type, replace), _replace_leaves(kind.item_type, replace))
    if pa.types.is_list(kind):
        return pa.list_(_replace_leaves(kind.value_type, replace))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_replace_leaves(field.type, replace)) for field in kind])
    return replace(kind)


def _exact(value: Any, kind: pa.DataType) -> Any:  # Any: a value of any type
    if value is None:
        return None
    if is_variant(kind):
        return _decode_variant(value)
    if pa.types.is_map(kind):
        return sorted(((_exact(key, kind.key_type), _exact(item, kind.item_type)) for key, item in value), key=repr)
    if pa.types.is_list(kind):
        return [_exact(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _exact(value[field.name], field.type) for field in kind}
    return repr(value) if isinstance(value, float) else value


def _decode_variant(parts: dict[str, bytes]) -> Any:  # Any: whatever a variant holds
    decoded = VariantVal(parts["value"], parts["metadata"]).toPython()
    return None if decoded == MISSING_VARIANT else (type(decoded).__name__, repr(decoded))


def list_leaves(schema: Iterable[pa.Field], prefix: str = "") -> list[tuple[str, pa.DataType]]:
    """Return the columns and the fields of structs that are no structs, with their names as SQL writes them."""
    leaves: list[tuple[str, pa.DataType]] = []
    for field in schema:
        name = f"{prefix}`{field.name.replace('`', '``')}`"
        if pa.types.is_struct(field.type) and not is_variant(field.type):
            leaves += list_leaves(field.type, f"{name}.")
        else:
            leaves.append((name, field.type))
    return leaves
