"""The leaves of a translated expression: literals with their types in Spark, and the columns that it requests."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from deltacli.core.errors import UsageError
from deltacli.delta.encoding.value_text import parse_date, parse_moment
from deltacli.delta.predicate.columns import Column, PredicateColumns
from deltacli.delta.schema.kinds import WHOLE_BITS, Kind
from deltacli.delta.schema.types import DataType, PrimitiveType, StructType, parts_of
from deltacli.delta.sql.nodes import Node
from deltacli.delta.sql.translation.values import (
    BINARY,
    BOOLEAN,
    DATE,
    INTEGER,
    LONG,
    MAX_DIGITS,
    NTZ,
    TIMESTAMP,
    VOID,
    NotTranslated,
    Value,
    double_literal,
    duck_type,
)

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
        return _whole_literal(int(f"{sign}{whole}"), PrimitiveType(_WHOLE[suffix]))
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


def _whole_literal(number: int, data_type: PrimitiveType) -> Value:
    limit = 1 << (WHOLE_BITS[data_type.name] - 1)
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
    data_type = PrimitiveType(f"decimal({precision},{-exponent})")
    return Value(f"CAST('{number:f}' AS {duck_type(data_type)})", data_type, Fraction(number))


def _float_literal(number: float, text: str) -> Value:
    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _odd_number(text) from None
    return Value(f"CAST('{_checked(single, text)!r}' AS FLOAT)", PrimitiveType("float"), Fraction(single))


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


def moment_literal(text: str, data_type: PrimitiveType) -> Value:
    """Raises NotTranslated for a text that may not be a time, or has another spelling."""
    if not MOMENT_TEXT.fullmatch(text) or parse_moment(text) is None or text.startswith("0000"):
        raise NotTranslated(f"the timestamp '{text[:40]}' is not in the form yyyy-mm-dd hh:mm:ss")
    return Value(f"CAST('{text}' AS TIMESTAMP)", data_type)


_PADDED = re.compile(r"(?<!var)char\(")
_CHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"


class Asked(NamedTuple):
    """A requested column; `is_presence`: only whether it is null, as TRUE for a value that exists."""

    column: Column
    is_presence: bool = False


class ColumnNames:
    """Gives the columns of an expression unambiguous names for DuckDB: c0, c1, …"""

    def __init__(self, text: str, schema: StructType) -> None:
        self._schema = schema
        self._finder = PredicateColumns(text, schema)
        self.asked: list[Asked] = []

    def value(self, path: tuple[str, ...], position: int) -> Value:
        """Return the values of a column. Raises NotTranslated."""
        column = self._column(path, position)
        if column.kind is Kind.TEXT:
            try:
                self._finder.require_comparable(column, position)
            except UsageError:
                raise NotTranslated(f"the column {column.name} has a collation") from None
            if self._is_padded(column):
                raise NotTranslated(f"the column {column.name} is padded with spaces")
        if not isinstance(column.data_type, PrimitiveType):
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
        data_type: DataType = self._schema
        for name in column.path:
            assert isinstance(data_type, StructType)
            field = next(field for field in data_type.fields if field.name == name)
            if _PADDED.search(str(field.metadata.get(_CHAR_KEY, ""))):
                return True
            data_type = field.data_type
        return False


def _require_plain(column: Column) -> None:
    """Raises NotTranslated for arrays and maps of anything but plain values."""
    whole = column.data_type
    parts = () if isinstance(whole, StructType) else tuple(part.data_type for part in parts_of(whole))
    is_plain = all(isinstance(part, PrimitiveType) and part.name not in ("timestamp", "void") for part in parts)
    if not parts or not is_plain:
        raise NotTranslated(f"the column {column.name} has the unsupported type {column.type_name}")
    for part in parts:
        duck_type(part)
