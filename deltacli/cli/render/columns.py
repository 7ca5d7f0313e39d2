"""Columns of a result, and rows of them for the eye."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from deltacli.cli.terminal.term import Style, Terminal, cells, for_screen, visible
from deltacli.core.documents import dumps
from deltacli.core.errors import QUOTED, UsageError, nearest_name
from deltacli.core.made_once import pattern
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_size, parse_names, plural

if TYPE_CHECKING:
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
    is_age: bool = False
    """The text is an age."""
    subtitle: str | None = None
    """What stands below the title on a drawn screen, such as the type of the values."""

    def heading(self) -> str:
        return visible(self.title or self.name)

    def below_heading(self) -> str:
        return visible(self.subtitle or "")

    def whole(self, row: Row) -> str:
        """Return the text for a pipe: as on a screen, but file names keep their bytes, and times are absolute."""
        return visible(self.text(row) if self.text and not self.is_age else exact(self.value(row)))

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


def item_columns(names: Iterable[str]) -> list[Column[JsonObject]]:
    """Return a column for each of these fields of items of a document."""
    return [Column(name, methodcaller("get", name)) for name in names]


def usual(columns: Sequence[Column[Row]], terminal: Terminal) -> list[Column[Row]]:
    """The columns shown when nobody chose any: in a pipe those of a screen that do not depend on the time of the run."""
    return [column for column in columns if column.on_screen and (terminal.is_drawn or column.in_pipe)]


def exactly(columns: Sequence[Column[Row]], terminal: Terminal) -> Sequence[Column[Row]]:
    """Return columns that the user chose: in a pipe with their names and exact values."""
    return columns if terminal.is_drawn else [replace(column, title=None, text=None) for column in columns]


def choose(columns: Sequence[Column[Row]], wanted: str | None) -> list[Column[Row]]:
    """Return the columns named in a comma-separated list, in that order.

    Raises UsageError with the nearest name for an unknown one.
    """
    if wanted is None:
        return list(columns)
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in named(wanted, list(by_name))]


def named(wanted: str, known: Sequence[str]) -> list[str]:
    """Return the known names of a comma-separated list, in its order, whatever their case there. Raises UsageError."""
    spelled = {name.lower(): name for name in known}
    names = parse_names(wanted, "--columns", code="usage.column", facts={"columns": ", ".join(known)})
    for name in names:
        if name.lower() not in spelled:
            raise unknown_column(name, known)
    return [spelled[name.lower()] for name in names]


def unknown_column(name: str, known: Sequence[str]) -> UsageError:
    """The error for a column nobody has, with the nearest one that exists."""
    nearest = nearest_name(name, known, ignores_case=True)
    return UsageError(f"there is no column {name!r}", code="usage.column", facts={"columns": ", ".join(known)}).asking(
        name, nearest, QUOTED
    )


def pad(text: str, width: int, *, right: bool) -> str:
    """Return a text with blanks up to a width in terminal cells."""
    blanks = " " * max(width - cells(text), 0)
    return blanks + text if right else text + blanks


def fit(
    columns: Sequence[Column[Any]],
    texts: Sequence[Sequence[str]],
    natural: Sequence[int],
    width: int | None,
    *,
    keep_empty: bool,
) -> tuple[list[int], list[int]]:
    """Choose the columns that fit `width` cells by priority (None: all), leave out those without a value, and return
    the places of the others and their widths.
    """
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
_CODE = pattern(r"\[([a-z]+(?:[.-][a-z0-9]+)+)\](?:;|\Z)")
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
