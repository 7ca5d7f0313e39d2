"""Parse and format sizes in bytes, counts and percentages."""

from __future__ import annotations

import re

from deltacli.core.errors import UsageError

SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

MAX_INT64 = 2**63 - 1
"""The largest integer that a field of an action, or an Arrow column of type int64, can store."""

MIN_INT64 = -(2**63)

FRACTION_CODE = "usage.share"
"""The code of the error for a value that is not a fraction. Codes are stable, so it keeps the former word `share`."""

_SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?:([KMGTP])(i?)B?|B)?\s*", re.IGNORECASE)

_PERCENTAGE = re.compile(r"([0-9]+(?:[.][0-9]+)?) ?%")

_SPACE_BEFORE_UNIT = re.compile(r"(?<![\w.,])(\d[\d.,]*) (?=(?:[KMGTPE]i?B|B|ms|s|min|h|d|%)(?!\w))")

_SINGULAR_VERBS = {"have": "has", "are": "is", "were": "was", "do": "does", "need": "needs", "lack": "lacks"}


def format_size(size_bytes: int) -> str:
    """Format a number of bytes in the largest unit that it reaches: `3.2 GiB`, `1,000 B`."""
    value = float(size_bytes)
    # A damaged log can contain any number of bytes: 5,000 EiB stay in EiB, the last unit.
    for unit in SIZE_UNITS:
        if abs(value) < 1024 or unit == SIZE_UNITS[-1]:
            break
        value /= 1024
    return f"{size_bytes:,} B" if unit == "B" else f"{value:.1f} {unit}"


def format_size_limit(size_bytes: int) -> str:
    """Format a limit in bytes. Limits are usually whole numbers of a unit, so `64.0 MiB` becomes `64 MiB`."""
    return format_size(size_bytes).replace(".0 ", " ")


def parse_size(text: str, where: str = "") -> int:
    """Parse a size such as `10GiB`, `1.5 TB` or `4096`, and return the number of bytes.

    Args:
        text: The size. KiB is 1,024 bytes, and KB is 1,000 bytes.
        where: The name of the option for the error message; empty for none.

    Raises:
        UsageError: If the text is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        prefix = f"{where}: " if where else ""
        raise UsageError(
            f"{prefix}{text!r} is not a size",
            code="usage.size",
            facts={"expected": "bytes, or 10GiB, 500MB and the like"},
        )

    base = 1024 if match[3] else 1000
    exponent = " KMGTP".index(match[2].upper()) if match[2] else 0
    factor: int = base**exponent
    return round(float(match[1]) * factor)


def format_count(count: int) -> str:
    """Format a count with thousands separators: `1,000,060`."""
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun in singular or plural: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_with_verb(count: int, noun: str, verb: str) -> str:
    """Format a count with its noun and a verb: `1 file has`, `2 files have`.

    Args:
        count: The count.
        noun: The noun in singular.
        verb: The verb in plural, one of the keys of `_SINGULAR_VERBS`.
    """
    agreeing_verb = _SINGULAR_VERBS[verb] if count == 1 else verb
    return f"{plural(count, noun)} {agreeing_verb}"


def keep_units_together(text: str, blank: str) -> str:
    """Replace the space between a number and its unit, so that a line break does not separate them.

    >>> keep_units_together("a file of 3.2 GiB", "~")
    'a file of 3.2~GiB'

    Args:
        text: The text of a message or a table.
        blank: The replacement, such as a no-break space.
    """
    # A fast path for the cells of large tables, most of which have no space.
    if " " not in text:
        return text
    return _SPACE_BEFORE_UNIT.sub(rf"\1{blank}", text)


def require_number(value: float, name: str) -> None:
    """Raise UsageError for a number outside the range of int64, and for NaN.

    Args:
        value: The number.
        name: The name of the parameter for the error message.
    """
    # A comparison with NaN is always False, so NaN is refused, too.
    if not MIN_INT64 <= value <= MAX_INT64:
        raise UsageError(f"{name} is out of range", facts={"expected": "a number of at most 64 bits"})


def parse_percentage(text: str) -> float:
    """Parse a percentage such as `5%` or `0.5%`, and return a number from 0 to 1.

    Raises:
        ValueError: If the text is not a percentage from 0% to 100%.
    """
    match = _PERCENTAGE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise ValueError(f"{text!r} is not a share such as 5%")
    return float(match[1]) / 100


def require_fraction(value: object, where: str) -> None:
    """Raise UsageError unless a value is a number from 0 to 1.

    Args:
        value: The value that the caller passed.
        where: The name of the parameter for the error message.
    """
    # True and False are instances of int, but they are not fractions.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        facts = {"expected": "a number from 0 to 1"}
        raise UsageError(f"{where} {value!r} is not a share", code=FRACTION_CODE, facts=facts)
