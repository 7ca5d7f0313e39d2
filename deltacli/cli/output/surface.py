"""The surfaces of results: the canvas of a terminal, or a sheet of plain text for a pipe."""

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
"""A label and the value beside it; a label of "" goes on with the one above."""


class Surface(Protocol):
    """Anything that a result is drawn on: the `Canvas` of a terminal, or the `Sheet` of a pipe.

    Attributes:
        is_screen: Whether pictures are drawn: bars, strips.
        width: The cells of a line.
        never_cuts: Whether every value is shown as a whole.
        is_ascii: Whether only ASCII characters can be shown.
    """

    is_screen: bool
    width: int
    never_cuts: bool
    is_ascii: bool

    @property
    def shows_errors(self) -> bool:
        """Return True if the error that follows is read in the same place."""

    def text(
        self, value: str, style: Style = Style.PLAIN, *, folds: bool = True, room: int | None = None
    ) -> RenderableType:
        """Return a text with control characters as escapes."""

    def joined(self, parts: Iterable[Any], *, folds: bool = True) -> RenderableType:  # Any: see `Canvas.joined`
        """Return one text made of parts, each with a style of its own."""

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> RenderableType:
        """Return a small table of texts; the columns in `right` hold numbers."""

    def grid(self, rows: Iterable[Labelled]) -> RenderableType:
        """Return values beside their labels."""

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Draw grids (as their rows) and other parts, an empty line between two; empty ones are left out."""


class Sheet:
    """A pipe or a file: every value is complete, on one line, without colour and rich."""

    is_screen = False
    width = sys.maxsize
    never_cuts = True
    is_ascii = True

    def __init__(self, sink: BinaryIO, *, shows_errors: bool) -> None:
        self._sink = sink
        self.shows_errors = shows_errors

    def text(self, value: str, style: Style = Style.PLAIN, **_: object) -> str:  # noqa: ARG002  (no colour)
        """Return a text with control characters as escapes."""
        return escape_control(cut_middle(value))

    def joined(self, parts: Iterable[Any], **_: object) -> str:  # Any: a text, or one with a style
        """Return one text made of parts, without their styles."""
        texts = [part if isinstance(part, str) else part[0] for part in parts]
        return "".join(map(self.text, texts))

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> str:
        """Return the lines of a table, in columns."""
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
        """Return a line for each value, behind its label."""
        rows = list(rows)
        width = max((len(label) for label, _ in rows), default=0)
        return "\n".join(f"{label:<{width}}{GAP}{self.text(str(value))}" for label, value in rows)

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Write parts below each other, an empty line between two; the labels have one width."""
        texts = [self.grid(part) if isinstance(part, list) else str(part) for part in align_labels(parts)]
        self._sink.write(encode_utf8("\n\n".join(texts) + "\n"))


def align_labels(
    parts: Iterable[RenderableType | list[Labelled]],
) -> list[RenderableType | list[Labelled]]:
    """Return the parts of a result that are not empty, with labels of one width in all grids.

    Values that are texts have the names of tables in catalogs in place of their locations.
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
    return invocation.with_catalog_names(value) if isinstance(value, str) else value
