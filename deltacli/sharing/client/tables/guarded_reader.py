"""Data files of strangers as seekable files: pages that would unpack to more than memory holds are refused before Arrow
reads them.

The column chunks that Arrow asks for are in memory when their page headers are checked, so this takes no request.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

from deltacli.arrow.parquet import ParquetReader
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.errors import DataUnreadable
from deltacli.storage.object_reader import ObjectReader
from deltacli.typing import ArrowArray
from deltacli.work.checkpoints.limits import longest_repeated, require_sound
from deltacli.work.rows.row_reader import MAX_BATCH_BYTES, ROWS_A_BATCH

MOST_BYTES = 1 << 30
"""Bytes that one column of a batch may unpack to."""

Read = Callable[[int, int], bytes]


class _Chunk(NamedTuple):
    """Where a column of a row group is in the file."""

    start: int
    end: int
    group: int
    place: int
    leaf: str


class GuardedReader(ObjectReader):
    """A data file whose column chunks are checked when they are first read."""

    def __init__(self, read: Read, size: int, tail: bytes, name: str) -> None:
        super().__init__(read, size, tail, name)
        self._name, self._lock = name, Lock()

    def readinto(self, buffer: Any) -> int:  # Any: collections.abc.Buffer comes with Python 3.12
        start = self._position
        count = super().readinto(buffer)
        touched = [chunk for chunk in self._unchecked if chunk.start < start + count and start < chunk.end]
        if touched:
            data = bytes(memoryview(buffer).cast("B")[:count])
            for chunk in touched:
                self._check(chunk, start, data)
        return count

    def _check(self, chunk: _Chunk, start: int, data: bytes) -> None:
        """Raise DataUnreadable for a chunk with pages that are too large. `data` begins at `start`."""
        with self._lock:
            if chunk not in self._unchecked:
                return
            self._unchecked.discard(chunk)
        if not (start <= chunk.start and chunk.end <= start + len(data)):
            start, data = chunk.start, self._read(chunk.start, chunk.end - chunk.start)
        source = ObjectReader(lambda offset, length: _part(data, offset - start, length), chunk.end, b"", self.tag)
        row_group = self._metadata.row_group(chunk.group)
        rows = min(ROWS_A_BATCH, MAX_BATCH_BYTES // max(row_group.total_byte_size // max(row_group.num_rows, 1), 1))
        rows = max(min(rows, row_group.num_rows), 1)
        try:
            longest = longest_repeated(source, row_group.column(chunk.place), rows, MOST_BYTES)
        except OverflowError as fault:
            raise self._too_large(chunk, str(fault)) from fault
        except (ThriftFaultError, struct.error) as fault:
            raise self._too_large(chunk, f"invalid page header: {fault}") from fault
        if longest * rows > MOST_BYTES:
            raise self._too_large(chunk, f"{rows} rows can each have a value of {longest} bytes")

    def _too_large(self, chunk: _Chunk, reason: str) -> DataUnreadable:
        return DataUnreadable(
            f"{self._name} unpacks to more than is accepted from a share",
            code="share.limit",
            facts={"file": self._name, "column": chunk.leaf, "row group": str(chunk.group), "reason": reason},
        )

    @cached_property
    def _metadata(self) -> Any:  # Any: pyarrow has no types
        return ParquetReader(ObjectReader(self._read, self._size, self._tail, self.tag)).metadata

    @cached_property
    def _unchecked(self) -> set[_Chunk]:
        """The column chunks that were not read yet; empty where the file is not Parquet, which its reader reports."""
        import pyarrow as pa

        try:
            metadata = self._metadata
            leaves = [metadata.schema.column(place).path for place in range(len(metadata.schema))]
            found = set[_Chunk]()
            for group in range(metadata.num_row_groups):
                require_sound(metadata, group, leaves)
                row_group = metadata.row_group(group)
                found |= {_chunk_of(row_group.column(place), group, place, leaf) for place, leaf in enumerate(leaves)}
        except (pa.ArrowException, OSError):
            return set()
        return found


def _part(data: bytes, offset: int, length: int) -> bytes:
    return data[offset : offset + length] if offset >= 0 else b""


def _chunk_of(column: ArrowArray, group: int, place: int, leaf: str) -> _Chunk:
    start = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    return _Chunk(start, start + column.total_compressed_size, group, place, leaf)
