"""Whole numbers in JSON files of Paimon, which Java also reads from text and from numbers such as 3.0."""

from __future__ import annotations

import re

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_LIMIT = 1 << 63
_LARGEST_EXACT_FLOAT = 1 << 53


def parse_whole_number(value: object) -> int | None:
    """Return the whole number that Java reads from a JSON value; None where it would make up another one.

    Java's parser never fails: it takes `"3"` and `3.0` for 3, but also `"three"`, null and objects for 0, and cuts
    numbers that are too long. Only values with one possible meaning are accepted here:

        3, 3.0, "3", " +3 "     3
        3.5, "3.0", "three"     None
        true, null, [ ]         None
    """
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            is_exact = value.is_integer() and abs(value) <= _LARGEST_EXACT_FLOAT
            return int(value) if is_exact else None
        case str():
            return _parse_text(value.strip(" \t\r\n"))
        case _:
            return None


def _parse_text(text: str) -> int | None:
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -_LONG_LIMIT <= number < _LONG_LIMIT else None
