"""Dates, times and intervals as the log writes them in text. Spec: Partition Value Serialization; Per-file Statistics;
Interval Types (proposal); Nanosecond timestamps (proposal).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from deltacli.core.made_once import pattern

MICROSECONDS_A_DAY = 86_400_000_000
_DATE = r"([+-]?[0-9]{4,6})-([0-9]{1,2})-([0-9]{1,2})"
_TIME = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
_ZONE = r"Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2}){0,2}|[A-Za-z]+/[A-Za-z_/+-]+"
_DATE_ONLY = pattern(_DATE)
_MOMENT = pattern(f"{_DATE}(?:[T ]{_TIME} ?({_ZONE})?)?")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class ParsedMoment(NamedTuple):
    """A time given as text: microseconds since the epoch, in UTC if the text has no zone.

    A zone given by a place name is not resolved: `has_zone` is true, and the time is that of UTC.
    """

    microseconds: int
    has_zone: bool
    is_date_only: bool


def parse_date(text: str) -> int | None:
    """Return the days since the epoch of a date, or None if it is invalid. Months and days need no leading zero."""
    match = _DATE_ONLY.fullmatch(text)
    return _days(int(match[1]), int(match[2]), int(match[3])) if match else None


def parse_moment(text: str) -> ParsedMoment | None:
    """Return the time of a timestamp, or of a date at midnight, or None if it is invalid."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    days = _days(int(match[1]), int(match[2]), int(match[3]))
    if days is None:
        return None
    if match[4] is None:
        return ParsedMoment(days * MICROSECONDS_A_DAY, has_zone=False, is_date_only=True)
    hour, minute, second = int(match[4]), int(match[5]), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = (hour * 60 + minute) * 60 + second - _offset_seconds(match[8])
    fraction = int((match[7] or "").ljust(6, "0")[:6])
    total = days * MICROSECONDS_A_DAY + seconds * 1_000_000 + fraction
    return ParsedMoment(total, has_zone=match[8] is not None, is_date_only=False)


def nanoseconds_of(text: str) -> int | None:
    """Return the nanoseconds since the epoch of a timestamp, or None if it is invalid or does not fit 64 bits."""
    moment, match = parse_moment(text), _MOMENT.fullmatch(text)
    if moment is None or match is None:
        return None
    found = moment.microseconds * 1_000 + int((match[7] or "").ljust(9, "0")[6:])
    return found if -(1 << 63) <= found < 1 << 63 else None


_INTERVAL = pattern(
    r"interval\s+(?P<sign>[+-]?)'\s*(?P<inner>[+-]?)(?P<value>[0-9][0-9 :.-]*)'"
    r"\s+(?P<first>[a-z]+)(?:\s+to\s+(?P<last>[a-z]+))?",
    re.ASCII | re.IGNORECASE,
)
_MONTHS: Mapping[str, int] = {"year": 12, "month": 1}
_MICROSECONDS: Mapping[str, int] = {
    "day": MICROSECONDS_A_DAY,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
}
_AFTER = {"year": "-", "day": " +", "hour": ":", "minute": ":"}
"""What separates a field from the next one."""
_NUMBER = "([0-9]{1,19})"


def months_of(text: str) -> int | None:
    """Return the months of `INTERVAL '1-0' YEAR TO MONTH`, or None if it is invalid or does not fit 32 bits."""
    return _interval(text, _MONTHS, 31)


def interval_microseconds(text: str) -> int | None:
    """Return the microseconds of `INTERVAL '7 12:34:56.5' DAY TO SECOND`, or None if it is invalid or does not fit 64
    bits.
    """
    return _interval(text, _MICROSECONDS, 63)


def _interval(text: str, units: Mapping[str, int], bits: int) -> int | None:
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return None
    names, first = list(units), match["first"].lower()
    last = (match["last"] or first).lower()
    if first not in units or last not in units or names.index(first) > names.index(last):
        return None
    parts = names[names.index(first) : names.index(last) + 1]
    form = "".join(f"{_NUMBER}{_AFTER[name]}" for name in parts[:-1]) + _NUMBER
    form += r"(?:\.([0-9]{1,6})0{0,3})?" if last == "second" else ""
    numbers = re.fullmatch(form, match["value"].strip())
    if numbers is None:
        return None
    found = sum(int(number) * units[name] for number, name in zip(numbers.groups(), parts, strict=False))
    if last == "second":
        found += int((numbers[len(parts) + 1] or "").ljust(6, "0"))
    found *= -1 if (match["sign"] == "-") != (match["inner"] == "-") else 1
    return found if -(1 << bits) <= found < 1 << bits else None


def date_text(days: int) -> str:
    """Return days since the epoch as a date: `2024-01-01`, `+10000-01-01` beyond four digits, `-0001-12-31`."""
    shifted = days + 719_468  # a year that begins in March ends with the day that some years lack
    era, of_era = divmod(shifted, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month, year = (month + 3, year + era * 400) if month < 10 else (month - 9, year + era * 400 + 1)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def moment_text(microseconds: int) -> str:
    """Return microseconds since the epoch as a time without zone: `2024-01-01T08:12:44`, with six fractional digits if
    not zero.
    """
    days, rest = divmod(microseconds, MICROSECONDS_A_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)}T{clock}" + (f".{fraction:06d}" if fraction else "")


def _offset_seconds(zone: str | None) -> int:
    if zone is None or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = (int(digits[:2]) * 60 + int(digits[2:4])) * 60 + int(digits[4:6])
    return -seconds if zone[0] == "-" else seconds


def _days(year: int, month: int, day: int) -> int | None:
    """Return days since the epoch in the endless calendar, or None if the month has no such day."""
    if not 1 <= month <= 12:
        return None
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _DAYS[month - 1] + (month == 2 and is_leap):
        return None
    shifted = year - (month <= 2)  # a year that begins in March ends with the day that some years lack
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
