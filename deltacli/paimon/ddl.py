"""A schema as a CREATE TABLE statement of Flink SQL, Paimon's own dialect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deltacli.hints import in_backticks
from deltacli.paimon.schema import Schema
from deltacli.paimon.types import (
    AtomicType,
    DataField,
    DataType,
    ListType,
    MapType,
    Root,
    RowType,
    atomic_text,
    walk_fields,
)

_NOT_IN_FLINK = frozenset({Root.VECTOR, Root.BLOB, Root.GEOMETRY, Root.GEOGRAPHY})


def create_table(schema: Schema, name: str) -> str:
    """Return the statement, with a comment for each part of the schema that it cannot state."""
    lines = [f"CREATE TABLE {in_backticks(name)} ("]
    items = [_column(field) for field in schema.fields]
    if schema.primary_keys:
        items.append(f"PRIMARY KEY ({_names(schema.primary_keys)}) NOT ENFORCED")
    lines += [f"  {item}{',' if place < len(items) else ''}" for place, item in enumerate(items, 1)]
    ending = [")"]
    if schema.comment:
        ending.append(f"COMMENT {_text(schema.comment)}")
    if schema.partition_keys:
        ending.append(f"PARTITIONED BY ({_names(schema.partition_keys)})")
    if schema.options:
        options = [f"  {_text(key)} = {_text(value)}" for key, value in schema.options.items()]
        ending.append("WITH (\n" + ",\n".join(options) + "\n)")
    return "\n".join([*_left_out(schema), *lines, " ".join(ending) + ";"])


def _column(field: DataField) -> str:
    comment = f" COMMENT {_text(field.description)}" if field.description else ""
    return f"{in_backticks(field.name)} {_type(field.type)}{comment}"


def _type(data_type: DataType) -> str:
    ending = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case AtomicType():
            return atomic_text(data_type) + ending
        case ListType(root, element, _, length):
            part = "" if length is None else f", {length}"
            return f"{root}<{_type(element)}{part}>{ending}"
        case MapType(key, value):
            return f"MAP<{_type(key)}, {_type(value)}>{ending}"
        case RowType(fields):
            return f"ROW<{', '.join(map(_nested, fields))}>{ending}"


def _nested(field: DataField) -> str:
    comment = f" {_text(field.description)}" if field.description else ""
    return f"{in_backticks(field.name)} {_type(field.type)}{comment}"


class LeftOut(NamedTuple):
    """A part of a schema that Flink cannot state."""

    column: str
    what: str
    before: str
    after: str = ""
    reason: str = "Flink SQL cannot state it"


def left_out(schema: Schema) -> Iterator[LeftOut]:
    """Yield what the statement cannot state."""
    for path, field in walk_fields(schema.fields):
        name = ".".join(path)
        if field.default_value is not None:
            yield LeftOut(name, "default value", field.default_value)
        if (root := _unknown_to_flink(field.type)) is not None:
            yield LeftOut(name, "type", root.value)


def _left_out(schema: Schema) -> Iterator[str]:
    return (_remark(f"{left.what} of {left.column}: {left.before}") for left in left_out(schema))


def _unknown_to_flink(data_type: DataType) -> Root | None:
    """Return a type that Flink does not have, the type itself or one of its elements; fields have their own remark."""
    while isinstance(data_type, ListType) and data_type.root is not Root.VECTOR:
        data_type = data_type.element
    return data_type.root if data_type.root in _NOT_IN_FLINK else None


def _remark(text: str) -> str:
    return f"-- not in Flink SQL: {' '.join(text.split())}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(in_backticks, names))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
