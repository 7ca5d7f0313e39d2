"""How the columns of two versions differ for those who read rows of both: names, types and names in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.allowed_widenings import canonical_name
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType


def schema_id(config: TableConfiguration) -> str:
    """Return what identifies the columns that a stream reads: their names, types and names in files."""
    fields = config.schema.fields if config.schema else ()
    import hashlib  # with OpenSSL, which most commands do without

    found = [_shape(config, field) for field in fields], list(config.partition_columns)
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def differences(now: TableConfiguration, later: TableConfiguration) -> Iterator[str]:
    """Yield what is different about the columns of a later version, in words: names, types, partitions."""
    before, after = by_physical_name(now, now.schema), by_physical_name(later, later.schema)
    for physical, field in after.items():
        if physical not in before:
            yield f"column {field.name} is new"
            continue
        old = before[physical]
        if old.name != field.name:
            yield f"column {old.name} is now {field.name}"
        if _type_shape(now, old.data_type) != _type_shape(later, field.data_type):
            yield f"column {field.name} has another type"
    yield from (f"column {field.name} is dropped" for physical, field in before.items() if physical not in after)
    if list(now.partition_columns) != list(later.partition_columns):
        yield f"the partition columns are now {', '.join(later.partition_columns) or 'none'}"


def by_physical_name(config: TableConfiguration, struct: StructType | None) -> dict[str, StructField]:
    """Return the fields of a struct by their names in files."""
    fields: Iterable[StructField] = struct.fields if struct else ()
    return {config.physical_name(field): field for field in fields}


def _shape(config: TableConfiguration, field: StructField) -> Any:  # Any: nested tuples
    return (field.name, config.physical_name(field), _type_shape(config, field.data_type))


def _type_shape(config: TableConfiguration, data_type: DataType) -> Any:  # Any: nested tuples
    """Return what matters of a type: whether it is NOT NULL does not, because all columns of frames are nullable."""
    match data_type:
        case StructType(fields):
            return tuple(_shape(config, field) for field in fields)
        case ArrayType(element, _):
            return ("array", _type_shape(config, element))
        case MapType(key, value, _):
            return ("map", _type_shape(config, key), _type_shape(config, value))
        case PrimitiveType(name):
            return canonical_name(name)
