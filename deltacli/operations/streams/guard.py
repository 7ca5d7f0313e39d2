"""What queries of Spark need of a table, so that a vacuum and an expiry keep it.

A query that cannot continue, or whose checkpoint cannot be read, is a refusal until the user allows its loss. Positions
only move forward, so what is kept for an old reading is enough for a later one. The directories are read again before
each deletion for queries that began, went back, or were ignored until then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import MAX_LISTING_AGE_SECONDS
from deltacli.core.errors import Refusal, Refused, command, parameter
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import encoded_root
from deltacli.delta.paths.spelling_columns import made_absolute
from deltacli.delta.streams import Position, Unread
from deltacli.operations.streams.checkpoints import (
    IN_CHECKPOINTS,
    SourceOffsets,
    StreamCheckpoint,
    Verdict,
    find_checkpoints,
    worst,
)
from deltacli.operations.streams.judge import SourceJudgement, judge
from deltacli.operations.streams.needs import read_history
from deltacli.operations.streams.protection import (
    GuardedQuery,
    GuardedStreams,
    Place,
    QueryState,
    StreamProtection,
    absolute,
)
from deltacli.storage import LocalStorage
from deltacli.table.handle import TableHandle
from deltacli.table.needed_files import combine_chunks
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

_LEAVES = (QueryState.LOST, QueryState.IGNORED, QueryState.REFUSED)
"""States for which nothing is kept: a plan shows what is deleted once a loss is allowed."""


class _Standing(NamedTuple):
    """A query with what it needs: the oldest version of the log, and files (`path`, `dv_id`, `size`)."""

    query: GuardedQuery
    log_from: int | None
    units: ArrowTable
    because: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamGuard:
    """The queries that stand in a table, as the protection has it. `inside` are checkpoint directories below the table,
    relative to it, `notes` are about the directories.
    """

    protection: StreamProtection
    standings: tuple[_Standing, ...]
    inside: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def queries(self) -> tuple[GuardedQuery, ...]:
        return tuple(one.query for one in self.standings)

    @property
    def units(self) -> tuple[ArrowTable, ...]:
        """Return the files that each query needs and the newest version does not: `path`, `dv_id`, `size`."""
        return tuple(one.units for one in self.standings)

    @property
    def log_from(self) -> int | None:
        """Return the version that the oldest query needs of the log; None where none needs any."""
        return min((one.log_from for one in self.standings if one.log_from is not None), default=None)

    @property
    def oldest(self) -> GuardedQuery | None:
        """Return the query that needs it."""
        return next((one.query for one in self.standings if one.log_from == self.log_from is not None), None)

    def hashes(self, keys: PathKeys) -> ArrowArray:
        """Return the hashes of the needed files in a listing."""
        parts = [pa.array([], pa.int64())]
        for units in self.units:
            of_paths = keys.compute_keys(units.column("path").combine_chunks())
            of_vectors = keys.compute_vector_keys(units.column("dv_id").combine_chunks())
            parts += [
                pc.drop_null(of_paths.hashes),
                of_paths.alternative_hashes,
                pc.drop_null(of_vectors.hashes),
                of_vectors.alternative_hashes,
            ]
        return pc.unique(pa.concat_arrays(parts))

    def refusals(self, operation: str) -> Iterator[Refusal]:
        """Yield a refusal for each query that cannot be protected. `operation`: `vacuum` or `log expire`."""
        for one in self.standings:
            if one.query.state is QueryState.REFUSED:
                name = one.query.query or one.query.checkpoint
                yield Refusal(
                    "streams.not-protected",
                    f"what query {one.query.name} needs cannot be kept: {one.because}",
                    override=parameter(f"{operation}.allow_stream_loss", name),
                    hint=command("streams", checkpoints=one.query.checkpoint),
                )


def guard_streams(snapshot: Snapshot, protection: StreamProtection, others: Sequence[Snapshot] = ()) -> StreamGuard:
    """Return what the queries whose directories match need of the newest version of a table, and of others that name
    its files, such as its shallow clones.

    Raises Refused (`streams.none-found`) for a pattern without a match, what `find_checkpoints` raises for a directory
    that is none, and what reading the log of the table raises.
    """
    return _guard(snapshot, protection, _checkpoints(snapshot.table, protection), others)


def _checkpoints(table: TableHandle, protection: StreamProtection) -> list[StreamCheckpoint]:
    return find_checkpoints(protection.globs, table.open_other, table.engine, progress=table.progress)


def _guard(
    snapshot: Snapshot, protection: StreamProtection, found: Sequence[StreamCheckpoint], others: Sequence[Snapshot]
) -> StreamGuard:
    judged: dict[int, list[SourceJudgement]] = {}
    # A copy has the id of the table, whose own log decides.
    for one in (snapshot, *(other for other in others if other.metadata.id != snapshot.metadata.id)):
        own = [(point, source) for point in found for source in point.sources if source.reads(one.metadata.id)]
        if not own:
            continue
        history = read_history(one.table, own, snapshot=one)
        for point, source in own:
            judged.setdefault(id(point), []).append(judge(history, point, source))
    standings = []
    for checkpoint in found:
        of_tables = judged.get(id(checkpoint), [])
        if of_tables or _may_be_of_any_table(checkpoint):
            standings.append(_stand(checkpoint, of_tables, protection, snapshot))
    inside = tuple(place for one in found for place in _places_below(snapshot.table, one))
    notes = [note for one in standings for note in one.notes]
    names_of_standings = {standing.query.checkpoint for standing in standings}
    notes += [
        _describe_other_table(checkpoint)
        for checkpoint in found
        if checkpoint.may_read_named_table and checkpoint.name not in names_of_standings
    ]
    allowed = parameter("vacuum.allow_stream_loss")
    for name in protection.allowed_names:
        if not any(one.is_named(name) or one.is_named(absolute(name)) for one in found):
            notes.append(f"{allowed} {name} names no query of {parameter('vacuum.protect_streams')}")
    return StreamGuard(protection, tuple(standings), inside, (*notes, *map(_of_place, filter(_is_visible, inside))))


def _describe_other_table(checkpoint: StreamCheckpoint) -> str:
    """Return a note on a query that was named for the table, and whose offsets have the ids of other tables."""
    return (
        f"query {checkpoint.name} reads a table with another id, so that nothing is kept for it: if this table was "
        "created again, the query has to start over with a new checkpoint"
    )


def _may_be_of_any_table(checkpoint: StreamCheckpoint) -> bool:
    """Return True if the tables of a directory are unknown. An entry of a newer format may have other tables."""
    if not checkpoint.sources:
        return checkpoint.finding.verdict is not Verdict.OK
    offsets = [offset for one in checkpoint.sources for offset in (one.start, one.end)]
    is_unknown = any(one.verdict is Verdict.UNKNOWN for one in checkpoint.findings)
    return is_unknown or any(isinstance(one, Unread) for one in offsets)


def _stand(
    checkpoint: StreamCheckpoint, judged: Sequence[SourceJudgement], protection: StreamProtection, snapshot: Snapshot
) -> _Standing:
    finding = worst([checkpoint.finding, *(one.rows for one in judged)])
    units = _units(judged, snapshot)
    # Of the vacuumed table, which is judged first, else of a clone.
    firsts = [
        need.log_from
        for one in judged
        for need in (one.needs, one.feed_needs)
        if one.history is judged[0].history and need is not None and need.log_from is not None
    ]
    log_from = min(firsts, default=None)
    is_behind = bool(units.num_rows) or any(one.is_behind for one in judged)
    # A log that was set back does not have what the query needs of it, whatever its verdict is.
    is_ahead = any(one.is_ahead_of_log for one in judged)
    is_lost = finding.verdict in (Verdict.DEAD, Verdict.UNKNOWN) or is_ahead
    if any(map(checkpoint.is_named, protection.allowed_loss)):
        state = QueryState.LOST
    elif judged and (is_behind or is_lost) and _is_abandoned(checkpoint, protection, snapshot.table.clock()):
        state = QueryState.IGNORED
    elif is_lost:
        state = QueryState.REFUSED
    else:
        state = QueryState.CAUGHT_UP if log_from is None and not units.num_rows else QueryState.PROTECTED
    places = tuple(_place_of(checkpoint, one.source) for one in judged)
    versions = None if log_from is None else (log_from, judged[0].history.newest)
    lag_ms = max((one.lag.age_ms for one in judged), default=0)
    query = GuardedQuery(checkpoint.name, checkpoint.query_id, state, places, versions, lag_ms=lag_ms)
    if state in _LEAVES:
        return _Standing(query, None, units.slice(0, 0), finding.because)
    feeds = [one.feed.because for one in judged if one.feed is not None and one.feed.verdict is Verdict.DEAD]
    notes = [f"query {query.name} can continue only if it reads rows, not the change feed: {one}" for one in feeds[:1]]
    if judged and (place := judged[0].history.table.uri) != snapshot.table.uri:
        notes.append(f"query {query.name} reads {place}, which has files of this table: the versions are those of it")
    return _Standing(query, log_from, units, finding.because, tuple(notes))


def _is_abandoned(checkpoint: StreamCheckpoint, protection: StreamProtection, now_ms: int) -> bool:
    older, touched = protection.ignore_older_ms, checkpoint.touched_ms
    return older is not None and touched is not None and touched < now_ms - older


def _place_of(checkpoint: StreamCheckpoint, source: SourceOffsets) -> Place:
    """Return where the files that a restart opens begin, before all of them where the checkpoint does not tell."""
    position = checkpoint.position(source)
    name = f"{source.table_id}:{source.name}"
    return (name, *(position.place if isinstance(position, Position) else (-1, False, 0)))


def _units(judged: Sequence[SourceJudgement], snapshot: Snapshot) -> ArrowTable:
    """Return the files that sources need, those of other tables than that of the snapshot by absolute paths."""
    names = {"path": pa.string(), "dv_id": pa.string(), "size": pa.int64()}
    parts = [pa.schema(list(names.items())).empty_table()]
    for one in judged:
        table = one.history.table
        for need in (one.needs, one.feed_needs):
            for rows in () if need is None else (need.files, need.change_data, need.may_need_files):
                if rows is not None:
                    units = rows.select(["path", "vector", "size"]).rename_columns(list(names))
                    if table is not snapshot.table:
                        paths = made_absolute(combine_chunks(units["path"]), encoded_root(table.uri))
                        units = units.set_column(0, "path", paths)
                    parts.append(units)
    return pa.concat_tables(parts)


def _places_below(table: TableHandle, checkpoint: StreamCheckpoint) -> tuple[str, ...]:
    """Return the path of a checkpoint directory in the table, or what it holds of the table's own; else nothing."""
    roots, place = (table.uri, *table.storage.aliases), checkpoint.uri
    if isinstance(checkpoint.storage, LocalStorage):
        if not isinstance(table.storage, LocalStorage):
            return ()
        roots, place = (os.path.realpath(table.storage.root),), os.path.realpath(checkpoint.storage.root)
    for root in (root.rstrip("/") for root in roots):
        if place.rstrip("/") == root:
            return IN_CHECKPOINTS
        if place.startswith(f"{root}/"):
            return (place.removeprefix(f"{root}/").rstrip("/"),)
    return ()


def _is_visible(directory: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in directory.split("/"))


def _of_place(directory: str) -> str:
    return (
        f"the checkpoint directory {directory} is kept, but VACUUM of other engines deletes its files: directories of "
        "a table whose names do not begin with _ are not safe"
    )


# -- before each deletion ----------------------------------------------------------------------------------------------


@dataclass
class StreamWatch:
    """Reads the directories of a plan again."""

    table: TableHandle
    planned: GuardedStreams
    others: Mapping[str, TableHandle] = field(default_factory=dict)
    """Other tables by id that name files of the table; queries of these are protected, too."""
    _looked_at: float | None = field(default=None, repr=False)

    def units(self) -> Iterator[ArrowTable]:
        """Yield the files (`path`, `dv_id`, `size`) that queries need by now and the plan does not keep for them; none
        within seconds of the last look. Raises Refused where a query cannot be protected, and what `guard_streams`
        raises.
        """
        begun = self.table.machine.monotonic()
        if self._looked_at is not None and 0 <= begun - self._looked_at <= MAX_LISTING_AGE_SECONDS:
            return
        protection = self.planned.protection
        known = {one.checkpoint: one for one in self.planned.queries}
        found = _checkpoints(self.table, protection)
        left = [one for one in found if self._may_need(one) and not self._is_covered(one, known.get(one.name))]
        if left:
            others = [read_snapshot(one) for one in self.others.values()]
            guard = _guard(read_snapshot(self.table), protection, left, others)
            if refusals := [*guard.refusals("vacuum")]:
                raise Refused.from_refusals(refusals)
            yield from (units for units in guard.units if units.num_rows)
        self._looked_at = begun

    def _may_need(self, checkpoint: StreamCheckpoint) -> bool:
        return _may_be_of_any_table(checkpoint) or bool(self._own(checkpoint))

    def _own(self, checkpoint: StreamCheckpoint) -> list[SourceOffsets]:
        ids = (self.planned.table_id, *self.others)
        return [one for one in checkpoint.sources if any(map(one.reads, ids))]

    def _is_covered(self, checkpoint: StreamCheckpoint, planned: GuardedQuery | None) -> bool:
        """Return True if the plan keeps all that a query needs by now."""
        if planned is None or checkpoint.finding.verdict in (Verdict.DEAD, Verdict.UNKNOWN):
            return False
        places = tuple(_place_of(checkpoint, one) for one in self._own(checkpoint))
        return planned.covers(planned._replace(query=checkpoint.query_id, places=places))
