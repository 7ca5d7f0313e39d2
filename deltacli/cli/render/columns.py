"""Columns of a result, and rows of them for the eye."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Generic, TypeVar

from deltacli.cli.render.json import dumps
from deltacli.cli.terminal.output import keep_heading
from deltacli.cli.terminal.term import Style, Terminal, cells, encoded, for_screen, shorten, visible
from deltacli.errors import UsageError

Row = TypeVar("Row")

GAP = "  "
"""What stands between two columns."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column.

    `value` is exact (for CSV, JSON and pipes), `text` is for the eye; `priority` 1 stays longest when the screen is
    narrow.

    `least` is the width below which the column is left out rather than shortened.
    """

    name: str
    value: Callable[[Row], object]
    text: Callable[[Row], str] | None = None
    style: Callable[[Row], Style] | None = None
    right: bool = False
    priority: int = 5
    least: int = 8
    title: str | None = None
    on_screen: bool = True
    in_pipe: bool = True
    """Whether the column is shown there when nobody chose columns."""
    keep_end: bool = False
    """Where the text does not fit, cut its beginning: file names tell themselves apart at the end."""

    def heading(self) -> str:
        return visible(self.title or self.name)

    def shown(self, row: Row) -> str:
        return for_screen(self.text(row) if self.text else exact(self.value(row)))


def exact(value: object) -> str:
    """A value with every character: text as it is, absent as nothing, nested as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return dumps(value).decode()


def usual(columns: Sequence[Column[Row]], terminal: Terminal) -> list[Column[Row]]:
    """The columns shown when nobody chose any: fewer on a screen, every exact one in a pipe."""
    return [column for column in columns if (column.on_screen if terminal.is_terminal else column.in_pipe)]


def choose(columns: Sequence[Column[Row]], wanted: str | None) -> list[Column[Row]]:
    """Return the columns named in a comma-separated list, in that order.

    Raises UsageError with the nearest name for an unknown one.
    """
    if wanted is None:
        return list(columns)
    known = {column.name.lower(): column for column in columns}
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if not names:
        raise UsageError("--columns names no column", facts={"columns": ", ".join(column.name for column in columns)})
    for name in names:
        if name.lower() not in known:
            raise unknown_column(name, [column.name for column in columns])
    return [known[name.lower()] for name in names]


def unknown_column(name: str, known: Sequence[str]) -> UsageError:
    """The error for a column nobody has, with the nearest one that exists."""
    from difflib import get_close_matches

    lowered = {candidate.lower(): candidate for candidate in known}
    nearest = get_close_matches(name.lower(), lowered, 1)
    return UsageError(
        f"there is no column {name!r}" + (f"; did you mean {lowered[nearest[0]]!r}?" if nearest else ""),
        code="usage.column",
        facts={"columns": ", ".join(known)},
    )


def write_table(
    sink: BinaryIO,
    terminal: Terminal,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    *,
    note: Callable[[Row], str | None] | None = None,
    heading: bool = True,
    keep_empty: bool = False,
) -> list[str]:
    """Write aligned columns: fitted to a terminal, complete and uncut into a pipe, columns without any value left out
    (but for `keep_empty`), and return the names of those shown.

    `note` gives a row that is one line of text instead.
    """
    if terminal.width is None:
        chosen = [replace(column, title=None) for column in columns]
        if not keep_empty:
            chosen = [c for c in chosen if not rows or any(c.value(row) is not None for row in rows)]
        texts = [[exact_line(column.value(row)) for column in chosen] for row in rows]
        widths = _natural_widths(chosen, texts)
    else:
        chosen, texts, widths = _fit(columns, rows, terminal.width, keep_empty=keep_empty)
    notes = [note(row) if note else None for row in rows]
    lines = [_heading(terminal, chosen, widths)] if chosen and heading else []
    for row, cells_of_row, remark in zip(rows, texts, notes, strict=True):
        if remark is not None:
            text = visible(remark) if terminal.width is None else shorten(visible(remark), terminal.width)
            lines.append(terminal.paint(text, Style.CHANGE))
        else:
            lines.append(_line(terminal, chosen, widths, cells_of_row, row))
    if heading and terminal.width is not None:
        keep_heading(sink)
    if lines:
        sink.write(encoded("\n".join(lines) + "\n"))
    return [column.name for column in chosen]


def exact_line(value: object) -> str:
    """A value uncut on one line: line breaks and other control characters as their escapes, so that a row stays a
    row.
    """
    return visible(exact(value))


def _heading(terminal: Terminal, columns: Sequence[Column[Any]], widths: Sequence[int]) -> str:
    titles = [
        pad(shorten(column.heading(), width), width, right=column.right)
        for column, width in zip(columns, widths, strict=True)
    ]
    return terminal.paint(GAP.join(titles).rstrip(), Style.HEADING)


def _line(
    terminal: Terminal, columns: Sequence[Column[Row]], widths: Sequence[int], texts: Sequence[str], row: Row
) -> str:
    parts = []
    for column, width, text in zip(columns, widths, texts, strict=True):
        padded = pad(text, width, right=column.right)
        parts.append(terminal.paint(padded, column.style(row)) if column.style and terminal.colour else padded)
    return GAP.join(parts).rstrip()


def pad(text: str, width: int, *, right: bool) -> str:
    """Return a text with blanks up to a width in terminal cells."""
    blanks = " " * max(width - cells(text), 0)
    return blanks + text if right else text + blanks


def _natural_widths(columns: Sequence[Column[Any]], texts: Sequence[Sequence[str]]) -> list[int]:
    return [
        max([cells(column.heading()), *(cells(row[index]) for row in texts)]) for index, column in enumerate(columns)
    ]


def _fit(
    columns: Sequence[Column[Row]], rows: Sequence[Row], width: int, *, keep_empty: bool
) -> tuple[list[Column[Row]], list[list[str]], list[int]]:
    """Choose the columns that fit a screen by priority, leave out empty ones, shorten the last flexible ones, and
    return the cut texts.
    """
    texts = [[column.shown(row) for column in columns] for row in rows]
    natural = _natural_widths(columns, texts)
    filled = [
        index
        for index, column in enumerate(columns)
        if keep_empty or any(row[index] for row in texts) or (not rows and column.priority < 5)
    ]
    chosen: list[int] = []
    for index in sorted(filled, key=lambda i: columns[i].priority):
        least = sum(min(natural[i], columns[i].least) for i in [*chosen, index]) + len(GAP) * len(chosen)
        if least <= width or not chosen:
            chosen.append(index)
    chosen.sort()
    widths = {index: min(natural[index], columns[index].least, width) for index in chosen}
    spare = width - sum(widths.values()) - len(GAP) * (len(chosen) - 1)
    for index in sorted(chosen, key=lambda i: columns[i].priority):
        extra = min(spare, natural[index] - widths[index])
        widths[index] += max(extra, 0)
        spare -= max(extra, 0)
    cut = [[shorten(row[index], widths[index], keep_end=columns[index].keep_end) for index in chosen] for row in texts]
    return [columns[index] for index in chosen], cut, [widths[index] for index in chosen]
