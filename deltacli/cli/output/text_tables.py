"""Write results as text for people: labelled sections and aligned tables.

On a terminal, rich draws them. Long tables, and all results in a pipe, are written as plain text by this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Generic, NamedTuple

from deltacli.cli.invocation import invocation
from deltacli.cli.output.alignment import GAP, pad_text
from deltacli.cli.output.column_widths import MAX_DRAWN_ROWS, fit_columns
from deltacli.cli.output.columns import Column, Row, describe_hidden_columns
from deltacli.cli.output.destination import is_followed_by_errors, keep_heading
from deltacli.cli.output.sections import Section, shorten_repeated_lines
from deltacli.cli.output.surface import Labelled, Sheet, Surface
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import count_cells, encode_utf8, escape_control, shorten
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.cli.terminal.wrapping import wrap_command
from deltacli.core.texts import cut_middle


def make_surface(sink: BinaryIO, terminal: Terminal) -> Surface:
    """Return the surface to draw a result on: a `Canvas` for a terminal, or a `Sheet` for plain text."""
    if terminal.is_drawn:
        # Only terminals need rich, whose import is slow.
        from deltacli.cli.render.terminal.console import Canvas

        return Canvas(sink, terminal)
    return Sheet(sink, shows_errors=is_followed_by_errors(sink))


def write_sections(sink: BinaryIO, terminal: Terminal, sections: Sequence[Section]) -> None:
    """Write labelled lines. On a terminal, they are wrapped.

    If an error message follows on the same terminal, lines that the message repeats are shortened.
    """
    if is_followed_by_errors(sink):
        sections = shorten_repeated_lines(sections)
    sections = [section._replace(lines=[_name_tables(line) for line in section.lines]) for section in sections]

    if terminal.is_drawn:
        # Rich is imported for a terminal only.
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.tables import draw_sections

        draw_sections(Canvas(sink, terminal), sections)
        return

    labelled: list[Labelled] = []
    for section in sections:
        labelled += [(section.label if number == 0 else "", line) for number, line in enumerate(section.lines)]
    make_surface(sink, terminal).draw_parts(labelled)


def _name_tables(line: str) -> str:
    """Shorten a very long line, and replace the locations of tables by their names in a catalog."""
    return cut_middle(invocation.insert_catalog_names(line))


def write_complete_table(
    sink: BinaryIO, terminal: Terminal, columns: Sequence[Column[Row]], rows: Sequence[Row], **options: Any
) -> None:
    """Write a table, followed by the columns that did not fit on the screen and a command that shows them.

    Args:
        sink: The stream of the result.
        terminal: The properties of stdout.
        columns: The columns. On a narrow screen, some of them are omitted.
        rows: The rows.
        options: Keyword arguments for `write_text_table`.
    """
    shown = write_text_table(sink, terminal, columns, rows, **options)
    # A pipe contains all columns.
    if terminal.width is None:
        return
    remark = describe_hidden_columns(columns, rows, shown)
    if not remark:
        return

    command = repeat_command_with(invocation.arguments, "--format", "csv")
    lines = [f"{remark}; to show them: {command}"]
    if count_cells(lines[0]) > terminal.width:
        lines = [shorten(f"{remark}; to show them:", terminal.width), *wrap_command(command, terminal.width)]
    painted = [terminal.paint(line, Style.QUIET) + "\n" for line in lines]
    sink.write(encode_utf8("".join(painted)))


def write_table_with_total(
    sink: BinaryIO, terminal: Terminal, columns: Sequence[Column[Row]], rows: Sequence[Row], total: Row
) -> None:
    """Write one row per table. For several tables, write a last row with the totals."""
    write_text_table(sink, terminal, columns, [*rows, total] if len(rows) > 1 else rows)


def write_text_table(
    sink: BinaryIO,
    terminal: Terminal,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    *,
    note: Callable[[Row], str | None] | None = None,
    heading: bool = True,
    keep_empty: bool = False,
    is_part: bool = False,
) -> list[str]:
    """Write a table with aligned columns.

    On a terminal, columns are truncated or omitted so that rows fit on the screen. A pipe contains complete values.

    Args:
        sink: The stream of the result.
        terminal: The properties of stdout.
        columns: The columns. On a narrow screen, some of them are omitted.
        rows: The rows.
        note: A function that returns a text to write instead of a row, such as `versions 3-5 are missing`; None for
            rows that are written in columns.
        heading: Whether to write the titles of the columns.
        keep_empty: Whether to show columns in which no row has a value.
        is_part: Whether this is one of several parts of a table that is too long for one call. Rich does not draw
            parts, so that all parts have the same appearance.

    Returns:
        The names of the columns that are shown.
    """
    if terminal.is_drawn and len(rows) <= MAX_DRAWN_ROWS and not is_part:
        # Only terminals need rich, whose import is slow.
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.tables import draw_table

        canvas = Canvas(sink, terminal)
        return draw_table(canvas, columns, rows, note=note, heading=heading, keep_empty=keep_empty)

    text_columns = [column for column in columns if column.draw_bar is None]
    table = _lay_out(text_columns, rows, terminal, keep_empty=keep_empty)
    lines = _format_headings(terminal, table) if heading and table.columns else []
    heading_lines = max(len(lines), 1)
    for row, texts in zip(rows, table.texts, strict=True):
        remark = None if note is None else note(row)
        if remark is None:
            lines.append(_format_row(terminal, table, texts, row))
        else:
            lines.append(_format_note(terminal, remark))

    # The option that keeps the heading visible is set when the pager starts, which the next write may do.
    if heading and terminal.width is not None:
        keep_heading(sink, heading_lines)
    if lines:
        sink.write(encode_utf8("\n".join(lines) + "\n"))
    return [column.name for column in table.columns]


class _TextTable(NamedTuple, Generic[Row]):
    """A table that is ready to be written.

    Attributes:
        columns: The columns to show.
        widths: The width of each column in cells.
        texts: The texts of each row, one per column. Truncated for a terminal.
    """

    columns: list[Column[Row]]
    widths: list[int]
    texts: list[list[str]]


def _lay_out(
    columns: Sequence[Column[Row]], rows: Sequence[Row], terminal: Terminal, *, keep_empty: bool
) -> _TextTable[Row]:
    """Choose the columns that fit on the screen, and truncate their texts to the widths of the columns."""
    if terminal.is_drawn:
        texts = [[column.format_for_screen(row) for column in columns] for row in rows]
    else:
        texts = [[column.format_for_pipe(row) for column in columns] for row in rows]

    natural_widths: list[int] = []
    for index, column in enumerate(columns):
        headings = [count_cells(column.heading()), count_cells(column.subheading())]
        natural_widths.append(max([*headings, *(count_cells(row[index]) for row in texts)]))

    width = terminal.width if terminal.is_terminal else None
    layout = fit_columns(columns, texts, natural_widths, width, keep_empty=keep_empty)
    shown = [columns[index] for index in layout.indexes]
    cut_texts = [
        [
            shorten(row[index], cells, keep_end=columns[index].keep_end, keep_both=columns[index].keep_both)
            for index, cells in zip(layout.indexes, layout.widths, strict=True)
        ]
        for row in texts
    ]
    return _TextTable(shown, layout.widths, cut_texts)


def is_any_value_cut(columns: Sequence[Column[Row]], rows: Sequence[Row], terminal: Terminal) -> bool:
    """Return True if a value is truncated on this terminal."""
    table = _lay_out(columns, rows, terminal, keep_empty=True)
    for row, texts in zip(rows, table.texts, strict=True):
        if texts != [column.format_for_screen(row) for column in table.columns]:
            return True
    return False


def _format_headings(terminal: Terminal, table: _TextTable[Any]) -> list[str]:
    """Format the line of titles. On a terminal, add a line of subtitles if any column has one."""
    titles = _align(table, [column.heading() for column in table.columns])
    lines = [terminal.paint(titles, Style.HEADING)]
    if terminal.width is not None and any(column.subtitle for column in table.columns):
        subtitles = _align(table, [column.subheading() for column in table.columns])
        lines.append(terminal.paint(subtitles, Style.QUIET))
    return lines


def _align(table: _TextTable[Any], texts: Sequence[str]) -> str:
    padded = [
        pad_text(shorten(text, width), width, right=column.align_right)
        for text, column, width in zip(texts, table.columns, table.widths, strict=True)
    ]
    return GAP.join(padded).rstrip()


def _format_row(terminal: Terminal, table: _TextTable[Row], texts: Sequence[str], row: Row) -> str:
    parts: list[str] = []
    for column, width, text in zip(table.columns, table.widths, texts, strict=True):
        padded = pad_text(text, width, right=column.align_right)
        if column.style is not None and terminal.colour:
            padded = terminal.paint(padded, column.style(row))
        parts.append(padded)
    return GAP.join(parts).rstrip()


def _format_note(terminal: Terminal, remark: str) -> str:
    text = escape_control(remark)
    if terminal.width is not None:
        text = shorten(text, terminal.width)
    return terminal.paint(text, Style.CHANGED)
