"""A shared table as a read-only store: a log with one checkpoint, and data files that are ranges of URLs. It is opened
from the address of the table, or from a profile file.

Every operation that reads a table works on it. Nothing is asked before it is needed.

A condition is sent as a JSON hint, so that the server leaves out files. The condition is applied again on what arrives.
Only what every server evaluates in the same way is sent: comparisons of whole numbers, strings and dates with literals,
and nulls, joined by `and` and `or`. Negations are not: one server drops files with matching rows for them. Spec: JSON
predicates for Filtering.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import orjson

from deltacli.core.clock import Clock, system_clock
from deltacli.core.errors import FileMissing, UsageError
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import BinaryFile, Json
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.columns import Column
from deltacli.delta.predicate.compared_literals import Limit, Order
from deltacli.delta.predicate.conditions import And, Compare, Condition, Contained, IsNull, Not, Or
from deltacli.delta.protocol.property_values import is_true
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import NO_COLUMNS, StructType, parse_schema
from deltacli.sharing.client.addresses import ShareAddress, parse_address
from deltacli.sharing.client.credentials import credentials_of, require_usable
from deltacli.sharing.client.faults import read_only
from deltacli.sharing.client.guards import DEFAULTS, AnswerLimits
from deltacli.sharing.client.table_requests import NEWEST, Query, TableRequests
from deltacli.sharing.client.tables.change_log import read_changes, read_commits
from deltacli.sharing.client.tables.downloads import GuardedReader, RangeReader
from deltacli.sharing.client.tables.shared_files import FileUrl
from deltacli.sharing.client.tables.shared_version import LogFileBytes, SharedLog, read_version, version_without_files
from deltacli.sharing.client.transport import Transport
from deltacli.sharing.configuration.profiles import read_profile
from deltacli.sharing.hints.limits import LONGEST_SENT, MOST_VALUES_SENT
from deltacli.sharing.protocol.parameters import NEWEST_POINT, Point
from deltacli.storage.base import PARALLEL_READS, Capabilities, FileStat, PathKind, ShouldDescend, WalkEntry
from deltacli.storage.objects.contents import ObjectReader
from deltacli.storage.read_only import ReadOnlyFiles
from deltacli.storage.retry import Retry


def open_profile(
    path: str | os.PathLike[str],
    *,
    retry: Retry | None = None,
    limits: AnswerLimits = DEFAULTS,
    clock: Clock = system_clock,
    note: Callable[[str], None] | None = None,
) -> Transport:
    """Return the connection of a profile file; nothing is sent yet. `note` gets warnings about the file.

    Raises UsageError for a profile that cannot be used.
    """
    profile = read_profile(Path(os.path.expanduser(path)))
    endpoint, origin, warnings = require_usable(profile, clock)
    for warning in warnings if note is not None else ():
        note(f"note: {warning}")  # type: ignore[misc]
    transport = Transport(endpoint, origin, retry=retry, limits=limits, clock=clock)
    transport.credentials = credentials_of(profile, transport.post_form, clock)
    return transport


def open_address(
    address: ShareAddress,
    *,
    retry: Retry | None = None,
    limits: AnswerLimits = DEFAULTS,
    clock: Clock = system_clock,
    note: Callable[[str], None] | None = None,
) -> ShareStorage:
    """Return the store of a shared table; nothing is sent yet. Raises UsageError for a profile that cannot be used."""
    transport = open_profile(address.profile, retry=retry, limits=limits, clock=clock, note=note)
    return ShareStorage(address, TableRequests(transport, address.name))


def open_share(
    text: str, *, retry: Retry | None = None, note: Callable[[str], None] | None = None
) -> ShareStorage | None:
    """Return the store of a shared table, None where the text is not an address of one. Raises UsageError."""
    address = parse_address(text) if "#" in text else None
    return None if address is None else open_address(address, retry=retry, note=note)


LOG = "_delta_log"
_HINT = f"{LOG}/_last_checkpoint"
_TAIL_BYTES = 64 << 10


class ShareStorage(ReadOnlyFiles):
    """The store of one version of a shared table. `uri` is its address, with the absolute path of the profile."""

    def __init__(
        self, address: ShareAddress, requests: TableRequests, query: Query = NEWEST, *, progress: Progress = SILENT
    ) -> None:
        self.address, self.requests, self.query = address, requests, query
        self._progress = progress
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
            head = self.requests.metadata(store.query.point, store.query.formats)
            schema = parse_schema(head.delta_metadata.get("schemaString") or NO_COLUMNS)
            hint = json_hint(where, schema)
        query = replace(store.query, json_hint=hint, limit=limit if where is None else None)
        return ShareStorage(self.address, self.requests, query, progress=self._progress)

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
        return Capabilities(cheap_listing=False, parallel_reads=PARALLEL_READS, atomic_create=False)

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
        from concurrent.futures import ThreadPoolExecutor

        def size_of(path: str) -> int:
            try:
                return self.stat(path).size_bytes
            except FileMissing:
                return -1

        with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="deltacli-share") as pool:
            sizes = list(pool.map(size_of, paths))
        return sizes, [-1 if size < 0 else 0 for size in sizes]

    def untimed_versions(self) -> frozenset[int]:
        return self.shared.untimed

    def knows_protocol(self) -> bool:
        return self.shared.knows_protocol

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""
        return read_only(self.uri)

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
        return read_changes(self.requests, *self._span, self.query.formats, self._progress)


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
    if value_type == "string":
        return value if isinstance(value, str) else None
    if not isinstance(value, Fraction | int) or value != int(value):
        return None
    whole = int(value)
    if value_type != "date":
        return str(whole) if abs(whole) < 1 << _BITS[value_type] else None
    try:
        return (_EPOCH + timedelta(days=whole)).isoformat()
    except OverflowError:
        return None
