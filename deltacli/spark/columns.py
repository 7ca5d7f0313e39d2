"""The columns of a scan as the table's columns: renamed, widened, and null where a file lacks them."""

from __future__ import annotations

from typing import Any

from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType
from deltacli.spark.parquet_schema import Leaf, List, Map, Missing, Node, Part, Shape, Struct, has_missing
from deltacli.spark.spark_types import spark_type


def quoted(name: str) -> str:
    """Return a name as Spark takes it literally."""
    return "`" + name.replace("`", "``") + "`"


def read_schema(shape: Shape) -> Any:  # Any: pyspark.sql.types.StructType
    """Return what Spark reads from the files of a shape: only fields that they have, under their names there."""
    return _read_struct([part for part in shape if not isinstance(part.node, Missing)])


def _read_struct(parts: list[Part]) -> Any:
    from pyspark.sql import types

    return types.StructType([types.StructField(part.stored_name, _read_type(part.node), True) for part in parts])


def _read_type(node: Node) -> Any:
    from pyspark.sql import types

    match node:
        case Leaf(stored, _):
            return spark_type(PrimitiveType(stored))
        case Struct(parts, witness):
            present = [part for part in parts if not isinstance(part.node, Missing)]
            return _read_struct(present or ([witness] if witness is not None else []))
        case List(element):
            return types.ArrayType(_read_type(element), True)
        case Map(key, value):
            return types.MapType(_read_type(key), _read_type(value), True)
        case Missing():
            raise AssertionError("a missing field is not read")


def table_column(part: Part, data_type: DataType) -> Any:  # Any: pyspark.sql.Column
    """Return a column of the table from what was read. `data_type` is its type in the table."""
    from pyspark.sql import functions as fn

    if isinstance(part.node, Missing):
        return fn.lit(None).cast(spark_type(data_type)).alias(part.name)
    return _value(fn.col(quoted(part.stored_name)), part.node, data_type).alias(part.name)


def _value(column: Any, node: Node, data_type: DataType) -> Any:
    """Return a value in the table's type. A cast renames the fields of structs, but cannot add any."""
    wanted = spark_type(data_type)
    if not has_missing(node):
        return column if _read_type(node) == wanted else column.cast(wanted)
    from pyspark.sql import functions as fn

    match node, data_type:
        case Struct(parts, _), StructType(fields):
            values = [
                fn.lit(None).cast(spark_type(field.data_type)).alias(field.name)
                if isinstance(part.node, Missing)
                else _value(column.getField(part.stored_name), part.node, field.data_type).alias(field.name)
                for part, field in zip(parts, fields, strict=True)
            ]
            return fn.when(column.isNotNull(), fn.struct(*values))
        case List(element), ArrayType(element_type):
            return fn.transform(column, lambda each: _value(each, element, element_type))
        case Map(_, value), MapType(_, value_type):
            changed = fn.transform_values(column, lambda _, each: _value(each, value, value_type))
            return changed if _read_type(node).keyType == wanted.keyType else changed.cast(wanted)
    raise AssertionError(f"{node} cannot have the type {data_type}")
