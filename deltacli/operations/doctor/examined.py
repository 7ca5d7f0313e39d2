"""Everything that is known of a table before advice is given, its newest commits included, and the report of it.

A commit is parsed by Arrow, in columns, and only the fields that are counted. Sizes at older versions are those of now
without what the commits since have added and removed; they end at the first commit that does not tell its sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt, FileMissing, LogIncomplete
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import report_items
from deltacli.core.short_repr import short_repr
from deltacli.core.times import DAY_MS, format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.encoding.ndjson import parse_ndjson
from deltacli.delta.log.segment import LogFile, LogListing, compute_file_times
from deltacli.delta.log.state import (
    DEFAULT_CHECKPOINT_INTERVAL,
    deleted_file_retention_ms,
    log_retention_ms,
    parse_integer_property,
)
from deltacli.delta.protocol.feature_changes import ShownFeature
from deltacli.operations.doctor.advice import LISTED_PER_REQUEST, REQUESTS_PER_FILE, Advice, PriceTable
from deltacli.operations.doctor.live_state import LiveState, StatisticsState
from deltacli.table.timestamp_enablement import get_enablement_version
from deltacli.work.commits.provenance import read_provenance
from deltacli.work.commits.reading import is_large_commit, read_commit, stream_commit

if TYPE_CHECKING:
    from deltacli.operations.log.expire import ExpiryPlan
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.operations.validate.inspect_storage import WholeLog
    from deltacli.operations.validate.validate import Validation
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

# -- the newest commits of a log ---------------------------------------------------------------------------------------

MOST_COMMITS = 1_000
_UNKNOWN = "unknown"


class Amounts(NamedTuple):
    """The files and bytes that a commit adds and removes."""

    added_files: int
    added_bytes: int
    removed_files: int
    removed_bytes: int


class RecentCommit(NamedTuple):
    """A commit. `amounts` are None where it is too large or damaged, or does not have all sizes; `files` and
    `size_bytes` are those of the table at this version, None where unknown.
    """

    version: int
    timestamp_ms: int
    operation: str
    engine: str
    amounts: Amounts | None
    files: int | None = None
    size_bytes: int | None = None

    def as_json(self) -> dict[str, Json]:
        amounts = self.amounts
        return {
            "version": self.version,
            "timestampMs": self.timestamp_ms,
            "timestamp": format_timestamp(self.timestamp_ms),
            "operation": self.operation,
            "engine": self.engine,
            "addedFiles": None if amounts is None else amounts.added_files,
            "addedBytes": None if amounts is None else amounts.added_bytes,
            "removedFiles": None if amounts is None else amounts.removed_files,
            "removedBytes": None if amounts is None else amounts.removed_bytes,
            "files": self.files,
            "sizeBytes": self.size_bytes,
        }


@dataclass(frozen=True, slots=True)
class Growth:
    """How the table grew over the days of the commits that are known; the numbers are per day."""

    days: float
    commits: float
    files: float | None
    size_bytes: float | None
    written_bytes: float | None

    def as_json(self) -> dict[str, Json]:
        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 2)

        return {
            "days": round(self.days, 2),
            "commitsPerDay": round(self.commits, 2),
            "filesPerDay": rounded(self.files),
            "bytesPerDay": rounded(self.size_bytes),
            "writtenBytesPerDay": rounded(self.written_bytes),
        }


@dataclass(frozen=True, slots=True)
class Timeline:
    """The newest commits, oldest first; `total` is how many the log has."""

    commits: tuple[RecentCommit, ...]
    total: int

    @property
    def operations(self) -> Counter[str]:
        return Counter(one.operation for one in self.commits)

    @property
    def engines(self) -> Counter[str]:
        return Counter(one.engine for one in self.commits)

    @property
    def growth(self) -> Growth | None:
        """The growth per day; None where the commits do not span a day."""
        if len(self.commits) < 2:
            return None
        first, last = self.commits[0], self.commits[-1]
        days = (last.timestamp_ms - first.timestamp_ms) / DAY_MS
        if days < 1:
            return None
        files = size = written = None
        known = [one for one in self.commits if one.size_bytes is not None]
        known_days = (last.timestamp_ms - known[0].timestamp_ms) / DAY_MS if known else 0
        if known_days >= 1:
            begin = known[0]
            files = ((last.files or 0) - (begin.files or 0)) / known_days
            size = ((last.size_bytes or 0) - (begin.size_bytes or 0)) / known_days
        if all(one.amounts is not None for one in self.commits):
            written = sum(one.amounts.added_bytes for one in self.commits[1:] if one.amounts) / days
        return Growth(days, (len(self.commits) - 1) / days, files, size, written)

    def as_json(self) -> dict[str, Json]:
        return {
            "totalCommits": self.total,
            "operations": dict(self.operations.most_common()),
            "engines": dict(self.engines.most_common()),
            "commits": [one.as_json() for one in self.commits],
        }


def read_timeline(snapshot: Snapshot, listing: LogListing, files: int, size_bytes: int) -> Timeline:
    """Return the newest commits up to a version, which has so many live files and bytes. `listing`: the whole log."""
    table = snapshot.table
    versions = sorted(version for version in listing.commits if version <= snapshot.version)
    chosen = [listing.commits[version] for version in versions[-MOST_COMMITS:]]
    times = {version: one.timestamp_ms for version, one in compute_file_times(listing.commits).items()}
    read = partial(_read, table.storage, times, get_enablement_version(snapshot))
    found = table.engine.run(read, chosen, at_once=table.storage.capabilities.parallel_reads)
    commits = list(report_items(found, table.progress, "reading commits", unit="commits", total=len(chosen)))
    return Timeline(tuple(_with_sizes(commits, snapshot.version, files, size_bytes)), len(versions))


def _with_sizes(commits: Sequence[RecentCommit], newest: int, files: int, size_bytes: int) -> list[RecentCommit]:
    """Return the commits with the files and bytes of the table at their versions, as far back as they are known."""
    found: list[RecentCommit] = []
    state: tuple[int, int] | None = (files, size_bytes)
    expected = newest
    for one in reversed(commits):
        if one.version != expected or (state is not None and min(state) < 0):
            state = None
        expected = one.version - 1
        found.append(one if state is None else one._replace(files=state[0], size_bytes=state[1]))
        if state is not None and one.amounts is not None:
            amounts = one.amounts
            state = (
                state[0] - amounts.added_files + amounts.removed_files,
                state[1] - amounts.added_bytes + amounts.removed_bytes,
            )
        else:
            state = None
    return found[::-1]


def _read(storage: ReadStorage, times: Mapping[int, int], first_stamped: int | None, file: LogFile) -> RecentCommit:
    try:
        info, amounts = (_large if is_large_commit(file) else _parsed)(storage, file)
    except (CommitCorrupt, FileMissing):
        info, amounts = {}, None
    is_stamped = first_stamped is not None and file.version >= first_stamped
    stamp = info.get("inCommitTimestamp") if is_stamped else None
    return RecentCommit(
        file.version,
        stamp if type(stamp) is int else times[file.version],
        str(info.get("operation") or _UNKNOWN),
        str(info.get("engineInfo") or _UNKNOWN),
        amounts,
    )


_Content = tuple[JsonObject, Amounts | None]
"""The commitInfo of a commit, and what it adds and removes; None where an action has no size."""


def _large(storage: ReadStorage, file: LogFile) -> _Content:
    """Return only the commitInfo of a commit that is too large to be parsed for its sizes."""
    return read_provenance(storage, file).commit_info or {}, None


def _parsed(storage: ReadStorage, file: LogFile) -> _Content:
    sized, text = pa.struct([("size", pa.int64())]), pa.string()
    info = pa.struct([("operation", text), ("engineInfo", text), ("inCommitTimestamp", pa.int64())])
    data = read_commit(storage, file)
    parsed = parse_ndjson(data, pa.schema([("add", sized), ("remove", sized), ("commitInfo", info)]))
    if parsed is None:
        return _by_line(storage, file)
    added, removed = (_sized(parsed.column(name).combine_chunks()) for name in ("add", "remove"))
    infos = pc.drop_null(parsed.column("commitInfo").combine_chunks())
    told = infos[0].as_py() if len(infos) else {}
    return told, None if added is None or removed is None else Amounts(*added, *removed)


def _sized(actions: pa.StructArray) -> tuple[int, int] | None:
    given = pc.filter(actions, pc.is_valid(actions))
    sizes = pc.struct_field(given, ["size"])
    return None if sizes.null_count else (len(given), int(pc.sum(sizes).as_py() or 0))


def _by_line(storage: ReadStorage, file: LogFile) -> _Content:
    """Parse a commit line by line: Arrow does not accept all that is JSON."""
    info: JsonObject = {}
    files, sizes, is_sized = Counter[str](), Counter[str](), True
    for kind, action in stream_commit(storage, file):
        if kind in ("add", "remove"):
            size = action.get("size")
            is_sized = is_sized and type(size) is int
            files[kind] += 1
            sizes[kind] += size if type(size) is int else 0
        elif kind == "commitInfo":
            info = action
    return info, Amounts(files["add"], sizes["add"], files["remove"], sizes["remove"]) if is_sized else None


# -- everything known of a table ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The removed files that the newest version remembers. `size_bytes` is None where not all have a size."""

    count: int
    expired: int
    size_bytes: int | None

    def as_json(self) -> dict[str, Json]:
        return {"count": self.count, "expired": self.expired, "sizeBytes": self.size_bytes}


@dataclass(frozen=True, eq=False)
class Examined:
    """What was read of a table. Plans are None where they cannot be made, for the reason in `notes`."""

    snapshot: Snapshot
    now_ms: int
    prices: PriceTable
    whole: WholeLog
    state: LiveState
    statistics: StatisticsState
    tombstones: Tombstones
    timeline: Timeline
    features: Sequence[ShownFeature]
    optimize: OptimizePlan | None = None
    vacuum: VacuumPlan | None = None
    expiry: ExpiryPlan | None = None
    lost: Validation | None = None
    """The live files that are not as the log records them, as findings; None where the table was not listed."""
    notes: list[str] = field(default_factory=list)
    gap: LogIncomplete | None = None
    """Why this is not the newest version; None where it is. There is no advice with a gap."""

    @property
    def name(self) -> str | None:
        """The table as the caller wrote it."""
        return self.snapshot.table.name

    @property
    def target_bytes(self) -> int:
        return 0 if self.optimize is None else self.optimize.rules.target_bytes

    @cached_property
    def log_files(self) -> int:
        return len(self.whole.files) + len(self.whole.sidecars) + len(self.whole.staged)

    @cached_property
    def log_bytes(self) -> int:
        stored = (*self.whole.sidecars, *self.whole.staged)
        return sum(one.size_bytes for one in self.whole.files) + sum(one.size_bytes for one in stored)

    @property
    def opened_files(self) -> int:
        """The files of the log that a reader opens for the newest version."""
        segment, snapshot = self.snapshot.segment, self.snapshot
        parts = len(segment.checkpoint.files) + snapshot.sidecars if segment.checkpoint else 0
        return len(segment.commits) + parts

    @property
    def opening_requests(self) -> int:
        """The requests with which a reader finds the newest version: the hint, the listing, and its files."""
        return 1 + -(-self.opened_files // LISTED_PER_REQUEST) + self.opened_files

    @property
    def read_requests(self) -> int:
        """The requests of a reader of the whole newest version."""
        return self.opening_requests + REQUESTS_PER_FILE * self.state.count + self.state.vector_files

    @property
    def commits_behind(self) -> int:
        """The commits after the checkpoint that a reader begins with."""
        return len(self.snapshot.segment.commits)

    @property
    def interval(self) -> int:
        """The commits between two checkpoints, by the property of the table."""
        return (
            parse_integer_property(self.snapshot.properties, "delta.checkpointInterval") or DEFAULT_CHECKPOINT_INTERVAL
        )

    @cached_property
    def saved_by_partition(self) -> list[int]:
        """How many files an optimization saves in each partition, in the order of the partitions of the state."""
        plan, partitions = self.optimize, self.state.partitions
        if plan is None or not plan.selection.bins:
            return [0] * partitions.num_rows
        bins, saves = plan.selection.bins, Counter[int]()
        first = pc.take(plan.selection.order, pa.array([one.start for one in bins], pa.int64()))
        for code, one in zip(pc.take(self.state.live.of_partition, first).to_pylist(), bins, strict=True):
            saves[code] += one.files - one.outputs
        return [saves[code] for code in partitions.column("code").to_pylist()]

    @property
    def stored_bytes(self) -> int:
        """The bytes that are known to be stored: live and unreferenced files, and the log."""
        unreferenced = self.vacuum.size_bytes if self.vacuum is not None else 0
        return self.state.size_bytes + self.log_bytes + unreferenced


@short_repr("version=snapshot.version", "advice", "notes")
@dataclass(frozen=True, eq=False, repr=False)
class TableReport:
    """What was read of a table, and advice, what saves most first. Nothing was changed."""

    facts: Examined
    advice: tuple[Advice, ...]

    @property
    def snapshot(self) -> Snapshot:
        return self.facts.snapshot

    @property
    def uri(self) -> str:
        return self.snapshot.table.uri

    @property
    def notes(self) -> Sequence[str]:
        return self.facts.notes

    def as_json(self, name: str | None = None) -> dict[str, Json]:
        """Return the document `deltacli.doctor-table`, without the envelope. `name`: the table in commands."""
        facts, snapshot = self.facts, self.facts.snapshot
        properties = snapshot.properties
        shown = facts.name if name is None else name
        return {
            "snapshotVersion": snapshot.version,
            "nowMs": facts.now_ms,
            "advice": [one.as_json(shown or self.uri) for one in self.advice],
            "estimated": ["seconds", "dollars"],
            "notes": list(facts.notes),
            "files": self._files(),
            "partitions": self._partitions(),
            "vectors": {
                "files": facts.state.vectors,
                "vectorFiles": facts.state.vector_files,
                "deletedRows": facts.state.deleted_rows,
            },
            "statistics": facts.statistics.as_json(),
            "tombstones": facts.tombstones.as_json(),
            "unreferenced": self._unreferenced(),
            "log": self._log(),
            "features": [one.as_json() for one in facts.features],
            "retention": {"logMs": log_retention_ms(properties), "filesMs": deleted_file_retention_ms(properties)},
            "growth": None if facts.timeline.growth is None else facts.timeline.growth.as_json(),
            "cost": self.cost(),
            "timeline": facts.timeline.as_json(),
        }

    def _files(self) -> dict[str, Json]:
        state, plan = self.facts.state, self.facts.optimize
        rows = None if state.without_records else state.records - state.deleted_rows
        return {
            "count": state.count,
            "sizeBytes": state.size_bytes,
            "rows": rows,
            "medianBytes": state.median_bytes,
            "smallFiles": None if plan is None else plan.small_files,
            "smallBelowBytes": None if plan is None else plan.rules.min_bytes,
            "targetBytes": None if plan is None else plan.rules.target_bytes,
            "countAfter": None if plan is None else state.count - plan.selection.files + plan.selection.outputs,
            "classes": [
                {"fromBytes": low, "toBytes": high, "files": files, "sizeBytes": size}
                for low, high, files, size in state.classes
            ],
        }

    def _partitions(self) -> dict[str, Json]:
        state, plan = self.facts.state, self.facts.optimize
        table = state.partitions
        largest = table.column("size_sum")[0].as_py() if table.num_rows else 0
        median = state.median_partition_bytes
        shown = state.largest(plan.rules.min_bytes if plan is not None else 0)
        return {
            "columns": list(self.snapshot.metadata.partition_columns),
            "count": table.num_rows,
            "medianBytes": median,
            "largestBytes": largest,
            "skew": round(largest / median, 2) if median else None,
            "shown": len(shown),
            "items": [
                one.as_json(one.files - less)
                for one, less in zip(shown, self.facts.saved_by_partition[: len(shown)], strict=True)
            ],
        }

    def _unreferenced(self) -> dict[str, Json] | None:
        plan = self.facts.vacuum
        if plan is None:
            return None
        kinds = {reason.value: totals.amount.as_json() for reason, totals in plan.totals.items()}
        return {"files": plan.files, "sizeBytes": plan.size_bytes, "byKind": kinds}

    def _log(self) -> dict[str, Json]:
        facts = self.facts
        checkpoint, expiry = facts.snapshot.segment.checkpoint, facts.expiry
        return {
            "files": facts.log_files,
            "sizeBytes": facts.log_bytes,
            "commits": len(facts.whole.listing.commits),
            "oldestVersion": min(facts.whole.listing.reconstructable, default=None),
            "checkpoints": len({one.version for one in facts.whole.listing.checkpoints}),
            "checkpointVersion": None if checkpoint is None else checkpoint.version,
            "checkpointLayout": facts.snapshot.checkpoint_layout,
            "checkpointInterval": facts.interval,
            "commitsBehind": facts.commits_behind,
            "bytesBehind": sum(file.size_bytes for file in facts.snapshot.segment.commits),
            "filesToOpen": facts.opened_files,
            "expirableFiles": None if expiry is None else len(expiry.files),
            "expirableBytes": None if expiry is None else expiry.size_bytes,
            "problems": [*([] if facts.gap is None else [facts.gap.code]), *facts.snapshot.problems],
        }

    def cost(self) -> dict[str, Json]:
        """Return requests, and estimates of dollars per month."""
        facts = self.facts
        per_month = round(facts.read_requests * facts.prices.reads_per_month)
        storage, requests = facts.prices.of_bytes(facts.stored_bytes), facts.prices.of_requests(per_month)
        growth = facts.timeline.growth
        more = None
        if growth is not None and growth.size_bytes is not None:
            more = facts.prices.of_bytes(round(growth.size_bytes * 30))
        total = None if storage is None or requests is None else storage + requests

        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 4)

        return {
            "prices": facts.prices.as_json(),
            "storedBytes": facts.stored_bytes,
            "requestsPerRead": facts.read_requests,
            "requestsPerMonth": per_month,
            "storageDollarsPerMonth": rounded(storage),
            "requestDollarsPerMonth": rounded(requests),
            "dollarsPerMonth": rounded(total),
            "growthDollarsPerMonth": rounded(more),
        }
