"""Tables of results drawn by rich: columns chosen by priority, numbers on the right, long values folded or cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import ASCII, ROUNDED
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from deltacli.cli.output.alignment import GAP
from deltacli.cli.output.column_widths import ColumnLayout, distribute_width, find_columns_with_values, fit_columns
from deltacli.cli.output.columns import Column, Row
from deltacli.cli.output.sections import Section
from deltacli.cli.output.surface import Labelled
from deltacli.cli.render.terminal.console import Canvas, fill_cells, make_empty_table
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.characters import count_cells
from deltacli.cli.terminal.wrapping import break_long_words, wrap_with_commands

if TYPE_CHECKING:
    from rich.table import Table

MAX_PANEL_CELLS = 120
"""Longer lines are hard to read, and a box with much air in it, too."""

_LONG_WORD_CELLS = 24
"""Cells from which a word may be folded where nothing may be cut."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = "_.:-=+*#"
_MARKS = {Style.ADDED: "█", Style.CHANGED: "▓", Style.REMOVED: "░"}
_ASCII_MARKS = {Style.ADDED: "+", Style.CHANGED: "~", Style.REMOVED: "-"}


def make_panel(canvas: Canvas, title: str, *content: RenderableType, style: Style = Style.FRAME) -> RenderableType:
    """Return a box with a title around its content, as wide as the screen up to a limit."""
    return Panel(
        Group(*content),
        title=canvas.text(title, Style.HEADING, folds=False),
        title_align="left",
        border_style=str(style),
        box=ASCII if canvas.is_ascii else ROUNDED,
        padding=(0, 1),
        width=min(canvas.width, MAX_PANEL_CELLS),
    )


def draw_sections(canvas: Canvas, sections: Sequence[Section]) -> None:
    """Draw sections as a grid: lines are folded, none is cut, and commands can be pasted.

    If a word of a command has no room beside its label, such as a long path, the lines of the section stand below it:
    a word that is folded could not be pasted.
    """
    label_cells = max((count_cells(section.label) for section in sections), default=0)
    room = canvas.width - label_cells - 2
    stands_below = [_has_command_wider_than(section, room) for section in sections]

    rows: list[Labelled] = []
    for section, is_below in zip(sections, stands_below, strict=True):
        if is_below:
            if rows:
                canvas.draw(canvas.grid(rows))
            rows = []
            _draw_below_label(canvas, section)
            continue
        # The grids before and after such a section have labels of one width.
        label = f"{section.label:<{label_cells}}" if any(stands_below) else section.label
        rows += _make_rows(canvas, label, section, room)
    if rows:
        canvas.draw(canvas.grid(rows))


def _has_command_wider_than(section: Section, room: int) -> bool:
    for line in section.lines:
        if line.startswith("deltacli ") and max(map(count_cells, wrap_with_commands(line, room))) > room:
            return True
    return False


def _draw_below_label(canvas: Canvas, section: Section) -> None:
    lines = [part for line in section.lines for part in wrap_with_commands(line, canvas.width - 2)]
    canvas.draw(canvas.text(section.label, Style.LABEL))
    canvas.draw(*(Padding(canvas.text(line, section.style), (0, 0, 0, 2)) for line in lines))


def _make_rows(canvas: Canvas, label: str, section: Section, room: int) -> list[Labelled]:
    """Return the lines of a section beside its label."""
    rows: list[Labelled] = []
    lines = [part for line in section.lines for part in wrap_with_commands(line, room)]
    for number, line in enumerate(lines):
        # A line that was not split has no command in it, so that its long words may be broken.
        is_complete = line in section.lines
        text = canvas.text(line, section.style, room=room if is_complete else None)
        rows.append((label if number == 0 else "", text))
    return rows


def draw_table(
    canvas: Canvas,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    *,
    note: Callable[[Row], str | None] | None = None,
    heading: bool = True,
    keep_empty: bool = False,
) -> list[str]:
    """Draw rows, fitted to the screen.

    Args:
        canvas: What the table is drawn on.
        columns: The columns, of which a narrow screen shows some.
        rows: The rows.
        note: Returns a text that is drawn as a rule in place of a row; None for an ordinary row.
        heading: Whether the titles of the columns are drawn.
        keep_empty: Whether columns without any value are drawn.

    Returns:
        The names of the columns that are shown.
    """
    texts = [[canvas.plain(column.format_for_screen(row)) for column in columns] for row in rows]
    layout = _lay_out(canvas, columns, texts, keep_empty=keep_empty)
    if not layout.indexes:
        return []
    shown = [columns[index] for index in layout.indexes]
    total_width = sum(layout.widths) + len(GAP) * (len(shown) - 1)

    # A rule for a note ends a table of rich; the rows after it are another one without titles.
    table = _make_table(canvas, shown, layout.widths, heading=heading)
    for row, row_texts in zip(rows, texts, strict=True):
        remark = None if note is None else note(row)
        if remark is None:
            cells = [
                _make_cell(canvas, columns[index], row, row_texts[index], width)
                for index, width in zip(layout.indexes, layout.widths, strict=True)
            ]
            table.add_row(*cells)
            continue
        _draw_if_not_empty(canvas, table, total_width)
        canvas.draw(_make_rule(canvas, remark), width=total_width)
        table = _make_table(canvas, shown, layout.widths, heading=False)
    _draw_if_not_empty(canvas, table, total_width)
    return [column.name for column in shown]


def _lay_out(
    canvas: Canvas, columns: Sequence[Column[Any]], texts: Sequence[Sequence[str]], *, keep_empty: bool
) -> ColumnLayout:
    """Choose the columns that are drawn and their widths."""
    natural_widths = [_natural_width(column, index, texts) for index, column in enumerate(columns)]
    if not canvas.never_cuts:
        return fit_columns(columns, texts, natural_widths, canvas.width, keep_empty=keep_empty)

    chosen = find_columns_with_values(columns, texts, keep_empty=keep_empty)
    least_widths = [_unfolded_width(columns[index], index, texts, natural_widths[index]) for index in chosen]
    widths = distribute_width(columns, chosen, natural_widths, least_widths, canvas.width)
    return ColumnLayout(chosen, widths)


def _natural_width(column: Column[Any], index: int, texts: Sequence[Sequence[str]]) -> int:
    """Return the cells that a column needs so that nothing is cut."""
    if column.draw_bar is not None:
        return max(cell_len(column.heading()), column.min_width)
    title_cells = max(cell_len(column.heading()), cell_len(column.subheading()))
    return max([title_cells, *(cell_len(fill_cells(row[index])) for row in texts)])


def _unfolded_width(column: Column[Any], index: int, texts: Sequence[Sequence[str]], natural_width: int) -> int:
    """Return the width below which a column is never folded: that of its numbers, or of its words up to a limit."""
    if column.align_right or column.draw_bar is not None:
        return natural_width
    longest_word = max((cell_len(word) for row in texts for word in row[index].split(" ")), default=0)
    least = max(column.min_width, cell_len(column.heading()), min(longest_word, _LONG_WORD_CELLS))
    return min(natural_width, least)


def _make_table(canvas: Canvas, columns: Sequence[Column[Any]], widths: Sequence[int], *, heading: bool) -> Table:
    table = make_empty_table("", is_ascii=canvas.is_ascii, show_header=heading)
    for column, width in zip(columns, widths, strict=True):
        is_cut = not column.wraps and not canvas.never_cuts
        table.add_column(
            _make_title(canvas, column, width),
            justify="right" if column.align_right else "left",
            width=width,
            no_wrap=is_cut,
            overflow="ellipsis" if is_cut else "fold",
        )
    return table


def _draw_if_not_empty(canvas: Canvas, table: Table, width: int) -> None:
    if table.row_count or table.show_header:
        canvas.draw(table, width=width)


def _make_title(canvas: Canvas, column: Column[Any], width: int) -> Text:
    """Return the heading of a column, and its subheading on a line of its own."""
    parts: list[Text | tuple[str, Style]] = [(canvas.cut(column.heading(), width), Style.HEADING)]
    if column.subtitle:
        parts.append(Text("\n"))
        parts.append((canvas.cut(column.subheading(), width), Style.TYPE))
    return canvas.joined(parts, folds=False)


def _make_cell(canvas: Canvas, column: Column[Row], row: Row, text: str, width: int) -> Text:
    if column.draw_bar is not None:
        return column.draw_bar(row, canvas, width)
    style = Style.PLAIN if column.style is None else column.style(row)
    if column.wraps or canvas.never_cuts:
        return Text(fill_cells(break_long_words(text, width)), str(style), overflow="fold", no_wrap=False)
    cut = canvas.cut(text, width, keep_end=column.keep_end, keep_both=column.keep_both)
    return Text(fill_cells(cut), str(style), overflow="ellipsis", no_wrap=True)


def _make_rule(canvas: Canvas, remark: str) -> RenderableType:
    """Return a line across the table with a text in it."""
    title = canvas.text(remark.strip(), Style.PROBLEM, folds=False)
    return Rule(title, characters="-" if canvas.is_ascii else "─", style=str(Style.DELETES))


def make_bar(canvas: Canvas, value: float, largest: float, width: int, style: Style = Style.SIZE) -> Text:
    """Return a bar of at most `width` cells, as long as `value` is of `largest`; a value above 0 is always visible."""
    if value <= 0 or largest <= 0 or width < 1:
        return Text("")
    eighths = max(round(min(value / largest, 1) * width * 8), 1)
    if canvas.is_ascii:
        return Text("#" * max(round(eighths / 8), 1), str(style), no_wrap=True)
    last_cell = _EIGHTHS[eighths % 8].strip()
    return Text("█" * (eighths // 8) + last_cell, str(style), no_wrap=True)


def make_split_bar(canvas: Canvas, parts: Sequence[tuple[float, Style]], largest: float, width: int) -> Text:
    """Return one bar of several parts, each in its style: what was added, changed, removed.

    The parts are complete cells, at least one for each, so that they can be told apart without colour: `+`, `~` and
    `-` in ASCII.

    Args:
        canvas: What the bar is drawn on.
        parts: The value and the look of each part.
        largest: The sum of the values that fills the width.
        width: The cells of the longest bar.
    """
    total = sum(value for value, _ in parts)
    if total <= 0 or largest <= 0 or width < 1:
        return Text("")
    visible_parts = [(value, style) for value, style in parts if value > 0]
    cells = max(round(min(total / largest, 1) * width), 1)
    cells = min(max(cells, len(visible_parts)), width)

    marks = _ASCII_MARKS if canvas.is_ascii else _MARKS
    drawn = Text(no_wrap=True)
    cells_left = cells
    value_left = total
    for index, (value, style) in enumerate(visible_parts):
        later_parts = len(visible_parts) - index - 1
        length = 0
        if value_left:
            length = max(round(cells_left * value / value_left), 1)
            length = min(length, max(cells_left - later_parts, 1))
        drawn.append(marks.get(style, "█") * length, str(style))
        cells_left -= length
        value_left -= value
    return drawn


def make_sparkline(canvas: Canvas, values: Sequence[int], style: Style = Style.SIZE) -> Text:
    """Return one character per value, as high as it is of the largest; 0 is a blank."""
    heights = _ASCII_HEIGHTS if canvas.is_ascii else _HEIGHTS
    largest = max(values, default=0)
    characters = [heights[-(-value * len(heights) // largest) - 1] if value > 0 else " " for value in values]
    return Text("".join(characters), str(style), no_wrap=True)
