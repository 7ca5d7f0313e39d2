"""A `where` as a condition of Spark, with exactly the meaning it has in our own scan.

Literals are compared as values of the column's type, never as text and never in the session's time zone.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from deltacli.core.hints import in_backticks
from deltacli.core.typing import ArrowScalar, SparkColumn
from deltacli.delta.predicate.columns import Column
from deltacli.delta.predicate.compared_literals import BytesLimit, FloatLimit, Limit, Order, WholeLimit, decimal_of
from deltacli.delta.predicate.conditions import (
    And,
    Compare,
    CompareColumns,
    CompareConditions,
    Condition,
    Constant,
    Contained,
    Flag,
    IsNull,
    Like,
    Not,
    Or,
    Truth,
)
from deltacli.delta.schema.kinds import WHOLE_BITS, Kind, decimal_parts
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.spark.parquet_schema import NotNative
from deltacli.spark.spark_types import spark_type

_MOST_NTZ = 10**17
"""Microseconds (3,000 years) beyond which a timestamp without a zone is not written as a literal of Spark."""


def _unit_literal(data_type: DataType, number: int, scale: int = 0) -> SparkColumn:
    """Return a number of units as a value of a type: days, microseconds, or the last digits of a decimal.

    Raises NotNative for a timestamp_ntz that cannot be written.
    """
    from pyspark.sql import functions as fn

    match data_type:
        case PrimitiveType("date"):
            return fn.date_from_unix_date(fn.lit(number))
        case PrimitiveType("timestamp"):
            return fn.timestamp_micros(fn.lit(number).cast("bigint"))
        case PrimitiveType("timestamp_ntz"):
            if abs(number) > _MOST_NTZ:
                raise NotNative("Spark has no literal for a timestamp_ntz so far from 1970")
            seconds = decimal_of(number, 6)
            return fn.expr(f"timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {seconds:f})")
        case PrimitiveType(name) if name.startswith("decimal"):
            return fn.lit(decimal_of(number, scale)).cast(spark_type(data_type))
    return fn.lit(number).cast(spark_type(data_type))


def has_literal(data_type: DataType, scalar: ArrowScalar) -> bool:
    """Return whether `scalar_literal` can write a scalar."""
    import pyarrow as pa

    is_ntz = data_type == PrimitiveType("timestamp_ntz")
    return not (is_ntz and scalar.is_valid and abs(scalar.cast(pa.int64()).as_py()) > _MOST_NTZ)


def scalar_literal(data_type: DataType, scalar: ArrowScalar) -> SparkColumn:
    """Return an Arrow scalar of a column of the table as a literal; it must have one (`has_literal`)."""
    import pyarrow as pa
    from pyspark.sql import functions as fn

    wanted = spark_type(data_type)
    if not scalar.is_valid:
        return fn.lit(None).cast(wanted)
    if pa.types.is_date32(scalar.type):
        return _unit_literal(data_type, scalar.cast(pa.int32()).as_py())
    if pa.types.is_timestamp(scalar.type):
        return _unit_literal(data_type, scalar.cast(pa.int64()).as_py())
    plain = scalar.as_py()
    return fn.lit(bytearray(plain) if isinstance(plain, bytes) else plain).cast(wanted)


_DATE_BITS, _TIME_BITS = 32, 64


def spark_condition(condition: Condition) -> SparkColumn:
    """Return the condition over a frame with the table's columns. Raises NotNative for a comparison of two columns
    that Spark would make in another type.
    """
    from pyspark.sql import functions as fn

    match condition:
        case Constant(value):
            return fn.lit(value).cast("boolean")
        case Flag(column):
            return _column(column)
        case IsNull(column):
            return _column(column).isNull()
        case Like(column, pattern):
            return fn.like(_column(column), fn.lit(pattern.escaped))
        case Compare(column, order, limit):
            return _compare(column, order, limit)
        case Contained(column, limits):
            return reduce(lambda one, other: one | other, _equal_to_any(column, limits))
        case CompareColumns(left, order, right):
            return _compare_columns(left, order, right)
        case _:
            return _combined(condition)


def _combined(condition: Truth | CompareConditions | Not | And | Or | Any) -> Any:  # Any: no other condition is left
    from pyspark.sql import functions as fn

    match condition:
        case Truth(part, wanted):
            inner = spark_condition(part)
            if wanted is None:
                return inner.isNull()
            return fn.coalesce(inner if wanted else ~inner, fn.lit(False))
        case CompareConditions(left, order, right):
            return _ordered(order, spark_condition(left), spark_condition(right))
        case Not(part):
            return ~spark_condition(part)
        case And(parts):
            return reduce(lambda one, other: one & other, map(spark_condition, parts))
        case Or(parts):
            return reduce(lambda one, other: one | other, map(spark_condition, parts))
    raise AssertionError(f"unknown condition {condition}")


def _column(column: Column) -> Any:
    from pyspark.sql import functions as fn

    found = fn.col(in_backticks(column.path[0]))
    for name in column.path[1:]:
        found = found.getField(name)
    return found


def _ordered(order: Order, left: Any, right: Any) -> Any:
    match order:
        case Order.LESS:
            return left < right
        case Order.LESS_EQUAL:
            return left <= right
    return left == right


def _constant(column: Column, answer: bool) -> Any:
    """Return one answer for every value of a column, null where it is null."""
    from pyspark.sql import functions as fn

    return fn.when(_column(column).isNotNull(), fn.lit(answer))


def _compare(column: Column, order: Order, limit: Limit) -> Any:
    match limit:
        case WholeLimit():
            return _compare_whole(column, order, limit.value)
        case FloatLimit():
            return _compare_double(column, order, limit.value)
        case BytesLimit():
            return _ordered(order, _column(column), _bytes(limit))
    raise AssertionError(f"unknown limit {limit}")


def _bytes(limit: BytesLimit) -> Any:
    from pyspark.sql import functions as fn

    return fn.lit(limit.value if limit.is_text else bytearray(limit.value))


def _equal_to_any(column: Column, limits: tuple[Limit, ...]) -> list[Any]:
    """Return conditions, one of which is true where a column is equal to one of the limits."""
    texts = [_bytes(limit) for limit in limits if isinstance(limit, BytesLimit)]
    if len(texts) == len(limits):
        return [_column(column).isin(texts)]
    wholes = [limit.value for limit in limits if isinstance(limit, WholeLimit)]
    if len(wholes) < len(limits):
        return [_compare(column, Order.EQUAL, limit) for limit in limits]
    least, greatest = _range(column)
    fitting = [number for number in map(_whole, wholes) if number is not None and least <= number <= greatest]
    return (
        [_column(column).isin([_unit(column, number) for number in fitting])] if fitting else [_constant(column, False)]
    )


def _whole(value: Any) -> int | None:  # Any: a Fraction, or a float that is infinite or NaN
    return None if isinstance(value, float) or value.denominator != 1 else int(value.numerator)


def _compare_whole(column: Column, order: Order, value: Any) -> Any:
    """Compare a column of whole numbers of a unit with a fraction of it."""
    if isinstance(value, float):
        return _constant(column, order is not Order.EQUAL and not value < 0)
    least, greatest = _range(column)
    if order is Order.EQUAL:
        number = _whole(value)
        if number is None or not least <= number <= greatest:
            return _constant(column, False)
        return _column(column) == _unit(column, number)
    most = math.ceil(value) - 1 if order is Order.LESS else math.floor(value)
    if most < least or most >= greatest:
        return _constant(column, most >= greatest)
    return _column(column) <= _unit(column, most)


def _range(column: Column) -> tuple[int, int]:
    """Return the least and the greatest value of a column, in its unit."""
    if column.kind is Kind.DECIMAL:
        parts = decimal_parts(column.type_name)
        assert parts is not None
        return -(10 ** parts[0]) + 1, 10 ** parts[0] - 1
    bits = {Kind.DATE: _DATE_BITS, Kind.TIMESTAMP: _TIME_BITS, Kind.NTZ: _TIME_BITS}.get(column.kind)
    bits = bits or WHOLE_BITS[column.type_name]
    return -(1 << bits - 1), (1 << bits - 1) - 1


def _unit(column: Column, number: int) -> Any:
    """Return a literal of a column's type: so many of its units."""
    return _unit_literal(column.data_type, number, column.scale)


def _compare_double(column: Column, order: Order, value: float) -> Any:
    """Compare doubles. NaN is above every other number, but writers omit it from the bounds of a row group: the
    addition keeps Spark from skipping row groups by them.
    """
    from pyspark.sql import functions as fn

    return _ordered(order, _column(column).cast("double") + fn.lit(0.0), fn.lit(value))


def _compare_columns(left: Column, order: Order, right: Column) -> Any:
    kinds = {left.kind, right.kind}
    if Kind.FLOAT in kinds and Kind.DECIMAL not in kinds:
        return _ordered(order, _column(left).cast("double"), _column(right).cast("double"))
    if kinds == {Kind.WHOLE}:
        return _ordered(order, _column(left).cast("bigint"), _column(right).cast("bigint"))
    if spark_type(left.data_type) != spark_type(right.data_type):
        raise NotNative(f"`where` compares {left.name} with {right.name}, which have different types")
    return _ordered(order, _column(left), _column(right))
