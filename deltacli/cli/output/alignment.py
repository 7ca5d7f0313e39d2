"""Align texts in columns."""

from __future__ import annotations

from deltacli.cli.terminal.characters import count_cells

GAP = "  "
"""The blanks between two columns."""


def pad_text(text: str, width: int, *, right: bool) -> str:
    """Return a text filled with blanks to a width; `right` puts them before the text."""
    blanks = " " * max(width - count_cells(text), 0)
    return blanks + text if right else text + blanks
