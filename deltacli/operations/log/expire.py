"""`log expire`: the log files that no kept version needs, and deleting them, oldest first, after a proof.

Spec: Metadata Cleanup; Checkpoint Protection.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from deltacli.changing.base_version import BaseVersion, add_commit_digest, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.outcome import DeletionFailures
from deltacli.changing.plan import TableUriMixin
from deltacli.changing.protocol_checks import require_commit_allowed
from deltacli.core.errors import (
    CheckpointUnreadable,
    DeltacliError,
    FileMissing,
    Refusal,
    Refused,
    Unreadable,
    VersionAbsent,
    command,
    parameter,
    suggest_parameters,
)
from deltacli.core.ranges import find_ranges, format_ranges, name_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.times import DAY_MS, duration_argument, format_duration, format_timestamp
from deltacli.core.units import format_size, plural
from deltacli.delta.log.file_actions import FileCounts
from deltacli.delta.log.segment import (
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    CheckpointInstance,
    Hint,
    LogFile,
    LogFileKind,
    LogListing,
    read_hint,
    read_listing,
)
from deltacli.delta.log.state import (
    CHECKPOINT_PROTECTION,
    LOG_CLEANUP,
    is_false,
    log_cutoff_ms,
    log_retention_ms,
    parse_integer_property,
)
from deltacli.delta.protocol.features import OPEN_BY_NAME, require_writable
from deltacli.operations.checkpoint.verify import CheckpointVerdict, facts_of, verify_checkpoint
from deltacli.operations.read.snapshot import summarize_with_digests
from deltacli.operations.validate.inspect_storage import WholeLog, list_log_whole
from deltacli.storage.hadoop_checksums import get_checksum_path
from deltacli.table.api_arguments import require_optional_count, require_version
from deltacli.table.checksum_guard import find_checksum_contradiction
from deltacli.table.file_history import MISSING_ADD_RULE as MISSING_ADD
from deltacli.table.file_history import count_missing_live_files
from deltacli.table.find_log import ListedLog, read_hint_file
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot, rebuild_version
from deltacli.table.time_travel import find_version_at
from deltacli.table.version import Snapshot
from deltacli.work.checkpoints.reading import open_checkpoint
from deltacli.work.files.deleting import MOST_AT_ONCE, BatchOutcome, DeleteBatch, DeletePiece, FileOutcome
from deltacli.work.files.permits import Permit, make_permit, require_progress
from deltacli.work.files.uninterrupted import StopRequest, run_uninterrupted
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.operations.streams.guard import StreamGuard
    from deltacli.operations.streams.protection import GuardedQuery

# -- the plan of `log expire` ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ExpiryRequest:
    """Which files of the log to delete.

    Attributes:
        retention_ms: Commits that are older, in milliseconds, are not kept. None: the retention of the table's
            property, or 30 days.
        keep_versions: Versions that remain readable, whatever their age.
        allow_retention_below_ms: The table's own retention, to allow a shorter one.
        protect_streams: Patterns of checkpoint directories of Spark queries. Whatever these queries still need
            is kept.
        ignore_streams_older_ms: The age of a checkpoint, in milliseconds, from which its query is not protected
            if it is behind. None: every matching query is protected.
        allow_stream_loss: Queries, by their ids or checkpoint directories, that may become unable to continue.
        dry_run: True to plan only, and change nothing.
    """

    retention_ms: int | None = None
    keep_versions: Sequence[int] = ()
    allow_retention_below_ms: int | None = None
    protect_streams: Sequence[str] = ()
    ignore_streams_older_ms: int | None = None
    allow_stream_loss: Sequence[str] = ()
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for what is no version or no duration, and for options that need another one."""
        if self.protect_streams or self.ignore_streams_older_ms is not None or self.allow_stream_loss:
            from deltacli.operations.streams.protection import require_streams

            require_streams(self.protect_streams, self.ignore_streams_older_ms, self.allow_stream_loss)
        settled = {
            "protect_streams": tuple(self.protect_streams),
            "allow_stream_loss": tuple(self.allow_stream_loss),
            "keep_versions": tuple(require_version(version, "keep_versions") for version in self.keep_versions),
            "retention_ms": require_optional_count(self.retention_ms, "retention_ms"),
            "allow_retention_below_ms": require_optional_count(
                self.allow_retention_below_ms, "allow_retention_below_ms"
            ),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)


class ExpiryReason(StrEnum):
    """Why a file of the log is no longer needed."""

    COMMIT = "commit"
    CHECKSUM = "checksum"
    CHECKPOINT = "checkpoint"
    COMPACTION = "compaction"
    STAGED = "staged-commit"
    SIDECAR = "sidecar"
    LEFTOVER = "leftover"


class ExpiredFile(NamedTuple):
    """A file to delete; `path` is relative to the table."""

    path: str
    size_bytes: int
    modified_ms: int
    reason: ExpiryReason


@short_repr("newest_version", "boundary", "files", "size_bytes", "lost_versions", "refusals")
@dataclass(frozen=True, repr=False)
class ExpiryPlan(TableUriMixin):
    """The files to delete, in the order of deletion. Nothing has been done."""

    base_version: BaseVersion
    request: ExpiryRequest
    retention_ms: int
    own_retention_ms: int
    """That of the table."""
    cutoff_ms: int
    boundary: int | None
    """The version of the checkpoint at which the kept log begins; None where nothing can be deleted."""
    files: tuple[ExpiredFile, ...]
    lost_versions: tuple[int, ...]
    """Versions that can be rebuilt now but not after the deletion."""
    kept_versions: int
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    offered_checkpoint: int | None
    """A version to write a checkpoint of, where there is none before the cutoff."""
    streams: tuple[GuardedQuery, ...] = ()
    """The queries of Spark that stand in the table, where they are to be protected."""

    @property
    def newest_version(self) -> int:
        return self.base_version.version

    @property
    def now_ms(self) -> int:
        return self.base_version.now_ms

    @property
    def is_noop(self) -> bool:
        return not self.files

    def build_refusal(self) -> Refused | None:
        if not self.refusals:
            return None
        override = self.refusals[0].override
        return Refused.from_refusals(self.refusals[:1], hint=suggest_parameters(override) if override else None)

    def effects(self) -> Iterator[str]:
        yield f"the log begins at version {self.boundary}"
        yield from (file.path for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def plan_id(self) -> str:
        """Digest of the version and the deleted files, as 16 hexadecimal digits."""
        import hashlib

        content = json.dumps([self.table, self.newest_version, self.boundary, [file.path for file in self.files]])
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.log-expire`, without the envelope and the outcome."""
        by_reason: dict[str, dict[str, int]] = {}
        for file in self.files:
            found = by_reason.setdefault(file.reason.value, {"files": 0, "sizeBytes": 0})
            found["files"] += 1
            found["sizeBytes"] += file.size_bytes
        return {
            "snapshotVersion": self.newest_version,
            "retentionMs": self.retention_ms,
            "cutoffMs": self.cutoff_ms,
            "cutoff": format_timestamp(self.cutoff_ms),
            "boundaryVersion": self.boundary,
            "planId": self.plan_id,
            "candidates": {"files": len(self.files), "sizeBytes": self.size_bytes, "byKind": by_reason},
            "lostVersions": [list(pair) for pair in find_ranges(self.lost_versions)],
            "keptVersions": self.kept_versions,
            "refusals": [refusal.as_json("override") for refusal in self.refusals],
            "offeredCheckpoint": self.offered_checkpoint,
            **({"streams": [one.as_json() for one in self.streams]} if self.request.protect_streams else {}),
        }


def plan_expiry(
    table: TableHandle,
    request: ExpiryRequest,
    *,
    cut_ms: int = DAY_MS,
    snapshot: Snapshot | None = None,
    whole: WholeLog | None = None,
) -> ExpiryPlan:
    """Determine which files can be deleted. Refusals are part of the plan; nothing is verified or deleted yet. The log
    is cut at a multiple of `cut_ms`. `snapshot` is the newest version and `whole` the log where they were read before.

    Raises what `read_snapshot` raises for the newest version: a damaged log is not changed.
    """
    snapshot = snapshot or read_snapshot(table)
    base_version = add_commit_digest(build_base_version(snapshot))
    now_ms = base_version.now_ms
    own_retention = log_retention_ms(snapshot.properties)
    retention = own_retention if request.retention_ms is None else request.retention_ms
    cutoff = log_cutoff_ms(now_ms, retention, cut_ms)
    whole = whole or list_log_whole(table.storage, table.progress)
    listing = whole.listing
    limit, notes = _limit(table, listing, cutoff, request.keep_versions)
    guard = _guard(snapshot, request)
    streams = () if guard is None else tuple(guard.refusals("log expire"))
    if guard is not None:
        notes += _stream_notes(whole, guard, limit)
        limit = limit if guard.log_from is None else min(limit, guard.log_from)
    complete = [found for found in listing.checkpoints if found.version <= limit and found.version in listing.commits]
    boundary = max((found.version for found in complete), default=None)
    files = tuple(_expired(table, whole, boundary, now_ms, notes)) if boundary is not None else ()
    gone = {file.path for file in files}
    kept = without(whole, gone)
    lost = tuple(sorted(set(listing.reconstructable) - set(kept.reconstructable)))
    offered = limit if boundary is None and limit > 0 and limit in listing.reconstructable else None
    return ExpiryPlan(
        base_version,
        request,
        retention,
        own_retention,
        cutoff,
        boundary if files else None,
        files,
        lost,
        len(kept.reconstructable),
        (*refusals_of(snapshot, listing, request, boundary), *streams),
        tuple(notes),
        offered,
        () if guard is None else guard.queries,
    )


def _guard(snapshot: Snapshot, request: ExpiryRequest) -> StreamGuard | None:
    """Return what queries need of the log; None where none is to be protected. Raises as `guard_streams`."""
    if not request.protect_streams:
        return None
    from deltacli.operations.streams.guard import guard_streams
    from deltacli.operations.streams.protection import StreamProtection

    return guard_streams(snapshot, StreamProtection.of(request))


def _stream_notes(whole: WholeLog, guard: StreamGuard, limit: int) -> Iterator[str]:
    """Yield notes on the queries for which the log is kept from an older version than `limit`, with what that costs."""
    from deltacli.operations.streams.protection import GuardedStreams, QueryState

    log_from = guard.log_from
    if log_from is not None and log_from < limit:
        checkpoints = [one.version for one in whole.listing.checkpoints]
        begins = [max((one for one in checkpoints if one <= end), default=0) for end in (limit, log_from)]
        kept = [file.size_bytes for file in whole.files if begins[1] <= file.version < begins[0]]
        for one in guard.queries:
            if one.versions is not None and one.state is QueryState.PROTECTED and one.versions[0] < limit:
                yield f"query {one.name} needs the log from version {one.versions[0]} on"
        if kept:
            each = format_size(sum(kept) // max(1, begins[0] - begins[1]))
            yield f"{plural(len(kept), 'log file')} ({format_size(sum(kept))}) kept for queries, {each} per version"
    yield from GuardedStreams(guard.protection, "", guard.queries).notes()
    yield from guard.notes


def _limit(table: TableHandle, listing: LogListing, cutoff_ms: int, keep: Sequence[int]) -> tuple[int, list[str]]:
    """Return the newest version at which the kept log may begin; -1 where there is none. Raises VersionAbsent."""
    notes: list[str] = []
    reconstructable = set(listing.reconstructable)
    for version in keep:
        if version not in reconstructable:
            raise VersionAbsent(
                f"version {version} cannot be kept: it cannot be rebuilt now",
                facts={"readable versions": format_ranges(reconstructable)},
                hint=command("history"),
            )
    try:
        limit = find_version_at(table, cutoff_ms)
    except VersionAbsent:
        return -1, notes
    if keep and min(keep) < limit:
        limit = min(keep)
        notes.append(f"the log is kept from version {limit} on, which is to be kept")
    hinted = _hinted(table)
    if hinted is not None and hinted < limit and any(found.version == hinted for found in listing.checkpoints):
        notes.append(
            f"the log is kept from version {hinted} on, which _last_checkpoint names; a new checkpoint updates it"
        )
        limit = hinted
    return limit, notes


def _hinted(table: TableHandle) -> int | None:
    try:
        hint = read_hint(read_hint_file(table.storage))
    except FileMissing:
        return None
    return hint.version if isinstance(hint, Hint) else None


def _expired(
    table: TableHandle, whole: WholeLog, boundary: int, now_ms: int, notes: list[str]
) -> Iterator[ExpiredFile]:
    """Sort by version, the commit of a version before its checkpoints; files without a version come last."""
    ranks = {
        LogFileKind.COMMIT: (0, ExpiryReason.COMMIT),
        LogFileKind.CHECKSUM: (1, ExpiryReason.CHECKSUM),
        LogFileKind.CLASSIC_CHECKPOINT: (2, ExpiryReason.CHECKPOINT),
        LogFileKind.MULTI_PART_CHECKPOINT: (2, ExpiryReason.CHECKPOINT),
        LogFileKind.UUID_CHECKPOINT: (2, ExpiryReason.CHECKPOINT),
    }
    found: list[tuple[int, int, str, ExpiredFile]] = []
    for file in whole.files:
        kind = file.path.kind
        if kind in ranks and file.version < boundary:
            rank, reason = ranks[kind]
        elif kind is LogFileKind.COMPACTED_COMMIT and file.version <= boundary:
            rank, reason = -1, ExpiryReason.COMPACTION
        else:
            continue
        found.append((file.version, rank, file.name, _named(file, reason)))
    managed = managed_store(table.storage)
    held = set() if managed is None else managed.held_names
    for stored in whole.staged:
        if stored.path in held:
            continue
        digits = stored.path.split(".", 1)[0]
        version = int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None
        if version is not None and version <= boundary:
            path = f"{LOG_DIRECTORY}/_staged_commits/{stored.path}"
            gone = ExpiredFile(path, stored.size_bytes, stored.modified_ms, ExpiryReason.STAGED)
            found.append((version, -2, stored.path, gone))
    yield from (entry[-1] for entry in sorted(found, key=lambda entry: entry[:3]))
    grace = now_ms // DAY_MS * DAY_MS - DAY_MS
    yield from _unnamed_sidecars(table, whole, boundary, grace, notes)
    for file in whole.files:
        if file.name.startswith(".") and file.name.endswith(".tmp") and file.modified_ms < grace:
            yield _named(file, ExpiryReason.LEFTOVER)


def _named(file: LogFile, reason: ExpiryReason) -> ExpiredFile:
    return ExpiredFile(f"{LOG_DIRECTORY}/{file.name}", file.size_bytes, file.modified_ms, reason)


def _unnamed_sidecars(
    table: TableHandle, whole: WholeLog, boundary: int, grace_ms: int, notes: list[str]
) -> Iterator[ExpiredFile]:
    """Return sidecars of no remaining checkpoint, at least a day old; none where a checkpoint is unreadable.

    Hadoop's checksum file of a sidecar is kept and deleted with it, and is not returned.
    """
    if not whole.sidecars:
        return
    named: set[str] = set()
    for instance in whole.listing.checkpoints:
        if instance.version < boundary:
            continue
        try:
            named |= {path.rsplit("/", 1)[-1] for path in open_checkpoint(table.stores, instance).sidecars}
        except CheckpointUnreadable as fault:
            notes.append(f"no sidecar is deleted: {fault.message}")
            return
    incomplete = [rule for version, rule in whole.listing.problems if version >= boundary]
    if incomplete:
        notes.append(f"no sidecar is deleted: a kept checkpoint is incomplete ({incomplete[0]})")
        return
    named |= {path for stored in whole.sidecars if (path := get_checksum_path(stored.path)) is not None}
    for stored in sorted(whole.sidecars, key=lambda stored: (stored.modified_ms, stored.path)):
        if stored.path not in named and stored.modified_ms < grace_ms:
            path = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{stored.path}"
            yield ExpiredFile(path, stored.size_bytes, stored.modified_ms, ExpiryReason.SIDECAR)


def without(whole: WholeLog, gone: Collection[str]) -> LogListing:
    """Return the log without the files at these paths."""
    return read_listing(file for file in whole.files if f"{LOG_DIRECTORY}/{file.name}" not in gone)


def refusals_of(
    snapshot: Snapshot, listing: LogListing, request: ExpiryRequest, boundary: int | None
) -> Iterator[Refusal]:
    """Yield the refusals. `listing` is the whole log; the listing of a snapshot may begin at the hint."""
    properties = snapshot.properties
    own_retention = log_retention_ms(properties)
    retention = own_retention if request.retention_ms is None else request.retention_ms
    try:
        require_writable(snapshot.protocol, snapshot.version)
    except Refused as fault:
        yield Refusal(fault.code, fault.message, hint=fault.hint or command("features"))
    yield from _refusals_of_catalog(snapshot)
    if is_false(properties, LOG_CLEANUP):
        message = f"{LOG_CLEANUP} is false: the table keeps its whole log"
        yield Refusal("expire.disabled", message, hint=command("properties"))
    allowed = request.allow_retention_below_ms
    if retention < own_retention and (allowed is None or allowed < own_retention):
        own = format_duration(own_retention)
        message = f"{format_duration(retention)} is less than the table's own retention of {own}"
        override = parameter("log expire.allow_retention_below_ms", duration_argument(own_retention))
        yield Refusal("expire.retention", message, override=override)
    empty = [version for version, file in listing.commits.items() if file.size_bytes == 0]
    if empty:
        yield Refusal(
            "commit.empty",
            f"commit {empty[0]} is empty, which indicates an interrupted write; repair it first",
            hint=command("validate"),
        )
    protected = parse_integer_property(properties, CHECKPOINT_PROTECTION) or 0
    if "checkpointProtection" in snapshot.protocol.supported_features and boundary is not None and boundary < protected:
        message = (
            f"{CHECKPOINT_PROTECTION} is {protected}: older versions may only be deleted all at once, "
            f"but the kept log would begin at {boundary}"
        )
        yield Refusal("expire.checkpoint-protection", message, hint=command("properties"))


def _refusals_of_catalog(snapshot: Snapshot) -> Iterator[Refusal]:
    """Yield why the log of a table that a catalog manages is not cleaned: by path never."""
    managed = managed_store(snapshot.table.storage)
    if managed is not None:
        try:
            require_commit_allowed(snapshot)
            managed.require_permission("METADATA_CLEANUP", "clean the log", asks=False)
        except Refused as fault:
            yield Refusal(fault.code, fault.reason, hint=fault.hint, facts=fault.facts)
    elif snapshot.protocol.is_catalog_managed:
        yield Refusal("catalog.managed", "the catalog of this table decides when its log is cleaned", hint=OPEN_BY_NAME)


# -- the deletion, after a proof ---------------------------------------------------------------------------------------

FILES_A_BATCH = MOST_AT_ONCE


@short_repr("deleted", "deleted_bytes", "missing", "failed=failed.count")
@dataclass(slots=True, repr=False)
class ExpiryOutcome:
    """The outcome of a plan, as far as it was executed."""

    plan: ExpiryPlan = field(compare=False)
    deleted: int = 0
    deleted_bytes: int = 0
    missing: int = 0
    failed: DeletionFailures = field(default_factory=lambda: DeletionFailures(max_examples=None))

    def note(self, done: BatchOutcome, files: Sequence[ExpiredFile]) -> list[ExpiredFile]:
        """Count the outcomes of a batch, and return the files that were not tried."""
        left = []
        for file, (code, failure) in zip(files, done.each(), strict=True):
            match code:
                case FileOutcome.MISSING:
                    self.missing += 1
                case FileOutcome.DELETED:
                    self.deleted += 1
                    self.deleted_bytes += file.size_bytes
                case FileOutcome.NOT_TRIED:
                    left.append(file)
            if failure is not None:
                self.failed.add(file.path, failure)
        return left

    def describe_progress(self) -> str:
        return f"{plural(self.deleted, 'file')} deleted"

    def build_incomplete_error(self) -> DeltacliError | None:
        return self.failed.build_error(
            f"{plural(self.failed.count, 'file')} could not be deleted",
            code="expire.partly-done",
            has_deleted=bool(self.deleted),
            hint=command("log expire", yes=True),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "files": self.deleted,
            "sizeBytes": self.deleted_bytes,
            "missing": self.missing,
            "failed": self.failed.as_json(),
        }


@dataclass(frozen=True)
class LogExpiry:
    """The deletion of log files that no kept version needs. `proves`: what is kept is verified when planned, too, not
    only before the deletion. The log is cut at a multiple of `cut_ms`.
    """

    kind: ClassVar[ChangeKind] = ChangeKind.EXPIRE_LOG_FILES

    request: ExpiryRequest
    proves: bool = True
    cut_ms: int = DAY_MS

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> ExpiryPlan:
        """Plan it, with a failed proof among the refusals. Raises what `plan_expiry` and an impossible proof raise."""
        plan = plan_expiry(table, self.request, cut_ms=self.cut_ms, snapshot=now)
        if not self.proves or plan.refusals or plan.is_noop:
            return plan
        refusal = unproven(plan, list_log_whole(table.storage, table.progress))
        return plan if refusal is None else replace(plan, refusals=(refusal,))

    def outcome(self, plan: ExpiryPlan) -> ExpiryOutcome:
        return ExpiryOutcome(plan)

    def execute(self, execution: ChangeExecution[ExpiryPlan, ExpiryOutcome]) -> None:
        """Verify the plan, then delete, oldest first, so that an interrupted run leaves a log without gaps: a signal
        ends it after a batch is done and counted. A minute later the plan is verified again.

        Raises Refused where the table is no longer as planned or cannot be verified, and StorageFailed.
        """
        files, table = list(execution.plan.files), execution.table
        allowed = _verified(execution)
        fruitless = 0
        with table.progress.step("deleting", unit="files", total=len(files)) as step:
            task = DeleteBatch(step.advance, table.machine.now_ms)
            while files:
                batch, stop = files[:FILES_A_BATCH], StopRequest()
                piece = DeletePiece(allowed, tuple(file.path for file in batch))
                left: list[ExpiredFile] = []
                run_uninterrupted(partial(_delete, execution, batch, piece, task, stop, left), stop)
                files[:FILES_A_BATCH] = left
                if left:  # the time is over
                    fruitless = fruitless + 1 if len(left) == len(batch) else 0
                    require_progress(fruitless)
                    allowed = _verified(execution)


def _delete(
    execution: ChangeExecution[ExpiryPlan, ExpiryOutcome],
    batch: Sequence[ExpiredFile],
    piece: DeletePiece,
    task: DeleteBatch,
    stop: StopRequest,
    left: list[ExpiredFile],
) -> None:
    """Delete one batch, and add the files that were not tried to `left`. Raises the fault of the store.

    Always in this process: the order matters more than the speed, and a deletion that is sent once is counted exactly.
    """
    done = task(piece, TaskContext(execution.table.stores, is_cancelled=stop))
    left += execution.outcome.note(done, batch)
    execution.has_begun = execution.outcome.deleted > 0
    if done.fault is not None:
        raise done.fault


def _verified(execution: ChangeExecution[ExpiryPlan, ExpiryOutcome]) -> Permit:
    """Return the permission to delete files, after reading the whole log again. Raises Refused."""
    plan, table = execution.plan, execution.table
    whole = list_log_whole(table.storage, table.progress)
    if not execution.has_begun:
        execution.recheck_clock()
    execution.recheck_listed_log(whole.listing)
    refusals = list(_refusals_since(plan, whole))
    if not refusals:
        refusals = list(_refusals_of_streams(plan))
    if not refusals and (refusal := unproven(plan, whole)) is not None:
        refusals = [refusal]
    if refusals:
        raise Refused.from_refusals(refusals)
    return make_permit(table.stores, table.machine.now_ms())


def _require_as_read(plan: ExpiryPlan, whole: WholeLog) -> None:
    """Raise Refused where a file that is kept was changed while the log was read, which may take a while."""
    table, gone = plan.base_version.table, {file.path.rpartition("/")[2] for file in plan.files}
    now = list_log_whole(table.storage, table.progress)
    present, parts = set(now.files), [file for instance in whole.listing.checkpoints for file in instance.files]
    names = [file.name for file in (*whole.listing.commits.values(), *parts) if file not in present]
    names += [file.path.rpartition("/")[2] for file in whole.sidecars if file not in now.sidecars]
    for name in names:
        if name not in gone:
            raise _Unproven(f"{name} was changed or deleted while the log was read")


def _refusals_since(plan: ExpiryPlan, whole: WholeLog) -> Iterator[Refusal]:
    """Yield what objects to the plan since newer commits: a longer retention, and the same as when it was planned."""
    listing = whole.listing
    if listing.newest_version == plan.newest_version:
        return
    now = rebuild_version(plan.base_version.table, ListedLog(listing), listing.newest_version)
    own = log_retention_ms(now.properties)
    if own > max(plan.retention_ms, plan.own_retention_ms, plan.request.allow_retention_below_ms or 0):
        yield Refusal(
            "expire.retention-longer",
            f"the table's own retention is {format_duration(own)} since version {listing.newest_version}, and was "
            f"{format_duration(plan.own_retention_ms)} when this was planned",
            hint=command("log expire", dry_run=True),
        )
        return
    yield from refusals_of(now, listing, plan.request, plan.boundary)


def _refusals_of_streams(plan: ExpiryPlan) -> Iterator[Refusal]:
    """Yield queries that, since they were read, cannot be protected or need versions that the plan does not keep."""
    guard = _guard(read_snapshot(plan.base_version.table), plan.request)
    if guard is None:
        return
    yield from guard.refusals("log expire")
    if guard.log_from is not None and plan.boundary is not None and guard.log_from < plan.boundary:
        name = "" if guard.oldest is None else f" {guard.oldest.name}"
        yield Refusal(
            "streams.moved",
            f"query{name} needs the log from version {guard.log_from} on by now, and the plan keeps it from version "
            f"{plan.boundary} on",
            hint=command("log expire", dry_run=True),
        )


def unproven(plan: ExpiryPlan, whole: WholeLog) -> Refusal | None:
    """Return why it is not certain that every kept version can be rebuilt from the remaining files, None if it is.

    The boundary's checkpoint must match the log, the newest version must be rebuilt unchanged from it, and no kept
    version may lose a file it needs. Raises what makes the proof impossible.
    """
    try:
        _prove(plan, whole)
        _require_as_read(plan, whole)
    except _Unproven as fault:
        return Refusal(fault.code, fault.message, hint=fault.hint)
    return None


class _Unproven(Refused):
    code = "expire.not-proven"

    def __init__(self, why: str) -> None:
        super().__init__(why, hint=command("validate"))


def _prove(plan: ExpiryPlan, whole: WholeLog) -> None:
    if plan.boundary is None:
        return
    table, gone = plan.base_version.table, {file.path for file in plan.files}
    kept = without(whole, gone)
    lost = set(whole.listing.reconstructable) - set(kept.reconstructable) - set(plan.lost_versions)
    if lost or any(version >= plan.boundary for version in plan.lost_versions):
        raise _Unproven(f"{name_ranges('version', lost or plan.lost_versions)} would also be lost")
    for instance in kept.checkpoints:
        if instance.version == plan.boundary:
            _prove_checkpoint(table, whole.listing, instance)
    before = summarize_with_digests(rebuild_version(table, ListedLog(whole.listing), plan.newest_version), plan.now_ms)
    _require_as_in_checksum(before.snapshot, before.files)
    others = {found: "checkpoint.unreadable" for found in kept.checkpoints if found.version != plan.boundary}
    try:
        after = summarize_with_digests(
            rebuild_version(table, ListedLog(kept), plan.newest_version, unusable=others), plan.now_ms
        )
    except Unreadable as fault:
        raise _Unproven(fault.message) from fault
    if facts_of(before) != facts_of(after):
        raise _Unproven(f"version {plan.newest_version} would change")


def _prove_checkpoint(table: TableHandle, listing: LogListing, instance: CheckpointInstance) -> None:
    found = verify_checkpoint(table, listing, instance)
    if found.verdict in (CheckpointVerdict.DIFFERS, CheckpointVerdict.UNREADABLE):
        what = found.reason or ", ".join(name for name, _, _ in found.details)
        raise _Unproven(f"the checkpoint of version {instance.version} {found.verdict}: {what}")
    others = {other: "checkpoint.unreadable" for other in listing.checkpoints if other != instance}
    state = rebuild_version(table, ListedLog(listing), instance.version, unusable=others)
    if instance.version in listing.checksums:
        _require_as_in_checksum(state, state.counts()[0])
    if found.verdict is CheckpointVerdict.ALONE:
        _require_no_lost_files(state, listing)


def _require_as_in_checksum(state: Snapshot, files: FileCounts) -> None:
    """Raise Refused where the checksum file of a version counts other files than its state."""
    found = find_checksum_contradiction(state, files.count, files.size_bytes)
    if found is not None:
        raise _Unproven(f"{found.message} [{found.rule}]")


def _require_no_lost_files(state: Snapshot, listing: LogListing) -> None:
    """Raise Refused where older commits, which rebuild no version, add files that a checkpoint's state lacks."""
    first, last = next((run for run in listing.commit_runs if run[0] <= state.version <= run[1]), (0, -1))
    commits = {
        version: file for version, file in listing.commits.items() if first <= version <= min(last, state.version)
    }
    lost = count_missing_live_files(state, replace(listing, commits=commits))
    if lost:
        raise _Unproven(
            f"{plural(lost, 'file')} that commits add and do not remove {'is' if lost == 1 else 'are'} missing from "
            f"the checkpoint of version {state.version} [{MISSING_ADD}]"
        )
