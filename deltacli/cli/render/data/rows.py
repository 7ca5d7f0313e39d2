"""Rows of a table in every format: streamed, a column at a time, never held; in a pipe in screens of aligned texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.arrow import compute as pc
from deltacli.arrow.batches import pieces
from deltacli.cli.render.columns import GAP, Column, Section, pad
from deltacli.cli.results import (
    Document,
    Emit,
    EncodedItems,
    Grid,
    Outcome,
    Result,
    block_of,
    cuts_values,
    grid_of,
    write_columns,
)
from deltacli.cli.terminal.term import CONTROL, Style, Terminal, cells, encoded, visible
from deltacli.core.documents import envelope
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_count, format_size, plural
from deltacli.delta.encoding.arrow_json import characters

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.schema.to_arrow import UnreadColumn
    from deltacli.table.output import WrittenDirectory

ROWS_PER_SCREEN = 1_000
_MAX_SCREEN_BYTES = 64 << 20
"""A single long value pads its column in every row of the screen."""
NULL = "null"
_NEVER_CUT = 1 << 20
_CHANGE_TYPE = "_change_type"
_COMMIT_VERSION = "_commit_version"
_COMMIT_TIMESTAMP = "_commit_timestamp"
_SHORT = {_CHANGE_TYPE: "change", _COMMIT_VERSION: "version", _COMMIT_TIMESTAMP: "committed"}
"""Titles on a drawn screen, where room is short; columns are chosen by their names."""
_CHANGES = {
    "insert": Style.GOOD,
    "delete": Style.REMOVED,
    "update_preimage": Style.CHANGED,
    "update_postimage": Style.CHANGED,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to write, and what a document says about them."""

    kind: str
    """Of the document: `deltacli.read`."""
    line: str
    """Of a line of NDJSON, and the name of the field that holds the row: `row`."""
    table: str
    about: JsonObject
    """What stands between the envelope and the items."""
    schema: pyarrow.Schema
    batches: Iterable[pyarrow.RecordBatch]
    left_out: tuple[UnreadColumn, ...] = ()
    """The columns of the table that are not read because of their types."""
    first: tuple[str, ...] = ()
    """The columns that stay longest on a narrow screen."""
    count: Callable[[], int | None] = lambda: None
    """Counts the rows that there are, as far as that is known; called only for a screen that does not show all."""


@dataclass(slots=True)
class Written:
    """What became of the rows: how many were written, whether a limit cut them, whether the screen had too little room
    for values, and the columns for which it had none.
    """

    rows: int = 0
    was_cut: bool = False
    cuts_values: bool = False
    left_out: dict[str, None] = field(default_factory=dict)


class FramedResult(Result):
    """A result that can be written as Parquet."""

    written: Written

    def frames(self) -> tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]:
        """Return the rows in Arrow columns and their schema."""
        raise NotImplementedError


class RowsResult(FramedResult):
    """Rows of a table, `limit` of them (0: all); to know of a cut, one more must be there."""

    lists = True

    def __init__(self, rows: Rows, limit: int) -> None:
        self.written = Written()
        self._rows = rows
        self._batches = _begun(_sound(cut(rows.batches, limit, self.written)))

    def document(self) -> Document:
        fields = envelope(self._rows.kind, self._rows.table, complete=True) | dict(self._rows.about)
        if self._rows.left_out:
            fields["omittedColumns"] = [column.as_json() for column in self._rows.left_out]
        return Document(fields, json_blocks(self._batches, opening="{", closing="},\n"), self._end)

    def lines(self, emit: Emit) -> bool:
        line = self._rows.line
        for block in json_blocks(self._batches, opening=f'{{"type":"{line}","{line}":{{', closing="}}\n"):
            emit(block)
        return self._is_complete

    def grid(self) -> Grid:
        return grid_of(self._rows.schema.names, self._batches, null=NULL)

    def frames(self) -> tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]:
        return self._rows.schema, self._batches

    def rows_written(self) -> int:
        return self.written.rows

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write rows in screens of a thousand, each aligned by itself, into a pipe a column at a time."""
        columns = _screen_columns(self._rows)
        if terminal.width is None and not terminal.colour:
            write_aligned(sink, columns, map(_texts, pieces(self._batches)), keep_empty=True)
            return
        shown = _write_screens(sink, terminal, columns, self._batches, self.written)
        footer = _footer(shown, self._rows, self.written)
        sink.write(encoded(f"\n{terminal.paint(footer, Style.QUIET)}\n"))

    def _end(self) -> dict[str, Json]:
        return {"complete": self._is_complete}

    @property
    def _is_complete(self) -> bool:
        return not self.written.was_cut and not self._rows.left_out


def json_blocks(batches: Iterable[pyarrow.RecordBatch], *, opening: str, closing: str) -> Iterator[EncodedItems]:
    """Yield the rows as JSON, their fields between two texts, a block a piece; they lie end to end."""
    from deltacli.cli.render.data.values import json_objects

    for piece in pieces(batches):
        fields = list(zip(piece.schema.names, piece.columns, strict=True))
        yield block_of(json_objects(fields, piece.num_rows, opening=opening, closing=closing))


def cut(batches: Iterable[pyarrow.RecordBatch], limit: int, written: Written) -> Iterator[pyarrow.RecordBatch]:
    """The first `limit` rows (0: all), and whether there were more."""
    left = limit
    for batch in batches:
        if limit and batch.num_rows > left:
            written.was_cut = True
            written.rows += left
            if left:
                yield batch.slice(0, left)
            return
        left -= batch.num_rows
        written.rows += batch.num_rows
        yield batch


def _sound(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The batches that have rows. Raises Unreadable for text that is no UTF-8, which no format could give back."""
    for batch in batches:
        from deltacli.work.rows.data_files import require_valid_values

        require_valid_values(batch)
        if batch.num_rows:
            yield batch


def _begun(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The same batches, the first of them read: a fault before it leaves nothing on stdout."""
    first = next(batches, None)
    return batches if first is None else chain([first], batches)


def _texts(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return the values of rows as texts, null as the word."""
    import pyarrow as pa

    from deltacli.arrow import compute as pc
    from deltacli.cli.render.data.values import text_column

    null = pa.scalar(NULL)
    texts = [pc.coalesce(text_column(column), null) for column in batch.columns]
    return pa.RecordBatch.from_arrays(texts, batch.schema.names) if texts else batch


def _write_screens(
    sink: BinaryIO,
    terminal: Terminal,
    columns: Sequence[Column[tuple[str | None, ...]]],
    batches: Iterable[pyarrow.RecordBatch],
    written: Written,
) -> int:
    """Draw up to a thousand rows; write more of them in screens of a thousand. Return how many there were."""
    from deltacli.cli.render.data.values import text_column

    heading, count = True, 0

    def show(rows: Sequence[tuple[str | None, ...]], *, is_part: bool) -> None:
        shown = set(write_columns(sink, terminal, columns, rows, heading=heading, keep_empty=True, is_part=is_part))
        written.cuts_values = written.cuts_values or cuts_values(columns, rows, terminal)
        written.left_out |= dict.fromkeys(column.name for column in columns if column.name not in shown)

    held: list[tuple[str | None, ...]] = []
    for piece in pieces(batches):
        for start in range(0, piece.num_rows, ROWS_PER_SCREEN):
            part = piece.slice(start, ROWS_PER_SCREEN)
            texts = [text_column(column).to_pylist() for column in part.columns]
            held += zip(*texts, strict=True) if texts else [()] * part.num_rows
            count += part.num_rows
            if len(held) > ROWS_PER_SCREEN:
                show(held[:ROWS_PER_SCREEN], is_part=True)
                held, heading = held[ROWS_PER_SCREEN:], terminal.is_terminal
    if held or heading:
        show(held, is_part=count > len(held))
    return count


def _footer(shown: int, rows: Rows, written: Written) -> str:
    """How many rows of how many are shown."""
    if not written.was_cut:
        return plural(shown, "row")
    total = rows.count()
    if total is None or total <= shown:
        return "the first row" if shown == 1 else f"the first {shown:,} rows"
    return f"{format_count(shown)} of {plural(total, 'row')}"


def _screen_columns(rows: Rows) -> list[Column[tuple[str | None, ...]]]:
    """The columns of a table; numbers and times keep every digit: half of one would be another."""
    import pyarrow as pa

    found: list[Column[tuple[str | None, ...]]] = []
    kinds = {column["name"]: _type_name(column["type"]) for column in rows.about.get("columns", ())}
    titles = {name: short for name, short in _SHORT.items() if _is_change(rows) and short not in rows.schema.names}
    change = rows.schema.names.index(_CHANGE_TYPE) if _is_change(rows) else None
    for index, column in enumerate(rows.schema):
        kind = column.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        is_whole = is_number or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)
        found.append(
            Column(
                column.name,
                partial(_shown, index),
                style=partial(_style, index, change),
                right=is_number,
                priority=_priority(rows, column.name, index),
                least=_NEVER_CUT if is_whole else 8,
                is_minor=column.name in titles and column.name == _COMMIT_TIMESTAMP,
                title=titles.get(column.name),
                subtitle=kinds.get(column.name),
            )
        )
    return found


_USERS_FIRST = 3
"""Columns of a table that are shown before the version that changed its rows."""


def _priority(rows: Rows, name: str, index: int) -> int:
    if name in rows.first:
        return -1
    return min(_USERS_FIRST, index) if _is_change(rows) and name == _COMMIT_VERSION else index


def _shown(index: int, row: tuple[str | None, ...]) -> str:
    value = row[index]
    return NULL if value is None else value


def _style(index: int, change: int | None, row: tuple[str | None, ...]) -> Style:
    """The look of a value: null is dim, rows of a change feed have the colour of their change."""
    if row[index] is None:
        return Style.QUIET
    return Style.PLAIN if change is None else _CHANGES.get(row[change] or "", Style.PLAIN)


def _is_change(rows: Rows) -> bool:
    return rows.line == "change" and _CHANGE_TYPE in rows.schema.names


def _type_name(kind: Any) -> str:  # Any: a type of a schema as JSON
    """A type in short: `array<long>`, `struct`."""
    match kind:
        case str():
            return kind
        case {"type": "array", "elementType": element}:
            return f"array<{_type_name(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_type_name(key)}, {_type_name(value)}>"
        case _:
            return "struct"


_COLUMNS = ("path", "rows", "sizeBytes")


class DirectoryResult(Outcome):
    """The files of a directory. `about` is the version, or the range of versions, that they were read from."""

    def __init__(self, table: str, content: str, about: Mapping[str, int], written: WrittenDirectory) -> None:
        files = [{"path": file.name, "rows": file.rows, "sizeBytes": file.size_bytes} for file in written.files]
        fields = {
            "content": content,
            **about,
            "directory": written.uri,
            "rows": written.rows,
            "sizeBytes": written.size_bytes,
            "files": files,
        }
        super().__init__("output", table, fields, lambda: _sections(table, about, written), files, _COLUMNS)
        self._was_cut = written.was_cut

    def document(self) -> Document:
        return Document({**super().document().fields, "complete": not self._was_cut})

    def lines(self, emit: Emit) -> bool:
        return super().lines(emit) and not self._was_cut


def _sections(table: str, about: Mapping[str, int], written: WrittenDirectory) -> Sequence[Section]:
    versions = " to ".join(map(str, about.values()))
    files, rows = plural(len(written.files), "file"), plural(written.rows, "row")
    return [
        Section("table", [table]),
        Section("version" if len(about) == 1 else "versions", [versions]),
        Section("directory", [written.uri]),
        Section("written", [f"{files}, {rows}, {format_size(written.size_bytes)}"]),
    ]


# -- aligned columns of text for a pipe: complete and uncut, a column at a time ----------------------------------------


def write_aligned(
    sink: BinaryIO, columns: Sequence[Column[Any]], batches: Iterable[pyarrow.RecordBatch], *, keep_empty: bool
) -> None:
    """Write batches of texts in screens, each aligned by itself, the heading once; absent values are null.

    Without `keep_empty`, columns without any value are left out where all rows fit one screen. Beyond that every
    column is written, because a later row may have a value.
    """
    screens = _screens(batches)
    first, second = next(screens, None), next(screens, None)
    if first is None:
        sink.write(_heading(columns, [cells(column.heading()) for column in columns]))
        return
    kept = list(range(len(columns)))
    if second is None and not keep_empty:
        kept = [place for place in kept if first.column(place).null_count < first.num_rows]
    chosen = [columns[place] for place in kept]
    for block in _aligned(chosen, first.select(kept), heading=True):
        sink.write(block)
    for screen in chain([] if second is None else [second], screens):
        for block in _aligned(chosen, screen):
            sink.write(block)


def texts_of(columns: Sequence[Column[Any]], batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return the columns of a batch that have the names of `columns`, as the texts of a screen."""
    import pyarrow as pa

    names = [column.name for column in columns]
    return pa.RecordBatch.from_arrays([_column_texts(column, batch.column(column.name)) for column in columns], names)


def _column_texts(column: Column[Any], values: pyarrow.Array) -> pyarrow.Array:
    """Return the texts of a column; values that occur often are written once."""
    import pyarrow as pa

    from deltacli.cli.render.data.values import text_column

    if column.texts is not None and values.null_count < len(values):
        return column.texts(values)
    if column.text is None:
        return text_column(values)
    found = values.dictionary_encode()
    texts = [column.whole({column.name: value}) for value in found.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(found.indices)


def _screens(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of all batches, so many at a time; the last ones may be fewer."""
    held: list[pyarrow.RecordBatch] = []
    left = ROWS_PER_SCREEN
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            held.append(batch.slice(start, left))
            start += held[-1].num_rows
            left -= held[-1].num_rows
            if not left:
                yield _together(held)
                held, left = [], ROWS_PER_SCREEN
    if held:
        yield _together(held)


def _together(batches: Sequence[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    names = batches[0].schema.names
    columns = [pa.concat_arrays([batch.column(place) for batch in batches]) for place in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names)


def _aligned(columns: Sequence[Column[Any]], rows: pyarrow.RecordBatch, *, heading: bool = False) -> Iterator[bytes]:
    """Yield the lines of some rows in UTF-8, aligned with each other, or in halves where blanks would fill memory."""
    import pyarrow as pa

    texts = rows.columns
    longest = sum(pc.max(pc.binary_length(text)).as_py() or 0 for text in texts)
    if longest * rows.num_rows > _MAX_SCREEN_BYTES and rows.num_rows > 1:
        middle = rows.num_rows // 2
        yield from _aligned(columns, rows.slice(0, middle), heading=heading)
        yield from _aligned(columns, rows.slice(middle))
        return
    padded: list[Any] = []  # Any: columns of texts
    widths: list[int] = []
    for column, text in zip(columns, texts, strict=True):
        filled, width = _padded(column, text, is_last=column is columns[-1])
        padded.append(filled)
        widths.append(width)
    if heading and columns:
        yield _heading(columns, widths)
    lines = pc.utf8_rtrim(pc.binary_join_element_wise(*padded, GAP), " ") if padded else pa.repeat("", rows.num_rows)
    yield bytes(block_of(pc.binary_join_element_wise(lines, "\n", "")).data)


def _heading(columns: Sequence[Column[Any]], widths: Sequence[int]) -> bytes:
    titles = [pad(column.heading(), width, right=column.right) for column, width in zip(columns, widths, strict=True)]
    return encoded(GAP.join(titles).rstrip() + "\n") if titles else b""


def _padded(column: Column[Any], text: pyarrow.Array, *, is_last: bool) -> tuple[pyarrow.Array, int]:
    """Return the texts, padded to one width, and the width; the end of a line needs no blanks."""
    import pyarrow as pa

    if text.null_count:
        text = pc.coalesce(text, pa.scalar(""))
    least = cells(column.heading())
    raw = characters(text)
    if CONTROL.search(raw) or not _takes_one_cell_each(raw):
        texts = [visible(value) for value in text.to_pylist()]
        width = max([least, *map(cells, texts)])
        return pa.array([pad(value, width, right=column.right) for value in texts], pa.string()), width
    is_ascii = raw.isascii()  # bytes are counted faster than characters
    ends = pc.min_max((pc.binary_length if is_ascii else pc.utf8_length)(text))
    width = max(least, ends["max"].as_py() or 0)
    if ends["min"].as_py() == width or (is_last and not column.right):
        return text, width
    if is_ascii:
        return (pc.ascii_lpad if column.right else pc.ascii_rpad)(text, width, " "), width
    return (pc.utf8_lpad if column.right else pc.utf8_rpad)(text, width, " "), width


def _takes_one_cell_each(text: str) -> bool:
    """True if no character is wide and none joins another: then Arrow pads a screen in 6 ms instead of 65."""
    return text.isascii() or all(cells(character) == 1 for character in set(text))
