"""The terminal: whether there is one, how wide it is, what colour means, and everything that is said on stderr."""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Style(StrEnum):
    """Colour by meaning, as ANSI parameters."""

    PLAIN = ""
    HEADING = "1"
    QUIET = "2"
    GOOD = "32"
    CHANGE = "33"
    REMOVAL = "31"
    PROBLEM = "1;31"


@dataclass(frozen=True, slots=True)
class Terminal:
    """What stdout is: a terminal of `width` cells, or a pipe (`width` None), with or without colour."""

    is_terminal: bool
    width: int | None
    colour: bool

    def paint(self, text: str, style: Style) -> str:
        """Colour a text by meaning, where colour is on."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and style is not Style.PLAIN and text else text


def detect_terminal(colour: str, *, to_file: bool) -> Terminal:
    """Look at stdout. `colour` is auto, always or never; `NO_COLOR` and `TERM=dumb` turn auto off."""
    is_terminal = not to_file and sys.stdout.isatty()
    wanted = colour == "always" or (
        colour == "auto" and is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    width = max(shutil.get_terminal_size((80, 24)).columns, 20) if is_terminal else None
    return Terminal(is_terminal, width, wanted)


def visible(text: str) -> str:
    """Return a text that is safe on a terminal: control and direction characters as their escapes."""
    return (
        _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
        if _CONTROL.search(text)
        else text
    )


def cells(text: str) -> int:
    """How many terminal cells a text takes: wide East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, width: int, *, keep_end: bool = False) -> str:
    """Cut a text to `width` cells, with an ellipsis where something was cut."""
    if cells(text) <= width:
        return text
    if keep_end:
        return shorten(text[::-1], width)[::-1]
    kept, used = [], 0
    for character in text:
        size = cells(character)
        if used + size > max(width - 1, 0):
            break
        kept.append(character)
        used += size
    return "".join(kept) + "…"


def say(text: str) -> None:
    """Write a line on stderr; a closed stderr is nobody's fault."""
    try:
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
