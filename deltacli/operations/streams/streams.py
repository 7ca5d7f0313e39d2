"""`streams`: the queries of Spark that read tables, whether each can go on, and where a dead one can start over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow.compute as pc

from deltacli.core.errors import NotATable, PaimonTable, ProtocolUnsupported, Refused, Unreadable, UsageError, parameter
from deltacli.core.progress import SILENT, Progress
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowTable, Json, JsonObject
from deltacli.delta.log.actions import Action
from deltacli.delta.streams import OtherOffset, SourceKind
from deltacli.engine.base import Engine
from deltacli.operations.streams.checkpoints import (
    OK,
    Finding,
    SourceOffsets,
    StreamCheckpoint,
    Verdict,
    find_checkpoints,
    worst,
)
from deltacli.operations.streams.judge import SourceJudgement, judge, stop_by
from deltacli.operations.streams.needs import Needs, files_to_deliver, former_ids, read_history
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.table.discover import Opener
from deltacli.table.handle import TableHandle
from deltacli.table.missing_files import find_missing_files
from deltacli.table.needed_files import combine_chunks
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot


class Delivery(NamedTuple):
    """Versions with files and rows that a query delivers, or does not.

    Attributes:
        versions: The first and the last one; None for no version, or if they are unknown.
        files: How many files they have; None if a commit of them can no longer be read.
        rows: How many rows they have; None if that is unknown of a file, or `files` is None.
    """

    versions: tuple[int, int] | None
    files: int | None
    rows: int | None

    @property
    def is_unknown(self) -> bool:
        """Return whether even the versions are unknown."""
        return self.versions is None and self.files is None

    def as_json(self) -> JsonObject:
        return {
            "versions": None if self.versions is None else list(self.versions),
            "files": self.files,
            "rows": self.rows,
        }


_NOTHING = Delivery(None, 0, 0)
_UNKNOWN = Delivery(None, None, None)


@dataclass(frozen=True)
class RestartPoint:
    """Where a query with a new checkpoint starts over, and what that costs.

    Attributes:
        starting_version: The option `startingVersion`: the commit of this version and all later ones are delivered.
        lost: What was not delivered before it.
        repeated: What was delivered, and is delivered again.
        of_feed: The same as `starting_version` for the change feed; None if it does not differ.
        newest: The newest version of the table. Delta refuses a `startingVersion` above it.
    """

    starting_version: int
    lost: Delivery
    repeated: Delivery
    of_feed: int | None = None
    newest: int | None = None

    def is_future(self, version: int) -> bool:
        """Return whether a version does not exist yet, so that the query can only be started once it does.

        The option `latest` does not stand for it: it skips all that is committed before the query starts.
        """
        return self.newest is not None and version > self.newest

    def as_json(self) -> JsonObject:
        return {
            "startingVersion": self.starting_version,
            "startingVersionOfFeed": self.of_feed,
            "startingVersionExists": not self.is_future(self.starting_version),
            "startingVersionOfFeedExists": None if self.of_feed is None else not self.is_future(self.of_feed),
            "lost": self.lost.as_json(),
            "repeated": self.repeated.as_json(),
        }


def find_restart(judgement: SourceJudgement) -> RestartPoint | None:
    """Return the earliest version with all commits and files; None for a table created again. Raises StorageFailed."""
    history, position = judgement.history, judgement.position
    if position.table_id != history.snapshot.metadata.id:
        return None
    start = _earliest(judgement, of_feed=False)
    feed_start = None if judgement.feed is None else _earliest(judgement, of_feed=True)
    return RestartPoint(
        starting_version=start,
        lost=_find_lost_files(judgement, start),
        repeated=_find_repeated_files(judgement, start),
        of_feed=None if feed_start == start else feed_start,
        newest=history.newest,
    )


def _find_lost_files(judgement: SourceJudgement, start: int) -> Delivery:
    """Return what a query has not delivered and does not deliver if it starts over at a version.

    Nothing is known about the files of a commit that is gone, or of a snapshot that cannot be rebuilt. Such versions
    are named, and the numbers are None: zero would say that nothing is lost.
    """
    history, position = judgement.history, judgement.position
    if judgement.is_ahead_of_log:
        # The log does not tell to which version it was set back, and so not which versions were written again.
        return _UNKNOWN
    first = position.version
    if start <= first:
        return _NOTHING

    delivered = files_to_deliver(history, position)
    commits_to_read = range(first + position.in_snapshot, start)
    is_unread = delivered.fault is not None or any(not history.is_read(version) for version in commits_to_read)
    if is_unread:
        return Delivery((first, start - 1), None, None)

    events = delivered.events.filter(pc.less(delivered.events["version"], start))
    files = events.num_rows
    rows = _rows_of(events)
    if delivered.of_snapshot is not None:
        files += delivered.of_snapshot.files
        snapshot_rows = delivered.of_snapshot.rows
        rows = None if rows is None or snapshot_rows is None else rows + snapshot_rows
    if start - 1 == first and not files and not position.in_snapshot:
        return _NOTHING  # all files of the version had been delivered
    return Delivery((first, start - 1), files, rows)


def _find_repeated_files(judgement: SourceJudgement, start: int) -> Delivery:
    """Return what a query has delivered of a version, and delivers again if it starts over there."""
    history, position = judgement.history, judgement.position
    if start != position.version or position.in_snapshot or not position.delivered:
        return _NOTHING
    events = history.events
    is_added = pc.and_(events["is_change"], pc.equal(events["kind"], "add"))
    files = events.filter(pc.and_(pc.equal(events["version"], start), is_added)).slice(0, position.delivered)
    return Delivery((start, start), files.num_rows, _rows_of(files)) if files.num_rows else _NOTHING


def _rows_of(files: ArrowTable) -> int | None:
    if not files.num_rows:
        return 0
    return None if files["rows"].null_count else int(pc.sum(files["rows"]).as_py())


def _earliest(judgement: SourceJudgement, *, of_feed: bool) -> int:
    history, position = judgement.history, judgement.position
    first = position.version + position.in_snapshot  # what is left of a snapshot cannot be named
    if judgement.is_ahead_of_log:
        first = min(first, history.newest + 1)
    gone = [version for version in range(first, history.newest + 1) if version not in history.listing.commits]
    gone += [one.version for one in history.commits.values() if one.fault is not None]
    files = files_to_deliver(history, position, of_feed=of_feed).not_live(history)
    if files.num_rows:
        has_path, has_vector = history.live_parts(files)
        paths, vectors = combine_chunks(files["path"]), combine_chunks(files["vector"])
        lost, _ = find_missing_files(
            history.table, pc.filter(paths, pc.invert(has_path)), pc.filter(vectors, pc.invert(has_vector))
        )
        missing = pc.or_(pc.is_in(paths, value_set=lost[0]), pc.is_in(vectors, value_set=lost[1]))
        last = pc.max(pc.filter(combine_chunks(files["version"]), missing)).as_py()
        gone += [] if last is None else [last]
    start = max([first, *(version + 1 for version in gone)])
    while of_feed and start <= history.newest and not history.is_loadable(start):
        start += 1
    return start


# -- all queries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StreamsRequest:
    """Which streaming queries to examine: those with these checkpoints, or the one to start over.

    Attributes:
        checkpoints: Checkpoint directories of queries, and patterns of them, relative to the current directory.
        restart_point: Instead of `checkpoints`: the checkpoint directory of one query. Where it can start over
            is part of the result.
    """

    checkpoints: Sequence[str] = ()
    restart_point: str | None = None

    def __post_init__(self) -> None:
        """Raise UsageError without a directory, with both options, or for an empty text."""
        object.__setattr__(self, "checkpoints", tuple(self.checkpoints))
        one, other = parameter("streams.checkpoints"), parameter("streams.restart_point")
        if bool(self.checkpoints) == (self.restart_point is not None):
            said = f"name the checkpoint directories with {one} or {other}"
            raise UsageError(
                f"{one} and {other} exclude each other" if self.checkpoints else said, code="usage.checkpoints"
            )
        if any(not name.strip() for name in self.names):
            raise UsageError(f"{one if self.checkpoints else other} is empty", code="usage.checkpoints")

    @property
    def names(self) -> Sequence[str]:
        """Return the directories and patterns."""
        return self.checkpoints if self.restart_point is None else (self.restart_point,)


class StreamSource(NamedTuple):
    """A source of a query in one table, or in none.

    `finding` is None for sources that read no Delta table, or one that was not asked about.
    """

    source: SourceOffsets
    kind: SourceKind
    finding: Finding | None
    table: str | None = None
    judgement: SourceJudgement | None = None
    restart: RestartPoint | None = None

    def as_json(self) -> JsonObject:
        """Return an item of `sources` of the document `deltacli.streams`."""
        one = self.judgement
        known = (*([] if one is None else [one.position]), *self.source.positions[::-1])
        position = known[0] if known else None
        feed = None if one is None or one.feed is None or one.feed.verdict is one.rows.verdict else one.feed
        until = None if one is None else one.safe_until
        return {
            "name": self.source.name,
            "kind": self.kind.value,
            "table": self.table,
            "tableId": self.source.table_id,
            "version": None if position is None else position.version,
            "index": None if position is None else position.index,
            "initialSnapshot": None if position is None else position.in_snapshot,
            "lag": None
            if one is None
            else {"versions": one.lag.versions, "seconds": one.lag.age_ms // 1000, "bytes": one.lag.size_bytes},
            "needs": None if one is None else _needs(one),
            "safeUntilMs": None if until is None else until.time_ms,
            "safeUntil": None if until is None else format_timestamp(until.time_ms),
            "safeUntilBy": None if until is None else until.rule,
            "verdict": None if self.finding is None else self.finding.verdict.value,
            "because": (self.finding and self.finding.because) or None,
            "verdictOfFeed": None if feed is None else feed.verdict.value,
            "becauseOfFeed": (feed and feed.because) or None,
            "ambiguous": one is not None and one.is_ambiguous,
            "restart": None if self.restart is None else self.restart.as_json(),
        }


def _needs(one: SourceJudgement) -> JsonObject:
    def size_of(needs: Needs | None) -> int:
        return (
            0 if needs is None else sum(pc.sum(rows["size"]).as_py() or 0 for rows in (needs.files, needs.change_data))
        )

    first, feed = one.needs.first_version, one.feed_needs
    largest = feed if feed is not None and feed.files.num_rows > one.needs.files.num_rows else one.needs
    in_snapshot = [begin for begin in one.source.positions if begin.in_snapshot]
    return {
        "versions": None if first is None else [first, one.history.newest],
        "files": largest.files.num_rows,
        "sizeBytes": max(size_of(one.needs), size_of(feed)),
        "initialSnapshot": min((begin.version for begin in in_snapshot), default=None),
        "changeData": 0 if feed is None else feed.change_data.num_rows,
    }


_OTHER_ID = (
    "the table does not have the id that is in the checkpoint: it was created again, or the query reads another table. "
    "If it was created again, each restart fails: start over with a new checkpoint"
)
_AMBIGUOUS = "several of the tables have its id, and it can continue in some of them only"


class StreamQuery(NamedTuple):
    """A query: its checkpoint directory, and its sources, of which one that several tables may have is in each."""

    checkpoint: StreamCheckpoint
    sources: tuple[StreamSource, ...]

    def judgements(self) -> list[SourceJudgement]:
        """Return what is known of those of its sources that read a table that was asked about."""
        return [source.judgement for source in self.sources if source.judgement is not None]

    @property
    def name(self) -> str:
        """The last name of its directory; Spark keeps no other."""
        return self.checkpoint.name.rstrip("/").rpartition("/")[2] or self.checkpoint.name

    @property
    def finding(self) -> Finding:
        """The worst verdict of the directory and its sources; of several possible tables one that they share."""
        found = [self.checkpoint.finding]
        for name in dict.fromkeys(one.source.name for one in self.sources):
            here = [one.finding or OK for one in self.sources if one.source.name == name]
            is_same = len({one.verdict for one in here}) == 1
            found.append(here[0] if is_same else Finding(Verdict.UNKNOWN, _AMBIGUOUS))
        return worst(found)

    def as_json(self) -> JsonObject:
        """Return an item of `queries` of the document `deltacli.streams`."""
        return {
            "name": self.name,
            "id": self.checkpoint.query_id,
            "checkpoint": self.checkpoint.uri,
            "batch": self.checkpoint.batch,
            "verdict": self.finding.verdict.value,
            "because": self.finding.because or None,
            "sources": [one.as_json() for one in self.sources],
        }


@short_repr("queries", "others")
@dataclass(frozen=True, eq=False, repr=False)
class StreamsReport:
    """The queries, the worst first. `others` counts those that read none of the tables that were asked about."""

    queries: tuple[StreamQuery, ...]
    others: int = 0

    def verdicts(self) -> Counter[Verdict]:
        return Counter(one.finding.verdict for one in self.queries)

    def fails(self, *, at_risk: bool = False) -> bool:
        """Return whether a query is dead; with `at_risk`, whether any is not `ok`."""
        counts = self.verdicts()
        if at_risk:
            return counts.total() > counts[Verdict.OK]
        return bool(counts[Verdict.DEAD])

    def describe_stopped(
        self, *, metadata: Action | None, protocol: Action | None, removes_files: bool = False
    ) -> Iterator[str]:
        """Yield a sentence on each query that a commit would stop, and why. Queries that are dead are left out.

        Args:
            metadata: The metadata that the commit has, None for one without.
            protocol: The protocol that the commit has, None for one without.
            removes_files: True if the commit removes files.
        """
        for query in self.queries:
            if query.finding.verdict is Verdict.DEAD:
                continue
            for judgement in query.judgements():
                if judgement.rows.verdict is Verdict.DEAD:
                    continue
                why = stop_by(judgement, metadata=metadata, protocol=protocol, removes_files=removes_files)
                if why is not None:
                    yield f"query {query.name} reads the table: {why}"
                    break

    def describe_cut_off(self, first_kept: int) -> Iterator[str]:
        """Yield a sentence on each query that needs versions of the log below the first one that a change keeps."""
        for query in self.queries:
            if query.finding.verdict is Verdict.DEAD:
                continue
            # Whether a query reads rows or the change feed is not known, so what either needs is looked at.
            needs = [need for one in query.judgements() for need in (one.needs, one.feed_needs) if need is not None]
            needed = min((need.log_from for need in needs if need.log_from is not None), default=None)
            if needed is not None and needed < first_kept:
                yield (
                    f"query {query.name} needs the log from version {needed} on: it cannot continue once the versions "
                    f"below {first_kept} are deleted"
                )

    def rows(self) -> Iterator[dict[str, Json]]:
        """Yield the sources of all queries, by `COLUMNS`; a query without any is one, too."""
        for query in self.queries:
            for source in query.sources or (None,):
                row = SourceRow(query, {} if source is None else source.as_json())
                yield {name: get_value(row) for name, get_value in SOURCE_VALUES.items()}

    def as_json(self) -> JsonObject:
        """Return the document `deltacli.streams`, without the envelope."""
        counts = self.verdicts()
        return {
            "verdicts": {one.value: counts[one] for one in Verdict},
            "queries": [one.as_json() for one in self.queries],
            "otherQueries": self.others,
        }


class SourceRow(NamedTuple):
    """A row of a table of all sources: a source, or a query that has none.

    Attributes:
        query: The query.
        source: The source as in the document; empty for a query without any.
    """

    query: StreamQuery
    source: JsonObject

    @property
    def because(self) -> str | None:
        """The reason of the verdict on the source; of a query without any, that of the query."""
        return self.source["because"] if self.source else self.query.finding.because or None

    @property
    def lag(self) -> JsonObject:
        """How far the source is behind; empty where that is unknown."""
        return self.source.get("lag") or {}

    @property
    def needs(self) -> JsonObject:
        """What the source still needs; empty where that is unknown."""
        return self.source.get("needs") or {}

    @property
    def first_needed_version(self) -> int | None:
        """The first version that the source needs."""
        versions = self.needs.get("versions")
        return versions[0] if versions else None

    @property
    def restart(self) -> JsonObject:
        """Where the source can start over; empty where it need not."""
        return self.source.get("restart") or {}


SOURCE_VALUES: Mapping[str, Callable[[SourceRow], Json]] = {
    "query": lambda row: row.query.name,
    "id": lambda row: row.query.checkpoint.query_id,
    "checkpoint": lambda row: row.query.checkpoint.uri,
    "batch": lambda row: row.query.checkpoint.batch,
    "queryVerdict": lambda row: row.query.finding.verdict.value,
    "name": lambda row: row.source.get("name"),
    "kind": lambda row: row.source.get("kind"),
    "table": lambda row: row.source.get("table"),
    "tableId": lambda row: row.source.get("tableId"),
    "version": lambda row: row.source.get("version"),
    "index": lambda row: row.source.get("index"),
    "initialSnapshot": lambda row: row.source.get("initialSnapshot"),
    "lagVersions": lambda row: row.lag.get("versions"),
    "lagSeconds": lambda row: row.lag.get("seconds"),
    "lagBytes": lambda row: row.lag.get("bytes"),
    "needsFirst": lambda row: row.first_needed_version,
    "needsFiles": lambda row: row.needs.get("files"),
    "needsBytes": lambda row: row.needs.get("sizeBytes"),
    "needsChangeData": lambda row: row.needs.get("changeData"),
    "safeUntilMs": lambda row: row.source.get("safeUntilMs"),
    "safeUntil": lambda row: row.source.get("safeUntil"),
    "verdict": lambda row: row.source.get("verdict"),
    "because": lambda row: row.because,
    "verdictOfFeed": lambda row: row.source.get("verdictOfFeed"),
    "ambiguous": lambda row: row.source.get("ambiguous"),
    "startingVersion": lambda row: row.restart.get("startingVersion"),
}
"""The columns of a table of all sources, in CSV and in frames of Spark, with the value of each."""

COLUMNS = tuple(SOURCE_VALUES)


class _Named(NamedTuple):
    """A table that was asked about: its newest version, or why that cannot be rebuilt."""

    table: TableHandle
    snapshot: Snapshot | None
    fault: Unreadable | None = None


def find_streams(
    request: StreamsRequest,
    tables: Sequence[TableHandle],
    open_: Opener,
    engine: Engine,
    *,
    is_one_table: bool = False,
    progress: Progress = SILENT,
) -> StreamsReport:
    """Return the queries with what each needs of the tables. Nothing is changed. With `is_one_table`, queries that read
    no other than these tables are left out.

    Raises what `find_checkpoints` raises, NotATable, UsageError for a share, and StorageFailed.
    """
    for table in tables:
        if is_shared_table(table.storage):
            raise UsageError(f"streams works on Delta tables only: the provider of {table.uri} decides what it keeps")
    found = find_checkpoints(request.names, open_, engine, progress=progress)
    named = [_read(table) for table in tables]
    placed = [(one, source, _tables_of(source, named)) for one in found for source in one.sources]
    judged: dict[tuple[int, str], list[SourceJudgement]] = {}
    for one in named:
        own = [(point, source) for point, source, of in placed if one in of]
        if not own or one.snapshot is None:
            continue
        history = read_history(one.table, own, snapshot=one.snapshot, with_rows=request.restart_point is not None)
        for point, source in own:
            judged.setdefault((id(point), source.name), []).append(judge(history, point, source))
    queries = []
    for point in found:
        sources = [
            row for source in point.sources for row in _rows(source, judged.get((id(point), source.name), []), named)
        ]
        if is_one_table:
            sources = _judge_unnamed_tables(point, sources)
        if request.restart_point is not None:
            sources = [row._replace(restart=find_restart(row.judgement)) if row.judgement else row for row in sources]
        queries.append(StreamQuery(point, tuple(sources)))
    shown = [one for one in queries if not is_one_table or _concerns(one)]
    shown.sort(key=lambda one: -[*Verdict].index(one.finding.verdict))
    return StreamsReport(tuple(shown), len(queries) - len(shown))


def _judge_unnamed_tables(checkpoint: StreamCheckpoint, sources: Sequence[StreamSource]) -> list[StreamSource]:
    """Return the sources of a query with the verdicts of those whose table is not the only one asked about.

    Where the query reads the table in another source, it was not asked about their tables, so that they have no
    verdict, unless their offsets are damaged. A query that is named for the table and has another id of a table in
    all of its sources cannot read it.
    """
    reads_table = any(source.table is not None for source in sources)
    if not reads_table and not checkpoint.is_named_by_user:
        return list(sources)

    judged = []
    for source in sources:
        if source.table is None and source.source.positions:
            damage = source.source.finding
            if reads_table:
                finding = None if damage.verdict is Verdict.OK else damage
            else:
                finding = worst([damage, Finding(Verdict.DEAD, _OTHER_ID)])
            source = source._replace(finding=finding)
        judged.append(source)
    return judged


def _concerns(query: StreamQuery) -> bool:
    """Return whether a query reads a table that was asked about, or may read it."""
    if any(one.judgement is not None for one in query.sources) or query.checkpoint.may_read_named_table:
        return True
    return query.checkpoint.finding.verdict is not Verdict.OK or any(one.table is not None for one in query.sources)


def _read(table: TableHandle) -> _Named:
    try:
        return _Named(table, read_snapshot(table))
    except NotATable:
        raise
    except Unreadable as fault:
        return _Named(table, None, fault)


def _tables_of(source: SourceOffsets, named: Sequence[_Named]) -> list[_Named]:
    """Return the tables that have the id of a source now; else those that had it once."""
    wanted = source.table_id
    if wanted is None:
        return []
    readable = [one for one in named if one.snapshot is not None]
    now = [one for one in readable if one.snapshot is not None and one.snapshot.metadata.id == wanted]
    return now or [one for one in readable if wanted in former_ids(one.table)]


def _rows(source: SourceOffsets, judged: Sequence[SourceJudgement], named: Sequence[_Named]) -> Iterator[StreamSource]:
    if judged:
        for one in judged:
            one = replace(one, is_ambiguous=len(judged) > 1)
            yield StreamSource(source, one.position.kind, one.rows, one.history.table.uri, one)
        return
    if not source.positions:
        kind = source.end.kind if isinstance(source.end, OtherOffset) else SourceKind.OTHER
        finding = source.finding
        yield StreamSource(source, kind, None if finding.verdict is Verdict.OK else finding)
        return
    unreadable = [one for one in named if one.fault is not None]
    kind = source.positions[-1].kind
    if len(named) == 1 and unreadable and unreadable[0].fault is not None:
        fault = unreadable[0].fault
        why = f"the newest version of the table cannot be read: {fault.message}"
        finding = Finding(Verdict.UNKNOWN if isinstance(fault, ProtocolUnsupported) else Verdict.DEAD, why)
        yield StreamSource(source, kind, finding, unreadable[0].table.uri)
        return
    why = "the table is not named"
    if named:
        why = "no table that was named has its id: the table was created again, or is not named"
    yield StreamSource(source, kind, worst([source.finding, Finding(Verdict.UNKNOWN, why)]))


def refuse_paimon(fault: PaimonTable) -> Refused:
    """Return the refusal for a Paimon table: its streams keep their positions in consumers."""
    return Refused(
        "streams works on Delta tables only: queries of a Paimon table keep their positions as its consumers",
        code="streams.paimon",
        facts=fault.facts,
    )
