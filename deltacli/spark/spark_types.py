"""Types of a table schema as types of PySpark. Spec: Schema Serialization Format; Primitive Types.

Everything is nullable, as in every scan of files, and no field has metadata: from metadata Spark takes field ids,
defaults for missing columns, and padding of CHAR, which are not what a table's files mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deltacli.delta.schema.kinds import FIXED_TEXTS, decimal_parts
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.errors import Unreadable

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


def spark_type(data_type: DataType, path: str = "") -> Any:  # Any: pyspark.sql.types.DataType
    """Return a type of the table as a type of Spark. Raises Unreadable (`schema.unknown-type`), naming the column."""
    from pyspark.sql import types

    match data_type:
        case StructType(fields):
            return spark_schema(fields, path)
        case ArrayType(element, _):
            return types.ArrayType(spark_type(element, f"{path}.element"), True)
        case MapType(key, value, _):
            return types.MapType(spark_type(key, f"{path}.key"), spark_type(value, f"{path}.value"), True)
        case PrimitiveType(name):
            if parts := decimal_parts(name):
                return types.DecimalType(*parts)
            if name.startswith((*FIXED_TEXTS, "string collate ")):
                return types.StringType()
            if name in _NAMES:
                return getattr(types, _NAMES[name])()
            raise Unreadable(
                f"column {path} has type {name[:80]}, which this version of deltacli does not read",
                code="schema.unknown-type",
                facts={"column": path, "type": name[:80]},
                hint="read_table(…, columns=[…])   # the other columns",
            )


def spark_schema(fields: Iterable[StructField], path: str = "") -> Any:  # Any: pyspark.sql.types.StructType
    """Return fields as a struct of Spark, under their logical names. Raises as `spark_type` does."""
    from pyspark.sql import types

    prefix = f"{path}." if path else ""
    return types.StructType(
        [types.StructField(field.name, spark_type(field.data_type, f"{prefix}{field.name}"), True) for field in fields]
    )


def holds(data_type: DataType, wanted: DataType) -> bool:
    """Return whether a type is another one, or has it as a part."""
    match data_type:
        case StructType(fields):
            return any(holds(field.data_type, wanted) for field in fields)
        case ArrayType(element, _):
            return holds(element, wanted)
        case MapType(key, value, _):
            return holds(key, wanted) or holds(value, wanted)
    return data_type == wanted
