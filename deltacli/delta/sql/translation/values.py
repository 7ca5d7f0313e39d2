"""Values and leaves of a translated expression: DuckDB SQL with its type in Spark, literals and columns."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from deltacli.core.errors import UsageError
from deltacli.core.texts import is_utf8_encodable
from deltacli.delta.encoding.value_text import parse_date, parse_moment
from deltacli.delta.predicate.columns import Column, PredicateColumns
from deltacli.delta.schema import types
from deltacli.delta.sql.parser import Node


class NotTranslated(Exception):
    """A text whose meaning may differ elsewhere. The message names the construct and completes a sentence."""


class Value(NamedTuple):
    """A part of an expression.

    `sql`: the DuckDB SQL, always in brackets or otherwise atomic. `number`: the exact value of a numeric literal;
    `text`: that of a string. `can_fail`: computing it may raise, so it must not be evaluated for rows where Spark does
    not evaluate it.
    """

    sql: str
    data_type: types.DataType
    number: Fraction | None = None
    text: str | None = None
    can_fail: bool = False

    @property
    def type_name(self) -> str:
        return types.simple_name(self.data_type)

    @property
    def kind(self) -> types.Kind:
        return types.value_kind(self.data_type)

    @property
    def is_null(self) -> bool:
        return self.data_type == VOID

    @property
    def is_condition(self) -> bool:
        return self.kind is types.Kind.BOOLEAN or self.is_null


VOID = types.PrimitiveType("void")
BOOLEAN = types.PrimitiveType("boolean")
INTEGER = types.PrimitiveType("integer")
LONG = types.PrimitiveType("long")
DOUBLE = types.PrimitiveType("double")
STRING = types.PrimitiveType("string")
BINARY = types.PrimitiveType("binary")
DATE = types.PrimitiveType("date")
TIMESTAMP = types.PrimitiveType("timestamp")
NTZ = types.PrimitiveType("timestamp_ntz")

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


def made(sql: str, data_type: types.DataType, *parts: Value, can_fail: bool = False) -> Value:
    """Return a value made of others. Raises NotTranslated for one that is too long."""
    if len(sql) > _MAX_LENGTH:
        raise NotTranslated("the expression has too many nested parts")
    return Value(sql, data_type, can_fail=can_fail or any(part.can_fail for part in parts))


def joined_by_null(sql: str, data_type: types.DataType, *parts: Value, can_fail: bool = False) -> Value:
    """Return a value that is null if one of its parts is. DuckDB does not evaluate parts after a null, so those that
    may raise, as in Spark, are evaluated first.
    """
    whens = "".join(f"WHEN ({part.sql} IS NULL) IS NULL THEN NULL " for part in parts[1:] if part.can_fail)
    return made(f"(CASE {whens}ELSE {sql} END)" if whens else sql, data_type, *parts, can_fail=can_fail)


def duck_type(data_type: types.DataType) -> str:
    """Return DuckDB's name of a type. Raises NotTranslated for unsupported types."""
    if isinstance(data_type, types.PrimitiveType):
        name = _NAMES.get(data_type.name)
        if name is not None:
            return name
        if parts := types.decimal_parts(data_type.name):
            return f"DECIMAL({parts[0]},{parts[1]})"
        if types.value_kind(data_type) is types.Kind.TEXT:
            return "VARCHAR"
    raise NotTranslated(f"values of type {types.simple_name(data_type)} are not supported")


def decimal_type(precision: int, scale: int) -> types.PrimitiveType:
    """Raises NotTranslated for a decimal that Spark would truncate."""
    if precision > MAX_DIGITS:
        raise NotTranslated(f"a decimal has more than {MAX_DIGITS} digits, which engines round differently")
    return types.PrimitiveType(f"decimal({precision},{scale})")


def digits_of(value: Value) -> tuple[int, int]:
    """Return precision and scale of an exact number: the maximum in Spark, which gives literals fewer."""
    if value.kind is types.Kind.WHOLE:
        return DIGITS[value.type_name], 0
    parts = types.decimal_parts(value.type_name)
    assert parts is not None
    return parts


def common_type(left: Value, right: Value) -> types.DataType:
    """Return the common type of two values, whatever Spark's settings. Raises NotTranslated if there is none."""
    one, other = left.data_type, right.data_type
    if one == other or right.is_null:
        return one
    if left.is_null:
        return other
    kinds = {left.kind, right.kind}
    if kinds == {types.Kind.TEXT}:
        return STRING
    if kinds == {types.Kind.WHOLE}:
        return max(one, other, key=lambda data_type: types.WHOLE_BITS[types.simple_name(data_type)])
    if kinds in ({types.Kind.DECIMAL}, {types.Kind.DECIMAL, types.Kind.WHOLE}):
        (precision, scale), (other_precision, other_scale) = digits_of(left), digits_of(right)
        widest = max(scale, other_scale)
        return decimal_type(max(precision - scale, other_precision - other_scale) + widest, widest)
    if types.Kind.FLOAT in kinds and kinds <= {types.Kind.FLOAT, types.Kind.WHOLE, types.Kind.DECIMAL}:
        whole = next((side for side in (left, right) if side.kind is types.Kind.WHOLE), None)
        if whole is not None and "float" in (left.type_name, right.type_name) and not _is_small(whole):
            raise NotTranslated(
                f"a float is combined with a value of type {whole.type_name}, and the result may be float or double"
            )
        return DOUBLE
    if kinds in ({types.Kind.DATE, types.Kind.TIMESTAMP}, {types.Kind.DATE, types.Kind.NTZ}):
        return one if left.kind is not types.Kind.DATE else other
    raise mismatch(left, right)


def mismatch(left: Value, right: Value) -> NotTranslated:
    return NotTranslated(f"values of types {left.type_name} and {right.type_name} are combined")


def branch_type(values: Sequence[Value]) -> types.DataType:
    """Return the type of a value that is one of several. Raises NotTranslated."""
    common = Value("", VOID)
    for value in values:
        kinds = {common.kind, value.kind}
        if kinds == {types.Kind.FLOAT, types.Kind.WHOLE} and "float" in (common.type_name, value.type_name):
            raise mismatch(common, value)  # a float or a double, by Spark's settings
        common = Value("", common_type(common, value))
    return common.data_type


def _is_small(whole: Value) -> bool:
    if whole.number is not None:
        return abs(whole.number) <= _EXACT_IN_A_FLOAT
    return whole.type_name in ("byte", "short")


ABSENT = "absent"
"""The name of a column that is null in every row."""


def convert(value: Value, data_type: types.DataType) -> Value:
    """Return a value as one of a type that holds it. Raises NotTranslated."""
    if value.data_type == data_type:
        return value
    if value.is_null:
        # DuckDB does not compute what a constant null is joined with, and so would not raise where it must.
        return Value(f"(CASE WHEN {ABSENT} THEN CAST(NULL AS {duck_type(data_type)}) END)", data_type)
    if value.kind is types.Kind.TEXT and data_type == STRING:
        return value._replace(data_type=STRING)
    if value.kind in (types.Kind.DECIMAL, types.Kind.WHOLE) and data_type == DOUBLE:
        return _as_double(value)
    return made(f"CAST({value.sql} AS {duck_type(data_type)})", data_type, value)._replace(number=value.number)


def _as_double(value: Value) -> Value:
    if value.number is not None:
        return double_literal(float(value.number))
    if value.kind is types.Kind.DECIMAL and digits_of(value)[0] > _EXACT_IN_A_DOUBLE:
        raise NotTranslated(f"a value of type {value.type_name} is converted to double")
    return made(f"CAST({value.sql} AS DOUBLE)", DOUBLE, value)


def double_literal(number: float) -> Value:
    return Value(f"CAST('{number!r}' AS DOUBLE)", DOUBLE, Fraction(number))


def text_literal(text: str) -> Value:
    """Raises NotTranslated for a text that cannot be in a query."""
    if "\0" in text or not is_utf8_encodable(text):
        raise NotTranslated("a string contains a NUL byte or an incomplete character")
    quoted = text.replace("'", "''")
    return Value(f"'{quoted}'", STRING, text=text)


def failing(condition: str, sql: str, reason: str) -> str:
    """Return SQL that raises if a condition is true. The condition must not fail itself."""
    return f"(CASE WHEN {condition} THEN error('{reason}') ELSE {sql} END)"


# -- the leaves of a translated expression -----------------------------------------------------------------------------

NULL = Value("NULL", VOID)
_NUMBER = re.compile(r"([0-9]*)(\.?)([0-9]*)(?:E([+-]?[0-9]{1,3}))?(BD|[LSYDF])?", re.IGNORECASE)
_WHOLE = {"L": "long", "S": "short", "Y": "byte"}
_MAX_TEXT = 400

DATE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
MOMENT_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
"""The spellings that every engine reads the same."""


def condition_literal(value: bool) -> Value:
    return Value("TRUE" if value else "FALSE", BOOLEAN)


def number_literal(text: str, *, is_negative: bool = False) -> Value:
    """Return a number as written, with its sign. Raises NotTranslated."""
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise _odd_number(text)
    whole, point, fraction, exponent, suffix = (part or "" for part in match.groups())
    sign = "-" if is_negative else ""
    suffix = suffix.upper()
    if suffix in _WHOLE:
        return _whole_literal(int(f"{sign}{whole}"), types.PrimitiveType(_WHOLE[suffix]))
    bare = f"{sign}{whole or '0'}{point}{fraction}{f'e{exponent}' if exponent else ''}"
    if suffix == "BD" or (suffix == "" and point and not exponent):
        return _decimal_literal(Decimal(bare), text)
    if suffix == "F":
        return _float_literal(float(bare), text)
    if suffix == "D" or exponent:
        return double_literal(_checked(float(bare), text))
    number = int(bare)
    # A sign belongs to the number, or is before it in brackets: the least of a type is either of two types.
    if is_negative and -number in (1 << 31, 1 << 63):
        raise _odd_number(f"-{text}")
    if -(1 << 31) <= number < 1 << 31:
        return _whole_literal(number, INTEGER)
    return _whole_literal(number, LONG) if -(1 << 63) <= number < 1 << 63 else _decimal_literal(Decimal(number), text)


def _whole_literal(number: int, data_type: types.PrimitiveType) -> Value:
    limit = 1 << (types.WHOLE_BITS[data_type.name] - 1)
    if not -limit < number < limit:
        raise _odd_number(str(number))
    return Value(f"CAST({number} AS {duck_type(data_type)})", data_type, Fraction(number))


def _decimal_literal(number: Decimal, text: str) -> Value:
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        raise _odd_number(text)
    precision = max(len(digits), -exponent)
    if precision > MAX_DIGITS:
        raise _odd_number(text)
    data_type = types.PrimitiveType(f"decimal({precision},{-exponent})")
    return Value(f"CAST('{number:f}' AS {duck_type(data_type)})", data_type, Fraction(number))


def _float_literal(number: float, text: str) -> Value:
    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _odd_number(text) from None
    return Value(f"CAST('{_checked(single, text)!r}' AS FLOAT)", types.PrimitiveType("float"), Fraction(single))


def _checked(number: float, text: str) -> float:
    """Raises NotTranslated for a number that is infinite, or zero although digits say otherwise."""
    is_lost = number == 0 and re.search("[1-9]", text.lower().split("e")[0])
    if not math.isfinite(number) or is_lost:
        raise _odd_number(text)
    return number


def _odd_number(text: str) -> NotTranslated:
    return NotTranslated(f"the number {text[:40]} is not supported")


def typed_literal(node: Node) -> tuple[Value, bool]:
    """A `DATE '…'`, `TIMESTAMP '…'` or `X'…'`, and whether it depends on a session's zone. Raises NotTranslated."""
    text = node.parts[0].value
    match node.name:
        case "date":
            return date_literal(text), False
        case "timestamp" | "timestamp_ltz":
            return moment_literal(text, TIMESTAMP), True
        case "timestamp_ntz":
            return moment_literal(text, NTZ), False
        case "x" if re.fullmatch("([0-9a-fA-F]{2})*", text):
            return Value(f"unhex('{text}')", BINARY), False
    raise NotTranslated(f"the literal {node.name} '{text[:40]}' is not supported")


def date_literal(text: str) -> Value:
    """Raises NotTranslated for a text that may not be a date, or has another spelling."""
    if not DATE_TEXT.fullmatch(text) or parse_date(text) is None or text.startswith("0000"):
        raise NotTranslated(f"the date '{text[:40]}' is not in the form yyyy-mm-dd")
    return Value(f"CAST('{text}' AS DATE)", DATE)


def moment_literal(text: str, data_type: types.PrimitiveType) -> Value:
    """Raises NotTranslated for a text that may not be a time, or has another spelling."""
    if not MOMENT_TEXT.fullmatch(text) or parse_moment(text) is None or text.startswith("0000"):
        raise NotTranslated(f"the timestamp '{text[:40]}' is not in the form yyyy-mm-dd hh:mm:ss")
    return Value(f"CAST('{text}' AS TIMESTAMP)", data_type)


_PADDED = re.compile(r"(?<!var)char\(")


class Asked(NamedTuple):
    """A requested column; `is_presence`: only whether it is null, as TRUE for a value that exists."""

    column: Column
    is_presence: bool = False


class ColumnNames:
    """Gives the columns of an expression unambiguous names for DuckDB: c0, c1, …"""

    def __init__(self, text: str, schema: types.StructType) -> None:
        self._schema = schema
        self._finder = PredicateColumns(text, schema)
        self.asked: list[Asked] = []

    def value(self, path: tuple[str, ...], position: int) -> Value:
        """Return the values of a column. Raises NotTranslated."""
        column = self._column(path, position)
        if self._finder.is_collated(column):
            raise NotTranslated(f"the column {column.name} has a collation")
        may_hold_text = column.kind is types.Kind.TEXT or not isinstance(column.data_type, types.PrimitiveType)
        if may_hold_text and self._is_padded(column):
            raise NotTranslated(f"the column {column.name} is padded with spaces")
        if not isinstance(column.data_type, types.PrimitiveType):
            _require_plain(column)
        elif column.data_type.name != "void":
            duck_type(column.data_type)
        return Value(self._name(Asked(column)), column.data_type)

    def presence(self, path: tuple[str, ...], position: int) -> Value:
        """Return a value that is null where the column is. Raises NotTranslated."""
        return Value(self._name(Asked(self._column(path, position), is_presence=True)), BOOLEAN)

    def _column(self, path: tuple[str, ...], position: int) -> Column:
        try:
            return self._finder.find(path, position)
        except UsageError as fault:
            unread = fault.facts.get("type")
            why = "is not a column or is ambiguous" if unread is None else f"has type {unread}, which is not read"
            raise NotTranslated(f"{'.'.join(path)[:120]} {why}") from None

    def _name(self, asked: Asked) -> str:
        if asked not in self.asked:
            self.asked.append(asked)
        return f"c{self.asked.index(asked)}"

    def _is_padded(self, column: Column) -> bool:
        """Return True for CHAR(n), at the column or around it."""
        if _PADDED.match(column.type_name):
            return True
        data_type: types.DataType = self._schema
        for name in column.path:
            assert isinstance(data_type, types.StructType)
            field = next(field for field in data_type.fields if field.name == name)
            if types.declared_type(field) is not None and types.is_padded(field):
                return True
            data_type = field.data_type
        return False


def _require_plain(column: Column) -> None:
    """Raises NotTranslated for arrays and maps of anything but plain values."""
    whole = column.data_type
    parts = () if isinstance(whole, types.StructType) else tuple(part.data_type for part in types.parts_of(whole))
    is_plain = all(isinstance(part, types.PrimitiveType) and part.name not in ("timestamp", "void") for part in parts)
    if not parts or not is_plain:
        raise NotTranslated(f"the column {column.name} has the unsupported type {column.type_name}")
    for part in parts:
        duck_type(part)
