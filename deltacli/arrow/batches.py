"""Batches of rows: grouped, limited, and cut into batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow


def aggregate_rows(table: pyarrow.Table, keys: Sequence[str], wanted: Sequence[tuple[str, str]]) -> pyarrow.Table:
    """Return a row for each combination of the keys, in the order in which they occur first: the keys, then for each
    column and function (`sum`, `min`, `max`, `count`) a column like `size_sum`.

    This is `Table.group_by` without importing Acero's module, which loads datasets, all of Arrow's file systems and
    TLS: 60 ms of a command that takes 250 ms. If a pyarrow release defines the nodes of its engine elsewhere, it is
    imported instead.
    """
    try:
        from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions
    except ImportError:
        return table.group_by(list(keys), use_threads=False).aggregate(list(wanted))
    functions = [([column], f"hash_{function}", None, f"{column}_{function}") for column, function in wanted]
    nodes = [
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("aggregate", AggregateNodeOptions(functions, keys=list(keys))),
    ]
    return Declaration.from_sequence(nodes).to_table(use_threads=False)


def limit_rows(batches: Iterator[pyarrow.RecordBatch], limit: int | None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows up to a limit, all without one; stops reading when it is reached."""
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows


def rebatch(
    batches: Iterable[pyarrow.RecordBatch], most_rows: int, most_bytes: int | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows in batches of so many rows, the last one of fewer, or of about so many bytes; at least one row."""
    held: list[pyarrow.RecordBatch] = []
    rows = size = 0

    def whole() -> pyarrow.RecordBatch:
        return pa.Table.from_batches(held).combine_chunks().to_batches()[0]

    for batch in batches:
        each = 0 if most_bytes is None else max(batch.nbytes // max(batch.num_rows, 1), 1)
        while batch.num_rows:
            fits = most_rows - rows if most_bytes is None else min(most_rows - rows, (most_bytes - size) // each)
            part = batch.slice(0, max(fits, 1))
            batch = batch.slice(part.num_rows)
            held.append(part)
            rows, size = rows + part.num_rows, size + part.num_rows * each
            if rows >= most_rows or (most_bytes is not None and size + each > most_bytes):
                yield whole()
                held, rows, size = [], 0, 0
    if held:
        yield whole()


_ROWS_PER_PIECE = 32_768
_BYTES_PER_PIECE = 16 << 20
"""Text is made of so much at once; hexadecimal and escapes take a multiple of it."""


def split_batches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
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
