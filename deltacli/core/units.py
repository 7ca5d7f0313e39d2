"""Parsing and formatting of sizes, counts, durations, times of the day, ages and ranges of versions; and how far clocks
may be apart before a time counts as wrong. What every way in checks of a text and a number, whatever they mean; and the
`repr` of results, one short line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from deltacli.core.errors import DurationArgument, UsageError, nearest_name, require_path

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
DAY_MS = 86_400_000
_MILLISECOND = timedelta(milliseconds=1)
UNITS_MS = {"week": 7 * DAY_MS, "day": DAY_MS, "hour": 3_600_000, "minute": 60_000, "second": 1_000}
"""The units of durations and intervals, the longest first; a month and a year have no fixed length."""

DURATIONS_MS = {unit[0]: length for unit, length in UNITS_MS.items()} | {"ms": 1}
"""How the units of a duration are written, the longest first."""
_AGES = (
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
)
CLOCK_SKEW_MS = 5 * 60_000
"Correctly set clocks (of the store, of a writer, of this machine) differ by less."

EARLIEST_PLAUSIBLE_MS = 100_000_000_000
"3 March 1973 in milliseconds, or the year 5138 in seconds. Smaller values were most likely meant as seconds."

WRITER_SKEW_MS = 60 * 60_000
"Allowed for times that writers put into actions, since their clocks are often not synchronized."


def format_size(size_bytes: int) -> str:
    """Format a number of bytes for people: `3.2 GiB`."""
    value = float(size_bytes)
    for unit in SIZE_UNITS:
        if abs(value) < 1024 or unit == SIZE_UNITS[-1]:
            break
        value /= 1024
    return f"{size_bytes:,} B" if unit == "B" else f"{value:.1f} {unit}"


def format_size_limit(size_bytes: int) -> str:
    """Format a whole limit in bytes for people: `64 MiB`."""
    return format_size(size_bytes).replace(".0 ", " ")


_BEFORE_UNIT = re.compile(r"(?<![\w.,])(\d[\d.,]*) (?=(?:[KMGTPE]i?B|B|ms|s|min|h|d|%)(?!\w))")


def keep_units_together(text: str, blank: str) -> str:
    """Return a text in which `blank` is between a number and its unit, so that they stay on one line."""
    return _BEFORE_UNIT.sub(rf"\1{blank}", text) if " " in text else text


def format_count(count: int) -> str:
    """Format a count with thousands separators: `1,000,060`."""
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_SINGULAR = {"have": "has", "are": "is", "were": "was", "do": "does", "need": "needs", "lack": "lacks"}


def count_with_verb(count: int, noun: str, verb: str) -> str:
    """Format a count with its noun and a verb that agrees with it: `1 file has`, `2 files have`."""
    return f"{plural(count, noun)} {_SINGULAR[verb] if count == 1 else verb}"


def add_article(noun: str) -> str:
    """Return a noun with its indefinite article: `a Delta`, `an Iceberg`, `an int`."""
    return f"{'an' if noun[:1].lower() in 'aeio' and noun else 'a'} {noun}"


def to_epoch_ms(moment: datetime, *, begins: bool = False) -> int:
    """Return epoch milliseconds, the precision of commits: rounded down, which is where a range ends and a version is
    looked for; rounded up where a range `begins`, which a commit before the moment is not in.
    """
    since = moment - EPOCH
    return -(-since // _MILLISECOND) if begins else since // _MILLISECOND


def format_timestamp(timestamp_ms: int) -> str:
    """Format epoch milliseconds as RFC 3339 UTC with milliseconds, or as a plain number if out of range."""
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return f"{moment.isoformat(timespec='milliseconds')[:23]}Z"  # strftime takes five times as long


def format_moment(timestamp_ms: int) -> str:
    """Format epoch milliseconds for people, to the second: `2026-01-09 08:12:44`."""
    return format_timestamp(timestamp_ms)[:19].replace("T", " ")


def format_age(timestamp_ms: int, now_ms: int) -> str:
    """Format how long ago a time was: `3 days ago`, `in 2 hours`, `now`."""
    seconds = abs(now_ms - timestamp_ms) // 1000
    for length, unit in _AGES:
        if seconds >= length:
            amount = plural(seconds // length, unit)
            return f"{amount} ago" if now_ms >= timestamp_ms else f"in {amount}"
    return "now"


_WEEK_HOURS, _MONTH_HOURS = 168, 720
LONGEST_DURATION_MS = 365_000 * DAY_MS
"""What is subtracted from a time is one afterwards."""


def parse_duration(text: str, where: str, unit: str | None = None) -> int:
    """Return the milliseconds of a duration: `30d`, `168h`, `90m`, `2w`, `1500ms`.

    Raises UsageError, which names the option or key in `where`, and suggests `unit` for a number without one; None:
    days, or hours for whole weeks or months of them.
    """
    match = re.fullmatch(rf"\s*([0-9]{{1,15}})\s*({'|'.join(DURATIONS_MS)})\s*", text.lower())
    if match is None:
        is_number = re.fullmatch(r"[1-9][0-9]{0,14}", text) is not None
        if is_number and unit is None:
            unit = "h" if int(text) % _WEEK_HOURS == 0 or int(text) % _MONTH_HOURS == 0 else "d"
        unknown = UsageError(
            f"{where}: {text!r} is not a duration" + (f": add a unit, such as {text}{unit}" if is_number else ""),
            code="usage.duration",
            facts={"expected": f"a number and one of {', '.join(DURATIONS_MS)}, as in 30d or 168h"},
        )
        raise unknown.suggest_as_fact(text, f"{text}{unit}" if is_number else _near_duration(text))
    duration_argument = int(match[1]) * DURATIONS_MS[match[2]]
    if duration_argument > LONGEST_DURATION_MS:
        raise UsageError(f"{where}: {text!r} is longer than a thousand years", code="usage.duration")
    return duration_argument


def _near_duration(text: str) -> str | None:
    """Return the duration that a text with the name of a unit means: 3d for `3 days` and `3dya`; None for others."""
    found = re.fullmatch(r"\s*([0-9]{1,15})\s*([a-z]{2,}|y)\s*", text.lower())
    if found and found[2].removesuffix("s") in ("y", "year"):
        return f"{365 * int(found[1])}d"
    unit = None if found is None else nearest_name(found[2].removesuffix("s"), (*UNITS_MS, *_SHORT_UNITS))
    return f"{found[1]}{unit[0]}" if found and unit else None


_SHORT_UNITS = ("hr", "min", "sec")
_NAME = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+|`.*")


def parse_names(text: str, where: str, part: re.Pattern[str] | None = None, **error: Any) -> list[str]:
    """Return the names of a list separated by commas; backticks quote a comma in a name, or `part` matches each name.

    Raises UsageError with the details `error`, which names the option in `where`, for an empty list or an empty name.
    """
    part = part or _NAME
    names = [name for found in part.findall(text) if (name := found.strip())]
    if not names:
        raise UsageError(f"{where} is empty", **error)
    if not all(part.sub(lambda found: found[0].strip() and "-", text).split(",")):
        facts = {"did you mean": ",".join(names)} | error.pop("facts", {})
        empty = UsageError(f"{where}: a name is empty", facts=facts, **error | {"hint": None})
        raise empty.suggest_as_fact(text, facts["did you mean"])
    return names


def parse_versions(text: str, option: str) -> tuple[int, ...]:
    """Return the versions of a list, each once: `5,10-12` -> 5, 10, 11, 12. Raises UsageError, which names `option`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 19 for end in ends) or int(ends[0]) > int(ends[1]):
            raise UsageError(f"{option} {text}: {part.strip()!r} is not a version", facts={"expected": "5,10-12"})
        if int(ends[1]) - int(ends[0]) > 1_000_000:
            raise UsageError(f"{option} {text}: more than a million versions")
        found.update(range(int(ends[0]), int(ends[1]) + 1))
    return tuple(sorted(found))


FRACTION_CODE = "usage.share"
"""The code of the error for a value that is not a share."""


def parse_percentage(text: str) -> float:
    """Return a share of something, `5%` or `0.5%`, as a number from 0 to 1. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?) ?%", text.strip())
    if match is None or not 0 <= float(match[1]) <= 100:
        raise ValueError(f"{text!r} is not a share such as 5%")
    return float(match[1]) / 100


def require_fraction(share: object, where: str) -> None:
    """Raise UsageError, which names the parameter in `where`, unless a value is a number from 0 to 1."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise UsageError(
            f"{where} {share!r} is not a share", code=FRACTION_CODE, facts={"expected": "a number from 0 to 1"}
        )


def parse_size(text: str, where: str = "") -> int:
    """Return the bytes of a size: `10GiB`, `1.5 TB`, `4096`. Raises UsageError, which names the option in `where`."""
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?:([KMGTP])(i?)B?|B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise UsageError(
            f"{where}{where and ': '}{text!r} is not a size",
            code="usage.size",
            facts={"expected": "bytes, or 10GiB, 500MB and the like"},
        )
    unit = (match[2] or "").upper()
    factor: int = (1024 if match[3] else 1000) ** (" KMGTP".index(unit) if unit else 0)
    return round(float(match[1]) * factor)


def format_duration(duration_ms: int) -> str:
    """Format a duration in its largest whole unit up to days, as `parse_duration` reads it: `30d`, `36h`, `0s`."""
    if duration_ms == 0:
        return "0s"
    unit = next(unit for unit, length in DURATIONS_MS.items() if unit != "w" and duration_ms % length == 0)
    return f"{duration_ms // DURATIONS_MS[unit]}{unit}"


def duration_argument(milliseconds: int) -> DurationArgument:
    """Return a duration as the value of a parameter in a hint."""
    return DurationArgument(format_duration(milliseconds), milliseconds)


def summarize_names(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    return separator.join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def format_ranges(numbers: Iterable[int]) -> str:
    return format_spans(find_ranges(numbers))


def format_spans(spans: Iterable[tuple[int, int]]) -> str:
    """Format (first, last) pairs as ranges."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans) or "none"


def name_ranges(noun: str, numbers: Iterable[int]) -> str:
    """Format numbers as ranges after their noun: `commit 12`, `commits 0-9, 12`."""
    found = list(numbers)
    return f"{noun}{'' if len(found) == 1 else 's'} {format_ranges(found)}"


def find_gaps(numbers: Iterable[int], first: int, last: int) -> list[tuple[int, int]]:
    """Return the runs of missing numbers between `first` and `last`, both included, as (first, last).

    The time depends on the existing numbers, not on the missing ones: a version may be 2^60.
    """
    gaps: list[tuple[int, int]] = []
    for number in sorted({number for number in numbers if first <= number <= last}):
        if number > first:
            gaps.append((first, number - 1))
        first = number + 1
    return [*gaps, (first, last)] if first <= last else gaps


def find_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the maximal runs of consecutive numbers, ascending, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


class DailyWindow(NamedTuple):
    """A part of every day, in milliseconds since midnight UTC; it may reach beyond midnight."""

    begin_ms: int
    end_ms: int

    @classmethod
    def of(cls, text: str) -> DailyWindow:
        """Read `22:00-06:00`. Raises ValueError."""
        found = re.fullmatch(_WINDOW, text.strip())
        if found is None:
            raise ValueError
        begin, end = ((60 * int(found[hours]) + int(found[minutes])) * UNITS_MS["minute"] for hours, minutes in _ENDS)
        return cls(begin, end)

    def left_ms(self, now_ms: int) -> int:
        """Return how long the window is still open, 0 where it is closed. One that begins when it ends is the day."""
        length = (self.end_ms - self.begin_ms) % DAY_MS or DAY_MS
        return max(0, length - (now_ms - self.begin_ms) % DAY_MS)

    def __str__(self) -> str:
        ends = (divmod(at // UNITS_MS["minute"], 60) for at in self)
        return "-".join(f"{hour:02}:{minute:02}" for hour, minute in ends)


_WINDOW, _ENDS = r"([01]\d|2[0-3]):([0-5]\d)\s*-\s*([01]\d|2[0-3]):([0-5]\d)", ((1, 2), (3, 4))


MOST_NUMBER = 2**63 - 1
"""The largest number of a field, in a log as in Arrow."""
_LONGEST_WORD = 1 << 20
"""More than a word of a command line can be on any system."""
_LONGEST_TEXT = 20_000


def require_number(value: float, name: str) -> None:
    """Raise UsageError for a number that has more than 64 bits, or is none: NaN and infinities."""
    if not -MOST_NUMBER - 1 <= value <= MOST_NUMBER:
        raise UsageError(f"{name} is out of range", facts={"expected": "a number of at most 64 bits"})


def require_word(word: str) -> None:
    """Raise UsageError for a word of a command line that no system could pass on."""
    if len(word) > _LONGEST_WORD:
        raise UsageError(f"an argument has {len(word):,} characters", facts={"expected": f"at most {_LONGEST_WORD:,}"})
    require_path(word, "an argument")


def is_utf8_encodable(text: str) -> bool:
    """Return False for a text with half a surrogate pair, which UTF-8, and therefore Arrow, cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut_middle(text: str) -> str:
    """Return a text without its middle where nobody reads it whole, such as a path of megabytes in a hostile log."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters ...] {text[-half:]}"


# -- the `repr` of results and plans -----------------------------------------------------------------------------------

Class = TypeVar("Class")
_LONGEST = 60


def short_repr(*shown: str) -> Callable[[type[Class]], type[Class]]:
    """Return a decorator that limits the `repr` of a class to the attributes at the dotted paths `shown`.

    `name=path` shows an attribute by another name. Collections are shown by their number of items; None and False are
    left out.
    """

    def decorate(decorated: type[Class]) -> type[Class]:
        def in_short(self: Class) -> str:
            return f"{decorated.__name__}({', '.join(_shown(self, shown))})"

        decorated.__repr__ = in_short  # type: ignore[assignment]
        return decorated

    return decorate


def _shown(whole: object, paths: tuple[str, ...]) -> Iterator[str]:
    for named in paths:
        name, _, path = named.rpartition("=")
        value: object = whole
        for attribute in path.split("."):
            value = getattr(value, attribute, None)
        if value is not None and value is not False:
            yield f"{name or path.rpartition('.')[2]}={_brief(value)}"


def _brief(value: object) -> str:
    if isinstance(value, str):
        text = repr(str(value))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]}...'"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return str(len(value)) if isinstance(value, Sized) else repr(value)
