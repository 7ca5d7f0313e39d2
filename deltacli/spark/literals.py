"""Literals of Spark in a type of the table, built without text that a session could read in its own way."""

from __future__ import annotations

from typing import Any

from deltacli.delta.predicate.limits import decimal_of
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.spark.parquet_schema import NotNative
from deltacli.spark.spark_types import spark_type

_MOST_NTZ = 10**17
"""Microseconds (3,000 years) beyond which a timestamp without a zone is not written as a literal of Spark."""


def unit_literal(data_type: DataType, number: int, scale: int = 0) -> Any:  # Any: pyspark.sql.Column
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


def scalar_literal(data_type: DataType, scalar: Any) -> Any:  # Any: an Arrow scalar in, a pyspark.sql.Column out
    """Return an Arrow scalar of a column of the table as a literal. Raises NotNative as `unit_literal` does."""
    import pyarrow as pa
    from pyspark.sql import functions as fn

    wanted = spark_type(data_type)
    if not scalar.is_valid:
        return fn.lit(None).cast(wanted)
    if pa.types.is_date32(scalar.type):
        return unit_literal(data_type, scalar.cast(pa.int32()).as_py())
    if pa.types.is_timestamp(scalar.type):
        return unit_literal(data_type, scalar.cast(pa.int64()).as_py())
    plain = scalar.as_py()
    return fn.lit(bytearray(plain) if isinstance(plain, bytes) else plain).cast(wanted)
