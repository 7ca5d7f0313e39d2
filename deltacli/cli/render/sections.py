"""Sections: labelled lines, for what is said about a result as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from deltacli.cli.terminal.term import Style


class Section(NamedTuple):
    """A label and the lines beside it."""

    label: str
    lines: Sequence[str]
    style: Style = Style.PLAIN
