"""Labelled values: grids whose values wrap with a hanging indent, panels around them, and changes as a diff."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.terminal.term import Style, cells, pasted_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.cli.render.sections import Section

LEAST_ROOM = 24
"""Cells for the values below which they stand under their label instead of beside it."""


def grid(
    canvas: Canvas, rows: Iterable[tuple[str, str | RenderableType]], *, width: int | None = None
) -> RenderableType:
    """Return values beside their labels, each folded below itself: a label of "" goes on with the one above."""
    lines = [
        (canvas.text(label, Style.LABEL, folds=False), canvas.text(value) if isinstance(value, str) else value)
        for label, value in rows
    ]
    room = canvas.width if width is None else width
    longest = max((label.cell_len for label, _ in lines), default=0)
    if room - longest - 2 < min(LEAST_ROOM, longest + 2):
        return Group(*_stacked(lines))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=longest, no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in lines:
        table.add_row(label, value)
    return table


def _stacked(rows: Sequence[tuple[Text, RenderableType]]) -> Iterable[RenderableType]:
    """On a narrow screen: each label above its values, which are indented."""
    from rich.padding import Padding

    for label, value in rows:
        if label.plain:
            yield label
        yield Padding(value, (0, 0, 0, 2))


def panel(canvas: Canvas, title: str, *content: RenderableType, style: Style = Style.FRAME) -> RenderableType:
    """Return a box with a title around its content, as wide as the screen up to a limit."""
    from rich import box
    from rich.panel import Panel

    return Panel(
        Group(*content),
        title=canvas.text(title, Style.HEADING, folds=False),
        title_align="left",
        border_style=str(style),
        box=box.ASCII if canvas.is_ascii else box.ROUNDED,
        padding=(0, 1),
        width=min(canvas.width, PANEL_WIDTH),
    )


PANEL_WIDTH = 120
"""Cells; longer lines are hard to read, and a box with much air in it, too."""


def change(canvas: Canvas, before: str | None, after: str | None) -> Text:
    """Return `before → after` coloured as a diff; None: there is no such value."""
    absent = "(not set)"
    return canvas.joined(
        [
            (absent if before is None else before, Style.QUIET if before is None else Style.REMOVED),
            " -> " if canvas.is_ascii else " → ",
            (absent if after is None else after, Style.QUIET if after is None else Style.ADDED),
        ]
    )


def draw_sections(canvas: Canvas, sections: Sequence[Section]) -> None:
    """Draw sections as a grid: lines are folded, none is cut, and commands can be pasted."""
    room = canvas.width - max((cells(section.label) for section in sections), default=0) - 2
    rows = [
        (
            "" if number else section.label,
            canvas.text(part, section.style, room=room if part in section.lines else None),
        )
        for section in sections
        for number, part in enumerate(part for line in section.lines for part in pasted_lines(line, room))
    ]
    canvas.draw(grid(canvas, rows))
