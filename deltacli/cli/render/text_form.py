"""The text form of a result, its sections and tables: drawn on a terminal, aligned and uncut in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from deltacli.cli.invocation import invocation
from deltacli.cli.render.columns import DRAWN_ROWS, GAP, Column, Row, exact_line, fit, left_out, pad
from deltacli.cli.render.sections import Section, without_repetition
from deltacli.cli.terminal.output import errors_follow, keep_heading
from deltacli.cli.terminal.shell import again_with
from deltacli.cli.terminal.term import Style, Terminal, cells, encoded, folded_command, shorten, visible
from deltacli.core.units import without_middle


def write_whole_table(
    sink: BinaryIO, terminal: Terminal, columns: Sequence[Column[Row]], rows: Sequence[Row], **options: Any
) -> None:
    """Write a table as `write_table` does; on a terminal that is too narrow, name the columns that are left out below
    it, and the command that shows them.
    """
    shown = write_table(sink, terminal, columns, rows, **options)
    if terminal.width is not None and (remark := left_out(columns, rows, shown)):
        command = again_with(invocation.arguments, "--format", "csv")
        lines = [f"{remark}; to show them: {command}"]
        if cells(lines[0]) > terminal.width:
            lines = [shorten(f"{remark}; to show them:", terminal.width), *folded_command(command, terminal.width)]
        sink.write(encoded("".join(terminal.paint(line, Style.QUIET) + "\n" for line in lines)))


def write_sections(sink: BinaryIO, terminal: Terminal, sections: Sequence[Section]) -> None:
    """Write labelled lines: folded on a terminal, in one line in a pipe. Very long texts lose their middle, and what
    the error says is not repeated.
    """
    if errors_follow(sink):
        sections = without_repetition(sections)
    sections = [section._replace(lines=[without_middle(line) for line in section.lines]) for section in sections]
    if terminal.is_drawn:
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.sections import draw_sections

        draw_sections(Canvas(sink, terminal), sections)
        return
    sections = [section for section in sections if section.lines]
    width = max(len(section.label) for section in sections)
    for section in sections:
        for number, line in enumerate(section.lines):
            label = "" if number else section.label
            sink.write(encoded(f"{label:<{width}}  {visible(line)}\n"))


def write_table(
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
    """Write aligned columns: fitted to a terminal, complete and uncut into a pipe, columns without any value left out
    (but for `keep_empty`), and return the names of those shown.

    `note` gives a row that is one line of text instead. A table that comes in several parts, of which this is one,
    `is_part` of it: parts are never drawn by rich, so that all of them look alike.
    """
    if terminal.is_drawn and len(rows) <= DRAWN_ROWS and not is_part:
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.tables import draw_table

        canvas = Canvas(sink, terminal)
        return draw_table(canvas, columns, rows, note=note, heading=heading, keep_empty=keep_empty)
    columns = [column for column in columns if column.picture is None]
    if terminal.width is None:
        chosen = [replace(column, title=None) for column in columns]
        if not keep_empty:
            chosen = [c for c in chosen if not rows or any(c.value(row) is not None for row in rows)]
        texts = [[_in_pipe(column, row) for column in chosen] for row in rows]
        widths = _natural_widths(chosen, texts)
    else:
        chosen, texts, widths = _fitted(columns, rows, terminal, keep_empty=keep_empty)
    notes = [note(row) if note else None for row in rows]
    lines = _headings(terminal, chosen, widths) if chosen and heading else []
    titles = max(len(lines), 1)
    for row, cells_of_row, remark in zip(rows, texts, notes, strict=True):
        if remark is not None:
            text = visible(remark) if terminal.width is None else shorten(visible(remark), terminal.width)
            lines.append(terminal.paint(text, Style.CHANGED))
        else:
            lines.append(_line(terminal, chosen, widths, cells_of_row, row))
    if heading and terminal.width is not None:
        keep_heading(sink, titles)
    if lines:
        sink.write(encoded("\n".join(lines) + "\n"))
    return [column.name for column in chosen]


def _in_pipe(column: Column[Row], row: Row) -> str:
    """Return a value uncut, a truth value in the words of a screen where the column has some."""
    value = column.value(row)
    return column.shown(row) if isinstance(value, bool) and column.text is not None else exact_line(value)


def _headings(terminal: Terminal, columns: Sequence[Column[Any]], widths: Sequence[int]) -> list[str]:
    """The titles of the columns, and on a screen a line of their subtitles, if there are any."""

    def line(texts: Sequence[str]) -> str:
        padded = [
            pad(shorten(text, width), width, right=column.right)
            for text, column, width in zip(texts, columns, widths, strict=True)
        ]
        return GAP.join(padded).rstrip()

    titles = [terminal.paint(line([column.heading() for column in columns]), Style.HEADING)]
    if terminal.width is not None and any(column.subtitle for column in columns):
        titles.append(terminal.paint(line([column.below_heading() for column in columns]), Style.QUIET))
    return titles


def _line(
    terminal: Terminal, columns: Sequence[Column[Row]], widths: Sequence[int], texts: Sequence[str], row: Row
) -> str:
    parts = []
    for column, width, text in zip(columns, widths, texts, strict=True):
        padded = pad(text, width, right=column.right)
        parts.append(terminal.paint(padded, column.style(row)) if column.style and terminal.colour else padded)
    return GAP.join(parts).rstrip()


def _natural_widths(columns: Sequence[Column[Any]], texts: Sequence[Sequence[str]]) -> list[int]:
    return [
        max([cells(column.heading()), cells(column.below_heading()), *(cells(row[index]) for row in texts)])
        for index, column in enumerate(columns)
    ]


def cuts_values(columns: Sequence[Column[Row]], rows: Sequence[Row], terminal: Terminal) -> bool:
    """Return whether values of rows do not fit the columns that a terminal has room for."""
    chosen, texts, _ = _fitted(columns, rows, terminal, keep_empty=True)
    return any(
        text != column.shown(row)
        for row, of_row in zip(rows, texts, strict=True)
        for column, text in zip(chosen, of_row, strict=True)
    )


def _fitted(
    columns: Sequence[Column[Row]], rows: Sequence[Row], terminal: Terminal, *, keep_empty: bool
) -> tuple[list[Column[Row]], list[list[str]], list[int]]:
    """Choose the columns for a screen, and return them with the texts cut to their widths; forced colour cuts none."""
    texts = [[column.shown(row) for column in columns] for row in rows]
    natural = _natural_widths(columns, texts)
    width = terminal.width if terminal.is_terminal else None
    chosen, widths = fit(columns, texts, natural, width, keep_empty=keep_empty)
    cut = [
        [
            shorten(row[index], room, keep_end=columns[index].keep_end, keep_both=columns[index].keep_both)
            for index, room in zip(chosen, widths, strict=True)
        ]
        for row in texts
    ]
    return [columns[index] for index in chosen], cut, widths
