"""Aggregate rows, limit their number, and split or combine batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

_MAX_PIECE_ROWS = 32_768
_MAX_PIECE_BYTES = 16 << 20
"""Size of the pieces that are formatted as text. Escapes and hexadecimal digits take a multiple of that memory."""


def aggregate_rows(table: pa.Table, keys: Sequence[str], aggregations: Sequence[tuple[str, str]]) -> pa.Table:
    """Group rows by key columns and aggregate the other columns, like `Table.group_by(keys).aggregate(aggregations)`.

    `Table.group_by` imports `pyarrow.acero`, and with it datasets, all file systems of Arrow and TLS. That takes 60 ms
    of a command that takes 250 ms. This function imports only the compiled module `pyarrow._acero`. If a release of
    pyarrow has no such module, the function falls back to `Table.group_by`.

    Args:
        table: The rows.
        keys: The columns to group by.
        aggregations: Pairs of a column and a function (`sum`, `min`, `max` or `count`), such as `("size", "sum")`.

    Returns:
        One row for each combination of key values, in the order of their first rows. The columns are the keys and one
        column for each aggregation, such as `size_sum`.
    """
    try:
        from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions
    except ImportError:
        return table.group_by(list(keys), use_threads=False).aggregate(list(aggregations))

    functions = [([column], f"hash_{function}", None, f"{column}_{function}") for column, function in aggregations]
    source = Declaration("table_source", TableSourceNodeOptions(table))
    aggregation = Declaration("aggregate", AggregateNodeOptions(functions, keys=list(keys)))
    # With threads, the order of the groups would be random.
    return Declaration.from_sequence([source, aggregation]).to_table(use_threads=False)


def limit_rows(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows, or all rows if it is None. Stop reading `batches` when the limit is reached."""
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


def rebatch(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
    """Combine and split batches into batches of a given size.

    Args:
        batches: Batches of the same schema. Empty batches are skipped.
        max_rows: Number of rows per batch. The last batch may have fewer rows.
        max_bytes: Approximate maximum size of a batch in bytes; None for no maximum. A batch has at least one row.
    """
    pending = _PendingRows(max_rows, max_bytes)
    for batch in batches:
        # The size of a row is estimated as the average of its batch, which is precise enough to limit memory.
        row_bytes = 0 if max_bytes is None else max(batch.nbytes // max(batch.num_rows, 1), 1)

        remainder = batch
        while remainder.num_rows:
            part = remainder.slice(0, pending.count_fitting_rows(row_bytes))
            remainder = remainder.slice(part.num_rows)
            pending.add(part, row_bytes)
            if pending.is_full(row_bytes):
                yield pending.combine()
                pending = _PendingRows(max_rows, max_bytes)

    if pending.row_count:
        yield pending.combine()


def split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches into slices of at most 32,768 rows and about 16 MiB, without copying data."""
    for batch in batches:
        # Split by rows first. Halving a batch of millions of rows would compute the size of the same rows 20 times.
        for start in range(0, batch.num_rows, _MAX_PIECE_ROWS):
            yield from _halve_until_small(batch.slice(start, _MAX_PIECE_ROWS))


class _PendingRows:
    """The rows that `rebatch` has collected for its next batch."""

    def __init__(self, max_rows: int, max_bytes: int | None) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._parts: list[pa.RecordBatch] = []
        self._size_bytes = 0
        self.row_count = 0

    def count_fitting_rows(self, row_bytes: int) -> int:
        """Return the number of rows of this size that can be added. It is at least 1, even if the row is too large."""
        fitting = self._max_rows - self.row_count
        if self._max_bytes is not None:
            fitting = min(fitting, (self._max_bytes - self._size_bytes) // row_bytes)
        return max(fitting, 1)

    def add(self, part: pa.RecordBatch, row_bytes: int) -> None:
        """Add rows whose average size is `row_bytes`."""
        self._parts.append(part)
        self.row_count += part.num_rows
        self._size_bytes += part.num_rows * row_bytes

    def is_full(self, row_bytes: int) -> bool:
        """Return True if another row of this size would exceed a limit."""
        if self.row_count >= self._max_rows:
            return True
        return self._max_bytes is not None and self._size_bytes + row_bytes > self._max_bytes

    def combine(self) -> pa.RecordBatch:
        """Return all rows as one batch."""
        return pa.Table.from_batches(self._parts).combine_chunks().to_batches()[0]


def _halve_until_small(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch in half until each slice has at most `_MAX_PIECE_BYTES`, or a single row."""
    if piece.num_rows <= 1 or piece.nbytes <= _MAX_PIECE_BYTES:
        yield piece
        return
    middle = piece.num_rows // 2
    yield from _halve_until_small(piece.slice(0, middle))
    yield from _halve_until_small(piece.slice(middle))
