"""A table schema as an Arrow schema. Spec: Schema Serialization Format; Primitive Types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltacli.delta.schema.kinds import decimal_parts
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.errors import Unreadable
from deltacli.hints import command

if TYPE_CHECKING:
    import pyarrow


def arrow_schema(columns: Iterable[StructField]) -> pyarrow.Schema:
    """Return the exact Arrow schema of columns of a table. Raises Unreadable (`schema.unknown-type`), naming the
    column.
    """
    import pyarrow as pa

    return pa.schema([arrow_field(column) for column in columns])


def arrow_field(field: StructField, path: str = "") -> pyarrow.Field:
    """Return a column or nested field under its logical name, with its nullability."""
    import pyarrow as pa

    place = f"{path}.{field.name}" if path else field.name
    return pa.field(field.name, arrow_type(field.data_type, place), field.nullable)


def arrow_type(data_type: DataType, path: str = "") -> pyarrow.DataType:
    """Return the Arrow type that holds values of a table's type; `path` is the column, for errors.

    Timestamps are microseconds, in UTC or without a zone; variants are the struct in files. Raises Unreadable
    (`schema.unknown-type`).
    """
    import pyarrow as pa

    match data_type:
        case StructType(fields):
            return pa.struct([arrow_field(field, path) for field in fields])
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element, f"{path}.element"), contains_null))
        case MapType(key, value, value_contains_null):
            item = pa.field("value", arrow_type(value, f"{path}.value"), value_contains_null)
            return pa.map_(pa.field("key", arrow_type(key, f"{path}.key"), nullable=False), item)
        case PrimitiveType(name):
            primitive = _primitive(name)
            if primitive is None:
                raise Unreadable(
                    f"column {path} has type {name[:80]}, which this version of deltacli does not read",
                    code="schema.unknown-type",
                    facts={"column": path, "type": name[:80]},
                    hint=f"{command('read', columns=...)}   # the other columns",
                )
            return primitive


def _primitive(name: str) -> pyarrow.DataType | None:
    import pyarrow as pa

    if name == "void":
        return pa.null()
    if name == "variant":
        return variant_type()
    return pa.string() if name.startswith("string collate ") else plain_type(name)


def plain_type(name: str) -> pyarrow.DataType | None:
    """Return the Arrow type of a primitive type whose values can be compared, or None for any other name."""
    import pyarrow as pa

    if parts := decimal_parts(name):
        return pa.decimal128(*parts)
    if name.startswith(("char(", "varchar(")):
        return pa.string()
    return {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }.get(name)


def variant_type() -> pyarrow.StructType:
    """Return a variant as in files. Spec: Variant Data Type."""
    import pyarrow as pa

    return pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
