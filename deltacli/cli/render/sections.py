"""Sections: labelled lines, for what is said about a result as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from deltacli.cli.terminal.term import Style
from deltacli.core.patterns import pattern
from deltacli.core.units import format_size, plural

NOT_THE_NEWEST = "commits are missing from the log, so this is not about the newest version"
"""What is said of an answer about an older version; the error says more."""
_CODE = pattern(r"\[([a-z]+(?:[.-][a-z0-9]+)+)\](?:;|\Z)")
"""The code of an error at the end of a line, or before a way out."""


class Section(NamedTuple):
    """A label and the lines beside it."""

    label: str
    lines: Sequence[str]
    style: Style = Style.PLAIN
    repeated: int = 0
    """How many of the lines the error says as well that follows on stderr."""


def file_amount(files: int, size_bytes: int) -> str:
    """Return a number of files and their size: `2 files, 3.2 MiB`."""
    return f"{plural(files, 'file')}, {format_size(size_bytes)}"


def refused(lines: Iterable[str], *, in_error: int = 1) -> Section:
    """Return the lines on what refuses a plan, each with its code in brackets; the error says the first ones."""
    return Section("refused", list(lines), Style.PROBLEM, in_error)


def without_repetition(sections: Iterable[Section]) -> list[Section]:
    """Return sections with the codes alone of lines that the error says."""
    return [
        section._replace(
            lines=[
                found[1] if number < section.repeated and (found := _CODE.search(line)) else line
                for number, line in enumerate(section.lines)
            ]
        )
        for section in sections
    ]
