"""How far back a table can be read: which versions, by what and until when, and what the next cleanups take.

A version follows from its checkpoint, which a reader begins with, else from the version before it and its commit. Large
checkpoints are read only where nothing else leads to their version.

Every file that the log names is looked for once. The versions that need a missing file are those from the commit that
adds it to the one that removes it, which is found in columns, by keys in the order of their versions.

Spec: Action Reconciliation; Checkpoints; Metadata Cleanup; Add File and Remove File (tombstones); time travel as
Delta-Spark allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.changing.file_totals import FileTotals
from deltacli.core import errors
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import report_items
from deltacli.core.ranges import find_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowArray, ArrowTable, JsonObject, RecordBatch
from deltacli.delta.log.expiry import commit_expires_at_ms
from deltacli.delta.log.file_actions import build_narrow_batches, reconcile_commit
from deltacli.delta.log.segment import LogFile, LogListing, compute_file_times
from deltacli.delta.log.state import (
    LOG_CLEANUP,
    Metadata,
    StateBuilder,
    deleted_file_retention_ms,
    has_in_commit_timestamps,
    is_false,
    log_expires_at_ms,
    log_retention_ms,
)
from deltacli.delta.protocol.features import Protocol, require_readable
from deltacli.operations.vacuum.full_plan import kept_walk, plan_vacuum
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.storage.optional_interfaces import (
    is_shared_directory,
    is_shared_table,
)
from deltacli.table.api_arguments import require_optional_count
from deltacli.table.commit_contents import read_commit_actions
from deltacli.table.file_keys import hash_paths_and_vectors
from deltacli.table.file_references import FileReferenceCollector, FileReferences
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.missing_files import find_missing_files
from deltacli.table.needed_files import combine_chunks
from deltacli.table.rebuild import read_snapshot, rebuild_version
from deltacli.table.replay import replay_commits
from deltacli.table.timestamp_enablement import get_enablement_version
from deltacli.table.version import Snapshot
from deltacli.table.walk import CachedWalk
from deltacli.work.commits.reading import is_large_commit

# -- the request -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReachRequest:
    """What to find out about the versions that can be read.

    Attributes:
        retention_ms: A retention, in milliseconds, whose effects are to be shown: what a log expiry and a
            vacuum would delete. None: no effects are shown.
    """

    retention_ms: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for what is no duration."""
        object.__setattr__(self, "retention_ms", require_optional_count(self.retention_ms, "retention_ms"))


# -- the commits, oldest first -----------------------------------------------------------------------------------------

_BYTES_COMPARED = 64 << 20
"""Of checkpoints whose versions follow from commits as well. They agree unless one is damaged."""


class ReadCommit(NamedTuple):
    """A commit: files added and removed (narrow columns), change data, small actions; only why where it is damaged."""

    version: int
    adds: tuple[RecordBatch, ...] = ()
    removes: tuple[RecordBatch, ...] = ()
    change_data: tuple[FileReferences, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    stamp: int | None = None
    """The in-commit timestamp."""
    fault: str | None = None


class ReplayedVersion(NamedTuple):
    """A version: the run that it belongs to (None: it cannot be replayed), the live files of the checkpoint where it
    begins one, else its commit; what prevents it from being replayed or from being read.
    """

    version: int
    run: int | None = None
    base: tuple[RecordBatch, ...] | None = None
    commit: ReadCommit | None = None
    fault: str | None = None
    is_unsupported: bool = False
    metadata: Metadata | None = None
    stamp: int | None = None
    """When it was committed, where in-commit timestamps are enabled; epoch milliseconds."""


def replayed(table: TableHandle, listing: LogListing) -> Iterator[ReplayedVersion]:
    """Yield every version that has a commit or a checkpoint, ascending. Raises StorageFailed."""
    starts = {one.version for one in listing.checkpoints}
    small = _small(listing)
    versions = sorted(starts | listing.commits.keys())
    commits = _commits(table, listing)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    run: int | None = None
    for place, version in enumerate(versions):
        if place and versions[place - 1] != version - 1:
            run = None
        commit = next(commits) if version in listing.commits else None
        is_sound = commit is not None and commit.fault is None
        if run is None and version == 0 and is_sound:
            run = 0
        if run is not None and is_sound and version not in small:
            assert commit is not None
            protocol, metadata = commit.protocol or protocol, commit.metadata or metadata
            yield _judged(ReplayedVersion(version, run, commit=commit, metadata=metadata), protocol)
            continue
        before, run = run, None
        fault = commit.fault if commit is not None else None
        if version in starts:
            try:
                snapshot = rebuild_version(table, ListedLog(listing), version)
                narrow = snapshot.file_actions.read_narrow_batches()
                base = tuple(one.adds for one in narrow if one.adds is not None and one.adds.num_rows)
            except errors.ProtocolUnsupported as error:
                yield ReplayedVersion(version, fault=error.needs, is_unsupported=True, commit=commit)
                continue
            except (errors.Unreadable, errors.CommitCorrupt, errors.FileMissing) as error:
                fault = fault or error.message
            else:
                run, protocol, metadata = version, snapshot.protocol, snapshot.metadata
                yield _judged(ReplayedVersion(version, run, base, commit, metadata=metadata), protocol)
                continue
            if before is not None and is_sound:
                assert commit is not None
                run, protocol, metadata = before, commit.protocol or protocol, commit.metadata or metadata
                yield _judged(ReplayedVersion(version, run, commit=commit, metadata=metadata), protocol)
                continue
        yield ReplayedVersion(version, fault=fault or _absence(listing, version), commit=commit)


def _judged(step: ReplayedVersion, protocol: Protocol | None) -> ReplayedVersion:
    """Return the version with what prevents it from being read although its commits are sound."""
    for found, name in ((protocol, "protocol"), (step.metadata, "metaData")):
        if found is None:
            return step._replace(fault=f"no {name} action")
    assert protocol is not None
    assert step.metadata is not None
    if step.commit is not None and has_in_commit_timestamps(protocol, step.metadata):
        step = step._replace(stamp=step.commit.stamp)
    try:
        require_readable(protocol, step.version)
    except errors.ProtocolUnsupported as error:
        return step._replace(fault=error.needs, is_unsupported=True)
    return step


def _small(listing: LogListing) -> set[int]:
    """Return the versions of the checkpoints that are read although commits lead to them, the newest first."""
    found: set[int] = set()
    left = _BYTES_COMPARED
    for one in sorted(listing.checkpoints, key=lambda one: one.version, reverse=True):
        left -= sum(file.size_bytes for file in one.files)
        if left < 0:
            break
        found.add(one.version)
    return found


def _absence(listing: LogListing, version: int) -> str:
    if version in listing.commits:
        return "commits before it are missing, and no checkpoint covers them"
    return f"commit {version} is missing"


def _commits(table: TableHandle, listing: LogListing) -> Iterator[ReadCommit]:
    """Yield the commits of a log, ascending; several are read at a time where that is faster."""
    files = [listing.commits[version] for version in sorted(listing.commits)]

    def read(file: LogFile) -> ReadCommit:
        try:
            return _read(table, file)
        except errors.CommitCorrupt as error:
            return ReadCommit(file.version, fault=error.message)
        except errors.FileMissing:
            return ReadCommit(file.version, fault=f"commit {file.version} is missing")

    found = table.engine.run(read, files, at_once=table.storage.capabilities.parallel_reads)
    return iter(report_items(found, table.progress, "reading the log", unit="commits", total=len(files)))


def _read(table: TableHandle, file: LogFile) -> ReadCommit:
    state, named = StateBuilder(), FileReferenceCollector()
    change_data: list[FileReferences] = []
    if is_large_commit(file):
        tail = replay_commits(table.storage, table.engine, [file], has_older_actions=False)
        adds, removes, state = tuple(tail.adds), tuple(tail.removes), tail.state
        info = tail.newest_commit_info or {}
        recorded = (one for one in read_commit_actions(table.storage, file, None) if one[0] == "cdc")
        change_data += named.add_commit(recorded, file)
    else:
        actions = list(read_commit_actions(table.storage, file, None))
        survived = reconcile_commit(actions, set(), file.name)
        batches = build_narrow_batches(survived.adds, survived.removes, file.name)
        adds, removes = (() if one is None or not one.num_rows else (one,) for one in batches)
        state.add_actions([one for one in actions if one[0] not in ("add", "remove")], file.name)
        info = next((action for kind, action in reversed(actions) if kind == "commitInfo"), {})
        change_data += named.add_commit([one for one in actions if one[0] == "cdc"], file)
    change_data += named.flush()
    stamp = info.get("inCommitTimestamp")
    return ReadCommit(
        file.version,
        adds,
        removes,
        tuple(change_data),
        state.protocol,
        state.metadata,
        stamp if type(stamp) is int else None,
    )


# -- which versions can be read ----------------------------------------------------------------------------------------

NEVER = 1 << 62


class Part(StrEnum):
    """Whether what a version needs is there."""

    THERE = "there"
    MISSING = "missing"
    UNKNOWN = "unknown"


class VersionFiles(NamedTuple):
    """What of the files of a version is there, and when the first may be deleted (`NEVER`: all are live)."""

    data_files: Part = Part.UNKNOWN
    vectors: Part = Part.UNKNOWN
    change_data: Part = Part.UNKNOWN
    needed_until_ms: int = NEVER


class _Events:
    """The files that versions add and remove, one row each."""

    def __init__(self) -> None:
        self._parts: dict[str, list[ArrowArray]] = {
            name: [] for name in ("path", "vector", "key", "run", "place", "is_add", "removed_ms")
        }

    def take(self, rows: RecordBatch, run: int, place: int, commit_ms: int | None, *, is_add: bool) -> None:
        """Add the narrow rows of a commit or a checkpoint, whose version has this place among all."""
        count = rows.num_rows
        removed = pa.nulls(count, pa.int64())
        if not is_add:
            stated = pc.fill_null(rows.column("deletion_timestamp"), 0)
            removed = stated if commit_ms is None else pc.max_element_wise(stated, pa.scalar(commit_ms, pa.int64()))
        columns = (
            rows.column("path"),
            rows.column("dv_id"),
            hash_paths_and_vectors(rows.column("path"), rows.column("dv_id")),
            pa.repeat(pa.scalar(run, pa.int64()), count),
            pa.repeat(pa.scalar(place, pa.int64()), count),
            pa.repeat(is_add, count),
            removed,
        )
        for name, column in zip(self._parts, columns, strict=True):
            self._parts[name].append(column)

    def table(self) -> ArrowTable:
        """Return all rows."""
        if not self._parts["path"]:
            empty = (pa.string(), pa.string(), pa.binary(16), pa.int64(), pa.int64(), pa.bool_(), pa.int64())
            return pa.table([pa.array([], kind) for kind in empty], names=list(self._parts))
        return pa.table(
            {name: pa.concat_arrays(list(map(combine_chunks, parts))) for name, parts in self._parts.items()}
        )


def version_files(
    table: TableHandle,
    steps: Sequence[ReplayedVersion],
    times: Mapping[int, int],
    retention_ms: int,
    walk: CachedWalk | None = None,
) -> tuple[list[VersionFiles], list[str]]:
    """Return what is there of the files of each version, and the data files that may not be looked at. `times` are
    those of the commits, `walk` lists the table.

    Raises StorageFailed.
    """
    events = _events_of(steps, times)
    changes = [one for step in steps if step.commit is not None for one in step.commit.change_data]
    paths = [*events["path"].chunks, *(one.path for one in changes)]
    ids = [*events["vector"].chunks, *(one.vector for one in changes)]
    names = pa.chunked_array(paths, pa.string()), pa.chunked_array(ids, pa.string())
    lost, unseen = find_missing_files(table, *names, None if walk is None else walk.check_paths)
    spans = _spans(events, steps, retention_ms)
    kinds = []
    for name, of_kind in (("path", 0), ("vector", 1)):
        is_lost, is_unseen = (pc.is_in(spans[name], value_set=one[of_kind]) for one in (lost, unseen))
        found = _covered(spans.filter(is_lost), len(steps)), _covered(spans.filter(is_unseen), len(steps))
        kinds.append([_part(*flags) for flags in zip(*found, strict=True)])
    recorded: dict[int, Part] = {}  # what is there of the change data that the commits recorded
    for names, part in ((unseen, Part.UNKNOWN), (lost, Part.MISSING)):
        for change in changes:
            is_of = pc.or_(pc.is_in(change.path, value_set=names[0]), pc.is_in(change.vector, value_set=names[1]))
            recorded.update(dict.fromkeys(pc.unique(pc.filter(change.version, is_of)).to_pylist(), part))
    until = _earliest(spans, len(steps))
    files = [
        VersionFiles(
            kinds[0][place] if _is_known(step) else Part.UNKNOWN,
            kinds[1][place] if _is_known(step) else Part.UNKNOWN,
            Part.MISSING if step.commit is None else _change_data(step, recorded),
            until[place],
        )
        for place, step in enumerate(steps)
    ]
    return files, unseen[0].to_pylist()


def _is_known(step: ReplayedVersion) -> bool:
    return step.run is not None


def _change_data(step: ReplayedVersion, recorded: Mapping[int, Part]) -> Part:
    assert step.commit is not None
    return Part.UNKNOWN if step.commit.fault is not None else recorded.get(step.version, Part.THERE)


def _part(is_lost: bool, is_unseen: bool) -> Part:
    return Part.MISSING if is_lost else Part.UNKNOWN if is_unseen else Part.THERE


def _events_of(steps: Sequence[ReplayedVersion], times: Mapping[int, int]) -> ArrowTable:
    events = _Events()
    for place, step in enumerate(steps):
        if step.run is None:
            continue
        if step.base is not None:
            for rows in step.base:
                events.take(rows, step.run, place, None, is_add=True)
        elif step.commit is not None:
            for rows in step.commit.removes:
                events.take(rows, step.run, place, times.get(step.version), is_add=False)
            for rows in step.commit.adds:
                events.take(rows, step.run, place, None, is_add=True)
    return events.table()


def _spans(events: ArrowTable, steps: Sequence[ReplayedVersion], retention_ms: int) -> ArrowTable:
    """Return each added file with its first `place` and its `last` one, and `until_ms`, when it may be deleted."""
    ends = {step.run: place for place, step in enumerate(steps) if step.run is not None}
    order = [(name, "ascending") for name in ("run", "key", "place")]
    rows = events.take(pc.sort_indices(events, order))
    count = rows.num_rows
    columns = {name: combine_chunks(rows[name]) for name in rows.column_names}
    run_ends = pa.array([ends[run] for run in columns["run"].to_pylist()], pa.int64())
    last, is_open = run_ends, pa.repeat(True, count)
    if count > 1:
        same = [pc.equal(columns[name].slice(0, count - 1), columns[name].slice(1)) for name in ("run", "key")]
        follows = pa.concat_arrays([pc.and_(*same), pa.array([False])])
        following = pa.concat_arrays([columns["place"].slice(1), pa.array([0], pa.int64())])
        last, is_open = pc.if_else(follows, pc.subtract(following, 1), run_ends), pc.invert(follows)
    rows = rows.append_column("last", last)
    is_live = pc.and_(rows["is_add"], pc.and_(is_open, pc.equal(last, len(steps) - 1)))
    adds = rows.filter(rows["is_add"])
    until = [_until(rows, adds, rows.filter(is_live), name, retention_ms) for name in ("path", "vector")]
    return adds.append_column("until_ms", pc.min_element_wise(*until))


def _until(rows: ArrowTable, adds: ArrowTable, live: ArrowTable, name: str, retention_ms: int) -> ArrowArray:
    """Return when the files of a column may be deleted: the retention after the last removal of those not live."""
    removed = aggregate_rows(pc.filter(rows, pc.is_valid(rows["removed_ms"])), [name], [("removed_ms", "max")])
    gone = pc.take(
        combine_chunks(removed["removed_ms_max"]),
        pc.index_in(combine_chunks(adds[name]), value_set=combine_chunks(removed[name])),
    )
    stays = pc.or_(
        pc.is_in(combine_chunks(adds[name]), value_set=combine_chunks(live[name])),
        pc.equal(combine_chunks(adds[name]), ""),
    )
    until = pc.fill_null(pc.add(gone, retention_ms), NEVER)
    return pc.if_else(stays, pa.scalar(NEVER, pa.int64()), until)


def _covered(spans: ArrowTable, versions: int) -> list[bool]:
    """Return for each version whether one of the spans has it."""
    deltas = [0] * (versions + 1)
    for column, change in (("place", 1), ("last", -1)):
        for entry in pc.value_counts(combine_chunks(spans[column])).to_pylist():
            deltas[entry["values"] + (change < 0)] += change * entry["counts"]
    found, depth = [], 0
    for delta in deltas[:-1]:
        depth += delta
        found.append(depth > 0)
    return found


def _earliest(spans: ArrowTable, versions: int) -> list[int]:
    """Return for each version when the first of its files may be deleted."""
    from heapq import heappop, heappush

    ending = spans.filter(pc.less(spans["until_ms"], NEVER))
    pairs = sorted(
        aggregate_rows(ending, ["place", "last"], [("until_ms", "min")]).to_pylist(), key=itemgetter("place")
    )
    heap: list[tuple[int, int]] = []
    found, taken = [], 0
    for version in range(versions):
        while taken < len(pairs) and pairs[taken]["place"] <= version:
            heappush(heap, (pairs[taken]["until_ms_min"], pairs[taken]["last"]))
            taken += 1
        while heap and heap[0][1] < version:
            heappop(heap)
        found.append(heap[0][0] if heap else NEVER)
    return found


# -- the reach of a table ----------------------------------------------------------------------------------------------


LOG_EXPIRE, SPARK_CHECKPOINT, VACUUM = "log expire", "checkpoint of Spark", "vacuum"
"""What may delete what a version needs. Spark cleans the log with each checkpoint that it writes."""


class Reached(NamedTuple):
    """What is known of a version. `until_ms`: when it may stop being readable (None: it is not readable, or nothing
    that is known will end it), `until_by` what then may delete what it needs.
    """

    log: Part
    data_files: Part
    vectors: Part
    change_data: Part
    spark_allows: bool | None
    until_ms: int | None = None
    until_by: str | None = None
    files_until_ms: int = NEVER
    """When a vacuum may delete the first of its files, whatever happens to the log."""
    why: str | None = None
    """Why it cannot be replayed."""

    @property
    def is_readable(self) -> bool:
        return self.log == self.data_files == self.vectors == Part.THERE


_ABSENT = Reached(
    Part.MISSING, Part.UNKNOWN, Part.UNKNOWN, Part.MISSING, None, why="no commit and no checkpoint in the log"
)


class ReachRange(NamedTuple):
    """Neighbouring versions with the same facts, `reached`, among them the time until which they can be read."""

    first: int
    last: int
    reached: Reached

    def as_json(self) -> JsonObject:
        one = self.reached
        return {
            "first": self.first,
            "last": self.last,
            "readable": one.is_readable,
            "log": one.log.value,
            "dataFiles": one.data_files.value,
            "vectors": one.vectors.value,
            "changeData": one.change_data.value,
            "readableUntilMs": one.until_ms,
            "readableUntil": None if one.until_ms is None else format_timestamp(one.until_ms),
            "readableUntilBy": one.until_by,
            "sparkAllows": one.spark_allows,
            "why": one.why,
        }


class Cleanup(NamedTuple):
    """What a log expiry and a vacuum would delete now, and the versions that can be read now and not afterwards. An
    amount is None where it is not known; `notes` say why, and why a command would be refused.
    """

    log_retention_ms: int
    file_retention_ms: int
    log: FileTotals | None
    files: FileTotals | None
    lost: tuple[int, ...]
    notes: tuple[str, ...]

    def as_json(self) -> JsonObject:
        return {
            "logRetentionMs": self.log_retention_ms,
            "fileRetentionMs": self.file_retention_ms,
            "logExpire": None if self.log is None else self.log.as_json(),
            "vacuum": None if self.files is None else self.files.as_json(),
            "lostVersions": [list(pair) for pair in find_ranges(self.lost)],
            "notes": list(self.notes),
        }


@short_repr("newest_version", "versions", "readable", "is_complete")
@dataclass(frozen=True, eq=False, repr=False)
class TableReach:
    """The versions of a table, from 0 to the newest; `versions` has those with a commit or a checkpoint."""

    table: TableHandle
    now_ms: int
    versions: Mapping[int, Reached]
    next: Cleanup | None
    """What the next cleanups take by the table's own retentions; None where the newest version cannot be rebuilt."""
    retention: Cleanup | None
    """The same for the retention that was asked for."""
    is_complete: bool
    """No commit that should be there is missing or damaged, and every file could be looked for."""
    outside: tuple[str, ...] = ()
    """Data files outside of the table, which were not looked for because no prefix allows it."""

    @cached_property
    def ranges(self) -> tuple[ReachRange, ...]:
        """Return ranges of versions with the same facts."""
        found: list[ReachRange] = []
        for _, group in groupby(self._in_runs(), key=lambda entry: (entry[0], _facts(entry[2]))):
            some = list(group)
            end = found[-1].last if found else -1
            if some[0][1] > end + 1:
                found.append(ReachRange(end + 1, some[0][1] - 1, _ABSENT))
            found.append(ReachRange(some[0][1], some[-1][1], some[0][2]))
        return tuple(found)

    def _in_runs(self) -> Iterator[tuple[int, int, Reached]]:
        """Yield the versions, each after a number that is the same for all without a gap between them."""
        for place, (version, one) in enumerate(self.versions.items()):
            yield version - place, version, one

    @property
    def newest_version(self) -> int:
        """The newest version that has a commit or a checkpoint."""
        return max(self.versions)

    @property
    def readable(self) -> list[int]:
        return [version for version, one in self.versions.items() if one.is_readable]

    def find_prefix_to_allow(self) -> str | None:
        """Return the prefix by which files outside of the table could be looked for; None if none were left out."""
        if not self.outside:
            return None
        try:
            self.table.files().locate(self.outside[0])
        except errors.PathExternal as refused:
            return refused.prefix
        return None

    def as_json(self) -> JsonObject:
        """Return the document `deltacli.reach`, without the envelope."""
        readable = self.readable
        return {
            "snapshotVersion": self.newest_version,
            "nowMs": self.now_ms,
            "oldestReadable": readable[0] if readable else None,
            "readableVersions": len(readable),
            "ranges": [one.as_json() for one in self.ranges],
            "next": None if self.next is None else self.next.as_json(),
            "retention": None if self.retention is None else self.retention.as_json(),
        }


def _facts(one: Reached) -> tuple[object, ...]:
    return (*one[:5], one.until_ms, one.until_by, one.why)


def find_reach(table: TableHandle, request: ReachRequest) -> TableReach:
    """Determine which versions can be read, by what and until when. Nothing is changed.

    Raises NotATable, StorageFailed, and UsageError for a shared table; what is damaged is part of the result.
    """
    if is_shared_table(table.storage):
        raise errors.UsageError(
            "reach works on Delta tables only: the provider of a shared table decides what it shares",
            hint=errors.command("snapshot"),
        )
    now_ms = table.clock()
    listing = list_log(table.storage, progress=table.progress)
    listing.require_versions()
    steps = list(replayed(table, listing))
    times = {version: found.timestamp_ms for version, found in compute_file_times(listing.commits).items()}
    newest = steps[-1]
    metadata = next((step.metadata for step in reversed(steps) if step.metadata is not None), None)
    if is_shared_directory(table.storage):
        table.storage.require_announced(metadata.id if metadata else None, listing.newest_version)
    properties = {} if metadata is None else metadata.configuration
    retention_ms = deleted_file_retention_ms(properties)
    is_known = newest.run is not None and newest.fault is None
    snapshot, walk = _newest(table) if is_known else (None, None)
    # The times that select versions; where the newest version cannot be rebuilt, none does.
    first_stamped = 0 if snapshot is None else get_enablement_version(snapshot)
    for step in steps:
        if step.stamp is not None and first_stamped is not None and step.version >= first_stamped:
            times[step.version] = step.stamp
    files, outside = version_files(table, steps, times, retention_ms, walk)
    log_until = _log_until(listing, times, properties)
    versions = {
        step.version: _reached(
            step, found, log_until[step.version], _spark_allows(step, newest, times, now_ms - retention_ms)
        )
        for step, found in zip(steps, files, strict=True)
    }
    first = min(listing.reconstructable, default=0)  # a reader can begin with it
    late = [step for step in steps if step.version >= first]
    is_whole = all(step.fault is None for step in late) and len(late) == newest.version - first + 1
    is_seen = all(
        Part.UNKNOWN not in (one.data_files, one.vectors) for one in versions.values() if one.log is Part.THERE
    )
    wanted = [None] if request.retention_ms is None else [None, request.retention_ms]
    found_plans = [_cleanup(table, properties, one, versions, snapshot, walk) if is_known else None for one in wanted]
    return TableReach(
        table,
        now_ms,
        versions,
        found_plans[0],
        found_plans[-1] if len(wanted) > 1 else None,
        is_whole and is_seen,
        tuple(outside),
    )


def _newest(table: TableHandle) -> tuple[Snapshot | None, CachedWalk | None]:
    """Return the newest version, and a walk over the table for all that looks at it; None for what cannot be had."""
    try:
        snapshot = read_snapshot(table)
    except (errors.Unreadable, errors.CommitCorrupt, errors.Refused):
        return None, None
    return snapshot, kept_walk(snapshot)


class LogUntil(NamedTuple):
    """When the log of a version may be deleted (`NEVER`: no end is known), and by what."""

    time_ms: int
    by: str


def _reached(step: ReplayedVersion, files: VersionFiles, log_until: LogUntil, spark_allows: bool | None) -> Reached:
    is_there = step.run is not None and step.fault is None
    log = Part.THERE if is_there else Part.UNKNOWN if step.is_unsupported else Part.MISSING
    data, vectors = (files.data_files, files.vectors) if is_there else (Part.UNKNOWN, Part.UNKNOWN)
    until = files.needed_until_ms
    found = Reached(log, data, vectors, files.change_data, spark_allows, files_until_ms=until, why=step.fault)
    until_ms = min(files.needed_until_ms, log_until.time_ms)
    if not found.is_readable or until_ms == NEVER:
        return found
    return found._replace(until_ms=until_ms, until_by=log_until.by if log_until.time_ms == until_ms else VACUUM)


def _log_until(listing: LogListing, times: Mapping[int, int], properties: Mapping[str, str]) -> dict[int, LogUntil]:
    """Return for each version when its log may be deleted first.

    `log expire` begins the log after a version when the cutoff reaches a checkpoint above it. Spark deletes the first
    file that a reader of the version begins with, a checkpoint or the first commit, when that is older than the cutoff.
    """
    retention_ms = log_retention_ms(properties)
    starts = {one.version for one in listing.checkpoints}
    versions = sorted({*listing.commits, *starts})
    first_files = _first_files(versions, starts)
    newest_checkpoint = max(starts, default=-1)
    found, until = dict[int, LogUntil](), LogUntil(NEVER, LOG_EXPIRE)
    for version in reversed(versions):
        found[version] = until
        spark_ms = commit_expires_at_ms(first_files[version], times, newest_checkpoint, properties)
        if spark_ms is not None and spark_ms < until.time_ms:
            found[version] = LogUntil(spark_ms, SPARK_CHECKPOINT)
        if version in starts and version in times and not is_false(properties, LOG_CLEANUP):
            expires_ms = log_expires_at_ms(times[version], retention_ms)
            until = LogUntil(min(until.time_ms, expires_ms), LOG_EXPIRE)
    return found


def _first_files(versions: Sequence[int], checkpoints: Set[int]) -> dict[int, int]:
    """Return for each version, ascending, the one of the checkpoint or commit with which a reader of it begins."""
    found: dict[int, int] = {}
    for version in versions:
        is_start = version in checkpoints or version - 1 not in found
        found[version] = version if is_start else found[version - 1]
    return found


def _spark_allows(
    step: ReplayedVersion, newest: ReplayedVersion, times: Mapping[int, int], cutoff_ms: int
) -> bool | None:
    """Return whether Delta-Spark reads a version by its age: the newest, and those within the retention of files."""
    if step.version == newest.version:
        return True
    return None if step.version not in times else times[step.version] >= cutoff_ms


def _cleanup(
    table: TableHandle,
    properties: Mapping[str, str],
    retention_ms: int | None,
    versions: Mapping[int, Reached],
    snapshot: Snapshot | None,
    walk: CachedWalk | None,
) -> Cleanup:
    from deltacli.operations.log.expire import ExpiryRequest, plan_expiry

    of_log, of_files = log_retention_ms(properties), deleted_file_retention_ms(properties)
    notes: list[str] = []
    readable = {version for version, one in versions.items() if one.is_readable}
    lost: set[int] = set()
    log = files = None
    try:
        expiry = plan_expiry(
            table,
            ExpiryRequest(retention_ms=retention_ms, allow_retention_below_ms=of_log, dry_run=True),
            snapshot=snapshot,
        )
        notes += [f"log expire is refused: {one.message}" for one in expiry.refusals]
        log = FileTotals(len(expiry.files), expiry.size_bytes)
        lost |= readable & set(expiry.lost_versions)
    except (errors.Unreadable, errors.CommitCorrupt, errors.Refused) as fault:
        notes.append(f"log expire is not possible: {fault.reason}")
    try:
        vacuum = plan_vacuum(
            table,
            VacuumRequest(retention_ms=retention_ms, allow_retention_below_ms=of_files, dry_run=True),
            snapshot=snapshot,
            walk=walk,
        )
        notes += [f"vacuum is refused: {one.message}" for one in vacuum.refusals]
        files = FileTotals(vacuum.files, vacuum.size_bytes)
        lost |= {version for version in readable if versions[version].files_until_ms - of_files < vacuum.cutoff_ms}
    except (errors.Unreadable, errors.CommitCorrupt, errors.Refused) as fault:
        notes.append(f"vacuum is not possible: {fault.reason}")
    retentions = (of_log, of_files) if retention_ms is None else (retention_ms, retention_ms)
    return Cleanup(*retentions, log, files, tuple(sorted(lost)), tuple(notes))
