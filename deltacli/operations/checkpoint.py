"""`checkpoint`: a version written as a checkpoint, proven before it is announced.

Spec: Checkpoints; Last Checkpoint File; Writer Requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltacli.delta.checkpoint.content import Columns
from deltacli.delta.checkpoint.layout import Layout, TopFile, choose_layout
from deltacli.delta.checkpoint.parsed import partition_type, stats_type
from deltacli.delta.checkpoint.retention import tombstone_cutoff
from deltacli.delta.properties import is_true
from deltacli.delta.protocol import require_writable
from deltacli.delta.rules.views import Regime
from deltacli.delta.segment import CheckpointInstance
from deltacli.errors import DeltacliError, Refused, UsageError
from deltacli.operations.announce import announce
from deltacli.operations.checkpoint_files import CheckpointFile, CheckpointWriter
from deltacli.operations.table import Snapshot, Table
from deltacli.work.checkpoint_writing import Encoding

STATS_AS_JSON = "delta.checkpoint.writeStatsAsJson"
STATS_AS_STRUCT = "delta.checkpoint.writeStatsAsStruct"
DEFAULT_ROWS_A_SIDECAR = 200_000


class StatsForm(StrEnum):
    """In which columns statistics go. `keep`: as the properties say, and where these are silent, as they were."""

    KEEP = "keep"
    JSON = "json"
    STRUCT = "struct"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """What a caller wants. `if_behind`: nothing is done before so many commits have come since the last checkpoint."""

    version: int | None = None
    layout: Layout | None = None
    parts: int | None = None
    rows_per_file: int | None = None
    top: TopFile = TopFile.JSON
    stats: StatsForm = StatsForm.KEEP
    if_behind: int = 0
    force: bool = False


@dataclass(frozen=True)
class CheckpointPlan:
    """What will be written of which state; nothing has been done."""

    snapshot: Snapshot
    request: CheckpointRequest
    layout: Layout
    columns: Columns
    encoding: Encoding
    regime: Regime
    now_ms: int
    behind: int
    """Commits since the newest complete checkpoint at or below the version."""
    present: CheckpointInstance | None
    """A complete checkpoint of this version and layout."""
    notes: tuple[str, ...]

    @property
    def is_due(self) -> bool:
        """False where there is nothing to do."""
        if self.request.force:
            return True
        return self.present is None and self.behind >= self.request.if_behind

    @property
    def cutoff_ms(self) -> int:
        """Removes with a deletionTimestamp greater than this are kept."""
        return tombstone_cutoff(self.snapshot.properties, self.now_ms)


@dataclass(frozen=True)
class CheckpointResult:
    """What was done, or what would be (`dry_run`): paths are below the table."""

    plan: CheckpointPlan
    files: tuple[CheckpointFile, ...]
    actions: Mapping[str, int]
    expired_tombstones_dropped: int
    hint_version: int | None
    """The version that `_last_checkpoint` names afterwards; None where it does not name this one."""
    skipped: bool = False
    dry_run: bool = False

    @property
    def version(self) -> int:
        return self.plan.snapshot.version

    def as_json(self) -> dict[str, Any]:
        """The document `deltacli.checkpoint`, without the envelope."""
        return {
            "version": self.version,
            "layout": self.plan.layout.value,
            "files": [file.as_json() for file in self.files],
            "actions": dict(self.actions),
            "expiredTombstonesDropped": self.expired_tombstones_dropped,
            "hintVersion": self.hint_version,
            "commitsBehind": self.plan.behind,
            "skipped": self.skipped,
            "dryRun": self.dry_run,
        }


def plan_checkpoint(table: Table, request: CheckpointRequest) -> CheckpointPlan:
    """Rebuild the version and decide what to write.

    Raises UsageError for options that contradict each other, Refused where the protocol or the state of the log forbids
    it, and what `Table.snapshot` raises.
    """
    snapshot = table.snapshot(version=request.version)
    version, listing = snapshot.version, snapshot.listing
    require_writable(snapshot.protocol, version)
    if version not in listing.commits:
        raise Refused(
            f"version {version} has no commit file: a checkpoint is written after its commit, never without",
            code="log.checkpoint-commit-missing",
            facts={"missing": f"_delta_log/{version:020d}.json"},
            hint="deltacli validate {table}",
        )
    layout = choose_layout(snapshot.protocol, snapshot.properties, request.layout)
    _require_fitting(request, layout)
    regime = Regime(protocol=snapshot.protocol, metadata=snapshot.metadata, schema=_schema_of(snapshot))
    columns, notes = _columns(snapshot, regime, request.stats)
    older = [found.version for found in listing.checkpoints if found.version <= version]
    present = [found for found in listing.checkpoints if (found.version, found.kind) == (version, layout.file_kind)]
    return CheckpointPlan(
        snapshot,
        request,
        layout,
        columns,
        Encoding.of(snapshot.properties),
        regime,
        table.clock(),
        version - max(older, default=-1),
        present[0] if present else None,
        notes,
    )


def _require_fitting(request: CheckpointRequest, layout: Layout) -> None:
    if request.parts is not None and layout is not Layout.MULTI_PART:
        raise UsageError("--parts belongs to --layout multi-part")
    if request.parts is not None and request.parts < 2:
        raise UsageError(f"--parts {request.parts}: a multi-part checkpoint has two parts or more")
    if request.rows_per_file is not None and layout is Layout.CLASSIC:
        raise UsageError("--rows-per-file belongs to --layout multi-part and v2; a classic checkpoint is one file")
    if request.rows_per_file is not None and request.rows_per_file < 1:
        raise UsageError(f"--rows-per-file {request.rows_per_file} is less than 1")
    if layout is Layout.MULTI_PART and request.parts is None and request.rows_per_file is None:
        raise UsageError("--layout multi-part needs --parts or --rows-per-file")


def _schema_of(snapshot: Snapshot) -> Any:  # Any: a StructType, None where it can't be read
    try:
        return snapshot.schema
    except DeltacliError:
        return None


def _columns(snapshot: Snapshot, regime: Regime, form: StatsForm) -> tuple[Columns, tuple[str, ...]]:
    """The columns of statistics: asked for, else as the properties say, else as the last checkpoint had them."""
    properties = snapshot.properties
    has_json = STATS_AS_JSON not in properties or is_true(properties, STATS_AS_JSON)
    has_struct = is_true(properties, STATS_AS_STRUCT)
    if STATS_AS_STRUCT not in properties:
        has_struct = snapshot.checkpoint_has_parsed_statistics
    if form is not StatsForm.KEEP:
        has_json, has_struct = form is not StatsForm.STRUCT, form is not StatsForm.JSON
    notes = []
    if not has_json and not has_struct:
        notes.append(
            f"{STATS_AS_JSON} and {STATS_AS_STRUCT} are both false: statistics are in no checkpoint, and vanish when "
            "the log is cleaned; --stats json keeps them"
        )
    if not has_struct:
        return Columns(has_json), tuple(notes)
    return Columns(has_json, partition_type(regime), stats_type(regime)), tuple(notes)


def write_checkpoint(plan: CheckpointPlan, *, dry_run: bool = False) -> CheckpointResult:
    """Write what was planned: encode, read back, publish, and only then move the hint.

    A fault on the way leaves files that no reader takes for a checkpoint. Raises StorageFailed, NoAtomicCreate, and
    Refused where the state contradicts the version's checksum file.
    """
    snapshot = plan.snapshot
    if not plan.is_due:
        present = plan.present
        files = (
            [CheckpointFile(f"_delta_log/{file.name}", file.size_bytes, None) for file in present.files]
            if present
            else []
        )
        return CheckpointResult(plan, tuple(files), {}, 0, None, skipped=True, dry_run=dry_run)
    if dry_run:
        return _foreseen(plan)
    writer = CheckpointWriter(
        snapshot, plan.columns, plan.encoding, plan.regime, plan.now_ms, replace=plan.request.force
    )
    match plan.layout:
        case Layout.CLASSIC:
            written = writer.write_classic()
        case Layout.MULTI_PART:
            written = writer.write_parts(_part_count(plan))
        case Layout.V2:
            written = writer.write_v2(plan.request.top, plan.request.rows_per_file or DEFAULT_ROWS_A_SIDECAR)
    hint = announce(snapshot.table.storage, snapshot.listing, written)
    return CheckpointResult(
        plan, written.files, written.actions, written.expired_dropped, hint, skipped=written.was_there
    )


def _part_count(plan: CheckpointPlan) -> int:
    request = plan.request
    if request.parts is not None:
        return request.parts
    files, tombstones = plan.snapshot.counts(now_ms=plan.now_ms)
    rows = files.count + tombstones.count - tombstones.expired
    parts = -(-rows // (request.rows_per_file or 1))
    if parts < 2:
        raise UsageError(
            f"{rows} rows fit into one file: a multi-part checkpoint has two or more",
            hint="deltacli checkpoint {table} --layout classic",
        )
    return parts


def _foreseen(plan: CheckpointPlan) -> CheckpointResult:
    """Count what would be written."""
    snapshot = plan.snapshot
    files, tombstones = snapshot.counts(now_ms=plan.now_ms)
    found = {
        "add": files.count,
        "remove": tombstones.count - tombstones.expired,
        "txn": len(snapshot.transactions),
        "domainMetadata": len(snapshot.domains),
        "metaData": 1,
        "protocol": 1,
    }
    actions = {kind: count for kind, count in found.items() if count}
    return CheckpointResult(plan, (), actions, tombstones.expired, None, dry_run=True)
