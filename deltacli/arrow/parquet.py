"""Read and write Parquet files without importing `pyarrow.parquet`.

The import of `pyarrow.parquet` loads all file systems of Arrow and TLS, and takes 15 ms of a command that takes 150 ms.
This module calls the compiled reader and writer in `pyarrow._parquet` directly. That module is not public: if a release
of pyarrow has changed it, the functions fall back to `pyarrow.parquet`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any  # pyarrow has no types

import pyarrow as pa

from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import BinaryFile

if TYPE_CHECKING:
    import pyarrow.parquet

MAX_FOOTER_BYTES = 64 << 20
"""Largest footer that `read_footer_bytes` reads."""

BUFFER_BYTES = 128 << 10
"""Size of the read buffer of a column chunk, for files on a local disk.

The buffer fits into the cache of a processor. Reading is 10% faster than with 1 MiB if other threads work, too.
"""

_READER_OPTIONS = {"thrift_string_size_limit": 32 << 20, "thrift_container_size_limit": 1_000_000}
"""Limits on the memory that parsing a footer can allocate. The footer may be damaged or hostile."""

_WRITER_DEFAULTS = {"version": "2.6", "data_page_version": "1.0", "use_dictionary": True, "write_statistics": True}
"""The defaults of `pyarrow.parquet.ParquetWriter`. The compiled writer has other defaults."""

_FOOTER_TAIL_BYTES = 8
"""A Parquet file ends with the footer, the length of the footer (four bytes) and the magic number `PAR1`."""


class ParquetReader:
    """Reads a Parquet file. Methods raise the errors of pyarrow.

    Columns are selected by the number of their leaves. The leaves of a schema are its primitive fields, in the order of
    the schema, numbered from 0:

        id: int64                           leaf 0
        point: struct<x: double, y: double> leaves 1 and 2
        tags: list<string>                  leaf 3
    """

    def __init__(
        self,
        source: Any,
        *,
        metadata: pyarrow.parquet.FileMetaData | None = None,
        buffer_size: int = 0,
        pre_buffer: bool = False,
        verify_pages: bool = False,
        keeps_memory: bool = False,
        int96_unit: str = "us",
    ) -> None:
        """Open a file and read its footer.

        Args:
            source: An open file of pyarrow. The caller closes it.
            metadata: The footer, if the caller has already read it.
            buffer_size: Size in bytes of the buffer for reading a column chunk; 0 to read the whole chunk at once.
            pre_buffer: Whether to combine adjacent reads into few requests, for object stores.
            verify_pages: Whether to verify the checksums of pages.
            keeps_memory: Whether to use an allocator that keeps freed memory for the next batch. The default allocator
                returns it to the operating system, which takes 10% of the time when very many rows are read.
            int96_unit: The unit of INT96 timestamps: `s`, `ms`, `us` or `ns`. Timestamps outside the range of the unit
                wrap around. The range of `ns`, the default of Arrow, is 1677 to 2262.
        """
        settings = {
            "metadata": metadata,
            "buffer_size": buffer_size,
            "pre_buffer": pre_buffer,
            "page_checksum_verification": verify_pages,
            "coerce_int96_timestamp_unit": int96_unit,
            **_READER_OPTIONS,
        }
        self._reader = _open_reader(source, settings, keeps_memory=keeps_memory)

    @property
    def metadata(self) -> pyarrow.parquet.FileMetaData:
        """The footer."""
        return self._reader.metadata

    @property
    def schema_arrow(self) -> pa.Schema:
        """The Arrow schema of the file. INT96 columns are timestamps without a time zone."""
        return self._reader.schema_arrow

    @cached_property
    def paths(self) -> list[list[str]]:
        """The path of each leaf, such as `["point", "x"]`."""
        paths: list[list[str]] = self._reader.column_paths
        return paths

    @cached_property
    def int96_paths(self) -> frozenset[tuple[str, ...]]:
        """The paths of all leaves with the type INT96, whose values are timestamps in UTC."""
        return self.find_int96_paths(range(len(self.paths)))

    def find_int96_paths(self, leaves: Iterable[int]) -> frozenset[tuple[str, ...]]:
        """Return the paths of the leaves among `leaves` that have the type INT96."""
        schema = self.metadata.schema
        int96_leaves = (leaf for leaf in leaves if schema.column(leaf).physical_type == "INT96")
        return frozenset(tuple(self.paths[leaf]) for leaf in int96_leaves)

    def read_group(self, group: int) -> pa.Table:
        """Return all columns of a row group."""
        # All methods read without the threads of Arrow, because callers read several files or row groups in parallel.
        return self._reader.read_row_group(group, use_threads=False)

    def read_all(self) -> pa.Table:
        """Return all rows."""
        return self._reader.read_all(use_threads=False)

    def read_leaves(self, rows: int, group: int, leaves: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the selected leaves of a row group in batches of `rows` rows.

        A batch has the top-level columns that contain the leaves. Other fields of a struct are left out.
        """
        batches: Iterator[pa.RecordBatch] = self._reader.iter_batches(rows, [group], leaves, use_threads=False)
        return batches

    def read_columns(self, rows: int, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of a row group in batches of `rows` rows.

        Args:
            rows: The number of rows per batch.
            group: The number of the row group.
            columns: Columns and nested fields, such as `id` and `point.x`. Names that the file does not contain are
                skipped.
        """
        return self.read_leaves(rows, group, self.find_leaves(columns))

    def find_leaves(self, columns: Sequence[str]) -> list[int]:
        """Return the leaves of columns and nested fields by name, such as `[1, 2]` for `point`.

        The leaves are in the order of `columns`, without duplicates. Names that the file does not contain are skipped.
        """
        leaves = [leaf for column in columns for leaf in self._leaves_by_name.get(column, ())]
        return list(dict.fromkeys(leaves))

    @cached_property
    def _leaves_by_name(self) -> dict[str, list[int]]:
        """Column or nested field -> its leaves: `{"id": [0], "point": [1, 2], "point.x": [1], "point.y": [2]}`."""
        leaves: dict[str, list[int]] = {}
        for leaf, path in enumerate(self.paths):
            # The path a, b, c has the names a, a.b and a.b.c.
            for name in accumulate(path, "{}.{}".format):
                leaves.setdefault(name, []).append(leaf)
        return leaves


def open_writer(sink: Any, schema: pa.Schema, **settings: Any) -> Any:
    """Open the compiled Parquet writer of Arrow.

    Args:
        sink: An open file. The caller closes first the writer and then the file.
        schema: The columns.
        settings: The parameters of `pyarrow.parquet.ParquetWriter`, with the same defaults. `compression` is required.

    Returns:
        A writer with the methods `write_table` and `close`. After `close`, its attribute `metadata` is the footer.
    """
    try:
        from pyarrow._parquet import ParquetWriter

        return ParquetWriter(sink, schema, writer_engine_version="V2", **_WRITER_DEFAULTS | settings)
    except (ImportError, TypeError):
        import pyarrow.parquet

        python_writer = pyarrow.parquet.ParquetWriter(sink, schema, **settings)
        # The caller closes the compiled writer. Prevent the Python writer from closing it again when it is deleted.
        python_writer.is_open = False
        return python_writer.writer


def read_footer_bytes(source: BinaryFile) -> bytes:
    """Read the Thrift bytes of the footer of a Parquet file.

    The result is empty if the length of the footer is larger than the file, or than `MAX_FOOTER_BYTES`.
    """
    source.seek(0, io.SEEK_END)
    footer_end = source.tell() - _FOOTER_TAIL_BYTES
    source.seek(max(footer_end, 0))

    length = int.from_bytes(source.read(4), "little")
    # A damaged or hostile file can contain any length. Do not seek before the file, or allocate without limit.
    if not 0 < length <= min(footer_end, MAX_FOOTER_BYTES):
        return b""

    source.seek(footer_end - length)
    return bytes(source.read(length))


def _open_reader(source: Any, settings: dict[str, Any], *, keeps_memory: bool) -> Any:
    """Open the compiled reader of `pyarrow._parquet`; through `pyarrow.parquet` if a release has changed it."""
    try:
        from pyarrow._parquet import ParquetReader as CompiledReader

        reader = CompiledReader(_memory_keeping_pool() if keeps_memory else None)
        reader.open(source, arrow_extensions_enabled=True, **settings)
    except (ImportError, TypeError):
        import pyarrow.parquet

        return pyarrow.parquet.ParquetFile(source, **settings).reader
    return reader


@cache
def _memory_keeping_pool() -> Any:
    """Return an allocator that keeps freed memory: jemalloc if possible, otherwise that of the C library.

    Arrow decodes a column into a buffer that is larger than necessary, and shrinks the buffer at the end. jemalloc
    shrinks it in place, whereas the allocator of the C library copies the column. jemalloc is not used if the address
    space is limited: see `choose_allocator`.
    """
    is_address_space_limited = pa.default_memory_pool().backend_name == "system"
    if "jemalloc" in pa.supported_memory_backends() and not is_address_space_limited:
        return pa.jemalloc_memory_pool()
    return pa.system_memory_pool()
