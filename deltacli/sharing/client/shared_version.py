"""Versions of a shared table as the client holds them: as a log, which no server sends; so also a change data feed.

So the rows of changes are read as from any other log.

Spec: Checkpoints; Read Change Data Feed from a Table; Data Change Files.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson
import pyarrow.compute as pc

from deltacli.core.errors import Unreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import SILENT, Progress
from deltacli.core.texts import add_article
from deltacli.delta.checkpoint.content import Columns, checkpoint_schema, small_rows, struct_of_actions
from deltacli.delta.checkpoint.layout import classic_path
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.schema.types import NO_COLUMNS, PHYSICAL_NAME, parse_schema
from deltacli.sharing.client.faults import FilesMovedOn, RequestRefused, invalid_answer, too_much
from deltacli.sharing.client.shared_files import LEAST_BYTES, FileUrl, StoredUrls, read_file, read_files
from deltacli.sharing.client.table_requests import (
    ActionLine,
    AnswerHead,
    ChangeQuery,
    LineGroup,
    Pages,
    Query,
    TableRequests,
)
from deltacli.sharing.protocol.parameters import Point, ResponseFormat
from deltacli.storage.open_descriptor import OpenDescriptor
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.checkpoints.encoding import FileEncoder
from deltacli.work.parquet_encoding import Encoding

if TYPE_CHECKING:
    import pyarrow


EARLY_MS = 30_000
"""A URL is replaced this long before it expires."""


class LogFileBytes(NamedTuple):
    """A file of the log. `read` gets an offset and a length."""

    size_bytes: int
    modified_ms: int
    read: Callable[[int, int], bytes]


class SharedLog(Protocol):
    """A log, and the URLs of the files that it names."""

    @property
    def version(self) -> int:
        """The newest version."""

    @property
    def urls(self) -> StoredUrls: ...

    @property
    def untimed(self) -> frozenset[int]:
        """The versions whose times the server did not tell."""

    @property
    def knows_protocol(self) -> bool:
        """Whether the answers have the protocol of the table: those of the delta format do."""

    @property
    def log_files(self) -> Mapping[str, LogFileBytes]:
        """The files of `_delta_log` by their names."""

    def url_of(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file, None for an unknown name. One that expires soon, or that is `not_this`, is renewed.

        Raises FilesMovedOn where the server does not share the file any more.
        """


@dataclass
class RenewedLog(ABC):
    """A log whose URLs are renewed before they expire, and when one is not accepted any more: once for all threads.

    Where new ones would have to be renewed at once, the clocks of server and client differ too much, and URLs are used
    until one is not accepted.
    """

    requests: TableRequests
    urls: StoredUrls
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _ignores_times: bool = field(default=False, init=False)

    @abstractmethod
    def renewed(self) -> StoredUrls:
        """Return new URLs of the same files."""

    def url_of(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file as `SharedLog.url_of` does."""
        found = self.urls.find(name)
        if found is None or not self._is_stale(found, not_this):
            return found
        with self._lock:
            found = self.urls.find(name)
            if found is not None and not self._is_stale(found, not_this):
                return found
            self.urls = self.renewed()
            found = self.urls.find(name)
            if found is None:
                raise FilesMovedOn("the server does not share a file of this version any more", facts={"file": name})
            self._ignores_times = self._ignores_times or self._is_late(found)
            return found

    def _is_stale(self, url: FileUrl, not_this: str | None) -> bool:
        return url.url == not_this or (not self._ignores_times and self._is_late(url))

    def _is_late(self, url: FileUrl) -> bool:
        return url.expires_ms is not None and url.expires_ms - EARLY_MS <= self.requests.transport.clock()


_ACTIONS_A_BATCH = 8_192
_KINDS = ("add", "metaData", "protocol")
_SOURCE = "the answer of the sharing server"


class CheckpointOfAnswer:
    """Collects the adds of an answer and writes them to a file without a name."""

    def __init__(self, place: str, head: AnswerHead) -> None:
        self._schema = checkpoint_schema(Columns(), kinds=_KINDS)
        self._encoder = FileEncoder(place, self._schema, Encoding(), name="the list of shared files")
        self._pending: list[Action] = []
        small = [("protocol", head.delta_protocol), ("metaData", head.delta_metadata)]
        self._encoder.add_rows(small_rows(small, self._schema))

    def add(self, action: Action) -> None:
        """Add a file."""
        self._pending.append(action)
        if len(self._pending) >= _ACTIONS_A_BATCH:
            self._flush()

    def add_rows(self, rows: pyarrow.RecordBatch) -> None:
        """Add many files, in columns of adds."""
        self._flush()
        self._encoder.add("add", struct_of_actions(rows, self._schema.field("add").type, {}))

    def finish(self) -> int:
        """Write the rest and return the bytes of the checkpoint."""
        self._flush()
        return self._encoder.finish().size_bytes

    def close(self) -> None:
        """Release the file."""
        self._encoder.__exit__()

    def _flush(self) -> None:
        if self._pending:
            self._encoder.add("add", adds_of(self._pending, self._schema.field("add").type))
            self._pending = []


def adds_of(actions: list[Action], kind: Any) -> Any:  # Any: an Arrow struct type, a struct array
    """Return adds as found as the struct of a checkpoint. Raises CommitCorrupt."""
    rows: pyarrow.RecordBatch = build_action_batch(actions, action_schemas().add, _SOURCE)
    return struct_of_actions(rows, kind, {})


class HiddenFile:
    """The bytes of a file without a name, released with this object."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self._file = OpenDescriptor(descriptor)
        self.size_bytes = size_bytes

    def read(self, offset: int, length: int) -> bytes:
        parts, end = [], min(offset + length, self.size_bytes)
        while offset < end and (data := os.pread(self._file.number, end - offset, offset)):
            parts.append(data)
            offset += len(data)
        return b"".join(parts)


@contextmanager
def hidden_file() -> Iterator[tuple[str, list[int]]]:
    """Yield the path of an empty file, and a list that has its open descriptor afterwards, when its name is gone."""
    with translate_write_errors(tempfile.gettempdir(), "a temporary file"):
        written, place = tempfile.mkstemp(prefix="deltacli-share-")
    os.close(written)
    opened: list[int] = []
    try:
        yield place, opened
        opened.append(os.open(place, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        with suppress(OSError):
            os.unlink(place)


NOT_FILES = ("protocol", "metaData")
_MOST_MISSES = 3
_COMMIT = b'{"commitInfo":{}}\n'


@dataclass
class SharedVersion(RenewedLog):
    """A version whose files were listed."""

    query: Query
    head: AnswerHead
    checkpoint: HiddenFile
    refresh_token: str | None
    timestamp_ms: int | None = None

    @property
    def version(self) -> int:
        return self.head.version

    @property
    def untimed(self) -> frozenset[int]:
        """None: a version without a time has no commit."""
        return frozenset()

    @property
    def knows_protocol(self) -> bool:
        return self.head.form is ResponseFormat.DELTA

    @cached_property
    def log_files(self) -> Mapping[str, LogFileBytes]:
        """A checkpoint, and a commit without actions that has the time of the version, where the server told it."""
        name = classic_path(self.version).rpartition("/")[2]
        found = {name: LogFileBytes(self.checkpoint.size_bytes, self.timestamp_ms or 0, self.checkpoint.read)}
        if self.timestamp_ms is not None:
            found[f"{self.version:020}.json"] = LogFileBytes(
                len(_COMMIT), self.timestamp_ms, lambda offset, length: _COMMIT[offset : offset + length]
            )
        return found

    def renewed(self) -> StoredUrls:
        """Return new URLs: by the refresh token, else of the same version by its number, else of the newest version,
        which has the same files unless the table was changed.
        """
        before = self.urls

        def read(pages: Pages) -> StoredUrls:
            found = urls_again(pages, before)
            self.refresh_token = pages.end.refresh_token or self.refresh_token
            return found

        by_number = replace(self.query, point=Point(self.version))
        ways = [by_number, *([self.query] if self.query.point.is_newest else [])]
        if self.refresh_token is not None:
            ways.insert(0, replace(self.query, refresh_token=self.refresh_token))
        for query in ways[:-1]:
            with suppress(RequestRefused):
                return self.requests.query(query, read)
        return self.requests.query(ways[-1], read)


def urls_again(pages: Pages, before: StoredUrls) -> StoredUrls:
    """Return the URLs of files that were listed before. Raises FilesMovedOn where one has another size now."""
    found = StoredUrls()
    for line in pages.actions:
        if line.kind in NOT_FILES:
            continue
        file = read_file(line, pages.head.form)
        if file.name in before:
            file.add_urls(found)
            if file.size_bytes not in (None, before.size_of(file.name)):
                raise FilesMovedOn("the server changed the size of a file", facts={"file": file.name})
    found.finish()
    return found


def read_version(requests: TableRequests, query: Query, *, progress: Progress = SILENT) -> SharedVersion:
    """List the files of a version. Raises AnswerInvalid, and what requests raise."""
    return requests.query(query, lambda pages: _read_pages(requests, query, pages, progress))


def version_without_files(requests: TableRequests, query: Query) -> SharedVersion:
    """Return protocol and metadata of a version as one without files."""
    head = requests.metadata(query.point, query.formats)
    return _read_pages(requests, query, Pages(head, iter(()), []), SILENT)


def _read_pages(requests: TableRequests, query: Query, pages: Pages, progress: Progress) -> SharedVersion:
    if query.point.version is not None and pages.head.version != query.point.version:
        raise invalid_answer("it is another version", {"asked": query.point.version, "found": pages.head.version})
    urls, times = StoredUrls(), set[int]()
    with hidden_file() as (place, opened):
        writer = CheckpointOfAnswer(place, pages.head)
        try:
            taker = _Taker(pages.head, writer, urls, times, partition_keys(pages.head))
            _take_files(pages, taker, requests.transport.limits.files, progress)
            size = writer.finish()
        finally:
            writer.close()
    urls.finish()
    found = HiddenFile(opened[0], size)
    timestamp_ms = times.pop() if len(times) == 1 else None
    return SharedVersion(requests, urls, query, pages.head, found, pages.end.refresh_token, timestamp_ms)


def partition_keys(head: AnswerHead) -> tuple[str, ...]:
    """Return the keys that partition values have: the names of the partition columns in files. They are not checked."""
    metadata = head.delta_metadata
    try:
        schema = parse_schema(metadata.get("schemaString") or NO_COLUMNS)
        fields = {field.name: field for field in schema.fields}
        physical = {name: field.metadata.get(PHYSICAL_NAME, name) for name, field in fields.items()}
    except Unreadable:
        physical = {}
    columns = metadata.get("partitionColumns")
    names = [name for name in columns if isinstance(name, str)] if isinstance(columns, list) else []
    found = (physical.get(name, name) for name in names)
    return tuple(dict.fromkeys(name for name in found if isinstance(name, str)))


@dataclass
class _Taker:
    """Takes the files of an answer into a checkpoint and a list of URLs."""

    head: AnswerHead
    writer: CheckpointOfAnswer
    urls: StoredUrls
    times: set[int]
    partitions: tuple[str, ...]
    misses: int = 0
    """Groups in a row that had to be read line by line."""

    def take_columns(self, group: LineGroup) -> int:
        """Take all files of a group and return their number; 0 where it has to be read line by line."""
        if len(group.text) < LEAST_BYTES or self.misses >= _MOST_MISSES:
            return 0
        files = read_files(group.text, self.head.form, self.partitions)
        names = [] if files is None else files.names.to_pylist()
        if files is None or self.urls.has_any(names) or (pc.max(files.versions).as_py() or 0) > self.head.version:
            self.misses += 1
            return 0
        for name, (url, expires_ms) in files.vectors.items():
            self.urls.add(name, url, None, expires_ms)
        self.urls.add_columns(names, files.urls, files.sizes, files.expires_ms)
        self.writer.add_rows(files.adds)
        self.times.update(time for time in pc.unique(files.timestamps_ms).to_pylist() if time is not None)
        self.misses = 0
        return len(names)

    def take_line(self, line: ActionLine) -> None:
        """Take one file. Raises AnswerInvalid."""
        file = read_file(line, self.head.form)
        if file.kind != "add":
            raise invalid_answer(f"the list of files contains {add_article(file.kind)}", {"id": file.file_id})
        if file.version is not None and file.version > self.head.version:
            raise invalid_answer("a file is newer than the version", {"id": file.file_id, "version": file.version})
        if not file.add_urls(self.urls):
            raise invalid_answer("the list of files names a file twice", {"id": file.file_id})
        self.writer.add(file.action)
        if file.timestamp_ms is not None:
            self.times.add(file.timestamp_ms)


def _take_files(pages: Pages, taker: _Taker, most: int, progress: Progress) -> None:
    total = pages.head.metadata.get("numFiles")
    total = total if type(total) is int and total > 0 else None
    count = 0
    with progress.step("listing shared files", unit="files", total=total) as step:
        for group in pages.groups:
            taken = taker.take_columns(group)
            step.advance(taken)
            count += taken
            for line in () if taken else group.actions():
                taker.take_line(line)
                step.advance()
                count += 1
                if count > most:
                    break
            if count > most:
                raise too_much("the list of files", f"{most:,} files")


# -- a change data feed as a log ---------------------------------------------------------------------------------------

_BUFFERED_BYTES = 1 << 20
_WITH_CHANGES = ("add", "remove")
_INFO = b'{"commitInfo":{}}\n'


@dataclass
class _Commits:
    """The lines of each version, collected in a file in the order in which they come."""

    place: str
    times: dict[int, int] = field(default_factory=dict)
    parts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _pending: list[bytes] = field(default_factory=list)
    _pending_bytes: int = 0
    end: int = 0

    def add(self, version: int, kind: str, action: Action) -> None:
        line = orjson.dumps({kind: action}) + b"\n"
        parts = self.parts.setdefault(version, [])
        if parts and sum(parts[-1]) == self.end:
            parts[-1] = (parts[-1][0], parts[-1][1] + len(line))
        else:
            parts.append((self.end, len(line)))
        self.end += len(line)
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes >= _BUFFERED_BYTES:
            self.flush()

    def note_time(self, version: int, timestamp_ms: int) -> None:
        """Remember when a version was committed. Raises AnswerInvalid for two times."""
        if self.times.setdefault(version, timestamp_ms) != timestamp_ms:
            raise invalid_answer("the files of one version have different timestamps", {"version": version})

    def flush(self) -> None:
        with translate_write_errors(self.place, "a temporary file"), open(self.place, "ab") as file:
            file.write(b"".join(self._pending))
        self._pending, self._pending_bytes = [], 0


@dataclass
class SharedChanges(RenewedLog):
    """The changes of a range of versions."""

    query: ChangeQuery | Query
    head: AnswerHead
    first: int
    last: int
    checkpoint: HiddenFile
    lines: HiddenFile
    parts: Mapping[int, list[tuple[int, int]]]
    times: Mapping[int, int]

    @property
    def version(self) -> int:
        return self.last

    @property
    def untimed(self) -> frozenset[int]:
        """The versions without files, whose times no line has."""
        return frozenset(range(self.first, self.last + 1)) - self.times.keys()

    @property
    def knows_protocol(self) -> bool:
        return self.head.form is ResponseFormat.DELTA

    @cached_property
    def log_files(self) -> Mapping[str, LogFileBytes]:
        """A checkpoint at the first version, and the commits. One without changes has a time between its neighbours."""
        name = classic_path(self.first).rpartition("/")[2]
        found = {name: LogFileBytes(self.checkpoint.size_bytes, 0, self.checkpoint.read)}
        time_ms, is_feed = 0, isinstance(self.query, ChangeQuery)
        for version in range(self.first, self.last + 1) if is_feed else sorted(self.parts):
            time_ms = self.times.get(version, time_ms + 1)
            parts = _Parts(self.lines, tuple(self.parts.get(version, ())), _INFO if is_feed else b"")
            found[f"{version:020}.json"] = LogFileBytes(parts.size_bytes, time_ms, parts.read)
        return found

    def renewed(self) -> StoredUrls:
        """Return the URLs of another answer to the same query."""
        if isinstance(self.query, Query):
            return self.requests.query(self.query, lambda pages: urls_again(pages, self.urls))
        return self.requests.changes(self.query, lambda pages: urls_again(pages, self.urls))


class _Parts:
    """A commit: the parts of the file of lines that belong to it, after its first line."""

    def __init__(self, lines: HiddenFile, parts: tuple[tuple[int, int], ...], head: bytes) -> None:
        self._lines, self._parts, self._head = lines, parts, head
        self.size_bytes = len(self._head) + sum(length for _, length in parts)

    def read(self, offset: int, length: int) -> bytes:
        found, end, begin = [self._head[offset : offset + length]], offset + length, len(self._head)
        for start, size in self._parts:
            first, last = max(offset, begin), min(end, begin + size)
            if first < last:
                found.append(self._lines.read(start + first - begin, last - first))
            begin += size
        return b"".join(found)


def read_change_feed(
    requests: TableRequests, first: int, last: int, formats: tuple[ResponseFormat, ...], progress: Progress = SILENT
) -> SharedChanges:
    """List the files of a change data feed, both ends included. Raises AnswerInvalid, and what requests raise."""
    query = ChangeQuery(Point(first), Point(last), formats)
    return requests.changes(query, lambda pages: _read_change_pages(requests, query, (first, last), pages, progress))


def read_commits(
    requests: TableRequests, first: int, last: int, formats: tuple[ResponseFormat, ...], progress: Progress = SILENT
) -> SharedChanges:
    """List the files that a range of versions added and removed. Raises as `read_changes` does."""
    query = Query(formats=formats, starting_version=first, ending_version=last)
    return requests.query(query, lambda pages: _read_change_pages(requests, query, (first, last), pages, progress))


def _read_change_pages(
    requests: TableRequests, query: ChangeQuery | Query, span: tuple[int, int], pages: Pages, progress: Progress
) -> SharedChanges:
    urls = StoredUrls()
    with hidden_file() as (place, opened), hidden_file() as (lines, opened_lines):
        writer = CheckpointOfAnswer(place, pages.head)
        try:
            size = writer.finish()
        finally:
            writer.close()
        commits = _Commits(lines)
        _take_lines(pages, commits, urls, span, requests.transport.limits.files, progress)
        commits.flush()
    urls.finish()
    _require_ascending(commits.times)
    checkpoint, collected = HiddenFile(opened[0], size), HiddenFile(opened_lines[0], commits.end)
    return SharedChanges(requests, urls, query, pages.head, *span, checkpoint, collected, commits.parts, commits.times)


def _take_lines(
    pages: Pages, commits: _Commits, urls: StoredUrls, span: tuple[int, int], most: int, progress: Progress
) -> None:
    with progress.step("listing changed files", unit="files") as step:
        for count, line in enumerate(pages.actions, 1):
            if count > most:
                raise too_much("the change data feed", f"{most:,} files")
            if line.kind in NOT_FILES:
                _take_state(line, pages.head, commits, span)
                continue
            file = read_file(line, pages.head.form)
            if file.version is None or file.timestamp_ms is None:
                raise invalid_answer("a changed file has no version or timestamp", {"id": file.file_id})
            _require_inside(file.version, span)
            file.add_urls(urls)
            commits.note_time(file.version, file.timestamp_ms)
            commits.add(file.version, file.kind, {"dataChange": file.kind in _WITH_CHANGES, **file.action})
            step.advance()


def _take_state(line: ActionLine, head: AnswerHead, commits: _Commits, span: tuple[int, int]) -> None:
    """Add the protocol or metadata of a later version to its commit."""
    version = line.fields.get("version")
    if type(version) is not int:
        raise invalid_answer(f"{add_article(line.kind)} in the change data feed has no version")
    _require_inside(version, span)
    if line.kind == "protocol":
        later = AnswerHead(version, head.form, False, protocol=line.fields)
        if head.form is ResponseFormat.DELTA:
            commits.add(version, "protocol", later.delta_protocol)
        return
    later = AnswerHead(version, head.form, False, metadata=line.fields)
    commits.add(version, "metaData", later.delta_metadata)


def _require_inside(version: int, span: tuple[int, int]) -> None:
    if not span[0] <= version <= span[1]:
        raise invalid_answer(
            "a changed file is of another version", {"asked": f"{span[0]} to {span[1]}", "found": version}
        )


def _require_ascending(times: Mapping[int, int]) -> None:
    """Raise AnswerInvalid unless later versions have later times, by at least a millisecond per version."""
    before: tuple[int, int] | None = None
    for version in sorted(times):
        if before is not None and times[version] - before[1] < version - before[0]:
            raise invalid_answer("the timestamps of versions do not ascend", {"version": version})
        before = version, times[version]
