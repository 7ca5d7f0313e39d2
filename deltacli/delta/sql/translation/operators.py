"""Operators on numbers and strings: equal in every engine, or an error.

DuckDB raises where Spark would overflow, or raise itself under ANSI. Division by zero is made to raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from deltacli.delta.schema.kinds import Kind
from deltacli.delta.sql.translation.values import (
    DOUBLE,
    LONG,
    STRING,
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
