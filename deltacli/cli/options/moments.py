"""Times on the command line: RFC 3339 with an offset, dates, and `yesterday` or `7d` for what is relative to now."""

from __future__ import annotations

import re
from calendar import month_name, monthrange
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import UsageError
from deltacli.core.times import DAY_MS, parse_duration, to_epoch_ms

if TYPE_CHECKING:
    from deltacli.core.machine import Clock
    from deltacli.table.handle import TableHandle

_MOST_DIGITS_OF_VERSION = 19
"""Digits of the largest version, 2^63 - 1."""

_DAYS_AGO = {"today": 0, "yesterday": 1}

_OFFSET = r"(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
_TIMESTAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    rf"(?:[Tt ](?P<time>[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.][0-9]+)?)?) ?{_OFFSET}?)?"
)
_DATE_WITHOUT_ZEROS = re.compile(
    r"\A(?P<year>[0-9]{4})[-/](?P<month>[0-9]{1,2})[-/](?P<day>[0-9]{1,2})(?:[Tt ]+(?P<hour>[0-9]{1,2})(?=:))?"
)
_DATE_WITH_OFFSET = re.compile(rf"(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}) ?{_OFFSET}")


def parse_time_option(option: str, text: str, arguments: Sequence[str], *, begins: bool = False) -> int:
    """Return the value of an option as epoch milliseconds.

    Args:
        option: The name of the option, for errors.
        text: Its value.
        arguments: The command line, which a hint repeats.
        begins: True if a range of versions begins at the time: fractions of a millisecond are then rounded up.

    Raises:
        UsageError: If the value is not a time. For a text that is almost a time, the hint is the same command line with
            the corrected value.
    """
    try:
        return parse_timestamp(text, begins=begins)
    except UsageError as error:
        corrected_text = corrected_timestamp(text)
        hint = None if corrected_text is None else repeat_command_with(arguments, option, corrected_text)
        raise UsageError(f"{option}: {error.message}", code=error.code, facts=error.facts, hint=hint) from None


class RangeEnd(NamedTuple):
    """An end of a range of versions. It is open if both attributes are None.

    Attributes:
        version: The version.
        timestamp_ms: Instead of the version: a time in epoch milliseconds.
    """

    version: int | None = None
    timestamp_ms: int | None = None


def parse_range_end(option: str, text: str | None, clock: Clock) -> RangeEnd:
    """Return the end of a range: a version if it consists of digits, else a time, which may be relative to now.

    Args:
        option: `--from` or `--to`.
        text: The value of the option. None if the option is not used.
        clock: The clock to which a relative time refers.

    Raises:
        UsageError: If the value is neither.
    """
    if text is None:
        return RangeEnd()
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS_OF_VERSION:
        return RangeEnd(version=int(digits))

    relative_ms = parse_relative_time(text, clock)
    if relative_ms is not None:
        return RangeEnd(timestamp_ms=relative_ms)
    try:
        timestamp_ms = parse_time_option(option, text, invocation.arguments, begins=option == "--from")
    except UsageError as error:
        looks_like_time = _TIMESTAMP.fullmatch(text.strip()) or _explain_impossible_time(text)
        if not looks_like_time:
            error.message = f"{option}: {text!r} is neither a version number nor a time"
        raise
    return RangeEnd(timestamp_ms=timestamp_ms)


def parse_relative_time(text: str, clock: Clock) -> int | None:
    """Return the time of `1d` or `90m`, so long before now, or of `today` or `yesterday`, at midnight UTC.

    Returns:
        Epoch milliseconds; None for other texts.
    """
    word = text.strip().lower()
    if word in _DAYS_AGO:
        day = clock() // DAY_MS - _DAYS_AGO[word]
        return day * DAY_MS
    try:
        return max(clock() - parse_duration(word, ""), 0)
    except UsageError:
        return None


def parse_timestamp(text: str, *, begins: bool = False) -> int:
    """Return epoch milliseconds of an RFC 3339 time with its offset, or of a bare date at midnight UTC.

    Seconds, and the minutes of the offset, may be left out.

    Args:
        text: The time.
        begins: As in `parse_time_option`.

    Raises:
        UsageError: For everything else, also for a time without an offset: it is another moment on every machine.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    moment = None if match is None else _make_datetime(match)
    if match is None or moment is None:
        raise _no_timestamp_error(f"{text!r} is not a timestamp{_explain_impossible_time(text)}")
    if match["time"] and not match["offset"]:
        raise _no_timestamp_error(f"{text!r} has no offset from UTC")
    return to_epoch_ms(moment, begins=begins)


def corrected_timestamp(text: str) -> str | None:
    """Return what `parse_timestamp` accepts in place of a text that it refuses; None if nothing is near.

    | refused                      | accepted                  |
    |------------------------------|---------------------------|
    | 2026-01-09T08:12             | 2026-01-09T08:12Z         |
    | 2026-01-09+02:00             | 2026-01-09T00:00:00+02:00 |
    | 2026-1-9                     | 2026-01-09                |
    | 2026-02-30                   | 2026-02-28                |
    """
    text = _use_last_day_of_month(_DATE_WITHOUT_ZEROS.sub(_add_zeros, text.strip()))
    match = _TIMESTAMP.fullmatch(text)
    if match is not None:
        if _make_datetime(match) is None:
            return None
        timestamp = text.replace(" ", "").upper()
        lacks_offset = match["time"] and not match["offset"]
        return f"{timestamp}Z" if lacks_offset else timestamp

    date_with_offset = _DATE_WITH_OFFSET.fullmatch(text)
    if date_with_offset is None:
        return None
    midnight = f"{date_with_offset['date']}T00:00:00{date_with_offset['offset']}"
    match = _TIMESTAMP.fullmatch(midnight)
    return midnight if match is not None and _make_datetime(match) is not None else None


def _use_last_day_of_month(text: str) -> str:
    """Return a timestamp with the last day of its month in place of a later one up to the 31st."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return text
    last_day = _find_last_day(match["date"])
    day = int(match["date"][8:])
    if last_day is None or not last_day < day <= 31:
        return text
    return f"{text[:8]}{last_day:02}{text[10:]}"


def _add_zeros(match: re.Match[str]) -> str:
    """Return a match of `_DATE_WITHOUT_ZEROS` with two digits for each number."""
    date = f"{match['year']}-{match['month']:0>2}-{match['day']:0>2}"
    return date if match["hour"] is None else f"{date}T{match['hour']:0>2}"


def _make_datetime(match: re.Match[str]) -> datetime | None:
    """Return the moment of a match of `_TIMESTAMP`, UTC if it has no offset; None if no calendar or clock has it."""
    offset = (match["offset"] or "Z").upper()
    try:
        return datetime.fromisoformat(f"{match['date']}T{match['time'] or '00:00'}{offset}")
    except ValueError:
        return None


def _explain_impossible_time(text: str) -> str:
    """Return why no calendar or clock has a text of the right form; empty for a text of another form."""
    match = _TIMESTAMP.fullmatch(_DATE_WITHOUT_ZEROS.sub(_add_zeros, text.strip()))
    if match is None or _make_datetime(match) is not None:
        return ""

    year, month, day = map(int, match["date"].split("-"))
    last_day = _find_last_day(match["date"])
    if last_day is None:
        return f": there is no month {month}" if year else ": there is no year 0"
    if not 0 < day <= last_day:
        return f": no such day, {month_name[month]} {year} has {last_day} days"

    hour, minute, *seconds = (match["time"] or "00:00").split(":")
    second = float(seconds[0]) if seconds else 0
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        return ": no such time, the last of a day is 23:59:59"
    return f": no such offset from UTC, {match['offset']}"


def _find_last_day(date: str) -> int | None:
    """Return the number of days of the month of a date; None for a month that does not exist."""
    year = int(date[:4])
    month = int(date[5:7])
    return monthrange(year, month)[1] if year and 0 < month < 13 else None


def _no_timestamp_error(message: str) -> UsageError:
    return UsageError(
        message,
        code="usage.timestamp",
        facts={"expected": "RFC 3339 with an offset, as in 2026-01-09T08:12:44Z, or a date, as in 2026-01-09"},
    )


def parse_timestamp_option(version: int | None, timestamp: str | None) -> int | None:
    """Return `--timestamp` as epoch milliseconds; None without one.

    Raises:
        UsageError: If it is not a time, or `--version` is negative or given as well.
    """
    if version is not None and timestamp is not None:
        raise UsageError("--version and --timestamp exclude each other")
    if version is not None and version < 0:
        raise UsageError(f"--version {version} is negative")
    return None if timestamp is None else parse_time_option("--timestamp", timestamp, invocation.arguments)


def find_chosen_version(table: TableHandle, version: int | None, timestamp: str | None) -> int | None:
    """Return the version of `--version` or `--timestamp`; None for neither.

    Raises:
        UsageError: As `parse_timestamp_option`.
        VersionAbsent: If the table has no version as old as the time.
    """
    timestamp_ms = parse_timestamp_option(version, timestamp)
    if timestamp_ms is None:
        return version
    from deltacli.table.time_travel import find_version_at

    return find_version_at(table, timestamp_ms)
