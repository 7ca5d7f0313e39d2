"""Sections: labelled lines, for what is said about a result as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from deltacli.cli.terminal.term import Style, Terminal, for_screen, shorten, visible


@dataclass(frozen=True, slots=True)
class Section:
    """A label and the lines beside it."""

    label: str
    lines: Sequence[str]
    style: Style = Style.PLAIN
    is_cut: bool = True
    """Longer lines are cut to the screen; else they go on below, because half of them says nothing."""


def write_sections(sink: BinaryIO, terminal: Terminal, sections: Sequence[Section]) -> None:
    """Write labelled lines, cut to a terminal's width (on a narrow one below their label), uncut into a pipe."""
    width = max(len(section.label) for section in sections)
    is_narrow = terminal.width is not None and terminal.width < 2 * (width + 2)
    for section in sections:
        if is_narrow:
            sink.write(f"{terminal.paint(section.label, Style.HEADING)}\n".encode())
        room = None if terminal.width is None else terminal.width - 2 - (0 if is_narrow else width)
        for number, line in enumerate(_fitted(section, room)):
            label = "" if is_narrow or number else section.label
            label = terminal.paint(label if is_narrow else f"{label:<{width}}", Style.HEADING)
            text = visible(line) if room is None else shorten(for_screen(line), room)
            sink.write(f"{label}  {terminal.paint(text, section.style)}\n".encode("utf-8", "surrogateescape"))


def _fitted(section: Section, room: int | None) -> Iterator[str]:
    """The lines of a section; what may not be cut goes on in lines of its own."""
    for line in section.lines:
        if room is None or section.is_cut or len(line) <= room:
            yield line
        else:
            yield from _folded(line, room)


def _folded(line: str, room: int) -> Iterator[str]:
    """A line in several, cut between words where that leaves none of them half empty."""
    room = max(room, 1)
    while len(line) > room:
        blank = line.rfind(" ", room // 2, room + 1)
        yield line[: room if blank < 0 else blank]
        line = line[room if blank < 0 else blank + 1 :]
    yield line
