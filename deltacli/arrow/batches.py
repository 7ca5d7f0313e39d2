"""Batches of rows: aggregated, limited, and cut into batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

_ROWS_PER_PIECE = 32_768
_BYTES_PER_PIECE = 16 << 20
"""Text is made of so much at once: hexadecimal and escapes take a multiple of the memory."""


def aggregate_rows(table: pa.Table, keys: Sequence[str], wanted: Sequence[tuple[str, str]]) -> pa.Table:
    """Return one row for each combination of the keys, in the order in which they occur first.

    This does what `Table.group_by` does, but imports only the compiled part of Acero. Its Python module loads datasets,
    all of Arrow's file systems and TLS: 60 ms of a command that takes 250 ms. If a pyarrow release defines the nodes
    elsewhere, the module is imported after all.

    Args:
        table: The rows.
        keys: The columns to group by.
        wanted: Pairs of a column and a function: `sum`, `min`, `max` or `count`.

    Returns:
        The keys, then a column like `size_sum` for each wanted pair.
    """
    try:
        from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions
    except ImportError:
        return table.group_by(list(keys), use_threads=False).aggregate(list(wanted))

    functions = [([column], f"hash_{function}", None, f"{column}_{function}") for column, function in wanted]
    source = Declaration("table_source", TableSourceNodeOptions(table))
    aggregation = Declaration("aggregate", AggregateNodeOptions(functions, keys=list(keys)))
    # Threads would mix the order of the groups.
    return Declaration.from_sequence([source, aggregation]).to_table(use_threads=False)


def limit_rows(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows, or all if it is None. No batch is read that is not needed."""
    if limit is None:
        yield from batches
        return

    remaining = limit
    while remaining > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, min(remaining, batch.num_rows))
        remaining -= batch.num_rows


def rebatch(
    batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of another size.

    Args:
        batches: Batches of one schema. Empty ones are left out.
        most_rows: Rows of each batch; the last one may have fewer.
        most_bytes: About how many bytes a batch may have; None for any number. A batch has at least one row.
    """
    pending = _PendingRows(most_rows, most_bytes)
    for batch in batches:
        # All rows of a batch are taken to be of equal size, which is good enough for a limit of memory.
        row_bytes = 0 if most_bytes is None else max(batch.nbytes // max(batch.num_rows, 1), 1)

        unread = batch
        while unread.num_rows:
            part = unread.slice(0, pending.count_fitting_rows(row_bytes))
            unread = unread.slice(part.num_rows)
            pending.add(part, row_bytes)
            if pending.is_full(row_bytes):
                yield pending.combine()
                pending = _PendingRows(most_rows, most_bytes)

    if pending.row_count:
        yield pending.combine()


def split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces of at most 32,768 rows and about 16 MiB, without copying them."""
    for batch in batches:
        # By rows first: halving a batch of millions of rows would measure the same bytes twenty times.
        for start in range(0, batch.num_rows, _ROWS_PER_PIECE):
            yield from _halve_until_small(batch.slice(start, _ROWS_PER_PIECE))


class _PendingRows:
    """The parts of the batch that `rebatch` yields next."""

    def __init__(self, most_rows: int, most_bytes: int | None) -> None:
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._parts: list[pa.RecordBatch] = []
        self._size_bytes = 0
        self.row_count = 0

    def count_fitting_rows(self, row_bytes: int) -> int:
        """Return how many more rows of this size fit; at least one, however large it is."""
        fitting = self._most_rows - self.row_count
        if self._most_bytes is not None:
            fitting = min(fitting, (self._most_bytes - self._size_bytes) // row_bytes)
        return max(fitting, 1)

    def add(self, part: pa.RecordBatch, row_bytes: int) -> None:
        """Add rows of about this size."""
        self._parts.append(part)
        self.row_count += part.num_rows
        self._size_bytes += part.num_rows * row_bytes

    def is_full(self, row_bytes: int) -> bool:
        """Return True if no more row of this size fits."""
        if self.row_count >= self._most_rows:
            return True
        return self._most_bytes is not None and self._size_bytes + row_bytes > self._most_bytes

    def combine(self) -> pa.RecordBatch:
        """Return all rows as one batch."""
        return pa.Table.from_batches(self._parts).combine_chunks().to_batches()[0]


def _halve_until_small(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces of about `_BYTES_PER_PIECE`, or of one row."""
    if piece.num_rows <= 1 or piece.nbytes <= _BYTES_PER_PIECE:
        yield piece
        return
    middle = piece.num_rows // 2
    yield from _halve_until_small(piece.slice(0, middle))
    yield from _halve_until_small(piece.slice(middle))
