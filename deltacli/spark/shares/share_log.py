"""A shared table as a stream reads it: its commits come from the server, some versions per request.

Spec: Read Data from a Table (startingVersion); Read Change Data Feed from a Table; Query Table Version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deltacli.core.errors import Unreadable, UsageError
from deltacli.delta.data_files import unique_id
from deltacli.delta.log.segment import LogFile
from deltacli.delta.log.state import TableConfiguration
from deltacli.operations.read.changes import Break, find_break, may_be_apart
from deltacli.sharing.client.addresses import CODE, FORM, AccessChoice, ShareAddress, parse_address
from deltacli.sharing.client.share_storage import ChangeStorage, ShareStorage
from deltacli.sharing.client.shared_files import FileUrl
from deltacli.sharing.client.shared_version import SharedChanges, SharedVersion
from deltacli.sharing.client.table_requests import BOTH_FORMATS
from deltacli.sharing.protocol.parameters import ResponseFormat
from deltacli.spark.source_options import (
    STORAGE,
    OptionReader,
    StreamOptions,
    bad_option,
    fields_of,
    flag,
    given_options,
    has_limits,
    moment,
    options_of_store,
    path_of,
    require_one,
    version_number,
    without_store,
)
from deltacli.spark.source_options import STREAM as TABLE_STREAM
from deltacli.spark.table_log import TableLog
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.rows.data_files import DataFile

# -- the options of the data source of shares --------------------------------------------------------------------------

MOST_VERSIONS = 100
"""Versions per request, unless an option says otherwise."""
INTERVAL_SECONDS, LEAST_SECONDS = 30, 10
"""How often the server is asked for its newest version, unless an option says otherwise, and at most."""
_LOAD = '.load("/path/profile.share#share.schema.table")'
Formats = tuple[ResponseFormat, ...]


@dataclass(frozen=True, slots=True)
class ShareBatchOptions:
    """What the caller of `read` wants: a version, or with `read_change_feed` the changes of a range, in which a time
    selects a version. `columns` and `where` are those of `read_share`.
    """

    path: str
    version: int | None = None
    timestamp_ms: int | None = None
    read_change_feed: bool = False
    first: int | None = None
    first_ms: int | None = None
    last: int | None = None
    last_ms: int | None = None
    formats: Formats = BOTH_FORMATS
    access: AccessChoice = AccessChoice.AUTO
    columns: tuple[str, ...] | None = None
    where: str | None = None
    storage_options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ShareStreamOptions:
    """What the caller of `readStream` wants.

    A stream keeps to one format, because ids of files, which order them, differ between the formats.
    """

    stream: StreamOptions
    versions_per_request: int = MOST_VERSIONS
    interval_seconds: int = INTERVAL_SECONDS
    formats: Formats = (ResponseFormat.DELTA,)
    access: AccessChoice = AccessChoice.AUTO

    @property
    def storage_options(self) -> tuple[tuple[str, str], ...]:
        return self.stream.storage_options


def access_of(name: str, value: str) -> AccessChoice:
    """Return how a shared table is read. Raises UsageError."""
    try:
        return AccessChoice(value.strip().lower())
    except ValueError:
        raise bad_option(name, value, "auto, url or dir") from None


def _formats(name: str, value: str) -> Formats:
    try:
        return (ResponseFormat(value.strip().lower()),)
    except ValueError:
        raise bad_option(name, value, "delta or parquet") from None


def _count_of_versions(name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII) or int(value) == 0:
        raise bad_option(name, value, "a number of versions, 1 or more")
    return int(value)


def _seconds(name: str, value: str) -> int:
    found = re.fullmatch(r"(\d{1,9})\s*s?", value.strip(), re.ASCII)
    if found is None or int(found[1]) < LEAST_SECONDS:
        raise bad_option(name, value, f"a number of seconds, {LEAST_SECONDS} or more")
    return int(found[1])


BATCH: Mapping[str, tuple[str, OptionReader]] = {
    "versionAsOf": ("version", version_number),
    "timestampAsOf": ("timestamp_ms", moment),
    "readChangeFeed": ("read_change_feed", flag),
    "startingVersion": ("first", version_number),
    "startingTimestamp": ("first_ms", moment),
    "endingVersion": ("last", version_number),
    "endingTimestamp": ("last_ms", moment),
    "responseFormat": ("formats", _formats),
    "access": ("access", access_of),
}
_OF_STREAMS = {name: reader for name, reader in TABLE_STREAM.items() if name != "allowExternal"}
_OF_REQUESTS: Mapping[str, tuple[str, OptionReader]] = {
    "maxVersionsPerRpc": ("versions_per_request", _count_of_versions),
    "queryTableVersionIntervalSeconds": ("interval_seconds", _seconds),
    "responseFormat": ("formats", _formats),
    "access": ("access", access_of),
}
STREAM = {**_OF_STREAMS, **_OF_REQUESTS}
_EVERY = {**STREAM, **BATCH}


def share_batch_options(options: Mapping[str, str]) -> ShareBatchOptions:
    """Read the options of `read`. Raises UsageError (`usage.stream-option`, `share.address`)."""
    given = _given(options, BATCH, "read")
    for one, other in (
        ("versionAsOf", "timestampAsOf"),
        ("startingVersion", "startingTimestamp"),
        ("endingVersion", "endingTimestamp"),
    ):
        require_one(given, one, other)
    found = ShareBatchOptions(
        path_of(options, _LOAD), storage_options=options_of_store(options), **fields_of(given, BATCH)
    )
    of_range = [name for name in given if name.startswith(("starting", "ending"))]
    of_version = [name for name in ("versionAsOf", "timestampAsOf") if name in given]
    if found.read_change_feed and of_version:
        raise UsageError(f"readChangeFeed and {of_version[0]} exclude each other", code="usage.stream-option")
    if found.read_change_feed and found.first is None and found.first_ms is None:
        raise UsageError(
            "readChangeFeed needs a beginning", code="usage.stream-option", hint='.option("startingVersion", 0)'
        )
    if of_range and not found.read_change_feed:
        raise UsageError(
            f"{of_range[0]} needs readChangeFeed", code="usage.stream-option", hint='.option("readChangeFeed", "true")'
        )
    address_of(found.path)
    return found


def share_stream_options(options: Mapping[str, str], spark: str) -> ShareStreamOptions:
    """Read the options of `readStream` on a version of Spark. Raises UsageError (`usage.stream-option`)."""
    if not has_limits(spark):
        raise UsageError(
            f"Spark {spark} cannot follow a share: its Python data sources have no begin and no limits of a batch",
            code="usage.stream-option",
            facts={"needed": "Spark 4.2"},
            hint="use Spark 4.2, or read changes: .option('readChangeFeed', 'true') of spark.read",
        )
    given = _given(options, STREAM, "readStream")
    require_one(given, "startingVersion", "startingTimestamp")
    path = path_of(options, _LOAD)
    address_of(path)
    of_streams = {name: value for name, value in given.items() if name in _OF_STREAMS}
    of_requests = {name: value for name, value in given.items() if name in _OF_REQUESTS}
    stream = StreamOptions(path, storage_options=options_of_store(options), **fields_of(of_streams, _OF_STREAMS))
    return ShareStreamOptions(stream, **fields_of(of_requests, _OF_REQUESTS))


def share_column_options(options: Mapping[str, str], spark: str) -> ShareBatchOptions:
    """Return what decides the columns, whichever reader the options are for. Raises UsageError."""
    given = _given(options, _EVERY, "the data source")
    if any(name not in BATCH for name in given):
        share_stream_options(options, spark)
    elif any(name not in STREAM for name in given):
        return share_batch_options(options)
    path = path_of(options, _LOAD)
    address_of(path)
    both = {name: value for name, value in given.items() if name in ("readChangeFeed", "responseFormat", "access")}
    return ShareBatchOptions(path, storage_options=options_of_store(options), **fields_of(both, BATCH))


def _given(options: Mapping[str, str], known: Mapping[str, object], where: str) -> dict[str, str]:
    """Return the options by the names in `known`, without those of the store. Raises UsageError for others."""
    given = given_options(without_store(options), known, _EVERY, where, also=(f"{STORAGE}…",))
    if given.get("access", "").strip().lower() == AccessChoice.DIRECTORY and "responseFormat" in given:
        raise UsageError(
            "responseFormat is about files by URLs: it cannot be used with access = dir", code="usage.stream-option"
        )
    return given


def address_of(path: str) -> ShareAddress:
    """Return the address of a shared table. Raises UsageError for any other path, and for a relative one."""
    address = parse_address(path)
    if address is None:
        raise UsageError(
            "the path is not the address of a shared table", code=CODE, facts={"expected": FORM}, hint=_LOAD
        )
    if not os.path.isabs(address.profile):
        raise UsageError(
            f"the path of the profile is relative: {address.profile}",
            code="usage.stream-option",
            facts={"expected": "an absolute path, because processes of Spark have other working directories"},
            hint=f".load(os.path.abspath({path!r}))",
        )
    return address


# -- a shared table as a stream reads it -------------------------------------------------------------------------------

_UNKNOWN_MS = 600_000
"""How long a URL is used whose end is unknown."""


class FreshUrls:
    """The URLs of the files of a store, listed again after half of the time. Make it before the files are listed."""

    def __init__(self, store: ShareStorage) -> None:
        self._store, self._clock = store, store.requests.transport.clock
        self._listed_ms = self._clock()

    def find(self, name: str) -> FileUrl | None:
        """Return the URL of a file, None for an unknown name. Raises what `ShareStorage` raises."""
        now = self._clock()
        found = self._store.shared.url_of(name)
        if found is None or not self._is_half_over(found, now):
            return found
        self._listed_ms = now
        return self._store.shared.url_of(name, not_this=found.url)

    def _is_half_over(self, found: FileUrl, now: int) -> bool:
        ends = self._listed_ms + _UNKNOWN_MS if found.expires_ms is None else found.expires_ms
        return now - self._listed_ms > max(ends - self._listed_ms, 0) / 2


class DirectoryLog(TableLog):
    """The files that a stream of a share delivers from its directory. They have other names and another order than by
    URLs, so a query keeps to one way.
    """

    def __init__(self, table: TableHandle, options: StreamOptions) -> None:
        super().__init__(table, options)
        self.table = f"{self.table} by directory"


@dataclass
class _Window:
    """The commits of some versions, from one request. `configs`: what a version has, as far as commits were read."""

    first: int
    last: int
    table: TableHandle
    commits: Mapping[int, LogFile]
    begin: TableConfiguration
    urls: FreshUrls
    configs: dict[int, TableConfiguration] = field(default_factory=dict)


class ShareLog(TableLog):
    """The files that a stream of a share delivers. Files within a version are in the order of their ids, because a
    server may list them in another order after a restart.
    """

    def __init__(
        self, table: TableHandle, share: ShareStorage, options: ShareStreamOptions, now: Callable[[], float]
    ) -> None:
        self._share, self._requests, self._now = share, options, now
        newest = share.without_files()
        super().__init__(table.replace_storage(newest), options.stream)
        self._id, self._form = self.table, _form_of(newest)
        self.table = self._id if self._form is ResponseFormat.DELTA else f"{self._id} in {self._form} format"
        self._asked = now()
        self._window: _Window | None = None
        self._urls: FreshUrls | None = None
        """Those of the files that were read last."""
        self._reading: FreshUrls | None = None

    def url_of(self, name: str) -> FileUrl | None:
        """Return the URL of a file of the version that was read last, None for an unknown name."""
        return None if self._urls is None else self._urls.find(name)

    def newest(self) -> int:
        """Ask the server for its newest version, unless it was asked a moment ago."""
        if self._now() - self._asked >= self._requests.interval_seconds:
            found = self._share.newest_version()
            self._asked = self._now()
            if found < self._newest:
                self._require_same_table(
                    read_snapshot(self._table.replace_storage(self._share.without_files())).metadata.id
                )
            self._newest = max(self._newest, found)
        return self._newest

    @property
    def newest_commit(self) -> LogFile | None:
        """Return None: executors see no log."""
        return None

    # -- what the log of a share has of its own -------------------------------------------------------------------

    def _once(self, kind: str, version: int, read: Callable[[int], Sequence[DataFile]]) -> Sequence[DataFile]:
        before = self._kept[0]
        found = super()._once(kind, version, read)
        if self._kept[0] != before:
            self._urls = self._reading
        return found

    def _snapshot_at(self, version: int) -> Snapshot:
        """Return a version with its files: that of the columns has none."""
        store = self._share.at(version)
        self._reading = FreshUrls(store)
        self._require_same_form(store)
        return read_snapshot(self._table.replace_storage(store))

    def _snapshot_files(self, version: int) -> list[DataFile]:
        return sorted(super()._snapshot_files(version), key=_by_id)

    def _commit_files(self, version: int) -> list[DataFile]:
        window = self._window_of(version)
        self._reading = window.urls
        if version not in window.commits:
            self._window_of(version).configs[version] = self._config_before(version)
            return []
        found = super()._commit_files(version)
        return found if self.is_atomic else sorted(found, key=_by_id)

    def _table_of(self, version: int) -> TableHandle:
        return self._window_of(version).table

    def _commit_file(self, version: int) -> LogFile:
        return self._window_of(version).commits[version]

    def _config_before(self, version: int) -> TableConfiguration:
        """Return the configuration before a commit; before the first one of a window, that after it."""
        window = self._window_of(version)
        known = max((other for other in window.configs if other < version), default=window.first - 1)
        for between in range(known + 1, version):
            if between in window.commits:
                self._read_commit(between)
            else:
                window.configs[between] = window.configs.get(between - 1, window.begin)
        return window.configs.get(version - 1, window.begin)

    def _require_columns(self, config: TableConfiguration, version: int) -> None:
        if config.metadata is not None:
            self._require_same_table(config.metadata.id)
        super()._require_columns(config, version)

    def _last_break(self, config: TableConfiguration, version: int) -> Break | None:
        """Look in the commits at hand; where the columns give a reason, in those after them, too. The parquet format
        does not show a mapping, so there it is always one.
        """
        window, found = self._window, None
        if window is not None and window.first <= version <= window.last:
            found = self._break_of(window.table, window.commits, version, config)
            version = window.last
        is_told = self._form is ResponseFormat.DELTA
        if found is not None or (is_told and not may_be_apart(config, self._end.config)):
            return found
        while version < self._end.version:
            last = min(self._end.version, version + self._requests.versions_per_request)
            table = self._table.replace_storage(
                ChangeStorage(self._share, version, last, are_commits=not self.is_atomic)
            )
            begin = read_snapshot(table, version=version).config
            found = self._break_of(table, list_log(table.storage).commits, version, begin) or found
            version = last
        return found

    def _break_of(
        self, table: TableHandle, commits: Mapping[int, LogFile], version: int, config: TableConfiguration
    ) -> Break | None:
        return find_break(
            table, [commits[one] for one in sorted(commits) if version < one <= self._end.version], config
        )

    def _require_same_table(self, found: str) -> None:
        """Raise Unreadable where the server shares another table than before under the same name."""
        if found != self._id:
            raise Unreadable(
                "the share has another table under this name than when the query began",
                code="stream.other-table",
                facts={"table id": self._id, "table id now": found},
                hint="use another checkpointLocation, with which the stream starts over",
            )

    def _require_same_form(self, store: ShareStorage) -> None:
        """Raise Unreadable where the server answers in another format, which has other ids for the files."""
        if (found := _form_of(store)) is not self._form:
            raise Unreadable(
                f"the server answers in {found} format now, and in {self._form} format before",
                code="stream.other-table",
                facts={"table id": self._id},
                hint=f'.option("responseFormat", "{self._form}")   # or another checkpointLocation',
            )

    def _window_of(self, version: int) -> _Window:
        """Return the commits around a version, asked for where they are not at hand."""
        if self._window is None or not self._window.first <= version <= self._window.last:
            last = max(version, min(self._newest, version + self._requests.versions_per_request - 1))
            store = ChangeStorage(self._share, version, last, are_commits=not self.is_atomic)
            table, urls = self._table.replace_storage(store), FreshUrls(store)
            self._require_same_form(store)
            listing = list_log(store)
            begin = read_snapshot(table, version=version).config
            self._window = _Window(version, last, table, listing.commits, begin, urls)
            self._commits, self._times = dict(self._window.commits), None  # for the times of commits
            self._require_columns(self._window.begin, self._window.first)
        return self._window


def _form_of(store: ShareStorage) -> ResponseFormat:
    shared = store.shared
    assert isinstance(shared, SharedVersion | SharedChanges)
    return shared.head.form


def _by_id(file: DataFile) -> tuple[str, str]:
    return file.path, unique_id(dict(file.vector or {}))
