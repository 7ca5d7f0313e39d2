"""Values of a translated expression: the DuckDB SQL, and its type in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from deltacli.delta.encoding.value_text import has_bytes
from deltacli.delta.schema.kinds import WHOLE_BITS, Kind, decimal_parts, value_kind
from deltacli.delta.schema.types import DataType, PrimitiveType, simple_name


class NotTranslated(Exception):
    """A text whose meaning may differ elsewhere. The message names the construct and completes a sentence."""


class Value(NamedTuple):
    """A part of an expression.

    `sql`: the DuckDB SQL, always in brackets or otherwise atomic. `number`: the exact value of a numeric literal;
    `text`: that of a string. `can_fail`: computing it may raise, so it must not be evaluated for rows where Spark does
    not evaluate it.
    """

    sql: str
    data_type: DataType
    number: Fraction | None = None
    text: str | None = None
    can_fail: bool = False

    @property
    def type_name(self) -> str:
        return simple_name(self.data_type)

    @property
    def kind(self) -> Kind:
        return value_kind(self.data_type)

    @property
    def is_null(self) -> bool:
        return self.data_type == VOID

    @property
    def is_condition(self) -> bool:
        return self.kind is Kind.BOOLEAN or self.is_null


VOID = PrimitiveType("void")
BOOLEAN = PrimitiveType("boolean")
INTEGER = PrimitiveType("integer")
LONG = PrimitiveType("long")
DOUBLE = PrimitiveType("double")
STRING = PrimitiveType("string")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
NTZ = PrimitiveType("timestamp_ntz")

_NAMES = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    # Times in UTC without a zone: a type with one needs an extension, and the zone of a session.
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
    "binary": "BLOB",
}
DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""The digits of the decimal that Spark makes of an integer."""
MAX_DIGITS = 38
_EXACT_IN_A_DOUBLE = 15
"""Decimals of so many digits are divided by a power of ten into the nearest double, in every engine."""
_EXACT_IN_A_FLOAT = 1 << 24
_MAX_LENGTH = 60_000
"""Guards repeat their operands; a text longer than this has many within each other."""


def made(sql: str, data_type: DataType, *parts: Value, can_fail: bool = False) -> Value:
    """Return a value made of others. Raises NotTranslated for one that is too long."""
    if len(sql) > _MAX_LENGTH:
        raise NotTranslated("the expression has too many nested parts")
    return Value(sql, data_type, can_fail=can_fail or any(part.can_fail for part in parts))


def joined_by_null(sql: str, data_type: DataType, *parts: Value, can_fail: bool = False) -> Value:
    """Return a value that is null if one of its parts is. DuckDB does not evaluate parts after a null, so those that
    may raise, as in Spark, are evaluated first.
    """
    whens = "".join(f"WHEN ({part.sql} IS NULL) IS NULL THEN NULL " for part in parts[1:] if part.can_fail)
    return made(f"(CASE {whens}ELSE {sql} END)" if whens else sql, data_type, *parts, can_fail=can_fail)


def duck_type(data_type: DataType) -> str:
    """Return DuckDB's name of a type. Raises NotTranslated for unsupported types."""
    if isinstance(data_type, PrimitiveType):
        name = _NAMES.get(data_type.name)
        if name is not None:
            return name
        if parts := decimal_parts(data_type.name):
            return f"DECIMAL({parts[0]},{parts[1]})"
        if value_kind(data_type) is Kind.TEXT:
            return "VARCHAR"
    raise NotTranslated(f"values of type {simple_name(data_type)} are not supported")


def decimal_type(precision: int, scale: int) -> PrimitiveType:
    """Raises NotTranslated for a decimal that Spark would truncate."""
    if precision > MAX_DIGITS:
        raise NotTranslated(f"a decimal has more than {MAX_DIGITS} digits, which engines round differently")
    return PrimitiveType(f"decimal({precision},{scale})")


def digits_of(value: Value) -> tuple[int, int]:
    """Return precision and scale of an exact number: the maximum in Spark, which gives literals fewer."""
    if value.kind is Kind.WHOLE:
        return DIGITS[value.type_name], 0
    parts = decimal_parts(value.type_name)
    assert parts is not None
    return parts


def common_type(left: Value, right: Value) -> DataType:
    """Return the common type of two values, whatever Spark's settings. Raises NotTranslated if there is none."""
    one, other = left.data_type, right.data_type
    if one == other or right.is_null:
        return one
    if left.is_null:
        return other
    kinds = {left.kind, right.kind}
    if kinds == {Kind.TEXT}:
        return STRING
    if kinds == {Kind.WHOLE}:
        return max(one, other, key=lambda data_type: WHOLE_BITS[simple_name(data_type)])
    if kinds in ({Kind.DECIMAL}, {Kind.DECIMAL, Kind.WHOLE}):
        (precision, scale), (other_precision, other_scale) = digits_of(left), digits_of(right)
        widest = max(scale, other_scale)
        return decimal_type(max(precision - scale, other_precision - other_scale) + widest, widest)
    if Kind.FLOAT in kinds and kinds <= {Kind.FLOAT, Kind.WHOLE, Kind.DECIMAL}:
        whole = next((side for side in (left, right) if side.kind is Kind.WHOLE), None)
        if whole is not None and "float" in (left.type_name, right.type_name) and not _is_small(whole):
            raise NotTranslated(
                f"a float is combined with a value of type {whole.type_name}, and the result may be float or double"
            )
        return DOUBLE
    if kinds in ({Kind.DATE, Kind.TIMESTAMP}, {Kind.DATE, Kind.NTZ}):
        return one if left.kind is not Kind.DATE else other
    raise mismatch(left, right)


def mismatch(left: Value, right: Value) -> NotTranslated:
    return NotTranslated(f"values of types {left.type_name} and {right.type_name} are combined")


def branch_type(values: Sequence[Value]) -> DataType:
    """Return the type of a value that is one of several. Raises NotTranslated."""
    common = Value("", VOID)
    for value in values:
        kinds = {common.kind, value.kind}
        if kinds == {Kind.FLOAT, Kind.WHOLE} and "float" in (common.type_name, value.type_name):
            raise mismatch(common, value)  # a float or a double, by Spark's settings
        common = Value("", common_type(common, value))
    return common.data_type


def _is_small(whole: Value) -> bool:
    if whole.number is not None:
        return abs(whole.number) <= _EXACT_IN_A_FLOAT
    return whole.type_name in ("byte", "short")


ABSENT = "absent"
"""The name of a column that is null in every row."""


def convert(value: Value, data_type: DataType) -> Value:
    """Return a value as one of a type that holds it. Raises NotTranslated."""
    if value.data_type == data_type:
        return value
    if value.is_null:
        # DuckDB does not compute what a constant null is joined with, and so would not raise where it must.
        return Value(f"(CASE WHEN {ABSENT} THEN CAST(NULL AS {duck_type(data_type)}) END)", data_type)
    if value.kind is Kind.TEXT and data_type == STRING:
        return value._replace(data_type=STRING)
    if value.kind in (Kind.DECIMAL, Kind.WHOLE) and data_type == DOUBLE:
        return _as_double(value)
    return made(f"CAST({value.sql} AS {duck_type(data_type)})", data_type, value)._replace(number=value.number)


def _as_double(value: Value) -> Value:
    if value.number is not None:
        return double_literal(float(value.number))
    if value.kind is Kind.DECIMAL and digits_of(value)[0] > _EXACT_IN_A_DOUBLE:
        raise NotTranslated(f"a value of type {value.type_name} is converted to double")
    return made(f"CAST({value.sql} AS DOUBLE)", DOUBLE, value)


def double_literal(number: float) -> Value:
    return Value(f"CAST('{number!r}' AS DOUBLE)", DOUBLE, Fraction(number))


def text_literal(text: str) -> Value:
    """Raises NotTranslated for a text that cannot be in a query."""
    if "\0" in text or not has_bytes(text):
        raise NotTranslated("a string contains a NUL byte or an incomplete character")
    quoted = text.replace("'", "''")
    return Value(f"'{quoted}'", STRING, text=text)


def failing(condition: str, sql: str, reason: str) -> str:
    """Return SQL that raises if a condition is true. The condition must not fail itself."""
    return f"(CASE WHEN {condition} THEN error('{reason}') ELSE {sql} END)"
