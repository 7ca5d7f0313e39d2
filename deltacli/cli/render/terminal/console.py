"""The canvas: where rich draws, and what the terminal behind it can show (decision 0082)."""

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

from deltacli.cli.output.surface import Labelled, align_labels
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import ELLIPSIS, count_cells, encode_utf8, escape_for_screen, shorten
from deltacli.cli.terminal.wrapping import (
    MIN_VALUE_CELLS,
    UNIT_BLANK,
    break_long_words,
    join_units,
    split_units,
)
from deltacli.core.texts import cut_middle

_DEFAULT_WIDTH = 100
_CONSOLE_HEIGHT = 25
"""Rich wants a height. Nothing here depends on it."""

_STYLED_BLANKS = re.compile(r"\x1b\[[0-9;]*m( +)\x1b\[0m")
_BLANK_ENDS = re.compile(r" +((?:\x1b\[0m)?) *$", re.MULTILINE)
_ASCII_ELLIPSIS = "..."

_JOINER = "\u200d"
_FILLER = "\ufdd0"
"""No character of any text. One cell wide to rich, and taken out of what rich has drawn."""

_LINE_BELOW_HEADING = Box("    \n    \n ── \n    \n    \n ── \n    \n    \n")
_ASCII_LINE_BELOW_HEADING = Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)


class Canvas:
    """Draws with rich into the stream of a result: the `Surface` of a terminal.

    Attributes:
        width: The cells of a line.
        never_cuts: Whether every row and every value stays complete, because colour was forced into a pipe or a file.
        is_ascii: Whether the terminal shows ASCII characters only.
    """

    is_screen = True

    def __init__(self, sink: BinaryIO, terminal: Terminal, *, is_ascii: bool | None = None) -> None:
        """Make a canvas.

        Args:
            sink: The stream of the result.
            terminal: What is known about it.
            is_ascii: Whether only ASCII characters can be shown; None to ask the environment.
        """
        self._sink = sink
        self.width = terminal.width or _DEFAULT_WIDTH
        self.never_cuts = not terminal.is_terminal
        self.is_ascii = not speaks_utf8(os.environ) if is_ascii is None else is_ascii
        self._buffer = _Buffer("ascii" if self.is_ascii else "utf-8")
        self._console = Console(
            file=self._buffer,
            width=self.width,
            height=_CONSOLE_HEIGHT,
            force_terminal=True,
            color_system="standard" if terminal.colour else None,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )

    @property
    def shows_errors(self) -> bool:
        """Return True if the error that follows is read on the same terminal."""
        return sys.stderr is not None and sys.stderr.isatty()

    def text(self, value: str, style: Style = Style.PLAIN, *, folds: bool = True, room: int | None = None) -> Text:
        """Return a text that shows every character of a value.

        Control and direction characters are shown as escapes, and without UTF-8 all other characters, too.

        Args:
            value: Any text, which may come from a table.
            style: Its look.
            folds: Whether the text goes on below if there is no room. Otherwise it is cut.
            room: The cells of a line, if words longer than that are to break after a separator.
        """
        plain = self.plain(value)
        if room is not None:
            plain = break_long_words(plain, room)
        return Text(fill_cells(plain), str(style), overflow="fold" if folds else "ellipsis", no_wrap=not folds)

    def plain(self, value: str) -> str:
        """Return the characters that `text` shows. An ordinary text is returned unchanged, a huge one shortened."""
        safe = escape_for_screen(cut_middle(value))
        if safe.isascii():
            return safe
        if self.is_ascii:
            return safe.replace(ELLIPSIS, _ASCII_ELLIPSIS).encode("ascii", "backslashreplace").decode("ascii")
        # These two characters have a meaning while rich draws.
        return safe.replace(_FILLER, "\\ufdd0").replace(UNIT_BLANK, "\\U0010fffd")

    def joined(self, parts: Iterable[str | Text | tuple[str, Style]], *, folds: bool = True) -> Text:
        """Return one text made of parts, each with a style of its own."""
        joined = self.text("", folds=folds)
        for part in parts:
            match part:
                case Text():
                    joined.append_text(part)
                case str():
                    joined.append_text(self.text(part))
                case value, style:
                    joined.append_text(self.text(value, style))
        return joined

    def cut(self, text: str, width: int, *, keep_end: bool = False, keep_both: bool = False) -> str:
        """Cut a text that can be shown to a number of cells. See `shorten`; in ASCII the ellipsis takes three cells."""
        if count_cells(text) <= width:
            return text
        if not self.is_ascii:
            return shorten(text, width, keep_end=keep_end, keep_both=keep_both) if width > 0 else ""

        ellipsis = _ASCII_ELLIPSIS[:width]
        room = max(width - len(_ASCII_ELLIPSIS), 0)
        if keep_both:
            beginning = room // 3
            return text[:beginning] + ellipsis + text[len(text) - (room - beginning) :]
        return ellipsis + text[len(text) - room :] if keep_end else text[:room] + ellipsis

    def hanging(self, text: Text, indent: int) -> Text:
        """Return a text whose lines but the first are indented."""
        lines = text.wrap(self._console, self.width)
        if len(lines) == 1:
            return text
        hanging = lines[0].copy()
        following = text[len(lines[0].plain) :]
        blanks = len(following.plain) - len(following.plain.lstrip(" "))
        following = following[blanks:]
        for line in following.wrap(self._console, max(self.width - indent, 1)):
            hanging.append("\n" + " " * indent).append_text(line)
        hanging.no_wrap = True
        return hanging

    def grid(self, rows: Iterable[Labelled], *, width: int | None = None) -> RenderableType:
        """Return values beside their labels, each folded below itself.

        On a narrow screen each label stands above its values, which are indented.

        Args:
            rows: Labels and values; a label of "" goes on with the one above.
            width: The cells for both; None for the width of the screen.
        """
        cells = [(self.text(label, Style.LABEL, folds=False), self._as_renderable(value)) for label, value in rows]
        label_cells = max((label.cell_len for label, _ in cells), default=0)
        value_cells = (self.width if width is None else width) - label_cells - 2
        if value_cells < min(MIN_VALUE_CELLS, label_cells + 2):
            return _stack(cells)

        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=label_cells, no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in cells:
            table.add_row(label, value)
        return table

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> RenderableType:
        """Return a small table of texts with a line below its titles; the columns in `right` hold numbers."""
        table = make_empty_table(str(Style.HEADING), is_ascii=self.is_ascii)
        for index, title in enumerate(titles):
            is_number = index in right
            table.add_column(
                self.text(title, Style.HEADING, folds=False),
                justify="right" if is_number else "left",
                overflow="fold",
                no_wrap=is_number,
            )
        for row in rows:
            table.add_row(*map(self._as_renderable, row))
        return table

    def _as_renderable(self, value: RenderableType) -> RenderableType:
        """Return a text for a string, in which rich would read markup."""
        return self.text(value) if isinstance(value, str) else value

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Draw grids (as their rows) and other parts below each other, an empty line between two.

        Empty parts are left out. The labels of all grids have one width.
        """
        renderables: list[RenderableType] = []
        for part in align_labels(parts):
            if renderables:
                renderables.append(Text(""))
            renderables.append(self.grid(part) if isinstance(part, list) else part)
        self.draw(*renderables)

    def draw(self, *renderables: RenderableType, width: int | None = None) -> None:
        """Draw below each other, `width` cells wide (None: as wide as the screen), and write the lines."""
        self._console.width = self.width if width is None else width
        for renderable in renderables:
            self._console.print(renderable, crop=False)

        lines = split_units(self._buffer.take()).replace(_FILLER, "")
        # Rich fills cells with blanks, which nobody wants to copy from a terminal.
        lines = _STYLED_BLANKS.sub(r"\1", lines)
        lines = _BLANK_ENDS.sub(r"\1", lines)
        # Written here and not by rich, which ends the process itself if the pipe is closed.
        self._sink.write(encode_utf8(lines))


def _stack(cells: Iterable[tuple[Text, RenderableType]]) -> RenderableType:
    """Return labels above their values, which are indented."""
    stacked: list[RenderableType] = []
    for label, value in cells:
        if label.plain:
            stacked.append(label)
        stacked.append(Padding(value, (0, 0, 0, 2)))
    return Group(*stacked)


def make_empty_table(header_style: str, *, is_ascii: bool, show_header: bool = True) -> Table:
    """Return a table of rich with a line below its titles and no other lines."""
    return Table(
        box=_ASCII_LINE_BELOW_HEADING if is_ascii else _LINE_BELOW_HEADING,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_header=show_header,
        header_style=header_style,
        border_style=str(Style.FRAME),
    )


def fill_cells(text: str) -> str:
    """Return a text that is nowhere narrower to rich than to a terminal, or lines would be longer than the screen.

    Rich gives no cell to the character after a zero-width joiner, nor to marks of Indic scripts that take one. Fillers
    make up for them; `Canvas.draw` takes them out again. A number and its unit are one word.
    """
    if text.isascii() or count_cells(text) <= cell_len(text):
        return join_units(text)
    filled: list[str] = []
    for character in text:
        missing_cells = count_cells(character) - get_character_cell_size(character)
        if character == _JOINER:
            missing_cells = 1
        filled.append(character + _FILLER * max(missing_cells, 0))
    return join_units("".join(filled))


class _Buffer(io.StringIO):
    """The characters that rich has drawn; the encoding tells rich which boxes it may use."""

    def __init__(self, encoding: str) -> None:
        super().__init__(newline="\n")
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def take(self) -> str:
        """Return the text and empty the buffer."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def speaks_utf8(environment: Mapping[str, str]) -> bool:
    """Return True if the terminal can show more than ASCII: stdout is in UTF-8, and the locale does not deny it.

    The variables of the locale are read as well, because Python opens stdout in UTF-8 in the locale C, too.
    """
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    locale = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or "utf-8"
    return encoding.startswith("utf") and "utf" in locale.lower()
