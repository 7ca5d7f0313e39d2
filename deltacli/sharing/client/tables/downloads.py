"""Bytes of shared files by their URLs: ranges, checked against the size that the server declared, and data files as
seekable files.

Pages that would unpack to more than memory holds are refused before Arrow reads them. The column chunks that Arrow asks
for are in memory when their page headers are checked, so this takes no request.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.cached import cached_property
from deltacli.core.errors import DataUnreadable, DeltacliError, FileMissing
from deltacli.core.typing import ArrowArray
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.sharing.client.faults import DIFFERS, AccessRefused, AnswerBroken, ServerUnavailable, invalid, other_size
from deltacli.sharing.client.tables.shared_files import FileUrl
from deltacli.sharing.client.tables.shared_version import HiddenFile, hidden_file
from deltacli.sharing.client.transport import Reply, Transport
from deltacli.storage.disk_faults import writing_faults
from deltacli.storage.objects.contents import ObjectReader
from deltacli.work.checkpoints.reading_limits import longest_repeated, require_sound
from deltacli.work.rows.row_reader import MAX_BATCH_BYTES, ROWS_A_BATCH

FindUrl = Callable[[str, str | None], FileUrl | None]
"""Gets the name of a file and a URL that was not accepted, or None; returns its URL, None for an unknown name."""

CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")
EXPIRED = frozenset({400, 401, 403, 404, 410})
_MOST_KEPT = 4


def find_url(url_of: FindUrl, name: str, not_this: str | None) -> FileUrl:
    """Return the URL of a file. Raises FileMissing for a name that no file of the version has."""
    found = url_of(name, not_this)
    if found is None:
        raise FileMissing(f"{name} is not a file of this version")
    return found


def not_accepted(name: str, status: int) -> DeltacliError:
    """Return the error for a URL that was not accepted, and neither was a new one."""
    if status in (404, 410):
        return FileMissing(
            f"{name} does not exist at the URL that the server sent",
            hint="run the command again: it reads the newest version, whose files the provider has",
        )
    return AccessRefused("the URL of a file is not accepted", facts={"file": name, "status": str(status)})


class _Part(NamedTuple):
    """A range of a file as a server sent it; `whole` where it sent the whole file instead."""

    status: int
    data: bytes = b""
    total: int | None = None
    tag: str | None = None
    whole: HiddenFile | None = None


class RangeReader:
    """Reads ranges of files, from any thread. URLs that are not accepted are renewed once."""

    def __init__(self, transport: Transport, find_url: FindUrl) -> None:
        self._transport, self._find_url = transport, find_url
        self._tags: dict[str, str] = {}
        self._whole: OrderedDict[str, HiddenFile] = OrderedDict()
        self._lock = Lock()

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return bytes of a file, fewer only where it ends. Raises FileMissing for an unknown name, DataUnreadable
        where the file is not what the server declared.
        """
        with self._lock:
            kept = self._whole.get(name)
        if kept is not None:
            return kept.read(offset, length)
        found = find_url(self._find_url, name, None)
        if found.size_bytes is not None:
            length = min(length, found.size_bytes - offset)
        if length <= 0:
            return b""
        part = self._ask(found, offset, length)
        if part.status in EXPIRED:
            found = find_url(self._find_url, name, found.url)
            part = self._ask(found, offset, length)
        return self._checked(name, found, part, offset, length)

    def size_of(self, name: str) -> int:
        """Return the bytes of a file as its own store says. Raises what `read` raises."""
        found = find_url(self._find_url, name, None)
        part = self._ask(found, 0, 1)
        if part.status in EXPIRED:
            found = find_url(self._find_url, name, found.url)
            part = self._ask(found, 0, 1)
        if part.status == 416:
            return 0
        self._checked(name, found._replace(size_bytes=None), part, 0, 1)
        size = part.whole.size_bytes if part.whole is not None else part.total
        if size is None:
            raise invalid("the range of a file has no total size", {"file": name})
        return size

    def _ask(self, file: FileUrl, offset: int, length: int) -> _Part:
        headers = {"Range": f"bytes={offset}-{offset + length - 1}"}

        def read(reply: Reply) -> _Part:
            if reply.status == 200:
                return _Part(200, tag=reply.headers.get("etag"), whole=self._spill(reply, file))
            if reply.status != 206:
                return _Part(reply.status)
            data = reply.whole(length, "a range of a file")
            if len(data) < length and file.size_bytes is not None and not reply.is_framed:
                raise AnswerBroken("a range of a file broke off")
            return _Part(206, data, _require_range(reply, offset, len(data)), reply.headers.get("etag"))

        return self._transport.fetch(file.url, headers, read)

    def _spill(self, reply: Reply, file: FileUrl) -> HiddenFile:
        """Write a whole file, sent instead of a range, to a file without a name."""
        most = self._transport.limits.answer_bytes if file.size_bytes is None else file.size_bytes
        size = 0
        with hidden_file() as (place, opened), writing_faults(place, "a temporary file"), open(place, "wb") as target:
            for block in reply.blocks(most, "a file"):
                size += target.write(block)
        return HiddenFile(opened[0], size)

    def _checked(self, name: str, file: FileUrl, part: _Part, offset: int, length: int) -> bytes:
        """Return the bytes of a part. Raises for every status and size that is not as expected."""
        if part.status in EXPIRED:
            raise not_accepted(name, part.status)
        if part.status == 416:
            raise other_size(name, file.size_bytes, f"at most {offset}")
        if part.status not in (200, 206):
            raise ServerUnavailable(f"a file was answered with status {part.status}", facts={"file": name})
        total = part.total if part.whole is None else part.whole.size_bytes
        if file.size_bytes is not None and total not in (None, file.size_bytes):
            raise other_size(name, file.size_bytes, str(total))
        self._require_same(name, part.tag)
        if part.whole is not None:
            self._keep(name, part.whole)
            return part.whole.read(offset, length)
        if len(part.data) != length and (file.size_bytes is not None or total is None or offset + length <= total):
            raise other_size(name, file.size_bytes, str(offset + len(part.data)))
        return part.data

    def _require_same(self, name: str, tag: str | None) -> None:
        """Raise DataUnreadable where the content of a file changed between two ranges."""
        if tag is None or tag.startswith("W/"):
            return
        with self._lock:
            if self._tags.setdefault(name, tag) != tag:
                raise DataUnreadable(f"{name} was replaced while it was read", code=DIFFERS, facts={"file": name})

    def _keep(self, name: str, whole: HiddenFile) -> None:
        with self._lock:
            self._whole[name] = whole
            while len(self._whole) > _MOST_KEPT:
                self._whole.popitem(last=False)


def _require_range(reply: Reply, offset: int, length: int) -> int | None:
    """Return the total size of a file from the header of a range. Raises AnswerInvalid for another range."""
    found = CONTENT_RANGE.fullmatch(reply.headers.get("content-range", "").strip())
    if found is None or int(found[1]) != offset or int(found[2]) != offset + length - 1:
        raise invalid(
            "a range of a file is not the one asked for",
            {"asked": offset, "found": reply.headers.get("content-range", "no content-range"), "bytes": length},
        )
    return None if found[3] == "*" else int(found[3])


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
