"""What queries of Spark need of a table, so that a vacuum and an expiry keep it.

A query that cannot continue, or whose checkpoint cannot be read, is a refusal until the user allows its loss. Positions
only move forward, so what is kept for an old reading is enough for a later one. The directories are read again before
each deletion for queries that began, went back, or were ignored until then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.changing.basis import FRESH_SECONDS
from deltacli.core.errors import Refusal, Refused, command, parameter
from deltacli.core.typing import ArrowArray, ArrowTable
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
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.delta.listing import PathKeys
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_LEAVES = (QueryState.LOST, QueryState.IGNORED, QueryState.REFUSED)
"""States for which nothing is kept: a plan shows what is deleted once a loss is allowed."""


class _Standing(NamedTuple):
    """A query with what it needs: the oldest version of the log, and files (`path`, `dv_id`, `size`)."""

    query: GuardedQuery
    log_from: int | None
    units: ArrowTable
    because: str = ""
    note: str | None = None


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
        """Return the queries."""
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
        import pyarrow as pa

        parts = [pa.array([], pa.int64())]
        for units in self.units:
            of_paths = keys.of_log(units.column("path").combine_chunks())
            of_vectors = keys.of_vectors(units.column("dv_id").combine_chunks())
            parts += [pc.drop_null(of_paths.hashes), of_paths.spare, pc.drop_null(of_vectors.hashes), of_vectors.spare]
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


def guard_streams(snapshot: Snapshot, protection: StreamProtection) -> StreamGuard:
    """Return what the queries whose directories match need of the newest version of a table.

    Raises Refused (`streams.none-found`) for a pattern without a match, what `find_checkpoints` raises for a directory
    that is none, and what reading the log of the table raises.
    """
    return _guard(snapshot, protection, _checkpoints(snapshot.table, protection))


def _checkpoints(table: TableHandle, protection: StreamProtection) -> list[StreamCheckpoint]:
    return find_checkpoints(protection.globs, table.open_other, table.engine, progress=table.progress)


def _guard(snapshot: Snapshot, protection: StreamProtection, found: Sequence[StreamCheckpoint]) -> StreamGuard:
    own = [(one, source) for one in found for source in one.sources if source.table_id == snapshot.metadata.id]
    judged: dict[int, list[SourceJudgement]] = {}
    if own:
        history = read_history(snapshot.table, own, snapshot=snapshot)
        for checkpoint, source in own:
            judged.setdefault(id(checkpoint), []).append(judge(history, checkpoint, source))
    standings = []
    for checkpoint in found:
        of_table = judged.get(id(checkpoint), [])
        if of_table or _may_be_of_any_table(checkpoint):
            standings.append(_stand(checkpoint, of_table, protection, snapshot.table.clock()))
    inside = tuple(place for one in found for place in _places_below(snapshot.table, one))
    notes = [one.note for one in standings if one.note is not None]
    allowed = parameter("vacuum.allow_stream_loss")
    for name in protection.allowed_names:
        if not any(one.is_named(name) or one.is_named(absolute(name)) for one in found):
            notes.append(f"{allowed} {name} names no query of {parameter('vacuum.protect_streams')}")
    return StreamGuard(protection, tuple(standings), inside, (*notes, *map(_of_place, filter(_is_visible, inside))))


def _may_be_of_any_table(checkpoint: StreamCheckpoint) -> bool:
    """Return True if a directory cannot be read as far as its tables."""
    if not checkpoint.sources:
        return checkpoint.finding.verdict is not Verdict.OK
    return any(isinstance(offset, Unread) for one in checkpoint.sources for offset in (one.start, one.end))


def _stand(
    checkpoint: StreamCheckpoint, judged: Sequence[SourceJudgement], protection: StreamProtection, now_ms: int
) -> _Standing:
    finding = worst([checkpoint.finding, *(one.rows for one in judged)])
    needs = [need for one in judged for need in (one.needs, one.feed_needs) if need is not None]
    log_from = min((need.log_from for need in needs if need.log_from is not None), default=None)
    parts = [rows for need in needs for rows in (need.files, need.change_data, need.may_need_files)]
    units = _units([rows for rows in parts if rows is not None])
    is_behind = bool(units.num_rows) or any(one.is_behind for one in judged)
    is_lost = finding.verdict in (Verdict.DEAD, Verdict.UNKNOWN)
    if any(map(checkpoint.is_named, protection.allowed_loss)):
        state = QueryState.LOST
    elif judged and (is_behind or is_lost) and _is_abandoned(checkpoint, protection, now_ms):
        state = QueryState.IGNORED
    elif is_lost:
        state = QueryState.REFUSED
    else:
        state = QueryState.CAUGHT_UP if log_from is None and not units.num_rows else QueryState.PROTECTED
    places = tuple(_place_of(checkpoint, one.source) for one in judged)
    versions = None if log_from is None else (log_from, judged[0].history.snapshot.version)
    lag_ms = max((one.lag.age_ms for one in judged), default=0)
    query = GuardedQuery(checkpoint.name, checkpoint.query_id, state, places, versions, lag_ms=lag_ms)
    if state in _LEAVES:
        return _Standing(query, None, units.slice(0, 0), finding.because)
    feeds = [one.feed.because for one in judged if one.feed is not None and one.feed.verdict is Verdict.DEAD]
    note = f"query {query.name} can continue only if it reads rows, not the change feed: {feeds[0]}" if feeds else None
    return _Standing(query, log_from, units, finding.because, note)


def _is_abandoned(checkpoint: StreamCheckpoint, protection: StreamProtection, now_ms: int) -> bool:
    older, touched = protection.ignore_older_ms, checkpoint.touched_ms
    return older is not None and touched is not None and touched < now_ms - older


def _place_of(checkpoint: StreamCheckpoint, source: SourceOffsets) -> Place:
    """Return where the files that a restart opens begin, before all of them where the checkpoint does not tell."""
    position = checkpoint.position(source)
    return (source.name, *(position.place if isinstance(position, Position) else (-1, False, 0)))


def _units(rows: Sequence[ArrowTable]) -> ArrowTable:
    import pyarrow as pa

    names = {"path": pa.string(), "dv_id": pa.string(), "size": pa.int64()}
    whole = [one.select(["path", "vector", "size"]).rename_columns(list(names)) for one in rows]
    return pa.concat_tables([pa.schema(list(names.items())).empty_table(), *whole])


def _places_below(table: TableHandle, checkpoint: StreamCheckpoint) -> tuple[str, ...]:
    """Return the path of a checkpoint directory relative to the table, what a directory has that is the table's own,
    nothing where it is elsewhere.
    """
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
    _looked_at: float | None = field(default=None, repr=False)

    def units(self) -> Iterator[ArrowTable]:
        """Yield the files (`path`, `dv_id`, `size`) that queries need by now and the plan does not keep for them; none
        within seconds of the last look. Raises Refused where a query cannot be protected, and what `guard_streams`
        raises.
        """
        begun = self.table.machine.monotonic()
        if self._looked_at is not None and 0 <= begun - self._looked_at <= FRESH_SECONDS:
            return
        protection = self.planned.protection
        known = {one.checkpoint: one for one in self.planned.queries}
        found = _checkpoints(self.table, protection)
        left = [one for one in found if self._may_need(one) and not self._is_covered(one, known.get(one.name))]
        if left:
            guard = _guard(read_snapshot(self.table), protection, left)
            if refusals := [*guard.refusals("vacuum")]:
                raise Refused.by(refusals)
            yield from (units for units in guard.units if units.num_rows)
        self._looked_at = begun

    def _may_need(self, checkpoint: StreamCheckpoint) -> bool:
        return _may_be_of_any_table(checkpoint) or bool(self._own(checkpoint))

    def _own(self, checkpoint: StreamCheckpoint) -> list[SourceOffsets]:
        return [one for one in checkpoint.sources if one.table_id == self.planned.table_id]

    def _is_covered(self, checkpoint: StreamCheckpoint, planned: GuardedQuery | None) -> bool:
        """Return True if the plan keeps all that a query needs by now."""
        if planned is None or checkpoint.finding.verdict in (Verdict.DEAD, Verdict.UNKNOWN):
            return False
        places = tuple(_place_of(checkpoint, one) for one in self._own(checkpoint))
        return planned.covers(planned._replace(query=checkpoint.query_id, places=places))
