"""Aligned columns of text for a pipe: complete and uncut, a column at a time, in screens of a thousand rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.arrow import compute as pc
from deltacli.cli.render.columns import GAP, Column, pad
from deltacli.cli.results import block_of
from deltacli.cli.terminal.term import CONTROL, cells, encoded, visible
from deltacli.delta.encoding.arrow_json import characters

if TYPE_CHECKING:
    import pyarrow

ROWS_PER_SCREEN = 1_000
_MAX_SCREEN_BYTES = 64 << 20
"""A single long value pads its column in every row of the screen."""


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
    return pa.RecordBatch.from_arrays([_texts(column, batch.column(column.name)) for column in columns], names)


def _texts(column: Column[Any], values: pyarrow.Array) -> pyarrow.Array:
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
