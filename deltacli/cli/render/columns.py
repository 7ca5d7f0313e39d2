"""Columns, sections and plans of a result, drawn on a terminal or written into a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, NamedTuple, Protocol, TypeVar

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import count_cells, encode_utf8, escape_control, escape_for_screen
from deltacli.cli.terminal.wrapping import wrap_with_commands
from deltacli.core.documents import dumps
from deltacli.core.errors import QUOTED, UsageError, nearest_name
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_count, format_size, parse_names, plural, without_middle

if TYPE_CHECKING:
    import pyarrow
    from rich.console import RenderableType
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas

# -- columns of a result -----------------------------------------------------------------------------------------------

Row = TypeVar("Row")

DRAWN_ROWS = 1_000
"""Tables of more rows are written by the streaming writer, also on a terminal: rich takes 50 µs per cell."""

GAP = "  "
"""What stands between two columns."""


_FOLDED = 16
"""Cells into which text that goes on below is folded before an important column is left out."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column(Generic[Row]):
    """One column. `name` is the CSV header, the word of `--columns` and the key in documents.

    `value` is exact (for CSV, JSON, and a pipe where the user chose the columns), `text` is for the eye; `priority` 1
    stays longest when the screen is narrow.

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
    is_minor: bool = False
    """Left out before another column is cut."""
    keep_end: bool = False
    """Where the text does not fit, cut its beginning: file names differ at the end."""
    keep_both: bool = False
    """Where the text does not fit, cut its middle: paths differ at both ends."""
    folds: bool = False
    """On a drawn screen, text that does not fit goes on below instead of being cut."""
    picture: Callable[[Row, Canvas, int], Text] | None = None
    """A bar in place of the text, drawn on so many cells (`least`). Such a column is shown only where rich draws, and
    left out where the text of every row is empty.
    """
    is_rounded: bool = False
    """The text is an age, or a time to the second: a pipe has the value."""
    texts: Callable[[pyarrow.Array], pyarrow.Array] | None = None
    """The texts for a pipe of a whole column, where that is faster than one by one."""
    subtitle: str | None = None
    """What stands below the title on a drawn screen, such as the type of the values."""

    def heading(self) -> str:
        return escape_control(self.title or self.name)

    def below_heading(self) -> str:
        return escape_control(self.subtitle or "")

    def whole(self, row: Row) -> str:
        """Return the text for a pipe: as on a screen, but file names keep their bytes, and times are absolute."""
        return escape_control(self.text(row) if self.text and not self.is_rounded else exact(self.value(row)))

    def shown(self, row: Row) -> str:
        return escape_for_screen(self.text(row) if self.text else exact(self.value(row)))


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


def item_columns(names: Iterable[str]) -> list[Column[JsonObject]]:
    return [Column(name, methodcaller("get", name)) for name in names]


def usual(columns: Sequence[Column[Row]], terminal: Terminal) -> list[Column[Row]]:
    """The columns shown when nobody chose any: in a pipe those of a screen, without ages."""
    return [column for column in columns if column.on_screen and (terminal.is_drawn or column.in_pipe)]


def exactly(columns: Sequence[Column[Row]], terminal: Terminal) -> Sequence[Column[Row]]:
    """Return columns that the user chose: in a pipe with their names and exact values."""
    return columns if terminal.is_drawn else [replace(column, title=None, text=None) for column in columns]


def choose(columns: Sequence[Column[Row]], wanted: str | None) -> list[Column[Row]]:
    """Return the columns of a comma-separated list, in its order, by name or by the heading that a screen shows.

    Raises UsageError, with the nearest name.
    """
    if wanted is None:
        return list(columns)
    by_spelling = {column.heading().lower(): column for column in columns}
    by_spelling |= {column.name.lower(): column for column in columns}

    names = parse_column_names(wanted, [column.name for column in columns])
    for name in names:
        if name.lower() not in by_spelling:
            raise unknown_column(name, [column.name for column in columns])
    return [by_spelling[name.lower()] for name in names]


def spellings(column: Column[Any]) -> tuple[str, str]:
    """Return what a user may write for a column, in lower case: its name and its heading."""
    return column.name.lower(), column.heading().lower()


def named(wanted: str, known: Sequence[str]) -> list[str]:
    """Return the known names of a comma-separated list, in its order, whatever their case there. Raises UsageError."""
    spelled = {name.lower(): name for name in known}
    names = parse_column_names(wanted, known)
    for name in names:
        if name.lower() not in spelled:
            raise unknown_column(name, known)
    return [spelled[name.lower()] for name in names]


def parse_column_names(wanted: str, known: Sequence[str]) -> list[str]:
    """Return the names in a value of `--columns`. Raises UsageError for an empty list or an empty name."""
    return parse_names(wanted, "--columns", code="usage.column", facts={"columns": ", ".join(known)})


def unknown_column(name: str, known: Sequence[str]) -> UsageError:
    """The error for a column nobody has, with the nearest one that exists."""
    nearest = nearest_name(name, known, ignores_case=True)
    return UsageError(f"there is no column {name!r}", code="usage.column", facts={"columns": ", ".join(known)}).asking(
        name, nearest, QUOTED
    )


def pad(text: str, width: int, *, right: bool) -> str:
    blanks = " " * max(width - count_cells(text), 0)
    return blanks + text if right else text + blanks


def fit(
    columns: Sequence[Column[Any]],
    texts: Sequence[Sequence[str]],
    natural: Sequence[int],
    width: int | None,
    *,
    keep_empty: bool,
) -> tuple[list[int], list[int]]:
    """Choose the columns with values that fit `width` cells by priority (None: all); return places and widths."""
    filled = with_values(columns, texts, keep_empty=keep_empty)
    if width is None:
        return filled, [natural[index] for index in filled]
    least = {
        index: natural[index] if columns[index].right else min(natural[index], columns[index].least) for index in filled
    }  # a number is never cut
    essential = [index for index in filled if columns[index].priority <= 1]
    if _room([least.get(index, 0) for index in range(len(columns))], essential) > width:
        folded = [index for index in essential if columns[index].folds]
        least |= {index: min(least[index], _FOLDED) for index in folded}
        filled = essential if folded else filled
    chosen: list[int] = []
    for index in sorted(filled, key=lambda index: columns[index].priority):
        if sum(least[i] for i in [*chosen, index]) + len(GAP) * len(chosen) <= width or not chosen:
            chosen.append(index)
    chosen.sort()
    major = [index for index in chosen if not columns[index].is_minor]
    if _room(natural, major) <= width < _room(natural, chosen):
        return major, [natural[index] for index in major]
    return chosen, spread(columns, chosen, natural, [min(least[index], width) for index in chosen], width)


def left_out(columns: Sequence[Column[Row]], rows: Sequence[Row], shown: Container[str]) -> str:
    """Return the remark that names the columns with a value in some row that are not among the `shown` ones, else an
    empty text. Bars, minor columns, and those that only a screen has, are not missed.
    """
    absent = [one for one in columns if not (one.name in shown or one.picture or one.is_minor) and one.in_pipe]
    names = [column.heading() for column in absent if any(column.shown(row) for row in rows)]
    return f"no room for {', '.join(names)}" if names else ""


def _room(widths: Sequence[int], chosen: Sequence[int]) -> int:
    return sum(widths[index] for index in chosen) + len(GAP) * (len(chosen) - 1)


def with_values(columns: Sequence[Column[Any]], texts: Sequence[Sequence[str]], *, keep_empty: bool) -> list[int]:
    """The places of the columns that have a value in some row; where there are no rows, of the important ones."""
    return [
        index
        for index, column in enumerate(columns)
        if keep_empty or any(row[index] for row in texts) or (not texts and column.priority < 5)
    ]


def spread(
    columns: Sequence[Column[Any]], chosen: Sequence[int], natural: Sequence[int], least: Sequence[int], width: int
) -> list[int]:
    """Return the widths of the chosen columns: `least`, and what is left of `width` by priority."""
    widths = dict(zip(chosen, least, strict=True))
    spare = max(width - sum(least) - len(GAP) * (len(chosen) - 1), 0)
    for index in sorted(chosen, key=lambda i: columns[i].priority):
        extra = min(spare, max(natural[index] - widths[index], 0))
        widths[index] += extra
        spare -= extra
    return [widths[index] for index in chosen]


# -- sections ----------------------------------------------------------------------------------------------------------

NOT_THE_NEWEST = "commits are missing from the log, so this is not about the newest version"
"""What is said of an answer about an older version; the error says more."""
_CODE = re.compile(r"\[([a-z]+(?:[.-][a-z0-9]+)+)\](?:;|\Z)")
"""The code of an error at the end of a line, or before a way out."""


class Section(NamedTuple):
    """A label and the lines beside it."""

    label: str
    lines: Sequence[str]
    style: Style = Style.PLAIN
    repeated: int = 0
    """How many of the lines the error says as well that follows on stderr."""


def file_amount(files: int, size_bytes: int) -> str:
    """Return a number of files and their size: `2 files, 3.2 MiB`."""
    return f"{plural(files, 'file')}, {format_size(size_bytes)}"


def refused(lines: Iterable[str], *, in_error: int = 1) -> Section:
    """Return the lines on what refuses a plan, each with its code in brackets; the error says the first ones."""
    return Section("refused", list(lines), Style.PROBLEM, in_error)


def without_repetition(sections: Iterable[Section]) -> list[Section]:
    """Return sections with the codes alone of lines that the error says."""
    return [
        section._replace(
            lines=[
                found[1] if number < section.repeated and (found := _CODE.search(line)) else line
                for number, line in enumerate(section.lines)
            ]
        )
        for section in sections
    ]


# -- what parts are drawn on -------------------------------------------------------------------------------------------

Labelled = tuple[str, "RenderableType"]
"""A value and the label before it; a label of "" goes on with the one above."""


class Surface(Protocol):
    """What a result is drawn on: the `Canvas` of a terminal, or the `Sheet` of a pipe."""

    is_screen: bool
    """Whether pictures are drawn: bars, strips."""
    width: int
    never_cuts: bool
    is_ascii: bool

    @property
    def shows_errors(self) -> bool:
        """Whether the error that follows is read in the same place."""

    def text(
        self, value: str, style: Style = Style.PLAIN, *, folds: bool = True, room: int | None = None
    ) -> RenderableType:
        """Return a text with control characters as escapes."""

    def joined(self, parts: Iterable[Any], *, folds: bool = True) -> RenderableType:  # Any: see `Canvas.joined`
        """Return one text made of parts, each with a style of its own."""

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> RenderableType:
        """Return a small table of texts; the columns in `right` hold numbers."""

    def grid(self, rows: Iterable[Labelled]) -> RenderableType:
        """Return values beside their labels."""

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Draw grids (as their rows) and other parts, an empty line between two; empty ones are left out."""


class Sheet:
    """A pipe or a file: every value is whole, in one line, without colour and rich."""

    is_screen = False
    width = sys.maxsize
    never_cuts = True
    is_ascii = True

    def __init__(self, sink: BinaryIO, *, shows_errors: bool) -> None:
        self._sink = sink
        self.shows_errors = shows_errors

    def text(self, value: str, style: Style = Style.PLAIN, **_: object) -> str:  # noqa: ARG002  (no colour)
        """Return a text with control characters as escapes."""
        return escape_control(without_middle(value))

    def joined(self, parts: Iterable[Any], **_: object) -> str:  # Any: a text, or one with a style
        return "".join(self.text(part if isinstance(part, str) else part[0]) for part in parts)

    def matrix(
        self, titles: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, right: Sequence[int] = ()
    ) -> str:
        """Return the lines of a table, in columns."""
        texts = [titles, *([self.text(str(value)) for value in row] for row in rows)]
        widths = [max(map(count_cells, column)) for column in zip(*texts, strict=True)]
        lines = (
            [
                pad(text, width, right=place in right)
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            for row in texts
        )
        return "\n".join(GAP.join(line).rstrip() for line in lines)

    def grid(self, rows: Iterable[Labelled]) -> str:
        """Return a line for each value, behind its label."""
        rows = list(rows)
        width = max((len(label) for label, _ in rows), default=0)
        return "\n".join(f"{label:<{width}}{GAP}{self.text(str(value))}" for label, value in rows)

    def draw_parts(self, *parts: RenderableType | list[Labelled]) -> None:
        """Write parts below each other, an empty line between two; the labels have one width."""
        longest = max((len(label) for part in parts if isinstance(part, list) for label, _ in part), default=0)
        texts = [
            self.grid((f"{label:<{longest}}", _name_tables(value)) for label, value in part)
            if isinstance(part, list)
            else str(part)
            for part in parts
            if part
        ]
        self._sink.write(encode_utf8("\n\n".join(texts) + "\n"))


def _name_tables(value: RenderableType) -> RenderableType:
    return invocation.with_catalog_names(value) if isinstance(value, str) else value


# -- plans -------------------------------------------------------------------------------------------------------------

_ACTIONS = {"delete": Style.REMOVED, "keep": Style.GOOD, "unrecognized": Style.WARNING}
_LABEL_CELLS = 12
"""Of the labels of a plan, with the gap behind them."""
_STRIP_CELLS = 60
_CELLS_PER_VERSION = 3
_MARKS = {Style.REMOVED: "░", Style.CHANGED: "▒", Style.ADDED: "█"}
_ASCII_MARKS = {Style.REMOVED: "-", Style.CHANGED: "~", Style.ADDED: "+"}

Spans = Sequence[tuple[int, int]]
"""Ranges of versions, both ends included."""


PlanRow = tuple[str, str, int | None, int | None, str]
"""Some files of a plan: what is done (delete, keep, unrecognized), their kind, number and bytes (None: not counted),
and a remark.
"""


def plan_table(canvas: Surface, rows: Sequence[PlanRow], remarks: str) -> RenderableType:
    """Return the files of a plan by action and kind; `remarks` is the title of the last column."""
    texts: list[list[RenderableType]] = []
    previous = ""
    for action, kind, files, size_bytes, remark in rows:
        texts.append(
            [
                canvas.text("" if action == previous else action, _ACTIONS.get(action, Style.PLAIN)),
                kind,
                "" if files is None else format_count(files),
                canvas.text("" if size_bytes is None else format_size(size_bytes), Style.SIZE),
                canvas.text(remark, Style.QUIET),
            ]
        )
        previous = action
    return canvas.matrix(("", "kind", "files", "size", remarks), texts, right=(2, 3))


def version_strip(canvas: Surface, first: int, last: int, lost: Spans, label_cells: int = 0) -> RenderableType:
    """Return the versions as blocks between their numbers: lost, kept, or both; `label_cells`: room taken beside."""
    count = last - first + 1
    ends = len(f"{first:,} {last:,}") + 1
    room = max(min(canvas.width - label_cells - ends, _STRIP_CELLS), 1)
    blocks = min(count, room)
    repeat = max(min(room // blocks, _CELLS_PER_VERSION), 1)
    marks = _ASCII_MARKS if canvas.is_ascii else _MARKS
    drawn = [(f"{first:,} ", Style.QUIET)]
    for block in range(blocks):
        start, end = first + count * block // blocks, first + count * (block + 1) // blocks
        missing = sum(max(min(end, to + 1) - max(start, begin), 0) for begin, to in lost)
        style = Style.ADDED if not missing else Style.REMOVED if missing == end - start else Style.CHANGED
        drawn.append((marks[style] * repeat, style))
    return canvas.joined([*drawn, (f" {last:,}", Style.QUIET)], folds=False)


def refusal_rows(
    canvas: Surface, refusals: Iterable[tuple[str, str, str | None]], *, error_has_code: bool = False
) -> list[Labelled]:
    """Return rows of a grid: the message and the code of each refusal, and below it what overrides it.

    The codes only, where the error with their messages and overrides follows on the same terminal or pipe, and nothing
    on a terminal where the error has the codes, too.
    """
    refusals = list(refusals)
    rows: list[Labelled] = []
    if canvas.shows_errors:
        is_known = error_has_code and not isinstance(canvas, Sheet)
        return [] if is_known else [("refused", canvas.text(code, Style.PROBLEM)) for _, code, _ in refusals]
    for message, code, override in refusals:
        parts = [(message, Style.PROBLEM)] + ([] if message.endswith("]") else [(f" [{code}]", Style.QUIET)])
        rows.append(("refused", canvas.joined(parts)))
        if override:
            label = "override: " if override.startswith("--") else "fix: "
            first, *others = wrap_with_commands(f"{label}{override}", canvas.width - _LABEL_CELLS)
            rows.append(("", canvas.joined([label, (first.removeprefix(label.strip()).strip(), Style.NEXT)])))
            rows += [("", canvas.text(line, Style.NEXT)) for line in others]
    return rows


def section_rows(canvas: Surface, sections: Iterable[Section]) -> list[Labelled]:
    """Return rows of a grid: the lines of sections beside their labels."""
    room = canvas.width - _LABEL_CELLS
    return [
        ("" if number else section.label, canvas.text(part, section.style))
        for section in sections
        for number, part in enumerate(part for line in section.lines for part in wrap_with_commands(line, room))
    ]
