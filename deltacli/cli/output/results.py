"""Results of commands: documents, lines, rows and sections, each made if a format asks for it.

A result does not handle streams, except to draw itself as text. A format writes any result to a stream and does not
handle tables. Most results are a `SingleResult` or a `ListResult`; others are subclasses of `Result`.
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
        fields: The fields, with `items` among them unless those are streamed.
        items: Streamed items, which follow the fields under the name `items`, each text followed by `,` and LF.
        make_last_fields: Returns the fields that end the document once all items are written: `complete`, totals.
    """

    fields: JsonObject
    items: Iterable[EncodedItems] | None = None
    make_last_fields: Callable[[], JsonObject] = _state_complete


class ReportedResult(Protocol):
    """A result that formats of findings can write."""

    @property
    def report(self) -> ValidationReport:
        """Return what was found."""


class ArrowResult(Protocol):
    """A result that can be written as Parquet."""

    def read_batches(self) -> tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]:
        """Return the schema of the rows and the rows in Arrow columns."""


class Result:
    """The result of a command. Commands override the methods for the forms they have; each method may be called once.

    Attributes:
        has_requested_rows: Whether the rows are the requested content, which every format for people writes after the
            sections.
        is_live: Whether each line is flushed at once, because a reader may wait for it.
    """

    has_requested_rows: bool = False
    is_live: bool = False

    def document(self) -> Document:
        """Return the document of `--format json`."""
        raise NotImplementedError

    def lines(self, write_items: WriteItems) -> bool:
        """Write the lines of `--format ndjson` except the last one, and return whether they are complete."""
        raise NotImplementedError

    def grid(self) -> Grid:
        """Return the rows of `--format csv`."""
        raise NotImplementedError

    def rows_written(self) -> int | None:
        """Return how many rows of a table were written; None if the result is something else."""
        return None

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the description of the result in labelled lines."""
        return []

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the text form for a terminal or a pipe."""
        write_sections(sink, terminal, self.sections(terminal))


@dataclass(eq=False, repr=False)
class SingleResult(Result):
    """A result of one item: what a command did to a table, or found out about it.

    Attributes:
        kind: The kind of the document, without `deltacli.`.
        table: The URI of the table.
        content: The fields of the document and of the line.
        make_sections: Returns the description for people.
        rows: The rows of CSV.
        columns: Their columns. A name alone is the column of the field of this name, of rows that are JSON objects.
        draw_on: Draws the result; None if it is drawn as its sections.
        line_type: The type of its line; None if that is the kind.
        table_format: `delta` or `paimon`.
    """

    kind: str
    table: str
    content: JsonObject
    make_sections: Callable[[], Sequence[Section]]
    rows: Iterable[Any]  # Any: rows of any kind, which the columns know
    columns: Sequence[Column[Any] | str]
    draw_on: Callable[[Surface], None] | None = None
    line_type: str | None = None
    table_format: str = "delta"

    def document(self) -> Document:
        """Return the content with what every document has."""
        fields = envelope(f"deltacli.{self.kind}", self.table, complete=True, table_format=self.table_format)
        return Document(fields | dict(self.content))

    def lines(self, write_items: WriteItems) -> bool:
        """Write the content as one line."""
        write_items(encode_line({"table": self.table, **self.content}, self.line_type or self.kind))
        return True

    def grid(self) -> Grid:
        """Return the rows below the names of their columns."""
        return RowGrid(make_item_columns(self.columns), self.rows)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the description for people."""
        return self.make_sections()

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Draw the result, or write its sections."""
        if self.draw_on is None:
            super().draw(sink, terminal)
        else:
            self.draw_on(make_surface(sink, terminal))


def _make_no_sections(_terminal: Terminal) -> Sequence[Section]:
    return []


@dataclass(eq=False, repr=False)
class ListResult(Result, Generic[Row]):
    """A result that is a list: `items` in documents and lines, `rows` in columns.

    Attributes:
        fields: The fields of the document before the items.
        line_type: The type of the line of an item.
        items: The items of documents and lines.
        columns: The columns of the rows.
        rows: The rows of tables and CSV, one per item.
        items_name: The name of the items in the document.
        last_line: A line after the items.
        make_sections: Returns the description for people.
        has_requested_rows: See `Result`.
        draw_on: Draws the result; None if it is drawn as its sections, or as a table of its rows without any.
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
        """Return the fields, then the items."""
        return Document({**self.fields, self.items_name: self.items})

    def lines(self, write_items: WriteItems) -> bool:
        """Write a line per item, and the last line if there is one."""
        write_lines(write_items, self.items, self.line_type)
        if self.last_line is not None:
            write_items(EncodedItems(1, memoryview(dumps(self.last_line) + b"\n")))
        return True

    def grid(self) -> Grid:
        """Return the rows in their columns."""
        return RowGrid(self.columns, self.rows)

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        """Return the description for people."""
        return self.make_sections(terminal)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Draw the result, or write its sections, or a table of its rows."""
        if self.draw_on is not None:
            self.draw_on(make_surface(sink, terminal))
            return
        sections = self.sections(terminal)
        if sections:
            write_sections(sink, terminal, sections)
        elif self.has_requested_rows:
            self.draw_rows(sink, terminal)

    def draw_rows(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the rows as a table, and what it has no room for."""
        columns = [column for column in self.columns if column.on_screen]
        write_complete_table(sink, terminal, columns, self.rows)
