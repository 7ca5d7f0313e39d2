"""What a position in a table needs after a restart: versions of the log, and files that are no longer live.

Rows: the data file and the deletion vector of each add that changes data. The change feed: the change files of a commit
that has any, else the files and vectors of its adds and removes. Source: DeltaSource, CDCReader; for our own source
`deltacli/spark/table_log.py`, which reads the log from the end of a finished batch only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt, FileMissing, Unreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import report_items
from deltacli.core.typing import ArrowArray, ArrowTable, RecordBatch
from deltacli.delta.data_files import repeat_empty_vector_id, unique_id, unique_id_column
from deltacli.delta.encoding.many_values import KeyIndex
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import extract_num_records, extract_num_records_column
from deltacli.delta.log.operation_metrics import is_merge_without_changes
from deltacli.delta.log.segment import LogFile, LogListing, compute_file_times
from deltacli.delta.log.state import CHANGE_FEED, TableConfiguration, is_true
from deltacli.delta.streams import Position, SourceKind, Unread
from deltacli.table.file_keys import hash_paths_and_vectors
from deltacli.table.find_log import list_log
from deltacli.table.needed_files import combine_chunks
from deltacli.table.rebuild import read_snapshot
from deltacli.table.timestamp_enablement import get_enablement_version
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    from deltacli.operations.streams.checkpoints import SourceOffsets, StreamCheckpoint
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

ADD, REMOVE, CHANGE = "add", "remove", "cdc"
_ROWS_HELD = 65_536


class StreamCommit(NamedTuple):
    """What a commit has besides files. `fault`: why it cannot be read."""

    version: int
    metadata: Action | None = None
    protocol: Action | None = None
    has_change_files: bool = False
    has_vectors: bool = False
    changes_nothing: bool = False
    """A MERGE that inserted, updated and deleted no row; the change feed passes over it."""
    fault: str | None = None


@dataclass(frozen=True)
class TableHistory:
    """The newest version of a table and its commits from `first` on, read once for all queries.

    `events` has a row for each file that a commit names, in the order of the log: `version` (int64), `kind` (string:
    add, remove, cdc), `path` and `vector` (strings as in the log; '' without a vector), `size` (int64, bytes, or null),
    `is_change` (bool, `dataChange`), `removed_ms` (int64, epoch milliseconds, of removes), `rows` (int64, null where it
    was not read or is not known). `times` are those of commits, epoch milliseconds.
    """

    snapshot: Snapshot
    listing: LogListing
    first: int
    events: ArrowTable = field(repr=False)
    commits: Mapping[int, StreamCommit] = field(repr=False)
    times: Mapping[int, int] = field(repr=False)
    with_rows: bool = False
    _snapshots: dict[tuple[int, int], SnapshotFiles | str] = field(default_factory=dict, repr=False)
    _configs: dict[int, TableConfiguration | None] = field(default_factory=dict, repr=False)

    @property
    def table(self) -> TableHandle:
        return self.snapshot.table

    @property
    def newest(self) -> int:
        return self.snapshot.version

    @cached_property
    def _live(self) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
        """Return what identifies the live files: path and vector, path alone, 16 bytes each, and vector alone."""
        units, paths, vectors = ([pa.array([], kind)] for kind in (pa.binary(16), pa.binary(16), pa.string()))
        for batch in self.snapshot.file_actions.read_narrow_batches():
            if (rows := batch.adds) is not None:
                units.append(hash_paths_and_vectors(rows["path"], rows["dv_id"]))
                ids = pc.unique(pc.filter(rows["dv_id"], pc.not_equal(rows["dv_id"], "")))
                paths.append(
                    hash_paths_and_vectors(rows["path"], repeat_empty_vector_id(rows.num_rows))
                    if len(ids)
                    else units[-1]
                )
                vectors.append(ids)
        keys = pa.concat_arrays(units)
        return keys, pa.concat_arrays(paths) if sum(map(len, vectors)) else keys, pa.concat_arrays(vectors)

    @cached_property
    def _live_units(self) -> KeyIndex:
        return KeyIndex(self._live[0])

    @cached_property
    def _live_paths(self) -> KeyIndex:
        return self._live_units if self._live[1] is self._live[0] else KeyIndex(self._live[1])

    def not_live(self, rows: ArrowTable) -> ArrowTable:
        """Return the rows whose path and vector together are not live in the newest version."""
        if not rows.num_rows:
            return rows
        found = []
        for some in rows.to_batches(max_chunksize=_ROWS_HELD):
            is_live = self._live_units.contains(hash_paths_and_vectors(some["path"], some["vector"]))
            found.append(some.filter(pc.invert(is_live)))
        return pa.Table.from_batches(found, rows.schema)

    def live_parts(self, rows: ArrowTable) -> tuple[ArrowArray, ArrowArray]:
        """Return whether the data file of each row is live, under any vector, and whether its vector is (or none)."""
        vectors = combine_chunks(rows["vector"])
        has_live = pc.or_(pc.equal(vectors, ""), pc.is_in(vectors, value_set=self._live[2]))
        is_live = [pa.array([], pa.bool_())]
        for some in rows.select(["path"]).to_batches(max_chunksize=_ROWS_HELD):
            is_live.append(
                self._live_paths.contains(hash_paths_and_vectors(some["path"], repeat_empty_vector_id(some.num_rows)))
            )
        return pa.concat_arrays(is_live), has_live

    def is_read(self, version: int) -> bool:
        """Return whether the commit of a version is in the log and could be read."""
        commit = self.commits.get(version)
        return commit is not None and commit.fault is None

    def is_loadable(self, version: int) -> bool:
        """Return whether Spark can rebuild a version: it also wants one commit beside a checkpoint."""
        return version in self._loadable

    @cached_property
    def _loadable(self) -> frozenset[int]:
        return frozenset(self.listing.reconstructable) & self.listing.commits.keys()

    def config_at(self, version: int) -> TableConfiguration | None:
        """Return protocol and metadata in effect at a version; None where it cannot be rebuilt."""
        if version >= self.newest or not any(
            one.metadata is not None or one.protocol is not None
            for number, one in self.commits.items()
            if number > version
        ):
            return self.snapshot.config
        if version not in self._configs:
            try:
                self._configs[version] = read_snapshot(self.table, version=version).config
            except (Unreadable, CommitCorrupt, FileMissing):
                self._configs[version] = None
        return self._configs[version]

    def files_of_snapshot(self, version: int, delivered: int) -> SnapshotFiles | str:
        """Return the live files of a version but the first ones that are delivered; or why it cannot be rebuilt."""
        place = version, delivered
        if place not in self._snapshots:
            assert self._live_units is not None  # before threads ask for it, and what it raises is not of this version
            self._snapshots.clear()  # one at a time: it may have millions of rows
            try:
                self._snapshots[place] = _snapshot_files(self, version, delivered)
            except (Unreadable, CommitCorrupt, FileMissing) as fault:
                self._snapshots[place] = fault.message
        return self._snapshots[place]


class SnapshotFiles(NamedTuple):
    """Files of a snapshot: how many, their bytes, their rows where these were read and are known, and those that are
    not live in the newest version, in no order, with the columns of `events`.
    """

    files: int
    size_bytes: int
    rows: int | None
    not_live: ArrowTable


def read_history(
    table: TableHandle,
    sources: Iterable[tuple[StreamCheckpoint, SourceOffsets]],
    *,
    snapshot: Snapshot | None = None,
    listing: LogListing | None = None,
    with_rows: bool = False,
) -> TableHistory:
    """Read what the sources need of the log of a table, each commit once. `snapshot` is the newest version and
    `listing` the whole log where they were read before; `with_rows` reads the numbers of rows.

    Raises what `read_snapshot` raises.
    """
    snapshot = snapshot or read_snapshot(table)
    listing = listing or list_log(table.storage, progress=table.progress)
    sources = [*sources]
    begins = [position.version + position.in_snapshot for _, source in sources for position in source.positions]
    # Our own source keeps where its first batch began, which is before both of its offsets.
    restarts = [restart_position(checkpoint, source) for checkpoint, source in sources]
    begins += [position.version + position.in_snapshot for position in restarts if position is not None]
    if any(not checkpoint.is_committed and began_unknown(source) for checkpoint, source in sources):
        begins += listing.commits  # it may have begun with any of them
    first = min([*begins, snapshot.version + 1])
    files = [file for version, file in sorted(listing.commits.items()) if first <= version <= snapshot.version]
    read = table.engine.run(
        lambda file: _read_commit(table, file, with_rows=with_rows),
        files,
        at_once=table.storage.capabilities.parallel_reads,
    )
    commits: dict[int, StreamCommit] = {}
    parts: list[ArrowTable] = [_event_schema().empty_table()]
    times = {version: time.timestamp_ms for version, time in compute_file_times(listing.commits).items()}
    first_stamped = get_enablement_version(snapshot)
    for commit, stamp, rows in report_items(read, table.progress, "reading the log", unit="commits", total=len(files)):
        commits[commit.version] = commit
        parts += rows
        if stamp is not None and first_stamped is not None and commit.version >= first_stamped:
            times[commit.version] = stamp
    events = pa.concat_tables(parts).combine_chunks()  # each query filters them
    return TableHistory(snapshot, listing, first, events, commits, times, with_rows)


def _event_schema() -> Any:  # Any: a schema of pyarrow
    return pa.schema(
        [
            ("version", pa.int64()),
            ("kind", pa.string()),
            ("path", pa.string()),
            ("vector", pa.string()),
            ("size", pa.int64()),
            ("is_change", pa.bool_()),
            ("removed_ms", pa.int64()),
            ("rows", pa.int64()),
        ]
    )


def _read_commit(
    table: TableHandle, file: LogFile, *, with_rows: bool
) -> tuple[StreamCommit, int | None, list[ArrowTable]]:
    schema = _event_schema()
    found: list[ArrowTable] = []
    rows: list[tuple[Any, ...]] = []  # Any: values of a commit, checked when they become columns
    commit, info = StreamCommit(file.version), dict[str, Any]()

    def flush() -> None:
        columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
        found.append(
            pa.table([pa.array(column, one.type) for column, one in zip(columns, schema, strict=True)], schema)
        )
        rows.clear()

    try:
        for kind, action in stream_commit(table.storage, file):
            match kind:
                case "add" | "remove" | "cdc":
                    vector = unique_id(action.get("deletionVector"))
                    is_change = kind == CHANGE or action.get("dataChange") is not False
                    row = action["path"], vector, action.get("size"), is_change, action.get("deletionTimestamp")
                    rows.append(
                        (file.version, kind, *row, extract_num_records(action.get("stats")) if with_rows else None)
                    )
                    if kind == CHANGE or vector:
                        commit = commit._replace(
                            has_change_files=commit.has_change_files or kind == CHANGE,
                            has_vectors=commit.has_vectors or bool(vector),
                        )
                    if len(rows) >= _ROWS_HELD:
                        flush()
                case "metaData":
                    commit = commit._replace(metadata=action)
                case "protocol":
                    commit = commit._replace(protocol=action)
                case "commitInfo":
                    info = dict(action)
        flush()
    except (CommitCorrupt, FileMissing) as fault:
        return StreamCommit(file.version, fault=fault.message), None, []
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException):
        return StreamCommit(file.version, fault=f"{file.name}: a file action is damaged"), None, []
    stamp = info.get("inCommitTimestamp")
    commit = commit._replace(changes_nothing=is_merge_without_changes(info))
    return commit, stamp if type(stamp) is int else None, found


def _snapshot_files(history: TableHistory, version: int, delivered: int) -> SnapshotFiles:
    """Read the files of a version, a part at a time: together they have a hundred bytes each."""
    snapshot = history.snapshot if version == history.newest else read_snapshot(history.table, version=version)
    last = _last_delivered(snapshot, delivered) if delivered else None
    if delivered and last is None:
        return SnapshotFiles(0, 0, 0, _event_schema().empty_table())

    def look(adds: RecordBatch) -> SnapshotFiles:
        adds = adds.filter(_are_after(_order_of(adds), last)) if last is not None else adds
        files = _events_of(version, adds, with_rows=history.with_rows)
        rows = None if files["rows"].null_count else pc.sum(files["rows"]).as_py() or 0
        return SnapshotFiles(files.num_rows, pc.sum(files["size"]).as_py() or 0, rows, history.not_live(files))

    fields = ("path", "size", "modificationTime", *(("stats",) if history.with_rows else ()))
    parts = list(snapshot.file_actions.map_actions("add", look, fields=fields))
    rows = [one.rows for one in parts if one.rows is not None]
    return SnapshotFiles(
        sum(one.files for one in parts),
        sum(one.size_bytes for one in parts),
        sum(rows) if len(rows) == len(parts) else None,
        pa.concat_tables([_event_schema().empty_table(), *(one.not_live for one in parts)]),
    )


def _events_of(version: int, adds: RecordBatch, *, with_rows: bool) -> ArrowTable:
    count = adds.num_rows
    columns = {
        "version": pa.repeat(pa.scalar(version, pa.int64()), count),
        "kind": pa.repeat(ADD, count),
        "path": adds.column("path"),
        "vector": unique_id_column(adds.column("deletionVector")),
        "size": adds.column("size"),
        "is_change": pa.repeat(True, count),
        "removed_ms": pa.nulls(count, pa.int64()),
        "rows": extract_num_records_column(adds.column("stats")) if with_rows else pa.nulls(count, pa.int64()),
    }
    return pa.table(columns).cast(_event_schema())


_Place = tuple[int, str]
"""The time and the path of a file: Delta delivers a snapshot in the order of these."""


def _order_of(adds: RecordBatch) -> RecordBatch:
    columns = [pc.fill_null(adds.column("modificationTime"), 0), adds.column("path")]
    return pa.RecordBatch.from_arrays(columns, names=["modified_ms", "path"])


_UNSURE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)|[\x{10000}-\x{10FFFF}]"
"""Paths that Delta may order in another way: it spells absolute ones anew, and may compare UTF-16."""


def _are_after(files: RecordBatch, last: _Place) -> ArrowArray:
    is_later = pc.greater(files["modified_ms"], last[0])
    is_equal = pc.equal(files["modified_ms"], last[0])
    return pc.or_(is_later, pc.and_(is_equal, pc.greater(files["path"], last[1])))


def _last_delivered(snapshot: Snapshot, delivered: int) -> _Place | None:
    """Return the place of the last one of so many first files of a version, by their times and the bytes of their
    paths, as Delta compares; None where it has no more files. The path is '' where the order of the files of that time
    is not sure, so that all of them come after it.
    """
    unsure = set[int]()
    schema = pa.schema([("modified_ms", pa.int64()), ("path", pa.string())])
    first, count = schema.empty_table(), 0
    for some in snapshot.file_actions.map_actions("add", _order_of, fields=("path", "modificationTime")):
        first, count = pa.concat_tables([first, pa.Table.from_batches([some])]), count + some.num_rows
        unsure |= {*pc.filter(some["modified_ms"], pc.match_substring_regex(some["path"], _UNSURE)).to_pylist()}
        if first.num_rows > 2 * delivered + _ROWS_HELD:
            first = first.take(_in_order(first).slice(0, delivered))
    if delivered >= count:
        return None
    last = first.slice(_in_order(first)[delivered - 1].as_py(), 1).to_pylist()[0]
    return last["modified_ms"], "" if last["modified_ms"] in unsure else last["path"]


def _in_order(files: ArrowTable) -> ArrowArray:
    return pc.sort_indices(files, [("modified_ms", "ascending"), ("path", "ascending")])


def former_ids(table: TableHandle) -> frozenset[str]:
    """Return the ids that a table has had in the commits of its log. Raises StorageFailed."""
    files = list(list_log(table.storage).commits.values())

    def ids_in(file: LogFile) -> list[object]:
        try:
            actions = stream_commit(table.storage, file)
            return [action.get("id") for kind, action in actions if kind == "metaData"]
        except (CommitCorrupt, FileMissing):
            return []

    found = table.engine.run(ids_in, files, at_once=table.storage.capabilities.parallel_reads)
    return frozenset(one for ids in found for one in ids if isinstance(one, str))


# -- what a source needs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Needs:
    """What a source needs. `first_version`: the commits from it to the newest version; None where it needs none.
    `snapshots`: versions that must be rebuildable. `files`: data files and vectors that are not live in the newest
    version, `change_data`: change files, both with the columns of `TableHistory.events`; of a row of `files` the data
    file may be live and only its vector not. `size_bytes` are those of all files to deliver, live ones too, and
    `delivers_from` is the first version with any. `fault`: why the files are not known. `may_need_from`: a version from
    which commits may be needed, because the checkpoint does not hold where the source began, and `may_need_files` what
    they name and is not live, where batch 0 is not finished.
    """

    first_version: int | None
    snapshots: tuple[int, ...]
    files: ArrowTable = field(repr=False)
    change_data: ArrowTable = field(repr=False)
    size_bytes: int = 0
    delivers_from: int | None = None
    fault: str | None = None
    may_need_from: int | None = None
    may_need_files: ArrowTable | None = field(default=None, repr=False)

    @property
    def log_from(self) -> int | None:
        """Return the version from which the log must be kept: a complete checkpoint at or below it and all commits from
        there; None where nothing of the log is needed.
        """
        wanted = [*self.snapshots, self.first_version, self.may_need_from]
        return min((one for one in wanted if one is not None), default=None)


def restart_position(checkpoint: StreamCheckpoint, source: SourceOffsets) -> Position | None:
    """Return where a restart delivers on in a table. At batch 0 outside of a snapshot, Delta's source began with all
    files of the version before, or at a version that only its option `startingVersion` names: the former is returned.
    """
    found = checkpoint.position(source)
    if isinstance(found, Position):
        return found
    end = source.positions[-1] if source.positions else None
    if end is None or isinstance(source.end, Unread) or isinstance(source.start, Unread):
        return end  # of what is damaged, the part that is known
    return replace(end, version=max(end.version - 1, 0), delivered=0, in_snapshot=end.version > 0, is_barrier=False)


def began_unknown(source: SourceOffsets) -> bool:
    """Return whether the checkpoint does not hold where the newest batch began: Delta's first outside a snapshot."""
    end = source.end
    is_first = isinstance(end, Position) and source.start is None and end.first_of_source is None
    return is_first and isinstance(end, Position) and not end.in_snapshot


def needs_of(
    history: TableHistory, checkpoint: StreamCheckpoint, source: SourceOffsets, *, of_feed: bool = False
) -> Needs:
    """Return what a source needs if it reads rows, or with `of_feed` its change feed. Raises StorageFailed."""
    nothing = history.events.slice(0, 0)
    position = restart_position(checkpoint, source)
    if position is None or position.table_id != history.snapshot.metadata.id:
        return Needs(None, (), nothing, nothing)
    begins = [position]
    if position.kind is SourceKind.DELTA:
        begins += [one for one in source.positions if one != position]
        if source.start is None and isinstance(source.end, Position) and source.end.in_snapshot:
            begins.append(replace(source.end, delivered=0))
    first = min(one.version + one.in_snapshot for one in begins)
    is_unknown = began_unknown(source)
    if is_unknown:
        end = source.positions[-1]
        begins.append(replace(end, version=end.version - 1, delivered=0, in_snapshot=True, is_barrier=False))
    snapshots = {one.version for one in begins if one.in_snapshot}
    if of_feed:
        snapshots |= {one.version for one in begins if one.version <= history.newest}
    snapshots |= set(_for_columns(history, position, begins))
    delivered = files_to_deliver(history, position, of_feed=of_feed)
    events, whole_snapshot = delivered.events, delivered.of_snapshot
    starts = [position.version] if whole_snapshot is not None and whole_snapshot.files else []
    starts += [pc.min(events["version"]).as_py()] if events.num_rows else []
    not_live = delivered.not_live(history)  # change files never are
    return Needs(
        first if first <= history.newest else None,
        tuple(sorted(one for one in snapshots if 0 <= one <= history.newest)),
        not_live.filter(pc.not_equal(not_live["kind"], CHANGE)),
        not_live.filter(pc.equal(not_live["kind"], CHANGE)),
        (pc.sum(events["size"]).as_py() or 0) + (whole_snapshot.size_bytes if whole_snapshot is not None else 0),
        min(starts, default=None),
        delivered.fault,
        min(history.listing.commits, default=None) if is_unknown else None,
        _may_need(history, source.positions[-1], of_feed=of_feed)
        if is_unknown and not checkpoint.is_committed
        else None,
    )


def _may_need(history: TableHistory, end: Position, *, of_feed: bool) -> ArrowTable:
    """Return the files that batch 0 reads if it began at any commit that is there: option `startingVersion`."""
    earliest = replace(end, version=history.first, delivered=0, in_snapshot=False, is_barrier=False)
    return files_to_deliver(history, earliest, of_feed=of_feed).not_live(history)


def _for_columns(history: TableHistory, position: Position, begins: Iterable[Position]) -> Iterator[int]:
    """Yield the versions that a source rebuilds for its columns: our own the version or the one before it, Delta's
    under column mapping that of its last end.
    """
    if position.version > history.newest:
        return
    if position.kind is SourceKind.DELTACLI:
        version = position.version
        yield version if version in history.listing.reconstructable or not version else version - 1
    elif history.snapshot.config.mapping_mode != "none":
        yield max(one.version for one in begins if one.version <= history.newest)


class Delivered(NamedTuple):
    """The files that are delivered from a position on: those of commits, with the columns of `TableHistory.events`, and
    those of a snapshot before them. `fault`: why the latter are not known.
    """

    events: ArrowTable
    of_snapshot: SnapshotFiles | None = None
    fault: str | None = None

    def not_live(self, history: TableHistory) -> ArrowTable:
        """Return the files that are not live in the newest version, with the columns of its events."""
        parts = [] if self.of_snapshot is None else [self.of_snapshot.not_live]
        return pa.concat_tables([*parts, history.not_live(self.events)])


def files_to_deliver(history: TableHistory, position: Position, *, of_feed: bool = False) -> Delivered:
    """Return the files that are delivered from a position on."""
    events = history.events
    of_snapshot: SnapshotFiles | str | None = None
    first, delivered = position.version, position.delivered
    if position.in_snapshot:
        of_snapshot = history.files_of_snapshot(position.version, delivered)
        first, delivered = first + 1, 0
    rows = events.filter(pc.and_(pc.greater_equal(events["version"], first), events["is_change"]))
    rows = _recorded(history, rows) if of_feed else rows.filter(pc.equal(rows["kind"], ADD))
    if delivered and rows.num_rows:
        here = history.commits.get(first)
        count = pc.sum(pc.equal(rows["version"], first)).as_py() or 0
        is_whole = of_feed and here is not None and (here.has_change_files or here.has_vectors)
        # Versions ascend: those of the first commit are the first rows. A commit with change files or vectors is
        # delivered whole to the feed.
        rows = rows.slice(count if is_whole else min(delivered, count))
    return Delivered(rows, None, of_snapshot) if isinstance(of_snapshot, str) else Delivered(rows, of_snapshot)


def _recorded(history: TableHistory, rows: ArrowTable) -> ArrowTable:
    """Return the files that the change feed reads: the change files of commits with any, the files of the others."""
    with_files = [one.version for one in history.commits.values() if one.has_change_files]
    no_changes = [one.version for one in history.commits.values() if one.changes_nothing]
    is_of_change_files = pc.is_in(rows["version"], value_set=pa.array(with_files, pa.int64()))
    is_nothing = pc.is_in(rows["version"], value_set=pa.array(no_changes, pa.int64()))
    is_read = pc.equal(is_of_change_files, pc.equal(rows["kind"], CHANGE))
    return rows.filter(pc.and_(is_read, pc.invert(is_nothing)))


def records_changes(config: TableConfiguration | None) -> bool:
    return config is not None and is_true(config.properties, CHANGE_FEED)
