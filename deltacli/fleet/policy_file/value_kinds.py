"""The kinds of values in a policy file: how a value is parsed, shown again, and checked by an editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.core.errors import UsageError
from deltacli.core.times import DURATIONS_MS, DailyWindow, format_duration, parse_duration
from deltacli.core.typing import Json, Toml
from deltacli.core.units import parse_percentage, parse_size
from deltacli.operations.vacuum.plan import DeletionLimit

_LARGEST_INTEGER = (1 << 63) - 1
"""The largest integer that every reader of TOML has to accept."""


def parse_text(value: Toml) -> str:
    """Return text of at least one character. Raises ValueError for anything else, and for a NUL character."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError
    return value


def parse_texts(value: Toml) -> tuple[str, ...]:
    """Return a list of texts. Raises ValueError."""
    if not isinstance(value, list):
        raise ValueError
    return tuple(parse_text(element) for element in value)


def parse_flag(value: Toml) -> bool:
    """Return True or False. Raises ValueError, also for 0 and 1, which TOML keeps apart from them."""
    if not isinstance(value, bool):
        raise ValueError
    return value


def parse_count(value: Toml) -> int:
    """Return an integer of at least 1. Raises ValueError."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not 1 <= value <= _LARGEST_INTEGER:
        raise ValueError
    return int(value)


def parse_bytes(value: Toml) -> int:
    """Return a size in bytes, of a number or of text such as `64MiB`. Raises ValueError."""
    if isinstance(value, int):
        return parse_count(value)
    try:
        return parse_size(parse_text(value))
    except UsageError:
        raise ValueError from None


def parse_duration_ms(value: Toml) -> int:
    """Return a duration such as `7d` in milliseconds. Raises ValueError."""
    try:
        return parse_duration(parse_text(value), "")
    except UsageError:
        raise ValueError from None


def parse_positive_share(value: Toml) -> float:
    """Return a share such as `10%` as a part of 1.

    Raises:
        ValueError: If it is not a share, or 0 %: an alert at 0 % would mean always, and a sample of 0 % nothing.
    """
    try:
        share = parse_percentage(parse_text(value))
    except UsageError:
        raise ValueError from None
    if not share:
        raise ValueError
    return share


def parse_deletion_limit(value: Toml) -> str:
    """Return a share or size such as `20%` or `10GiB` as text in one form. Raises ValueError."""
    try:
        return DeletionLimit.parse(parse_text(value)).text
    except UsageError:
        raise ValueError from None


def parse_window(value: Toml) -> DailyWindow:
    """Return a time of the day such as `22:00-06:00`. Raises ValueError."""
    try:
        return DailyWindow.of(parse_text(value))
    except UsageError:
        raise ValueError from None


def format_share(share: float) -> str:
    """Return a part of 1 as a percentage, as in the file."""
    return f"{100 * share:g}%"


def show_flag(flag: bool) -> str:
    """Return a flag as it is spelled in the file."""
    return "true" if flag else "false"


def show_as_is(value: Any) -> Json:  # Any: a value of the kind
    """Return a value that JSON has, too; tuples become lists."""
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, eq=False)
class ValueKind:
    """A kind of values.

    Attributes:
        expected: What a value has to be, in words.
        parse: Returns the value that a TOML value stands for, and raises ValueError for one of another kind.
        json_schema: The schema of a value in the file, for editors.
        show: Returns a value as it is spelled in documents.
    """

    expected: str
    parse: Callable[[Toml], object]
    json_schema: Mapping[str, Json]
    show: Callable[[Any], Json] = show_as_is  # Any: a value of the kind


def _duration_pattern() -> str:
    """Return the pattern of a duration: a number and a unit in any letter case."""
    units = []
    for unit in DURATIONS_MS:
        units.append("".join(f"[{letter}{letter.upper()}]" for letter in unit))
    return rf"^\s*[0-9]{{1,15}}\s*({'|'.join(units)})\s*$"


_SIZE_PATTERN = r"^\s*[0-9]{1,15}(\.[0-9]{1,9})?\s*([KMGTPkmgtp]i?[Bb]?|[KMGTPkmgtp]I[Bb]?|[Bb])?\s*$"
_SHARE_PATTERN = r"^\s*[0-9]+(\.[0-9]+)? ?%\s*$"
_TIME_PATTERN = "([01][0-9]|2[0-3]):[0-5][0-9]"
_TEXT_SCHEMA: Mapping[str, Json] = {"type": "string", "minLength": 1}

TEXT = ValueKind(expected="a text", parse=parse_text, json_schema=_TEXT_SCHEMA)
TEXTS = ValueKind(
    expected="a list of strings",
    parse=parse_texts,
    json_schema={"type": "array", "items": {"type": "string", "minLength": 1}},
)
FLAG = ValueKind(expected="true or false", parse=parse_flag, json_schema={"type": "boolean"}, show=show_flag)
COUNT = ValueKind(
    expected="a number of at least 1",
    parse=parse_count,
    json_schema={"type": "integer", "minimum": 1},
)
SIZE = ValueKind(
    expected="a size such as 64MiB",
    parse=parse_bytes,
    json_schema={"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE_PATTERN}]},
)
DURATION = ValueKind(
    expected="a duration such as 7d or 36h",
    parse=parse_duration_ms,
    json_schema={"type": "string", "pattern": _duration_pattern()},
    show=format_duration,
)
SHARE = ValueKind(
    expected="a share such as 10%",
    parse=parse_positive_share,
    json_schema={"type": "string", "pattern": _SHARE_PATTERN},
    show=format_share,
)
LIMIT = ValueKind(
    expected="a share or size such as 20% or 10GiB",
    parse=parse_deletion_limit,
    json_schema=_TEXT_SCHEMA,
)
CHOICE = ValueKind(expected="one of several words", parse=parse_text, json_schema={}, show=str)
WINDOW = ValueKind(
    expected="a time of the day in UTC such as 22:00-06:00",
    parse=parse_window,
    json_schema={"type": "string", "pattern": rf"^\s*{_TIME_PATTERN}\s*-\s*{_TIME_PATTERN}\s*$"},
    show=str,
)
