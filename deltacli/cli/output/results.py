"""Define the results of commands.

A `Result` can be converted to the content of each format: a JSON document, lines of NDJSON, rows, or labelled sections
of text. Each conversion happens only if the chosen format needs it. Most commands return a `SingleResult` (`snapshot`)
or a `ListResult` (`history`). Others define a subclass of `Result`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, NamedTuple, Protocol

from deltacli.cli.output.columns import Column, Row, make_item_columns
from deltacli.cli.output.grids import EncodedItems, Grid, RowGrid, WriteItems, encode_line, write_lines
from deltacli.cli.output.sections import Section
from deltacli.cli.output.surface import Surface
from deltacli.cli.output.text_tables import make_surface, write_complete_table, write_sections
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.documents import dumps, envelope
from deltacli.core.typing import JsonObject

if TYPE_CHECKING:
    import pyarrow

    from deltacli.cli.render.validate.report import ValidationReport


def _state_complete() -> JsonObject:
    return {"complete": True}


class Document(NamedTuple):
    """A JSON document.

    Attributes:
        fields: The fields. They include `items` unless the items are streamed.
        items: Blocks of items that are encoded while they are written. They follow the fields under the name `items`.
            Each item ends with `,` and LF. None for documents without streamed items.
        make_last_fields: A function that returns the fields after the streamed items, such as `complete` and totals.
            It is called after all items have been written.
    """

    fields: JsonObject
    items: Iterable[EncodedItems] | None = None
    make_last_fields: Callable[[], JsonObject] = _state_complete


class ReportedResult(Protocol):
    """A result that the formats SARIF, JUnit and GitHub can write."""

    @property
    def report(self) -> ValidationReport:
        """Return the findings of `validate`."""


class ArrowResult(Protocol):
    """A result that can be written as Parquet."""

    def read_batches(self) -> tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]:
        """Return the schema of the rows, and the rows as record batches."""


class Result:
    """The result of a command.

    Subclasses override the methods for the formats that they support. The methods may consume iterators, so each of
    them is called at most once.

    Attributes:
        has_requested_rows: Whether the user requested the rows, as opposed to additional details. Then Markdown
            contains the rows in addition to the sections.
        is_live: Whether to flush each line of NDJSON, because results arrive slowly and a program may wait for them.
    """

    has_requested_rows: bool = False
    is_live: bool = False

    def document(self) -> Document:
        """Return the document of `--format json`."""
        raise NotImplementedError

    def lines(self, write_items: WriteItems) -> bool:
        """Write the lines of `--format ndjson`, except the `end` line.

        Returns:
            True if the lines are complete, and False if items are missing because of an error.
        """
        raise NotImplementedError

    def grid(self) -> Grid:
        """Return the rows of `--format csv`."""
        raise NotImplementedError

    def rows_written(self) -> int | None:
        """Return the number of table rows that were written; None if the result does not consist of table rows."""
        return None

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the result as labelled lines of text."""
        return []

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the result as text to a terminal or a pipe."""
        write_sections(sink, terminal, self.sections(terminal))


@dataclass(eq=False, repr=False)
class SingleResult(Result):
    """A result that consists of one item, such as the changes of `vacuum`, or the snapshot of a table.

    Attributes:
        kind: The kind of the document, without the prefix `deltacli.`.
        table: The URI of the table.
        content: The fields of the JSON document and of the NDJSON line.
        make_sections: A function that returns the result as sections.
        rows: The rows for CSV.
        columns: The columns of the rows. If rows are JSON objects, the name of a field can be used as its column.
        draw_on: A function that draws the result; None to draw the sections.
        line_type: The type of the NDJSON line; None if it equals `kind`.
        table_format: `delta` or `paimon`.
    """

    kind: str
    table: str
    content: JsonObject
    make_sections: Callable[[], Sequence[Section]]
    rows: Iterable[Any]  # Any: only the columns depend on the type of the rows
    columns: Sequence[Column[Any] | str]
    draw_on: Callable[[Surface], None] | None = None
    line_type: str | None = None
    table_format: str = "delta"

    def document(self) -> Document:
        """Return the content, preceded by the fields that all documents have: `kind`, `table`, `complete`."""
        fields = envelope(f"deltacli.{self.kind}", self.table, complete=True, table_format=self.table_format)
        return Document(fields | dict(self.content))

    def lines(self, write_items: WriteItems) -> bool:
        """Write the content as one line."""
        write_items(encode_line({"table": self.table, **self.content}, self.line_type or self.kind))
        return True

    def grid(self) -> Grid:
        """Return the rows."""
        return RowGrid(make_item_columns(self.columns), self.rows)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the result as labelled lines of text."""
        return self.make_sections()

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the result as text: drawn by `draw_on`, or as sections."""
        if self.draw_on is None:
            super().draw(sink, terminal)
        else:
            self.draw_on(make_surface(sink, terminal))


def _make_no_sections(_terminal: Terminal) -> Sequence[Section]:
    return []


@dataclass(eq=False, repr=False)
class ListResult(Result, Generic[Row]):
    """A result that consists of a list of items.

    For programs, an item is a JSON object (`items`). For people and CSV, it is a row of a table (`rows`).

    Attributes:
        fields: The fields of the document before the items.
        line_type: The type of the NDJSON line for an item.
        items: The items as JSON objects.
        columns: The columns of the rows.
        rows: The items as rows, in the same order.
        items_name: The field of the document that contains the items.
        last_line: An NDJSON line after the items, such as totals; None for no line.
        make_sections: A function that returns the result as sections.
        has_requested_rows: See `Result`.
        draw_on: A function that draws the result; None to draw the sections, or the rows if there are no sections.
    """

    fields: JsonObject
    line_type: str
    items: Sequence[JsonObject]
    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    items_name: str = "items"
    last_line: JsonObject | None = None
    make_sections: Callable[[Terminal], Sequence[Section]] = field(default=_make_no_sections)
    has_requested_rows: bool = True
    draw_on: Callable[[Surface], None] | None = None

    def document(self) -> Document:
        """Return the fields and the items."""
        return Document({**self.fields, self.items_name: self.items})

    def lines(self, write_items: WriteItems) -> bool:
        """Write a line per item, and `last_line`."""
        write_lines(write_items, self.items, self.line_type)
        if self.last_line is not None:
            write_items(EncodedItems(1, memoryview(dumps(self.last_line) + b"\n")))
        return True

    def grid(self) -> Grid:
        """Return the rows."""
        return RowGrid(self.columns, self.rows)

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        """Return the result as labelled lines of text."""
        return self.make_sections(terminal)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the result as text: drawn by `draw_on`, or as sections, or as a table of its rows."""
        if self.draw_on is not None:
            self.draw_on(make_surface(sink, terminal))
            return
        sections = self.sections(terminal)
        if sections:
            write_sections(sink, terminal, sections)
        elif self.has_requested_rows:
            self.draw_rows(sink, terminal)

    def draw_rows(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the rows as a table, followed by a list of the columns that did not fit on the screen."""
        columns = [column for column in self.columns if column.on_screen]
        write_complete_table(sink, terminal, columns, self.rows)
