"""Everything that is known of a table before advice is given, and the report of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.cached import cached_property
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.delta.protocol.feature_changes import ShownFeature
from deltacli.delta.protocol.property_values import (
    DEFAULT_CHECKPOINT_INTERVAL,
    deleted_file_retention_ms,
    log_retention_ms,
    parse_integer,
)
from deltacli.operations.doctor.table.advice import Advice
from deltacli.operations.doctor.table.commits import Timeline
from deltacli.operations.doctor.table.live_state import LiveState, StatisticsState
from deltacli.operations.doctor.table.prices import LISTED_PER_REQUEST, REQUESTS_PER_FILE, PriceTable

if TYPE_CHECKING:
    from deltacli.core.errors import LogIncomplete
    from deltacli.operations.log.expire import ExpiryPlan
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.operations.validate.inspect_storage import WholeLog
    from deltacli.operations.validate.validate import Validation
    from deltacli.table.version import Snapshot


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The removed files that the newest version remembers. `size_bytes` is None where not all have a size."""

    count: int
    expired: int
    size_bytes: int | None

    def as_json(self) -> dict[str, Json]:
        """As in the document."""
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
        """The size of new files."""
        return 0 if self.optimize is None else self.optimize.rules.target_bytes

    @cached_property
    def log_files(self) -> int:
        """The files of the log."""
        return len(self.whole.files) + len(self.whole.sidecars) + len(self.whole.staged)

    @cached_property
    def log_bytes(self) -> int:
        """Their bytes."""
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
        return parse_integer(self.snapshot.properties, "delta.checkpointInterval") or DEFAULT_CHECKPOINT_INTERVAL

    @cached_property
    def saved_by_partition(self) -> list[int]:
        """How many files an optimization saves in each partition, in the order of the partitions of the state."""
        import pyarrow as pa

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
        """The version that was examined."""
        return self.facts.snapshot

    @property
    def uri(self) -> str:
        """The table."""
        return self.snapshot.table.uri

    @property
    def notes(self) -> Sequence[str]:
        """Why advice may be missing."""
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
            "retention": {
                "logMs": log_retention_ms(properties),
                "filesMs": deleted_file_retention_ms(properties),
            },
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
