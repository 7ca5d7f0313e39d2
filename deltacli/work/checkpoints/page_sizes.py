"""Measure the pages of a Parquet file before Arrow reads them, so that a hostile file cannot exhaust the memory.

An untrusted file may declare pages of 2 GB, or repeat one string of 100 MB a million times. Local files are measured by
their page headers (8 ms for a million adds). On a remote store that would take one request per page, so the footer is
trusted there.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from deltacli.arrow.parquet import BUFFER_BYTES, ParquetReader
from deltacli.core.errors import CheckpointUnreadable, command
from deltacli.delta.footers.thrift import DICTIONARY_PAGE, PageHeader, ThriftFaultError, read_page_header

ROWS_A_BATCH = 8_192
"""Statistics of so many adds fit into the cache of a processor: a fifth less time than with twice as many."""
MAX_PAGE_BYTES = 128 << 20
"""Maximum uncompressed bytes of a page; larger pages are refused. Writers produce pages of about 1 MiB."""

MAX_COLUMN_BYTES = 16 << 20
"""Maximum bytes of one column in a batch. Batches have fewer rows where values are long."""
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli", "LZ4": "lz4_raw"}
"""Parquet's codec names -> Arrow's. A dictionary with any other codec counts as one value."""

_HEADER_BYTES = (512, 1 << 16, 1 << 24)


class _NoPages(io.RawIOBase):
    """A file of unlimited size, which ends where its first page would be read."""

    is_reached = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, _offset: int, _whence: int = 0, /) -> int:
        return 1 << 62

    def tell(self) -> int:
        return 1 << 62

    def read(self, _size: int = -1, /) -> bytes:
        self.is_reached = True
        return b""

    def readinto(self, _buffer: Any, /) -> int:  # Any: as in io
        self.is_reached = True
        return 0


def require_consistent_footer(metadata: Any, group: int, leaves: Sequence[int]) -> None:  # Any: pyarrow has no types
    """Raise an ArrowException or OSError if the footer is inconsistent for these leaves.

    In pyarrow 26.0.1, calling `RowGroupMetaData.column` directly crashes the process on an inconsistent footer. Reading
    toward the pages raises an exception for the same fault. Takes 0.1 ms and reads no page: it meets the end of the
    file there. An exception of Python would be formatted by Arrow, with all lines of its traceback.
    """
    import pyarrow

    pages = _NoPages()
    file = ParquetReader(pyarrow.PythonFile(pages, mode="r"), metadata=metadata, buffer_size=BUFFER_BYTES)
    try:
        for _ in file.read_leaves(1, group, leaves):
            pass
    except (pyarrow.ArrowException, OSError):
        if not pages.is_reached:
            raise


def choose_rows_per_batch(
    source: Any, metadata: Any, group: int, leaves: Sequence[int], path: str, most: int = ROWS_A_BATCH
) -> int:  # Any: pyarrow
    """Return how many rows of some leaves fit into `MAX_COLUMN_BYTES` per column at a time.

    Args:
        source: The open file.
        metadata: Its footer, which `require_consistent_footer` has validated for these leaves.
        group: The row group.
        leaves: The leaves that will be read. No other ones are inspected.
        path: The file in errors.
        most: Maximum number of rows to return.

    Raises:
        CheckpointUnreadable: If a page is too large.
    """
    row_group = metadata.row_group(group)
    rows = most

    for leaf in leaves:
        chunk = row_group.column(leaf)
        try:
            for start, header in _read_page_headers(source, chunk):
                if header.unpacked_bytes > MAX_PAGE_BYTES:
                    raise _make_error(
                        path, f"a page of {chunk.path_in_schema} unpacks to {header.unpacked_bytes} bytes"
                    )
                # Only values of variable length can be long.
                if chunk.physical_type == "BYTE_ARRAY":
                    rows = min(
                        rows, MAX_COLUMN_BYTES // max(_estimate_value_length(source, chunk, start, header, most), 1)
                    )
        except (ThriftFaultError, struct.error) as fault:
            raise _make_error(path, f"{chunk.path_in_schema}: {fault}") from fault
    return max(rows, 1)


def find_longest_repeated_value(
    source: Any, chunk: Any, rows: int, most_bytes: int
) -> int:  # Any: pyarrow has no types
    """Return the bytes of the longest value that the dictionary of a column chunk can repeat.

    Returns:
        0 where `rows` times the largest value fit into `most_bytes`.

    Raises:
        ThriftFaultError: If a page header is invalid; also as struct.error.
        OverflowError: If a page is above the limit.
    """
    longest = 0
    for start, header in _read_page_headers(source, chunk):
        if header.unpacked_bytes > MAX_PAGE_BYTES:
            raise OverflowError(f"a page unpacks to {header.unpacked_bytes} bytes")
        if header.kind == DICTIONARY_PAGE and header.unpacked_bytes * rows > most_bytes:
            if chunk.physical_type != "BYTE_ARRAY":
                longest = max(longest, header.unpacked_bytes // max(header.values, 1))
                continue
            source.seek(start)
            page = source.read(header.packed_bytes)
            longest = max(longest, _find_longest_dictionary_value(page, chunk.compression, header))
    return longest


def _read_page_headers(source: Any, chunk: Any) -> Iterator[tuple[int, PageHeader]]:  # Any: pyarrow has no types
    """Yield the start of the data and the header of each page of a column chunk."""
    position = chunk.data_page_offset
    # The dictionary page, if there is one, precedes the data pages.
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < position:
        position = chunk.dictionary_page_offset
    end = position + chunk.total_compressed_size
    while position < end:
        # A header is short, unless it has statistics of long values.
        header = None
        for length in _HEADER_BYTES:
            source.seek(position)
            header = read_page_header(source.read(min(length, end - position)))
            if header is not None:
                break
        if header is None:
            raise ThriftFaultError("a page header without an end")
        position += header.length
        yield position, header
        position += header.packed_bytes


def _estimate_value_length(
    source: Any, chunk: Any, start: int, header: PageHeader, rows: int
) -> int:  # Any: pyarrow has no types
    """Return an estimate of the value length in a page: the longest of a dictionary, otherwise the mean.

    Values of a data page are in memory once. A value of a dictionary may be repeated in each row, so that one value of
    100 MB becomes 800 GB in 8,192 rows.
    """
    if header.kind != DICTIONARY_PAGE:
        return header.unpacked_bytes // max(header.values, 1)
    if header.unpacked_bytes * rows <= MAX_COLUMN_BYTES:
        return header.unpacked_bytes
    source.seek(start)
    return _find_longest_dictionary_value(source.read(header.packed_bytes), chunk.compression, header)


def _find_longest_dictionary_value(page: bytes, compression: str, header: PageHeader) -> int:
    """Return the length of the longest value in a dictionary page (plain encoding: a length before each value)."""
    import pyarrow

    if compression != "UNCOMPRESSED":
        codec = _CODECS.get(compression)
        if codec is None:
            return header.unpacked_bytes
        try:
            page = pyarrow.Codec(codec).decompress(page, header.unpacked_bytes, asbytes=True)
        except (OSError, ValueError):
            return header.unpacked_bytes  # the measurement must not refuse anything Arrow can read
    longest = 0
    position = 0
    end = len(page)
    length_at = struct.Struct("<I").unpack_from
    while position < end:
        (length,) = length_at(page, position)
        if length > longest:  # noqa: PLR1730  (calling max() for each value takes 50 % longer)
            longest = length
        position += 4 + length
    return longest


def _make_error(path: str, reason: str) -> CheckpointUnreadable:
    return CheckpointUnreadable(
        f"{path} cannot be read as a checkpoint", facts={"file": path, "reason": reason}, hint=command("history")
    )
