"""Which versions a recipient may choose, and the commits of a range of them, all checked before the first answer.

What a range holds in memory is limited: the files of its first commits are kept, up to a number of bytes, and those of
later commits are read again when they are answered.

The files of a commit come in batches. A commit with change data files has all
of its changes there. Other commits count by their adds and removes, except those that change no data.

Spec: Read Data from a Table (version, timestamp); Query Table Version (startingTimestamp); Read Change Data Feed from a
Table; Add CDC File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt, LogIncomplete, VersionAbsent
from deltacli.core.times import format_timestamp
from deltacli.delta.log import state
from deltacli.delta.log.action_schemas import schema_of_action
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import build_action_batch
from deltacli.delta.log.operation_metrics import is_merge_without_changes
from deltacli.delta.log.segment import LogFile
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.delta.protocol.features import Protocol
from deltacli.operations.read.changes import Break, CommitSummary, break_at, fields_of_adds, with_partition_values
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.parameters import Point, invalid_parameter, unsupported
from deltacli.sharing.tables.snapshots import (
    SharedSnapshot,
    SharedSnapshots,
    WholeLog,
    find_fault,
    places_of,
    sizes_of,
    spelled_alike,
)
from deltacli.table.api_arguments import VersionTime
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.time_travel import find_version_at, find_version_range, read_commit_time
from deltacli.work.commits.provenance import read_provenance
from deltacli.work.commits.reading import is_large_commit, stream_commit


def require_history(table: SharedTable, what: str) -> None:
    """Raise WireError unless the history of a table is shared, which `what` needs."""
    if not table.history_shared:
        raise unsupported(f"{what} needs the history of the table {table.full_name}, which is not shared")


def choose_version(snapshots: SharedSnapshots, table: SharedTable, choice: Point) -> int:
    """Return the chosen version, or the newest one. Raises WireError where the recipient may not read it."""
    newest = snapshots.newest_version(table)
    if choice.is_newest:
        return newest
    require_history(table, "reading an older version")
    version = choice.version
    if version is None:
        version = _version_at(snapshots, table, choice.timestamp_ms or 0, newest)
    require_in_range(table, version, newest)
    return version


def require_in_range(table: SharedTable, version: int, newest: int, name: str = "version") -> None:
    """Raise WireError for a version before the first shared one, or after the newest one."""
    if version < table.start_version:
        raise invalid_parameter(f"{name} {version} is not shared: the first shared version is {table.start_version}")
    if version > newest:
        raise invalid_parameter(f"{name} {version} does not exist: the newest version is {newest}")


def first_version_since(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int) -> int:
    """Return the first version committed at or after a time. Raises WireError where there is none, where it is before
    the shared ones, and where its commit is missing: a later version would hide changes.
    """
    require_history(table, "finding a version by time")

    def find(log: WholeLog) -> tuple[int, bool]:
        first = find_version_range(snapshots.handle(table), VersionTime(timestamp_ms), None, log.listing).first
        return first, first in log.listing.commits

    first, is_there = snapshots.by_log(table, find)
    if first > snapshots.newest_version(table):
        raise invalid_parameter(f"no version was committed at or after {format_timestamp(timestamp_ms)}")
    _require_shared(table, first, timestamp_ms)
    if not is_there:
        raise invalid_parameter(
            f"the first version at or after {format_timestamp(timestamp_ms)} is unknown: "
            f"version {first} is missing from the log"
        )
    return first


def _require_shared(table: SharedTable, version: int, timestamp_ms: int) -> None:
    """Raise WireError for a version that a time chose, and that is before the first shared one."""
    if version < table.start_version:
        raise invalid_parameter(
            f"startingTimestamp {format_timestamp(timestamp_ms)} is before the shared versions: it chooses version "
            f"{version}, and the first shared version is {table.start_version}"
        )


def first_readable_since(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int) -> int:
    """Return the same, and the oldest version that can be read where the log no longer reaches back to the time."""
    try:
        return first_version_since(snapshots, table, timestamp_ms)
    except VersionAbsent as fault:
        oldest = min(snapshots.whole_log(table).listing.reconstructable, default=None)
        if fault.code != "table.timestamp-before-start" or oldest is None:
            raise
        _require_shared(table, oldest, timestamp_ms)
        return oldest


def last_version_until(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int) -> int:
    """Return the last version committed at or before a time. Raises WireError where there is none."""
    try:
        return snapshots.by_log(table, lambda log: find_version_at(snapshots.handle(table), timestamp_ms, log.listing))
    except VersionAbsent:
        raise invalid_parameter(f"no version was committed at or before {format_timestamp(timestamp_ms)}") from None


def _version_at(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int, newest: int) -> int:
    """Return the newest version committed at or before a time, which must not be after the newest version."""
    version = last_version_until(snapshots, table, timestamp_ms)
    if version >= newest:
        handle = snapshots.handle(table)
        newest_ms = snapshots.by_log(table, lambda log: read_commit_time(handle, log.listing, version))
        if newest_ms is not None and timestamp_ms > newest_ms:
            raise invalid_parameter(
                f"timestamp {format_timestamp(timestamp_ms)} is after the newest version, {version}, which was "
                f"committed at {format_timestamp(newest_ms)}"
            )
    return version


def commit_time_ms(snapshots: SharedSnapshots, table: SharedTable, snapshot: SharedSnapshot) -> int | None:
    """Return when a version was committed, in epoch milliseconds; None where its commit is missing."""
    storage = snapshots.handle(table).storage
    if snapshot.commit is None:
        return None
    if state.has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        stamp = read_provenance(storage, snapshot.commit).in_commit_timestamp
        if stamp is not None:
            return stamp
    times = snapshots.whole_log(table).times
    return times[snapshot.version].timestamp_ms if snapshot.version in times else None


# -- the commits of a range of versions --------------------------------------------------------------------------------

HELD_BYTES = 16 << 20
"""How much of a range is kept in memory for its answer."""
_BATCH_BYTES = 8 << 10
"""What a batch takes besides its values."""


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """One commit of a range. `metadata` and `protocol` are None unless the commit changes them."""

    version: int
    time_ms: int
    files: CommitFiles
    file_count: int
    has_vectors: bool
    lacks_sizes: bool = False
    """The commit leaves out the size of some file."""
    held: tuple[FileBatch, ...] | None = None
    """The files, where they are kept in memory."""

    metadata: state.Metadata | None = None
    raw_metadata: Action | None = None
    protocol: Protocol | None = None
    raw_protocol: Action | None = None

    def batches(self) -> Iterator[FileBatch]:
        """Yield the changed files by action (`add`, `remove`, `cdc`).

        Raises CommitCorrupt where they are not those that were checked, and what reading a commit raises.
        """
        if self.held is not None:
            yield from self.held
            return
        count = 0
        for kind, batch in self.files.batches():
            count += batch.num_rows
            yield kind, batch
        if count != self.file_count:
            raise CommitCorrupt(f"{self.files.file.name} was replaced while it was read", code="commit.shrank")


@dataclass(frozen=True)
class Changes:
    """The commits of a range, and the snapshot at its beginning, without its files."""

    start: SharedSnapshot
    commits: tuple[CommitChanges, ...]
    apart: Break | None = None
    """The last version that separates those before it from those after it."""

    @property
    def file_count(self) -> int:
        return sum(commit.file_count for commit in self.commits)

    @property
    def digest(self) -> str:
        """A digest of the table and its commits, by which a page notices that the table was replaced meanwhile. Where a
        catalog manages it, the file of a commit gets another time when it is published.
        """
        files = [commit.files for commit in self.commits]
        known = [
            (one.file.version, one.file.size_bytes, managed_store(one.table.storage) is None and one.file.modified_ms)
            for one in files
        ]
        return sha256(repr((self.start.metadata.id, known)).encode()).hexdigest()[:32]

    @property
    def is_held(self) -> bool:
        """Return True if all files are in memory."""
        return all(commit.held is not None for commit in self.commits)

    @property
    def has_vectors(self) -> bool:
        return any(commit.has_vectors for commit in self.commits)

    def lacks_sizes(self) -> bool:
        """Look for the sizes that commits leave out; return True if some are in no earlier commit and no store."""
        for commit in self.commits:
            if commit.lacks_sizes and not commit.files.known_sizes:
                for kind, batch in commit.batches():
                    if kind == "remove":
                        commit.files.with_sizes(batch)
        return any(None in commit.files.known_sizes.values() for commit in self.commits)


def read_changes(snapshots: SharedSnapshots, table: SharedTable, first: int, last: int, *, is_feed: bool) -> Changes:
    """Return the changes of the versions from `first` to `last`. `is_feed`: those of a change data feed, which must be
    on in all of them; otherwise the added and removed files. Everything is read and checked once.

    Raises WireError where the feed is off or the log lacks a commit, and what reading a commit raises.
    """
    start = snapshots.state_at(table, first).without_files()
    if is_feed:
        _require_feed(table, start.metadata, first)

    def read(log: WholeLog) -> Changes:
        commits = log.listing.commits
        absent = next((version for version in range(first, last + 1) if version not in commits), None)
        if absent is not None:
            raise unsupported(f"the changes of version {absent} are no longer in the log of {table.full_name}")
        reading = _RangeReading(snapshots.handle(table), log, table, start, is_feed=is_feed, left_bytes=HELD_BYTES)
        found = tuple(reading.read(commits[version]) for version in range(first, last + 1))
        apart = reading.apart
        if is_feed and apart is None:
            apart = _break_at_first(snapshots, table, start, commits[first], found[0])
        return Changes(start, found, apart)

    return snapshots.by_log(table, read)


def _break_at_first(
    snapshots: SharedSnapshots, table: SharedTable, start: SharedSnapshot, file: LogFile, commit: CommitChanges
) -> Break | None:
    """Return the first commit if it removes files of other columns than it leaves."""
    if commit.metadata is None or not commit.file_count or file.version == 0:
        return None
    with suppress(VersionAbsent, LogIncomplete):  # the log may begin here
        before = snapshots.state_at(table, file.version - 1).config
        found = break_at(snapshots.handle(table), file, before, start.config)
        return None if found is None or found.is_removal else found
    return None


class _RangeReading:
    """Reads the commits of a range one after the other."""

    def __init__(
        self,
        handle: TableHandle,
        log: WholeLog,
        table: SharedTable,
        start: SharedSnapshot,
        *,
        is_feed: bool,
        left_bytes: int,
    ) -> None:
        self._handle, self._times = handle, log.times
        self._table, self._first, self._is_feed, self._left_bytes = table, start.version, is_feed, left_bytes
        self._config = start.config
        self.apart: Break | None = None

    def read(self, file: LogFile) -> CommitChanges:
        actions = actions_of(self._handle, file)
        summary, before = CommitSummary(), self._config
        for kind, action in actions:
            summary.take(kind, action)
        self._config = summary.config_after(before, file.version, file.name)
        if self._config is not before and file.version > self._first:
            self.apart = break_at(self._handle, file, before, self._config) or self.apart
        protocol, metadata = self._config.protocol, self._config.metadata
        assert metadata is not None
        if self._is_feed:
            _require_feed(self._table, metadata, file.version)
        names = tuple((before if file.version > self._first else self._config).partition_columns)
        kinds = kinds_of(summary, is_feed=self._is_feed)
        files = CommitFiles(self._handle, file, kinds, before, self._config, names)
        stamp = summary.stamp(self._config)
        found = CommitChanges(
            file.version,
            self._times[file.version].timestamp_ms if stamp is None else stamp,
            files,
            0,
            False,
            metadata=None if summary.metadata is None else metadata,
            raw_metadata=_plain(summary.metadata),
            protocol=None if summary.protocol is None else protocol,
            raw_protocol=_plain(summary.protocol),
        )
        return self._with_files(found, files.batches(actions))

    def _with_files(self, commit: CommitChanges, batches: Iterator[FileBatch]) -> CommitChanges:
        """Return a commit with what is known of its files; they are kept while there is room for all of them."""
        held: list[FileBatch] | None = []
        count, size_bytes, has_vectors, lacks_sizes = 0, 0, False, False
        for kind, batch in batches:
            count += batch.num_rows
            has_vectors = has_vectors or (kind != "cdc" and batch.column("deletionVector").null_count < batch.num_rows)
            lacks_sizes = lacks_sizes or (kind == "remove" and bool(batch.column("size").null_count))
            size_bytes += int(batch.nbytes) + _BATCH_BYTES
            if held is not None and size_bytes <= self._left_bytes:
                held.append((kind, batch))
            else:
                held = None
        if held is not None:
            self._left_bytes -= size_bytes
        kept = None if held is None else tuple(held)
        return replace(commit, file_count=count, has_vectors=has_vectors, lacks_sizes=lacks_sizes, held=kept)


def _plain(action: Action | None) -> Action | None:
    return None if action is None else state.drop_null_fields(action)


def _require_feed(table: SharedTable, metadata: state.Metadata, version: int) -> None:
    if not state.is_true(metadata.configuration, state.CHANGE_FEED):
        raise unsupported(f"the table {table.full_name} has no change data feed at version {version}")


ROWS_A_BATCH = 10_000
"""How many actions of a commit are in memory as objects, about 20 MiB."""

FileBatch = tuple[str, "pa.RecordBatch"]
"""The action (`add`, `remove`, `cdc`), and files in columns."""


def kinds_of(summary: CommitSummary, *, is_feed: bool) -> tuple[str, ...]:
    """Return which actions of a commit are the changes of a feed, or the added and removed files."""
    if not is_feed:
        return "add", "remove"
    if summary.has_change_data:
        return ("cdc",)
    return () if is_merge_without_changes(summary.info) else ("add", "remove")


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The changed files of a commit. `removed_as` is the configuration of the files that it removes."""

    table: TableHandle
    file: LogFile
    kinds: tuple[str, ...]
    removed_as: state.TableConfiguration
    config: state.TableConfiguration
    removed_names: tuple[str, ...]
    """The partition columns of removed files."""
    known_sizes: dict[str, int | None] = field(default_factory=dict, compare=False)
    """The sizes of removed files for which the commit has none, by path, once they were looked for."""

    def batches(self, actions: Iterable[tuple[str, Action]] | None = None) -> Iterator[FileBatch]:
        """Yield the files in batches, always the same ones. `actions` are those of the commit where they are known.

        Raises CommitCorrupt, PathExternal and DataUnreadable for files that cannot be shared.
        """
        waiting: dict[str, list[Action]] = {kind: [] for kind in self.kinds}
        summary = CommitSummary()
        for kind, action in actions if actions is not None else actions_of(self.table, self.file):
            if not summary.take(kind, action) or kind not in waiting:
                continue
            waiting[kind].append(action)
            if len(waiting[kind]) == ROWS_A_BATCH:
                yield kind, self._batch(kind, waiting[kind])
                waiting[kind] = []
        for kind, rest in waiting.items():
            if rest:
                yield kind, self._batch(kind, rest)

    def _batch(self, kind: str, actions: list[Action]) -> pa.RecordBatch:
        config = self.config
        if kind == "remove":
            config = self.removed_as
            actions = with_partition_values(self.table, self.file.version, self.removed_names, actions)
        batch = spelled_alike(build_action_batch(actions, schema_of_action(kind), self.file.name), config)
        if fault := find_fault([batch], config, self.file.version, self.table.storage.uri):
            raise fault
        return batch

    def with_sizes(self, removes: pa.RecordBatch) -> pa.RecordBatch:
        """Return removes with their sizes, which a log may leave out and the parquet format requires: that of the file
        in the store, else of the earlier add; null where neither is left.
        """
        sizes = removes.column("size")
        if not sizes.null_count:
            return removes
        lacking = removes.filter(pc.is_null(sizes))
        paths = list(map(canonicalize_path, lacking.column("path").to_pylist()))
        if not self.known_sizes.keys() >= set(paths):
            places = places_of(lacking, self.table.storage)
            found = dict(zip(paths, sizes_of(self.table.storage, places), strict=True))
            gone = [path for path, size in found.items() if size < 0]
            of_adds = fields_of_adds(self.table, self.file.version - 1, gone, "size")
            self.known_sizes.update(found | {path: of_adds.get(path) for path in gone})
        rest = iter(paths)
        values = [self.known_sizes[next(rest)] if size is None else size for size in sizes.to_pylist()]
        return removes.set_column(removes.schema.get_field_index("size"), "size", pa.array(values, sizes.type))


def actions_of(table: TableHandle, file: LogFile) -> Iterable[tuple[str, Action]]:
    """Return the actions of a commit, to be iterated any number of times. Large commits are read each time."""
    return _Reread(table, file) if is_large_commit(file) else list(stream_commit(table.storage, file))


@dataclass(frozen=True)
class _Reread:
    table: TableHandle
    file: LogFile

    def __iter__(self) -> Iterator[tuple[str, Action]]:
        return stream_commit(self.table.storage, self.file)
