"""The capabilities of stdout and stderr: terminal or pipe, width, colour, and the looks of texts."""

from __future__ import annotations

import os
import shutil
import sys
from enum import StrEnum
from typing import NamedTuple

from deltacli.cli.invocation import colour_of_environment

_DEFAULT_SIZE = (80, 24)
_MIN_WIDTH = 20
"""Cells below which no result is drawn: on a narrower terminal its lines wrap."""
_FORCED_WIDTH = 100
"""Cells of a result that is drawn into a pipe or a file because colour was forced."""


class Style(StrEnum):
    """The meaning of a text on the screen. The value is its look, in the words of rich. One look is one member.

    Only the 16 colours of the terminal are used, and of them only those that can be read on a light and on a dark
    background: no blue, no white, no black, no bright variants.
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
"""Word of a look -> parameter of the escape sequence."""


class Terminal(NamedTuple):
    """The properties of stdout.

    Attributes:
        is_terminal: Whether stdout is a terminal, where values are cut to its width.
        width: Its cells. Also set if colour is forced into a pipe: results are drawn as for a terminal then, but no
            value is cut. None if results are written as plain text.
        colour: Whether texts are coloured.
    """

    is_terminal: bool
    width: int | None
    colour: bool

    @property
    def is_drawn(self) -> bool:
        """Return True if results are drawn by rich."""
        return self.width is not None

    def paint(self, text: str, style: Style) -> str:
        """Return a text in the colour of a meaning, if colour is on."""
        if not self.colour or style is Style.PLAIN or not text:
            return text
        parameters = ";".join(str(_ANSI_PARAMETERS[word]) for word in style.split())
        return f"\x1b[{parameters}m{text}\x1b[0m"


PLAIN_TEXT = Terminal(is_terminal=False, width=None, colour=False)
"""A pipe or a file."""


def detect_terminal(colour: str, *, to_file: bool) -> Terminal:
    """Return the properties of stdout.

    Args:
        colour: `auto`, `always` or `never`. The environment may turn `auto` into one of the others.
        to_file: Whether the result is written to a file, where it is neither coloured nor drawn.
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
    """Return the width of the terminal in cells, 80 if it is unknown."""
    return shutil.get_terminal_size(_DEFAULT_SIZE).columns


def has_coloured_stderr(colour: str) -> bool:
    """Return True if messages on stderr are coloured. `colour` is `auto`, `always` or `never`."""
    if colour == "never" or not sys.stderr.isatty():
        return False
    return colour == "always" or colour_of_environment() is not False


def _forced_width(columns: str) -> int:
    """Return the width of a result that is drawn without a terminal: the variable `COLUMNS`, else 100."""
    if columns.isdecimal() and int(columns):
        return max(int(columns), _MIN_WIDTH)
    return _FORCED_WIDTH
