"""Types of a table schema as types of PySpark. Spec: Schema Serialization Format; Primitive Types.

Everything is nullable, as in every scan of files. Described fields have the comments and the metadata of users: from
other metadata Spark takes field ids, defaults for missing columns, and padding of CHAR, which are not what a table's
files mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from deltacli.core.errors import Refused
from deltacli.core.typing import SparkSchema, SparkType
from deltacli.delta.schema.kinds import FIXED_TEXTS, NANOSECONDS, YEAR_MONTH, decimal_parts, interval_name
from deltacli.delta.schema.to_arrow import unread_type
from deltacli.delta.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    types_within,
)
from deltacli.delta.schema.unread_columns import note_of, read_columns, unread_columns

_NAMES = {
    "string": "StringType",
    "long": "LongType",
    "integer": "IntegerType",
    "short": "ShortType",
    "byte": "ByteType",
    "float": "FloatType",
    "double": "DoubleType",
    "boolean": "BooleanType",
    "binary": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
    "void": "NullType",
    "variant": "VariantType",
}


def spark_type(data_type: DataType, path: str = "", *, described: bool = False) -> SparkType:
    """Return a type of the table as a type of Spark: intervals are numbers of months or microseconds, as they are
    stored. Raises Refused (`type.unsupported`), naming the column.
    """
    from pyspark.sql import types

    match data_type:
        case StructType(fields):
            return spark_schema(fields, path, described=described)
        case ArrayType(element, _):
            return types.ArrayType(spark_type(element, f"{path}.element", described=described), True)
        case MapType(key, value, _):
            parts = (("key", key), ("value", value))
            return types.MapType(
                *(spark_type(part, f"{path}.{name}", described=described) for name, part in parts), True
            )
        case PrimitiveType(name):
            if digits := decimal_parts(name):
                return types.DecimalType(*digits)
            if name.startswith((*FIXED_TEXTS, "string collate ")):
                return types.StringType()
            if name in _NAMES:
                return getattr(types, _NAMES[name])()
            if interval := interval_name(name):
                return types.IntegerType() if interval == YEAR_MONTH else types.LongType()
            raise Refused(
                f"column {path} has type {name[:80]}, which this version of deltacli does not read",
                code="type.unsupported",
                facts={"column": path, "type": name[:80]},
                hint="read_table(…, columns=[…])   # the other columns",
            )


def unread_in_spark(data_type: DataType) -> str | None:
    """Return the name of the first type within a type that frames cannot have, as `unread_type` does: Spark has no
    timestamps of nanoseconds either.
    """
    names = (one.name for one in types_within(data_type) if isinstance(one, PrimitiveType))
    return unread_type(data_type) or next((name for name in names if name in NANOSECONDS), None)


def columns_for_spark(schema: StructType, columns: Sequence[str] | None) -> Sequence[str] | None:
    """Return the columns to read: the requested ones, else all. Of all, those that frames cannot have are left out,
    with a warning.
    """
    left_out = () if columns is not None else unread_columns(schema.fields, unread_in_spark)
    kept = [column.name for column in read_columns(schema.fields, unread_in_spark)]
    if not left_out or not kept:
        return columns
    warnings.warn(note_of(left_out), stacklevel=2)
    return kept


def spark_schema(fields: Iterable[StructField], path: str = "", *, described: bool = False) -> SparkSchema:
    """Return fields as a struct of Spark, under their logical names. Raises as `spark_type` does."""
    from pyspark.sql import types

    prefix = f"{path}." if path else ""
    return types.StructType(
        [
            types.StructField(
                field.name,
                spark_type(field.data_type, f"{prefix}{field.name}", described=described),
                True,
                _described(field.metadata) if described else None,
            )
            for field in fields
        ]
    )


_OF_ENGINES = ("delta.", "parquet.", "spark.", "__", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""How the names of metadata begin that engines act upon."""


def _described(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that only describes a field, as far as Spark can have it."""
    return {name: value for name, value in metadata.items() if not name.startswith(_OF_ENGINES) and _is_of_spark(value)}


def _is_of_spark(value: Any) -> bool:
    match value:
        case dict():
            return all(map(_is_of_spark, value.values()))
        case list():
            return len({type(each) for each in value}) < 2 and all(map(_is_of_spark, value))
        case int():
            return -(2**63) <= value < 2**63
        case float():
            return isfinite(value)
    return isinstance(value, str)
