"""What differs between two versions on a terminal: lines that begin with a sign are coloured as a diff."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.plans import draw_parts
from deltacli.cli.terminal.term import Style, cells

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.cli.render.sections import Section

_STYLES = {"+": Style.ADDED, "-": Style.REMOVED, "~": Style.CHANGED}


def draw_diff(canvas: Canvas, said: Sequence[Section]) -> None:
    """Draw the sections of the text form."""
    rows: list[tuple[str, RenderableType]] = []
    room = canvas.width - max((cells(section.label) for section in said), default=0) - 2
    for section in said:
        for number, line in enumerate(section.lines):
            style = _STYLES.get(line[:1], section.style) if line[1:2] == " " else section.style
            rows.append(("" if number else section.label, canvas.text(line, style, room=room)))
    draw_parts(canvas, rows)
