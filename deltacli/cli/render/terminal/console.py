"""The canvas: where rich draws, and what the terminal behind it can show."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, BinaryIO

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console
from rich.text import Text

from deltacli.cli.terminal.term import (
    GLUE,
    Style,
    Terminal,
    break_words,
    cells,
    encoded,
    for_screen,
    glued,
    shorten,
    unglued,
)
from deltacli.core.units import without_middle

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLED_BLANKS = re.compile(r"\x1b\[[0-9;]*m( +)\x1b\[0m")
_BLANK_ENDS = re.compile(r" +((?:\x1b\[0m)?) *$", re.MULTILINE)

_JOINER = "\u200d"
_FILLER = "\ufdd0"
"""No character of any text. One cell wide to rich, and taken out of what rich has drawn."""


class Canvas:
    """Draws with rich into the sink of a run."""

    def __init__(self, sink: BinaryIO, terminal: Terminal, *, is_ascii: bool | None = None) -> None:
        self._sink = sink
        self.width = terminal.width or 100
        self.never_cuts = not terminal.is_terminal
        """Colour was forced into a pipe or a file: every row and every value stays whole."""
        self.is_ascii = not speaks_utf8(os.environ) if is_ascii is None else is_ascii
        self._drawn = _Buffer("ascii" if self.is_ascii else "utf-8")
        self._console = Console(
            file=self._drawn,
            width=self.width,
            height=25,
            force_terminal=True,
            color_system="standard" if terminal.colour else None,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )

    def text(self, value: str, style: Style = Style.PLAIN, *, folds: bool = True, room: int | None = None) -> Text:
        """Return a text that shows every character of a value: control and direction characters as escapes, without
        UTF-8 all others, too. A text that does not fold is cut where there is no room; `room` are the cells of a line.
        """
        shown = self.plain(value) if room is None else break_words(self.plain(value), room)
        return Text(measured(shown), str(style), overflow="fold" if folds else "ellipsis", no_wrap=not folds)

    def plain(self, value: str) -> str:
        """Return the characters that `text` shows: plain text that is not megabytes long is returned unchanged."""
        safe = for_screen(without_middle(value))
        if safe.isascii():
            return safe
        if self.is_ascii:
            return safe.replace("…", "...").encode("ascii", "backslashreplace").decode("ascii")
        return safe.replace(_FILLER, "\\ufdd0").replace(GLUE, "\\U0010fffd")

    def joined(self, parts: Iterable[str | Text | tuple[str, Style]], *, folds: bool = True) -> Text:
        """Return one text made of parts, each with a style of its own."""
        whole = self.text("", folds=folds)
        for part in parts:
            match part:
                case Text():
                    whole.append_text(part)
                case str():
                    whole.append_text(self.text(part))
                case value, style:
                    whole.append_text(self.text(value, style))
        return whole

    def cut(self, text: str, width: int, *, keep_end: bool = False, keep_both: bool = False) -> str:
        """Cut a text that can be shown to a number of cells; in ASCII the ellipsis takes three."""
        if cells(text) <= width:
            return text
        if not self.is_ascii:
            return shorten(text, width, keep_end=keep_end, keep_both=keep_both) if width > 0 else ""
        kept = max(width - 3, 0)
        if keep_both:
            return text[: kept // 3] + "..."[:width] + text[len(text) - (kept - kept // 3) :]
        return "..."[:width] + text[len(text) - kept :] if keep_end else text[:kept] + "..."[:width]

    def hanging(self, text: Text, indent: int) -> Text:
        """Return a text whose lines but the first are indented."""
        lines = text.wrap(self._console, self.width)
        if len(lines) == 1:
            return text
        first = lines[0]
        rest = text[len(first.plain) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip(" ")) :]
        whole = first.copy()
        for line in rest.wrap(self._console, max(self.width - indent, 1)):
            whole.append("\n" + " " * indent).append_text(line)
        whole.no_wrap = True
        return whole

    def draw(self, *renderables: RenderableType, width: int | None = None) -> None:
        """Draw below each other, `width` cells wide (default: as wide as the screen), and write the lines."""
        self._console.width = self.width if width is None else width
        for renderable in renderables:
            self._console.print(renderable, crop=False)
        lines = _BLANK_ENDS.sub(r"\1", _STYLED_BLANKS.sub(r"\1", unglued(self._drawn.take()).replace(_FILLER, "")))
        # The sink is written here, not by rich, which takes a closed pipe for its own affair and ends the process.
        self._sink.write(encoded(lines))


def measured(text: str) -> str:
    """Return a text that is nowhere narrower to rich than to a terminal, or lines would be longer than the screen.

    Rich gives no cell to the character after a zero-width joiner, nor to marks of Indic scripts that take one. A number
    and its unit are one word.
    """
    if text.isascii() or cells(text) <= cell_len(text):
        return glued(text)
    filled = []
    for character in text:
        lacking = 1 if character == _JOINER else cells(character) - get_character_cell_size(character)
        filled.append(character + _FILLER * max(lacking, 0))
    return glued("".join(filled))


class _Buffer(io.StringIO):
    """What rich has drawn; its encoding tells rich which boxes it may use."""

    def __init__(self, encoding: str) -> None:
        super().__init__(newline="\n")
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def take(self) -> str:
        """Return what was drawn, and forget it."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def speaks_utf8(environment: Mapping[str, str]) -> bool:
    """True where the terminal can show more than ASCII: stdout is in UTF-8, and the locale does not say otherwise.

    Python opens stdout in UTF-8 in the locale C, too, which is why the variables are asked.
    """
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    named = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or "utf-8"
    return encoding.startswith("utf") and "utf" in named.lower()
