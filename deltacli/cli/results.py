"""Results of commands: a document, lines, rows with columns, and sections, each made when a format asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, Protocol, TypeVar

from deltacli.core.documents import dumps, envelope
from deltacli.core.typing import JsonObject

if TYPE_CHECKING:
    import pyarrow

    from deltacli.cli.render.columns import Column
    from deltacli.cli.render.sections import Section
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.cli.terminal.term import Terminal

Listed = TypeVar("Listed")
"""An item of a list."""


class EncodedItems:
    """A block of items as JSON texts, each followed by `,` and LF."""

    def __init__(self, count: int, data: memoryview) -> None:
        self.count, self.data = count, data


def block_of(texts: pyarrow.StringArray) -> EncodedItems:
    """Return a column of texts without nulls as one block, end to end."""
    from deltacli.delta.encoding.arrow_json import text_of

    return EncodedItems(len(texts), text_of(texts))


Emit = Callable[[EncodedItems], None]
"""Takes lines of NDJSON, a block at a time."""


class Document(NamedTuple):
    """A JSON document. Streamed `items` follow the fields as `items`, each text followed by `,` and LF; the fields that
    `after` returns once all are written end the document (`complete`, totals).
    """

    fields: JsonObject
    items: Iterable[EncodedItems] | None = None
    after: Callable[[], JsonObject] = lambda: {"complete": True}


class RowForm(Protocol):
    """How a format writes rows. `is_for_eyes`: for people, with the columns and texts of a screen."""

    is_for_eyes: bool

    def header(self, names: Sequence[str], right: Sequence[bool] = ()) -> bytes:
        """Return the lines before the rows; `right`: which columns are numbers."""

    def row(self, values: Sequence[object]) -> bytes:
        """Return one row of Python values."""

    def block(self, columns: Sequence[pyarrow.Array], rows: int, null: str = "") -> EncodedItems:
        """Return rows of Arrow columns, end to end; formats for people write null values as `null`."""


class Grid(Protocol):
    """Rows and columns."""

    def written(self, form: RowForm) -> Iterator[bytes | memoryview]:
        """Yield the header and the rows in a form."""


class RowGrid(NamedTuple, Generic[Listed]):
    """Rows that are Python objects. `is_chosen`: the user named the columns, so all of them are written."""

    columns: Sequence[Column[Listed]]
    rows: Iterable[Listed]
    is_chosen: bool = False

    def written(self, form: RowForm) -> Iterator[bytes | memoryview]:
        if form.is_for_eyes:
            yield from self._for_eyes(form)
            return
        chosen = [column for column in self.columns if column.picture is None and (self.is_chosen or column.in_pipe)]
        yield form.header([column.name for column in chosen])
        yield from (form.row([column.value(row) for column in chosen]) for row in self.rows)

    def _for_eyes(self, form: RowForm) -> Iterator[bytes]:
        """Yield the texts of a screen; columns without values are left out."""
        columns = [column for column in self.columns if self._is_for_people(column)]
        texts = [[column.shown(row) for column in columns] for row in self.rows]
        kept = [
            place for place in range(len(columns)) if self.is_chosen or not texts or any(row[place] for row in texts)
        ]
        yield form.header([columns[place].heading() for place in kept], [columns[place].right for place in kept])
        yield from (form.row([row[place] for place in kept]) for row in texts)

    def _is_for_people(self, column: Column[Listed]) -> bool:
        return column.picture is None and (self.is_chosen or (column.on_screen and column.in_pipe))


class BatchGrid(NamedTuple):
    """Any number of rows in Arrow columns; `blocks` writes them in a form, possibly in threads."""

    names: Sequence[str]
    blocks: Callable[[RowForm], Iterable[EncodedItems]]

    def written(self, form: RowForm) -> Iterator[bytes | memoryview]:
        yield form.header(self.names)
        yield from (block.data for block in self.blocks(form))


def grid_of(names: Sequence[str], batches: Iterable[pyarrow.RecordBatch], *, null: str = "") -> BatchGrid:
    """Return batches with columns of these names as a grid; formats for people write null values as `null`."""
    from deltacli.delta.encoding.arrow_json import pieces

    return BatchGrid(names, lambda form: (form.block(piece.columns, piece.num_rows, null) for piece in pieces(batches)))


class ReportedResult(Protocol):
    """A result that formats of findings can write."""

    @property
    def report(self) -> ValidationReport:
        """What was found."""


class Result:
    """The result of a command. Commands override the methods for the forms they have; each method may be called once.

    `lists`: the rows are the requested content; every format for people writes them after the sections. `is_live`:
    each line is flushed at once, because a reader may wait for it.
    """

    lists: bool = False
    is_live: bool = False

    def document(self) -> Document:
        """Return the document of `--format json`."""
        raise NotImplementedError

    def lines(self, emit: Emit) -> bool:
        """Write the lines of `--format ndjson` except the last one, and return whether they are complete."""
        raise NotImplementedError

    def grid(self) -> Grid:
        """Return the rows of `--format csv`."""
        raise NotImplementedError

    def rows_written(self) -> int | None:
        """Return how many rows of a table were written; None where the result is something else."""
        return None

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the description of the result as a whole, in labelled lines."""
        return []

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the text form for a terminal or a pipe."""
        from deltacli.cli.render.text_form import write_sections

        write_sections(sink, terminal, self.sections(terminal))


@dataclass(eq=False, repr=False)
class Outcome(Result):
    """A result of one line: what a command did to a table. CSV has its `rows` below the names `columns`."""

    kind: str
    table: str
    content: JsonObject
    said: Callable[[], Sequence[Section]]
    rows: Iterable[JsonObject]
    columns: Sequence[str]
    drawn: Callable[[Canvas], None] | None = None
    """Draws the result on a terminal; None: as its sections."""
    line: str | None = None
    """The type of its line; None: the kind."""
    table_format: str = "delta"

    def document(self) -> Document:
        fields = envelope(f"deltacli.{self.kind}", self.table, complete=True, table_format=self.table_format)
        return Document(fields | dict(self.content))

    def lines(self, emit: Emit) -> bool:
        emit(line_of({"table": self.table, **self.content}, self.line or self.kind))
        return True

    def grid(self) -> Grid:
        from deltacli.cli.render.columns import item_columns

        return RowGrid(item_columns(self.columns), self.rows)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        return self.said()

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if not draw_if_drawn(sink, terminal, self.drawn):
            super().draw(sink, terminal)


@dataclass(eq=False, repr=False)
class Listing(Result, Generic[Listed]):
    """A result that is a list: `items` in documents and lines, `rows` in columns.

    A document has the `fields`, then the items under the name `items_name`; `last` is a line after them.
    """

    fields: JsonObject
    line: str
    items: Sequence[JsonObject]
    columns: Sequence[Column[Listed]]
    rows: Sequence[Listed]
    items_name: str = "items"
    last: JsonObject | None = None
    said: Callable[[Terminal], Sequence[Section]] = field(default=lambda _: [])
    lists: bool = True
    drawn: Callable[[Canvas], None] | None = None
    """Draws the result on a terminal; None: as its sections, or as a table of its rows."""

    def document(self) -> Document:
        return Document({**self.fields, self.items_name: self.items})

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, self.items, self.line)
        if self.last is not None:
            emit(EncodedItems(1, memoryview(dumps(self.last) + b"\n")))
        return True

    def grid(self) -> Grid:
        return RowGrid(self.columns, self.rows)

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        return self.said(terminal)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if draw_if_drawn(sink, terminal, self.drawn):
            return
        from deltacli.cli.render.text_form import write_sections

        if sections := self.sections(terminal):
            write_sections(sink, terminal, sections)
        elif self.lists:
            self.draw_rows(sink, terminal)

    def draw_rows(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the rows as a table."""
        from deltacli.cli.render.text_form import write_whole_table

        shown = [column for column in self.columns if column.on_screen or not terminal.is_drawn]
        write_whole_table(sink, terminal, shown, self.rows)


def field_grid(fields: Iterable[tuple[str, object]]) -> Grid:
    """Return two columns, `field` and `value`."""
    from deltacli.cli.render.columns import item_columns

    return RowGrid(item_columns(("field", "value")), ({"field": name, "value": value} for name, value in fields))


def draw_if_drawn(sink: BinaryIO, terminal: Terminal, draw: Callable[[Canvas], None] | None) -> bool:
    """Draw a result on a canvas where results are drawn, and return whether it was."""
    if draw is None or not terminal.is_drawn:
        return False
    from deltacli.cli.render.terminal.console import Canvas

    draw(Canvas(sink, terminal))
    return True


def line_of(item: JsonObject, kind: str) -> EncodedItems:
    """Return an item as a line of NDJSON with its `type`."""
    return EncodedItems(1, memoryview(dumps({"type": kind, **item}) + b"\n"))


def emit_lines(emit: Emit, items: Iterable[JsonObject], kind: str) -> None:
    """Write items as lines of NDJSON."""
    for item in items:
        emit(line_of(item, kind))
