"""Sizes, counts and percentages: parsing and formatting."""

from __future__ import annotations

import re

from deltacli.core.errors import UsageError

SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

MOST_NUMBER = 2**63 - 1
"""The largest number of a field, in a log as in Arrow."""

FRACTION_CODE = "usage.share"
"""The code of the error for a value that is not a fraction. It is part of the contract, hence the other word."""

_SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?:([KMGTP])(i?)B?|B)?\s*", re.IGNORECASE)

_PERCENTAGE = re.compile(r"([0-9]+(?:[.][0-9]+)?) ?%")

_SPACE_BEFORE_UNIT = re.compile(r"(?<![\w.,])(\d[\d.,]*) (?=(?:[KMGTPE]i?B|B|ms|s|min|h|d|%)(?!\w))")

_SINGULAR_VERBS = {"have": "has", "are": "is", "were": "was", "do": "does", "need": "needs", "lack": "lacks"}


def format_size(size_bytes: int) -> str:
    """Format a number of bytes for people: `3.2 GiB`."""
    value = float(size_bytes)
    # A size above the last unit stays in it: logs can claim any number of bytes.
    for unit in SIZE_UNITS:
        if abs(value) < 1024 or unit == SIZE_UNITS[-1]:
            break
        value /= 1024
    return f"{size_bytes:,} B" if unit == "B" else f"{value:.1f} {unit}"


def format_size_limit(size_bytes: int) -> str:
    """Format a limit in bytes, which mostly is a whole number of units: `64 MiB`."""
    return format_size(size_bytes).replace(".0 ", " ")


def parse_size(text: str, where: str = "") -> int:
    """Return the bytes of a size: `10GiB`, `1.5 TB`, `4096`.

    Args:
        text: The size. Units with an `i` are powers of 1,024, others powers of 1,000.
        where: The option that the message names.

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
    """Format a count with its noun: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_with_verb(count: int, noun: str, verb: str) -> str:
    """Format a count with its noun and a verb that agrees with it: `1 file has`, `2 files have`."""
    agreeing_verb = _SINGULAR_VERBS[verb] if count == 1 else verb
    return f"{plural(count, noun)} {agreeing_verb}"


def keep_units_together(text: str, blank: str) -> str:
    """Return a text with `blank` instead of the space between a number and its unit, so that lines do not end there."""
    return _SPACE_BEFORE_UNIT.sub(rf"\1{blank}", text) if " " in text else text


def require_number(value: float, name: str) -> None:
    """Raise UsageError for a number that needs more than 64 bits, or is none: NaN and infinities."""
    if not -MOST_NUMBER - 1 <= value <= MOST_NUMBER:
        raise UsageError(f"{name} is out of range", facts={"expected": "a number of at most 64 bits"})


def parse_percentage(text: str) -> float:
    """Return a percentage such as `5%` or `0.5%` as a number from 0 to 1. Raise ValueError for other texts."""
    match = _PERCENTAGE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise ValueError(f"{text!r} is not a share such as 5%")
    return float(match[1]) / 100


def require_fraction(value: object, where: str) -> None:
    """Raise UsageError, which names the parameter in `where`, unless a value is a number from 0 to 1."""
    # True is an int in Python, and not meant as 1 here.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        facts = {"expected": "a number from 0 to 1"}
        raise UsageError(f"{where} {value!r} is not a share", code=FRACTION_CODE, facts=facts)
