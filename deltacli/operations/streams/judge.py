"""Whether a query can go on in a table: verdict, reason, until when it is safe, and how far it is behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.errors import parameter
from deltacli.core.ranges import format_ranges
from deltacli.core.times import DAY_MS, format_moment
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import plural
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.log.expiry import commit_expires_at_ms
from deltacli.delta.streams import Position, SourceKind
from deltacli.operations.streams.checkpoints import (
    OK,
    Finding,
    SourceOffsets,
    StreamCheckpoint,
    Verdict,
    worst,
)
from deltacli.operations.streams.needs import (
    ADD,
    REMOVE,
    Needs,
    TableHistory,
    began_unknown,
    needs_of,
    records_changes,
    restart_position,
)
from deltacli.operations.streams.position_checks import (
    find_position_ahead,
    find_schema_log_problem,
    find_set_back_log,
)
from deltacli.operations.streams.schema_changes import describe_stop, find_schema_stops, first_undelivered
from deltacli.operations.streams.schema_logs import LogEntry, oldest_entry, read_schema_logs
from deltacli.table.missing_files import find_missing_files
from deltacli.table.needed_files import combine_chunks

HORIZON_MS = 2 * DAY_MS
"""A query is at risk if something that it needs may be deleted within this time."""
_OPTIONS = "skipChangeCommits or ignoreChanges"
_OPTIONS_FOR_DELETIONS = "skipChangeCommits, ignoreChanges or ignoreDeletes"


class Lag(NamedTuple):
    """How far a source is behind: versions, bytes of the files to deliver, and milliseconds since the first commit that
    it has not delivered and that has files for it.
    """

    versions: int
    size_bytes: int
    age_ms: int


class SafeUntil(NamedTuple):
    """When something may be deleted, in epoch milliseconds, and by what rule."""

    time_ms: int
    rule: str


@dataclass(frozen=True)
class SourceJudgement:
    """A source in one table. `feed` is None where the change feed is not enabled, and `feed_needs` where it cannot be
    read from the position of the source; protection keeps `needs` and `feed_needs`.

    `safe_until` is when the first of what it needs may be deleted, by the retentions of the table or by Spark's own
    cleanup of the log; None where nothing is known to end it.
    """

    history: TableHistory
    checkpoint: StreamCheckpoint
    source: SourceOffsets
    position: Position
    rows: Finding
    feed: Finding | None
    needs: Needs
    feed_needs: Needs | None
    lag: Lag
    safe_until: SafeUntil | None
    is_ambiguous: bool = False
    """Several tables asked about have the id; each is judged, and all are protected."""

    @property
    def is_behind(self) -> bool:
        return self.lag.versions > 0

    @property
    def lacks_commits(self) -> bool:
        """Return whether a commit that the source has to deliver is gone or damaged, so that its files are unknown."""
        first = self.position.version + self.position.in_snapshot
        return any(not self.history.is_read(version) for version in range(first, self.history.newest + 1))

    @property
    def is_ahead_of_log(self) -> bool:
        """Return whether the log was set back below the position, so that what the source needs is not in it."""
        return find_position_ahead(self.source, self.history.newest) is not None


def judge(history: TableHistory, checkpoint: StreamCheckpoint, source: SourceOffsets) -> SourceJudgement:
    """Return the judgement of a source whose offsets are positions in the table (its `table_id` is that of the table,
    now or formerly). Looks for the files that are not live. Raises StorageFailed.
    """
    position = restart_position(checkpoint, source)
    assert position is not None
    needs = needs_of(history, checkpoint, source)
    lag = _lag_of(history, position, needs)
    found = SourceJudgement(history, checkpoint, source, position, OK, None, needs, None, lag, None)
    if position.table_id != history.snapshot.metadata.id:
        why = "the table was dropped and created again: its id differs from that in the checkpoint"
        return replace(found, rows=Finding(Verdict.DEAD, why), lag=Lag(0, 0, 0))
    feed, feed_needs = _feed_of(history, checkpoint, source)
    logs = _read_schema_logs(history, checkpoint, source)
    common = [source.finding, *checkpoint.findings_of_files, *_of_positions(found, logs)]
    limits = [one for one in (_safe_until(history, needs), _safe_until(history, feed_needs)) if one is not None]
    until = min(limits, default=None)
    at_risk = _at_risk(history, _safe_until(history, needs))
    of_schema = list(find_schema_stops(history, position, oldest_entry(logs)))
    rows = worst([*common, *_of_needs(found, needs), *at_risk, *_stops_by_deletions(found), *of_schema])
    if feed_needs is not None:
        at_risk = _at_risk(history, _safe_until(history, feed_needs))
        feed = worst([*common, *_of_needs(found, feed_needs, of_feed=True), *at_risk, *of_schema])
        if feed.verdict is Verdict.DEAD:
            until = _safe_until(history, needs)
    return replace(found, rows=rows, feed=feed, feed_needs=feed_needs, safe_until=until)


def _feed_of(
    history: TableHistory, checkpoint: StreamCheckpoint, source: SourceOffsets
) -> tuple[Finding | None, Needs | None]:
    """Return why the change feed cannot be read from the position of a source, or what that needs."""
    position = restart_position(checkpoint, source)
    assert position is not None
    at = history.config_at(position.version)
    if records_changes(at):
        return None, needs_of(history, checkpoint, source, of_feed=True)
    if not records_changes(history.snapshot.config):
        return None, None
    missing = "cannot be rebuilt" if at is None else "does not record changes"
    return Finding(Verdict.DEAD, f"as a change feed: version {position.version} {missing}"), None


def _lag_of(history: TableHistory, position: Position, needs: Needs) -> Lag:
    versions = max(history.newest - position.version + 1, 0)
    if needs.delivers_from is None:
        return Lag(versions, needs.size_bytes, 0)
    begun = history.times.get(needs.delivers_from)
    return Lag(versions, needs.size_bytes, 0 if begun is None else max(history.table.clock() - begun, 0))


# -- what is missing ---------------------------------------------------------------------------------------------------


def _of_positions(found: SourceJudgement, logs: Sequence[LogEntry]) -> Iterator[Finding]:
    """Yield what the positions themselves say, and what is wrong with the schema tracking logs."""
    history = found.history
    set_back = find_set_back_log(found.source, history.newest)
    if set_back is not None:
        yield set_back
    for entry in logs:
        problem = find_schema_log_problem(found.checkpoint, entry, history.snapshot.metadata.id)
        if problem is not None:
            yield problem


def _of_needs(found: SourceJudgement, needs: Needs, *, of_feed: bool = False) -> Iterator[Finding]:
    """Yield what is missing of the needs."""
    history = found.history
    wanted = range(history.newest + 1 if needs.first_version is None else needs.first_version, history.newest + 1)
    missing = [version for version in wanted if version not in history.listing.commits]
    if missing:
        are = "commit {} is" if len(missing) == 1 else "commits {} are"
        way_out = "" if of_feed else _describe_fail_on_data_loss(found, missing)
        yield Finding(Verdict.DEAD, f"{are.format(format_ranges(missing))} no longer in the log{way_out}")
    for commit in history.commits.values():
        if commit.fault is not None and commit.version in wanted:
            yield Finding(Verdict.DEAD, f"commit {commit.version} cannot be read: {commit.fault}")
    for version in needs.snapshots:
        if not history.is_loadable(version):
            why = f"version {version} can no longer be rebuilt"
            if began_unknown(found.source):
                why += ", which batch 0 began with, unless the query has the option startingVersion"
            yield Finding(Verdict.DEAD, why)
    if needs.fault is not None:
        yield Finding(Verdict.DEAD, f"the snapshot that it delivers cannot be rebuilt: {needs.fault}")
    yield from _of_files(found, needs)


def _describe_fail_on_data_loss(found: SourceJudgement, missing: Sequence[int]) -> str:
    """Return what becomes of a query of rows with the option failOnDataLoss=false; '' where it fails all the same.

    At a restart Delta reads the last finished batch again, and needs one commit of its versions at least, or within the
    first snapshot the commit behind that. It then skips the commits that are gone. Nothing is lost if that batch has
    delivered all of them. In the first batch and in an unfinished one the option does not help. Measured with Delta for
    Spark 4.4.0.
    """
    history, start, end = found.history, found.source.start, found.source.end
    if not isinstance(start, Position) or not isinstance(end, Position) or end.kind is not SourceKind.DELTA:
        return ""
    is_plain = start.in_snapshot == end.in_snapshot and not (start.is_barrier or end.is_barrier)
    if not found.checkpoint.is_committed or not is_plain or history.newest in missing:
        return ""
    if end.in_snapshot and not history.is_loadable(end.version):
        return ""
    needed = range(start.version, end.version + 1)
    if end.in_snapshot:
        needed = range(end.version + 1, end.version + 2)
    if not any(version in history.listing.commits for version in needed):
        return ""

    undelivered = [version for version in missing if version >= end.version]
    if not undelivered:
        return ". With failOnDataLoss=false a restart continues and loses nothing: all of that was delivered"
    skipped = ("version {}" if len(undelivered) == 1 else "versions {}").format(format_ranges(undelivered))
    return f". With failOnDataLoss=false a restart continues, but never delivers what {skipped} added"


def _of_files(found: SourceJudgement, needs: Needs) -> Iterator[Finding]:
    """Yield which of the files that are not live are missing."""
    rows = pa.concat_tables([needs.files, needs.change_data])
    if not rows.num_rows:
        return
    has_live_path, has_live_vector = found.history.live_parts(rows)
    paths, vectors = combine_chunks(rows["path"]), combine_chunks(rows["vector"])
    wanted = pc.filter(paths, pc.invert(has_live_path)), pc.filter(vectors, pc.invert(has_live_vector))
    lost, unseen = find_missing_files(found.history.table, *wanted)
    outside = f"outside of the table (name its directory with {parameter('open_table.allow_external')})"
    for names, verdict, what in ((lost, Verdict.DEAD, "missing"), (unseen, Verdict.UNKNOWN, outside)):
        of_path, of_vector = pc.is_in(paths, value_set=names[0]), pc.is_in(vectors, value_set=names[1])
        gone = rows.filter(pc.or_(of_path, of_vector))
        if gone.num_rows:
            first = gone.slice(0, 1).to_pylist()[0]
            kind = "the change file" if first["kind"] not in (ADD, REMOVE) else ""
            is_file = pc.any(pc.equal(names[0], first["path"])).as_py()
            kind = kind or ("the file" if is_file else "the deletion vector of")
            more = f" and {plural(gone.num_rows - 1, 'other file')}" if gone.num_rows > 1 else ""
            yield Finding(verdict, f"{kind} {first['path']} of commit {first['version']}{more}: {what}")


# -- until when it is there --------------------------------------------------------------------------------------------


def _at_risk(history: TableHistory, until: SafeUntil | None) -> Iterator[Finding]:
    now_ms = history.table.clock()
    if until is not None and until.time_ms <= now_ms + HORIZON_MS:
        when = "the next one" if until.time_ms <= now_ms else f"{format_moment(until.time_ms)} UTC"
        yield Finding(Verdict.AT_RISK, f"it needs what {until.rule} may delete, from {when} on")


def _safe_until(history: TableHistory, needs: Needs | None) -> SafeUntil | None:
    """Return when the first of the needs may be deleted. Spec: Metadata Cleanup; VACUUM as Delta-Spark does it."""
    if needs is None:
        return None
    properties = history.snapshot.properties
    found: list[SafeUntil] = []
    log_from = needs.log_from
    if log_from is not None:
        oldest = min((version for version in history.times if version >= log_from), default=log_from)
        newest_checkpoint = max((one.version for one in history.listing.checkpoints), default=-1)
        expires = commit_expires_at_ms(oldest, history.times, newest_checkpoint, properties)
        if expires is not None:
            found.append(SafeUntil(expires, "a cleanup of the log, also Spark's own,"))
    retention_ms = state.deleted_file_retention_ms(properties)
    removed = _removed_ms(history, needs.files)
    if removed is not None:
        found.append(SafeUntil(removed + retention_ms, "a vacuum"))
    versions = needs.change_data["version"]
    if len(versions):
        written = history.times.get(pc.min(versions).as_py())
        if written is not None:
            found.append(SafeUntil(written + retention_ms, "a vacuum (change files count from when they are written)"))
    return min(found, default=None)


def _removed_ms(history: TableHistory, files: ArrowTable) -> int | None:
    """Return when the first of some files was removed for the last time: its data file, or its vector."""
    if not files.num_rows:
        return None
    events = history.events
    removes = events.filter(pc.equal(events["kind"], REMOVE))
    found = [
        _first_removal(history, removes, files.filter(pc.invert(is_live)), name)
        for name, is_live in zip(("path", "vector"), history.live_parts(files), strict=True)
    ]
    return min((one for one in found if one is not None), default=None)


def _first_removal(history: TableHistory, removes: ArrowTable, files: ArrowTable, name: str) -> int | None:
    gone = removes.filter(pc.is_in(removes[name], value_set=combine_chunks(files[name])))
    if not gone.num_rows:
        return None
    committed = pa.array([history.times.get(version, 0) for version in gone["version"].to_pylist()], pa.int64())
    stated: ArrowArray = pc.fill_null(combine_chunks(gone["removed_ms"]), 0)
    times = pa.table({name: combine_chunks(gone[name]), "at": pc.max_element_wise(stated, committed)})
    first: int | None = pc.min(aggregate_rows(times, [name], [("at", "max")])["at_max"]).as_py()
    return first


# -- commits ahead that stop it ----------------------------------------------------------------------------------------


def _stops_by_deletions(found: SourceJudgement) -> Iterator[Finding]:
    """Yield the first commit ahead that deletes or changes rows, which stops a stream of rows.

    The option ignoreDeletes suffices if no commit ahead that removes files adds others, such as a DELETE of whole
    partitions or of all rows.
    """
    events = found.history.events
    is_ahead = pc.greater_equal(events["version"], first_undelivered(found.position))
    changes = events.filter(pc.and_(is_ahead, events["is_change"]))
    removals = pc.unique(changes.filter(pc.equal(changes["kind"], REMOVE))["version"])
    if not len(removals):
        return
    additions = changes.filter(pc.equal(changes["kind"], ADD))["version"]
    only_deletes = not pc.any(pc.is_in(additions, value_set=removals)).as_py()
    if only_deletes:
        stop = f"deletes rows: it stops without {_OPTIONS_FOR_DELETIONS}"
    else:
        stop = f"deletes or changes rows: it stops without {_OPTIONS}"
    yield Finding(Verdict.AT_RISK, f"commit {pc.min(removals).as_py()} {stop}")


def _read_schema_logs(history: TableHistory, checkpoint: StreamCheckpoint, source: SourceOffsets) -> list[LogEntry]:
    """Return the newest entries of the schema tracking logs of a source, where they may concern it.

    In object stores, where a listing is a request more, they are read only if a commit ahead concerns them.
    """
    position = restart_position(checkpoint, source)
    if position is None or position.kind is not SourceKind.DELTA:
        return []
    first = first_undelivered(position)
    has_changes = any(
        commit.metadata is not None or commit.protocol is not None
        for commit in history.commits.values()
        if commit.version >= first
    )
    if not has_changes and not checkpoint.storage.capabilities.has_cheap_requests:
        return []
    return read_schema_logs(checkpoint, source, position.table_id)


def stop_by(
    found: SourceJudgement, *, metadata: Action | None, protocol: Action | None, removes_files: bool
) -> str | None:
    """Return how a commit that somebody is about to make stops a source that reads rows; None where it goes on.
    `metadata` and `protocol` are what the commit has of these.
    """
    if removes_files:
        return f"the commit removes files: it stops without {_OPTIONS}"
    if metadata is None and protocol is None:
        return None
    position = found.position
    is_delta = position.kind is SourceKind.DELTA
    return describe_stop(
        found.history.snapshot.config,
        metadata=metadata,
        protocol=protocol,
        version=found.history.newest + 1,
        is_tracked=is_delta and bool(read_schema_logs(found.checkpoint, found.source, position.table_id)),
        kind=position.kind,
    )
