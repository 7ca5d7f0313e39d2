"""Types, columns and values of the small tables: what a schema says in JSON and in Arrow, and what a value reads as."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isnan
from typing import Any

import pyarrow as pa

Value = Any  # Any: a Python value of any column type
Row = dict[int, Value]
"""Column number -> value. A struct's value is a Row too, an array's a list, a map's a list of pairs."""


@dataclass(frozen=True)
class Column:
    """A column or a struct's field; `number` stays the same under renames and is the id of column mapping."""

    name: str
    type: Type
    number: int
    physical: str
    nullable: bool = True
    changes: tuple[tuple[str, str, str], ...] = ()
    """(from, to, path inside arrays and maps) of each widening."""


@dataclass(frozen=True)
class Struct:
    """Fields in the order of the schema."""

    fields: tuple[Column, ...]


@dataclass(frozen=True)
class Array:
    """A list of elements."""

    element: Type
    contains_null: bool = True


@dataclass(frozen=True)
class Map:
    """Keys that are never null, with values."""

    key: Type
    value: Type
    value_contains_null: bool = True


Type = str | Struct | Array | Map

ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def decimal_of(name: str) -> tuple[int, int]:
    """Precision and scale of `decimal(p,s)`."""
    precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def arrow_type(kind: Type) -> pa.DataType:
    """The type that reading must give."""
    match kind:
        case Struct(fields):
            return pa.struct([arrow_field(column) for column in fields])
        case Array(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), contains_null))
        case Map(key, value, contains_null):
            return pa.map_(pa.field("key", arrow_type(key), False), pa.field("value", arrow_type(value), contains_null))
        case str(name) if name.startswith("decimal"):
            return pa.decimal128(*decimal_of(name))
        case name:
            return ARROW[name]


def arrow_field(column: Column) -> pa.Field:
    """The field that reading must give."""
    return pa.field(column.name, arrow_type(column.type), column.nullable)


def json_type(kind: Type, mapped: bool) -> object:
    """The type as a schema string has it."""
    match kind:
        case Struct(fields):
            return {"type": "struct", "fields": [json_field(column, mapped) for column in fields]}
        case Array(element, contains_null):
            return {"type": "array", "elementType": json_type(element, mapped), "containsNull": contains_null}
        case Map(key, value, contains_null):
            return {
                "type": "map",
                "keyType": json_type(key, mapped),
                "valueType": json_type(value, mapped),
                "valueContainsNull": contains_null,
            }
        case name:
            return name


def json_field(column: Column, mapped: bool) -> dict[str, object]:
    """A field with its annotations."""
    metadata: dict[str, object] = {}
    if mapped:
        metadata |= {"delta.columnMapping.id": column.number, "delta.columnMapping.physicalName": column.physical}
    if column.changes:
        metadata["delta.typeChanges"] = [
            {"fromType": old, "toType": new} | ({"fieldPath": path} if path else {})
            for old, new, path in column.changes
        ]
    return {
        "name": column.name,
        "type": json_type(column.type, mapped),
        "nullable": column.nullable,
        "metadata": metadata,
    }


def schema_string(columns: Sequence[Column], *, mapped: bool) -> str:
    """The schema of a metaData action."""
    return json.dumps(json_type(Struct(tuple(columns)), mapped), ensure_ascii=False)


def shown(value: Value, kind: Type) -> Value:
    """A written value as the type of today shows it: the current fields in their order, numbers widened."""
    if value is None:
        return None
    match kind:
        case Struct(fields):
            return tuple(shown(value.get(column.number), column.type) for column in fields)
        case Array(element):
            return [shown(item, element) for item in value]
        case Map(key, item):
            return [(shown(left, key), shown(right, item)) for left, right in value]
        case "double":
            return float(value)
        case "timestamp_ntz" if type(value) is date:
            return datetime.combine(value, time())
        case str(name) if name.startswith("decimal"):
            return Decimal(value)
        case _:
            return value


def plain(value: Value) -> Value:
    """A value that can be counted: equal where the bits of a float, the value of a decimal, the instant are."""
    match value:
        case float():
            return "nan" if isnan(value) else value.hex()
        case list():
            return ("list", *(plain(item) for item in value))
        case tuple():
            return tuple(plain(item) for item in value)
        case dict():
            return tuple(plain(item) for item in value.values())
        case _:
            return value


def partition_value(text: str | None, kind: str) -> Value:
    """What the text of a partition value means under a type."""
    if text is None or text == "":
        return None
    match kind:
        case "string":
            return text
        case "binary":
            return text.encode()
        case "boolean":
            return text.lower() == "true"
        case "byte" | "short" | "integer" | "long":
            return int(text)
        case "float":
            return pa.scalar(float(text), pa.float32()).as_py()
        case "double":
            return float(text)
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            found = datetime.fromisoformat(text)
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        case "timestamp_ntz":
            return datetime.fromisoformat(text)
        case _:
            return Decimal(text)


def wider(name: str) -> list[str]:
    """The types that a type may be widened to, a choice of the decimals among them."""
    if name in INTEGERS:
        larger = [other for other, bits in INTEGERS.items() if bits > INTEGERS[name]]
        digits = 20 if name == "long" else 10
        decimals = [f"decimal({digits + extra},{scale})" for extra, scale in ((0, 0), (3, 3), (38 - digits, 5))]
        return larger + decimals + ([] if name == "long" else ["double"])
    if name.startswith("decimal"):
        precision, scale = decimal_of(name)
        steps = ((1, 0), (2, 2), (10, 3), (38 - precision, 0), (38 - precision, 38 - precision))
        return [f"decimal({precision + more},{scale + finer})" for more, finer in steps if 0 < more <= 38 - precision]
    return {"float": ["double"], "date": ["timestamp_ntz"]}.get(name, [])


def leaves(kind: Type, path: str = "") -> Iterator[tuple[str, str]]:
    """(path inside arrays and maps, type) of the leaves of a field itself, not of those in structs within."""
    match kind:
        case Struct():
            return
        case Array(element):
            yield from leaves(element, f"{path}.element".lstrip("."))
        case Map(key, value):
            yield from leaves(key, f"{path}.key".lstrip("."))
            yield from leaves(value, f"{path}.value".lstrip("."))
        case name:
            yield path, name


def widened(column: Column, path: str, to: str) -> Column:
    """The column with one leaf of a wider type, and the change recorded."""
    old = dict(leaves(column.type))[path]
    kind = _with_leaf(column.type, path.split(".") if path else [], to)
    return replace(column, type=kind, changes=(*column.changes, (old, to, path)))


def _with_leaf(kind: Type, path: Sequence[str], to: str) -> Type:
    match kind, list(path):
        case Array(element), ["element", *rest]:
            return replace(kind, element=_with_leaf(element, rest, to))
        case Map(key, _), ["key", *rest]:
            return replace(kind, key=_with_leaf(key, rest, to))
        case Map(_, value), ["value", *rest]:
            return replace(kind, value=_with_leaf(value, rest, to))
        case _:
            return to


def every_field(columns: Sequence[Column]) -> Iterator[Column]:
    """Every field of a schema, at every depth."""
    for column in columns:
        yield column
        for struct in structs(column.type):
            yield from every_field(struct.fields)


def structs(kind: Type) -> Iterator[Struct]:
    """The structs that are reached without passing another one."""
    match kind:
        case Struct():
            yield kind
        case Array(element):
            yield from structs(element)
        case Map(key, value):
            yield from structs(key)
            yield from structs(value)


def with_fields(column: Column, fields: Sequence[Column]) -> Column:
    """The column with other fields in the first struct that its type holds."""
    return replace(column, type=_with_fields(column.type, tuple(fields)))


def _with_fields(kind: Type, fields: tuple[Column, ...]) -> Type:
    match kind:
        case Struct():
            return Struct(fields)
        case Array(element):
            return replace(kind, element=_with_fields(element, fields))
        case Map(key, value):
            if next(structs(key), None) is not None:
                return replace(kind, key=_with_fields(key, fields))
            return replace(kind, value=_with_fields(value, fields))
        case _:
            return kind


def with_column(columns: Sequence[Column], changed: Column) -> tuple[Column, ...]:
    """The columns with the one of the same number replaced, at whatever depth."""
    return tuple(
        changed if column.number == changed.number else replace(column, type=_with_column(column.type, changed))
        for column in columns
    )


def _with_column(kind: Type, changed: Column) -> Type:
    match kind:
        case Struct(fields):
            return Struct(with_column(fields, changed))
        case Array(element):
            return replace(kind, element=_with_column(element, changed))
        case Map(key, value):
            return replace(kind, key=_with_column(key, changed), value=_with_column(value, changed))
        case _:
            return kind
