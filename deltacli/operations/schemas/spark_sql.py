"""Types of Delta in Spark SQL."""

from __future__ import annotations

from deltacli.core.hints import in_backticks
from deltacli.delta.schema import types as delta

_SQL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def spark_sql(data_type: delta.DataType) -> str:
    """Return a type of Delta as in Spark SQL: `STRUCT<`a`: INT NOT NULL>`."""
    match data_type:
        case delta.PrimitiveType(name):
            return _SQL.get(name, name.upper())
        case delta.ArrayType(element):
            return f"ARRAY<{spark_sql(element)}>"
        case delta.MapType(key, value):
            return f"MAP<{spark_sql(key)}, {spark_sql(value)}>"
        case delta.StructType(fields):
            return f"STRUCT<{', '.join(map(_nested, fields))}>"


def _nested(field: delta.StructField) -> str:
    comment = field.metadata.get("comment")
    text = f"{in_backticks(field.name)}: {spark_sql(field.data_type)}{'' if field.nullable else ' NOT NULL'}"
    return text + (f" COMMENT {sql_literal(comment)}" if isinstance(comment, str) else "")


def sql_literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
