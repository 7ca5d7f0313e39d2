"""Batches of rows: of Parquet files, opened or begun without importing `pyarrow.parquet`; grouped; first ones; pieces.

Importing that module loads all of Arrow's file systems, including TLS, which takes 15 ms of a command that takes 150
ms. This module calls the underlying compiled reader and writer. If a pyarrow release defines them elsewhere, or opens
them differently, `pyarrow.parquet` is imported instead.
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
    import pyarrow
    import pyarrow.parquet

_OPTIONS = {"thrift_string_size_limit": 32 << 20, "thrift_container_size_limit": 1_000_000}
"""The options of every reader: allocation limits for untrusted footers."""

MAX_FOOTER_BYTES = 64 << 20
"""Maximum bytes of a footer that `read_footer_bytes` returns."""

BUFFER_BYTES = 128 << 10
"""Buffer of a column chunk in a near store, which stays in the cache of a processor: a tenth less time than with 1 MiB
beside other work."""


class ParquetReader:
    """One Parquet file of an open `source`, which the caller has to close. Raises pyarrow's own errors.

    `metadata` avoids a second read of the footer. Column chunks are read through a buffer of `buffer_size` bytes (0:
    whole chunks). `pre_buffer` combines reads into few requests. `verify_pages` verifies the checksums of pages.
    `keeps_memory`, for readers of very many rows, takes memory from an allocator that keeps it for the next batch; the
    default one returns it to the system, and taking it anew is a tenth of the time. Values of INT96 outside of what
    `int96_unit` can express wrap around; nanoseconds, Arrow's default, express 1677 to 2262.
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
        settings: dict[str, Any] = {"metadata": metadata, "buffer_size": buffer_size, "pre_buffer": pre_buffer}
        settings |= {"page_checksum_verification": verify_pages, "coerce_int96_timestamp_unit": int96_unit}
        self._reader = _open(source, settings | _OPTIONS, keeps_memory=keeps_memory)

    @property
    def metadata(self) -> pyarrow.parquet.FileMetaData:
        """Return the footer."""
        return self._reader.metadata

    @property
    def schema_arrow(self) -> pyarrow.Schema:
        """Return the Arrow schema of the whole file.

        INT96 columns are timestamps without a time zone.
        """
        return self._reader.schema_arrow

    @cached_property
    def int96_paths(self) -> frozenset[tuple[str, ...]]:
        """Return the leaves of type INT96, each as the names along its path. Their values are instants in UTC."""
        return self.int96_of(range(len(self.paths)))

    def int96_of(self, leaves: Iterable[int]) -> frozenset[tuple[str, ...]]:
        """Return `int96_paths` of some leaves."""
        schema, paths = self.metadata.schema, self.paths
        return frozenset(tuple(paths[leaf]) for leaf in leaves if schema.column(leaf).physical_type == "INT96")

    @cached_property
    def paths(self) -> list[list[str]]:
        """Return the names along the path of each leaf."""
        found: list[list[str]] = self._reader.column_paths
        return found

    def read_group(self, group: int) -> pyarrow.Table:
        """Return all columns of a row group."""
        return self._reader.read_row_group(group, use_threads=False)

    def read_all(self) -> pyarrow.Table:
        """Return all rows."""
        return self._reader.read_all(use_threads=False)

    def read_leaves(self, rows: int, group: int, leaves: Sequence[int]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the columns of a row group that contain the given leaf indexes, `rows` rows at a time."""
        batches: Iterator[pyarrow.RecordBatch] = self._reader.iter_batches(rows, [group], leaves, use_threads=False)
        return batches

    def read_columns(self, rows: int, group: int, columns: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        """Yield columns of a row group by name, `rows` rows at a time.

        Names of nested fields are separated by dots. Names that the file does not have are skipped.
        """
        return self.read_leaves(rows, group, self.leaves_of(columns))

    def leaves_of(self, columns: Sequence[str]) -> list[int]:
        """Return the leaf indexes of columns by name, as `read_columns` finds them."""
        return [*dict.fromkeys(leaf for column in columns for leaf in self._leaves.get(column, ()))]

    @cached_property
    def _leaves(self) -> dict[str, list[int]]:
        """Map the name of each column or nested field to its leaf indexes."""
        leaves: dict[str, list[int]] = {}
        for leaf, path in enumerate(self.paths):
            for name in accumulate(path, "{}.{}".format):
                leaves.setdefault(name, []).append(leaf)
        return leaves


@cache
def _keeping_pool() -> Any:
    """Return jemalloc, which makes the memory of a column smaller where it is. Elsewhere, and where `choose_allocator`
    chose it for a limited address space, that of the C library, which copies the column.
    """
    is_limited = pa.default_memory_pool().backend_name == "system"
    has_it = "jemalloc" in pa.supported_memory_backends()
    return pa.jemalloc_memory_pool() if has_it and not is_limited else pa.system_memory_pool()


def _open(source: Any, settings: dict[str, Any], *, keeps_memory: bool) -> Any:
    try:
        from pyarrow._parquet import ParquetReader as Reader

        reader = Reader(_keeping_pool() if keeps_memory else None)
        reader.open(source, arrow_extensions_enabled=True, **settings)
    except (ImportError, TypeError):
        import pyarrow.parquet

        return pyarrow.parquet.ParquetFile(source, **settings).reader
    return reader


_WRITTEN = {"version": "2.6", "data_page_version": "1.0", "use_dictionary": True, "write_statistics": True}
"""Defaults of `pyarrow.parquet.ParquetWriter`."""


def open_writer(sink: Any, schema: pyarrow.Schema, **settings: Any) -> Any:
    """Return Arrow's compiled writer of a file, which has `write_table`, `close` and then `metadata`. Settings and
    their defaults are those of `pyarrow.parquet.ParquetWriter`, but the codec has to be given.
    """
    try:
        from pyarrow._parquet import ParquetWriter

        return ParquetWriter(sink, schema, writer_engine_version="V2", **_WRITTEN | settings)
    except (ImportError, TypeError):
        import pyarrow.parquet

        opened = pyarrow.parquet.ParquetWriter(sink, schema, **settings)
        opened.is_open = False  # the caller closes the compiled writer
        return opened.writer


def read_footer_bytes(source: BinaryFile) -> bytes:
    """Return the footer bytes of a Parquet file that Arrow has opened; empty if the footer exceeds 64 MiB."""
    source.seek(0, io.SEEK_END)
    end = source.tell()
    source.seek(max(end - 8, 0))
    length = int.from_bytes(source.read(4), "little")
    if not 0 < length <= min(end - 8, MAX_FOOTER_BYTES):
        return b""
    source.seek(end - 8 - length)
    return bytes(source.read(length))
