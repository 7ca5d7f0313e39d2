"""Encode the Parquet files of checkpoints and their sidecars, a row group at a time.

Spec: Checkpoints.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from deltacli.core.garbage_collection import POLL_SECONDS
from deltacli.core.pools import TaskTracker
from deltacli.core.typing import ArrowArray
from deltacli.delta.checkpoint.content import (
    counted_leaves,
    dictionary_leaves,
)
from deltacli.delta.encoding.digests import RowDigest
from deltacli.delta.schema.file_columns import describe_calendar
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.parquet_encoding import Encoding

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


ROWS_PER_GROUP = 65_536
BYTES_A_GROUP = 64 << 20
"""Maximum bytes of a row group in memory. 65,536 adds with 800 bytes of statistics each fit into one row group.

Without this limit, 250 adds with 2 MB of statistics each took 1.2 GB.
"""
_PAGE_BYTES = 1 << 20
FILE_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """The expected content of a file: the number of rows of each kind, and the digest of every row group."""

    size_bytes: int
    actions: Mapping[str, int]
    digests: tuple[tuple[int, tuple[int, ...]], ...] = field(repr=False)
    """Rows and digest of each row group."""
    checksum: int
    """CRC-32 of all bytes."""
    footer: pyarrow.parquet.FileMetaData = field(repr=False, compare=False)

    @property
    def rows(self) -> int:
        return sum(self.actions.values())


class _Sink:
    """A local file for writing that computes the CRC-32 of the bytes written."""

    def __init__(self, local_path: str) -> None:
        self._file = open(local_path, "wb", buffering=FILE_BLOCK_BYTES)  # noqa: SIM115  (closed by `close`)
        self.checksum = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class FileEncoder:
    """Writes one Parquet file of a checkpoint. Use it in a `with` statement; `finish` returns what was written.

    Raises StorageFailed if the file cannot be written.
    """

    def __init__(
        self,
        local_path: str,
        schema: pyarrow.Schema,
        encoding: Encoding,
        *,
        name: str | None = None,
        rows_a_group: int = ROWS_PER_GROUP,
        bytes_a_group: int = BYTES_A_GROUP,
    ) -> None:
        """Open the file for writing.

        Args:
            local_path: Where to write.
            schema: The schema of the checkpoint.
            encoding: The codec and the page version.
            name: The name of the file in errors; by default its path.
            rows_a_group: Maximum number of rows in a row group.
            bytes_a_group: Maximum bytes of a row group in memory.
        """
        import pyarrow.parquet

        self._place = local_path
        self._name = local_path if name is None else name
        self._schema = schema
        self._rows_a_group = rows_a_group
        self._bytes_a_group = bytes_a_group
        self._absent: dict[str, ArrowArray] = {}
        self._pending: dict[str, list[Any]] = {}
        self._pending_rows: dict[str, int] = {}
        self._pending_bytes: dict[str, int] = {}
        self._actions: dict[str, int] = {}
        self._digests: list[Future[tuple[int, tuple[int, ...]]]] = []
        # One thread digests a row group while another one encodes it.
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="deltacli-encode")
        self._flights = TaskTracker(self._encode)
        self._writing: Future[None] | None = None
        self._footers: list[pyarrow.parquet.FileMetaData] = []
        with translate_write_errors(local_path, self._name):
            self._sink = _Sink(local_path)
            self._writer = pyarrow.parquet.ParquetWriter(
                self._sink,
                schema,
                compression=encoding.codec,
                data_page_version=encoding.page_version,
                version="2.4",
                use_dictionary=dictionary_leaves(schema) or False,
                write_statistics=counted_leaves(schema),
                data_page_size=_PAGE_BYTES,
                store_schema=False,
                write_page_index=False,
                metadata_collector=self._footers,
            )
            # Parsed statistics and partition values may have dates and times, whose calendar Spark has to know.
            if calendar := describe_calendar(schema):
                self._writer.add_key_value_metadata(calendar)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._flights.wait_idle()  # closing a writer while another thread writes crashes the process
        self._workers.shutdown()
        # If a row could not be written, the footer cannot be written either; without memory it cannot be encoded.
        with suppress(OSError, MemoryError, RuntimeError):
            self._writer.close()
        self._writer.is_open = (
            False  # a writer that could not be closed tries again when it is garbage-collected, and prints an error
        )
        with suppress(OSError):
            self._sink.close()

    def add_rows(self, rows: pyarrow.Table) -> None:
        """Write rows of several kinds as a separate row group."""
        for name in rows.schema.names:
            column = rows.column(name)
            self._count(name, len(column) - column.null_count)
        self._write(rows)

    def add(self, kind: str, actions: ArrowArray) -> None:
        """Collect actions of one kind. They are written once there are enough for a row group."""
        self._pending.setdefault(kind, []).append(actions)
        self._pending_rows[kind] = self._pending_rows.get(kind, 0) + len(actions)
        self._pending_bytes[kind] = self._pending_bytes.get(kind, 0) + actions.nbytes
        if self._pending_rows[kind] >= self._rows_a_group or self._pending_bytes[kind] >= self._bytes_a_group:
            self._flush(kind)

    @property
    def rows(self) -> int:
        return sum(self._actions.values()) + sum(self._pending_rows.values())

    def finish(self) -> EncodedFile:
        """Write the remaining rows and close the file."""
        for kind in list(self._pending):
            self._flush(kind)
        self._settle()
        with translate_write_errors(self._place, self._name):
            self._writer.close()
            self._sink.close()
            size = os.stat(self._place).st_size
        digests = tuple(future.result() for future in self._digests)
        (footer,) = self._footers
        return EncodedFile(size, dict(self._actions), digests, self._sink.checksum, footer)

    def _flush(self, kind: str) -> None:
        chunks = self._pending.pop(kind)
        rows = self._pending_rows.pop(kind)
        self._pending_bytes.pop(kind)
        if not rows:
            return
        column = pa.chunked_array(chunks)
        columns = [column if field.name == kind else self._nulls(field, rows) for field in self._schema]
        self._count(kind, rows)
        self._write(pa.Table.from_arrays(columns, schema=self._schema))

    def _nulls(self, field: Any, rows: int) -> Any:
        known = self._absent.get(field.name)
        if known is None or len(known) < rows:
            known = self._absent[field.name] = pa.nulls(rows, field.type)
        return known.slice(0, rows)

    def _write(self, rows: pyarrow.Table) -> None:
        """Write a row group after the previous one: at most two are in memory, one of them being collected."""
        self._settle()
        self._digests.append(self._workers.submit(digest_row_group, rows))
        self._writing = self._workers.submit(self._flights.run, rows)

    def _encode(self, rows: pyarrow.Table) -> None:
        with translate_write_errors(self._place, self._name):
            self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def _settle(self) -> None:
        """Wait for writes in progress. Raises the errors that they raised."""
        running: list[Future[Any]] = [*self._digests[-1:]]
        if self._writing is not None:
            running.append(self._writing)
        while wait(running, timeout=POLL_SECONDS).not_done:  # no single long wait: it could miss a signal
            continue
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _count(self, kind: str, rows: int) -> None:
        if rows:
            self._actions[kind] = self._actions.get(kind, 0) + rows


def digest_row_group(rows: pyarrow.Table) -> tuple[int, tuple[int, ...]]:
    digest = RowDigest(rows.schema)
    digest.take(rows)
    return rows.num_rows, digest.answer()
