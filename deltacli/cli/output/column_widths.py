"""The widths of columns: which ones fit a screen, and how many cells each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from deltacli.cli.output.alignment import GAP
from deltacli.cli.output.columns import Column

MAX_DRAWN_ROWS = 1_000
"""Tables of more rows are written by the streaming writer, also on a terminal: rich takes 50 µs per cell."""

_ESSENTIAL_PRIORITY = 1
_IMPORTANT_PRIORITY = 4
"""Columns up to this priority have a heading in a table without rows."""

_WRAPPED_CELLS = 16
"""Cells into which an essential column whose text can wrap is narrowed before another essential one is left out."""


class ColumnLayout(NamedTuple):
    """The columns that are shown.

    Attributes:
        indexes: Their places among all columns, in order.
        widths: The cells of each of them.
    """

    indexes: list[int]
    widths: list[int]


def fit_columns(
    columns: Sequence[Column[Any]],
    texts: Sequence[Sequence[str]],
    natural_widths: Sequence[int],
    width: int | None,
    *,
    keep_empty: bool,
) -> ColumnLayout:
    """Choose the columns with values that fit the screen, by priority.

    Args:
        columns: All columns.
        texts: The texts of each row, one per column.
        natural_widths: The cells that each column needs so that nothing is cut.
        width: The cells of the screen; None for a pipe, where every column is shown.
        keep_empty: Whether columns without any value are shown, too.
    """
    # Empty columns go first: they would take room from others and show nothing.
    candidates: Sequence[int] = find_columns_with_values(columns, texts, keep_empty=keep_empty)
    if width is None:
        return ColumnLayout(list(candidates), [natural_widths[index] for index in candidates])

    min_widths = {index: _min_width(columns[index], natural_widths[index]) for index in candidates}
    candidates = _narrow_essential_columns(columns, candidates, min_widths, width)
    chosen = _choose_by_priority(columns, candidates, min_widths, width)

    # Without the minor columns nothing may have to be cut.
    major = [index for index in chosen if not columns[index].is_minor]
    if _total_width(natural_widths, major) <= width < _total_width(natural_widths, chosen):
        return ColumnLayout(major, [natural_widths[index] for index in major])
    least = [min(min_widths[index], width) for index in chosen]
    return ColumnLayout(chosen, distribute_width(columns, chosen, natural_widths, least, width))


def _min_width(column: Column[Any], natural_width: int) -> int:
    if column.align_right:
        return natural_width  # a number that is cut would be another number
    return min(natural_width, column.min_width)


def _narrow_essential_columns(
    columns: Sequence[Column[Any]], candidates: Sequence[int], min_widths: dict[int, int], width: int
) -> Sequence[int]:
    """Narrow the essential columns that wrap if a screen has no room for all essential ones.

    Returns:
        The candidates that remain: the essential columns if one of them was narrowed, else all. `min_widths` has the
        new widths.
    """
    essential = [index for index in candidates if columns[index].priority <= _ESSENTIAL_PRIORITY]
    if _total_width(min_widths, essential) <= width:
        return candidates
    wrapping = [index for index in essential if columns[index].wraps]
    for index in wrapping:
        min_widths[index] = min(min_widths[index], _WRAPPED_CELLS)
    return essential if wrapping else candidates


def _choose_by_priority(
    columns: Sequence[Column[Any]], candidates: Sequence[int], min_widths: Mapping[int, int], width: int
) -> list[int]:
    """Return the columns that fit, in the order of the table. The most important one is shown in any case."""
    chosen: list[int] = []
    for index in sorted(candidates, key=lambda index: columns[index].priority):
        # A later column may be narrow enough for the room that an earlier one leaves.
        if not chosen or _total_width(min_widths, [*chosen, index]) <= width:
            chosen.append(index)
    return sorted(chosen)


def _total_width(widths: Sequence[int] | Mapping[int, int], indexes: Sequence[int]) -> int:
    """Return the cells of some columns together, with the gaps between them."""
    return sum(widths[index] for index in indexes) + len(GAP) * (len(indexes) - 1)


def find_columns_with_values(
    columns: Sequence[Column[Any]], texts: Sequence[Sequence[str]], *, keep_empty: bool
) -> list[int]:
    """Return the places of the columns that have a value in some row. Without rows, those of the important ones."""
    if keep_empty:
        return list(range(len(columns)))
    if not texts:
        return [index for index, column in enumerate(columns) if column.priority <= _IMPORTANT_PRIORITY]
    return [index for index in range(len(columns)) if any(row[index] for row in texts)]


def distribute_width(
    columns: Sequence[Column[Any]],
    chosen: Sequence[int],
    natural_widths: Sequence[int],
    least_widths: Sequence[int],
    width: int,
) -> list[int]:
    """Return the widths of the chosen columns: the least one of each, and what is left of the screen by priority."""
    widths = dict(zip(chosen, least_widths, strict=True))
    spare = max(width - sum(least_widths) - len(GAP) * (len(chosen) - 1), 0)
    for index in sorted(chosen, key=lambda index: columns[index].priority):
        extra = min(spare, max(natural_widths[index] - widths[index], 0))
        widths[index] += extra
        spare -= extra
    return [widths[index] for index in chosen]
