"""Tables of results, drawn by rich: columns chosen by priority, numbers on the right, long values folded or cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from deltacli.cli.output.column_widths import GAP, distribute_width, find_columns_with_values, fit_columns
from deltacli.cli.output.columns import Column, Row
from deltacli.cli.output.sections import Section
from deltacli.cli.render.terminal.console import Canvas, empty_table, measured
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.characters import count_cells
from deltacli.cli.terminal.wrapping import break_long_words, wrap_with_commands

if TYPE_CHECKING:
    from rich.table import Table

# -- labelled values ---------------------------------------------------------------------------------------------------


def panel(canvas: Canvas, title: str, *content: RenderableType, style: Style = Style.FRAME) -> RenderableType:
    """Return a box with a title around its content, as wide as the screen up to a limit."""
    from rich import box
    from rich.panel import Panel

    return Panel(
        Group(*content),
        title=canvas.text(title, Style.HEADING, folds=False),
        title_align="left",
        border_style=str(style),
        box=box.ASCII if canvas.is_ascii else box.ROUNDED,
        padding=(0, 1),
        width=min(canvas.width, PANEL_WIDTH),
    )


PANEL_WIDTH = 120
"""Cells; longer lines are hard to read, and a box with much air in it, too."""


def draw_sections(canvas: Canvas, sections: Sequence[Section]) -> None:
    """Draw sections as a grid: lines are folded, none is cut, and commands can be pasted. Where a word of a command has
    no room beside its label, such as a long path, the lines of the section stand below it.
    """
    longest = max((count_cells(section.label) for section in sections), default=0)
    room = canvas.width - longest - 2
    below = [
        any(
            line.startswith("deltacli ") and max(map(count_cells, wrap_with_commands(line, room))) > room
            for line in section.lines
        )
        for section in sections
    ]
    rows: list[tuple[str, str | RenderableType]] = []
    for section, is_below in zip(sections, below, strict=True):
        if is_below:
            lines = [part for line in section.lines for part in wrap_with_commands(line, canvas.width - 2)]
            canvas.draw(*([canvas.grid(rows)] if rows else []), canvas.text(section.label, Style.LABEL))
            canvas.draw(*(Padding(canvas.text(line, section.style), (0, 0, 0, 2)) for line in lines))
            rows = []
            continue
        label = f"{section.label:<{longest}}" if any(below) else section.label
        rows += [
            ("" if number else label, canvas.text(part, section.style, room=room if part in section.lines else None))
            for number, part in enumerate(part for line in section.lines for part in wrap_with_commands(line, room))
        ]
    if rows:
        canvas.draw(canvas.grid(rows))


# -- tables of results, drawn by rich ----------------------------------------------------------------------------------

_LONG_WORD = 24
"""Cells from which a word may be folded where nothing may be cut."""


def draw_table(
    canvas: Canvas,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    *,
    note: Callable[[Row], str | None] | None = None,
    heading: bool = True,
    keep_empty: bool = False,
) -> list[str]:
    """Draw rows and return the names of the columns shown. `note` gives a row that is a red rule instead."""
    texts = [[canvas.plain(column.format_for_screen(row)) for column in columns] for row in rows]
    natural = [
        max(_title_cells(column), *(cell_len(measured(row[index])) for row in texts), 0)
        if column.draw_bar is None
        else max(cell_len(column.heading()), column.min_width)
        for index, column in enumerate(columns)
    ]
    if canvas.never_cuts:
        chosen = find_columns_with_values(columns, texts, keep_empty=keep_empty)
        whole = [_narrowest(columns[index], index, texts, natural[index]) for index in chosen]
        widths = distribute_width(columns, chosen, natural, whole, canvas.width)
    else:
        chosen, widths = fit_columns(columns, texts, natural, canvas.width, keep_empty=keep_empty)
    if not chosen:
        return []
    total = sum(widths) + len(GAP) * (len(chosen) - 1)
    shown = [columns[index] for index in chosen]
    table = _table(canvas, shown, widths, heading=heading)
    for row, values in zip(rows, texts, strict=True):
        if note is not None and (remark := note(row)) is not None:
            canvas.draw(*([table] if table.row_count or table.show_header else []), width=total)
            canvas.draw(_gap(canvas, remark), width=total)
            table = _table(canvas, shown, widths, heading=False)
        else:
            table.add_row(
                *(
                    _cell(canvas, columns[index], row, values[index], width)
                    for index, width in zip(chosen, widths, strict=True)
                )
            )
    if table.row_count or table.show_header:
        canvas.draw(table, width=total)
    return [column.name for column in shown]


def _narrowest(column: Column[Any], index: int, texts: Sequence[Sequence[str]], natural: int) -> int:
    """The width below which a column is never folded: that of its numbers, or of its words up to a limit."""
    if column.align_right or column.draw_bar is not None:
        return natural
    words = max((cell_len(word) for row in texts for word in row[index].split(" ")), default=0)
    return min(natural, max(column.min_width, cell_len(column.heading()), min(words, _LONG_WORD)))


def _table(canvas: Canvas, columns: Sequence[Column[Any]], widths: Sequence[int], *, heading: bool) -> Table:
    table = empty_table("", is_ascii=canvas.is_ascii, show_header=heading)
    for column, width in zip(columns, widths, strict=True):
        is_whole = not column.wraps and not canvas.never_cuts
        table.add_column(
            _title(canvas, column, width),
            justify="right" if column.align_right else "left",
            width=width,
            no_wrap=is_whole,
            overflow="ellipsis" if is_whole else "fold",
        )
    return table


def _title_cells(column: Column[Any]) -> int:
    return max(cell_len(column.heading()), cell_len(column.subheading()))


def _title(canvas: Canvas, column: Column[Any], width: int) -> Text:
    title = (canvas.cut(column.heading(), width), Style.HEADING)
    kind = (canvas.cut(column.subheading(), width), Style.TYPE)
    below: tuple[Text | tuple[str, Style], ...] = (Text("\n"), kind) if column.subtitle else ()
    return canvas.joined([title, *below], folds=False)


def _cell(canvas: Canvas, column: Column[Row], row: Row, value: str, width: int) -> Text:
    if column.draw_bar is not None:
        return column.draw_bar(row, canvas, width)
    folds = column.wraps or canvas.never_cuts
    style = column.style(row) if column.style else Style.PLAIN
    shown = (
        break_long_words(value, width)
        if folds
        else canvas.cut(value, width, keep_end=column.keep_end, keep_both=column.keep_both)
    )
    return Text(measured(shown), str(style), overflow="fold" if folds else "ellipsis", no_wrap=not folds)


def _gap(canvas: Canvas, remark: str) -> RenderableType:
    from rich.rule import Rule

    mark = "-" if canvas.is_ascii else "─"
    return Rule(canvas.text(remark.strip(), Style.PROBLEM, folds=False), characters=mark, style=str(Style.DELETES))


_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = "_.:-=+*#"


def bar(canvas: Canvas, value: float, largest: float, width: int, style: Style = Style.SIZE) -> Text:
    """Return a bar of at most `width` cells, as long as `value` is of `largest`; what is more than 0 is seen."""
    if value <= 0 or largest <= 0 or width < 1:
        return Text("")
    eighths = max(round(min(value / largest, 1) * width * 8), 1)
    if canvas.is_ascii:
        return Text("#" * max(round(eighths / 8), 1), str(style), no_wrap=True)
    return Text("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), str(style), no_wrap=True)


def split_bar(canvas: Canvas, parts: Sequence[tuple[float, Style]], largest: float, width: int) -> Text:
    """Return one bar of several parts, each in its style: what was added, changed, removed.

    The parts are whole cells, so that they can be told apart without colour: `+`, `~` and `-` in ASCII.
    """
    total = sum(value for value, _ in parts)
    if total <= 0 or largest <= 0 or width < 1:
        return Text("")
    present = [(value, style) for value, style in parts if value > 0]
    cells = max(round(min(total / largest, 1) * width), 1)
    cells = min(max(cells, len(present)), width)
    drawn = Text(no_wrap=True)
    left, value_left = cells, total
    for place, (value, style) in enumerate(present):
        others = len(present) - place - 1
        length = min(max(round(left * value / value_left), 1), max(left - others, 1)) if value_left else 0
        drawn.append((_ASCII_MARKS if canvas.is_ascii else _MARKS).get(style, "█") * length, str(style))
        left, value_left = left - length, value_left - value
    return drawn


_MARKS = {Style.ADDED: "█", Style.CHANGED: "▓", Style.REMOVED: "░"}
_ASCII_MARKS = {Style.ADDED: "+", Style.CHANGED: "~", Style.REMOVED: "-"}


def sparkline(canvas: Canvas, values: Sequence[int], style: Style = Style.SIZE) -> Text:
    """Return one character per value, as high as it is of the largest; 0 is a blank."""
    heights = _ASCII_HEIGHTS if canvas.is_ascii else _HEIGHTS
    largest = max(values, default=0)
    drawn = "".join(heights[-(-value * len(heights) // largest) - 1] if value > 0 else " " for value in values)
    return Text(drawn, str(style), no_wrap=True)
