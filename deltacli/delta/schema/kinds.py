"""The primitive types of a schema by the kind of their values, for predicates, expressions and statistics."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from deltacli.core.patterns import pattern
from deltacli.delta.schema.types import DataType, PrimitiveType

WHOLE_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
FIXED_TEXTS = ("char(", "varchar(")
YEAR_MONTH, DAY_SECOND = "interval year to month", "interval day to second"
NANOSECONDS = {"timestamp_nanos": "UTC", "timestamp_ntz_nanos": None, "timestamp_nanos_ntz": None}
"""The names of timestamps of nanoseconds, which are not final, and the zone of their values."""
_INTERVAL = pattern(r"interval (?P<first>[a-z]+)(?: to (?P<last>[a-z]+))?", re.ASCII)
_INTERVAL_FAMILIES = (("year", "month"), ("day", "hour", "minute", "second"))


class Kind(StrEnum):
    """How values compare: by their number, by their bytes, as doubles; OTHER values do not."""

    WHOLE = "integer"
    DECIMAL = "decimal"
    FLOAT = "floating-point"
    DATE = "date"
    TIMESTAMP = "timestamp"
    NTZ = "timestamp_ntz"
    TEXT = "string"
    BINARY = "binary"
    BOOLEAN = "boolean"
    OTHER = "other"


_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Kind.WHOLE),
    **dict.fromkeys(("float", "double"), Kind.FLOAT),
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.NTZ,
    "string": Kind.TEXT,
    "binary": Kind.BINARY,
    "boolean": Kind.BOOLEAN,
}
PLAIN_TYPES = frozenset(_KINDS)
"""The primitive types that have one name and values that compare."""


def value_kind(data_type: DataType) -> Kind:
    """Return how the values of a type compare."""
    if not isinstance(data_type, PrimitiveType):
        return Kind.OTHER
    if decimal_parts(data_type.name):
        return Kind.DECIMAL
    if data_type.name.startswith(FIXED_TEXTS):
        return Kind.TEXT
    return _KINDS.get(data_type.name, Kind.OTHER)


def interval_name(name: str) -> str | None:
    """Return the full name of an interval type: of `interval day`, `interval day to second`."""
    match = _INTERVAL.fullmatch(name)
    if match is None:
        return None
    first, last = match["first"], match["last"] or match["first"]
    for family in _INTERVAL_FAMILIES:
        if first in family and last in family:
            in_order = match["last"] is None or family.index(first) < family.index(last)
            return f"interval {family[0]} to {family[-1]}" if in_order else None
    return None


_MAX_DIGITS = 9
"""Of a precision or scale with leading zeros: Python refuses to read a number of thousands of digits."""


@lru_cache(maxsize=256)
def decimal_parts(name: str) -> tuple[int, int] | None:
    """Return precision and scale of `decimal(p,s)`, or None for any other type and for invalid ones."""
    if name == "decimal":
        return 10, 0
    if not (name.startswith("decimal(") and name.endswith(")")):
        return None
    parts = [part.strip() for part in name[len("decimal(") : -1].split(",")]
    if len(parts) not in (1, 2) or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    if any(len(part) > _MAX_DIGITS for part in parts):
        return None
    precision, scale = int(parts[0]), int(parts[1]) if len(parts) == 2 else 0
    return (precision, scale) if 1 <= precision <= 38 and scale <= precision else None
