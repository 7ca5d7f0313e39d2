"""Sections: labelled lines, for what is said about a result as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from deltacli.cli.terminal.term import Style, Terminal, visible


@dataclass(frozen=True, slots=True)
class Section:
    """A label and the lines beside it."""

    label: str
    lines: Sequence[str]
    style: Style = Style.PLAIN
    is_cut: bool = True
    """Longer lines are cut to the screen; else they go on below, because half of them says nothing."""


def write_sections(sink: BinaryIO, terminal: Terminal, sections: Sequence[Section]) -> None:
    """Write labelled lines: folded on a terminal, uncut into a pipe."""
    if terminal.is_drawn:
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.sections import draw_sections

        draw_sections(Canvas(sink, terminal), sections)
        return
    width = max(len(section.label) for section in sections)
    for section in sections:
        for number, line in enumerate(section.lines):
            label = "" if number else section.label
            sink.write(f"{label:<{width}}  {visible(line)}\n".encode("utf-8", "surrogateescape"))
