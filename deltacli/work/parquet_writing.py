"""Write batches of Arrow as one Parquet file."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import pyarrow as pa

from deltacli.arrow.parquet import open_writer
from deltacli.core.errors import UsageError, parameter
from deltacli.core.typing import RecordBatch
from deltacli.delta.footers.chunk_bounds import remove_bounds
from deltacli.delta.schema.file_columns import describe_calendar
from deltacli.work.nan_columns import find_nan_leaves, has_floats

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


_ROWS_PER_GROUP = 1 << 20
"""Also the most rows that Arrow's writer puts into one row group, whatever it is asked for."""
_BYTES_PER_GROUP = 64 << 20
"""Bytes in memory; a third or less on disk."""


_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
"""What ends a Parquet file: the length of the footer before it, and the magic number."""


class _CountingSink(io.RawIOBase):
    """A stream that counts its bytes. What is written after it was closed is discarded."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # a buffer from Arrow
        if not self.closed:
            self._sink.write(view)
            self._size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._size_bytes


class ParquetStream:
    """Writes batches of a schema with Zstandard, which every reader of Delta tables supports, or as `settings` of
    Arrow's writer say.

    A column chunk with NaN gets no bounds in the footer (see `delta/footers/chunk_bounds.py`). The footer of a file
    with dates or times states their calendar (see `describe_calendar`).

    As a context it is finished at the end, and abandoned after any fault. Without `finish` no footer is written, so an
    incomplete file cannot be opened, not even one from a pipe. A file that Arrow opened is written without the
    interpreter. Raises UsageError for a type that Parquet does not have.
    """

    def __init__(
        self,
        sink: BinaryIO | pyarrow.NativeFile,
        schema: pyarrow.Schema,
        *,
        group_rows: int = _ROWS_PER_GROUP,
        group_bytes: int = _BYTES_PER_GROUP,
        **settings: Any,  # Any: as Arrow's writer takes them
    ) -> None:
        """Begin a file.

        Args:
            sink: Where the bytes go. A file that Arrow opened is written without the interpreter.
            schema: The schema of all batches.
            group_rows: Rows after which a row group is written.
            group_bytes: Bytes in memory after which a row group is written.
            **settings: Settings of Arrow's writer.

        Raises:
            UsageError: If Parquet does not have a type of the schema.
        """
        self.rows = 0
        self._group_rows = group_rows
        self._group_bytes = group_bytes
        self._sink = sink if isinstance(sink, pa.NativeFile) else _CountingSink(sink)
        self._held: list[pyarrow.Table] = []
        self._held_rows = self._held_bytes = 0
        self._has_floats = any(has_floats(column.type) for column in schema)
        self._written_groups = 0
        self._nan_chunks = set[tuple[int, int]]()
        try:
            self._writer = open_writer(self._sink, schema, **{"compression": "zstd", **settings})
        except pa.ArrowNotImplementedError as fault:
            raise _make_type_error(fault) from fault
        # An empty list would be written into the footer, too.
        if calendar := describe_calendar(schema):
            self._writer.add_key_value_metadata(calendar)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, fault: object, trace: object) -> None:
        # A file without a footer cannot be mistaken for a complete one.
        if kind is None:
            try:
                self.finish()
            except BaseException:
                self.abandon()
                raise
        else:
            self.abandon()

    @property
    def size_bytes(self) -> int:
        """The bytes written so far, without the rows that are held for the next row group."""
        return int(self._sink.tell())

    def add(self, rows: RecordBatch) -> None:
        """Take a batch or a table, and write a row group once there are enough rows or bytes for one."""
        self.rows += rows.num_rows
        self._held.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        if self._held_rows >= self._group_rows or self._held_bytes >= self._group_bytes:
            self._flush()

    def finish(self) -> None:
        """Write the remaining rows and the footer."""
        if self._held:
            self._flush()
        self._writer.close()
        if self._nan_chunks:
            self._append_footer_without_bounds()

    def _append_footer_without_bounds(self) -> None:
        """Write the footer again behind the one of Arrow, without the bounds of the chunks that have NaN.

        Readers find a footer by the length at the very end of the file. The first one is never read and costs a few
        kilobytes. It cannot be replaced, because a pipe has been sent it already.
        """
        first = pa.BufferOutputStream()
        self.footer.write_metadata_file(first)
        # Such a file is a footer between the two magic numbers, with its length before the last one.
        footer = remove_bounds(
            first.getvalue().to_pybytes()[len(_MAGIC) : -_LENGTH_BYTES - len(_MAGIC)], self._nan_chunks
        )
        self._sink.write(footer + len(footer).to_bytes(_LENGTH_BYTES, "little") + _MAGIC)

    @property
    def footer(self) -> pyarrow.parquet.FileMetaData:
        """The footer as Arrow wrote it, with the bounds of chunks that have NaN, which leave NaN out."""
        return self._writer.metadata

    def abandon(self) -> None:
        """Close the file without a footer."""
        self._sink.close()
        with suppress(OSError, ValueError, MemoryError):
            self._writer.close()

    def _flush(self) -> None:
        """Write the held rows as row groups of similar size, usually as one."""
        # Row groups of similar size: no small one is left at the end.
        groups = max(-(-self._held_rows // self._group_rows), round(self._held_bytes / self._group_bytes), 1)
        rows_per_group = min(max(-(-self._held_rows // groups), 1), _ROWS_PER_GROUP)
        table = pa.concat_tables(self._held)
        self._held = []
        self._held_rows = 0
        self._held_bytes = 0
        try:
            self._writer.write_table(table, rows_per_group)
        except pa.ArrowNotImplementedError as fault:
            raise _make_type_error(fault) from fault
        self._note_nan_chunks(table, rows_per_group)

    def _note_nan_chunks(self, table: pyarrow.Table, rows_per_group: int) -> None:
        """Remember which chunks of the row groups that were written have NaN."""
        first_group = self._written_groups
        # Arrow writes a row group for no rows, too.
        self._written_groups += max(-(-table.num_rows // rows_per_group), 1)
        if not self._has_floats:
            return
        for group in range(first_group, self._written_groups):
            rows = table.slice((group - first_group) * rows_per_group, rows_per_group)
            self._nan_chunks.update((group, leaf) for leaf in find_nan_leaves(rows))


def write_parquet(sink: BinaryIO, schema: pyarrow.Schema, batches: Iterable[pyarrow.RecordBatch]) -> None:
    """Write batches as one file, which has no footer after any fault. Raises what `ParquetStream` raises."""
    with ParquetStream(sink, schema) as stream:
        for batch in batches:
            stream.add(batch)


def _make_type_error(fault: Exception) -> UsageError:
    return UsageError(
        "these columns cannot be written as Parquet",
        code="usage.format",
        facts={"reason": str(fault)},
        hint=f"select other columns with {parameter('read.columns')}, or use {parameter('read.format', 'ndjson')}",
    )
