"""Rows of a Spark frame in the form in which rows of our own scan are compared."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from tests.support.row_counts import Rows, count_rows
from tests.support.variants import Value, decode


def counts_of(frame: Any) -> Rows:  # Any: a pyspark.sql.DataFrame
    """Run a frame and return its rows."""
    return counted(frame.toArrow())


def counted(rows: pa.Table) -> Rows:
    """Return rows as they are compared with those of a frame."""
    return count_rows([plain_variants(rows)], rows.schema.names)


def plain_variants(rows: pa.Table) -> pa.Table:
    """Return rows whose variants are texts of their values, because the same value has several encodings."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_struct(field.type):
            column = rows.column(position).combine_chunks()
            rows = rows.set_column(position, field.name, _plain_struct(column))
    return rows


def _plain_struct(array: Any) -> Any:  # Any: an array of structs; the result is one of texts for variants
    """Return a variant as texts, and other structs with their variants as texts."""
    names = [field.name for field in array.type]
    if {"value", "metadata"} == set(names):
        texts = [None if value is None else text_of(decode(value)) for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    fields = [array.field(position) for position in range(len(names))]
    fields = [_plain_struct(field) if pa.types.is_struct(field.type) else field for field in fields]
    return pa.StructArray.from_arrays(fields, names, mask=array.is_null())


def text_of(value: Value) -> str:
    """Return the text of a variant: numbers without the zeros at their ends, fields by their names."""
    match value:
        case dict():
            return f"{{{', '.join(f'{name!r}: {text_of(value[name])}' for name in sorted(value))}}}"
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case Decimal() | int() if not isinstance(value, bool):
            return f"{Decimal(value).normalize(Context(prec=50)):f}"
    return repr(value)
