"""The canvas: where rich draws, and what the terminal behind it can show."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

from rich.box import Box
from rich.cells import cell_len, get_character_cell_size
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import count_cells, encode_utf8, escape_for_screen, shorten
from deltacli.cli.terminal.wrapping import MIN_VALUE_CELLS, UNIT_BLANK, break_long_words, join_units, split_units
from deltacli.core.units import without_middle

Labelled = tuple[str, "RenderableType"]
"""A value and the label before it."""

_STYLED_BLANKS = re.compile(r"\x1b\[[0-9;]*m( +)\x1b\[0m")
_BLANK_ENDS = re.compile(r" +((?:\x1b\[0m)?) *$", re.MULTILINE)

_JOINER = "\u200d"
_FILLER = "\ufdd0"
"""No character of any text. One cell wide to rich, and taken out of what rich has drawn."""


class Canvas:
    """Draws with rich into the sink of a run: the `Surface` of a terminal."""

    is_screen = True

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
        shown = self.plain(value) if room is None else break_long_words(self.plain(value), room)
        return Text(measured(shown), str(style), overflow="fold" if folds else "ellipsis", no_wrap=not folds)

    def plain(self, value: str) -> str:
        """Return the characters that `text` shows: plain text that is not megabytes long is returned unchanged."""
        safe = escape_for_screen(without_middle(value))
        if safe.isascii():
            return safe
        if self.is_ascii:
            return safe.replace("…", "...").encode("ascii", "backslashreplace").decode("ascii")
        return safe.replace(_FILLER, "\\ufdd0").replace(UNIT_BLANK, "\\U0010fffd")

    @property
    def shows_errors(self) -> bool:
        """Whether the error that follows is read on the same terminal."""
        return sys.stderr is not None and sys.stderr.isatty()

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
        if count_cells(text) <= width:
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

    def grid(self, rows: Iterable[Labelled], *, width: int | None = None) -> RenderableType:
        """Return values beside their labels, each folded below itself: a label of "" goes on with the one above. On a
        narrow screen each label stands above its values, which are indented.
        """
        lines = [
            (self.text(label, Style.LABEL, folds=False), self.text(value) if isinstance(value, str) else value)
            for label, value in rows
        ]
        room = self.width if width is None else width
        longest = max((label.cell_len for label, _ in lines), default=0)
        if room - longest - 2 < min(MIN_VALUE_CELLS, longest + 2):
            stacked: list[RenderableType] = []
            for label, value in lines:
                stacked += [*([label] if label.plain else []), Padding(value, (0, 0, 0, 2))]
            return Group(*stacked)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=longest, no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in lines:
            table.add_row(label, value)
        return table

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> RenderableType:
        """Return a small table of texts with a line below its titles; the columns in `right` hold numbers."""
        table = empty_table(str(Style.HEADING), is_ascii=self.is_ascii)
        for index, title in enumerate(titles):
            table.add_column(
                self.text(title, Style.HEADING, folds=False),
                justify="right" if index in right else "left",
                overflow="fold",
                no_wrap=index in right,
            )
        for row in rows:
            table.add_row(*(self.text(value) if isinstance(value, str) else value for value in row))
        return table

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Draw grids (as their rows) and other parts below each other, an empty line between two; empty ones are left
        out. The labels of all grids have one width.
        """
        longest = max((len(label) for part in parts if isinstance(part, list) for label, _ in part), default=0)
        drawn: list[RenderableType] = []
        for part in parts:
            if part:
                if drawn:
                    drawn.append(Text(""))
                if isinstance(part, list):
                    drawn.append(self.grid((f"{label:<{longest}}", _name_tables(value)) for label, value in part))
                else:
                    drawn.append(part)
        self.draw(*drawn)

    def draw(self, *renderables: RenderableType, width: int | None = None) -> None:
        """Draw below each other, `width` cells wide (default: as wide as the screen), and write the lines."""
        self._console.width = self.width if width is None else width
        for renderable in renderables:
            self._console.print(renderable, crop=False)
        lines = _BLANK_ENDS.sub(r"\1", _STYLED_BLANKS.sub(r"\1", split_units(self._drawn.take()).replace(_FILLER, "")))
        # The sink is written here, not by rich, which takes a closed pipe for its own affair and ends the process.
        self._sink.write(encode_utf8(lines))


_LINE_BELOW_HEADING = Box("    \n    \n ── \n    \n    \n ── \n    \n    \n")
_ASCII_LINE = Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)


def empty_table(header_style: str, *, is_ascii: bool, show_header: bool = True) -> Table:
    """Return a table with a line below its titles."""
    return Table(
        box=_ASCII_LINE if is_ascii else _LINE_BELOW_HEADING,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_header=show_header,
        header_style=header_style,
        border_style=str(Style.FRAME),
    )


def measured(text: str) -> str:
    """Return a text that is nowhere narrower to rich than to a terminal, or lines would be longer than the screen.

    Rich gives no cell to the character after a zero-width joiner, nor to marks of Indic scripts that take one. A number
    and its unit are one word.
    """
    if text.isascii() or count_cells(text) <= cell_len(text):
        return join_units(text)
    filled = []
    for character in text:
        lacking = 1 if character == _JOINER else count_cells(character) - get_character_cell_size(character)
        filled.append(character + _FILLER * max(lacking, 0))
    return join_units("".join(filled))


class _Buffer(io.StringIO):
    """What rich has drawn; its encoding tells rich which boxes it may use."""

    def __init__(self, encoding: str) -> None:
        super().__init__(newline="\n")
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def take(self) -> str:
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


def _name_tables(value: RenderableType) -> RenderableType:
    """Return a value of a grid; a text has the names of tables in catalogs."""
    return invocation.with_catalog_names(value) if isinstance(value, str) else value
