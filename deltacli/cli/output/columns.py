"""The columns of a result, declared once for the screen, the pipe, CSV and the words of `--columns`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import escape_control, escape_for_screen
from deltacli.core.documents import dumps
from deltacli.core.errors import UsageError, nearest_name
from deltacli.core.texts import parse_names
from deltacli.core.typing import JsonObject

if TYPE_CHECKING:
    import pyarrow
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column(Generic[Row]):
    """One column of a result.

    Attributes:
        name: The header in CSV, the word of `--columns` and the key in documents.
        value: Returns the exact value of a row: for CSV, JSON, and a pipe if the user chose the columns.
        text: Returns the text for people; None if that is the exact value.
        style: Returns the look of the text on a screen.
        align_right: Whether the texts are numbers, which are aligned at their end and never cut.
        priority: Decides which columns a narrow screen leaves out. 1 stays longest.
        min_width: Cells below which the column is left out rather than cut.
        title: The heading for people; None if that is the name.
        subtitle: A second heading on a drawn screen, such as the type of the values.
        on_screen: Whether people see the column if nobody chose columns.
        in_pipe: Whether a pipe has it then.
        is_minor: Whether the column is left out before another one is cut.
        keep_end: Cut the beginning of a text that does not fit: file names differ at the end.
        keep_both: Cut the middle of a text that does not fit: paths differ at both ends.
        wraps: On a drawn screen, a text that does not fit goes on below instead of being cut.
        is_rounded: Whether the text is an age, or a time to the second. A pipe has the value instead.
        draw_bar: Draws a bar of `min_width` cells in place of the text. Such a column is shown only where rich draws,
            and is left out if the text of every row is empty.
        format_array: Returns the texts for a pipe of a whole Arrow column, if that is faster than one by one.
    """

    name: str
    value: Callable[[Row], object]
    text: Callable[[Row], str] | None = None
    style: Callable[[Row], Style] | None = None
    align_right: bool = False
    priority: int = 5
    min_width: int = 8
    title: str | None = None
    on_screen: bool = True
    in_pipe: bool = True
    is_minor: bool = False
    keep_end: bool = False
    keep_both: bool = False
    wraps: bool = False
    draw_bar: Callable[[Row, Canvas, int], Text] | None = None
    is_rounded: bool = False
    format_array: Callable[[pyarrow.Array], pyarrow.Array] | None = None
    subtitle: str | None = None

    def heading(self) -> str:
        """Return the heading for people."""
        return escape_control(self.title or self.name)

    def subheading(self) -> str:
        """Return the second heading on a drawn screen, "" if there is none."""
        return escape_control(self.subtitle or "")

    def format_for_pipe(self, row: Row) -> str:
        """Return the text for a pipe: as on a screen, but file names keep their bytes, and times are absolute."""
        if self.text is None or self.is_rounded:
            return escape_control(format_exact(self.value(row)))
        return escape_control(self.text(row))

    def format_for_screen(self, row: Row) -> str:
        """Return the text for a terminal."""
        text = format_exact(self.value(row)) if self.text is None else self.text(row)
        return escape_for_screen(text)


def format_exact(value: object) -> str:
    """Return a value with every character: text unchanged, None as nothing, nested values as JSON."""
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


def make_item_columns(columns: Iterable[Column[JsonObject] | str]) -> list[Column[JsonObject]]:
    """Return columns of JSON objects. A name stands for the column of the field of that name."""
    return [Column(column, methodcaller("get", column)) if isinstance(column, str) else column for column in columns]


def choose_default_columns(columns: Sequence[Column[Row]], terminal: Terminal) -> list[Column[Row]]:
    """Return the columns that are shown if nobody chose any: in a pipe those of a screen, without ages."""
    return [column for column in columns if column.on_screen and (terminal.is_drawn or column.in_pipe)]


def show_exact_values(columns: Sequence[Column[Row]], terminal: Terminal) -> Sequence[Column[Row]]:
    """Return columns that the user chose: in a pipe with their names and exact values, for programs."""
    if terminal.is_drawn:
        return columns
    return [replace(column, title=None, text=None) for column in columns]


def choose_columns(columns: Sequence[Column[Row]], stated_names: str | None) -> list[Column[Row]]:
    """Return the columns of a comma-separated list, in its order.

    Args:
        columns: All columns of the result.
        stated_names: Names or headings, in upper or lower case; None for all columns.

    Raises:
        UsageError: If there is no such column, with the nearest name.
    """
    if stated_names is None:
        return list(columns)
    # Names win over headings, because CSV and documents use them.
    by_spelling = {column.heading().lower(): column for column in columns}
    by_spelling |= {column.name.lower(): column for column in columns}

    known_names = [column.name for column in columns]
    chosen: list[Column[Row]] = []
    for name in parse_column_names(stated_names, known_names):
        if name.lower() not in by_spelling:
            raise unknown_column_error(name, known_names)
        chosen.append(by_spelling[name.lower()])
    return chosen


def spellings_of_column(column: Column[Any]) -> tuple[str, str]:
    """Return what a user may write for a column, in lower case: its name and its heading."""
    return column.name.lower(), column.heading().lower()


def choose_names(stated_names: str, known_names: Sequence[str]) -> list[str]:
    """Return the known names of a comma-separated list, in its order, whatever their case. Raises UsageError."""
    by_spelling = {name.lower(): name for name in known_names}
    chosen: list[str] = []
    for name in parse_column_names(stated_names, known_names):
        if name.lower() not in by_spelling:
            raise unknown_column_error(name, known_names)
        chosen.append(by_spelling[name.lower()])
    return chosen


def parse_column_names(stated_names: str, known_names: Sequence[str]) -> list[str]:
    """Return the names in a value of `--columns`. Raises UsageError for an empty list or an empty name."""
    return parse_names(stated_names, "--columns", code="usage.column", facts={"columns": ", ".join(known_names)})


def unknown_column_error(name: str, known_names: Sequence[str]) -> UsageError:
    """Return the error for a column that does not exist, with the nearest one that does."""
    error = UsageError(f"there is no column {name!r}", code="usage.column", facts={"columns": ", ".join(known_names)})
    return error.suggest(name, nearest_name(name, known_names, ignores_case=True), is_quoted=True)


def describe_hidden_columns(columns: Sequence[Column[Row]], rows: Sequence[Row], shown: Container[str]) -> str:
    """Return the remark that names the columns for which there is no room, "" if all are shown.

    Columns without a value, bars, minor columns, and columns that only a screen has, are not missed.

    Args:
        columns: All columns of the result.
        rows: Its rows.
        shown: The names of the columns that are shown.
    """
    hidden = [
        column
        for column in columns
        if column.name not in shown and column.draw_bar is None and not column.is_minor and column.in_pipe
    ]
    headings = [column.heading() for column in hidden if any(column.format_for_screen(row) for row in rows)]
    return f"no room for {', '.join(headings)}" if headings else ""
