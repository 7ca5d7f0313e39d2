"""Labelled sections of text, as results are shown to people:

files    2 files, 3.2 MiB
refused  3 of 4 files would be deleted [vacuum.share]

"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from deltacli.cli.terminal.capabilities import Style
from deltacli.core.units import format_size, plural

NOT_THE_NEWEST = "commits are missing from the log, so this is not about the newest version"
"""A note in the result of a table whose newest commits are missing. The error message contains the details."""

_ERROR_CODE = re.compile(r"\[([a-z]+(?:[.-][a-z0-9]+)+)\](?:;|\Z)")
"""Matches the code of an error at the end of a line, or before `; ` and the option that overrides it."""


class Section(NamedTuple):
    """A label and lines of text.

    Attributes:
        label: The label of the first line.
        lines: The lines. A section without lines is not shown.
        style: The style of the lines.
        repeated_in_error: The number of lines at the beginning that the error message on stderr repeats.
    """

    label: str
    lines: Sequence[str]
    style: Style = Style.PLAIN
    repeated_in_error: int = 0


def format_file_totals(files: int, size_bytes: int) -> str:
    """Format a number of files and their total size: `2 files, 3.2 MiB`."""
    return f"{plural(files, 'file')}, {format_size(size_bytes)}"


def make_refusal_section(lines: Iterable[str], *, in_error: int = 1) -> Section:
    """Create the section with the reasons why a plan is refused.

    Args:
        lines: One line per reason, with the error code in square brackets.
        in_error: The number of lines at the beginning that the error message repeats.
    """
    return Section("refused", list(lines), Style.PROBLEM, in_error)


def shorten_repeated_lines(sections: Iterable[Section]) -> list[Section]:
    """Replace lines that the error message repeats by the error code alone."""
    return [section._replace(lines=_shorten_lines(section)) for section in sections]


def _shorten_lines(section: Section) -> list[str]:
    lines = list(section.lines)
    for number, line in enumerate(lines[: section.repeated_in_error]):
        match = _ERROR_CODE.search(line)
        if match:
            lines[number] = match[1]
    return lines
