"""Statistics of one file, value by value: the slow path for texts that Arrow's reader cannot read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from deltacli.core.patterns import pattern
from deltacli.core.typing import Json
from deltacli.delta.encoding.ndjson import MAX_DEPTH, is_nested_deeply
from deltacli.delta.encoding.value_text import has_bytes, parse_date, parse_moment
from deltacli.delta.schema.kinds import WHOLE_BITS, decimal_parts
from deltacli.delta.stats.schema import NULL_COUNT, PER_COLUMN, ColumnPath, StatColumn, StatKind, StatSchema

NOT_A_NUMBER = 1.7976931348623157e308
INFINITE = 1.7976931348623155e308
SPELLED_FLOATS = {"NaN": NOT_A_NUMBER, "Infinity": INFINITE, "-Infinity": -INFINITE}
"Replacements for the floats that JSON writes as strings, in the reference implementation's order: NaN is greatest."

CUT_MICROSECONDS = 999
"What writers drop when they keep milliseconds."
EXACT_DIGITS = 15
"Number of digits that a double preserves of every decimal."

Z85 = r"^([0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{5})*$"
_Z85 = pattern(Z85[:-1] + r"\Z")


class StatsFault(NamedTuple):
    """One fault of the statistics in a row of a view."""

    row: int
    code: str
    what: str
    """`numRecords`, `tightBounds`, a statistic, or the name of a column; empty for the whole text."""
    text: str
    seen: str
    expected: str


class PlainStats(NamedTuple):
    """One file's statistics, without values of the wrong type. `value` is None if the text is not a JSON object."""

    value: dict[str, Any] | None
    faults: list[StatsFault]
    unknown: list[ColumnPath]


def read_json(text: str) -> Json:
    """Parse a text strictly, numbers exactly. Raises ValueError, also for deeply nested text."""
    if text.count("{") + text.count("[") > MAX_DEPTH and is_nested_deeply(text.encode("utf-8", "replace")):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep, or brackets do not match")
    return json.loads(text, parse_float=_real, parse_int=_whole, parse_constant=_refuse)


def read_stats(schema: StatSchema, row: int, text: str) -> PlainStats:
    """Return the statistics of one text and their faults."""
    try:
        value = read_json(text)
    except ValueError as fault:
        reason = f"the statistics are not JSON: {str(fault)[:120]}"
        return PlainStats(None, [StatsFault(row, "bad-json", "", reason, text, "a JSON object")], [])
    if not isinstance(value, dict):
        return PlainStats(
            None, [StatsFault(row, "bad-json", "", "the statistics are not a JSON object", text, "a JSON object")], []
        )
    stats = PlainStats({}, [], [])
    reader = _Reader(schema, row, stats)
    reader.read_top(value)
    return stats


class _Reader:
    """Copies the values of the right type and records the others."""

    def __init__(self, schema: StatSchema, row: int, stats: PlainStats) -> None:
        self._schema = schema
        self._row = row
        self._found = stats

    def read_top(self, value: dict[str, Any]) -> None:
        kept = self._found.value
        assert kept is not None
        for name, is_right, expected in (
            ("numRecords", is_long, "an integer of 64 bits"),
            ("tightBounds", _is_boolean, "true or false"),
        ):
            given = value.get(name)
            if given is None:
                continue
            if is_right(given):
                kept[name] = given
            else:
                self._mismatch(name, f"{name} of the statistics is not {expected}", given, expected)
        for part in PER_COLUMN:
            given = value.get(part)
            if isinstance(given, dict):
                kept[part] = self._read_struct(part, (), given)
            elif given is not None:
                self._mismatch(part, f"{part} of the statistics is not an object", given, "an object")

    def _read_struct(self, part: str, parent: ColumnPath, value: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, given in value.items():
            path = (*parent, name)
            column = self._schema.column(path)
            if column is None:
                self._found.unknown.append(path)
                continue
            if given is None:
                kept[name] = None
            elif column.kind is StatKind.STRUCT:
                if isinstance(given, dict):
                    kept[name] = self._read_struct(part, path, given)
                else:
                    self._mismatch(column.name, f"{part} of column {column.name} is not an object", given, "an object")
            else:
                kept[name] = self._read_leaf(part, column, given)
        return kept

    def _read_leaf(self, part: str, column: StatColumn, given: Any) -> Any:
        if part == NULL_COUNT:
            if is_long(given):
                return given
            text = f"nullCount of column {column.name} is not an integer"
            self._mismatch(column.name, text, given, "an integer of 64 bits")
            return None
        kept = read_bound(column, given)
        if kept is WRONG_TYPE:
            if column.kind is StatKind.VARIANT:
                text = f"{part} of variant column {column.name} is not z85 text"
                fault = StatsFault(self._row, "variant-encoding", column.name, text, _shown(given), "z85")
                self._found.faults.append(fault)
            else:
                text = f"{part} of column {column.name} is not a value of its type {column.type_name}"
                self._mismatch(column.name, text, given, column.kind.value)
            return None
        return kept

    def _mismatch(self, what: str, text: str, seen: Any, expected: str) -> None:
        self._found.faults.append(StatsFault(self._row, "type-mismatch", what, text, _shown(seen), expected))


WRONG_TYPE = object()


def read_bound(column: StatColumn, given: Any) -> Any:  # Any: a JSON value in, a value for Arrow out
    """Return a bound as `bound_type` holds it, None if it does not fit, or WRONG_TYPE for one of another type."""
    match column.kind:
        case StatKind.WHOLE:
            limit = 1 << (WHOLE_BITS[column.type_name] - 1)
            return given if type(given) is int and -limit <= given < limit else WRONG_TYPE
        case StatKind.FLOAT:
            return _read_float(given)
        case StatKind.DECIMAL:
            return _read_decimal(column.type_name, given)
        case StatKind.DATE | StatKind.TIMESTAMP:
            return _read_time(column.kind, given)
        case StatKind.TEXT:
            if not isinstance(given, str):
                return WRONG_TYPE
            return given if has_bytes(given) else None  # half a surrogate pair has no order
        case StatKind.VARIANT:
            return given if isinstance(given, str) and _Z85.match(given) else WRONG_TYPE
        case StatKind.BOOLEAN:
            return given if isinstance(given, bool) else WRONG_TYPE
        case StatKind.INTERVAL:
            return ""  # only the presence of one matters
        case _:
            return None


def _read_float(given: Any) -> Any:
    if isinstance(given, str):
        return SPELLED_FLOATS.get(given, WRONG_TYPE)
    if isinstance(given, int | Decimal) and not isinstance(given, bool):
        number = _as_float(given)
        return number if abs(number) < INFINITE else (INFINITE if number > 0 else -INFINITE)
    return WRONG_TYPE


def as_single(number: float) -> float:
    """Return a double as the nearest float. One beyond all floats is infinite."""
    import pyarrow as pa

    from deltacli.arrow import compute as pc

    rounded: float = pc.cast(pa.scalar(number, pa.float64()), pa.float32()).as_py()
    return rounded


def _as_float(given: int | Decimal) -> float:
    try:
        return float(given)
    except OverflowError:
        return float("inf") if given > 0 else float("-inf")


def _read_decimal(type_name: str, given: Any) -> Any:
    precision, scale = decimal_parts(type_name) or (38, 0)
    if isinstance(given, bool) or not isinstance(given, int | Decimal | str):
        return WRONG_TYPE
    number = exact_decimal(given) if isinstance(given, str) else Decimal(given)
    if number is None or not fits(number, precision, scale):
        return WRONG_TYPE
    return number


def exact_decimal(text: str) -> Decimal | None:
    """Return a decimal number as written, or None for anything else."""
    if not _DECIMAL.fullmatch(text) or len(text) > 400:
        return None
    return Decimal(text)


_DECIMAL = pattern(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


def fits(number: Decimal, precision: int, scale: int) -> bool:
    """Return True if a decimal type holds the number without rounding."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return False
    text = "".join(map(str, digits)).lstrip("0")
    bare = text.rstrip("0")
    exponent += len(text) - len(bare)
    if not bare:
        return True
    return -exponent <= scale and len(bare) + exponent <= precision - scale


def _read_time(kind: StatKind, given: Any) -> Any:
    if not isinstance(given, str):
        return WRONG_TYPE
    moment = parse_moment(given)
    if moment is None:
        return WRONG_TYPE
    if kind is StatKind.DATE:
        days = parse_date(given)
        return moment.microseconds // 1_000_000 if days is None else days * 86_400
    return moment.microseconds if abs(moment.microseconds) < 1 << 63 else None


def is_long(value: Any) -> bool:
    """Return True for an integer of at most 64 bits."""
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _whole(digits: str) -> int | Decimal:
    """Return an integer. One of hundreds of digits fits no type and is not converted, to save time."""
    return int(digits) if len(digits) <= 64 else Decimal(digits)


def _real(text: str) -> Decimal:
    """Return a number with a fraction or an exponent.

    If the exponent is out of range for Decimal, the result is infinite or zero, which is the same bound for values of
    every type.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, _, exponent = text.lower().partition("e")
        if exponent.startswith("-") or not any(digit in "123456789" for digit in mantissa):
            return Decimal(0)
        return Decimal("-Infinity" if mantissa.startswith("-") else "Infinity")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 120 else f"{text[:119]}…"


def dig(value: Json, path: Iterable[str]) -> Json:
    """Return the value at a path of names, or None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
