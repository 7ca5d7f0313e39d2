"""A change data feed as a log: a checkpoint without files at the first version, and a commit per version.

So the rows of changes are read as from any other log.
Spec: Read Change Data Feed from a Table; Data Change Files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from deltacli.core.cached import cached_property
from deltacli.core.progress import SILENT, Progress
from deltacli.delta.checkpoint.layout import classic_path
from deltacli.delta.log.commit_lines import Action
from deltacli.sharing.client.answers import ActionLine, AnswerHead
from deltacli.sharing.client.faults import invalid, too_much
from deltacli.sharing.client.table_requests import ChangeQuery, Pages, Query, TableRequests
from deltacli.sharing.client.tables.shared_files import StoredUrls, read_file
from deltacli.sharing.client.tables.shared_version import (
    NOT_FILES,
    CheckpointOfAnswer,
    HiddenFile,
    LogFileBytes,
    RenewedLog,
    hidden_file,
    urls_again,
)
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.sharing.protocol.parameters import Point
from deltacli.storage.disk_faults import writing_faults

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
            raise invalid("the files of one version have different timestamps", {"version": version})

    def flush(self) -> None:
        with writing_faults(self.place, "a temporary file"), open(self.place, "ab") as file:
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
        """The last version."""
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


def read_changes(
    requests: TableRequests, first: int, last: int, formats: tuple[ResponseFormat, ...], progress: Progress = SILENT
) -> SharedChanges:
    """List the files of a change data feed, both ends included. Raises AnswerInvalid, and what requests raise."""
    query = ChangeQuery(Point(first), Point(last), formats)
    return requests.changes(query, lambda pages: _read_pages(requests, query, (first, last), pages, progress))


def read_commits(
    requests: TableRequests, first: int, last: int, formats: tuple[ResponseFormat, ...], progress: Progress = SILENT
) -> SharedChanges:
    """List the files that a range of versions added and removed. Raises as `read_changes` does."""
    query = Query(formats=formats, starting_version=first, ending_version=last)
    return requests.query(query, lambda pages: _read_pages(requests, query, (first, last), pages, progress))


def _read_pages(
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
                raise invalid("a changed file has no version or timestamp", {"id": file.file_id})
            _require_inside(file.version, span)
            file.add_urls(urls)
            commits.note_time(file.version, file.timestamp_ms)
            commits.add(file.version, file.kind, {"dataChange": file.kind in _WITH_CHANGES, **file.action})
            step.advance()


def _take_state(line: ActionLine, head: AnswerHead, commits: _Commits, span: tuple[int, int]) -> None:
    """Add the protocol or metadata of a later version to its commit."""
    version = line.fields.get("version")
    if type(version) is not int:
        raise invalid(f"a {line.kind} in the change data feed has no version")
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
        raise invalid("a changed file is of another version", {"asked": f"{span[0]} to {span[1]}", "found": version})


def _require_ascending(times: Mapping[int, int]) -> None:
    """Raise AnswerInvalid unless later versions have later times, by at least a millisecond per version."""
    before: tuple[int, int] | None = None
    for version in sorted(times):
        if before is not None and times[version] - before[1] < version - before[0]:
            raise invalid("the timestamps of versions do not ascend", {"version": version})
        before = version, times[version]
