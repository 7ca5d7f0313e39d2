"""A shared table as a read-only store: a log, and data files that are ranges of URLs.

Pages that would unpack to more than memory holds are refused before Arrow reads them. The column chunks that Arrow asks
for are in memory when their page headers are checked, so this takes no request.

It is opened from the address of the table, or from a profile file.

Every operation that reads a table works on it. Nothing is asked before it is needed.

A condition is sent as a JSON hint, so that the server leaves out files. The condition is applied again on what arrives.
Only what every server evaluates in the same way is sent: comparisons of whole numbers, strings and dates with literals,
and nulls, joined by `and` and `or`. Negations are not: one server drops files with matching rows for them.

Spec: JSON predicates for Filtering.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import orjson
import pyarrow as pa

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import DataUnreadable, DeltacliError, FileMissing, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.machine import Clock, system_clock
from deltacli.core.pools import ThreadPool
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import ArrowArray, BinaryFile, Json
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.delta.log.state import is_true
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.columns import Column
from deltacli.delta.predicate.conditions import And, Compare, Condition, Contained, IsNull, Not, Or
from deltacli.delta.predicate.literals import Limit, Order
from deltacli.delta.schema.types import NO_COLUMNS, Kind, StructType, parse_schema
from deltacli.sharing.client import faults
from deltacli.sharing.client.addresses import AccessChoice, OpenOptions, ShareAddress, parse_address
from deltacli.sharing.client.shared_files import FileUrl
from deltacli.sharing.client.shared_version import (
    HiddenFile,
    LogFileBytes,
    SharedLog,
    hidden_file,
    read_change_feed,
    read_commits,
    read_version,
    version_without_files,
)
from deltacli.sharing.client.table_requests import NEWEST, AnswerHead, Query, TableRequests
from deltacli.sharing.client.transport import ENABLE_FEED, SINCE_LATER, Reply, Transport, open_profile
from deltacli.sharing.protocol.parameters import LONGEST_SENT, MOST_VALUES_SENT, NEWEST_POINT, Point
from deltacli.storage.base import PARALLEL_READS, Capabilities, FileStat, PathKind, ShouldDescend, WalkEntry
from deltacli.storage.objects.body import ObjectReader
from deltacli.storage.os_errors import translate_write_errors
from deltacli.storage.read_only import ReadOnlyFiles
from deltacli.storage.retry import Retry
from deltacli.work.checkpoints.page_sizes import find_longest_repeated_value, require_consistent_footer
from deltacli.work.rows.row_reader import MAX_BATCH_BYTES, ROWS_A_BATCH

if TYPE_CHECKING:
    from deltacli.sharing.client.shared_directory import DirectoryStorage


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
    return faults.AccessRefused("the URL of a file is not accepted", facts={"file": name, "status": str(status)})


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
            raise faults.invalid_answer("the range of a file has no total size", {"file": name})
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
                raise faults.AnswerBroken("a range of a file broke off")
            return _Part(206, data, _require_range(reply, offset, len(data)), reply.headers.get("etag"))

        return self._transport.fetch(file.url, headers, read)

    def _spill(self, reply: Reply, file: FileUrl) -> HiddenFile:
        """Write a whole file, sent instead of a range, to a file without a name."""
        most = self._transport.limits.answer_bytes if file.size_bytes is None else file.size_bytes
        size = 0
        with (
            hidden_file() as (place, opened),
            translate_write_errors(place, "a temporary file"),
            open(place, "wb") as target,
        ):
            for block in reply.blocks(most, "a file"):
                size += target.write(block)
        return HiddenFile(opened[0], size)

    def _checked(self, name: str, file: FileUrl, part: _Part, offset: int, length: int) -> bytes:
        """Return the bytes of a part. Raises for every status and size that is not as expected."""
        if part.status in EXPIRED:
            raise not_accepted(name, part.status)
        if part.status == 416:
            raise faults.other_size(name, file.size_bytes, f"at most {offset}")
        if part.status not in (200, 206):
            raise faults.ServerUnavailable(f"a file was answered with status {part.status}", facts={"file": name})
        total = part.total if part.whole is None else part.whole.size_bytes
        if file.size_bytes is not None and total not in (None, file.size_bytes):
            raise faults.other_size(name, file.size_bytes, str(total))
        self._require_same(name, part.tag)
        if part.whole is not None:
            with self._lock:
                self._whole[name] = part.whole
                while len(self._whole) > _MOST_KEPT:
                    self._whole.popitem(last=False)
            return part.whole.read(offset, length)
        if len(part.data) != length and (file.size_bytes is not None or total is None or offset + length <= total):
            raise faults.other_size(name, file.size_bytes, str(offset + len(part.data)))
        return part.data

    def _require_same(self, name: str, tag: str | None) -> None:
        """Raise DataUnreadable where the content of a file changed between two ranges."""
        if tag is None or tag.startswith("W/"):
            return
        with self._lock:
            if self._tags.setdefault(name, tag) != tag:
                raise DataUnreadable(
                    f"{name} was replaced while it was read", code=faults.DIFFERS, facts={"file": name}
                )


def _require_range(reply: Reply, offset: int, length: int) -> int | None:
    """Return the total size of a file from the header of a range. Raises AnswerInvalid for another range."""
    found = CONTENT_RANGE.fullmatch(reply.headers.get("content-range", "").strip())
    if found is None or int(found[1]) != offset or int(found[2]) != offset + length - 1:
        raise faults.invalid_answer(
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
            longest = find_longest_repeated_value(source, row_group.column(chunk.place), rows, MOST_BYTES)
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
        try:
            metadata = self._metadata
            leaves = [metadata.schema.column(place).path for place in range(len(metadata.schema))]
            found = set[_Chunk]()
            for group in range(metadata.num_row_groups):
                require_consistent_footer(metadata, group, range(len(leaves)))
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


# -- a shared table as a read-only store -------------------------------------------------------------------------------


def open_address(
    address: ShareAddress,
    *,
    retry: Retry | None = None,
    limits: faults.AnswerLimits = faults.DEFAULTS,
    clock: Clock = system_clock,
    note: Callable[[str], None] | None = None,
) -> ShareStorage:
    """Return the store of a shared table; nothing is sent yet. Raises UsageError for a profile that cannot be used."""
    transport = open_profile(address.profile, retry=retry, limits=limits, clock=clock, note=note)
    return ShareStorage(address, TableRequests(transport, address.name))


def open_share(
    text: str,
    *,
    access: str = AccessChoice.AUTO,
    preferred: AccessChoice = AccessChoice.AUTO,
    options: Mapping[str, str] = MappingProxyType({}),
    retry: Retry | None = None,
    note: Callable[[str], None] | None = None,
    clock: Clock = system_clock,
) -> ShareStorage | DirectoryStorage | None:
    """Return the store of a shared table, None where the text is not an address of one.

    `access` is `url`, `dir`, or `auto`: what the server offers; of both, what is `preferred`, by default the directory
    of a large table. `options` are those of its store. Raises UsageError, and what requests raise.
    """
    address = parse_address(text) if "#" in text else None
    if access not in list(AccessChoice):
        raise UsageError(f"access is {access!r}", code="usage.access", facts={"expected": ", ".join(AccessChoice)})
    if address is None:
        return None
    found = open_address(address, retry=retry, note=note, clock=clock)
    return directory_or(found, AccessChoice(access), OpenOptions(options, note), preferred=preferred)


def directory_or(
    share: ShareStorage, choice: AccessChoice, options: OpenOptions, *, preferred: AccessChoice = AccessChoice.AUTO
) -> ShareStorage | DirectoryStorage:
    """Return the store of the directory of a shared table, or the share where it is read by URLs."""
    from deltacli.sharing.client.shared_directory import open_directory

    found = open_directory(share.address, share.requests, choice, options, preferred=preferred)
    if found.directory is not None:
        return found.directory
    query = replace(share.query, may_wait=True) if found.is_large else share.query
    return ShareStorage(share.address, share.requests, query, head=found.head)


LOG = "_delta_log"
_HINT = f"{LOG}/_last_checkpoint"
_TAIL_BYTES = 64 << 10


class ShareStorage(ReadOnlyFiles):
    """The store of one version of a shared table. `uri` is its address, with the absolute path of the profile.

    `head`: the metadata of the newest version in the formats of the query, where they were just asked for.
    """

    def __init__(
        self,
        address: ShareAddress,
        requests: TableRequests,
        query: Query = NEWEST,
        *,
        progress: Progress = SILENT,
        head: AnswerHead | None = None,
    ) -> None:
        self.address, self.requests, self.query = address, requests, query
        self._progress, self._head = progress, head
        self._loaded: SharedLog | None = None
        self._lock = Lock()
        self._downloads = RangeReader(requests.transport, self._url_of)

    @property
    def shared(self) -> SharedLog:
        """The version, whose files are listed when it is first needed."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> SharedLog:
        return read_version(self.requests, self.query, progress=self._progress)

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> ShareStorage:
        """Return the store of another version, by its number or as the newest one at a time."""
        point = Point(version, timestamp_ms)
        if point.is_newest or point == self.query.point:
            return self
        query = replace(self.query, point=point)
        return ShareStorage(self.address, self.requests, query, progress=self._progress)

    def expecting(
        self,
        *,
        where: str | None = None,
        limit: int | None = None,
        version: int | None = None,
        at_ms: int | None = None,
    ) -> ShareStorage:
        """Return the store for one scan of the rows that match a condition, or for some rows: the server may leave out
        other files. Raises UsageError for an invalid condition.
        """
        store, hint = self.at(version, at_ms), None
        if where is not None:
            head = self._take_head() if store is self else None
            head = head or self.requests.metadata(store.query.point, store.query.formats)
            schema = parse_schema(head.delta_metadata.get("schemaString") or NO_COLUMNS)
            hint = json_hint(where, schema)
        query = replace(store.query, json_hint=hint, limit=limit if where is None else None)
        return ShareStorage(self.address, self.requests, query, progress=self._progress)

    def _take_head(self) -> AnswerHead | None:
        """Return the metadata that were asked for at the opening, once: later they may be those of an older version."""
        head, self._head = self._head, None
        return head

    def without_files(self, *, version: int | None = None, at_ms: int | None = None) -> ShareStorage:
        """Return the store of the metadata of a version, which lists no files."""
        query = replace(self.query, point=Point(version, at_ms))
        return MetadataStorage(self.address, self.requests, query, progress=self._progress)

    def between(self, first: int, last: int) -> ChangeStorage:
        """Return the store of the changes from one version to another, both included."""
        return ChangeStorage(self, first, last)

    def recent(self, limit: int) -> ChangeStorage:
        """Return the store with the commits of the newest `limit` versions (0: all) that changed rows."""
        newest = self.newest_version()
        first = max(newest - limit + 1, 0) if limit else 0
        return ChangeStorage(self, first, newest, are_commits=True)

    def newest_version(self) -> int:
        """Return the newest version that the server has."""
        return self.requests.version()

    def has_change_feed(self) -> bool:
        """Return whether the newest version says that changes are recorded."""
        head = self.requests.metadata(NEWEST_POINT, self.query.formats)
        return is_true(head.delta_metadata.get("configuration") or {}, "delta.enableChangeDataFeed")

    def version_since(self, timestamp_ms: int) -> int:
        """Return the first version committed at or after a time."""
        return self.requests.version(starting_ms=timestamp_ms)

    def version_until(self, timestamp_ms: int) -> int:
        """Return the last version committed at or before a time."""
        return self.requests.metadata(Point(timestamp_ms=timestamp_ms), self.query.formats).version

    def _url_of(self, name: str, not_this: str | None) -> FileUrl | None:
        return self.shared.url_of(name, not_this=not_this)

    # -- the port -------------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        return self.address.uri

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(has_cheap_requests=False, parallel_reads=PARALLEL_READS, atomic_create=False)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        if directory == LOG:
            found = [FileStat(name, file.size_bytes, file.modified_ms) for name, file in self.shared.log_files.items()]
        elif directory == "":
            found = [FileStat(name, self._size_of(name), 0) for name in self.shared.urls.names()]
        else:
            raise self._missing(directory)
        return iter(sorted(stat for stat in found if stat.name >= start))

    def list_directories(self, directory: str) -> list[str]:
        if directory not in ("", LOG):
            raise self._missing(directory)
        return [LOG] if directory == "" else []

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        for place in [directory, *enter(directory, self.list_directories(directory))]:
            stats = list(self.list_from(place))
            yield WalkEntry(
                place,
                [stat.name for stat in stats],
                [stat.size_bytes for stat in stats],
                [stat.modified_ms for stat in stats],
                [],
            )

    def read(self, path: str) -> bytes:
        if (file := self._log_file(path)) is not None:
            return file.read(0, file.size_bytes)
        return self._downloads.read(path, 0, self._size_of(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if (file := self._log_file(path)) is not None:
            return file.read(offset, length)
        return self._downloads.read(path, offset, length)

    def open(self, path: str) -> BinaryFile:
        if (file := self._log_file(path)) is not None:
            return ObjectReader(file.read, file.size_bytes, b"", path)
        size = self._size_of(path)
        start = max(size - _TAIL_BYTES, 0)
        tail = self._downloads.read(path, start, size - start)
        return GuardedReader(lambda offset, count: self._downloads.read(path, offset, count), size, tail, path)

    def _size_of(self, path: str) -> int:
        size = self.shared.urls.size_of(path)
        return self._downloads.size_of(path) if size is None else size

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
        return f"{self.shared.version} {path}"

    def kind_of(self, path: str) -> PathKind:
        if path in ("", LOG):
            return PathKind.DIRECTORY
        if path.startswith(f"{LOG}/"):
            return PathKind.FILE if path[len(LOG) + 1 :] in self.shared.log_files else PathKind.MISSING
        if "/" in path or "." not in path:
            return PathKind.MISSING
        return PathKind.FILE if path in self.shared.urls else PathKind.MISSING

    def stat(self, path: str) -> FileStat:
        if (file := self._log_file(path)) is not None:
            return FileStat(path.rpartition("/")[2], file.size_bytes, file.modified_ms)
        return FileStat(path, self._downloads.size_of(path), 0)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        def size_of(path: str) -> int:
            try:
                return self.stat(path).size_bytes
            except FileMissing:
                return -1

        with ThreadPool(PARALLEL_READS, thread_name_prefix="deltacli-share") as pool:
            sizes = list(pool.map(size_of, paths))
        return sizes, [-1 if size < 0 else 0 for size in sizes]

    def untimed_versions(self) -> frozenset[int]:
        return self.shared.untimed

    def knows_protocol(self) -> bool:
        return self.shared.knows_protocol

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""
        return faults.make_read_only_error(self.uri)

    def _refuse(self) -> NoReturn:
        raise self.refusal()

    # -- parts ----------------------------------------------------------------------------------------------------

    def _log_file(self, path: str) -> LogFileBytes | None:
        """Return a file of the log; None for a data file. Raises FileMissing for a path that is neither."""
        if path == _HINT:  # without asking the server
            raise self._missing(path)
        if path.startswith(f"{LOG}/"):
            found = self.shared.log_files.get(path[len(LOG) + 1 :])
            if found is None:
                raise self._missing(path)
            return found
        if path not in self.shared.urls:
            raise self._missing(path)
        return None

    def _missing(self, path: str) -> FileMissing:
        return FileMissing(f"{path} does not exist in {self.uri}")


class MetadataStorage(ShareStorage):
    """The store of protocol and metadata of a version, without files."""

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> ShareStorage:  # noqa: ARG002
        return self

    def _load(self) -> SharedLog:
        return version_without_files(self.requests, self.query)


class ChangeStorage(ShareStorage):
    """The store of the changes of a range of versions: of their rows, or with `are_commits` of their files."""

    def __init__(self, table: ShareStorage, first: int, last: int, *, are_commits: bool = False) -> None:
        super().__init__(table.address, table.requests, table.query, progress=table._progress)
        self._span, self._are_commits = (first, last), are_commits

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> ShareStorage:  # noqa: ARG002
        return self

    def _load(self) -> SharedLog:
        if self._are_commits:
            return read_commits(self.requests, *self._span, self.query.formats, self._progress)
        try:
            return read_change_feed(self.requests, *self._span, self.query.formats, self._progress)
        except faults.RequestRefused as refused:
            with suppress(DeltacliError):
                if refused.hint == SINCE_LATER and not self.has_change_feed():  # so no later version has it
                    refused.hint = ENABLE_FEED
            raise


Node = dict[str, Json]
_OPERATORS = {Order.EQUAL: "equal", Order.LESS: "lessThan", Order.LESS_EQUAL: "lessThanOrEqual"}
_OPPOSITES = {Order.LESS: "greaterThanOrEqual", Order.LESS_EQUAL: "greaterThan"}
_VALUE_TYPES: Mapping[str, str] = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "string": "string",
    "date": "date",
}
_BITS = {"int": 31, "long": 63}
_EPOCH = date(1970, 1, 1)


def json_hint(where: str, schema: StructType) -> str | None:
    """Return a hint for rows that match a condition; None where nothing can be sent. Raises UsageError."""
    node = _node_of(parse_predicate(where, schema).condition)
    text = None if node is None else orjson.dumps(node).decode()
    return text if text is not None and len(text) <= LONGEST_SENT else None


def _node_of(condition: Condition) -> Node | None:
    """Return a node that is true wherever the condition is; None for one that cannot be sent."""
    match condition:
        case Compare(column, order, limit):
            return _comparison(_OPERATORS[order], column, limit)
        case Not(Compare(column, order, limit)) if order in _OPPOSITES:
            return _comparison(_OPPOSITES[order], column, limit)
        case Contained(column, limits) if len(limits) <= MOST_VALUES_SENT:
            return _joined("or", [_comparison("equal", column, limit) for limit in limits])
        case IsNull(column) if (named := _column(column)) is not None:
            return {"op": "isNull", "children": [named]}
        case And(parts):
            kept = [node for node in map(_node_of, parts) if node is not None]
            return _joined("and", kept) if kept else None
        case Or(parts):
            return _joined("or", [_node_of(part) for part in parts])
    return None


def _joined(operator: str, nodes: Sequence[Node | None]) -> Node | None:
    if not nodes or any(node is None for node in nodes):
        return None
    return nodes[0] if len(nodes) == 1 else {"op": operator, "children": list(nodes)}


def _comparison(operator: str, column: Column, limit: Limit) -> Node | None:
    named = _column(column)
    if named is None:
        return None
    text = _text_of(limit.value, named["valueType"])
    if text is None:
        return None
    literal = {"op": "literal", "value": text, "valueType": named["valueType"]}
    return {"op": operator, "children": [named, literal]}


def _column(column: Column) -> Node | None:
    """Return a top-level column of a type that can be sent."""
    kind = _VALUE_TYPES.get(column.type_name if column.kind is not Kind.WHOLE else _whole_name(column))
    if kind is None or column.is_nested:
        return None
    return {"op": "column", "name": column.path[0], "valueType": kind}


def _whole_name(column: Column) -> str:
    name = getattr(column.data_type, "name", "")
    return name if isinstance(name, str) else ""


def _text_of(value: object, value_type: str) -> str | None:
    """Return a literal in the form of its type; None for one that the type does not hold."""
    if value_type == "string":  # servers in Java order what follows by UTF-16, and others by code points
        return value if isinstance(value, str) and max(value, default="") < "\ud800" else None
    if not isinstance(value, Fraction | int) or value != int(value):
        return None
    whole = int(value)
    if value_type != "date":
        return str(whole) if abs(whole) < 1 << _BITS[value_type] else None
    try:
        return (_EPOCH + timedelta(days=whole)).isoformat()
    except OverflowError:
        return None
