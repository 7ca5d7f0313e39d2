"""Rows in pieces that are small enough to make text of, and the text of a piece as one block of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

_ROWS_PER_PIECE = 32_768
_BYTES_PER_PIECE = 16 << 20
"""Text is made of so much at once; hexadecimal and escapes take a multiple of it."""


def pieces(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows in pieces of bounded size."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_PER_PIECE):
            yield from _halves(batch.slice(start, _ROWS_PER_PIECE))


def _halves(piece: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    if piece.num_rows <= 1 or piece.nbytes <= _BYTES_PER_PIECE:
        yield piece
        return
    middle = piece.num_rows // 2
    yield from _halves(piece.slice(0, middle))
    yield from _halves(piece.slice(middle))


def text_of(texts: pyarrow.StringArray) -> memoryview:
    """Return a column of texts without nulls end to end."""
    if len(texts) == 0:
        return memoryview(b"")
    first, last = memoryview(texts.buffers()[1]).cast("i")[texts.offset : texts.offset + len(texts) + 1 : len(texts)]
    return memoryview(texts.buffers()[2])[first:last]
