"""Sections: labels with lines of text, the form in which results are described for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from deltacli.cli.terminal.capabilities import Style
from deltacli.core.units import format_size, plural

NOT_THE_NEWEST = "commits are missing from the log, so this is not about the newest version"
"""The remark on a result about an older version; the error that follows says more."""

_ERROR_CODE = re.compile(r"\[([a-z]+(?:[.-][a-z0-9]+)+)\](?:;|\Z)")
"""The code of an error at the end of a line, or before the way to override it."""


class Section(NamedTuple):
    """A label and the lines beside it.

    Attributes:
        label: The label of the first line.
        lines: The lines. A section without lines is not shown.
        style: The look of the lines.
        repeated_in_error: How many of the first lines the error that follows on stderr states as well.
    """

    label: str
    lines: Sequence[str]
    style: Style = Style.PLAIN
    repeated_in_error: int = 0


def format_file_totals(files: int, size_bytes: int) -> str:
    """Return a number of files and their size: `2 files, 3.2 MiB`."""
    return f"{plural(files, 'file')}, {format_size(size_bytes)}"


def make_refusal_section(lines: Iterable[str], *, in_error: int = 1) -> Section:
    """Return the section of the reasons that refuse a plan.

    Args:
        lines: One per reason, with the code of the error in brackets.
        in_error: How many of the first ones the error states as well.
    """
    return Section("refused", list(lines), Style.PROBLEM, in_error)


def shorten_repeated_lines(sections: Iterable[Section]) -> list[Section]:
    """Return sections in which lines that the error states as well are reduced to the code of the error."""
    return [section._replace(lines=_shorten_lines(section)) for section in sections]


def _shorten_lines(section: Section) -> list[str]:
    lines = list(section.lines)
    for number, line in enumerate(lines[: section.repeated_in_error]):
        match = _ERROR_CODE.search(line)
        if match:
            lines[number] = match[1]
    return lines
