"""A schema as a CREATE TABLE statement of Flink SQL, Paimon's own dialect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltacli.core.hints import in_backticks
from deltacli.paimon.losses import ConversionLoss
from deltacli.paimon.schema import Schema
from deltacli.paimon.types import DataField, DataType, ListType, Root, spelled, walk_fields

_NOT_IN_FLINK = frozenset({Root.VECTOR, Root.BLOB, Root.GEOMETRY, Root.GEOGRAPHY})
_NOT_STATED = "Flink SQL cannot state it"


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
    return f"{in_backticks(field.name)} {_flink(field.type)}{comment}"


def _flink(data_type: DataType) -> str:
    return spelled(data_type, lambda row: f"ROW<{', '.join(map(_nested, row.fields))}>")


def _nested(field: DataField) -> str:
    comment = f" {_text(field.description)}" if field.description else ""
    return f"{in_backticks(field.name)} {_flink(field.type)}{comment}"


def left_out(schema: Schema) -> Iterator[ConversionLoss]:
    """Yield what the statement cannot state."""
    for path, field in walk_fields(schema.fields):
        name = ".".join(path)
        if field.default_value is not None:
            yield ConversionLoss(name, "default value", field.default_value, "", _NOT_STATED)
        if (root := _unknown_to_flink(field.type)) is not None:
            yield ConversionLoss(name, "type", root.value, "", _NOT_STATED)


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
