"""Whether the text of a default value can be converted to the type of its column, as Paimon does when writing rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal

from deltacli.paimon.types import AtomicType, DataType, ListType, MapType, Root, RowType, atomic_text

_BOOLEANS = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
_BITS = {Root.TINYINT: 7, Root.SMALLINT: 15, Root.INT: 31, Root.BIGINT: 63}
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MAX_EXPONENT = 1_000 + 38
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_TIME = r"([01]?[0-9]|2[0-3])(:[0-5]?[0-9](:[0-5]?[0-9](\.[0-9]{1,9})?)?)?"
_TIME_OF_DAY = re.compile(_TIME)
_TIMESTAMP = re.compile(rf"([0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}})([ T]{_TIME})?")


def why_bad_default(data_type: DataType, text: str) -> str | None:
    """Return why a text cannot be the default value of a column, None if it can. Java removes quotes around it."""
    is_quoted = len(text) > 1 and text.startswith("'") and text.endswith("'")
    return _why_bad_value(data_type, text[1:-1] if is_quoted else text)


def _why_bad_value(data_type: DataType, text: str) -> str | None:
    match data_type:
        case AtomicType(root):
            judge = _JUDGES.get(root)
            if judge is None:
                return f"a column of the type {root} cannot have a default value"
            return None if judge(text, data_type) else f"{text!r} cannot be converted to {atomic_text(data_type)}"
        case ListType(Root.ARRAY, element):
            return _why_bad_parts(text, "[]", "an ARRAY is written as [a, b]", lambda _: element)
        case RowType(fields):
            return _why_bad_row(text, [field.type for field in fields])
        case MapType(key, value):
            return _why_bad_map(text, key, value)
        case _:
            return f"a column of the type {data_type.root} cannot have a default value"


def _why_bad_parts(text: str, brackets: str, form: str, type_at: Callable[[int], DataType]) -> str | None:
    parts = _parts(text, brackets)
    if parts is None:
        return f"{text!r} has another form: {form}"
    found = (_why_bad_part(type_at(place), part) for place, part in enumerate(parts))
    return next((reason for reason in found if reason), None)


def _why_bad_part(data_type: DataType, part: str) -> str | None:
    return None if part == "null" else _why_bad_value(data_type, part)


def _why_bad_row(text: str, types: list[DataType]) -> str | None:
    parts = _parts(text, "{}")
    if parts is not None and len(parts) != len(types):
        return f"{text!r} has {len(parts)} values, expected {len(types)}"
    return _why_bad_parts(text, "{}", "a ROW is written as {a, b}", lambda place: types[place])


def _why_bad_map(text: str, key: DataType, value: DataType) -> str | None:
    form = "a MAP is written as {key -> value, key -> value}"
    for entry in _parts(text, "{}") or ([] if _parts(text, "{}") == [] else [""]):
        before, arrow, after = entry.partition("->")
        if not arrow:
            return f"{text!r} has another form: {form}"
        reason = _why_bad_value(key, before.strip()) or _why_bad_part(value, after.strip())
        if reason:
            return reason
    return None


def _parts(text: str, brackets: str) -> list[str] | None:
    """Return what stands between the commas inside brackets; None without the brackets."""
    inner = text.strip()
    if len(inner) < 2 or (inner[0], inner[-1]) != (brackets[0], brackets[1]):
        return None
    inner = inner[1:-1].strip()
    found, depth, start = [], 0, 0
    for place, character in enumerate(inner):
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            found.append(inner[start:place].strip())
            start = place + 1
    return [*found, inner[start:].strip()] if inner else []


def _is_whole(text: str, data_type: AtomicType) -> bool:
    limit = 1 << _BITS[data_type.root]
    return _WHOLE.fullmatch(text.strip()) is not None and -limit <= int(text) < limit


def _is_number(text: str, _: AtomicType) -> bool:
    return _NUMBER.fullmatch(text.strip()) is not None


def _is_decimal(text: str, data_type: AtomicType) -> bool:
    """Return True for a number that has the precision after rounding: Java makes others null without an error."""
    precision, scale = map(int, data_type.arguments)
    if not _NUMBER.fullmatch(text):
        return False
    context = Context(prec=len(text) + _MAX_EXPONENT)
    value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, context)
    return not value or value.adjusted() < precision - scale


def _is_date(text: str, _: AtomicType) -> bool:
    return _DATE.fullmatch(text.strip()) is not None and _is_day(text.strip())


def _is_day(text: str) -> bool:
    try:
        date(*map(int, text.split("-")))
    except ValueError:
        return False
    return True


def _is_timestamp(text: str, _: AtomicType) -> bool:
    match = _TIMESTAMP.fullmatch(text.strip())
    return match is not None and _is_day(match[1])


def _is_time(text: str, _: AtomicType) -> bool:
    return _TIME_OF_DAY.fullmatch(text.strip()) is not None


def _is_text(_text: str, _: AtomicType) -> bool:
    return True


_JUDGES: Mapping[Root, Callable[[str, AtomicType], bool]] = {
    Root.BOOLEAN: lambda text, _: text.strip().lower() in _BOOLEANS,
    **dict.fromkeys(_BITS, _is_whole),
    **dict.fromkeys((Root.FLOAT, Root.DOUBLE), _is_number),
    Root.DECIMAL: _is_decimal,
    **dict.fromkeys((Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY), _is_text),
    Root.DATE: _is_date,
    Root.TIME: _is_time,
    **dict.fromkeys((Root.TIMESTAMP, Root.TIMESTAMP_LTZ), _is_timestamp),
}
