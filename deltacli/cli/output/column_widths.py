"""Choose the columns of a table that fit on the screen, and their widths.

Each column has a natural width, at which no text is truncated, and a minimum width. Columns are added in the order of
their priority while the minimum widths fit on the screen. The remaining width is then distributed, again by priority.

    screen of 30 cells, gaps of 2    path (10 to 40)   size (8)   modified (19)
    chosen by minimum widths         10                8          omitted
    final widths                     20                8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from deltacli.cli.output.alignment import GAP
from deltacli.cli.output.columns import Column

MAX_DRAWN_ROWS = 1_000
"""Maximum number of rows that rich draws, because it takes 50 µs per cell. Longer tables are written as plain text."""

_ESSENTIAL_PRIORITY = 1
"""Columns of this priority are omitted only if nothing else helps."""
_IMPORTANT_PRIORITY = 4
"""Columns up to this priority are shown in a table without rows."""

_WRAPPED_CELLS = 16
"""Width to which essential columns with wrapped text are narrowed before an essential column is omitted."""


class ColumnLayout(NamedTuple):
    """The columns to show.

    Attributes:
        indexes: The indexes of the columns, in ascending order.
        widths: The width of each of these columns in cells.
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
    """Choose the columns that fit on the screen, by priority, and their widths.

    Args:
        columns: All columns.
        texts: The texts of each row, one per column.
        natural_widths: The width at which no text of a column is truncated, for each column.
        width: The width of the screen in cells; None for a pipe, where all columns have their natural width.
        keep_empty: Whether to show columns in which no row has a value.
    """
    # Remove empty columns first, so that they take no space.
    candidates: Sequence[int] = find_columns_with_values(columns, texts, keep_empty=keep_empty)
    if width is None:
        return ColumnLayout(list(candidates), [natural_widths[index] for index in candidates])

    # Choose columns by their minimum widths.
    min_widths = {index: _min_width(columns[index], natural_widths[index]) for index in candidates}
    candidates = _narrow_essential_columns(columns, candidates, min_widths, width)
    chosen = _choose_by_priority(columns, candidates, min_widths, width)

    # If no text is truncated without the minor columns, omit them.
    major_columns = [index for index in chosen if not columns[index].is_minor]
    if _total_width(natural_widths, major_columns) <= width < _total_width(natural_widths, chosen):
        return ColumnLayout(major_columns, [natural_widths[index] for index in major_columns])

    # Distribute the remaining width.
    chosen_min_widths = [min(min_widths[index], width) for index in chosen]
    return ColumnLayout(chosen, distribute_width(columns, chosen, natural_widths, chosen_min_widths, width))


def _min_width(column: Column[Any], natural_width: int) -> int:
    # A truncated number would look like a different number.
    if column.align_right:
        return natural_width
    return min(natural_width, column.min_width)


def _narrow_essential_columns(
    columns: Sequence[Column[Any]], candidates: Sequence[int], min_widths: dict[int, int], width: int
) -> Sequence[int]:
    """Narrow essential columns with wrapped text if the essential columns do not fit on the screen.

    Args:
        columns: All columns.
        candidates: The indexes of the columns that may be shown.
        min_widths: The minimum width of each candidate. The widths of narrowed columns are replaced.
        width: The width of the screen in cells.

    Returns:
        The indexes of the essential columns if one of them was narrowed. Otherwise, the candidates.
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
    """Return the indexes of the columns that fit on the screen. The column of the highest priority always fits."""
    chosen: list[int] = []
    for index in sorted(candidates, key=lambda index: columns[index].priority):
        # Continue after a column that does not fit: a narrower one may fit.
        if not chosen or _total_width(min_widths, [*chosen, index]) <= width:
            chosen.append(index)
    return sorted(chosen)


def _total_width(widths: Sequence[int] | Mapping[int, int], indexes: Sequence[int]) -> int:
    """Return the total width of columns, including the gaps between them."""
    return sum(widths[index] for index in indexes) + len(GAP) * (len(indexes) - 1)


def find_columns_with_values(
    columns: Sequence[Column[Any]], texts: Sequence[Sequence[str]], *, keep_empty: bool
) -> list[int]:
    """Return the indexes of the columns to show on a screen of unlimited width.

    Args:
        columns: All columns.
        texts: The texts of each row, one per column.
        keep_empty: Whether to return all columns.

    Returns:
        The indexes of columns with a text in any row. For a table without rows, the indexes of important columns.
    """
    if keep_empty:
        return list(range(len(columns)))
    if not texts:
        return [index for index, column in enumerate(columns) if column.priority <= _IMPORTANT_PRIORITY]
    return [index for index in range(len(columns)) if any(row[index] for row in texts)]


def distribute_width(
    columns: Sequence[Column[Any]],
    chosen: Sequence[int],
    natural_widths: Sequence[int],
    min_widths: Sequence[int],
    width: int,
) -> list[int]:
    """Widen columns until the screen is full or all columns have their natural width.

    Columns of high priority are widened first.

    Args:
        columns: All columns.
        chosen: The indexes of the columns to show.
        natural_widths: The natural width of every column.
        min_widths: The minimum width of each chosen column.
        width: The width of the screen in cells.

    Returns:
        The width of each chosen column.
    """
    widths = dict(zip(chosen, min_widths, strict=True))
    unused_cells = max(width - sum(min_widths) - len(GAP) * (len(chosen) - 1), 0)
    for index in sorted(chosen, key=lambda index: columns[index].priority):
        additional_cells = min(unused_cells, max(natural_widths[index] - widths[index], 0))
        widths[index] += additional_cells
        unused_cells -= additional_cells
    return [widths[index] for index in chosen]
