"""The data types of Paimon, and their canonical forms: the type string, the JSON of schema files, and SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from deltacli.core.hints import sql_name
from deltacli.core.typing import Json

MAX_LENGTH = 2_147_483_647
"""The length of STRING and BYTES, which are VARCHAR and VARBINARY without a limit."""

MAX_DEPTH = 200
"""Maximum nesting of types: far more than any engine supports, and few enough for recursion."""


class Root(StrEnum):
    """A type without its arguments and its nullability."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    GEOMETRY = "GEOMETRY"
    GEOGRAPHY = "GEOGRAPHY"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    VECTOR = "VECTOR"
    MAP = "MAP"
    ROW = "ROW"


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts. `arguments` are complete: defaults are filled in, STRING is VARCHAR(2147483647)."""

    root: Root
    arguments: tuple[int | str, ...] = ()
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class ListType:
    """ARRAY, MULTISET or VECTOR (`root`). Only a VECTOR has a `length`."""

    root: Root
    element: DataType
    nullable: bool = True
    length: int | None = None


@dataclass(frozen=True, slots=True)
class MapType:
    key: DataType
    value: DataType
    nullable: bool = True
    root: Root = Root.MAP


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a field of a ROW. The id identifies it across renames."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RowType:
    fields: tuple[DataField, ...]
    nullable: bool = True
    root: Root = Root.ROW


DataType: TypeAlias = AtomicType | ListType | MapType | RowType

_UNLIMITED = {Root.VARCHAR: "STRING", Root.VARBINARY: "BYTES"}


def with_nullability(data_type: DataType, nullable: bool) -> DataType:
    """Return a type with another nullability."""
    return data_type if data_type.nullable == nullable else replace(data_type, nullable=nullable)


def is_same_but_for_nullability(first: DataType, second: DataType) -> bool:
    """Return True if two types differ at most in the nullability of the whole."""
    return with_nullability(first, True) == with_nullability(second, True)


def map_parts(
    data_type: DataType, change: Callable[[DataType], DataType], change_field: Callable[[DataField], DataField]
) -> DataType:
    """Return a type whose direct parts, or the fields of a ROW, are changed in their order."""
    match data_type:
        case RowType(fields):
            return replace(data_type, fields=tuple(map(change_field, fields)))
        case ListType(_, element):
            return replace(data_type, element=change(element))
        case MapType(key, value):
            return replace(data_type, key=change(key), value=change(value))
        case AtomicType():
            return data_type


def numbered(data_type: DataType, next_id: Callable[[], int]) -> DataType:
    """Return a type whose fields have new ids: depth first, those inside a field before its own."""

    def renumbered(field: DataField) -> DataField:
        inner = numbered(field.type, next_id)
        return replace(field, type=inner, id=next_id())

    return map_parts(data_type, lambda part: numbered(part, next_id), renumbered)


def type_json(data_type: DataType) -> Json:
    """Return a type as in a schema file: a string, or an object for types with parts."""
    match data_type:
        case AtomicType():
            return atomic_text(data_type) + _suffix(data_type)
        case ListType(root, element, _, length):
            part = {} if length is None else {"length": length}
            return {"type": root + _suffix(data_type), "element": type_json(element), **part}
        case MapType(key, value):
            return {"type": "MAP" + _suffix(data_type), "key": type_json(key), "value": type_json(value)}
        case RowType(fields):
            return {"type": "ROW" + _suffix(data_type), "fields": [field_json(field) for field in fields]}


def field_json(field: DataField) -> dict[str, Json]:
    """Return a field as in a schema file, without absent keys."""
    found: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_json(field.type)}
    if field.description is not None:
        found["description"] = field.description
    if field.default_value is not None:
        found["defaultValue"] = field.default_value
    return found


def type_text(data_type: DataType) -> str:
    """Return a type as in SQL: `ARRAY<INT NOT NULL>`, `ROW<a INT, b STRING> NOT NULL`."""
    return spelled(
        data_type,
        lambda row: f"ROW<{', '.join(f'{sql_name(field.name)} {type_text(field.type)}' for field in row.fields)}>",
    )


def simple_text(data_type: DataType) -> str:
    """Return a type in one or two words: `ROW` without its fields, `ARRAY<ROW>`."""
    return spelled(data_type, lambda _: "ROW")


def spelled(data_type: DataType, row: Callable[[RowType], str]) -> str:
    """Return a type as in a dialect of SQL, which writes a ROW in this way."""
    match data_type:
        case AtomicType():
            text = atomic_text(data_type)
        case ListType(root, element, _, length):
            text = f"{root}<{spelled(element, row)}{'' if length is None else f', {length}'}>"
        case MapType(key, value):
            text = f"MAP<{spelled(key, row)}, {spelled(value, row)}>"
        case RowType():
            text = row(data_type)
    return text + _suffix(data_type)


def atomic_text(data_type: AtomicType) -> str:
    """Return a type without parts in its canonical form, without its nullability."""
    root, arguments = data_type.root, data_type.arguments
    if root in _UNLIMITED and arguments == (MAX_LENGTH,):
        return _UNLIMITED[root]
    if root is Root.TIMESTAMP_LTZ:
        return f"TIMESTAMP({arguments[0]}) WITH LOCAL TIME ZONE"
    return f"{root}({', '.join(map(str, arguments))})" if arguments else root


def _suffix(data_type: DataType) -> str:
    return "" if data_type.nullable else " NOT NULL"


def parts_of(data_type: DataType) -> tuple[tuple[str, DataType], ...]:
    """Return the direct parts of a type that is not a ROW, by the names that paths use."""
    match data_type:
        case ListType(_, element):
            return (("element", element),)
        case MapType(key, value):
            return (("key", key), ("value", value))
        case _:
            return ()


def types_in(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and the types of all its parts and fields."""
    yield data_type
    within = data_type.fields if isinstance(data_type, RowType) else ()
    for part in (*(field.type for field in within), *(part for _, part in parts_of(data_type))):
        yield from types_in(part)


def walk_fields(
    fields: tuple[DataField, ...], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataField]]:
    """Yield every field with its path, parents first. Paths name the parts of types: `element`, `key`, `value`."""
    for field in fields:
        here = (*path, field.name)
        yield here, field
        yield from _walk_type(field.type, here)


def _walk_type(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], DataField]]:
    if isinstance(data_type, RowType):
        yield from walk_fields(data_type.fields, path)
    for name, part in parts_of(data_type):
        yield from _walk_type(part, (*path, name))
