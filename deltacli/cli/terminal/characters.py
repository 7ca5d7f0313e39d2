"""Characters on a terminal: which ones are unsafe, how wide they are, and how a text is cut to a width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache

# Control characters could move the cursor or change the colours of a terminal. The marks of direction in Unicode could
# reorder what a reader sees, so that a column or a path looks like another one.
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

ELLIPSIS = "…"


class Escaping(Enum):
    """How the control characters in a format's text are escaped for a terminal."""

    NONE = "the format escapes them itself"
    JSON = "as escapes of JSON: the values stay the same"
    TEXT = "as escapes of Python"


def escape_control(text: str) -> str:
    """Return a text that is safe on a terminal: control and direction characters as escapes of Python."""
    # Nearly every text has none, and a search is several times faster than a substitution.
    if not CONTROL_CHARACTERS.search(text):
        return text
    return CONTROL_CHARACTERS.sub(lambda match: _python_escape(match[0]), text)


def escape_control_in_lines(text: str) -> str:
    """Return a text of several lines in which control characters other than line ends are escapes of Python."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0] if match[0] == "\n" else _python_escape(match[0]), text)


def escape_control_in_json(text: str) -> str:
    """Return a JSON text whose control and direction characters are JSON escapes, so that its values are the same."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


ESCAPE_FUNCTIONS: Mapping[Escaping, Callable[[str], str] | None] = {
    Escaping.NONE: None,
    Escaping.JSON: escape_control_in_json,
    Escaping.TEXT: escape_control_in_lines,
}
"""Escaping -> the function that escapes a text; None if the text is written unchanged."""


def escape_for_screen(text: str) -> str:
    """Return a text that any terminal accepts: control characters and bytes that are not UTF-8 as escapes."""
    safe = escape_control(text)
    if safe.isascii():
        return safe
    # File names that are not UTF-8 have surrogates in place of their bytes, which no stream in UTF-8 accepts.
    return safe.encode("utf-8", "backslashreplace").decode("utf-8")


def _python_escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def encode_utf8(text: str) -> bytes:
    """Return a text in UTF-8. File names keep their bytes; a lone surrogate of JSON (`\\ud800`) becomes its escape."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def count_cells(text: str) -> int:
    """Return the number of terminal cells of a text: wide East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_count_cells_of_character, text))


@lru_cache(maxsize=4_096)
def _count_cells_of_character(character: str) -> int:
    is_mark_or_joiner = unicodedata.category(character) in ("Mn", "Me", "Cf")
    # Vowels and finals of Hangul join the consonant before them.
    is_hangul_part = "\u1160" <= character <= "\u11ff"
    if is_mark_or_joiner or is_hangul_part:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, width: int, *, keep_end: bool = False, keep_both: bool = False) -> str:
    """Cut a text to a number of cells, with an ellipsis in place of what is missing.

    Args:
        text: A text without control characters.
        width: The cells that the result may take, the ellipsis included.
        keep_end: Cut the beginning instead of the end, because file names differ at the end.
        keep_both: Cut the middle instead, because paths differ at both ends.
    """
    if count_cells(text) <= width:
        return text
    if keep_both:
        end = _cut_beginning(text, width * 2 // 3).removeprefix(ELLIPSIS)
        return shorten(text, width - count_cells(end)) + end
    return _cut_beginning(text, width) if keep_end else _cut_end(text, width)


def _cut_end(text: str, width: int) -> str:
    return text[: _count_fitting(text, width - 1)] + ELLIPSIS


def _cut_beginning(text: str, width: int) -> str:
    length = _count_fitting(text[::-1], width - 1)
    # A combining mark at the cut would be drawn on the ellipsis, because its letter is gone.
    while length and _count_cells_of_character(text[-length]) == 0:
        length -= 1
    return ELLIPSIS + text[len(text) - length :]


def _count_fitting(text: str, width: int) -> int:
    """Return how many characters at the beginning of a text fit a number of cells."""
    used = 0
    for length, character in enumerate(text):
        used += _count_cells_of_character(character)
        if used > max(width, 0):
            return length
    return len(text)
