"""Intervals in values of table properties: their length, and the form that every engine reads the same.

Spec: Table Properties; interval text as the reference implementation reads it.
"""

from __future__ import annotations

import re

from deltacli.patterns import pattern
from deltacli.units import UNITS_MS

PORTABLE_INTERVAL = pattern(r"\s*interval\s+[0-9]+\s+(?:week|day|hour|minute|second|millisecond|microsecond)s?\s*")
"The form of an interval that every engine reads the same."

_UNIT_MICROSECONDS = {unit: length * 1_000 for unit, length in UNITS_MS.items()} | {
    "millisecond": 1_000,
    "microsecond": 1,
}
_PAIR = pattern(r"([+-]?)\s*(\d{1,30})(?:\.(\d{1,9}))?\s+([a-z]+?)s?(?=\s|$)")


def parse_interval(text: str) -> int | None:
    """Return the milliseconds of an interval (`interval 1 week`, `30 days 12 hours`), or None if it is invalid.

    Case is ignored, units add up, only seconds may have a fraction, months and years have no fixed length, a day has 24
    hours.
    """
    rest = text.strip().lower()
    rest = re.sub(r"^interval(\s+|$)", "", rest)
    total, seen, position = 0, False, 0
    while position < len(rest):
        match = _PAIR.match(rest, position)
        if match is None or match[4] not in _UNIT_MICROSECONDS or (match[3] and match[4] != "second"):
            return None
        amount = int(match[2]) * _UNIT_MICROSECONDS[match[4]] + (int(match[3].ljust(9, "0")) // 1000 if match[3] else 0)
        total += -amount if match[1] == "-" else amount
        seen = True
        position = match.end()
        while position < len(rest) and rest[position].isspace():
            position += 1
    return total // 1000 if seen and total >= 0 else None
