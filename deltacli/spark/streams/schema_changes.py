"""Which columns a stream can go on with. Spec: Column Mapping; Type Widening; Change Metadata.

A commit after the version whose columns are read must leave them as they are: no column of its files may be left out
unnoticed, so the stream ends before it and begins again with the new columns. A commit before that version is read as
any older version is: missing columns are null, and narrower types become wider ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.allowed_widenings import canonical_name, is_allowed_change, was_allowed_in_preview
from deltacli.delta.schema.kinds import FIXED_TEXTS
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.errors import Refused

_TEXT = "string"


def schema_id(config: TableConfiguration) -> str:
    """Return what identifies the columns that a stream reads: their names, types and names in files."""
    fields = config.schema.fields if config.schema else ()
    found = [_shape(config, field) for field in fields], list(config.partition_columns)
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def require_same_columns(now: TableConfiguration, later: TableConfiguration, version: int) -> None:
    """Raise Refused (`stream.schema-changed`) where a later commit changes the columns that are read."""
    change = _difference(now, later)
    if change is not None:
        raise Refused(
            f"version {version} changes the schema: {change}. All rows before it are delivered",
            code="stream.schema-changed",
            facts={"version": str(version), "change": change},
            hint="create the frame again with readStream, and start it with the same checkpointLocation",
        )


def require_readable_columns(now: TableConfiguration, then: TableConfiguration, version: int) -> None:
    """Raise Refused (`stream.schema-changed`) where older files have columns that the columns read cannot show."""
    mapped = now.mapping_mode != "none"
    change = _unreadable(now, now.schema, then, then.schema, mapped=mapped)
    if change is not None:
        raise Refused(
            f"version {version} has other columns than the table has now: {change}",
            code="stream.schema-changed",
            facts={"version": str(version), "change": change},
            hint="begin at a later version: another checkpointLocation, with startingVersion or without it",
        )


def _difference(now: TableConfiguration, later: TableConfiguration) -> str | None:
    """Return the first difference of two schemas in words, or None."""
    before, after = _by_physical_name(now, now.schema), _by_physical_name(later, later.schema)
    for physical, field in after.items():
        if physical not in before:
            return f"column {field.name} is new"
        old = before[physical]
        if old.name != field.name:
            return f"column {old.name} is now {field.name}"
        if _type_shape(now, old.data_type) != _type_shape(later, field.data_type):
            return f"column {field.name} has another type"
    if dropped := next((field.name for physical, field in before.items() if physical not in after), None):
        return f"column {dropped} is dropped"
    if list(now.partition_columns) != list(later.partition_columns):
        return f"the partition columns are now {', '.join(later.partition_columns) or 'none'}"
    return None


def _by_physical_name(config: TableConfiguration, struct: StructType | None) -> dict[str, StructField]:
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


def _unreadable(
    now: TableConfiguration,
    now_type: DataType | None,
    then: TableConfiguration,
    then_type: DataType | None,
    *,
    mapped: bool,
    path: str = "",
) -> str | None:
    """Return why values of an older type cannot be read as the type of now, in words, or None."""

    def inner(new: DataType, old: DataType, where: str) -> str | None:
        return _unreadable(now, new, then, old, mapped=mapped, path=f"{path}.{where}")

    match now_type, then_type:
        case (None, None):
            return None
        case (StructType(), StructType()):
            found = _by_physical_name(now, now_type)
            for physical, field in _by_physical_name(then, then_type).items():
                if physical in found:
                    name = f"{path}.{field.name}" if path else field.name
                    new, old = found[physical].data_type, field.data_type
                    if fault := _unreadable(now, new, then, old, mapped=mapped, path=name):
                        return fault
                elif not mapped:  # with mapping, a dropped column is no more in any older version either
                    return f"column {path}{'.' if path else ''}{field.name} no longer exists"
            return None
        case (ArrayType(new, _), ArrayType(old, _)):
            return inner(new, old, "element")
        case (MapType(new_key, new, _), MapType(old_key, old, _)):
            return inner(new_key, old_key, "key") or inner(new, old, "value")
        case (PrimitiveType(new_name), PrimitiveType(old_name)) if _becomes(old_name, new_name):
            return None
    return f"column {path} had another type"


def _becomes(old: str, new: str) -> bool:
    same = canonical_name(old) == canonical_name(new) or (_is_text(old) and _is_text(new))
    return same or old == "void" or is_allowed_change(old, new) or was_allowed_in_preview(old, new)


def _is_text(name: str) -> bool:
    return name == _TEXT or name.startswith((*FIXED_TEXTS, f"{_TEXT} collate "))
