"""Comparisons: which values are compared, and as what type. Raises NotTranslated if Spark's settings decide."""

from __future__ import annotations

import re

from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import PrimitiveType
from deltacli.delta.sql.translation.literals import date_literal, moment_literal, number_literal
from deltacli.delta.sql.translation.values import (
    BOOLEAN,
    DOUBLE,
    NTZ,
    TIMESTAMP,
    NotTranslated,
    Value,
    common_type,
    convert,
    made,
    mismatch,
)

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
