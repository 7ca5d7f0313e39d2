"""Detect whether stdout and stderr are terminals, their width, and whether to use colour.

Colour follows `--color`, then the environment variables `NO_COLOR`, `CLICOLOR_FORCE`, `FORCE_COLOR` and
`CLICOLOR`. By default, only terminals get colour.
"""

from __future__ import annotations

import os
import shutil
import sys
from enum import StrEnum
from typing import NamedTuple

from deltacli.cli.invocation import colour_of_environment

_DEFAULT_SIZE = (80, 24)
_MIN_WIDTH = 20
"""Minimum width of results, in cells. A narrower terminal wraps their lines."""
_FORCED_WIDTH = 100
"""Width of results in a pipe or file if the user forces colour, in cells."""


class Style(StrEnum):
    """The purpose of a text on the screen. The value is its style, in the notation of rich.

    Only those of the 16 standard colours are used that are legible on light and dark backgrounds: not blue,
    white, black or the bright variants. Purposes with the same style are aliases of one enum member.
    """

    PLAIN = "none"
    PATH = PLAIN
    HEADING = "bold"
    LABEL = HEADING
    QUIET = "dim"
    TIME = QUIET
    FRAME = QUIET
    NULL = "dim italic"
    PROBLEM = "bold red"
    WARNING = "yellow"
    MAINTENANCE = WARNING
    CHANGED = WARNING
    GOOD = "green"
    WRITES = GOOD
    ADDED = GOOD
    REMOVED = "red"
    DELETES = REMOVED
    SCHEMA_CHANGE = "magenta"
    NOTE = "cyan"
    SIZE = NOTE
    TYPE = NOTE
    NEXT = "bold cyan"


_ANSI_PARAMETERS = {
    "bold": 1,
    "dim": 2,
    "italic": 3,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "magenta": 35,
    "cyan": 36,
}
"""Maps a word of a style to the parameter of the ANSI escape sequence."""


class Terminal(NamedTuple):
    """The properties of stdout.

    Attributes:
        is_terminal: Whether stdout is a terminal. Only then values are truncated to its width.
        width: The width in cells; None if results are written as plain text. If the user forces colour in a pipe,
            results are drawn as on a terminal, so a pipe has a width, too.
        colour: Whether texts are coloured.
    """

    is_terminal: bool
    width: int | None
    colour: bool

    @property
    def is_drawn(self) -> bool:
        """Return True if results are drawn by rich, and False if they are written as plain text."""
        return self.width is not None

    def paint(self, text: str, style: Style) -> str:
        """Return a text with the escape sequences of a style. Without colour, return the text unchanged."""
        if not self.colour or style is Style.PLAIN or not text:
            return text
        parameters = ";".join(str(_ANSI_PARAMETERS[word]) for word in style.split())
        return f"\x1b[{parameters}m{text}\x1b[0m"


PLAIN_TEXT = Terminal(is_terminal=False, width=None, colour=False)
"""The properties of a pipe or file without forced colour."""


def detect_terminal(colour: str, *, to_file: bool) -> Terminal:
    """Return the properties of stdout.

    Args:
        colour: The value of `--color`: `auto`, `always` or `never`. For `auto`, environment variables decide.
        to_file: Whether the result is written to the file of `--output`. Files get plain text.
    """
    if to_file:
        return PLAIN_TEXT
    is_terminal = sys.stdout.isatty()

    if colour == "auto":
        from_environment = colour_of_environment()
        is_coloured = is_terminal if from_environment is None else from_environment
    else:
        is_coloured = colour == "always"

    if is_terminal:
        return Terminal(is_terminal, max(terminal_width(), _MIN_WIDTH), is_coloured)
    width = _forced_width(os.environ.get("COLUMNS", "")) if is_coloured else None
    return Terminal(is_terminal, width, is_coloured)


def terminal_width() -> int:
    """Return the width of the terminal in cells. If it is not known, return 80."""
    return shutil.get_terminal_size(_DEFAULT_SIZE).columns


def has_coloured_stderr(colour: str) -> bool:
    """Return True if messages on stderr are coloured.

    Args:
        colour: The value of `--color`: `auto`, `always` or `never`.
    """
    if colour == "never" or not sys.stderr.isatty():
        return False
    return colour == "always" or colour_of_environment() is not False


def _forced_width(columns: str) -> int:
    """Return the width for results that are drawn into a pipe: the environment variable `COLUMNS`, or 100."""
    if columns.isdecimal() and int(columns):
        return max(int(columns), _MIN_WIDTH)
    return _FORCED_WIDTH
