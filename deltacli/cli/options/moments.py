"""Times on the command line: RFC 3339 with an offset, dates, and `yesterday` or `7d` for what is relative to now."""

from __future__ import annotations

import re
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


def parse_moment(option: str, text: str, arguments: Sequence[str], *, begins: bool = False) -> int:
    """Return the value of an option as epoch milliseconds; `begins`: as in `to_epoch_ms`.

    Raises UsageError, which names the option; for a text that is almost a time, the hint is the same command line with
    the corrected value.
    """
    try:
        return parse_timestamp(text, begins=begins)
    except UsageError as fault:
        corrected = corrected_timestamp(text)
        raise UsageError(
            f"{option}: {fault.message}",
            code=fault.code,
            facts=fault.facts,
            hint=None if corrected is None else repeat_command_with(arguments, option, corrected),
        ) from None


_LONGEST_VERSION = 19
"""Digits of the largest version, 2^63 - 1."""


class RangeEnd(NamedTuple):
    """An end of a range of versions. It is open if both attributes are None.

    Attributes:
        version: The version.
        timestamp_ms: Instead of the version: a time in epoch milliseconds.
    """

    version: int | None = None
    timestamp_ms: int | None = None


def parse_end(option: str, text: str | None, clock: Clock) -> RangeEnd:
    """Return the end of a range: a version if it consists of digits, else a time, which may be relative to now.

    Raises:
        UsageError: If it is neither.
    """
    if text is None:
        return RangeEnd()
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_VERSION:
        return RangeEnd(version=int(digits))
    relative_ms = parse_relative_time(text, clock)
    if relative_ms is not None:
        return RangeEnd(timestamp_ms=relative_ms)
    try:
        timestamp_ms = parse_moment(option, text, invocation.arguments, begins=option == "--from")
    except UsageError as error:
        if not re.fullmatch(_MOMENT, text.strip()) and not _why_impossible(text):
            error.message = f"{option}: {text!r} is neither a version number nor a time"
        raise
    return RangeEnd(timestamp_ms=timestamp_ms)


_DAYS_AGO = {"today": 0, "yesterday": 1}


def parse_relative_time(text: str, clock: Clock) -> int | None:
    """Return the time of `1d` or `90m`, so long before now, or of `today` or `yesterday`, at midnight UTC.

    None for other texts. The time is in epoch milliseconds.
    """
    word = text.strip().lower()
    if word in _DAYS_AGO:
        return (clock() // DAY_MS - _DAYS_AGO[word]) * DAY_MS
    try:
        return max(clock() - parse_duration(word, ""), 0)
    except UsageError:
        return None


def parse_timestamp(text: str, *, begins: bool = False) -> int:
    """Return epoch milliseconds of an RFC 3339 time with its offset, or of a bare date at midnight UTC.

    Seconds, and the minutes of the offset, may be left out. Raises UsageError for everything else, also for a time
    without an offset: it is another moment on every machine.
    """
    found = re.fullmatch(_MOMENT, text.strip())
    moment = None if found is None else _moment(found)
    if found is None or moment is None:
        raise _no_timestamp(f"{text!r} is not a timestamp{_why_impossible(text)}")
    if found["time"] and not found["offset"]:
        raise _no_timestamp(f"{text!r} has no offset from UTC")
    return to_epoch_ms(moment, begins=begins)


def corrected_timestamp(text: str) -> str | None:
    """Return what `parse_timestamp` accepts in place of a text that it refuses: a time without an offset in UTC, a date
    with an offset at its midnight, numbers of one digit with a zero before them, the last day of a month for a later
    one. None for other texts.
    """
    text = re.sub(_DATE_WITHOUT_ZEROS, _with_zeros, text.strip())
    found = re.fullmatch(_MOMENT, text)
    if found is not None and (last := _last_day(found["date"])) is not None and last < int(found["date"][8:]) < 32:
        text = f"{text[:8]}{last:02}{text[10:]}"
        found = re.fullmatch(_MOMENT, text)
    if found is not None:
        written = found[0].replace(" ", "").upper()
        return None if _moment(found) is None else written if found["offset"] or not found["time"] else f"{written}Z"
    dated = re.fullmatch(_DATE_WITH_OFFSET, text)
    if dated is None:
        return None
    whole = f"{dated['date']}T00:00:00{dated['offset']}"
    found = re.fullmatch(_MOMENT, whole)
    return whole if found is not None and _moment(found) else None


_OFFSET = r"(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
_MOMENT = (
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    rf"(?:[Tt ](?P<time>[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.][0-9]+)?)?) ?{_OFFSET}?)?"
)
_DATE_WITHOUT_ZEROS = (
    r"\A(?P<year>[0-9]{4})[-/](?P<month>[0-9]{1,2})[-/](?P<day>[0-9]{1,2})(?:[Tt ]+(?P<hour>[0-9]{1,2})(?=:))?"
)
_DATE_WITH_OFFSET = rf"(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}) ?{_OFFSET}"


def _with_zeros(found: re.Match[str]) -> str:
    date = f"{found['year']}-{found['month']:0>2}-{found['day']:0>2}"
    return date if found["hour"] is None else f"{date}T{found['hour']:0>2}"


def _moment(found: re.Match[str]) -> datetime | None:
    """The moment of a text of the right form, UTC where it has no offset; None where no calendar or clock has it."""
    offset = (found["offset"] or "Z").upper()
    try:
        return datetime.fromisoformat(f"{found['date']}T{found['time'] or '00:00'}{offset}")
    except ValueError:
        return None


def _why_impossible(text: str) -> str:
    """Return why no calendar or clock has a text of the right form; empty for a text of another form."""
    found = re.fullmatch(_MOMENT, re.sub(_DATE_WITHOUT_ZEROS, _with_zeros, text.strip()))
    if found is None or _moment(found) is not None:
        return ""
    from calendar import month_name

    year, month, day = map(int, found["date"].split("-"))
    last = _last_day(found["date"])
    if last is None:
        return f": there is no {f'month {month}' if year else 'year 0'}"
    if not 0 < day <= last:
        return f": no such day, {month_name[month]} {year} has {last} days"
    hour, minute, *second = (found["time"] or "00:00").split(":")
    if int(hour) > 23 or int(minute) > 59 or int(float((second or ["0"])[0])) > 59:
        return ": no such time, the last of a day is 23:59:59"
    return f": no such offset from UTC, {found['offset']}"


def _last_day(date: str) -> int | None:
    """Return the number of days of the month of a date; None for a month that does not exist."""
    from calendar import monthrange

    year, month = int(date[:4]), int(date[5:7])
    return monthrange(year, month)[1] if year and 0 < month < 13 else None


def _no_timestamp(message: str) -> UsageError:
    return UsageError(
        message,
        code="usage.timestamp",
        facts={"expected": "RFC 3339 with an offset, as in 2026-01-09T08:12:44Z, or a date, as in 2026-01-09"},
    )


def parse_moment_of(version: int | None, timestamp: str | None) -> int | None:
    """Return `--timestamp` as epoch milliseconds. Raises UsageError, also for an invalid `--version`."""
    if version is not None and timestamp is not None:
        raise UsageError("--version and --timestamp exclude each other")
    if version is not None and version < 0:
        raise UsageError(f"--version {version} is negative")
    return parse_moment("--timestamp", timestamp, invocation.arguments) if timestamp is not None else None


def chosen_version(table: TableHandle, version: int | None, timestamp: str | None) -> int | None:
    """Return the version of `--version` or `--timestamp`; None for neither. Raises UsageError and VersionAbsent."""
    at_ms = parse_moment_of(version, timestamp)
    if at_ms is None:
        return version
    from deltacli.table.time_travel import find_version_at

    return find_version_at(table, at_ms)
