"""Random conditions on the rows of small tables: their SQL, and what they are of a row, in plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.support.small_types import Column, Row, Struct, Value
from tests.support.small_values import scalars
from tests.support.small_writer import Version, shown_value

Truth = bool | None


@dataclass(frozen=True)
class RowCondition:
    """A condition: its text, and the truth of it for a row."""

    text: str
    holds: Callable[[Row], Truth]


@dataclass(frozen=True)
class Place:
    """A column or a struct's field without lists above it."""

    columns: tuple[Column, ...]

    @property
    def sql(self) -> str:
        return ".".join("`" + column.name.replace("`", "``") + "`" for column in self.columns)

    @property
    def kind(self) -> str:
        """Its type; empty for one that holds others."""
        kind = self.columns[-1].type
        return kind if isinstance(kind, str) else ""

    def value(self, row: Row) -> Value:
        """What the row has there, as the type of today shows it."""
        first, *rest = self.columns
        value = row.get(first.number)
        if not rest:
            return shown_value(value, first.type)
        for column in rest[:-1]:
            value = None if value is None else value.get(column.number)
        last = rest[-1]
        return None if value is None else shown_value(value.get(last.number), last.type)


def places(columns: Sequence[Column], above: tuple[Column, ...] = ()) -> list[Place]:
    """Everything that a condition can name."""
    found = []
    for column in columns:
        found.append(Place((*above, column)))
        if isinstance(column.type, Struct):
            found += places(column.type.fields, (*above, column))
    return found


def some_condition(chooser: random.Random, version: Version, depth: int = 2) -> RowCondition:
    """A condition on the columns of a version, most of them near to what its rows hold."""
    form = chooser.choice(("leaf", "leaf", "not", "and", "or")) if depth else "leaf"
    if form == "not":
        inner = some_condition(chooser, version, depth - 1)
        return RowCondition(f"NOT ({inner.text})", lambda row: _not(inner.holds(row)))
    if form in ("and", "or"):
        left, right = (some_condition(chooser, version, depth - 1) for _ in range(2))
        join = _and if form == "and" else _or
        return RowCondition(
            f"({left.text}) {form.upper()} ({right.text})", lambda row: join(left.holds(row), right.holds(row))
        )
    return _leaf(chooser, version, chooser.choice(places(version.columns)))


def _leaf(chooser: random.Random, version: Version, place: Place) -> RowCondition:
    comparable = place.kind not in ("", "void", "binary")
    form = chooser.choice(("null", "compare", "compare", "compare", "between", "in")) if comparable else "null"
    if form == "null":
        negated = chooser.random() < 0.5
        text = f"{place.sql} IS {'NOT ' if negated else ''}NULL"
        return RowCondition(text, lambda row: (place.value(row) is None) != negated)
    values = [value for value in (place.value(row) for row in version.rows) if value is not None]
    pool = [*values, *values, *scalars(place.kind)]
    literals = [_near(chooser, chooser.choice(pool)) for _ in range(2)]
    texts = [sql_literal(literal) for literal in literals]
    if place.kind == "boolean" or form == "compare":
        sign = chooser.choice(("=", "<>", "<=>") if place.kind == "boolean" else tuple(SIGNS))
        return RowCondition(
            f"{place.sql} {sign} {texts[0]}", lambda row: _compared(sign, place.value(row), literals[0])
        )
    if form == "in":
        return RowCondition(
            f"{place.sql} IN ({', '.join(texts)})",
            lambda row: _or(*(_compared("=", place.value(row), literal) for literal in literals)),
        )
    low, high = sorted(literals, key=order)
    return RowCondition(
        f"{place.sql} BETWEEN {sql_literal(low)} AND {sql_literal(high)}",
        lambda row: _and(_compared(">=", place.value(row), low), _compared("<=", place.value(row), high)),
    )


def _near(chooser: random.Random, value: Value) -> Value:
    """The value, or an adjacent one."""
    if chooser.random() < 0.6:
        return value
    step = chooser.choice((-1, 1))
    match value:
        case bool() | float():
            return value
        case int():
            return value + step
        case Decimal():
            return value + step * Decimal("0.001") if abs(value) < 10**20 else value
        case str():
            return value[: chooser.randint(0, len(value))]
        case datetime():
            return _moved(value, timedelta(microseconds=step))
        case date():
            return _moved(value, timedelta(days=step))
    return value


def _moved(value: Any, span: timedelta) -> Any:  # Any: a date or an instant
    try:
        return value + span
    except OverflowError:
        return value


def sql_literal(value: Value) -> str:
    """A value as SQL text."""
    match value:
        case bool():
            return str(value).lower()
        case float() if math.isnan(value) or math.isinf(value):
            return "'NaN'" if math.isnan(value) else ("'Infinity'" if value > 0 else "'-Infinity'")
        case float():
            return repr(value)
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime() if value.tzinfo is not None:
            return f"TIMESTAMP '{value.isoformat().replace('+00:00', 'Z')}'"
        case datetime():
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
    return f"DATE '{value.isoformat()}'"


SIGNS: dict[str, Callable[[Any, Any], bool]] = {  # Any: keys of `order`
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<=>": lambda left, right: left == right,
}


def order(value: Value) -> Any:  # Any: something that can be ordered among its like
    """What values are compared by: NaN is one value above all, text is its bytes."""
    match value:
        case float():
            return (1, 0.0) if math.isnan(value) else (0, value)
        case str():
            return value.encode()
    return value


def _compared(sign: str, left: Value, right: Value) -> Truth:
    if left is None:
        return False if sign == "<=>" else None
    return SIGNS[sign](order(left), order(right))


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _and(*truths: Truth) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


def _or(*truths: Truth) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False
