"""A table schema as an Arrow schema, and the reverse; and the Arrow schema of new data files: physical names, field
ids, and no column that must not be null.

Spec: Schema Serialization Format; Primitive Types; Column Mapping, Writer Requirements; IcebergCompatV2; Delta Data
Type to Parquet Type Mappings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import Refused, Unreadable
from deltacli.core.hints import command
from deltacli.core.typing import ArrowField, Json
from deltacli.delta.encoding.value_text import has_bytes
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.kinds import NANOSECONDS, PLAIN_TYPES, YEAR_MONTH, decimal_parts, interval_name
from deltacli.delta.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parts_of,
)

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
    return _names().get(name, name)


@cache
def _names() -> Mapping[str, str]:
    return {str(plain_type(name)): name for name in PLAIN_TYPES}


def arrow_schema(columns: Iterable[StructField]) -> pyarrow.Schema:
    """Return the exact Arrow schema of columns of a table. Raises Refused (`type.unsupported`), naming the column."""
    import pyarrow as pa

    return pa.schema([arrow_field(column) for column in columns])


def arrow_field(field: StructField, path: str = "") -> pyarrow.Field:
    """Return a column or nested field under its logical name, with its nullability."""
    import pyarrow as pa

    place = f"{path}.{field.name}" if path else field.name
    if not has_bytes(field.name):
        raise Refused(
            f"the name of column {place!a} has half a surrogate pair, which is not Unicode",
            code="commit.lone-surrogate",
            hint=command("validate"),
        )
    return pa.field(field.name, arrow_type(field.data_type, place), field.nullable)


def arrow_type(data_type: DataType, path: str = "") -> pyarrow.DataType:
    """Return the Arrow type that holds values of a table's type; `path` is the column, for errors.

    Timestamps are microseconds or nanoseconds, in UTC or without a zone; intervals are numbers of months or
    microseconds; variants are the struct in files. Raises Refused (`type.unsupported`) if `unread_type` names a type.
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
                raise Refused(
                    f"column {path} has type {name[:80]}, which this version of deltacli does not read",
                    code="type.unsupported",
                    facts={"column": path, "type": name[:80]},
                    hint=command("snapshot", schema=True),
                )
            return primitive


def unread_type(data_type: DataType) -> str | None:
    """Return the name of the first type within a type whose values deltacli does not read; None if it reads all.

    This is the one place that judges whether a type is supported. Everything that reads, rewrites, checks or compares
    values asks it, mostly through `unread_columns`, which leaves out only the columns concerned.
    """
    match data_type:
        case PrimitiveType(name):
            return name[:80] if _primitive(name) is None else None
        case _:
            return next((found for part in parts_of(data_type) if (found := unread_type(part.data_type))), None)


@lru_cache(maxsize=256)
def _primitive(name: str) -> pyarrow.DataType | None:
    import pyarrow as pa

    if name == "void":
        return pa.null()
    if name == "variant":
        return variant_type()
    if name in NANOSECONDS:
        return pa.timestamp("ns", tz=NANOSECONDS[name])
    if interval := interval_name(name):
        return pa.int32() if interval == YEAR_MONTH else pa.int64()
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


_FIELD_ID = b"PARQUET:field_id"
_ID, _NESTED_IDS = "delta.columnMapping.id", "delta.columnMapping.nested.ids"
_VOID = PrimitiveType("void")


def stored_columns(config: TableConfiguration) -> tuple[StructField, ...]:
    """Return the columns that new data files contain, in the order of the table, without void fields at any depth and
    without columns of types that are not read: files that have these are not rewritten.

    Partition columns are among them only where a feature of the table says so. Raises Unreadable
    (`schema.not-writable`) where a value that is not null would have no field that shows it.
    """
    fields = config.schema.fields if config.schema else ()
    keeps = keeps_partition_columns(config)
    columns = [column for column in fields if keeps or config.physical_name(column) not in config.partition_columns]
    columns = [column for column in columns if unread_type(column.data_type) is None]
    stored = tuple(_without_void(column, column.name) for column in columns if column.data_type != _VOID)
    if not stored:
        raise _not_writable("the table has no column that a data file could contain")
    return stored


def keeps_partition_columns(config: TableConfiguration) -> bool:
    """Return True if data files must also contain the partition columns."""
    return "materializePartitionColumns" in config.features or bool(iceberg_compat(config))


def iceberg_compat(config: TableConfiguration) -> int:
    """Return the version of IcebergCompat that is on; 0 if none is."""
    return next(
        (
            version
            for version in (3, 2, 1)
            if f"icebergCompatV{version}" in config.features and config.is_on(f"delta.enableIcebergCompatV{version}")
        ),
        0,
    )


def file_schema(config: TableConfiguration, columns: Sequence[StructField]) -> pyarrow.Schema:
    """Return the schema of a data file with these columns of a table.

    Raises Refused (`type.unsupported`), naming the column.
    """
    import pyarrow as pa

    return pa.schema([_field(config, column) for column in columns])


def _field(config: TableConfiguration, column: StructField) -> ArrowField:
    import pyarrow as pa

    name = config.physical_name(column)
    is_mapped = config.mapping_mode != "none"
    nested = column.metadata.get(_NESTED_IDS) if is_mapped else None
    kind = _stored_type(config, column.data_type, name, nested if isinstance(nested, Mapping) else {})
    return pa.field(name, kind, nullable=True, metadata=_metadata(column.metadata.get(_ID) if is_mapped else None))


def _metadata(field_id: object) -> dict[bytes, bytes] | None:
    return {_FIELD_ID: str(field_id).encode()} if type(field_id) is int else None


def _stored_type(config: TableConfiguration, kind: DataType, place: str, ids: Mapping[str, object]) -> Any:
    """Return the Arrow type of values. The keys of `ids` for their parts begin with `place`."""
    import pyarrow as pa

    def part(name: str, inner: DataType, *, nullable: bool = True) -> Any:
        path = f"{place}.{name}"
        return pa.field(name, _stored_type(config, inner, path, ids), nullable, metadata=_metadata(ids.get(path)))

    match kind:
        case StructType(fields):
            return pa.struct([_field(config, field) for field in fields])
        case ArrayType(element):
            return pa.list_(part("element", element))
        case MapType(key, value):
            return pa.map_(part("key", key, nullable=False), part("value", value))
        case PrimitiveType("variant"):
            # Spec: Variant Data Type. Both fields are required: only the whole variant can be null.
            return pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])
    return arrow_type(kind, place)


def _without_void(column: StructField, path: str) -> StructField:
    return column._replace(data_type=_type_without_void(column.data_type, path))


def _type_without_void(kind: DataType, path: str) -> DataType:
    match kind:
        case StructType(fields):
            kept = [_without_void(field, f"{path}.{field.name}") for field in fields if field.data_type != _VOID]
            if not kept:
                raise _not_writable(f"column {path} has no field that a data file could contain", path)
            return StructType(tuple(kept))
        case ArrayType(element, contains_null):
            return ArrayType(_part(element, f"{path}.element"), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_part(key, f"{path}.key"), _part(value, f"{path}.value"), contains_null)
    return kind


def _part(kind: DataType, path: str) -> DataType:
    """Return a part of a list or map, which has to be in files to show how many there are."""
    if kind == _VOID:
        raise _not_writable(f"column {path} is void, which a data file cannot contain", path)
    return _type_without_void(kind, path)


def _not_writable(reason: str, path: str | None = None) -> Unreadable:
    return Unreadable(reason, code="schema.not-writable", facts={} if path is None else {"column": path})
