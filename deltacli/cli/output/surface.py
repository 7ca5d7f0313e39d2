"""Draw results either on a terminal or as plain text, with the same calls.

`Surface` is the common protocol. `Canvas` in cli/render/terminal/console.py draws with rich; `Sheet` writes plain text
to a pipe or file and does not import rich.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from deltacli.cli.invocation import invocation
from deltacli.cli.output.alignment import GAP, pad_text
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.characters import count_cells, encode_utf8, escape_control
from deltacli.core.texts import cut_middle

if TYPE_CHECKING:
    from rich.console import RenderableType

Labelled = tuple[str, "RenderableType"]
"""A label and its value. If a value has several lines, the label of the second and later lines is ""."""


class Surface(Protocol):
    """A place to draw results: the `Canvas` of a terminal, or the `Sheet` of a pipe.

    Attributes:
        is_screen: Whether graphics such as bars can be drawn.
        width: The width of a line in cells.
        never_cuts: Whether all values are written completely, even if they are longer than a line.
        is_ascii: Whether only ASCII characters can be drawn.
    """

    is_screen: bool
    width: int
    never_cuts: bool
    is_ascii: bool

    @property
    def shows_errors(self) -> bool:
        """Return True if stderr is the same terminal or file, so that the user sees errors after the result."""

    def text(
        self, value: str, style: Style = Style.PLAIN, *, folds: bool = True, room: int | None = None
    ) -> RenderableType:
        """Return a text with escaped control characters.

        Args:
            value: The text.
            style: The style of the text.
            folds: Whether a text that is longer than a line is wrapped.
            room: The width available for the text in cells; None for the whole line.
        """

    def joined(self, parts: Iterable[Any], *, folds: bool = True) -> RenderableType:  # Any: see `Canvas.joined`
        """Return the concatenation of texts that may have different styles."""

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> RenderableType:
        """Return a small table.

        Args:
            titles: The titles of the columns.
            rows: The cells of each row.
            right: The indexes of right-aligned columns, which contain numbers.
        """

    def grid(self, rows: Iterable[Labelled]) -> RenderableType:
        """Return a table of two columns, labels and values, without a header."""

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Draw parts of a result, separated by empty lines.

        Args:
            parts: Texts, tables, and lists of labelled values, which are drawn as a grid. Empty parts are skipped.
        """


class Sheet:
    """Plain text in a pipe or file. Every value is complete and on one line."""

    is_screen = False
    width = sys.maxsize
    never_cuts = True
    is_ascii = True

    def __init__(self, sink: BinaryIO, *, shows_errors: bool) -> None:
        self._sink = sink
        self.shows_errors = shows_errors

    def text(self, value: str, style: Style = Style.PLAIN, **_: object) -> str:  # noqa: ARG002  (no colour)
        """Return a text with escaped control characters. Texts of more than 20,000 characters are shortened."""
        return escape_control(cut_middle(value))

    def joined(self, parts: Iterable[Any], **_: object) -> str:  # Any: a text, or one with a style
        """Return the concatenation of texts. Their styles are ignored."""
        texts = [part if isinstance(part, str) else part[0] for part in parts]
        return "".join(map(self.text, texts))

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> str:
        """Return a table as lines of aligned columns."""
        texts = [list(titles)]
        texts += [[self.text(str(value)) for value in row] for row in rows]
        widths = [max(map(count_cells, column)) for column in zip(*texts, strict=True)]

        lines: list[str] = []
        for row in texts:
            padded = [
                pad_text(text, width, right=index in right)
                for index, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(GAP.join(padded).rstrip())
        return "\n".join(lines)

    def grid(self, rows: Iterable[Labelled]) -> str:
        """Return one line per value, preceded by its label."""
        rows = list(rows)
        width = max((len(label) for label, _ in rows), default=0)
        return "\n".join(f"{label:<{width}}{GAP}{self.text(str(value))}" for label, value in rows)

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Write parts of a result, separated by empty lines. All labels have the same width."""
        texts = [self.grid(part) if isinstance(part, list) else str(part) for part in align_labels(parts)]
        self._sink.write(encode_utf8("\n\n".join(texts) + "\n"))


def align_labels(
    parts: Iterable[RenderableType | list[Labelled]],
) -> list[RenderableType | list[Labelled]]:
    """Pad the labels in all parts of a result to the same width, and remove empty parts.

    If tables were opened by their names in a catalog, their locations in texts are replaced by these names.
    """
    parts = [part for part in parts if part]
    labels = [label for part in parts if isinstance(part, list) for label, _ in part]
    width = max(map(len, labels), default=0)
    aligned: list[RenderableType | list[Labelled]] = []
    for part in parts:
        if isinstance(part, list):
            aligned.append([(f"{label:<{width}}", _name_tables(value)) for label, value in part])
        else:
            aligned.append(part)
    return aligned


def _name_tables(value: RenderableType) -> RenderableType:
    return invocation.insert_catalog_names(value) if isinstance(value, str) else value
