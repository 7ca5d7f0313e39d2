"""Pad texts to the width of a column."""

from __future__ import annotations

from deltacli.cli.terminal.characters import count_cells

GAP = "  "
"""The space between two columns."""


def pad_text(text: str, width: int, *, right: bool) -> str:
    """Pad a text with spaces.

    Args:
        text: The text.
        width: The width of the column in cells. A wider text is returned unchanged.
        right: Whether the text is aligned to the right, as numbers are.
    """
    blanks = " " * max(width - count_cells(text), 0)
    return blanks + text if right else text + blanks
