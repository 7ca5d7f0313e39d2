"""The schema of a Delta table as a CREATE TABLE statement of Spark SQL."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.delta.schema.widening_guards import CHAR_VARCHAR_KEY
from deltacli.delta.sql.stored import DEFAULT_KEY, GENERATION_KEY
from deltacli.operations.schemas.described import DescribedSchema
from deltacli.paimon.losses import ConversionLoss

_NULLABLE = "elements and values in Spark SQL are nullable"
_SQL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def create_delta_table(source: DescribedSchema) -> str:
    """Return the statement, without properties of the table."""
    columns = [] if source.delta is None else [f"  {_column(field)}" for field in source.delta.fields]
    ending = ") USING DELTA"
    if source.schema.comment:
        ending += f" COMMENT {_text(source.schema.comment)}"
    if source.schema.partition_keys:
        ending += f" PARTITIONED BY ({', '.join(map(_quoted, source.schema.partition_keys))})"
    return "\n".join([f"CREATE TABLE {_quoted(source.name)} (", ",\n".join(columns), f"{ending};"])


def not_in_spark(source: DescribedSchema) -> Iterator[ConversionLoss]:
    """Yield what the statement cannot state."""
    for field in () if source.delta is None else source.delta.fields:
        yield from _not_in_type(field.data_type, field.name)
        for key in field.metadata:
            if key.startswith("delta.identity.") or key == "delta.invariants":
                yield ConversionLoss(field.name, key, str(field.metadata[key]), "", "the statement leaves it out")


def _not_in_type(data_type: DataType, path: str) -> Iterator[ConversionLoss]:
    match data_type:
        case ArrayType(element, contains_null):
            if not contains_null:
                yield ConversionLoss(f"{path}.element", "nullability", "NOT NULL", "NULL", _NULLABLE)
            yield from _not_in_type(element, f"{path}.element")
        case MapType(key, value, value_contains_null):
            if not value_contains_null:
                yield ConversionLoss(f"{path}.value", "nullability", "NOT NULL", "NULL", _NULLABLE)
            yield from _not_in_type(key, f"{path}.key")
            yield from _not_in_type(value, f"{path}.value")
        case StructType(fields):
            for field in fields:
                yield from _not_in_type(field.data_type, f"{path}.{field.name}")
        case PrimitiveType():
            return


def _column(field: StructField) -> str:
    metadata = field.metadata
    fixed = metadata.get(CHAR_VARCHAR_KEY)
    text = f"{_quoted(field.name)} {str(fixed).upper() if isinstance(fixed, str) else _type(field.data_type)}"
    text += "" if field.nullable else " NOT NULL"
    if (expression := metadata.get(GENERATION_KEY)) is not None:
        text += f" GENERATED ALWAYS AS ({expression})"
    if (default := metadata.get(DEFAULT_KEY)) is not None:
        text += f" DEFAULT {default}"
    comment = metadata.get("comment")
    return text + (f" COMMENT {_text(comment)}" if isinstance(comment, str) else "")


def _type(data_type: DataType) -> str:
    match data_type:
        case PrimitiveType(name):
            return _SQL.get(name, name.upper())
        case ArrayType(element):
            return f"ARRAY<{_type(element)}>"
        case MapType(key, value):
            return f"MAP<{_type(key)}, {_type(value)}>"
        case StructType(fields):
            return f"STRUCT<{', '.join(map(_nested, fields))}>"


def _nested(field: StructField) -> str:
    comment = field.metadata.get("comment")
    text = f"{_quoted(field.name)}: {_type(field.data_type)}{'' if field.nullable else ' NOT NULL'}"
    return text + (f" COMMENT {_text(comment)}" if isinstance(comment, str) else "")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
