"""A table schema as an Arrow schema, and the reverse. Spec: Schema Serialization Format; Primitive Types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from deltacli.delta.schema.kinds import decimal_parts
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.errors import Unreadable
from deltacli.hints import command
from deltacli.typing import Json

if TYPE_CHECKING:
    import pyarrow


def table_schema(schema: pyarrow.Schema) -> dict[str, Json]:
    """Return the schema of a Parquet file as in a schemaString; every field is nullable.

    A type that tables do not have keeps its name in Arrow.
    """
    return _struct(schema)


def _struct(fields: Iterable[Any]) -> dict[str, Any]:
    members = [{"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}} for field in fields]
    return {"type": "struct", "fields": members}


def _type(kind: Any) -> Any:  # Any: an Arrow type in, JSON values out
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type),
            "valueType": _type(kind.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    name = str(kind).removeprefix("large_").removesuffix("_view")
    return _NAMES.get(name, name)


_NAMES = {
    "string": "string",
    "int64": "long",
    "int32": "integer",
    "int16": "short",
    "int8": "byte",
    "float": "float",
    "double": "double",
    "bool": "boolean",
    "binary": "binary",
    "date32[day]": "date",
}


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
                    hint=command("snapshot", schema=True),
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
