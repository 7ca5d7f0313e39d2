"""The columns of a scan as the table's columns: renamed, widened, and null where a file lacks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.hints import in_backticks
from deltacli.spark.parquet_schema import Leaf, List, Map, Missing, Node, Part, Shape, Struct, has_missing
from deltacli.spark.spark_types import spark_schema, spark_type


def read_schema(shape: Shape, types: Mapping[str, DataType]) -> Any:  # Any: pyspark.sql.types.StructType
    """Return what Spark reads from the files of a shape: only fields that they have, under their names there.

    `types` are those of the table. A column that is read in such a type has the metadata of the fields in it.
    """
    from pyspark.sql.types import StructField, StructType

    def type_of(part: Part) -> Any:
        wanted = types[part.name]
        return spark_type(wanted, described=True) if is_as_wanted(part, wanted) else _read_type(part.node)

    present = [part for part in shape if not isinstance(part.node, Missing)]
    return StructType([StructField(part.stored_name, type_of(part), True) for part in present])


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


def with_metadata(frame: Any, columns: Sequence[StructField]) -> Any:  # Any: a DataFrame
    """Return a frame with the comments and the other metadata of columns, as delta-spark has them."""
    schema = spark_schema(columns, described=True)
    if not any(field.metadata for field in schema):
        return frame
    if all(isinstance(column.data_type, PrimitiveType) for column in columns):
        return frame.to(schema)  # one call for all; but it takes structs apart, and keeps filters from the scan
    from pyspark.sql import functions as fn

    return frame.select(
        *(
            fn.col(in_backticks(field.name)).alias(field.name, metadata=field.metadata)
            if field.metadata
            else in_backticks(field.name)
            for field in schema
        )
    )


def is_as_wanted(part: Part, data_type: DataType) -> bool:
    """Return whether a column is read in the table's type, whatever its name."""
    return not has_missing(part.node) and _read_type(part.node) == spark_type(data_type)


def table_column(part: Part, data_type: DataType) -> Any:  # Any: pyspark.sql.Column, or a name
    """Return a column of the table from what was read. `data_type` is its type in the table."""
    from pyspark.sql import functions as fn

    if isinstance(part.node, Missing):
        return fn.lit(None).cast(spark_type(data_type, described=True)).alias(part.name)
    if part.name == part.stored_name and is_as_wanted(part, data_type):
        return in_backticks(part.name)  # a column of Spark takes 20 calls of Java
    found = _value(fn.col(in_backticks(part.stored_name)), part.node, data_type)
    described = spark_type(data_type, described=True)
    if has_missing(part.node) and described != spark_type(data_type):
        found = found.cast(described)
    return found.alias(part.name)


def _value(column: Any, node: Node, data_type: DataType) -> Any:
    """Return a value in the table's type. A cast renames the fields of structs, but cannot add any."""
    wanted = spark_type(data_type)
    if not has_missing(node):
        return column if _read_type(node) == wanted else column.cast(spark_type(data_type, described=True))
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
