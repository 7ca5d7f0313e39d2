"""Declare the columns of a result.

A `Column` describes one column for all formats: its exact value for CSV, its text and style for a terminal, and its
name for `--columns`. Results on a terminal and in a pipe differ: a terminal shows `3 days ago` and truncates long
paths, a pipe contains exact times and complete paths.
"""

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
        name: The name in CSV headers, in JSON documents and for `--columns`.
        value: A function that returns the exact value of a row. It is used for CSV and JSON, and in a pipe if the user
            chose the columns.
        text: A function that returns the text of a row for people; None to format the exact value.
        style: A function that returns the style of the text; None for plain text.
        align_right: Whether the texts are numbers. They are aligned to the right and never truncated.
        priority: The priority on narrow screens. Columns with high numbers are omitted first.
        min_width: The minimum width in cells. If less is available, the column is omitted.
        title: The heading for people; None to use the name.
        subtitle: A second heading on a terminal, such as the type of the values.
        on_screen: Whether the column is shown to people by default, without `--columns`.
        in_pipe: Whether the column is written to a pipe by default.
        is_minor: Whether to omit the column if otherwise texts of other columns are truncated.
        keep_end: Whether to truncate texts at the beginning. File names differ at the end.
        keep_both: Whether to truncate texts in the middle. Paths differ at both ends.
        wraps: Whether long texts are wrapped on a terminal instead of being truncated.
        is_rounded: Whether the text is less exact than the value: an age, or a time in seconds. A pipe contains the
            exact value.
        draw_bar: A function that draws a bar of `min_width` cells instead of the text, on terminals only. The column is
            omitted if the texts of all rows are empty.
        format_array: A function that formats all values of an Arrow column for a pipe; None to format them one by one.
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
        """Return the second heading; "" if there is none."""
        return escape_control(self.subtitle or "")

    def format_for_pipe(self, row: Row) -> str:
        """Return the text of a row for a pipe.

        Unlike on a terminal, times are exact, and the bytes of file names that are not valid UTF-8 are kept.
        """
        if self.text is None or self.is_rounded:
            return escape_control(format_exact(self.value(row)))
        return escape_control(self.text(row))

    def format_for_screen(self, row: Row) -> str:
        """Return the text of a row for a terminal."""
        text = format_exact(self.value(row)) if self.text is None else self.text(row)
        return escape_for_screen(text)


def format_exact(value: object) -> str:
    """Format a value without loss: text is unchanged, None is "", and nested values are JSON."""
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
    """Return columns for rows that are JSON objects. A name is converted to the column of the field with this name."""
    return [Column(column, methodcaller("get", column)) if isinstance(column, str) else column for column in columns]


def choose_default_columns(columns: Sequence[Column[Row]], terminal: Terminal) -> list[Column[Row]]:
    """Return the columns that are shown without `--columns`."""
    return [column for column in columns if column.on_screen and (terminal.is_drawn or column.in_pipe)]


def show_exact_values(columns: Sequence[Column[Row]], terminal: Terminal) -> Sequence[Column[Row]]:
    """Adapt columns that the user chose by `--columns`.

    In a pipe, they get their names as headings, and exact values instead of texts: a program probably reads them.
    """
    if terminal.is_drawn:
        return columns
    return [replace(column, title=None, text=None) for column in columns]


def choose_columns(columns: Sequence[Column[Row]], stated_names: str | None) -> list[Column[Row]]:
    """Return the columns that a value of `--columns` selects, in its order.

    Args:
        columns: All columns of the result.
        stated_names: A comma-separated list of names or headings, in upper or lower case; None for all columns.

    Raises:
        UsageError: If a column does not exist. The error suggests the most similar name.
    """
    if stated_names is None:
        return list(columns)
    # If the name of a column equals the heading of another one, the name takes precedence.
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
    """Return the words that select a column in `--columns`, in lower case: its name and its heading."""
    return column.name.lower(), column.heading().lower()


def choose_names(stated_names: str, known_names: Sequence[str]) -> list[str]:
    """Return the names that a value of `--columns` selects, in its order and in the case of `known_names`.

    Raises:
        UsageError: If a name does not exist.
    """
    by_spelling = {name.lower(): name for name in known_names}
    chosen: list[str] = []
    for name in parse_column_names(stated_names, known_names):
        if name.lower() not in by_spelling:
            raise unknown_column_error(name, known_names)
        chosen.append(by_spelling[name.lower()])
    return chosen


def parse_column_names(stated_names: str, known_names: Sequence[str]) -> list[str]:
    """Split a value of `--columns`.

    Raises:
        UsageError: If the list or a name in it is empty.
    """
    return parse_names(stated_names, "--columns", code="usage.column", facts={"columns": ", ".join(known_names)})


def unknown_column_error(name: str, known_names: Sequence[str]) -> UsageError:
    """Return the error for a column that does not exist. It suggests the most similar name."""
    error = UsageError(f"there is no column {name!r}", code="usage.column", facts={"columns": ", ".join(known_names)})
    return error.suggest(name, nearest_name(name, known_names, ignores_case=True), is_quoted=True)


def describe_hidden_columns(columns: Sequence[Column[Row]], rows: Sequence[Row], shown: Container[str]) -> str:
    """Describe the columns that did not fit on the screen: `no room for operation, user`.

    Minor columns, bars, columns without values, and columns that exist only on a terminal are not mentioned.

    Args:
        columns: All columns of the result.
        rows: The rows.
        shown: The names of the columns that are shown.

    Returns:
        The description; "" if no column is hidden.
    """
    hidden = [
        column
        for column in columns
        if column.name not in shown and column.draw_bar is None and not column.is_minor and column.in_pipe
    ]
    headings = [column.heading() for column in hidden if any(column.format_for_screen(row) for row in rows)]
    return f"no room for {', '.join(headings)}" if headings else ""
