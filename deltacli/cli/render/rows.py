"""Rows of a table in every format: streamed, a column at a time, never held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.render.columns import Column, write_table
from deltacli.cli.render.json import EncodedItems, envelope, write_document_with_items, write_encoded_lines
from deltacli.cli.term import Style
from deltacli.errors import Unreadable

if TYPE_CHECKING:
    import pyarrow

    from deltacli.cli.options import Run

NULL = "null"
_ROWS_A_SCREEN = 1_000
_ROWS_A_PIECE = 32_768
_BYTES_A_PIECE = 16 << 20
"""Text is made of so much at once; hexadecimal and escapes take a multiple of it."""
_NEVER_CUT = 1 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to write, and what a document says about them."""

    kind: str
    """Of the document: `deltacli.read`."""
    line: str
    """Of a line of NDJSON, and the name of the field that holds the row: `row`."""
    table: str
    about: Mapping[str, Any]  # Any: JSON values
    """What stands between the envelope and the items."""
    schema: pyarrow.Schema
    batches: Iterable[pyarrow.RecordBatch]
    first: tuple[str, ...] = ()
    """The columns that stay longest on a narrow screen."""


@dataclass(slots=True)
class Written:
    """What became of the rows: whether a limit cut them, and the columns for which the screen had no room."""

    was_cut: bool = False
    left_out: dict[str, None] = field(default_factory=dict)


def write_rows(sink: BinaryIO, run: Run, rows: Rows, *, limit: int) -> Written:
    """Write rows in the run's format, `limit` of them (0: all); to know of a cut, one more must be there."""
    from deltacli.cli.options import OutputFormat

    written = Written()
    batches = _begun(_sound(cut(rows.batches, limit, written)))
    match run.format:
        case OutputFormat.NDJSON:
            opening = f'{{"type":"{rows.line}","{rows.line}":{{'
            blocks = json_blocks(batches, opening=opening, closing="}}\n")
            write_encoded_lines(sink, blocks, was_cut=lambda: written.was_cut)
        case OutputFormat.JSON:
            document = envelope(rows.kind, rows.table, complete=True) | dict(rows.about)
            blocks = json_blocks(batches, opening="{", closing="},\n")
            write_document_with_items(sink, document, blocks, was_cut=lambda: written.was_cut)
        case OutputFormat.CSV:
            write_csv_columns(sink, rows.schema.names, batches)
        case OutputFormat.PARQUET:
            from deltacli.cli.render.parquet import write_parquet

            write_parquet(sink, rows.schema, batches)
        case _:
            _write_screens(sink, run, rows, batches, written)
    return written


def json_blocks(batches: Iterable[pyarrow.RecordBatch], *, opening: str, closing: str) -> Iterator[EncodedItems]:
    """Yield the rows as JSON, their fields between two texts, a block a piece; they lie end to end."""
    from deltacli.cli.render.values import json_objects

    for piece in _pieces(batches):
        fields = list(zip(piece.schema.names, piece.columns, strict=True))
        yield _encoded(json_objects(fields, piece.num_rows, opening=opening, closing=closing))


def write_csv_columns(sink: BinaryIO, names: Sequence[str], batches: Iterable[pyarrow.RecordBatch]) -> None:
    """Write RFC 4180 CSV with a header line and LF line ends; null is nothing, an empty text is `""`.

    Where there is one column, null is `""`, too: readers take an empty line for no row.
    """
    import pyarrow as pa

    header = [pa.array([name], pa.string()) for name in names]
    sink.write(_csv_lines(pa.record_batch(header, list(names))).data if names else b"\n")
    for piece in _pieces(batches):
        sink.write(_csv_lines(piece).data)


def _csv_lines(piece: pyarrow.RecordBatch) -> EncodedItems:
    import pyarrow as pa

    from deltacli import arrow_compute as pc

    nothing = '""' if piece.num_columns == 1 else ""
    parts: list[Any] = []  # Any: texts all rows share, and columns
    for column in piece.columns:
        text = _csv_texts(column)
        parts += [",", text if text.null_count == 0 else pc.coalesce(text, pa.scalar(nothing))]
    if not parts:
        return _encoded(pa.repeat("\n", piece.num_rows))
    return _encoded(pc.binary_join_element_wise(*parts[1:], "\n", ""))


def _csv_texts(column: pyarrow.Array) -> pyarrow.Array:
    """Values as fields of CSV, quoted where they must be; null where they are."""
    import pyarrow as pa

    from deltacli import arrow_compute as pc
    from deltacli.cli.render.values import text_column

    text = text_column(column)
    if not _may_hold_text(column.type):
        return text
    needs_quotes = pc.or_(pc.equal(text, ""), pc.match_substring_regex(text, '[",\\r\\n]'))
    if not pc.any(needs_quotes).as_py():
        return text
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(needs_quotes, quoted, text) if text.null_count < len(text) else pa.nulls(len(text), pa.string())


def _may_hold_text(kind: Any) -> bool:  # Any: an Arrow type
    """False for types whose values are never empty and hold neither quotes nor commas nor ends of lines."""
    import pyarrow as pa

    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return not (is_number or pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind))


def _encoded(texts: pyarrow.StringArray) -> EncodedItems:
    """A column of texts without nulls as one block."""
    if len(texts) == 0:
        return EncodedItems(0, memoryview(b""))
    first, last = memoryview(texts.buffers()[1]).cast("i")[texts.offset : texts.offset + len(texts) + 1 : len(texts)]
    return EncodedItems(len(texts), memoryview(texts.buffers()[2])[first:last])


def cut(batches: Iterable[pyarrow.RecordBatch], limit: int, written: Written) -> Iterator[pyarrow.RecordBatch]:
    """The first `limit` rows (0: all), and whether there were more."""
    left = limit
    for batch in batches:
        if not limit:
            yield batch
            continue
        if batch.num_rows > left:
            written.was_cut = True
            if left:
                yield batch.slice(0, left)
            return
        left -= batch.num_rows
        yield batch


def _sound(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The batches that have rows. Raises Unreadable for text that is no UTF-8, which no format could give back."""
    from pyarrow import ArrowInvalid

    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except ArrowInvalid as fault:
                raise Unreadable(
                    f"column {name!r} holds a value that is not of its type",
                    code="data.bad-value",
                    facts={"found": str(fault)},
                ) from fault
        if batch.num_rows:
            yield batch


def _begun(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The same batches, the first of them read: a fault before it leaves nothing on stdout."""
    first = next(batches, None)
    return batches if first is None else chain([first], batches)


def _pieces(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The rows in pieces that are small enough to make text of."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_A_PIECE):
            yield from _halves(batch.slice(start, _ROWS_A_PIECE))


def _halves(piece: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    if piece.num_rows <= 1 or piece.nbytes <= _BYTES_A_PIECE:
        yield piece
        return
    middle = piece.num_rows // 2
    yield from _halves(piece.slice(0, middle))
    yield from _halves(piece.slice(middle))


def _write_screens(
    sink: BinaryIO, run: Run, rows: Rows, batches: Iterable[pyarrow.RecordBatch], written: Written
) -> None:
    """Write rows in screens of a thousand, each aligned by itself; into a pipe the heading comes once."""
    from deltacli.cli.render.values import text_column

    columns = _screen_columns(rows)
    heading = True

    def show(held: Sequence[tuple[str | None, ...]]) -> None:
        shown = write_table(sink, run.terminal, columns, held, heading=heading, keep_empty=True)
        written.left_out |= dict.fromkeys(name for name in rows.schema.names if name not in shown)

    held: list[tuple[str | None, ...]] = []
    for piece in _pieces(batches):
        for start in range(0, piece.num_rows, _ROWS_A_SCREEN):
            part = piece.slice(start, _ROWS_A_SCREEN)
            texts = [text_column(column).to_pylist() for column in part.columns]
            held += zip(*texts, strict=True) if texts else [()] * part.num_rows
            if len(held) >= _ROWS_A_SCREEN:
                show(held)
                held, heading = [], run.terminal.is_terminal
    if held or heading:
        show(held)


def _screen_columns(rows: Rows) -> list[Column[tuple[str | None, ...]]]:
    """The columns of a table; numbers and times keep every digit: half of one would be another."""
    import pyarrow as pa

    found: list[Column[tuple[str | None, ...]]] = []
    for index, column in enumerate(rows.schema):
        kind = column.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        is_whole = is_number or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)
        found.append(
            Column(
                column.name,
                partial(_shown, index),
                style=partial(_style, index),
                right=is_number,
                priority=-1 if column.name in rows.first else index,
                least=_NEVER_CUT if is_whole else 8,
            )
        )
    return found


def _shown(index: int, row: tuple[str | None, ...]) -> str:
    value = row[index]
    return NULL if value is None else value


def _style(index: int, row: tuple[str | None, ...]) -> Style:
    return Style.QUIET if row[index] is None else Style.PLAIN
