"""Durations, timestamps and times of the day: parsing and formatting. All times are in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from deltacli.core.errors import DurationArgument, UsageError, nearest_name
from deltacli.core.units import plural

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DAY_MS = 86_400_000

UNITS_MS = {"week": 7 * DAY_MS, "day": DAY_MS, "hour": 3_600_000, "minute": 60_000, "second": 1_000}
"""The units of durations and intervals, the longest first. A month and a year have no fixed length."""

DURATIONS_MS = {unit[0]: length for unit, length in UNITS_MS.items()} | {"ms": 1}
"""Units of durations as they are written, `w` to `ms`, the longest first."""

LONGEST_DURATION_MS = 365_000 * DAY_MS
"""A thousand years. A longer duration cannot be subtracted from the present: `datetime` ends at the year 1."""

CLOCK_SKEW_MS = 5 * 60_000
"""Correctly set clocks, of the store, of a writer and of this machine, differ by less."""

WRITER_SKEW_MS = 60 * 60_000
"""Tolerance for times that writers put into actions, since their clocks are often not synchronized."""

EARLIEST_PLAUSIBLE_MS = 100_000_000_000
"""3 March 1973 in milliseconds, or the year 5138 in seconds. Smaller values were most likely meant as seconds."""

_MILLISECOND = timedelta(milliseconds=1)

_WEEK_HOURS = 168
_MONTH_HOURS = 720

_SHORT_UNITS = ("hr", "min", "sec")
"""Names of units that people write although `parse_duration` does not read them; the first letter is the unit."""

_AGE_UNITS = (
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
)
"""Seconds and names of the units of ages, the longest first. An age is for people, so a month has 30 days."""

_TIME_OF_DAY = r"([01]\d|2[0-3]):([0-5]\d)"
_DAILY_WINDOW = re.compile(rf"{_TIME_OF_DAY}\s*-\s*{_TIME_OF_DAY}")
_DURATION = re.compile(rf"\s*([0-9]{{1,15}})\s*({'|'.join(DURATIONS_MS)})\s*")
_NUMBER_WITHOUT_UNIT = re.compile(r"[1-9][0-9]{0,14}")
_NUMBER_WITH_WORD = re.compile(r"\s*([0-9]{1,15})\s*([a-z]{2,}|y)\s*")


class DailyWindow(NamedTuple):
    """A part of every day. It extends past midnight if it ends before it begins.

    Attributes:
        begin_ms: Milliseconds since midnight UTC.
        end_ms: Milliseconds since midnight UTC. Equal to `begin_ms`, the window is the whole day.
    """

    begin_ms: int
    end_ms: int

    @classmethod
    def of(cls, text: str) -> DailyWindow:
        """Parse a window such as `22:00-06:00`. Raise ValueError for other texts."""
        match = _DAILY_WINDOW.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a part of the day such as 22:00-06:00")

        begin_hour, begin_minute, end_hour, end_minute = (int(number) for number in match.groups())
        begin_ms = begin_hour * UNITS_MS["hour"] + begin_minute * UNITS_MS["minute"]
        end_ms = end_hour * UNITS_MS["hour"] + end_minute * UNITS_MS["minute"]
        return cls(begin_ms, end_ms)

    def remaining_ms(self, now_ms: int) -> int:
        """Return how long the window is still open at a time in epoch milliseconds; 0 if it is closed."""
        # The remainder is right also past midnight: from 22:00 to 06:00 are -16 hours, which is 8 hours of a day.
        length_ms = (self.end_ms - self.begin_ms) % DAY_MS or DAY_MS
        elapsed_ms = (now_ms - self.begin_ms) % DAY_MS
        return max(0, length_ms - elapsed_ms)

    def __str__(self) -> str:
        return f"{_format_time_of_day(self.begin_ms)}-{_format_time_of_day(self.end_ms)}"


def to_epoch_ms(moment: datetime, *, begins: bool = False) -> int:
    """Return the epoch milliseconds of a moment. Commits have no finer times, but `--timestamp` may have.

    Args:
        moment: A time with a time zone.
        begins: Whether a range begins at the moment. It is rounded up then, so that a commit of the same millisecond,
            which may be before the moment, is not in the range. Otherwise it is rounded down: a range ends there, or a
            version is looked for.
    """
    since_epoch = moment - EPOCH
    if begins:
        # Division rounds down, also for negative numbers, so the negated quotient of the negation is rounded up.
        return -(-since_epoch // _MILLISECOND)
    return since_epoch // _MILLISECOND


def format_timestamp(timestamp_ms: int) -> str:
    """Format epoch milliseconds as RFC 3339 with milliseconds: `2026-01-09T08:12:44.000Z`.

    A number that no calendar has is returned as a plain number.
    """
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    # Every action of a log may be formatted, and `strftime` takes five times as long.
    without_zone = moment.isoformat(timespec="milliseconds")[:23]
    return f"{without_zone}Z"


def format_moment(timestamp_ms: int) -> str:
    """Format epoch milliseconds for people, to the second: `2026-01-09 08:12:44`."""
    return format_timestamp(timestamp_ms)[:19].replace("T", " ")


def format_age(timestamp_ms: int, now_ms: int) -> str:
    """Format how long ago a time was: `3 days ago`, `in 2 hours`, `now`."""
    seconds = abs(now_ms - timestamp_ms) // 1000
    # The largest unit alone: "3 days ago" is read at a glance, "3 days, 2 hours and 5 minutes ago" is not.
    for unit_seconds, unit in _AGE_UNITS:
        if seconds >= unit_seconds:
            amount = plural(seconds // unit_seconds, unit)
            return f"{amount} ago" if now_ms >= timestamp_ms else f"in {amount}"
    return "now"


def parse_duration(text: str, where: str, unit: str | None = None) -> int:
    """Return the milliseconds of a duration: `30d`, `168h`, `90m`, `2w`, `1500ms`.

    Args:
        text: The duration.
        where: The option or key that the message names.
        unit: The unit to suggest for a number without one. None suggests days, or hours if the number is one of hours
            that make whole weeks or months.

    Raises:
        UsageError: If the text is not a duration, or longer than a thousand years.
    """
    match = _DURATION.fullmatch(text.lower())
    if match is None:
        raise _build_duration_error(text, where, unit)

    duration_ms = int(match[1]) * DURATIONS_MS[match[2]]
    if duration_ms > LONGEST_DURATION_MS:
        raise UsageError(f"{where}: {text!r} is longer than a thousand years", code="usage.duration")
    return duration_ms


def format_duration(duration_ms: int) -> str:
    """Format a duration in its largest whole unit up to days, as `parse_duration` reads it: `30d`, `36h`, `0s`."""
    if duration_ms == 0:  # every unit divides it
        return "0s"
    # Weeks are left out, so that 14d and 15d can be compared at a glance.
    unit = next(unit for unit, length in DURATIONS_MS.items() if unit != "w" and duration_ms % length == 0)
    return f"{duration_ms // DURATIONS_MS[unit]}{unit}"


def duration_argument(duration_ms: int) -> DurationArgument:
    """Return a duration as the value of a parameter in a hint."""
    return DurationArgument(format_duration(duration_ms), duration_ms)


def _build_duration_error(text: str, where: str, unit: str | None) -> UsageError:
    """Return the error for a text that is not a duration, with the duration that was probably meant."""
    message = f"{where}: {text!r} is not a duration"
    suggestion: str | None
    if _NUMBER_WITHOUT_UNIT.fullmatch(text):
        suggestion = f"{text}{unit or _guess_unit(int(text))}"
        message += f": add a unit, such as {suggestion}"
    else:
        suggestion = _near_duration(text)

    error = UsageError(
        message,
        code="usage.duration",
        facts={"expected": f"a number and one of {', '.join(DURATIONS_MS)}, as in 30d or 168h"},
    )
    return error.suggest_as_fact(text, suggestion)


def _guess_unit(number: int) -> str:
    """Return the unit that a number without one has most likely, days or hours.

    Spark's `VACUUM ... RETAIN 168 HOURS` takes hours, so people write 168 and 720.
    """
    is_in_hours = number % _WEEK_HOURS == 0 or number % _MONTH_HOURS == 0
    return "h" if is_in_hours else "d"


def _near_duration(text: str) -> str | None:
    """Return the duration that a number with the name of a unit means: `3d` for `3 days` and `3dya`."""
    match = _NUMBER_WITH_WORD.fullmatch(text.lower())
    if match is None:
        return None

    number = match[1]
    word = match[2].removesuffix("s")
    # A year has no unit in `parse_duration`, but the number of days is clear enough for a suggestion.
    if word in ("y", "year"):
        return f"{365 * int(number)}d"
    unit = nearest_name(word, (*UNITS_MS, *_SHORT_UNITS))
    return f"{number}{unit[0]}" if unit else None


def _format_time_of_day(since_midnight_ms: int) -> str:
    """Format milliseconds since midnight as `06:00`."""
    hour, minute = divmod(since_midnight_ms // UNITS_MS["minute"], 60)
    return f"{hour:02}:{minute:02}"
