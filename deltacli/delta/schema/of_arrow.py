"""An Arrow schema as a table schema. Spec: Schema Serialization Format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

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
