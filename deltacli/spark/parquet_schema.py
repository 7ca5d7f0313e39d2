"""How Spark's Parquet scan has to read the columns of a table in one file: names, types and missing fields.

Everything is nullable, as in every scan of files. Described fields have the comments and the metadata of users: from
other metadata Spark takes field ids, defaults for missing columns, and padding of CHAR, which are not what a table's
files mean.

Spark finds columns by name, and pushes filters down by name. So it is given the names and the types that the file
itself has, and the table's names and types are derived from these. Files with the same answer share one scan.

Literals are compared as values of the column's type, never as text and never in the session's time zone.

Spec: Schema Serialization Format; Primitive Types; Reader Requirements for Column Mapping; Type Widening; Delta Data
Type to Parquet Type Mappings.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isfinite
from typing import Any, TypeAlias

import pyarrow as pa

from deltacli.core.errors import Refused, quote_identifier
from deltacli.core.typing import ArrowField, ArrowScalar, ArrowType, SparkColumn, SparkSchema, SparkType
from deltacli.delta.predicate import conditions
from deltacli.delta.predicate.columns import Column
from deltacli.delta.predicate.literals import BytesLimit, FloatLimit, Limit, Order, WholeLimit, decimal_of
from deltacli.delta.schema.to_arrow import (
    drop_unsupported_columns,
    find_unsupported_columns,
    find_unsupported_type,
    note_of,
)
from deltacli.delta.schema.types import (
    FIXED_TEXTS,
    NANOSECONDS,
    WHOLE_BITS,
    YEAR_MONTH,
    ArrayType,
    DataType,
    Kind,
    MapType,
    NameIndex,
    PrimitiveType,
    StructField,
    StructType,
    decimal_parts,
    interval_name,
    types_within,
)

# -- types of a table schema as types of PySpark -----------------------------------------------------------------------

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
    """Return the first type within a type that frames cannot have; Spark has no timestamps of nanoseconds either."""
    names = (one.name for one in types_within(data_type) if isinstance(one, PrimitiveType))
    return find_unsupported_type(data_type) or next((name for name in names if name in NANOSECONDS), None)


def columns_for_spark(schema: StructType, columns: Sequence[str] | None) -> Sequence[str] | None:
    """Return the requested columns, else all that frames can have, with a warning about the others."""
    left_out = () if columns is not None else find_unsupported_columns(schema.fields, unread_in_spark)
    kept = [column.name for column in drop_unsupported_columns(schema.fields, unread_in_spark)]
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


# -- how Spark's Parquet scan has to read the columns of a table in one file -------------------------------------------

_FIELD_ID = b"PARQUET:field_id"


class NotNative(Exception):
    """Why Spark's own scan is not used; the text finishes "read by deltacli, because "."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts: `stored` is the type to read, `wanted` the table's, as in a schemaString."""

    stored: str
    wanted: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A field that the file does not have. It is null."""


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a struct: its name in the table, and in the file."""

    name: str
    stored_name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct. `witness` is a field that only shows which structs are null, where no other field is in the file."""

    parts: tuple[Part, ...]
    witness: Part | None = None


@dataclass(frozen=True, slots=True)
class List:
    element: Node


@dataclass(frozen=True, slots=True)
class Map:
    key: Node
    value: Node


Node: TypeAlias = Leaf | Missing | Struct | List | Map

Shape: TypeAlias = tuple[Part, ...]
"""The columns of a table in files of one kind, in the order in which they are needed."""


def assumed_shape(columns: Sequence[StructField], physical_name: Callable[[StructField], str]) -> Shape:
    """Return the shape of files that have every column in the table's type. Spark reads a missing one as null."""
    return tuple(
        Part(column.name, physical_name(column), _assumed(column.data_type, physical_name)) for column in columns
    )


def _assumed(data_type: DataType, physical_name: Callable[[StructField], str]) -> Node:
    match data_type:
        case PrimitiveType("void"):
            return Missing()
        case PrimitiveType(name):
            return Leaf(name, name)
        case StructType(fields):
            return Struct(assumed_shape(fields, physical_name))
        case ArrayType(element):
            return List(_assumed(element, physical_name))
        case MapType(key, value):
            return Map(_assumed(key, physical_name), _assumed(value, physical_name))


class FileShapes:
    """Finds the shape of files by their Arrow schemas. `is_case_sensitive`: how the session compares names."""

    def __init__(
        self, mapping_mode: str, physical_name: Callable[[StructField], str], *, is_case_sensitive: bool
    ) -> None:
        self._by_id = mapping_mode == "id"
        self._physical_name = physical_name
        self._is_case_sensitive = is_case_sensitive
        self._last: tuple[Any, object, object, Shape] | None = None

    def shape_of(
        self, schema: Any, int96_paths: frozenset[tuple[str, ...]], columns: Sequence[StructField]
    ) -> Shape:  # Any: an Arrow schema
        """Return the shape of a file, the same object for files in a row that are alike. Raises NotNative."""
        last = self._last
        if last is not None and last[1:3] == (int96_paths, columns) and last[0].equals(schema, check_metadata=True):
            return last[3]
        shape = tuple(part for part, _ in self._parts(schema, columns, (), int96_paths))
        self._last = schema, int96_paths, columns, shape
        return shape

    def _parts(
        self,
        fields: Iterable[Any],
        columns: Sequence[StructField],
        path: tuple[str, ...],
        int96_paths: frozenset[tuple[str, ...]],
    ) -> list[tuple[Part, int]]:
        """Return the columns among the fields of a file, each with its position there (-1: missing)."""
        found = _Siblings(fields, by_id=self._by_id)
        parts = []
        for column in columns:
            position = found.position_of(column, self._physical_name(column))
            if position < 0 or column.data_type == PrimitiveType("void"):
                if not column.nullable:
                    raise NotNative(f"column {'.'.join((*path, column.name))} is NOT NULL and missing")
                parts.append((Part(column.name, self._physical_name(column), Missing()), -1))
                continue
            field = found.fields[position]
            alike = found.names_like(field.name)
            if len(alike) > 1 and (not self._is_case_sensitive or len(set(alike)) < len(alike)):
                raise NotNative(f"names differ in case only: {', '.join(alike)[:80]}")
            node = self._node(field.type, column.data_type, (*path, field.name), int96_paths)
            parts.append((Part(column.name, field.name, node), position))
        return parts

    def _node(
        self, kind: Any, data_type: DataType, path: tuple[str, ...], int96_paths: frozenset[tuple[str, ...]]
    ) -> Node:
        from deltacli.delta.schema.file_columns import is_list

        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_null(kind):
            return Missing()
        match data_type:
            case StructType(fields) if pa.types.is_struct(kind):
                return self._struct(kind, fields, path, int96_paths)
            case ArrayType(element) if is_list(kind) and not pa.types.is_fixed_size_list(kind):
                inner = self._node(kind.value_type, element, _below(path, int96_paths), int96_paths)
                return List(_present(inner, path))
            case MapType(key, value) if pa.types.is_map(kind):
                below = _below(path, int96_paths)
                parts = [self._node(kind.key_type, key, below, int96_paths)]
                parts.append(self._node(kind.item_type, value, below, int96_paths))
                if has_missing(parts[0]):
                    raise NotNative(f"keys of {'.'.join(path)} lack a field")
                return Map(parts[0], _present(parts[1], path))
            case PrimitiveType("variant") if pa.types.is_struct(kind):
                if (unread := _not_read_in_variants(kind)) is not None:
                    raise NotNative(f"{'.'.join(path)} is shredded into {unread}")
                return Leaf("variant", "variant")
            case PrimitiveType(name) if not pa.types.is_nested(kind):
                return Leaf(_stored(kind, name, path in int96_paths, path), name)
        raise NotNative(f"{'.'.join(path)} is {str(kind)[:80]} in the file")

    def _struct(
        self, kind: Any, fields: Sequence[StructField], path: tuple[str, ...], int96_paths: frozenset[tuple[str, ...]]
    ) -> Struct:
        parts = tuple(part for part, _ in self._parts(kind, fields, path, int96_paths))
        if any(not isinstance(part.node, Missing) for part in parts):
            return Struct(parts)
        return Struct(parts, self._witness(kind, path))

    def _witness(self, kind: Any, path: tuple[str, ...]) -> Part:
        """Return a field of a struct, of which no field belongs to the table, that shows which structs are null."""
        for field in kind:
            for name, is_type in (("integer", pa.types.is_int32), ("long", pa.types.is_int64), ("string", _is_text)):
                if is_type(field.type):
                    return Part(field.name, field.name, Leaf(name, name))
        raise NotNative(f"{'.'.join(path)} has no field of the table")


def _not_read_in_variants(kind: ArrowType) -> str | None:
    """Return a type of shredded variants that Spark 4.3 refuses, if a file has one."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        fields = list(kind) if pa.types.is_struct(kind) else [kind.value_field]
        inner = (_not_read_in_variants(field.type) for field in fields)
        return next((one for one in inner if one is not None), None)
    is_nanos = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return str(kind) if is_nanos or pa.types.is_time(kind) or isinstance(kind, pa.BaseExtensionType) else None


class _Siblings:
    """The fields of a struct in a file, by id or name. Spec: Reader Requirements for Column Mapping."""

    def __init__(self, fields: Iterable[ArrowField], *, by_id: bool) -> None:
        self.fields = list(fields)
        names: list[str | None] = [field.name for field in self.fields]
        self._ids: dict[bytes, int] = {}
        for position, field in enumerate(self.fields if by_id else ()):
            file_id = (field.metadata or {}).get(_FIELD_ID)
            if file_id is not None:
                self._ids.setdefault(file_id, position)
                names[position] = None
        self._names = NameIndex(names)
        self._alike: dict[str, list[str]] = {}
        for field in self.fields:
            self._alike.setdefault(field.name.lower(), []).append(field.name)

    def names_like(self, name: str) -> list[str]:
        """Return the names of the fields that differ from a name at most in case."""
        return self._alike[name.lower()]

    def position_of(self, column: StructField, physical_name: str) -> int:
        """Return the position of a column, -1 where the file does not have it. Raises NotNative."""
        if self._ids:
            position = self._ids.get(str(column.metadata.get("delta.columnMapping.id")).encode())
            if position is not None:
                return position
        alike = self._names.places_of(physical_name)
        if len(alike) > 1:
            raise NotNative(f"column {column.name} is in the file more than once")
        return alike[0] if alike else -1


def _present(node: Node, path: tuple[str, ...]) -> Node:
    if isinstance(node, Missing):
        raise NotNative(f"{'.'.join(path)} has elements without a type")
    return node


def _below(path: tuple[str, ...], int96_paths: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """Return a path inside of a list or map; with INT96 below, it is not followed."""
    if any(leaf[: len(path)] == path for leaf in int96_paths):
        raise NotNative(f"{'.'.join(path)} has elements of type INT96")
    return (*path, "")


def has_missing(node: Node) -> bool:
    """Return True where a field within a node is not in the file, so that a cast cannot make the table's type."""
    match node:
        case Missing():
            return True
        case Leaf():
            return False
        case Struct(parts, _):
            return any(has_missing(part.node) for part in parts)
        case List(element):
            return has_missing(element)
        case Map(key, value):
            return has_missing(key) or has_missing(value)


# -- types without parts ----------------------------------------------------------------------------------------------


def _is_text(kind: ArrowType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    types = pa.types
    return bool(_is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _stored(kind: Any, name: str, is_int96: bool, path: tuple[str, ...]) -> str:
    """Return the type in which Spark reads a column of an Arrow type, for the table's type `name`. Raises NotNative.

    Only types whose values Spark reads without loss, and casts without loss, are returned.
    """
    stored = _text(kind, name) or _number(kind, name) or _time(kind, name, is_int96)
    if stored is None:
        raise NotNative(f"{'.'.join(path)} is {str(kind)[:80]} in the file")
    return stored


def _text(kind: Any, name: str) -> str | None:
    if name == "boolean" and pa.types.is_boolean(kind):
        return name
    if name == "binary" and _is_bytes(kind):
        return name
    is_text = name == "string" or name.startswith((*FIXED_TEXTS, "string collate "))
    return name if is_text and _is_bytes(kind) else None


_WHOLE = {8: "byte", 16: "short", 32: "integer", 64: "long"}


def _number(kind: Any, name: str) -> str | None:
    types = pa.types
    stored = _WHOLE[kind.bit_width] if types.is_signed_integer(kind) else None
    if name in WHOLE_BITS:
        return stored if stored is not None and kind.bit_width <= WHOLE_BITS[name] else None
    if parts := decimal_parts(name):
        if stored is not None:
            digits = {8: 3, 16: 5, 32: 10, 64: 19}[kind.bit_width]
            return stored if parts[0] - parts[1] >= digits else None
        if not types.is_decimal128(kind) or kind.scale < 0:
            return None
        fits = kind.scale <= parts[1] and kind.precision - kind.scale <= parts[0] - parts[1]
        return f"decimal({kind.precision},{kind.scale})" if fits else None
    if name in ("float", "double"):
        if types.is_float32(kind):
            return "float"
        if name == "float":
            return None
        return "double" if types.is_float64(kind) else stored if stored is not None and kind.bit_width <= 32 else None
    return None


def _time(kind: Any, name: str, is_int96: bool) -> str | None:
    types = pa.types
    if name in ("date", "timestamp_ntz") and types.is_date32(kind):
        return "date"
    if not types.is_timestamp(kind) or kind.unit not in ("us", "ms"):
        return None  # Spark refuses nanoseconds
    if name == "timestamp":
        return name
    return name if name == "timestamp_ntz" and kind.tz is None and not is_int96 else None


# -- a `where` as a condition of Spark ---------------------------------------------------------------------------------

_MOST_NTZ = 10**17
"""Microseconds (3,000 years) beyond which a timestamp without a zone is not written as a literal of Spark."""


def _unit_literal(data_type: DataType, number: int, scale: int = 0) -> SparkColumn:
    """Return a number of units as a value of a type. Raises NotNative for a timestamp_ntz that cannot be written."""
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
    is_ntz = data_type == PrimitiveType("timestamp_ntz")
    return not (is_ntz and scalar.is_valid and abs(scalar.cast(pa.int64()).as_py()) > _MOST_NTZ)


def scalar_literal(data_type: DataType, scalar: ArrowScalar) -> SparkColumn:
    """Return an Arrow scalar of a column of the table as a literal; it must have one (`has_literal`)."""
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


def spark_condition(condition: conditions.Condition) -> SparkColumn:
    """Return the condition over a frame with the table's columns. Raises NotNative for a comparison of two columns
    that Spark would make in another type.
    """
    from pyspark.sql import functions as fn

    match condition:
        case conditions.Constant(value):
            return fn.lit(value).cast("boolean")
        case conditions.Flag(column):
            return _column(column)
        case conditions.IsNull(column):
            return _column(column).isNull()
        case conditions.Like(column, pattern):
            return fn.like(_column(column), fn.lit(pattern.escaped))
        case conditions.Compare(column, order, limit):
            return _compare(column, order, limit)
        case conditions.Contained(column, limits):
            return reduce(lambda one, other: one | other, _equal_to_any(column, limits))
        case conditions.CompareColumns(left, order, right):
            return _compare_columns(left, order, right)
        case _:
            return _combined(condition)


def _combined(
    condition: conditions.Truth | conditions.CompareConditions | conditions.Not | conditions.And | conditions.Or | Any,
) -> Any:  # Any: no other condition is left
    from pyspark.sql import functions as fn

    match condition:
        case conditions.Truth(part, wanted):
            inner = spark_condition(part)
            if wanted is None:
                return inner.isNull()
            return fn.coalesce(inner if wanted else ~inner, fn.lit(False))
        case conditions.CompareConditions(left, order, right):
            return _ordered(order, spark_condition(left), spark_condition(right))
        case conditions.Not(part):
            return ~spark_condition(part)
        case conditions.And(parts):
            return reduce(lambda one, other: one & other, map(spark_condition, parts))
        case conditions.Or(parts):
            return reduce(lambda one, other: one | other, map(spark_condition, parts))
    raise AssertionError(f"unknown condition {condition}")


def _column(column: Column) -> Any:
    from pyspark.sql import functions as fn

    found = fn.col(quote_identifier(column.path[0]))
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
    from pyspark.sql import functions as fn

    return fn.when(_column(column).isNotNull(), fn.lit(answer))


def _compare(column: Column, order: Order, limit: Limit) -> Any:
    match limit:
        case WholeLimit():
            return _compare_whole(column, order, limit.value)
        case FloatLimit():
            # NaN is above every other number, but writers omit it from the bounds of a row group: the addition keeps
            # Spark from skipping row groups by them.
            from pyspark.sql import functions as fn

            return _ordered(order, _column(column).cast("double") + fn.lit(0.0), fn.lit(limit.value))
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


def _compare_columns(left: Column, order: Order, right: Column) -> Any:
    kinds = {left.kind, right.kind}
    if Kind.FLOAT in kinds and Kind.DECIMAL not in kinds:
        return _ordered(order, _column(left).cast("double"), _column(right).cast("double"))
    if kinds == {Kind.WHOLE}:
        return _ordered(order, _column(left).cast("bigint"), _column(right).cast("bigint"))
    if spark_type(left.data_type) != spark_type(right.data_type):
        raise NotNative(f"`where` compares {left.name} with {right.name}, which have different types")
    return _ordered(order, _column(left), _column(right))
