"""How the columns of two versions differ for those who read rows of both: names, types and names in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.core.errors import quote_identifier
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import TYPE_WIDENING, TYPE_WIDENING_PREVIEW
from deltacli.delta.schema.type_changes import canonical_name, is_allowed_change
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, parts_of

ColumnNames = tuple[str, ...]


class ColumnChange(StrEnum):
    """What a later version does to a column, or to a field of one."""

    ADDED = "added"
    RENAMED = "renamed"
    DROPPED = "dropped"
    WIDENED = "widened"
    """Its type is one that type widening makes of the former one."""
    RETYPED = "retyped"
    REPARTITIONED = "repartitioned"
    UNMAPPED = "unmapped"
    """Column mapping is removed, and files have other names for it from then on."""


class ColumnDifference(NamedTuple):
    """One difference between the columns of two versions, as a kind and in words."""

    change: ColumnChange
    text: str


def schema_id(config: TableConfiguration) -> str:
    """Return what identifies the columns that a stream reads: their names, types and names in files."""
    fields = config.schema.fields if config.schema else ()
    import hashlib  # with OpenSSL, which most commands do without

    found = [_shape(config, field) for field in fields], list(config.partition_columns)
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def differences(now: TableConfiguration, later: TableConfiguration) -> Iterator[str]:
    """Yield what is different about the columns of a later version, in words: names, types, partitions."""
    for difference in find_differences(now, later):
        yield difference.text


def find_differences(now: TableConfiguration, later: TableConfiguration) -> Iterator[ColumnDifference]:
    """Yield what is different about the columns of a later version: names, types, partitions."""
    yield from _of_fields(now, now.schema, later, later.schema, "")
    if list(now.partition_columns) != list(later.partition_columns):
        names = ", ".join(later.partition_columns) or "none"
        yield ColumnDifference(ColumnChange.REPARTITIONED, f"the partition columns are now {names}")


def find_breaking_differences(before: TableConfiguration, after: TableConfiguration) -> list[ColumnDifference]:
    """Return the differences that a streaming query of Delta without a schema tracking log cannot pass.

    It reads older versions with columns that were added since, or widened if the protocol has type widening. After any
    other difference each restart fails. Measured with Delta for Spark 4.4.0.
    """
    if before.mapping_mode != "none" and after.mapping_mode == "none":
        return [ColumnDifference(ColumnChange.UNMAPPED, "column mapping is removed")]
    passed = {ColumnChange.ADDED}
    if not after.features.isdisjoint((TYPE_WIDENING, TYPE_WIDENING_PREVIEW)):
        passed.add(ColumnChange.WIDENED)
    return [difference for difference in find_differences(before, after) if difference.change not in passed]


def _of_fields(
    now: TableConfiguration, old: StructType | None, later: TableConfiguration, new: StructType | None, path: str
) -> Iterator[ColumnDifference]:
    """Yield the differences of the fields of a struct, whose path ends with a dot."""
    before, after = by_physical_name(now, old), by_physical_name(later, new)
    for physical, field in after.items():
        name = f"{path}{_shown(field)}"
        if physical not in before:
            yield ColumnDifference(ColumnChange.ADDED, f"column {name} is new")
            continue
        had = before[physical]
        if had.name != field.name:
            yield ColumnDifference(ColumnChange.RENAMED, f"column {path}{_shown(had)} is now {_shown(field)}")
        yield from _of_types(now, had.data_type, later, field.data_type, name)
    for physical, field in before.items():
        if physical not in after:
            yield ColumnDifference(ColumnChange.DROPPED, f"column {path}{_shown(field)} is dropped")


def _of_types(
    now: TableConfiguration, old: DataType, later: TableConfiguration, new: DataType, path: str
) -> Iterator[ColumnDifference]:
    match old, new:
        case StructType(), StructType():
            yield from _of_fields(now, old, later, new, f"{path}.")
        case (ArrayType(), ArrayType()) | (MapType(), MapType()):
            for one, other in zip(parts_of(old), parts_of(new), strict=True):
                yield from _of_types(now, one.data_type, later, other.data_type, f"{path}.{one.name}")
        case _ if _type_shape(now, old) != _type_shape(later, new):
            change = ColumnChange.WIDENED if _is_widened(old, new) else ColumnChange.RETYPED
            yield ColumnDifference(change, f"column {path} has another type")


def _is_widened(old: DataType, new: DataType) -> bool:
    """Return whether type widening makes one type of the other."""
    if not isinstance(old, PrimitiveType) or not isinstance(new, PrimitiveType):
        return False
    return is_allowed_change(old.name, new.name)


def _shown(field: StructField) -> str:
    return field.name if field.name.isidentifier() else quote_identifier(field.name)


def exchanged(before: TableConfiguration, after: TableConfiguration) -> tuple[set[ColumnNames], set[ColumnNames]]:
    """Return the columns that files have no more, and those that they did not have, by their names for people; nothing
    where there are not both.
    """
    had, has = ({way: names for way, names, _ in columns_and_parts(one, one.schema)} for one in (before, after))
    gone = {had[way] for way in had.keys() - has.keys()}
    new = {has[way] for way in has.keys() - had.keys()}
    return (gone, new) if gone and new else (set(), set())


def columns_and_parts(
    config: TableConfiguration, data_type: DataType | None, physical: ColumnNames = (), logical: ColumnNames = ()
) -> Iterator[tuple[ColumnNames, ColumnNames, DataType]]:
    """Yield all columns and their parts: their names in files, those for people in lower case, and their types."""
    for part in parts_of(data_type) if data_type else ():
        paths = (*physical, config.physical_name(part)), (*logical, part.name.lower())
        yield *paths, part.data_type
        yield from columns_and_parts(config, part.data_type, *paths)


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
