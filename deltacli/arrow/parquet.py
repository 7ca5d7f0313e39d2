"""Open Parquet files for reading and writing, without importing `pyarrow.parquet`.

That module loads all of Arrow's file systems, including TLS, which takes 15 ms of a command that takes 150 ms. This
one calls the compiled reader and writer below it. If a pyarrow release defines them elsewhere, or opens them
differently, `pyarrow.parquet` is imported instead.
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
"""Size up to which `read_footer_bytes` reads a footer."""

BUFFER_BYTES = 128 << 10
"""Buffer for a column chunk in a near store.

It stays in the cache of a processor. Reading takes a tenth less time than with 1 MiB, beside other work.
"""

_READER_OPTIONS = {"thrift_string_size_limit": 32 << 20, "thrift_container_size_limit": 1_000_000}
"""Limits on what a footer can make every reader allocate: it may be damaged, or hostile."""

_WRITER_DEFAULTS = {"version": "2.6", "data_page_version": "1.0", "use_dictionary": True, "write_statistics": True}
"""The defaults of `pyarrow.parquet.ParquetWriter`, which the compiled writer lacks."""

_FOOTER_TAIL_BYTES = 8
"""The end of a file: four bytes with the length of the footer, then the magic number."""


class ParquetReader:
    """Reads one Parquet file. Errors are those of pyarrow.

    Columns are read by row group, and by leaf: the primitive columns of the file, numbered from 0 across all nested
    fields. A struct with two fields has two leaves.
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
            source: An open file of pyarrow, which the caller has to close.
            metadata: The footer, if it is known, so that it is not read again.
            buffer_size: Bytes of the buffer through which column chunks are read; 0 reads whole chunks.
            pre_buffer: Combine reads into few requests, for remote stores.
            verify_pages: Verify the checksums of pages.
            keeps_memory: Take memory from an allocator that keeps it for the next batch. The default one returns it to
                the system; taking it anew is a tenth of the time if very many rows are read.
            int96_unit: The unit of INT96 timestamps. Values that it cannot express wrap around; nanoseconds, Arrow's
                default, reach from 1677 to 2262.
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
        """The names along the path of each leaf."""
        paths: list[list[str]] = self._reader.column_paths
        return paths

    @cached_property
    def int96_paths(self) -> frozenset[tuple[str, ...]]:
        """The paths of the leaves of type INT96. Their values are instants in UTC."""
        return self.find_int96_paths(range(len(self.paths)))

    def find_int96_paths(self, leaves: Iterable[int]) -> frozenset[tuple[str, ...]]:
        """Return the paths of those leaves that have the type INT96."""
        schema = self.metadata.schema
        int96_leaves = (leaf for leaf in leaves if schema.column(leaf).physical_type == "INT96")
        return frozenset(tuple(self.paths[leaf]) for leaf in int96_leaves)

    def read_group(self, group: int) -> pa.Table:
        """Return all columns of a row group."""
        # Here as below, without Arrow's threads: the caller reads several files or row groups at once.
        return self._reader.read_row_group(group, use_threads=False)

    def read_all(self) -> pa.Table:
        """Return all rows."""
        return self._reader.read_all(use_threads=False)

    def read_leaves(self, rows: int, group: int, leaves: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a row group that contain these leaves, `rows` rows at a time."""
        batches: Iterator[pa.RecordBatch] = self._reader.iter_batches(rows, [group], leaves, use_threads=False)
        return batches

    def read_columns(self, rows: int, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of a row group by name, `rows` rows at a time.

        Names of nested fields are separated by dots. Names that the file does not have are skipped.
        """
        return self.read_leaves(rows, group, self.find_leaves(columns))

    def find_leaves(self, columns: Sequence[str]) -> list[int]:
        """Return the leaves of columns by name, as `read_columns` reads them: each once, in the order of the names."""
        leaves = [leaf for column in columns for leaf in self._leaves_by_name.get(column, ())]
        return list(dict.fromkeys(leaves))

    @cached_property
    def _leaves_by_name(self) -> dict[str, list[int]]:
        """The leaves of each column or nested field. `a`, `a.b` and `a.b.c` all have the leaf of `a.b.c`."""
        leaves: dict[str, list[int]] = {}
        for leaf, path in enumerate(self.paths):
            for name in accumulate(path, "{}.{}".format):
                leaves.setdefault(name, []).append(leaf)
        return leaves


def open_writer(sink: Any, schema: pa.Schema, **settings: Any) -> Any:
    """Return Arrow's compiled writer of a Parquet file.

    Args:
        sink: An open file. The caller closes the writer first, and then the file.
        schema: The columns.
        settings: Those of `pyarrow.parquet.ParquetWriter`, with its defaults, except that `compression` is required.

    Returns:
        A writer with the methods `write_table` and `close`. Its `metadata` is the footer after `close`.
    """
    try:
        from pyarrow._parquet import ParquetWriter

        return ParquetWriter(sink, schema, writer_engine_version="V2", **_WRITER_DEFAULTS | settings)
    except (ImportError, TypeError):
        import pyarrow.parquet

        python_writer = pyarrow.parquet.ParquetWriter(sink, schema, **settings)
        # The caller closes the compiled writer. The one around it must not do so again when it is deleted.
        python_writer.is_open = False
        return python_writer.writer


def read_footer_bytes(source: BinaryFile) -> bytes:
    """Return the footer of a Parquet file as bytes; empty if its length is absurd, or more than `MAX_FOOTER_BYTES`."""
    source.seek(0, io.SEEK_END)
    footer_end = source.tell() - _FOOTER_TAIL_BYTES
    source.seek(max(footer_end, 0))

    length = int.from_bytes(source.read(4), "little")
    # The length is a claim of the file: it must not make us read before its beginning, or allocate without limit.
    if not 0 < length <= min(footer_end, MAX_FOOTER_BYTES):
        return b""

    source.seek(footer_end - length)
    return bytes(source.read(length))


def _open_reader(source: Any, settings: dict[str, Any], *, keeps_memory: bool) -> Any:
    """Return Arrow's compiled reader, directly if this release of pyarrow has it where it is expected."""
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
    """Return an allocator that keeps freed memory.

    Columns are decoded into too much memory, which is made smaller at the end. jemalloc does that in place; the
    allocator of the C library copies the column. The latter is used where jemalloc is missing, and where
    `choose_allocator` chose it because the address space is limited.
    """
    is_address_space_limited = pa.default_memory_pool().backend_name == "system"
    if "jemalloc" in pa.supported_memory_backends() and not is_address_space_limited:
        return pa.jemalloc_memory_pool()
    return pa.system_memory_pool()
