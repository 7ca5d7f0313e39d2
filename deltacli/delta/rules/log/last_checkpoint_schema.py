"""Compare the checkpointSchema of a hint, which is a table schema, with the schema of a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deltacli.delta.schema.allowed_widenings import decimal_of
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType, parse_schema
from deltacli.errors import DeltacliError
from deltacli.typing import ArrowType

if TYPE_CHECKING:
    import pyarrow


def difference(schema: object, stored: pyarrow.Schema) -> str | None:
    """Return the first difference, or None if they are equal apart from nullability and order."""
    import pyarrow as pa

    try:
        parsed = parse_schema(schema if isinstance(schema, str) else json.dumps(schema))
    except DeltacliError as fault:
        return fault.message
    return _difference(parsed, pa.struct(list(stored)), "")


def _difference(wanted: DataType, actual: ArrowType, path: str) -> str | None:
    import pyarrow as pa

    match wanted:
        case StructType(fields):
            if not pa.types.is_struct(actual):
                return f"{path} is {actual}, not a struct"
            return _struct_difference({field.name: field.data_type for field in fields}, actual, path)
        case ArrayType(element):
            if not (pa.types.is_list(actual) or pa.types.is_large_list(actual)):
                return f"{path} is {actual}, not an array"
            return _difference(element, actual.value_type, f"{path}.element")
        case MapType(key, value):
            if not pa.types.is_map(actual):
                return f"{path} is {actual}, not a map"
            return _difference(key, actual.key_type, f"{path}.key") or _difference(
                value, actual.item_type, f"{path}.value"
            )
        case PrimitiveType(name):
            return None if _is_stored_as(name, actual) else f"{path} is {actual}, not {name}"


def _struct_difference(wanted: Mapping[str, DataType], actual: Any, path: str) -> str | None:
    names = {actual.field(index).name: actual.field(index).type for index in range(actual.num_fields)}
    for name in [*wanted, *names]:
        here = f"{path}.{name}".lstrip(".")
        if name not in names:
            return f"the file has no {here}"
        if name not in wanted:
            return f"the hint has no {here}"
        fault = _difference(wanted[name], names[name], here)
        if fault is not None:
            return fault
    return None


def _is_stored_as(name: str, actual: Any) -> bool:
    """Return True if a primitive type may be stored as an Arrow type. Unrecognized types may be anything."""
    import pyarrow as pa

    decimal = decimal_of(name)
    if decimal is not None:
        return bool(pa.types.is_decimal(actual)) and (actual.precision, actual.scale) == decimal
    known: Mapping[str, Callable[[Any], bool]] = {
        "string": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
        "long": pa.types.is_int64,
        "integer": pa.types.is_int32,
        "short": pa.types.is_int16,
        "byte": pa.types.is_int8,
        "float": pa.types.is_float32,
        "double": pa.types.is_float64,
        "boolean": pa.types.is_boolean,
        "binary": lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
        "date": pa.types.is_date,
        "timestamp": pa.types.is_timestamp,
        "timestamp_ntz": pa.types.is_timestamp,
    }
    return name not in known or known[name](actual)
