"""The snapshots of shared tables: rebuilt once for all callers, kept in memory up to a limit, and brought up to date.

Also where its files are for signers, and whether recipients would get them. Nothing outside the table is ever signed.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.catalogs.unity.addresses import is_address
from deltacli.core.errors import CatalogUnavailable, DeltacliError, NotATable, PathExternal, Refused
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.data_files import unique_id_column, vector_file
from deltacli.delta.log.actions import read_actions
from deltacli.delta.log.file_actions import (
    SupersededFiles,
    action_schemas,
    build_action_batch,
    compute_file_keys,
    reconcile_commit,
)
from deltacli.delta.log.segment import CommitTime, LogFile, LogListing, compute_file_times
from deltacli.delta.log.state import Metadata, StateBuilder, TableConfiguration, drop_null_fields
from deltacli.delta.partitions.values import parse_partition_columns, with_spelled_keys
from deltacli.delta.paths.spelling import decode_path_bytes, encode_percent_signs
from deltacli.delta.paths.spelling_columns import locate
from deltacli.delta.protocol.features import Protocol, require_readable
from deltacli.delta.schema.to_arrow import require_partitions
from deltacli.delta.schema.types import MODE, NO_COLUMNS, parse_schema
from deltacli.operations.read.changes import is_mapped, may_have_been_mapped
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.client_actions import build_client_protocol, fit_metadata
from deltacli.sharing.protocol.lines import TableTotals
from deltacli.sharing.protocol.parameters import ReadingNeeds, find_needs
from deltacli.sharing.signing.choose import without_signing_options
from deltacli.storage import LocalStorage, ReadStorage
from deltacli.table.find_log import ListedLog, find_log, list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot, rebuild_version
from deltacli.table.repeated_files import deduplicate_live_files
from deltacli.work.commits.reading import read_commit

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.table.version import Snapshot

# -- one computation for all callers that need the same thing at the same time -----------------------------------------

Result = TypeVar("Result")


class SingleFlight:
    """Runs the work for a key once, while callers with the same key wait for its result."""

    def __init__(self) -> None:
        self._running: dict[Hashable, Future[Any]] = {}  # Any: the result of the caller's own work
        self._lock = Lock()

    def run(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, or of the same work of another caller. Raises what the work raises."""
        with self._lock:
            running = self._running.get(key)
            mine = running is None
            future: Future[Result] = Future() if running is None else running
            self._running[key] = future
        if not mine:
            return future.result()
        try:
            future.set_result(work())
        except BaseException as fault:
            future.set_exception(fault)
            raise
        finally:
            with self._lock:
                del self._running[key]
        return future.result()


Steps = Callable[[Hashable, Callable[[], bytes]], bytes]
"""Returns the result of a step, given what names it and its work."""


class SharedSteps:
    """Long work in steps that several callers go through at the same time: each step is done once, as long as they stay
    close together. Of all results, at most `max_bytes` are kept, and none of work that nobody or one caller does.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._callers: dict[Hashable, int] = {}
        self._kept: OrderedDict[tuple[Hashable, Hashable], bytes] = OrderedDict()
        self._kept_bytes = 0
        self._flights = SingleFlight()
        self._lock = RLock()  # whoever is interrupted by the garbage collector may hold it, and an answer ends there

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

    @contextmanager
    def joined(self, key: Hashable) -> Iterator[Steps]:
        """Take part in the work for a key, and yield what does a step."""
        with self._lock:
            self._callers[key] = self._callers.get(key, 0) + 1
        try:
            yield lambda step, work: self._do((key, step), work)
        finally:
            self._leave(key)

    def _do(self, place: tuple[Hashable, Hashable], work: Callable[[], bytes]) -> bytes:
        with self._lock:
            known = self._kept.get(place)
            is_alone = self._callers[place[0]] == 1
        if known is not None:
            return known
        return work() if is_alone else self._flights.run(place, lambda: self._keep(place, work))

    def _keep(self, place: tuple[Hashable, Hashable], work: Callable[[], bytes]) -> bytes:
        known = self._kept.get(place)  # since the caller looked
        if known is not None:
            return known
        result = work()
        with self._lock:
            self._kept[place] = result
            self._kept_bytes += len(result)
            while self._kept_bytes > self._max_bytes:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return result

    def _leave(self, key: Hashable) -> None:
        with self._lock:
            self._callers[key] -= 1
            if not self._callers[key]:
                del self._callers[key]
                for place in [place for place in self._kept if place[0] == key]:
                    self._kept_bytes -= len(self._kept.pop(place))


# -- one version of a shared table -------------------------------------------------------------------------------------


def places_of(actions: pa.RecordBatch, storage: ReadStorage) -> list[str]:
    """Return the path of each file below the table, decoded. Raises PathExternal."""
    raw = actions.column("path")
    keys, _ = locate(raw, storage.uri)
    if keys.null_count:
        raise outside()
    places = [decode_path_bytes(key) for key in keys.to_pylist()]
    if not isinstance(storage, LocalStorage):
        return places
    return [_as_stored(storage, path, place) for path, place in zip(raw.to_pylist(), places, strict=True)]


def _as_stored(storage: LocalStorage, path: str, place: str) -> str:
    """Return the place, or the path as written where only that exists: some writers do not encode paths."""
    if path == place or "%" not in path or os.path.lexists(os.path.join(storage.root, place)):
        return place
    return path if os.path.lexists(os.path.join(storage.root, path)) else place


_MOST_SINGLE_LOOKS = 1_000
"""Files that are looked at one by one on an object store; of more of them the table is listed, 1,000 per request."""


def unavailable_files(files: pa.Table, storage: ReadStorage) -> dict[str, list[str]]:
    """Return the data files and files of deletion vectors that the server cannot return, by the reason: their paths
    below the table. Raises PathExternal, and what the store raises.
    """
    wanted: dict[str, int | None] = {}
    for batch in files.to_batches():
        vectors = [one for one in vectors_of(batch) if one is not None and one["storageType"] != "i"]
        wanted |= dict.fromkeys((vector_place(one, storage.uri) for one in vectors), None)
        wanted |= zip(places_of(batch, storage), batch.column("size").to_pylist(), strict=True)
    found: dict[str, list[str]] = {}
    for (place, declared), size in zip(wanted.items(), sizes_of(storage, list(wanted)), strict=True):
        reason = _reason(storage, place, declared, size)
        if reason is not None:
            found.setdefault(reason, []).append(place)
    return {reason: sorted(paths) for reason, paths in found.items()}


def _reason(storage: ReadStorage, place: str, declared: int | None, size: int) -> str | None:
    local = os.path.join(storage.root, place) if isinstance(storage, LocalStorage) else None
    if size < 0:
        return "missing" if local is None or not os.path.lexists(local) else "behind a link or not a regular file"
    if declared not in (None, size):
        return "of another size than in the log"
    return None if local is None or os.access(local, os.R_OK) else "not readable by this user"


def sizes_of(storage: ReadStorage, places: Sequence[str]) -> Sequence[int]:
    """Return the size of each file, -1 for one that the server does not return."""
    if not storage.capabilities.lists_flat or len(places) <= _MOST_SINGLE_LOOKS:
        return storage.stat_many(places)[0]
    left = dict.fromkeys(places, -1)
    for entry in storage.walk("", lambda _, names: names):
        for name, size in zip(entry.names, entry.sizes or (), strict=bool(entry.sizes)):
            place = f"{entry.directory}/{name}" if entry.directory else name
            if place in left:
                left[place] = size
    return list(left.values())


def outside() -> PathExternal:
    """Return the fault of a table whose log names a file that is not below the table."""
    return PathExternal("the log names files outside the table, which are not shared")


def spelled_alike(actions: pa.RecordBatch, config: TableConfiguration) -> pa.RecordBatch:
    """Return file actions whose partition values have the names of the columns as the schema spells them: clients
    compare them exactly, and would take a value under another spelling for null.
    """
    names = list(config.partition_columns)
    place = actions.schema.get_field_index("partitionValues")
    if not names or place < 0 or not actions.num_rows:
        return actions
    maps = actions.column(place)
    spelled = with_spelled_keys(maps, names)
    return actions if spelled is maps else actions.set_column(place, actions.schema.field(place), spelled)


def find_fault(
    batches: Iterable[pa.RecordBatch], config: TableConfiguration, version: int, uri: str
) -> DeltacliError | None:
    """Return why file actions cannot be shared: a partition column that the schema lacks, a file or a vector outside
    the table, a missing or invalid partition value. None if they can.
    """
    try:
        require_partitions(config, version)
        for actions in batches:
            require_inside(actions, uri)
            parse_partition_columns(actions, config, list(config.partition_columns))
    except DeltacliError as fault:
        return fault.with_traceback(None)
    return None


def require_inside(actions: pa.RecordBatch, uri: str) -> None:
    """Raise PathExternal if a file or a deletion vector is outside the table."""
    if locate(actions.column("path"), uri)[0].null_count:
        raise outside()
    for descriptor in vectors_of(actions):
        if descriptor is not None and descriptor["storageType"] != "i":
            vector_place(descriptor, uri)


def vectors_of(actions: pa.RecordBatch) -> list[dict[str, Json] | None]:
    """Return the descriptor of each row; an empty list where no row has one."""
    place = actions.schema.get_field_index("deletionVector")
    column = None if place < 0 else actions.column(place)
    return [] if column is None or column.null_count == len(column) else column.to_pylist()


def vector_place(descriptor: dict[str, Any], uri: str) -> str:
    """Return the path of the file of a deletion vector below the table, decoded. Raises PathExternal."""
    text = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] == "u":
        path = vector_file(text)
        text = "" if path is None else encode_percent_signs(path)
    key = locate(pa.array([text], pa.string()), uri)[0][0].as_py()
    if not key:
        raise outside()
    return decode_path_bytes(key)


_OWN_BYTES = 64 << 10
"""What a snapshot takes besides its columns: a schema of some hundred columns, parsed."""


@dataclass(frozen=True, eq=False)
class SharedSnapshot:
    """A version of a table. `files` has the fields of add actions, in no particular order. `commit` is the file of its
    commit, by which a log that was replaced is noticed; None where it is missing.
    """

    version: int
    protocol: Protocol
    raw_protocol: Mapping[str, Any]
    metadata: Metadata
    raw_metadata: Mapping[str, Any]
    files: pa.Table
    commit: LogFile | None
    fault: DeltacliError | None = None
    """Why the files cannot be shared."""

    def require_shareable(self) -> None:
        """Raise PathExternal, or DataUnreadable (`partition.*`), where the files cannot be shared."""
        if self.fault is not None:
            raise self.fault

    def without_files(self) -> SharedSnapshot:
        """Return protocol and metadata only."""
        return replace(self, files=self.files.schema.empty_table())

    @cached_property
    def identity(self) -> object:
        """What only this object has, for a key that does not keep it in memory."""
        return object()

    @cached_property
    def config(self) -> TableConfiguration:
        """Protocol, metadata and schema together. Raises Unreadable (`schema.*`)."""
        schema = parse_schema(self.metadata.schema_string or NO_COLUMNS)
        return TableConfiguration(protocol=self.protocol, metadata=self.metadata, schema=schema)

    @cached_property
    def needs(self) -> ReadingNeeds:
        """What clients must support to read this version."""
        vectors = self.files.column("deletionVector")
        return find_needs(self.config, has_vectors=vectors.null_count < len(vectors))

    def client_protocol(self, features: Set[str]) -> dict[str, Any]:
        """Return the protocol action in delta format, with these reader features (stable names)."""
        return build_client_protocol(self.protocol, self.raw_protocol, features)

    def client_metadata(self, client_protocol: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata action in delta format that fits the protocol which the client has.

        Where column mapping may have been removed, it has the mode, which that protocol need not show: versions before
        the removal have other names in files.
        """
        raw = self.raw_metadata
        if not is_mapped(self.config) and MODE not in self.config.properties and may_have_been_mapped(self.config):
            raw = {**raw, "configuration": {**self.metadata.configuration, MODE: "none"}}
        return fit_metadata(raw, client_protocol)

    @cached_property
    def totals(self) -> TableTotals:
        """Number and bytes of the live files."""
        return TableTotals(self.files.num_rows, pc.sum(self.files.column("size")).as_py() or 0)

    @cached_property
    def size_bytes(self) -> int:
        """The memory that it takes, in bytes."""
        return int(self.files.nbytes) + _OWN_BYTES

    @property
    def _keys(self) -> ArrowArray:
        keys = [
            compute_file_keys(batch.column("path"), unique_id_column(batch.column("deletionVector")))
            for batch in self.files.to_batches()
        ]
        return pa.concat_arrays([pa.array([], pa.binary()), *keys])

    @cached_property
    def canonical_order(self) -> ArrowArray:
        """Return the rows in the one order that does not depend on how the version was rebuilt: pages need it."""
        return pc.sort_indices(self._keys)

    @cached_property
    def digest(self) -> str:
        """A digest of the table and its files, by which a page notices that the table was replaced meanwhile."""
        keys = self._keys.take(self.canonical_order)
        found = sha256(repr((self.metadata.id, len(keys))).encode())
        for buffer in keys.buffers()[1:]:  # offsets and bytes; how nulls are stored depends on what it was rebuilt from
            found.update(buffer)
        return found.hexdigest()[:32]


def make_snapshot(snapshot: Snapshot) -> SharedSnapshot:
    """Return a rebuilt version with its files in columns, each once. Raises what reading a checkpoint raises."""
    snapshot = deduplicate_live_files(snapshot)
    batches = [spelled_alike(batch, snapshot.config) for batch in snapshot.files()]
    files = pa.Table.from_batches(batches, schema=action_schemas().add)
    fault = find_fault(batches, snapshot.config, snapshot.version, snapshot.table.uri)
    return replace(make_state(snapshot), files=files, fault=fault)


def make_state(snapshot: Snapshot) -> SharedSnapshot:
    """Return protocol and metadata of a rebuilt version, without its files."""
    return SharedSnapshot(
        version=snapshot.version,
        protocol=snapshot.protocol,
        raw_protocol=snapshot.raw_protocol,
        metadata=snapshot.metadata,
        raw_metadata=snapshot.raw_metadata,
        files=action_schemas().add.empty_table(),
        commit=snapshot.listing.commits.get(snapshot.version),
    )


def batches_of(files: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in batches of at most `rows`, without copying them."""
    yield from (batch for batch in files.to_batches(max_chunksize=rows) if batch.num_rows)


# -- the snapshots of all shared tables --------------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeLog:
    """The listing of a log from its start, begun `at` (seconds). It may have commits that were deleted since."""

    listing: LogListing
    at: float

    @cached_property
    def times(self) -> Mapping[int, CommitTime]:
        """The time of each commit, by the times of its file and of those before."""
        return compute_file_times(self.listing.commits)

    def joined(self, newer: LogListing) -> WholeLog | None:
        """Return this log with what a newer listing has; None where they have no commit in common, or where a commit
        that they have in common was replaced.
        """
        ours = self.listing
        both = [version for version in newer.commits if version in ours.commits]
        if not both or any(newer.commits[version] != ours.commits[version] for version in both):
            return None
        if newer.newest_version < ours.newest_version:
            return None
        checkpoints = {*ours.checkpoints, *newer.checkpoints}
        if len(both) == len(newer.commits) and len(checkpoints) == len(ours.checkpoints):
            return self
        commits = ours.commits | newer.commits
        ordered = tuple(sorted(checkpoints, key=lambda found: found.preference))
        return WholeLog(LogListing(commits, ordered), self.at)


CACHE_BYTES = 1 << 30
STALE_SECONDS = 1.0
"""How old the listing of a log may be. Streaming clients ask for the version every ten seconds."""

WHOLE_SECONDS = 300.0
"""After this time a log is listed from its start again, to see which commits were deleted; and a catalog that only says
where a table is, is asked again.
"""

MOST_COMMITS = 200_000
"""How many commits of all whole logs are kept, about 100 MiB."""

_OF_ANOTHER = ("plan.other-table", "catalog.managed")
"""Codes of faults of a table whose name in the catalog stands for another one, none, or one that it does not manage."""

Place = tuple[str, tuple[tuple[str, str], ...]]
"""A location with its storage options. Tables that are shared under several names have one place."""


def place_of(table: SharedTable) -> Place:
    return table.location, tuple(sorted(table.storage_options.items()))


def _open(table: SharedTable) -> Table:
    from deltacli.api.table import open_table

    return open_table(table.location, storage_options=without_signing_options(table.storage_options) or None)


class _Listed(NamedTuple):
    """A listing, from its newest version at that time on, and when it was made."""

    listing: LogListing
    at: float


@dataclass
class CacheUse:
    """Numbers for operators."""

    hits: int = 0
    rebuilt: int = 0
    refreshed: int = 0
    size_bytes: int = 0


class SharedSnapshots:
    """Returns versions of shared tables. All methods are thread-safe, and raise what reading a table raises.

    At most `max_bytes` of snapshots are kept, the least recently used are dropped first. One that is in use stays in
    memory until its answer is sent. `clock` counts seconds.
    """

    def __init__(
        self,
        *,
        max_bytes: int = CACHE_BYTES,
        stale_seconds: float = STALE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        open_table: Callable[[SharedTable], TableHandle] = _open,
    ) -> None:
        self._max_bytes, self._stale_seconds, self._clock, self._open = max_bytes, stale_seconds, clock, open_table
        self._tables: dict[Place, TableHandle] = {}
        self._opened_at: dict[Place, float] = {}
        self._listed: dict[Place, _Listed] = {}
        self._logs: OrderedDict[Place, WholeLog] = OrderedDict()
        self._kept: OrderedDict[tuple[Place, int], SharedSnapshot] = OrderedDict()
        self._lock, self._flights = Lock(), SingleFlight()
        self.use = CacheUse()

    def handle(self, table: SharedTable) -> TableHandle:
        """Return the handle of a table, the same one for every request."""
        place = place_of(table)
        known = self._tables.get(place)
        return self._flights.run(("open", place), lambda: self._open_first(table)) if known is None else known

    def _open_first(self, table: SharedTable) -> TableHandle:
        """Open a table unless another caller just did; other tables do not wait for its catalog meanwhile."""
        place, at = place_of(table), self._clock()
        if (known := self._tables.get(place)) is not None:
            return known
        opened = self._open(table)
        with self._lock:
            self._tables[place], self._opened_at[place] = opened, at
        return opened

    def newest_version(self, table: SharedTable) -> int:
        """Return the newest version in the log of a table; it may be `stale_seconds` old. Raises NotATable."""
        known = self.known_newest_version(table)
        newest = self._list(table).listing.newest_version if known is None else known
        if newest < 0:
            raise NotATable("the log has no commit and no complete checkpoint")
        return newest

    def newest_commit(self, table: SharedTable) -> tuple[int, LogFile | None]:
        """Return the newest version and the file of its commit, which is another one where the log was replaced."""
        version = self.newest_version(table)
        return version, self._listed[place_of(table)].listing.commits.get(version)

    def known_newest_version(self, table: SharedTable) -> int | None:
        """Return the newest version where it is known already and not too old, without any I/O."""
        listed = self._listed.get(place_of(table))
        is_fresh = listed is not None and self._clock() - listed.at < self._stale_seconds
        return (
            listed.listing.newest_version if listed is not None and is_fresh and not listed.listing.is_empty else None
        )

    def is_kept(self, table: SharedTable, version: int) -> bool:
        """Return whether a version is in memory."""
        with self._lock:
            return (place_of(table), version) in self._kept

    def at(self, table: SharedTable, version: int) -> SharedSnapshot:
        """Return a version of a table. Raises VersionAbsent."""
        key = place_of(table), version
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                self.use.hits += 1
                return kept
        return self._flights.run(key, lambda: self._keep(key[0], self._make(table, version)))

    def state_at(self, table: SharedTable, version: int) -> SharedSnapshot:
        """Return protocol and metadata of a version; its files only where they are known. Raises VersionAbsent."""
        with self._lock:
            kept = self._kept.get((place_of(table), version))
        return kept or self._rebuild(table, version, make_state)

    def limit(self, max_bytes: int) -> None:
        """Change how much is kept, and drop what is beyond."""
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    def forget(self) -> None:
        """Drop everything, as after a change of the configuration."""
        with self._lock:
            self._tables.clear()
            self._listed.clear()
            self._logs.clear()
            self._kept.clear()
            self.use.size_bytes = 0

    def whole_log(self, table: SharedTable) -> WholeLog:
        """Return the whole log of a table; it may be `stale_seconds` old, and have commits that were deleted since."""
        self.newest_version(table)
        return self._flights.run(("log", place_of(table)), lambda: self._whole_now(table))

    def by_log(self, table: SharedTable, work: Callable[[WholeLog], Result]) -> Result:
        """Return what `work` finds out by the log of a table; where that fails, by the log as it is now."""
        log = self.whole_log(table)
        try:
            return work(log)
        except DeltacliError:
            now = WholeLog(list_log(self.handle(table).storage), self._clock())
            self._remember(place_of(table), now)
            if now.listing.commits == log.listing.commits:
                raise
            return work(now)

    def _whole_now(self, table: SharedTable) -> WholeLog:
        """Add what was committed since to the log as it is known, or list it from its start."""
        place, now = place_of(table), self._clock()
        with self._lock:
            known, listed = self._logs.get(place), self._listed[place]
        if known is not None and now - known.at < WHOLE_SECONDS:
            known = self._joined(table, known, listed.listing)
        elif listed.listing.start_version == 0:
            known = WholeLog(listed.listing, listed.at)
        else:
            known = None
        found = WholeLog(list_log(self.handle(table).storage), now) if known is None else known
        self._remember(place, found)
        return found

    def _remember(self, place: Place, log: WholeLog) -> None:
        """Keep a log, and drop those that were not used for the longest time where they are too long together."""
        with self._lock:
            self._logs[place] = log
            self._logs.move_to_end(place)
            while sum(len(known.listing.commits) for known in self._logs.values()) > MOST_COMMITS:
                self._logs.popitem(last=False)

    def _joined(self, table: SharedTable, known: WholeLog, listing: LogListing) -> WholeLog | None:
        """Return a log with what was committed since; None where it was replaced."""
        newest = known.listing.newest_version
        if listing.start_version > newest:  # too many listings ago: list what is between as well
            listing = list_log(self.handle(table).storage, start_version=newest)
        return known.joined(listing)

    def _list(self, table: SharedTable) -> _Listed:
        return self._flights.run(place_of(table), lambda: self._list_now(table))

    def _list_now(self, table: SharedTable) -> _Listed:
        """List the log, of a table whose name in a catalog stands for another one by now that of the other one."""
        if self._is_stated(table) and self._clock() - self._opened_at[place_of(table)] >= WHOLE_SECONDS:
            with suppress(CatalogUnavailable):  # the store may be there
                self._open_again(table)
        try:
            return self._list_known(table)
        except Refused as fault:
            if fault.code not in _OF_ANOTHER:
                raise
        self._open_again(table)
        return self._list_known(table)

    def _is_stated(self, table: SharedTable) -> bool:
        """Return whether a catalog only says where a table is: it is not asked again by the store."""
        return is_address(table.location) and managed_store(self.handle(table).storage) is None

    def _open_again(self, table: SharedTable) -> None:
        """Open a table that a catalog knows once more, and forget the one that its name stood for. Raises what opening
        raises; then the handle stays, and where the catalog is down also for the next time.
        """
        place, before, at = place_of(table), self.handle(table), self._clock()
        try:
            opened = self._open(table)
        except CatalogUnavailable:
            self._opened_at[place] = at
            raise
        with self._lock:
            self._tables[place], self._opened_at[place] = opened, at
            if managed_store(opened.storage) is None and before.storage.uri == opened.storage.uri:
                return
            self._listed.pop(place, None)
        self._drop(place)

    def _list_known(self, table: SharedTable) -> _Listed:
        """List the log from the newest known version on; the whole log where that version is gone."""
        place, storage, at = place_of(table), self.handle(table).storage, self._clock()
        before = self._listed.get(place)
        listing: LogListing | None = None
        if before is not None:
            start = self._oldest_of_interest(place, before.listing.newest_version)
            listing = list_log(storage, start_version=start)
            if listing.newest_version < before.listing.newest_version or not self._continues(place, listing):
                listing = None
        if listing is None:
            listing = find_log(storage).listing
            self._drop(place)
        with self._lock:
            self._listed[place] = _Listed(listing, at)
        return self._listed[place]

    def _continues(self, place: Place, listing: LogListing) -> bool:
        """Return False where the log was replaced since the snapshots were made."""
        with self._lock:
            kept = [snapshot for (found, _), snapshot in self._kept.items() if found == place]
        known = [(snapshot.commit, listing.commits.get(snapshot.version)) for snapshot in kept]
        return all(None in pair or pair[0] == pair[1] for pair in known)

    def _oldest_of_interest(self, place: Place, newest: int) -> int:
        """Return from where a new listing begins: at the newest snapshot that it may bring up to date."""
        with self._lock:
            versions = [version for found, version in self._kept if found == place and version <= newest]
        return max(versions, default=newest)

    def _make(self, table: SharedTable, version: int) -> SharedSnapshot:
        place, handle = place_of(table), self.handle(table)
        with self._lock:
            older = [kept for (found, number), kept in self._kept.items() if found == place and number < version]
        listed = self._listed.get(place)
        base = max(older, key=lambda kept: kept.version, default=None)
        if base is not None and listed is not None:
            commits = _commits_between(base, listed.listing, version)
            if commits:
                self.use.refreshed += 1
                return _apply_commits(base, handle.storage, commits)
        self.use.rebuilt += 1
        return self._rebuild(table, version, make_snapshot)

    def _rebuild(self, table: SharedTable, version: int, make: Callable[[Snapshot], SharedSnapshot]) -> SharedSnapshot:
        """Rebuild a version: the newest one from the newest part of the log, an older one by the log as it is known."""
        handle = self.handle(table)
        if version >= self.newest_version(table):
            return make(read_snapshot(handle, version=version))
        return self.by_log(table, lambda log: make(rebuild_version(handle, ListedLog(log.listing), version)))

    def _keep(self, place: Place, snapshot: SharedSnapshot) -> SharedSnapshot:
        """Add a snapshot to the cache, and drop others until all of them fit."""
        size = snapshot.size_bytes
        if size > self._max_bytes:
            return snapshot
        with self._lock:
            replaced = self._kept.pop((place, snapshot.version), None)
            self.use.size_bytes += size - (replaced.size_bytes if replaced is not None else 0)
            self._kept[place, snapshot.version] = snapshot
            self._shrink()
        return snapshot

    def _shrink(self) -> None:
        while self.use.size_bytes > self._max_bytes:
            _, dropped = self._kept.popitem(last=False)
            self.use.size_bytes -= dropped.size_bytes

    def _drop(self, place: Place) -> None:
        """Drop the snapshots of a place: its log was replaced, or is seen for the first time."""
        with self._lock:
            self._logs.pop(place, None)
            for key in [key for key in self._kept if key[0] == place]:
                self.use.size_bytes -= self._kept.pop(key).size_bytes


_MOST_APPLIED = 200
_MOST_APPLIED_BYTES = 64 << 20
"""Beyond these, rebuilding from a checkpoint costs less."""
_MOST_CHUNKS = 512


def _commits_between(older: SharedSnapshot, listing: LogListing, version: int) -> tuple[LogFile, ...] | None:
    """Return the commits that lead from a snapshot to a version; None where it has to be rebuilt instead: a commit is
    missing, they are too many, or the log was replaced since.
    """
    if older.commit is None or listing.commits.get(older.version) != older.commit:
        return None
    files = [listing.commits.get(number) for number in range(older.version + 1, version + 1)]
    found = tuple(file for file in files if file is not None)
    if len(found) < len(files) or len(found) > _MOST_APPLIED:
        return None
    return found if sum(file.size_bytes for file in found) <= _MOST_APPLIED_BYTES else None


def _apply_commits(older: SharedSnapshot, storage: ReadStorage, commits: Sequence[LogFile]) -> SharedSnapshot:
    """Return the version after these commits, ascending. Raises CommitCorrupt and ProtocolUnsupported."""
    state, seen = StateBuilder(), set[str]()
    adds: list[pa.RecordBatch] = []
    for file in reversed(commits):
        actions = read_actions(read_commit(storage, file), file.name)
        survived = reconcile_commit(actions, seen, file.name).adds
        if survived:
            adds.append(build_action_batch(survived, action_schemas().add, file.name))
        state.add_actions([(kind, action) for kind, action in actions if kind not in ("add", "remove")], file.name)
    if state.protocol is not None:
        require_readable(state.protocol, commits[-1].version)
    raw_protocol, raw_metadata = state.raw_protocol, state.raw_metadata
    newer = replace(
        older,
        version=commits[-1].version,
        protocol=state.protocol or older.protocol,
        raw_protocol=older.raw_protocol if raw_protocol is None else drop_null_fields(raw_protocol),
        metadata=state.metadata or older.metadata,
        raw_metadata=older.raw_metadata if raw_metadata is None else drop_null_fields(raw_metadata),
        commit=commits[-1],
    )
    adds = [spelled_alike(batch, newer.config) for batch in adds]
    files = _with_adds(older.files, SupersededFiles(seen) if seen else None, adds)
    checked = files.to_batches() if older.fault or state.metadata else adds
    return replace(newer, files=files, fault=find_fault(checked, newer.config, newer.version, storage.uri))


def _with_adds(files: pa.Table, touched: SupersededFiles | None, adds: list[pa.RecordBatch]) -> pa.Table:
    """Return the files that no newer commit has decided, and those that newer commits add."""
    kept = []
    for batch in files.to_batches():
        untouched = None
        if touched is not None:
            untouched = touched.find_current_rows(batch.column("path"), batch.column("deletionVector"))
        kept.append(batch if untouched is None else pc.filter(batch, untouched))
    found = pa.Table.from_batches([*kept, *adds], schema=files.schema)
    return found if len(kept) + len(adds) <= _MOST_CHUNKS else found.combine_chunks()
