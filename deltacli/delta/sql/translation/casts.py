"""Casts.

If Spark returns null or raises, depending on its settings, and DuckDB returns something else, the cast is made to
raise.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.delta.predicate.columns import TIMES
from deltacli.delta.schema.allowed_widenings import canonical_name
from deltacli.delta.schema.kinds import WHOLE_BITS, Kind, decimal_parts, value_kind
from deltacli.delta.schema.types import PrimitiveType
from deltacli.delta.sql.translation.moments import date_text
from deltacli.delta.sql.translation.values import (
    BINARY,
    DATE,
    NTZ,
    STRING,
    TIMESTAMP,
    NotTranslated,
    Value,
    convert,
    duck_type,
    failing,
    made,
)

_OTHER_NAMES = {"timestamp_ltz": "timestamp", "bool": "boolean"}
_TYPES = frozenset(
    {*WHOLE_BITS, "float", "double", "string", "binary", "boolean", *("date", "timestamp", "timestamp_ntz")}
)
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_TEXTS: Mapping[str, str] = {
    "byte": "[+-]?[0-9]{1,2}",
    "short": "[+-]?[0-9]{1,4}",
    "integer": "[+-]?[0-9]{1,9}",
    "long": "[+-]?[0-9]{1,18}",
    "double": r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?",
    "boolean": "true|false",
    "date": _DAY,
    "timestamp": f"{_DAY}([ T]{_CLOCK})?",
    "timestamp_ntz": f"{_DAY}([ T]{_CLOCK})?",
}
"""The texts that every engine reads as the same value of a type."""
_DECIMAL_TEXT = r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?"


def cast(value: Value, type_name: str) -> tuple[Value, bool]:
    """Return a value as another type, and whether that depends on a session's time zone. Raises NotTranslated."""
    name = canonical_name(_OTHER_NAMES.get(type_name, type_name))
    if name not in _TYPES and decimal_parts(name) is None:
        raise NotTranslated(f"a cast to {type_name[:40]} is not supported")
    wanted = PrimitiveType(name)
    if value.is_null or value.data_type == wanted:
        return convert(value, wanted), False
    zones = {value.type_name, name}
    assumes_utc = "timestamp" in zones and bool(zones & {"date", "string", "timestamp_ntz"})
    converted = _cast(value, wanted)
    return converted._replace(number=None, text=None), assumes_utc


_PLAIN = frozenset(
    {
        *((Kind.WHOLE, kind) for kind in (Kind.WHOLE, Kind.FLOAT, Kind.DECIMAL, Kind.TEXT, Kind.BOOLEAN)),
        *((Kind.BOOLEAN, kind) for kind in (Kind.WHOLE, Kind.FLOAT, Kind.TEXT)),
        *((time, other) for time in TIMES for other in TIMES),
        (Kind.DECIMAL, Kind.DECIMAL),
        (Kind.FLOAT, Kind.FLOAT),
    }
)
"Return casts that DuckDB does as Spark does, or that raise."


def _cast(value: Value, wanted: PrimitiveType) -> Value:
    kinds = (value.kind, value_kind(wanted))
    if kinds in _PLAIN:
        return made(f"CAST({value.sql} AS {duck_type(wanted)})", wanted, value, can_fail=True)
    match kinds:
        case (Kind.TEXT, Kind.TEXT):
            return convert(value, wanted)
        case (Kind.TEXT, Kind.BINARY):
            return made(f"encode({value.sql})", BINARY, value)
        case (Kind.TEXT, _):
            return _read(value, wanted)
        case (Kind.DECIMAL, Kind.FLOAT) if wanted.name == "double":
            return convert(value._replace(number=None), wanted)
        case (Kind.DECIMAL | Kind.FLOAT, Kind.WHOLE):
            return made(f"CAST(trunc({value.sql}) AS {duck_type(wanted)})", wanted, value, can_fail=True)
        case (Kind.DATE, Kind.TEXT):
            return made(date_text(value.sql), STRING, value)
        case (Kind.TIMESTAMP, Kind.WHOLE) if wanted.name == "long":
            microseconds = f"epoch_us({value.sql})"
            below = f"(({microseconds} % 1000000 + 1000000) % 1000000)"
            return made(f"(({microseconds} - {below}) // 1000000)", wanted, value)
    raise NotTranslated(f"a cast from {value.type_name} to {wanted.name} is not supported")


def _read(value: Value, wanted: PrimitiveType) -> Value:
    """Return a string read as another type. Texts that only some engines read raise."""
    pattern = _DECIMAL_TEXT if decimal_parts(wanted.name) else _TEXTS.get(wanted.name)
    if pattern is None:
        raise NotTranslated(f"a cast from string to {wanted.name} is not supported")
    options = ", 'i'" if wanted.name == "boolean" else ""
    odd = f"NOT regexp_full_match({value.sql}, '{pattern}'{options})"
    reason = f"a string is not a value of type {wanted.name} in every engine"
    sql = f"CAST({value.sql} AS {duck_type(wanted)})"
    if wanted in (DATE, TIMESTAMP, NTZ):
        odd = f"{odd} OR {value.sql} < '0001'"
    return made(failing(odd, sql, reason), wanted, value, can_fail=True)
