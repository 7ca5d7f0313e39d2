"""Parse and format durations, timestamps and daily time windows. All times are in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from deltacli.core.errors import DurationArgument, UsageError, nearest_name
from deltacli.core.units import plural

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DAY_MS = 86_400_000

UNITS_MS = {"week": 7 * DAY_MS, "day": DAY_MS, "hour": 3_600_000, "minute": 60_000, "second": 1_000}
"""Unit of durations and intervals -> milliseconds, the longest unit first. Months and years have no fixed length."""

DURATIONS_MS = {unit[0]: length for unit, length in UNITS_MS.items()} | {"ms": 1}
"""Abbreviation of a unit, `w` to `ms` -> milliseconds, the longest unit first."""

LONGEST_DURATION_MS = 365_000 * DAY_MS
"""A thousand years. Durations are subtracted from the present, and `datetime` has no times before the year 1."""

CLOCK_SKEW_MS = 5 * 60_000
"""Tolerance between the clocks of the store, of a writer and of this machine, if all of them are synchronized."""

WRITER_SKEW_MS = 60 * 60_000
"""Tolerance for timestamps in actions. The clocks of writers are often not synchronized."""

EARLIEST_PLAUSIBLE_MS = 100_000_000_000
"""3 March 1973 as milliseconds, and the year 5138 as seconds. Smaller values are probably seconds, not milliseconds."""

_MILLISECOND = timedelta(milliseconds=1)

_WEEK_HOURS = 168
_MONTH_HOURS = 720

_SHORT_UNITS = ("hr", "min", "sec")
"""Common abbreviations that `parse_duration` refuses. The first letter is the abbreviation to suggest."""

_AGE_UNITS = (
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
)
"""Seconds and name of each unit of ages, the longest first. Ages are approximate, so a month has 30 days."""

_TIME_OF_DAY = r"([01]\d|2[0-3]):([0-5]\d)"
_DAILY_WINDOW = re.compile(rf"{_TIME_OF_DAY}\s*-\s*{_TIME_OF_DAY}")
_DURATION = re.compile(rf"\s*([0-9]{{1,15}})\s*({'|'.join(DURATIONS_MS)})\s*")
_NUMBER_WITHOUT_UNIT = re.compile(r"[1-9][0-9]{0,14}")
_NUMBER_WITH_WORD = re.compile(r"\s*([0-9]{1,15})\s*([a-z]{2,}|y)\s*")


class DailyWindow(NamedTuple):
    """A time window that repeats every day. `22:00-06:00` begins at 22:00 and ends at 06:00 of the next day.

    Attributes:
        begin_ms: Begin in milliseconds since midnight UTC.
        end_ms: End in milliseconds since midnight UTC. If it is equal to `begin_ms`, the window is the whole day.
    """

    begin_ms: int
    end_ms: int

    @classmethod
    def of(cls, text: str) -> DailyWindow:
        """Parse a window such as `22:00-06:00`.

        Raises:
            ValueError: If the text is not a window.
        """
        match = _DAILY_WINDOW.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a part of the day such as 22:00-06:00")

        begin_hour, begin_minute, end_hour, end_minute = (int(number) for number in match.groups())
        begin_ms = begin_hour * UNITS_MS["hour"] + begin_minute * UNITS_MS["minute"]
        end_ms = end_hour * UNITS_MS["hour"] + end_minute * UNITS_MS["minute"]
        return cls(begin_ms, end_ms)

    def remaining_ms(self, now_ms: int) -> int:
        """Return the milliseconds from `now_ms`, an epoch time, to the end of the window; 0 outside the window."""
        # The modulo handles windows past midnight: from 22:00 to 06:00 are -16 hours, and -16 hours % 1 day = 8 hours.
        length_ms = (self.end_ms - self.begin_ms) % DAY_MS or DAY_MS
        elapsed_ms = (now_ms - self.begin_ms) % DAY_MS
        return max(0, length_ms - elapsed_ms)

    def __str__(self) -> str:
        return f"{_format_time_of_day(self.begin_ms)}-{_format_time_of_day(self.end_ms)}"


def to_epoch_ms(moment: datetime, *, begins: bool = False) -> int:
    """Convert a time to epoch milliseconds, the precision of commit timestamps.

    Args:
        moment: A time with a time zone. `--timestamp` accepts microseconds.
        begins: True to round up, for the begin of a range of commits: a commit of the same millisecond may be earlier
            than the moment, so the range must not include it. False to round down, for the end of a range and for time
            travel.
    """
    since_epoch = moment - EPOCH
    if begins:
        # `//` rounds down, also for negative numbers. So -(-x // y) rounds up.
        return -(-since_epoch // _MILLISECOND)
    return since_epoch // _MILLISECOND


def format_timestamp(timestamp_ms: int) -> str:
    """Format epoch milliseconds as RFC 3339 with milliseconds: `2026-01-09T08:12:44.000Z`.

    A time outside the years 1 to 9999 is returned as the number of milliseconds.
    """
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    # Called for each action of a log. `strftime` takes five times as long.
    without_zone = moment.isoformat(timespec="milliseconds")[:23]
    return f"{without_zone}Z"


def format_moment(timestamp_ms: int) -> str:
    """Format epoch milliseconds without the fraction of the second: `2026-01-09 08:12:44`."""
    return format_timestamp(timestamp_ms)[:19].replace("T", " ")


def format_age(timestamp_ms: int, now_ms: int) -> str:
    """Format a time relative to now: `3 days ago`, `in 2 hours`, `now`."""
    seconds = abs(now_ms - timestamp_ms) // 1000
    # Show the largest unit only: "3 days ago" is easier to read than "3 days, 2 hours and 5 minutes ago".
    for unit_seconds, unit in _AGE_UNITS:
        if seconds >= unit_seconds:
            amount = plural(seconds // unit_seconds, unit)
            return f"{amount} ago" if now_ms >= timestamp_ms else f"in {amount}"
    return "now"


def parse_duration(text: str, where: str, unit: str | None = None) -> int:
    """Parse a duration such as `30d`, `168h`, `90m`, `2w` or `1500ms`, and return its milliseconds.

    Args:
        text: The duration.
        where: The name of the option or key for the error message.
        unit: The unit that the error suggests for a number without a unit. None suggests hours for 168 and 720 and
            their multiples, and days for other numbers.

    Raises:
        UsageError: If the text is not a duration, or if the duration is longer than a thousand years.
    """
    match = _DURATION.fullmatch(text.lower())
    if match is None:
        raise _build_duration_error(text, where, unit)

    duration_ms = int(match[1]) * DURATIONS_MS[match[2]]
    if duration_ms > LONGEST_DURATION_MS:
        raise UsageError(f"{where}: {text!r} is longer than a thousand years", code="usage.duration")
    return duration_ms


def format_duration(duration_ms: int) -> str:
    """Format a duration in the form that `parse_duration` reads: `30d`, `36h`, `0s`.

    The unit is the largest one, up to days, in which the duration is a whole number.
    """
    if duration_ms == 0:  # a whole number in every unit
        return "0s"
    # Weeks are not used, because 14d and 15d are easier to compare than 2w and 15d.
    unit = next(unit for unit, length in DURATIONS_MS.items() if unit != "w" and duration_ms % length == 0)
    return f"{duration_ms // DURATIONS_MS[unit]}{unit}"


def duration_argument(duration_ms: int) -> DurationArgument:
    """Return a duration as an option value for `parameter` and `command`, which show `7d` or the milliseconds."""
    return DurationArgument(format_duration(duration_ms), duration_ms)


def _build_duration_error(text: str, where: str, unit: str | None) -> UsageError:
    """Return the error for a text that is not a duration, with a suggestion if the text resembles a duration."""
    message = f"{where}: {text!r} is not a duration"
    suggestion: str | None
    if _NUMBER_WITHOUT_UNIT.fullmatch(text):
        suggestion = f"{text}{unit or _guess_unit(int(text))}"
        message += f": add a unit, such as {suggestion}"
    else:
        suggestion = _suggest_duration(text)

    error = UsageError(
        message,
        code="usage.duration",
        facts={"expected": f"a number and one of {', '.join(DURATIONS_MS)}, as in 30d or 168h"},
    )
    return error.suggest_as_fact(text, suggestion)


def _guess_unit(number: int) -> str:
    """Return the unit to suggest for a number without a unit: `h` or `d`.

    Users of Spark know `VACUUM ... RETAIN 168 HOURS`, so whole weeks and months of hours are probably hours.
    """
    is_in_hours = number % _WEEK_HOURS == 0 or number % _MONTH_HOURS == 0
    return "h" if is_in_hours else "d"


def _suggest_duration(text: str) -> str | None:
    """Return the duration for a number with a written-out or misspelled unit: `3d` for `3 days` and for `3dya`."""
    match = _NUMBER_WITH_WORD.fullmatch(text.lower())
    if match is None:
        return None

    number = match[1]
    word = match[2].removesuffix("s")
    # `parse_duration` has no unit for years. For a suggestion, a year of 365 days is precise enough.
    if word in ("y", "year"):
        return f"{365 * int(number)}d"
    unit = nearest_name(word, (*UNITS_MS, *_SHORT_UNITS))
    return f"{number}{unit[0]}" if unit else None


def _format_time_of_day(since_midnight_ms: int) -> str:
    """Format milliseconds since midnight as `06:00`."""
    hour, minute = divmod(since_midnight_ms // UNITS_MS["minute"], 60)
    return f"{hour:02}:{minute:02}"
