"""Functions of dates and times. A timestamp is computed in UTC, and the result records this."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from deltacli.delta.predicate.columns import TIMES
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.sql.translation.values import (
    DATE,
    INTEGER,
    STRING,
    TIMESTAMP,
    NotTranslated,
    Value,
    convert,
    failing,
    joined_by_null,
    made,
)

Zoned: TypeAlias = tuple[Value, bool]
"""A value, and whether it depends on a session's zone."""

_PARTS: Mapping[str, str] = {
    "year": "year({})",
    "quarter": "quarter({})",
    "month": "month({})",
    "day": "day({})",
    "dayofmonth": "day({})",
    "dayofyear": "dayofyear({})",
    "dayofweek": "(dayofweek({}) + 1)",
    "weekday": "(isodow({}) - 1)",
    "weekofyear": "weekofyear({})",
    "hour": "hour({})",
    "minute": "minute({})",
    "second": "second({})",
}
_OF_A_CLOCK = frozenset({"hour", "minute", "second"})
_EXTRACTED = frozenset({"year", "quarter", "month", "day", "hour", "minute"})
_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_SMALLER_UNITS: Mapping[str, str] = {**dict.fromkeys(("day", "dd"), "day"), "hour": "hour", "minute": "minute"}
_LETTERS: Mapping[str, tuple[str, int]] = {
    "yyyy": ("year", 4),
    "MM": ("month", 2),
    "dd": ("day", 2),
    "HH": ("hour", 2),
    "mm": ("minute", 2),
    "ss": ("second", 2),
}
_PIECE = re.compile(r"(?P<letters>([A-Za-z])\2*)|(?P<text>[-/:_. ]+)")


def part_of(name: str, value: Value) -> Zoned:
    """YEAR, MONTH, HOUR and their like. Raises NotTranslated."""
    if value.kind not in TIMES or (name in _OF_A_CLOCK and value.kind is Kind.DATE):
        raise NotTranslated(f"{name} is not supported for type {value.type_name}")
    sql = f"CAST({_PARTS[name].format(value.sql)} AS INTEGER)"
    return made(sql, INTEGER, value), value.kind is Kind.TIMESTAMP


def extracted(unit: str, value: Value) -> Zoned:
    """EXTRACT(unit FROM value). Raises NotTranslated."""
    if unit not in _EXTRACTED:
        raise NotTranslated(f"EXTRACT of {unit} is not supported")
    return part_of(unit, value)


def date_text(sql: str) -> str:
    """A date as text: yyyy-mm-dd."""
    return f"({_padded('year', 4, sql)} || '-' || {_padded('month', 2, sql)} || '-' || {_padded('day', 2, sql)})"


def _padded(function: str, width: int, sql: str) -> str:
    return f"lpad(CAST({function}({sql}) AS VARCHAR), {width}, '0')"


def formatted(arguments: list[Value]) -> Zoned:
    """DATE_FORMAT with a pattern of whole numbers. Raises NotTranslated."""
    value, pattern = _two("date_format", arguments)
    if value.kind not in TIMES or not pattern.text:
        raise NotTranslated("date_format requires a date or timestamp and a constant pattern")
    pieces: list[str] = []
    position = 0
    while position < len(pattern.text):
        match = _PIECE.match(pattern.text, position)
        if match is None or (match["letters"] and match["letters"] not in _LETTERS):
            raise NotTranslated(f"the date_format pattern '{pattern.text[:40]}' is not supported")
        if match["letters"]:
            function, width = _LETTERS[match["letters"]]
            if function in _OF_A_CLOCK and value.kind is Kind.DATE:
                raise NotTranslated("the date_format pattern has a time of day, but the value is a date")
            pieces.append(_padded(function, width, value.sql))
        else:
            pieces.append(f"'{match['text']}'")
        position = match.end()
    return made(f"({' || '.join(pieces)})", STRING, value), value.kind is Kind.TIMESTAMP


def truncated_time(arguments: list[Value]) -> Zoned:
    """DATE_TRUNC, whose result is a timestamp. Raises NotTranslated."""
    unit, value = _two("date_trunc", arguments)
    known = {**_UNITS, **_SMALLER_UNITS}.get((unit.text or "").lower())
    if known is None or value.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise NotTranslated(
            f"date_trunc of a value of type {value.type_name} to {(unit.text or 'a column')[:40]} is not supported"
        )
    time = convert(value, TIMESTAMP)
    return made(f"CAST(date_trunc('{known}', {time.sql}) AS TIMESTAMP)", TIMESTAMP, time), True


def truncated_date(arguments: list[Value]) -> Zoned:
    """TRUNC, whose result is a date. Raises NotTranslated."""
    value, unit = _two("trunc", arguments)
    known = _UNITS.get((unit.text or "").lower())
    if known is None or value.kind is not Kind.DATE:
        raise NotTranslated(
            f"trunc of a value of type {value.type_name} to {(unit.text or 'a column')[:40]} is not supported"
        )
    return made(f"CAST(date_trunc('{known}', {value.sql}) AS DATE)", DATE, value), False


def to_date(arguments: list[Value]) -> Zoned:
    """TO_DATE and DATE of a date or a time. Raises NotTranslated."""
    value = arguments[0]
    if len(arguments) != 1 or value.kind not in TIMES:
        raise NotTranslated("to_date is supported for one date or timestamp only")
    return convert(value, DATE), value.kind is Kind.TIMESTAMP


def days_added(sign: str) -> Callable[[list[Value]], Zoned]:
    def add(arguments: list[Value]) -> Zoned:
        value, days = _two("date_add", arguments)
        if value.kind is not Kind.DATE or days.type_name not in ("byte", "short", "integer"):
            raise NotTranslated("date_add requires a date and an integer")
        sql = f"({value.sql} {sign} {convert(days, INTEGER).sql})"
        # Beyond the years that dates are written with, engines part.
        odd = f"NOT ({sql} BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE))"
        guarded = failing(odd, sql, "a date is after the year 9999")
        return joined_by_null(guarded, DATE, value, days, can_fail=True), False

    return add


def days_between(arguments: list[Value]) -> Zoned:
    """DATEDIFF(end, start). Raises NotTranslated."""
    end, start = _two("datediff", arguments)
    if end.kind is not Kind.DATE or start.kind is not Kind.DATE:
        raise NotTranslated("datediff requires two dates")
    return joined_by_null(f"CAST(({end.sql} - {start.sql}) AS INTEGER)", INTEGER, end, start), False


def last_day(arguments: list[Value]) -> Zoned:
    value = arguments[0]
    if len(arguments) != 1 or value.kind is not Kind.DATE:
        raise NotTranslated("last_day requires a date")
    return made(f"CAST(last_day({value.sql}) AS DATE)", DATE, value), False


def _two(name: str, arguments: list[Value]) -> tuple[Value, Value]:
    if len(arguments) != 2:
        raise NotTranslated(f"{name} has {len(arguments)} arguments")
    return arguments[0], arguments[1]


def _named(name: str) -> Callable[[list[Value]], Zoned]:
    def ask(arguments: list[Value]) -> Zoned:
        if len(arguments) != 1:
            raise NotTranslated(f"{name} has {len(arguments)} arguments")
        return part_of(name, arguments[0])

    return ask


MOMENT_FUNCTIONS: Mapping[str, Callable[[list[Value]], Zoned]] = {
    **{name: _named(name) for name in _PARTS},
    "date_format": formatted,
    "date_trunc": truncated_time,
    "trunc": truncated_date,
    "to_date": to_date,
    "date": to_date,
    "date_add": days_added("+"),
    "date_sub": days_added("-"),
    "datediff": days_between,
    "date_diff": days_between,
    "last_day": last_day,
}
"""Functions of the times that are known to be the same, by their names in Spark."""
