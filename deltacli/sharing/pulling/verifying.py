"""Checks of downloaded files before they become files of a table: Parquet footers, rows, and deletion vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import BoundedSemaphore, local
from typing import Any

from deltacli.core.typing import JsonObject
from deltacli.delta.footers.parse import FooterReader
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.sharing.client.faults import clean, invalid_file, other_size
from deltacli.work.rows.vector_bytes import AROUND, VectorFaultError, parse_vector, stored_data_of

_decoding = BoundedSemaphore(os.cpu_count() or 1)
Read = Callable[[int, int], bytes]
"""Gets an offset and a length; returns bytes of a file."""

_MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_TAIL_BYTES = 64 << 10
_LEAST_BYTES = 12
_MOST_FOOTER_BYTES = 512 << 20
_readers = local()


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file to download. `size_bytes` and `rows` are None where they are unknown; a file of deletion vectors has
    `vectors`, the descriptors of those that are needed.
    """

    name: str
    size_bytes: int | None = None
    rows: int | None = None
    vectors: tuple[JsonObject, ...] = field(default=())

    @property
    def least_bytes(self) -> int:
        """Return how many bytes the file has at least."""
        if self.size_bytes is not None:
            return self.size_bytes
        return max((_place_of(one)[0] + _place_of(one)[1] + AROUND for one in self.vectors), default=0)


def verify(wanted: WantedFile, size_bytes: int, read: Read) -> None:
    """Raise DataUnreadable unless the bytes are the file that the shared table has."""
    if wanted.size_bytes is not None and size_bytes != wanted.size_bytes:
        raise other_size(wanted.name, wanted.size_bytes, size_bytes)
    if wanted.vectors:
        _verify_vectors(wanted, read)
    else:
        _verify_footer(wanted, size_bytes, read)


def decode(wanted: WantedFile, size_bytes: int, read: Read) -> None:
    """Raise DataUnreadable unless every page of a data file can be decoded, has its checksum where it has one, and the
    columns of each row group have the rows that the footer declares; and for pages that unpack to more than is accepted
    from a share. One column of a row group is in memory at a time.
    """
    import pyarrow as pa

    from deltacli.arrow.parquet import ParquetReader
    from deltacli.sharing.client.tables.downloads import GuardedReader
    from deltacli.work.rows.row_reader import MAX_BATCH_BYTES, ROWS_A_BATCH

    tail = min(size_bytes, _TAIL_BYTES)
    try:
        with _decoding:
            source = GuardedReader(read, size_bytes, read(size_bytes - tail, tail), wanted.name)
            reader = ParquetReader(source, verify_pages=True)
            for group in range(reader.metadata.num_row_groups):
                row_group = reader.metadata.row_group(group)
                rows = row_group.num_rows
                at_once = max(
                    min(ROWS_A_BATCH, MAX_BATCH_BYTES // max(row_group.total_byte_size // max(rows, 1), 1)), 1
                )
                for leaf in range(reader.metadata.num_columns):
                    found = sum(batch.num_rows for batch in reader.read_leaves(at_once, group, [leaf]))
                    if found != rows:
                        facts = {"row group": str(group), "declared": f"{rows} rows", "found": f"{found} rows"}
                        raise invalid_file(wanted.name, "a column has another number of rows than its footer", facts)
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise invalid_file(wanted.name, f"its data cannot be decoded: {clean(fault)}") from fault


def _verify_footer(wanted: WantedFile, size_bytes: int, read: Read) -> None:
    start = max(size_bytes - _TAIL_BYTES, 0)
    tail = read(start, size_bytes - start)
    magic = tail[-4:]
    if magic == _ENCRYPTED:
        raise invalid_file(wanted.name, "its footer is encrypted")
    if size_bytes < _LEAST_BYTES or magic != _MAGIC or read(0, 4) != _MAGIC:
        raise invalid_file(wanted.name, "it is not a Parquet file")
    length = int.from_bytes(tail[-8:-4], "little")
    if not 0 < length <= min(size_bytes - _LEAST_BYTES, _MOST_FOOTER_BYTES):
        raise invalid_file(wanted.name, f"its footer cannot have {length:,} bytes")
    data = tail[-8 - length : -8] if length + 8 <= len(tail) else read(size_bytes - 8 - length, length)
    try:
        rows = _reader().read(data).rows
    except ThriftFaultError as fault:
        raise invalid_file(wanted.name, f"its footer cannot be read: {fault}") from fault
    if wanted.rows is not None and rows != wanted.rows:
        facts = {"declared": f"{wanted.rows} rows", "found": f"{rows} rows"}
        raise invalid_file(wanted.name, "it has another number of rows than the server declared", facts)


def _reader() -> FooterReader:
    """Return the reader of this thread, which remembers the shapes of footers."""
    if (found := getattr(_readers, "reader", None)) is None:
        found = _readers.reader = FooterReader()
    return found


def _verify_vectors(wanted: WantedFile, read: Read) -> None:
    for descriptor in wanted.vectors:
        offset, size = _place_of(descriptor)
        try:
            data = stored_data_of(size, offset + size + AROUND, read(offset, size + AROUND))
            parse_vector(descriptor, data)
        except VectorFaultError as fault:
            raise invalid_file(wanted.name, f"a deletion vector in it cannot be read: {fault}") from fault


def _place_of(descriptor: Mapping[str, Any]) -> tuple[int, int]:
    """Return the offset and the size of a vector. Raises DataUnreadable."""
    offset, size = descriptor.get("offset"), descriptor.get("sizeInBytes")
    offset = 1 if offset is None else offset
    if type(offset) is not int or type(size) is not int or offset < 0 or not 0 <= size <= _MOST_FOOTER_BYTES:
        raise invalid_file("a deletion vector", "its descriptor has no valid place")
    return offset, size
