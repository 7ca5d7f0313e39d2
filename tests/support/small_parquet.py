"""Data files of the small writer: the same rows in the many shapes that Parquet writers give them."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.small_types import Array, Column, Map, Row, Struct, Type, Value, arrow_type, shown

FIELD_ID = "PARQUET:field_id"
ELEMENT_IDS = 100_000
"""Where the ids of elements, keys and values begin: the schema names none for them."""

TEXTS = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "bytes": pa.binary(),  # without the annotation that says it is text, as Impala and Hive leave it out
}
BINARIES = {"large": pa.large_binary(), "view": pa.binary_view()}


class PartitionText(NamedTuple):
    """The value of a partition column: text, whose meaning depends on the type of the day."""

    text: str | None


@dataclass(frozen=True)
class Look:
    """How a file writes its rows."""

    ids: bool = True
    element_ids: bool = False
    upper_case: bool = False
    order: int = 0
    timestamps: str = "us"
    texts: str = "string"
    large_lists: bool = False
    decimals_as_integers: bool = False
    small_as_integers: bool = False
    pages: str = "1.0"
    dictionary: bool = True
    group_rows: int = 1_000_000
    keep_arrow_schema: bool = True
    compression: str = "snappy"
    omits_nulls: bool = False
    all_nullable: bool = True
    foreign_names: bool = False
    """The names in the file are not those of the schema: only ids find the columns."""
    materializes: bool = False
    """Partition columns stand in the file, too, and lie: the log alone says their values."""


def physical_type(kind: Type, look: Look, number: int = 0) -> pa.DataType:
    """The Arrow type that makes the Parquet type of a column."""
    match kind:
        case Struct(fields):
            return pa.struct([_field(column, look) for column in fields if column.type != "void"])
        case Array(element, contains_null):
            item = _item("element", element, look, number, look.all_nullable or contains_null)
            return pa.large_list(item) if look.large_lists else pa.list_(item)
        case Map(key, value, contains_null):
            right = _item("value", value, look, number + 7, look.all_nullable or contains_null)
            return pa.map_(_item("key", key, look, number + 3, False), right)
        case "string":
            return TEXTS[look.texts]
        case "binary":
            return BINARIES.get(look.texts, pa.binary())
        case "byte" | "short" if look.small_as_integers:
            return pa.int32()
        case "timestamp":
            return pa.timestamp("us" if look.timestamps == "int96" else look.timestamps, "UTC")
        case "timestamp_ntz":
            return pa.timestamp("us" if look.timestamps == "int96" else look.timestamps)
        case name:
            return arrow_type(name)


def _item(name: str, kind: Type, look: Look, number: int, nullable: bool) -> pa.Field:
    metadata = {FIELD_ID: str(ELEMENT_IDS + number)} if look.ids and look.element_ids else None
    return pa.field(name, physical_type(kind, look, 2 * number + 1), nullable, metadata)


def _field(column: Column, look: Look) -> pa.Field:
    metadata = {FIELD_ID: str(column.number)} if look.ids else None
    kind = physical_type(column.type, look, column.number)
    return pa.field(_name(column, look), kind, look.all_nullable or column.nullable, metadata)


def _name(column: Column, look: Look) -> str:
    if look.foreign_names:
        return f"x{column.number}"
    return column.physical.swapcase() if look.upper_case else column.physical


def physical_value(value: Value, kind: Type, look: Look) -> Value:
    """A value in the form that Arrow builds the file's type from."""
    if value is None:
        return None
    match kind:
        case Struct(fields):
            return {
                _name(column, look): physical_value(value.get(column.number), column.type, look)
                for column in fields
                if column.type != "void"
            }
        case Array(element):
            return [physical_value(item, element, look) for item in value]
        case Map(key, item):
            return [(physical_value(left, key, look), physical_value(right, item, look)) for left, right in value]
        case "string" if look.texts == "bytes":
            return value.encode()
        case name:
            return shown(value, name)  # rows of older files are written in the types of today


def parquet(columns: Sequence[Column], rows: Sequence[Row], look: Look, **extra: Sequence[str]) -> bytes:
    """A file of rows; `extra` are text columns in addition to those of the table."""
    arrays: list[tuple[pa.Field, Any]] = []  # Any: pyarrow has no types
    for column in columns:
        values = [row.get(column.number) for row in rows]
        if values and isinstance(values[0], PartitionText):
            if not look.materializes:
                continue
            values = [None] * len(values)
        if column.type == "void" or (look.omits_nulls and column.nullable and not any(v is not None for v in values)):
            continue
        arrays.append(_array(column, values, look))
    if not arrays and look.omits_nulls:  # a file of no columns would have no rows
        return parquet(columns, rows, replace(look, omits_nulls=False), **extra)
    random.Random(look.order).shuffle(arrays)
    arrays += [(pa.field(name, pa.string()), pa.array(texts, pa.string())) for name, texts in extra.items()]
    table = pa.table([array for _, array in arrays], schema=pa.schema([field for field, _ in arrays]))
    try:
        return to_bytes(table, look)
    except (pa.ArrowNotImplementedError, pa.ArrowIndexError):
        # pyarrow can't cut views into pages, and fails on nested dictionaries without a value.
        if look.texts == "string":
            raise
        return parquet(columns, rows, replace(look, texts="string"), **extra)


def to_bytes(table: pa.Table, look: Look) -> bytes:
    """A Parquet file of a table that is in its physical types already."""
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        row_group_size=look.group_rows,
        use_dictionary=look.dictionary,
        data_page_version=look.pages,
        compression=look.compression,
        store_schema=look.keep_arrow_schema,
        store_decimal_as_integer=look.decimals_as_integers,
        use_deprecated_int96_timestamps=look.timestamps == "int96",
    )
    return sink.getvalue()


def _array(column: Column, values: Sequence[Value], look: Look) -> tuple[pa.Field, Any]:  # Any: pyarrow has no types
    """A column in its physical type; in microseconds where the file's unit can't say the values."""
    exact = replace(look, timestamps="us")
    array = pa.array([physical_value(value, column.type, look) for value in values], _field(column, exact).type)
    wanted = _field(column, look)
    if wanted.type != array.type:
        try:
            return wanted, array.cast(wanted.type)
        except pa.ArrowInvalid:
            return _field(column, exact), array
    return wanted, array
