"""Operators on numbers and strings, and comparisons: equal in every engine, or not translated.

DuckDB raises where Spark would overflow, or raise itself under ANSI. Division by zero is made to raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import PrimitiveType
from deltacli.delta.sql.translation.leaves import date_literal, moment_literal, number_literal
from deltacli.delta.sql.translation.values import (
    BOOLEAN,
    DOUBLE,
    LONG,
    NTZ,
    STRING,
    TIMESTAMP,
    NotTranslated,
    Value,
    common_type,
    convert,
    decimal_type,
    digits_of,
    duck_type,
    failing,
    joined_by_null,
    made,
    mismatch,
)

EXACT = frozenset({Kind.WHOLE, Kind.DECIMAL})
_NUMBERS = frozenset({*EXACT, Kind.FLOAT})


def arithmetic(name: str, left: Value, right: Value) -> Value:
    """`left name right`. Raises NotTranslated."""
    if not {left.kind, right.kind} <= _NUMBERS:
        raise NotTranslated(f"{name} is not supported for types {left.type_name} and {right.type_name}")
    kinds = {left.kind, right.kind}
    if kinds == {Kind.FLOAT, Kind.WHOLE} and "float" in (left.type_name, right.type_name):
        raise mismatch(left, right)  # computed as floats or as doubles, depending on Spark's settings
    if name in ("/", "%", "div"):
        return _divided(name, left, right)
    if kinds <= EXACT and Kind.DECIMAL in kinds:
        return _decimal(name, left, right)
    data_type = common_type(left, right)
    one, other = convert(left, data_type), convert(right, data_type)
    sql = f"({one.sql} {name} {other.sql})"
    if data_type != DOUBLE:
        sql = f"CAST({sql} AS {duck_type(data_type)})"
    return joined_by_null(sql, data_type, one, other, can_fail=True)


def _decimal(name: str, left: Value, right: Value) -> Value:
    (precision, scale), (other_precision, other_scale) = digits_of(left), digits_of(right)
    if name == "*":
        data_type = decimal_type(precision + other_precision + 1, scale + other_scale)
        sides = [convert(side, decimal_type(*digits_of(side))) for side in (left, right)]
    else:
        widest = max(scale, other_scale)
        before = max(precision - scale, other_precision - other_scale)
        data_type = decimal_type(before + widest + 1, widest)
        sides = [convert(side, data_type) for side in (left, right)]
    sql = f"CAST(({sides[0].sql} {name} {sides[1].sql}) AS {duck_type(data_type)})"
    return joined_by_null(sql, data_type, *sides, can_fail=True)


def _divided(name: str, left: Value, right: Value) -> Value:
    if Kind.DECIMAL in (left.kind, right.kind) and Kind.FLOAT not in (left.kind, right.kind):
        raise NotTranslated(f"dividing decimals by {name} is not supported, because it rounds")
    kinds = {left.kind, right.kind}
    if name == "div":
        if kinds != {Kind.WHOLE}:
            raise NotTranslated("DIV requires integers")
        return _guarded("//", convert(left, LONG), convert(right, LONG))
    if name == "/":
        return _guarded("/", convert(left, DOUBLE), convert(right, DOUBLE))
    if kinds != {Kind.WHOLE}:
        raise NotTranslated("% requires integers")
    data_type = common_type(left, right)
    return _guarded("%", convert(left, data_type), convert(right, data_type))


def _guarded(name: str, left: Value, right: Value) -> Value:
    sql = f"({left.sql} {name} {right.sql})"
    if right.number is None or right.number == 0:
        sql = failing(f"{right.sql} = 0", sql, "division by zero")
    return joined_by_null(sql, left.data_type, left, right, can_fail=True)


def positive_remainder(left: Value, right: Value) -> Value:
    """PMOD: a remainder that takes the sign of a positive divisor."""
    rest = arithmetic("%", left, right)
    if rest.type_name not in ("integer", "long"):
        raise NotTranslated("PMOD requires integers")
    shifted = arithmetic("%", arithmetic("+", rest, right), right)
    return made(f"(CASE WHEN {rest.sql} < 0 THEN {shifted.sql} ELSE {rest.sql} END)", rest.data_type, rest, shifted)


def negative(value: Value) -> Value:
    """`- value`."""
    if value.kind not in _NUMBERS:
        raise NotTranslated(f"unary - is not supported for type {value.type_name}")
    sql = f"CAST((- {value.sql}) AS {duck_type(value.data_type)})"
    return made(sql, value.data_type, value, can_fail=True)


def bitwise(name: str, left: Value, right: Value) -> Value:
    """`left & right` and its like."""
    if {left.kind, right.kind} != {Kind.WHOLE}:
        raise NotTranslated(f"{name} requires integers")
    data_type = common_type(left, right)
    one, other = convert(left, data_type), convert(right, data_type)
    sql = f"xor({one.sql}, {other.sql})" if name == "^" else f"({one.sql} {name} {other.sql})"
    return joined_by_null(f"CAST({sql} AS {duck_type(data_type)})", data_type, one, other)


def inverted_bits(value: Value) -> Value:
    if value.kind is not Kind.WHOLE:
        raise NotTranslated(f"~ is not supported for type {value.type_name}")
    return made(f"CAST((~ {value.sql}) AS {duck_type(value.data_type)})", value.data_type, value)


def joined(values: list[Value]) -> Value:
    """Strings after each other, null if one is."""
    for value in values:
        if value.kind is not Kind.TEXT and not value.is_null:
            raise NotTranslated(f"a value of type {value.type_name} is concatenated with a string")
    sides = [convert(value, STRING) for value in values]
    return joined_by_null(f"({' || '.join(side.sql for side in sides)})", STRING, *sides)


BINARY: Mapping[str, Callable[[Value, Value], Value]] = {
    **{name: partial(arithmetic, name) for name in ("+", "-", "*", "/", "%", "div")},
    **{name: partial(bitwise, name) for name in ("&", "|", "^")},
    "||": lambda left, right: joined([left, right]),
}
"""Operators between two values, by their names in Spark."""


NAMES = {
    **{name: name for name in ("=", "<>", "<", "<=", ">", ">=")},
    "==": "=",
    "!=": "<>",
    "!<": ">=",
    "!>": "<=",
    "<=>": "IS NOT DISTINCT FROM",
}
_WHOLE_TEXT = re.compile("-?[0-9]{1,9}")
_MANY = 10
"Spark looks up longer lists by the bits of their values, where 0.0 and -0.0 differ."


class Pair:
    """Two values of a common type. `assumes_utc`: a date, or a text, was read in the zone of a session; `is_exact`: no
    integer or decimal was converted to a double.
    """

    def __init__(self, left: Value, right: Value) -> None:
        one, other = _read_beside(left, right), _read_beside(right, left)
        data_type = common_type(one, other)
        _require_scalar(Value("", data_type))
        self.left, self.right = convert(one, data_type), convert(other, data_type)
        self.assumes_utc = data_type == TIMESTAMP and not (left.data_type == right.data_type == TIMESTAMP)
        self.is_exact = data_type != DOUBLE or not any(
            side.kind in (Kind.WHOLE, Kind.DECIMAL) and (side.number is None or beside.number is not None)
            for side, beside in ((left, right), (right, left))
        )

    def compared(self, name: str) -> Value:
        return made(f"({self.left.sql} {NAMES[name]} {self.right.sql})", BOOLEAN, self.left, self.right)


def _require_scalar(value: Value) -> None:
    if value.kind is Kind.OTHER and not value.is_null:
        raise NotTranslated(f"comparing values of type {value.type_name} is not supported")


def _read_beside(value: Value, other: Value) -> Value:
    """Return a string literal as a value of the type of the other side."""
    if value.text is None or other.text is not None or other.kind in (Kind.TEXT, Kind.OTHER):
        return value
    match other.kind:
        case Kind.DATE:
            return date_literal(value.text)
        case Kind.TIMESTAMP:
            return moment_literal(value.text, TIMESTAMP)
        case Kind.NTZ:
            return moment_literal(value.text, NTZ)
        case Kind.WHOLE if _WHOLE_TEXT.fullmatch(value.text) and other.type_name in ("integer", "long"):
            return number_literal(value.text.lstrip("-"), is_negative=value.text.startswith("-"))
    raise mismatch(value, other)


def contained(value: Value, items: list[Value]) -> tuple[Value, bool, bool]:
    """`value IN (items)`, whether it assumes UTC, and whether it is exact."""
    for item in items:
        texts = {Kind.TEXT} & {value.kind, item.kind}
        if texts and {value.kind, item.kind} - {Kind.TEXT, Kind.DATE} and not (value.is_null or item.is_null):
            raise mismatch(value, item)  # compared as strings, by Spark's settings
    sides = [side for side in (value, *items) if not side.is_null]
    kinds = {side.kind for side in sides}
    if Kind.FLOAT in kinds:
        names = {side.type_name for side in sides}
        if len(items) > _MANY or ("float" in names and len(names) > 1) or value.kind is not Kind.FLOAT:
            raise NotTranslated("IN with floating-point numbers is not supported")
    elif len(kinds) > 1 and kinds not in ({Kind.WHOLE, Kind.DECIMAL}, {Kind.TEXT, Kind.DATE}):
        raise NotTranslated("the values of IN have different types")
    pairs = [Pair(value, item) for item in items]
    parts = [pair.compared("=") for pair in pairs]
    sql = " OR ".join(part.sql for part in parts)
    if len({pair.left.sql for pair in pairs}) == 1:
        sql = f"{pairs[0].left.sql} IN ({', '.join(pair.right.sql for pair in pairs)})"
    return made(f"({sql})", BOOLEAN, *parts), any(pair.assumes_utc for pair in pairs), all(p.is_exact for p in pairs)


def alike(expression: Value, data_type: PrimitiveType, column: str) -> Pair:
    """Return the values of a column of a type next to an expression."""
    return Pair(Value(column, data_type), expression)
