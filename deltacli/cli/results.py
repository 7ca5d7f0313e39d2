"""Results of commands: documents, lines, rows and sections, each made when a format asks; where they go; the formats.

A format writes any result to a stream. It handles streams, not tables; a result has a document, lines, rows and
sections, and does not handle streams. To add a format, write a module in `deltacli.cli.formats` with a function
write_NAME(sink, result, terminal) and add a row to `FORMATS`; options, completions and manual pages are derived from
it. `table`, `json`, `ndjson` and `parquet` write a result as it is; their functions are here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, NamedTuple, Protocol, TypeVar, cast

from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import table_around
from deltacli.cli.render.columns import (
    DRAWN_ROWS,
    GAP,
    Column,
    Labelled,
    Row,
    Section,
    Sheet,
    Surface,
    fit,
    item_columns,
    left_out,
    pad,
    without_repetition,
)
from deltacli.cli.terminal.shell import again_with
from deltacli.cli.terminal.term import Cleaning, Style, Terminal, cells, encoded, folded_command, shorten, visible
from deltacli.core.documents import dumps, envelope
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.texts import cut_middle
from deltacli.core.typing import JsonObject

if TYPE_CHECKING:
    import pyarrow

    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.cli.terminal.pager import Screen

# -- the destination of a result ---------------------------------------------------------------------------------------

_OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/proc/")


def keep_heading(sink: BinaryIO, lines: int = 1) -> None:
    """Keep the heading of a table in view in a pager that supports it. Called before the heading is written."""
    if (keep := getattr(sink, "keep_heading", None)) is not None:
        keep(lines)


def errors_follow(sink: BinaryIO) -> bool:
    """Return whether stderr goes to where a result is written: the same terminal, pipe or file."""
    is_stdout = sink is getattr(sys.stdout, "buffer", None) or hasattr(sink, "keep_heading")
    try:
        return is_stdout and os.path.sameopenfile(1, 2)
    except OSError:
        return False


@contextlib.contextmanager
def open_sink(output: str | None, screen: Screen | None = None) -> Iterator[BinaryIO]:
    """Yield the stream for the result; `screen` is stdout where that is a terminal.

    A file is written under a temporary name, synced and renamed; on a fault it is removed. Links are followed.
    """
    if screen is not None:
        with screen:
            yield cast(BinaryIO, screen)  # results use only `write` of a stream's methods
        return
    if output is None or output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from deltacli.storage.output_file import replacement, unwritable

    try:
        if _is_written_in_place(output):
            with open(output, "wb") as sink:
                yield sink
            return
    except OSError as fault:
        raise unwritable(output, fault) from fault
    invocation.writes(output)
    with replacement(output) as sink:
        yield sink


def _is_written_in_place(output: str) -> bool:
    """Return True for a pipe, a device, or another name of an open file, which must not be replaced."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(output).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return True
        return os.path.abspath(output).startswith(_OPEN_FILES)
    return False


def require_target(output: str, option: str) -> None:
    """Raise UsageError for a file inside a table, where any name may be that of a data file."""
    if not output:
        raise UsageError(f"{option} is empty")
    if output == "-":
        return
    directory = os.path.dirname(os.path.realpath(output))
    if "_delta_log" in directory.split(os.sep):
        raise UsageError(f"{option} {output} is inside the log of a table, which the output would damage")
    if (table := table_around(output)) is None:
        return
    raise UsageError(
        f"{option} {output} is inside a table, where the output would be mixed with or replace data files",
        facts={"table": table},
        hint=f"pass a file outside the table to {option}",
    )


def has_stdout(output: str | None, *files: str | None) -> bool:
    """Return True if the result is written to stdout or to a file of its own: not if one of the other files of a
    command is stdout, with which it would be mixed.
    """
    return output not in (None, "-") or "-" not in files


def directory_of(output: str | None) -> str | None:
    """Return the directory of Parquet files that `--output` names (existing, `…/`, or a URI); None for a file."""
    if not output or output == "-":
        return None
    is_uri = "://" in output or output[:5].lower() == "file:"
    return output if is_uri or output.endswith("/") or os.path.isdir(output) else None


def require_empty_target(directory: str) -> None:
    """Raise UsageError for an output directory inside a table, StorageFailed where its parent does not exist."""
    if "://" in directory or directory[:5].lower() == "file:":
        return  # the operation checks it
    require_target(directory.rstrip("/") or "/", "--output")
    require_directory(directory.rstrip("/") or "/")


def require_directory(output: str) -> None:
    if output != "-" and not os.path.isdir(os.path.dirname(os.path.realpath(output))):
        from deltacli.storage.output_file import unwritable

        raise unwritable(output, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


# -- results of commands -----------------------------------------------------------------------------------------------

Listed = TypeVar("Listed")
"""An item of a list."""


class EncodedItems:
    """A block of items as JSON texts, each followed by `,` and LF."""

    def __init__(self, count: int, data: memoryview) -> None:
        self.count, self.data = count, data


def block_of(texts: pyarrow.StringArray) -> EncodedItems:
    """Return a column of texts without nulls as one block, end to end."""
    from deltacli.delta.encoding.value_text import join_texts

    return EncodedItems(len(texts), join_texts(texts))


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
    from deltacli.arrow.batches import split_batches

    return BatchGrid(
        names, lambda form: (form.block(piece.columns, piece.num_rows, null) for piece in split_batches(batches))
    )


class ReportedResult(Protocol):
    """A result that formats of findings can write."""

    @property
    def report(self) -> ValidationReport:
        """What was found."""


class Framed(Protocol):
    """A result that can be written as Parquet."""

    def frames(self) -> tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]:
        """Return the rows in Arrow columns and their schema."""


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
    drawn: Callable[[Surface], None] | None = None
    """Draws the result; None: as its sections."""
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
        return RowGrid(item_columns(self.columns), self.rows)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        return self.said()

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.drawn is None:
            super().draw(sink, terminal)
        else:
            self.drawn(surface_of(sink, terminal))


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
    drawn: Callable[[Surface], None] | None = None
    """Draws the result; None: as its sections, or as a table of its rows."""

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
        if self.drawn is not None:
            self.drawn(surface_of(sink, terminal))
        elif sections := self.sections(terminal):
            write_sections(sink, terminal, sections)
        elif self.lists:
            self.draw_rows(sink, terminal)

    def draw_rows(self, sink: BinaryIO, terminal: Terminal) -> None:
        shown = [column for column in self.columns if column.on_screen]
        write_whole_table(sink, terminal, shown, self.rows)


def field_grid(fields: Iterable[tuple[str, object]]) -> Grid:
    return RowGrid(item_columns(("field", "value")), ({"field": name, "value": value} for name, value in fields))


def surface_of(sink: BinaryIO, terminal: Terminal) -> Surface:
    """Return what a result is drawn on."""
    if terminal.is_drawn:
        from deltacli.cli.render.terminal.console import Canvas

        return Canvas(sink, terminal)
    return Sheet(sink, shows_errors=errors_follow(sink))


def line_of(item: JsonObject, kind: str) -> EncodedItems:
    return EncodedItems(1, memoryview(dumps({"type": kind, **item}) + b"\n"))


def emit_lines(emit: Emit, items: Iterable[JsonObject], kind: str) -> None:
    for item in items:
        emit(line_of(item, kind))


# -- the text form of a result, its sections and tables ----------------------------------------------------------------


def write_whole_table(
    sink: BinaryIO, terminal: Terminal, columns: Sequence[Column[Row]], rows: Sequence[Row], **options: Any
) -> None:
    """Write a table as `write_table` does, and below it the columns without room and the command that shows them."""
    shown = write_columns(sink, terminal, columns, rows, **options)
    if terminal.width is not None and (remark := left_out(columns, rows, shown)):
        command = again_with(invocation.arguments, "--format", "csv")
        lines = [f"{remark}; to show them: {command}"]
        if cells(lines[0]) > terminal.width:
            lines = [shorten(f"{remark}; to show them:", terminal.width), *folded_command(command, terminal.width)]
        sink.write(encoded("".join(terminal.paint(line, Style.QUIET) + "\n" for line in lines)))


def write_sections(sink: BinaryIO, terminal: Terminal, sections: Sequence[Section]) -> None:
    """Write labelled lines: folded on a terminal, one line in a pipe, what the error says left out."""
    if errors_follow(sink):
        sections = without_repetition(sections)
    sections = [
        section._replace(lines=[cut_middle(invocation.with_catalog_names(line)) for line in section.lines])
        for section in sections
    ]
    if terminal.is_drawn:
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.tables import draw_sections

        draw_sections(Canvas(sink, terminal), sections)
        return
    lines: list[Labelled] = [
        ("" if number else one.label, line) for one in sections for number, line in enumerate(one.lines)
    ]
    surface_of(sink, terminal).draw_parts(lines)


def write_columns(
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


def write_with_total(
    sink: BinaryIO, terminal: Terminal, columns: Sequence[Column[Row]], rows: Sequence[Row], total: Row
) -> None:
    """Write one row per table, and below several of them the row with their totals."""
    write_columns(sink, terminal, columns, [*rows, total] if len(rows) > 1 else rows)


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
    """Choose the columns, and return them with their texts and widths: cut for a screen, whole for a pipe."""
    texts = [[column.shown(row) if terminal.is_drawn else column.whole(row) for column in columns] for row in rows]
    natural = [
        max([cells(column.heading()), cells(column.below_heading()), *(cells(row[index]) for row in texts)])
        for index, column in enumerate(columns)
    ]
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


# -- the formats of stdout: one row and one function each --------------------------------------------------------------


class Content(Enum):
    """The content that a format needs a result to have."""

    ANY = "any result"
    FINDINGS = "findings of validate"
    ROWS = "rows of a table"


class Format(NamedTuple):
    """A row of the registry; `module` has its function. `endings`: names of files that choose this format.

    `is_streamed`: items are written as they come. `errors_are_json`: notes and errors on stderr are objects, too.
    `is_paged`: long results go through the pager.
    """

    name: str
    module: str = __name__
    content: Content = Content.ANY
    errors_are_json: bool = False
    is_streamed: bool = False
    is_paged: bool = False
    cleaning: Cleaning = Cleaning.JSON
    endings: tuple[str, ...] = ()
    template: str | None = None
    """The text of `--template`."""

    @property
    def is_for_eyes(self) -> bool:
        return self is TABLE

    def write(self, sink: BinaryIO, result: Result, terminal: Terminal) -> None:
        # Takes a stream, a result and a terminal, and a template where the format has one.
        write: Callable[..., None] = getattr(import_module(self.module), f"write_{self.name}")
        write(sink, result, terminal, *([] if self.template is None else [self.template]))


TABLE = Format("table", is_paged=True, cleaning=Cleaning.NONE)
JSON = Format("json", errors_are_json=True, is_paged=True, endings=(".json",))
NDJSON = Format("ndjson", errors_are_json=True, is_streamed=True, endings=(".ndjson", ".jsonl"))
CSV = Format("csv", "deltacli.cli.formats.csv", cleaning=Cleaning.TEXT, endings=(".csv",))
MARKDOWN = Format(
    "markdown", "deltacli.cli.formats.csv", is_paged=True, cleaning=Cleaning.NONE, endings=(".md", ".markdown")
)
TEMPLATE = Format("template", "deltacli.cli.formats.template", is_streamed=True, cleaning=Cleaning.NONE)
"""What `--template` chooses; it has no name on the command line."""
PARQUET = Format("parquet", content=Content.ROWS, endings=(".parquet",))

FORMATS: Mapping[str, Format] = {
    row.name: row
    for row in (
        TABLE,
        JSON,
        NDJSON,
        CSV,
        MARKDOWN,
        Format("sarif", "deltacli.cli.formats.findings", Content.FINDINGS, endings=(".sarif",)),
        Format("junit", "deltacli.cli.formats.findings", Content.FINDINGS),
        Format("github", "deltacli.cli.formats.findings", Content.FINDINGS),
        PARQUET,
    )
}
"""Name on the command line -> format, in the order in which help lists them."""


FOREIGN_ENDINGS = (
    *(".arrow", ".avro", ".feather", ".gz", ".html", ".orc", ".tsv"),
    *(".xls", ".xlsx", ".xml", ".yaml", ".yml", ".zip", ".zst"),
)
"""Endings of file names that ask for what no format here is."""


def format_named(output: str) -> Format | None:
    """Return the format that the name of a file chooses; None for a name that leaves it open."""
    return next((row for row in FORMATS.values() if row.endings and output.lower().endswith(row.endings)), None)


def _enum(name: str, values: Iterable[str]) -> type[StrEnum]:
    members = [(value.upper(), value) for value in values]
    return StrEnum(name, members)  # type: ignore[return-value]  # members that mypy cannot infer


def choices(content: Content = Content.ANY) -> type[StrEnum]:
    """Return the names of the formats that can write this content, as an enum for a command's options."""
    names = [row.name for row in FORMATS.values() if row.content in (Content.ANY, content)]
    return _enum(f"{content.name.title()}Format", names)


AnyFormat = choices()
TableFormat = _enum("TableFormat", [TABLE.name])
"""Of results that are one text, script or path."""
EveryFormat = _enum("EveryFormat", FORMATS)
FindingFormat = choices(Content.FINDINGS)
RowFormat = choices(Content.ROWS)


def write_table(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write text for people, drawn on a terminal, not truncated in a pipe."""
    result.draw(sink, terminal)


def write_json(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write one document and a final LF, indented on a terminal; streamed items are written as they come. After a fault
    among them, the document ends with `"complete":false`.
    """
    document = result.document()
    if document.items is None:
        sink.write(dumps(document.fields, indent=terminal.is_terminal) + b"\n")
        return
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    sink.write(dumps(fields)[:-1] + b',"items":[')
    separator = b"\n"
    try:
        for block in document.items:
            sink.write(separator)
            sink.write(block.data[:-2])
            separator = b",\n"
    except DeltacliError:
        sink.write(b'\n],"complete":false}\n')
        raise
    sink.write(b"\n]," + dumps(document.after())[1:] + b"\n")


def write_ndjson(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write an item per line with its `type` as they come, then the end line, without which output is incomplete."""
    count = 0

    def emit(block: EncodedItems) -> None:
        nonlocal count
        sink.write(block.data)
        if result.is_live:
            sink.flush()
        count += block.count

    complete = result.lines(emit)
    sink.write(dumps({"type": "end", "complete": complete, "count": count}) + b"\n")


def write_parquet(sink: BinaryIO, result: Framed, _terminal: Terminal) -> None:
    """Write rows of Arrow columns into a file that is complete or absent, with row groups of bounded size."""
    from deltacli.work.parquet_writing import write_parquet as write_rows

    write_rows(sink, *result.frames())
