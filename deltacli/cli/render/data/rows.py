"""Rows of a table in every format: streamed, a column at a time, never held; in a pipe in screens of aligned texts.

Values are exact, without a Python object for each. Decimals never pass through a float, nor times through a calendar
that ends: what Arrow's own text of them cannot hold is written by hand. Everything a reader of JSON could round or
refuse (decimals, NaN, binary) is a string there.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import split_batches
from deltacli.cli.output.alignment import GAP, pad_text
from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import EncodedItems, Grid, WriteItems, encode_texts, make_batch_grid
from deltacli.cli.output.results import Document, Result, SingleResult
from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import is_any_value_cut, write_text_table
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import CONTROL_CHARACTERS, count_cells, encode_utf8, escape_control
from deltacli.core.documents import envelope
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowType, Json, JsonObject
from deltacli.core.units import SIZE_UNITS, format_count, format_size, plural
from deltacli.delta.encoding import value_text

if TYPE_CHECKING:
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
    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
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

    def read_batches(self) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        raise NotImplementedError


class RowsResult(FramedResult):
    """Rows of a table, `limit` of them (0: all); to know of a cut, one more must be there."""

    has_requested_rows = True

    def __init__(self, rows: Rows, limit: int) -> None:
        self.written = Written()
        self._rows = rows
        batches = _sound(cut(rows.batches, limit, self.written))
        first = next(batches, None)  # a fault before it leaves nothing on stdout
        self._batches = batches if first is None else chain([first], batches)

    def document(self) -> Document:
        fields = envelope(self._rows.kind, self._rows.table, complete=True) | dict(self._rows.about)
        if self._rows.left_out:
            fields["omittedColumns"] = [column.as_json() for column in self._rows.left_out]
        return Document(fields, json_blocks(self._batches, opening="{", closing="},\n"), self._end)

    def lines(self, write_items: WriteItems) -> bool:
        line = self._rows.line
        for block in json_blocks(self._batches, opening=f'{{"type":"{line}","{line}":{{', closing="}}\n"):
            write_items(block)
        return self._is_complete

    def grid(self) -> Grid:
        return make_batch_grid(self._rows.schema.names, self._batches, null=NULL)

    def read_batches(self) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        return self._rows.schema, self._batches

    def rows_written(self) -> int:
        return self.written.rows

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write rows in screens of a thousand, each aligned by itself, into a pipe a column at a time."""
        columns = _screen_columns(self._rows)
        if terminal.width is None and not terminal.colour:
            write_aligned(sink, columns, map(_texts, split_batches(self._batches)), keep_empty=True)
            return
        shown = _write_screens(sink, terminal, columns, self._batches, self.written)
        footer = _footer(shown, self._rows, self.written)
        sink.write(encode_utf8(f"\n{terminal.paint(footer, Style.QUIET)}\n"))

    def _end(self) -> dict[str, Json]:
        return {"complete": self._is_complete}

    @property
    def _is_complete(self) -> bool:
        return not self.written.was_cut and not self._rows.left_out


def json_blocks(batches: Iterable[pa.RecordBatch], *, opening: str, closing: str) -> Iterator[EncodedItems]:
    """Yield the rows as JSON, their fields between two texts, a block a piece; they lie end to end."""
    for piece in split_batches(batches):
        fields = list(zip(piece.schema.names, piece.columns, strict=True))
        yield encode_texts(json_objects(fields, piece.num_rows, opening=opening, closing=closing))


def cut(batches: Iterable[pa.RecordBatch], limit: int, written: Written) -> Iterator[pa.RecordBatch]:
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


def _sound(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches that have rows. Raises Unreadable for text that is no UTF-8, which no format could give back."""
    for batch in batches:
        from deltacli.work.rows.data_files import require_valid_values

        require_valid_values(batch)
        if batch.num_rows:
            yield batch


def _texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    null = pa.scalar(NULL)
    texts = [pc.coalesce(text_column(column), null) for column in batch.columns]
    return pa.RecordBatch.from_arrays(texts, batch.schema.names) if texts else batch


def _write_screens(
    sink: BinaryIO,
    terminal: Terminal,
    columns: Sequence[Column[tuple[str | None, ...]]],
    batches: Iterable[pa.RecordBatch],
    written: Written,
) -> int:
    """Draw up to a thousand rows; write more of them in screens of a thousand. Return how many there were."""
    heading, count = True, 0

    def show(rows: Sequence[tuple[str | None, ...]], *, is_part: bool) -> None:
        shown = set(write_text_table(sink, terminal, columns, rows, heading=heading, keep_empty=True, is_part=is_part))
        written.cuts_values = written.cuts_values or is_any_value_cut(columns, rows, terminal)
        written.left_out |= dict.fromkeys(column.name for column in columns if column.name not in shown)

    held: list[tuple[str | None, ...]] = []
    for piece in split_batches(batches):
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
    if not written.was_cut:
        return plural(shown, "row")
    total = rows.count()
    if total is None or total <= shown:
        return "the first row" if shown == 1 else f"the first {shown:,} rows"
    return f"{format_count(shown)} of {plural(total, 'row')}"


def _screen_columns(rows: Rows) -> list[Column[tuple[str | None, ...]]]:
    """The columns of a table; numbers and times keep every digit: half of one would be another."""
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
                align_right=is_number,
                priority=_priority(rows, column.name, index),
                min_width=_NEVER_CUT if is_whole else 8,
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


class DirectoryResult(SingleResult):
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

    def lines(self, write_items: WriteItems) -> bool:
        return super().lines(write_items) and not self._was_cut


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
    sink: BinaryIO, columns: Sequence[Column[Any]], batches: Iterable[pa.RecordBatch], *, keep_empty: bool
) -> None:
    """Write batches of texts in screens, each aligned by itself, the heading once; absent values are null.

    Without `keep_empty`, columns without any value are left out where all rows fit one screen. Beyond that every
    column is written, because a later row may have a value.
    """
    screens = _screens(batches)
    first, second = next(screens, None), next(screens, None)
    if first is None:
        sink.write(_heading(columns, [count_cells(column.heading()) for column in columns]))
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


def texts_of(columns: Sequence[Column[Any]], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of a batch that have the names of `columns`, as the texts of a screen."""
    names = [column.name for column in columns]
    return pa.RecordBatch.from_arrays([_column_texts(column, batch.column(column.name)) for column in columns], names)


def _column_texts(column: Column[Any], values: pa.Array) -> pa.Array:
    """Return the texts of a column; values that occur often are written once."""
    if column.format_array is not None and values.null_count < len(values):
        return column.format_array(values)
    if column.text is None:
        return text_column(values)
    found = values.dictionary_encode()
    texts = [column.format_for_pipe({column.name: value}) for value in found.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(found.indices)


def _screens(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all batches, so many at a time; the last ones may be fewer."""
    held: list[pa.RecordBatch] = []
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


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    names = batches[0].schema.names
    columns = [pa.concat_arrays([batch.column(place) for batch in batches]) for place in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names)


def _aligned(columns: Sequence[Column[Any]], rows: pa.RecordBatch, *, heading: bool = False) -> Iterator[bytes]:
    """Yield the lines of some rows in UTF-8, aligned with each other, or in halves where blanks would fill memory."""
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
    yield bytes(encode_texts(pc.binary_join_element_wise(lines, "\n", "")).data)


def _heading(columns: Sequence[Column[Any]], widths: Sequence[int]) -> bytes:
    titles = [
        pad_text(column.heading(), width, right=column.align_right)
        for column, width in zip(columns, widths, strict=True)
    ]
    return encode_utf8(GAP.join(titles).rstrip() + "\n") if titles else b""


def _padded(column: Column[Any], text: pa.Array, *, is_last: bool) -> tuple[pa.Array, int]:
    """Return the texts, padded to one width, and the width; the end of a line needs no blanks."""
    if text.null_count:
        text = pc.coalesce(text, pa.scalar(""))
    least = count_cells(column.heading())
    raw = value_text.characters(text)
    if CONTROL_CHARACTERS.search(raw) or not _takes_one_cell_each(raw):
        texts = [escape_control(value) for value in text.to_pylist()]
        width = max([least, *map(count_cells, texts)])
        return pa.array([pad_text(value, width, right=column.align_right) for value in texts], pa.string()), width
    is_ascii = raw.isascii()  # bytes are counted faster than characters
    ends = pc.min_max((pc.binary_length if is_ascii else pc.utf8_length)(text))
    width = max(least, ends["max"].as_py() or 0)
    if ends["min"].as_py() == width or (is_last and not column.align_right):
        return text, width
    if is_ascii:
        return (pc.ascii_lpad if column.align_right else pc.ascii_rpad)(text, width, " "), width
    return (pc.utf8_lpad if column.align_right else pc.utf8_rpad)(text, width, " "), width


def _takes_one_cell_each(text: str) -> bool:
    """True if no character is wide and none joins another: then Arrow pads a screen in 6 ms instead of 65."""
    return text.isascii() or all(count_cells(character) == 1 for character in set(text))


# -- values as text and as JSON ----------------------------------------------------------------------------------------

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""
_PLAIN_SCALE = 6
"""Decimals of a larger scale get an exponent from Arrow where they are small: `1E-8`."""


def text_column(column: pa.Array) -> pa.Array:
    """Return each value as text, nested ones as JSON: any array in, string array out, null where the value is null."""
    column = _stored(column)
    return json_column(column) if _is_nested(column.type) else _plain(column)


def timestamp_texts(milliseconds: pa.Array) -> pa.Array:
    """Return times as `format_timestamp` writes them."""
    ends = pc.min_max(milliseconds).as_py()
    if ends["min"] is None:
        return pa.nulls(len(milliseconds), pa.string())
    if not _FIRST_MS <= ends["min"] <= ends["max"] <= _LAST_MS:
        return pa.array(
            [one if one is None else format_timestamp(one) for one in milliseconds.to_pylist()], pa.string()
        )
    moments = pc.cast(milliseconds, pa.int64()).view(pa.timestamp("ms"))
    return pc.binary_join_element_wise(pc.replace_substring(pc.cast(moments, pa.string()), " ", "T"), "Z", "")


def size_texts(sizes: pa.Array) -> pa.Array:
    """Return numbers of bytes as `format_size` writes them. They are rounded first, so that few texts are made."""
    scaled, unit = pc.cast(sizes, pa.float64(), safe=False), 0.0
    for _ in SIZE_UNITS[1:]:
        is_large = pc.greater_equal(pc.abs(scaled), 1024.0)
        scaled = pc.if_else(is_large, pc.divide(scaled, 1024.0), scaled)
        unit = pc.add(unit, pc.cast(is_large, pa.float64()))
    tenths = pc.round(pc.multiply(scaled, 10.0), round_mode="half_to_even")
    found = pc.add(pc.multiply(tenths, float(len(SIZE_UNITS))), unit).dictionary_encode()
    texts = [
        f"{tenth / 10:.1f} {SIZE_UNITS[at]}" if at else f"{tenth // 10:,} B"
        for tenth, at in (divmod(int(one), len(SIZE_UNITS)) for one in found.dictionary.to_pylist())
    ]
    return pa.array(texts, pa.string()).take(found.indices)


def json_column(column: pa.Array) -> pa.Array:
    """Return each value as JSON: any array in, string array out, null where the value is null."""
    column = _stored(column)
    kind = column.type
    if pa.types.is_struct(kind):
        fields = zip(kind.names, column.flatten(), strict=True)
        return _as_null(json_objects(list(fields), len(column)), column)
    if pa.types.is_map(kind):
        return _json_map(column)
    if _is_nested(kind):
        return value_text.json_lists(json_column(pc.list_flatten(column)), column)
    text = _plain(column)
    if pa.types.is_string(kind):
        return value_text.quoted(value_text.escaped(text))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return text
    if pa.types.is_floating(kind):
        is_number = pc.fill_null(pc.is_finite(column), True)
        return text if pc.all(is_number).as_py() else pc.if_else(is_number, text, value_text.quoted(text))
    return value_text.quoted(text)


def json_objects(
    fields: Sequence[tuple[str, pa.Array]], rows: int, *, opening: str = "{", closing: str = "}"
) -> pa.Array:
    """Return an object for each row of columns, null values written as null: `"name":value,…` between two texts."""
    parts: list[Any] = []  # Any: texts all rows share, and columns
    shared = opening
    for index, (name, column) in enumerate(fields):
        shared += f"{',' if index else ''}{orjson.dumps(name).decode()}:"
        column = _stored(column)
        if pa.types.is_string(column.type) and column.null_count == 0:
            parts += [shared + '"', value_text.escaped(column)]
            shared = '"'
        else:
            text = json_column(column)
            parts += [shared, text if text.null_count == 0 else pc.coalesce(text, pa.scalar("null"))]
            shared = ""
    if not fields:
        return pa.repeat(shared + closing, rows)
    return pc.binary_join_element_wise(*parts, shared + closing, "")


def _json_map(column: pa.MapArray) -> pa.Array:
    """Maps as objects, keys as text; as lists of `{"key":…,"value":…}` where the keys are nested."""
    if len(column) == 0:
        return pa.array([], pa.string())
    keys, values = value_text.map_items(column)
    is_object = not _is_nested(_stored(keys).type)
    if is_object:
        entries = pc.binary_join_element_wise(
            '"', value_text.escaped(text_column(keys)), '":', pc.coalesce(json_column(values), pa.scalar("null")), ""
        )
    else:
        entries = json_objects([("key", keys), ("value", values)], len(keys))
    relative = pc.subtract(column.offsets, column.offsets[0])
    body = pc.binary_join(pa.ListArray.from_arrays(relative, entries), ",")
    opening, closing = ("{", "}") if is_object else ("[", "]")
    return _as_null(pc.binary_join_element_wise(opening, body, closing, ""), column)


def _as_null(text: pa.Array, column: pa.Array) -> pa.Array:
    return text if column.null_count == 0 else value_text.null_where_null(text, column)


def _stored(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        return _stored(column.storage)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _stored(pc.cast(column, kind.value_type))
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pc.cast(column, pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or kind == pa.binary_view():
        return pc.cast(column, pa.binary())
    return column


def _is_nested(kind: ArrowType) -> bool:
    return bool(pa.types.is_nested(kind))


def _plain(column: pa.Array) -> pa.Array:
    """Values without parts as text that no quotes are around."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_date32(kind):
        return value_text.date_texts(column)
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_binary(kind):
        return _hex(column)
    return pc.cast(column, pa.string())


def _floats(column: pa.Array) -> pa.Array:
    """The shortest text that reads back as the same number: `1.0`, `0.1`, `1e+20`, `NaN`, `-Infinity`."""
    if pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float32())
    text = pc.cast(column, pa.string())
    is_whole = pc.fill_null(pc.equal(column, pc.floor(column)), False)
    if pc.any(is_whole).as_py():
        has_mark = pc.match_substring_regex(text, "[.ein]")
        text = pc.if_else(has_mark, text, pc.binary_join_element_wise(text, ".0", ""))
    is_number = pc.fill_null(pc.is_finite(column), True)
    if pc.all(is_number).as_py():
        return text
    infinite = pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity")
    return pc.if_else(is_number, text, pc.if_else(pc.is_nan(column), "NaN", infinite))


def _decimals(column: pa.Array) -> pa.Array:
    """Every digit, without exponent: the digits as an integer, which Arrow writes in full, and a point put between."""
    kind = column.type
    if kind.scale <= _PLAIN_SCALE:
        return pc.cast(column, pa.string())
    unscaled = pa.Array.from_buffers(_whole_type(kind), len(column), column.buffers(), offset=column.offset)
    text = pc.cast(unscaled, pa.string())
    is_negative = pc.starts_with(text, "-")
    digits = pc.if_else(is_negative, pc.utf8_slice_codeunits(text, 1), text)
    padded = pc.ascii_lpad(digits, kind.scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -kind.scale)
    return pc.binary_join_element_wise(
        pc.if_else(is_negative, "-", ""), whole, ".", pc.utf8_slice_codeunits(padded, -kind.scale), ""
    )


def _whole_type(kind: ArrowType) -> ArrowType:
    return {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}[kind.bit_width](
        kind.precision, 0
    )


def _timestamps(column: pa.Array) -> pa.Array:
    """`2024-01-01T08:12:44Z`, the fraction only where there is one; without the Z where the type has no zone."""
    unit, zone = column.type.unit, column.type.tz
    column = column.view(pa.timestamp(unit))  # the moment is that of UTC whatever the zone
    whole = pc.cast(column, pa.timestamp("s"), safe=False)  # towards zero, so right where nothing is cut
    is_whole = pc.equal(pc.cast(whole, column.type), column)
    if pc.all(pc.fill_null(is_whole, True)).as_py():
        text = _moments(whole)
    elif pc.any(pc.fill_null(is_whole, False)).as_py():
        text = pc.if_else(is_whole, _moments(whole), _moments(column))
    else:
        text = _moments(column)
    return pc.binary_join_element_wise(text, "Z", "") if zone else text


def _moments(column: pa.Array) -> pa.Array:
    text = value_text.moment_texts(column)
    validity, ends, data = text.buffers()
    if data is None:
        return text
    # There is a blank in each text and nothing else that could be one: a third of the time of replacing in Arrow.
    return pa.StringArray.from_buffers(
        len(text), ends, pa.py_buffer(bytes(data).replace(b" ", b"T")), validity, offset=text.offset
    )


def _hex(column: pa.Array) -> pa.Array:
    """Binary as lower-case hex: all bytes of the column at once, and twice the offsets."""
    _, ends, data = column.buffers()
    if len(column) == 0 or data is None:
        return pc.cast(column, pa.string())
    offsets = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, ends], offset=column.offset)
    first, last = offsets[0].as_py(), offsets[len(column)].as_py()
    digits = pa.py_buffer(binascii.hexlify(memoryview(data)[first:last]))
    twice = pc.multiply_checked(pc.subtract(offsets, offsets[0]), pa.scalar(2, pa.int32()))
    return _as_null(pa.StringArray.from_buffers(len(column), twice.buffers()[1], digits), column)
