"""The Arrow schema of new data files: physical names, field ids, and no column that must not be null.

Spec: Column Mapping, Writer Requirements; IcebergCompatV2; Delta Data Type to Parquet Type Mappings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.to_arrow import arrow_type
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.errors import Unreadable
from deltacli.typing import ArrowField

if TYPE_CHECKING:
    import pyarrow

_FIELD_ID = b"PARQUET:field_id"
_ID, _NESTED_IDS = "delta.columnMapping.id", "delta.columnMapping.nested.ids"
_VOID = PrimitiveType("void")


def stored_columns(config: TableConfiguration) -> tuple[StructField, ...]:
    """Return the columns that new data files contain, in the order of the table, without void fields at any depth.

    Partition columns are among them only where a feature of the table says so. Raises Unreadable
    (`schema.not-writable`) where a value that is not null would have no field that shows it.
    """
    fields = config.schema.fields if config.schema else ()
    keeps = keeps_partition_columns(config)
    columns = [column for column in fields if keeps or config.physical_name(column) not in config.partition_columns]
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

    Raises Unreadable (`schema.unknown-type`), naming the column.
    """
    import pyarrow as pa

    return pa.schema([_field(config, column) for column in columns])


def _field(config: TableConfiguration, column: StructField) -> ArrowField:
    import pyarrow as pa

    name = config.physical_name(column)
    is_mapped = config.mapping_mode != "none"
    nested = column.metadata.get(_NESTED_IDS) if is_mapped else None
    kind = _type(config, column.data_type, name, nested if isinstance(nested, Mapping) else {})
    return pa.field(name, kind, nullable=True, metadata=_metadata(column.metadata.get(_ID) if is_mapped else None))


def _metadata(field_id: object) -> dict[bytes, bytes] | None:
    return {_FIELD_ID: str(field_id).encode()} if type(field_id) is int else None


def _type(config: TableConfiguration, kind: DataType, place: str, ids: Mapping[str, object]) -> Any:
    """Return the Arrow type of values. The keys of `ids` for their parts begin with `place`."""
    import pyarrow as pa

    def part(name: str, inner: DataType, *, nullable: bool = True) -> Any:
        path = f"{place}.{name}"
        return pa.field(name, _type(config, inner, path, ids), nullable, metadata=_metadata(ids.get(path)))

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
