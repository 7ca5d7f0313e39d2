"""Values of table properties: which are invalid, and how to write a valid one so that every engine reads it the same.

Spec: Table Properties; Delta-Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltacli.delta.protocol.intervals import PORTABLE_INTERVAL, parse_interval
from deltacli.delta.protocol.known_properties import (
    CODECS,
    INTEGER,
    MAX_LONG,
    NUMBERS,
    PARQUET_VERSIONS,
    SIZE,
    PropertyKind,
    kind_of,
)
from deltacli.units import UNITS_MS

_LONGEST = 1000
"Maximum length of a number or an interval. Python does not convert longer ones, and they are never intended."

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "delta.autoOptimize.autoCompact": ("true", "false", "auto", "legacy"),
    "delta.checkpointPolicy": ("classic", "v2"),
    "delta.columnMapping.mode": ("none", "name", "id"),
    "delta.isolationLevel": ("Serializable", "WriteSerializable"),
}
_PATTERNS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "delta.parquet.compression.codec": (lambda value: value.lower() in CODECS, "a codec of Parquet, such as zstd"),
    "delta.parquet.format.version": (PARQUET_VERSIONS.fullmatch, "1.0.0 or 2.x.y"),
    "delta.targetFileSize": (lambda value: SIZE.fullmatch(value.strip()), "bytes, such as 134217728 or 128mb"),
}


def expected_of(key: str) -> str:
    """Return the valid values of a property, for messages."""
    if key in _CHOICES:
        return " or ".join(_CHOICES[key])
    if key in _PATTERNS:
        return _PATTERNS[key][1]
    match kind_of(key):
        case PropertyKind.BOOLEAN:
            return "true or false"
        case PropertyKind.NUMBER:
            lowest, highest = NUMBERS[key]
            return f"an integer from {lowest} to {highest}"
        case PropertyKind.INTERVAL:
            return "an interval without months and years, such as interval 30 days"
        case _:
            return "text"


def normal_form(key: str, value: str) -> str | None:
    """The value as every engine reads it, None where it is none of this property: `True` is `true`, `+7` is `7`,
    `30 DAYS` is `interval 30 days`. What takes any text is left as it is.
    """
    if key in _CHOICES:
        return value if value in _CHOICES[key] else None
    if key in _PATTERNS:
        return value if _PATTERNS[key][0](value) else None
    match kind_of(key):
        case PropertyKind.BOOLEAN:
            return value.lower() if value.lower() in ("true", "false") else None
        case PropertyKind.NUMBER:
            return _number(value, *NUMBERS[key])
        case PropertyKind.INTERVAL:
            return _interval(value)
        case _:
            return value


def _number(value: str, lowest: int, highest: int) -> str | None:
    if len(value) > _LONGEST or not INTEGER.fullmatch(value):
        return None
    number = int(value)
    return str(number) if lowest <= number <= highest else None


def _interval(value: str) -> str | None:
    """Return an interval of one integer and one lower-case unit. Other engines use the first part, or their default, of
    anything else.
    """
    length_ms = parse_interval(value) if len(value) <= _LONGEST else None
    if length_ms is None or length_ms > MAX_LONG // 1000:
        return None
    if PORTABLE_INTERVAL.fullmatch(value):
        return " ".join(value.split())
    unit, unit_ms = next(((unit, ms) for unit, ms in UNITS_MS.items() if length_ms % ms == 0), ("millisecond", 1))
    amount = length_ms // unit_ms
    return f"interval {amount} {unit if amount == 1 else unit + 's'}"
