"""Escape control characters, measure the width of texts in terminal cells, and truncate texts.

Names of tables, columns and files come from other people. A column name could contain an escape sequence that
clears the screen, so all texts are escaped before they are written to a terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache

# Control characters can move the cursor or change the colours of a terminal. Unicode's direction marks can reverse
# a text, so that a column or a path looks like a different one.
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

ELLIPSIS = "…"


class Escaping(Enum):
    """The way to escape control characters in the output of a format, if stdout is a terminal."""

    NONE = "not necessary: the format escapes them"
    JSON = r"JSON escapes such as \u001b, which do not change the values"
    TEXT = r"Python escapes such as \x1b"


def escape_control(text: str) -> str:
    r"""Replace control characters, line ends included, by Python escapes: `a\nb` becomes `a\\nb`."""
    # Almost no text contains any, and a search is several times faster than a substitution.
    if not CONTROL_CHARACTERS.search(text):
        return text
    return CONTROL_CHARACTERS.sub(lambda match: _python_escape(match[0]), text)


def escape_control_in_lines(text: str) -> str:
    """Replace control characters by Python escapes, except line ends."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0] if match[0] == "\n" else _python_escape(match[0]), text)


def escape_control_in_json(text: str) -> str:
    """Replace control characters in a JSON document by JSON escapes, except line ends. The values do not change."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


ESCAPE_FUNCTIONS: Mapping[Escaping, Callable[[str], str] | None] = {
    Escaping.NONE: None,
    Escaping.JSON: escape_control_in_json,
    Escaping.TEXT: escape_control_in_lines,
}
"""Maps an `Escaping` to the function that escapes a text; None if no escaping is necessary."""


def escape_for_screen(text: str) -> str:
    """Replace control characters, and bytes of file names that are not valid UTF-8, by Python escapes."""
    safe = escape_control(text)
    if safe.isascii():
        return safe
    # Python decodes invalid bytes of file names as lone surrogates, which cannot be encoded as UTF-8.
    return safe.encode("utf-8", "backslashreplace").decode("utf-8")


def _python_escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def encode_utf8(text: str) -> bytes:
    r"""Encode a text as UTF-8.

    File names that are not valid UTF-8 are written with their original bytes, so that programs can open the files. If
    a text contains other lone surrogates, such as `\ud800` in a JSON document, these are written as escapes.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def count_cells(text: str) -> int:
    """Return the width of a text in terminal cells. East Asian wide characters have two cells, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_count_cells_of_character, text))


@lru_cache(maxsize=4_096)
def _count_cells_of_character(character: str) -> int:
    is_mark_or_joiner = unicodedata.category(character) in ("Mn", "Me", "Cf")
    # Hangul vowels and final consonants are drawn in the cells of the initial consonant.
    is_hangul_part = "\u1160" <= character <= "\u11ff"
    if is_mark_or_joiner or is_hangul_part:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, width: int, *, keep_end: bool = False, keep_both: bool = False) -> str:
    """Truncate a text to a width, and mark the omitted part with an ellipsis.

    Args:
        text: The text, without control characters.
        width: The maximum width of the result in cells, including the ellipsis.
        keep_end: Omit the beginning instead of the end: `…0001.parquet`. File names differ at the end.
        keep_both: Omit the middle instead: `s3://wa…/trips`. Paths differ at both ends.
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
    # Do not begin with a combining mark. It would be drawn on the ellipsis.
    while length and _count_cells_of_character(text[-length]) == 0:
        length -= 1
    return ELLIPSIS + text[len(text) - length :]


def _count_fitting(text: str, width: int) -> int:
    """Return the length of the longest beginning of a text that fits into a width."""
    used_cells = 0
    for length, character in enumerate(text):
        used_cells += _count_cells_of_character(character)
        if used_cells > max(width, 0):
            return length
    return len(text)
