"""`--format parquet`: rows streamed into a file with row groups of bounded size, which is complete or absent."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from deltacli.errors import UsageError

if TYPE_CHECKING:
    import pyarrow

    from deltacli.cli.render.data.rows import FramedResult
    from deltacli.cli.terminal.term import Terminal

_ROWS_PER_GROUP = 1 << 20
_BYTES_PER_GROUP = 64 << 20
"""Bytes in memory; a third or less on disk."""


class _Tap(io.RawIOBase):
    """A stream that can be shut; later writes are discarded."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self.is_shut = False

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # a buffer from Arrow
        if not self.is_shut:
            self._sink.write(view)
        return view.nbytes


def write(sink: BinaryIO, result: FramedResult, _terminal: Terminal) -> None:
    """Write the rows of a result whose rows are Arrow columns."""
    write_parquet(sink, *result.frames())


def write_parquet(sink: BinaryIO, schema: pyarrow.Schema, batches: Iterable[pyarrow.RecordBatch]) -> None:
    """Write batches of a schema as one file with Zstandard, which every reader of Delta tables supports.

    On any fault no footer is written, so an incomplete result cannot be opened, not even one from a pipe. Raises
    UsageError for a type that Parquet does not have.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    tap = _Tap(sink)
    try:
        writer = pq.ParquetWriter(tap, schema, compression="zstd")
    except pa.ArrowNotImplementedError as fault:
        raise _unwritable(fault) from fault
    try:
        held: list[pyarrow.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _ROWS_PER_GROUP or size >= _BYTES_PER_GROUP:
                most = min(_ROWS_PER_GROUP, max(rows * _BYTES_PER_GROUP // max(size, 1), 1))
                writer.write_table(pa.Table.from_batches(held, schema), most)
                held, rows, size = [], 0, 0
        if held:
            writer.write_table(pa.Table.from_batches(held, schema), _ROWS_PER_GROUP)
        writer.close()
    except BaseException as fault:
        tap.is_shut = True
        writer.close()
        if isinstance(fault, pa.ArrowNotImplementedError):
            raise _unwritable(fault) from fault
        raise


def _unwritable(fault: Exception) -> UsageError:
    return UsageError(
        "these columns cannot be written as Parquet",
        code="usage.format",
        facts={"reason": str(fault)},
        hint="select other columns with --columns, or use --format ndjson",
    )
