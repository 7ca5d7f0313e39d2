"""`log expire`: plan and delete the log files that no kept version needs.

Spec: Metadata Cleanup; Checkpoint Protection.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from deltacli.delta.checkpoint.last_checkpoint_content import Hint, read_hint
from deltacli.delta.log.counts import FileCounts
from deltacli.delta.log.log_path import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind
from deltacli.delta.log.segment import CheckpointInstance, LogFile, LogListing, read_listing
from deltacli.delta.protocol.property_values import (
    CHECKPOINT_PROTECTION,
    DEFAULT_LOG_RETENTION_MS,
    LOG_CLEANUP,
    LOG_RETENTION,
    is_false,
    log_cutoff_ms,
    log_retention_ms,
    parse_integer,
)
from deltacli.delta.protocol.protocol_action import require_writable
from deltacli.errors import CheckpointUnreadable, FileMissing, Refusal, Refused, Unreadable, VersionAbsent
from deltacli.hints import command, parameter
from deltacli.operations.checkpoint.verify import CheckpointVerdict, facts_of, verify_checkpoint
from deltacli.operations.log.expire_deleting import ExpiredFile, ExpiryOutcome, ExpiryReason, delete_in_order
from deltacli.operations.read.snapshot import summarize_with_digests
from deltacli.operations.table.api_arguments import optional_count, version_number
from deltacli.operations.table.checksum_guard import contradiction
from deltacli.operations.table.file_history import RULE as MISSING_ADD
from deltacli.operations.table.file_history import count_lost_files
from deltacli.operations.table.find_log import Log, read_hint_file
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot, rebuild
from deltacli.operations.table.time_travel import version_at
from deltacli.operations.table.version import Snapshot
from deltacli.operations.validate.inspect_storage import WholeLog, list_log_whole
from deltacli.request_fields import Kind, option
from deltacli.short_repr import short_repr
from deltacli.units import (
    DAY_MS,
    duration,
    format_duration,
    format_ranges,
    format_timestamp,
    named_ranges,
    plural,
    ranges_of,
)
from deltacli.work.checkpoints.reading import open_checkpoint

_UNPROVEN = "nothing was deleted: "
_NOT_PROVEN = "expire.not-proven"


@dataclass(frozen=True, kw_only=True)
class ExpiryRequest:
    """A request for an expiry. `keep_versions` must remain reconstructable, whatever their age;
    `allow_retention_below_ms` is the table's own retention, named to allow a shorter one.
    """

    retention_ms: int | None = option(
        "Age up to which commits are kept, such as 60d.  "
        f"[default: {LOG_RETENTION}, else {format_duration(DEFAULT_LOG_RETENTION_MS)}]",
        "DURATION",
        Kind.DURATION,
    )
    keep_versions: Sequence[int] = option(
        "Versions to keep, whatever their age. Repeatable.", "A,B-C,…", Kind.VERSIONS, default=()
    )
    allow_retention_below_ms: int | None = option(
        "Allow a retention below the table's own, whose value is given here, such as 30d.", "DURATION", Kind.DURATION
    )
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for what is no version or no duration."""
        settled = {
            "keep_versions": tuple(version_number(version, "keep_versions") for version in self.keep_versions),
            "retention_ms": optional_count(self.retention_ms, "retention_ms"),
            "allow_retention_below_ms": optional_count(self.allow_retention_below_ms, "allow_retention_below_ms"),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)


@short_repr("newest_version", "boundary", "files", "size_bytes", "lost_versions", "refusals")
@dataclass(frozen=True)
class ExpiryPlan:
    """The files to delete, in the order of deletion. Nothing has been done."""

    table: str
    newest_version: int
    now_ms: int
    retention_ms: int
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
            "lostVersions": [list(pair) for pair in ranges_of(self.lost_versions)],
            "keptVersions": self.kept_versions,
            "refusals": [refusal.as_json("override") for refusal in self.refusals],
            "offeredCheckpoint": self.offered_checkpoint,
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
    now_ms = table.clock()
    own_retention = log_retention_ms(snapshot.properties)
    retention = own_retention if request.retention_ms is None else request.retention_ms
    cutoff = log_cutoff_ms(now_ms, retention, cut_ms)
    whole = whole or list_log_whole(table.storage, table.progress)
    listing = whole.listing
    limit, notes = _limit(table, listing, cutoff, request.keep_versions)
    complete = [found for found in listing.checkpoints if found.version <= limit and found.version in listing.commits]
    boundary = max((found.version for found in complete), default=None)
    files = tuple(_expired(table, whole, boundary, now_ms, notes)) if boundary is not None else ()
    gone = {file.path for file in files}
    kept = _without(whole, gone)
    lost = tuple(sorted(set(listing.reconstructable) - set(kept.reconstructable)))
    offered = limit if boundary is None and limit > 0 and limit in listing.reconstructable else None
    return ExpiryPlan(
        table.uri,
        snapshot.version,
        now_ms,
        retention,
        cutoff,
        boundary if files else None,
        files,
        lost,
        len(kept.reconstructable),
        tuple(_refusals(snapshot, listing, request, retention, own_retention, boundary)),
        tuple(notes),
        offered,
    )


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
        limit = version_at(table, cutoff_ms)
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
    for stored in whole.staged:
        version = _staged_version(stored.path)
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


def _staged_version(name: str) -> int | None:
    digits = name.split(".", 1)[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def _unnamed_sidecars(
    table: TableHandle, whole: WholeLog, boundary: int, grace_ms: int, notes: list[str]
) -> Iterator[ExpiredFile]:
    """Return sidecars that no remaining checkpoint references, at least a day old; none where a checkpoint is
    unreadable.
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
    for stored in sorted(whole.sidecars, key=lambda stored: (stored.modified_ms, stored.path)):
        if stored.path not in named and stored.modified_ms < grace_ms:
            path = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{stored.path}"
            yield ExpiredFile(path, stored.size_bytes, stored.modified_ms, ExpiryReason.SIDECAR)


def _without(whole: WholeLog, gone: Collection[str]) -> LogListing:
    return read_listing(file for file in whole.files if f"{LOG_DIRECTORY}/{file.name}" not in gone)


def _refusals(
    snapshot: Snapshot,
    listing: LogListing,
    request: ExpiryRequest,
    retention: int,
    own_retention: int,
    boundary: int | None,
) -> Iterator[Refusal]:
    """Yield the refusals. `listing` is the whole log; the listing of a snapshot may begin at the hint."""
    properties = snapshot.properties
    try:
        require_writable(snapshot.protocol, snapshot.version)
    except Refused as fault:
        yield Refusal(fault.code, fault.message, hint=fault.hint or command("features"))
    if snapshot.protocol.is_catalog_managed:
        yield Refusal(
            "catalog.managed", "the catalog of this table decides when its log is cleaned", hint=command("features")
        )
    if is_false(properties, LOG_CLEANUP):
        message = f"{LOG_CLEANUP} is false: the table keeps its whole log"
        yield Refusal("expire.disabled", message, hint=command("properties"))
    allowed = request.allow_retention_below_ms
    if retention < own_retention and (allowed is None or allowed < own_retention):
        own = format_duration(own_retention)
        message = f"{format_duration(retention)} is less than the table's own retention of {own}"
        override = parameter("log expire.allow_retention_below_ms", duration(own_retention))
        yield Refusal("expire.retention", message, override=override)
    empty = [version for version, file in listing.commits.items() if file.size_bytes == 0]
    if empty:
        yield Refusal(
            "commit.empty",
            f"commit {empty[0]} is empty, which indicates an interrupted write; repair it first",
            hint=command("validate"),
        )
    protected = parse_integer(properties, CHECKPOINT_PROTECTION) or 0
    if "checkpointProtection" in snapshot.protocol.supported_features and boundary is not None and boundary < protected:
        message = (
            f"{CHECKPOINT_PROTECTION} is {protected}: older versions may only be deleted all at once, "
            f"but the kept log would begin at {boundary}"
        )
        yield Refusal("expire.checkpoint-protection", message, hint=command("properties"))


def prove_expiry(table: TableHandle, plan: ExpiryPlan) -> None:
    """Verify, before anything is deleted, that every kept version can be rebuilt from the remaining files.

    The boundary's checkpoint must match the log, the newest version must be rebuilt unchanged from it, and no kept
    version may lose a file it needs. Raises Refused.
    """
    if plan.boundary is None:
        return
    whole = list_log_whole(table.storage, table.progress)
    gone = {file.path for file in plan.files}
    kept = _without(whole, gone)
    lost = set(whole.listing.reconstructable) - set(kept.reconstructable) - set(plan.lost_versions)
    if lost or any(version >= plan.boundary for version in plan.lost_versions):
        raise _unproven(f"{named_ranges('version', lost or plan.lost_versions)} would also be lost")
    for instance in kept.checkpoints:
        if instance.version == plan.boundary:
            _prove_checkpoint(table, whole.listing, instance)
    before = summarize_with_digests(rebuild(table, Log(whole.listing), plan.newest_version), plan.now_ms)
    _require_as_in_checksum(before.snapshot, before.files)
    others = {found: "checkpoint.unreadable" for found in kept.checkpoints if found.version != plan.boundary}
    try:
        after = summarize_with_digests(rebuild(table, Log(kept), plan.newest_version, unusable=others), plan.now_ms)
    except Unreadable as fault:
        raise _unproven(fault.message) from fault
    if facts_of(before) != facts_of(after):
        raise _unproven(f"version {plan.newest_version} would change")


def _prove_checkpoint(table: TableHandle, listing: LogListing, instance: CheckpointInstance) -> None:
    found = verify_checkpoint(table, listing, instance)
    if found.verdict in (CheckpointVerdict.DIFFERS, CheckpointVerdict.UNREADABLE):
        what = found.reason or ", ".join(name for name, _, _ in found.details)
        raise _unproven(f"the checkpoint of version {instance.version} {found.verdict}: {what}")
    others = {other: "checkpoint.unreadable" for other in listing.checkpoints if other != instance}
    state = rebuild(table, Log(listing), instance.version, unusable=others)
    if instance.version in listing.checksums:
        _require_as_in_checksum(state, state.counts()[0])
    if found.verdict is CheckpointVerdict.ALONE:
        _require_no_lost_files(state, listing)


def _require_as_in_checksum(state: Snapshot, files: FileCounts) -> None:
    """Raise Refused where the checksum file of a version counts other files than its state."""
    found = contradiction(state, files.count, files.size_bytes)
    if found is not None:
        raise _unproven(f"{found.message} [{found.rule}]")


def _require_no_lost_files(state: Snapshot, listing: LogListing) -> None:
    """Raise Refused where older commits, from which no version is rebuilt, add files that a checkpoint's state
    lacks.
    """
    first, last = next((run for run in listing.commit_runs if run[0] <= state.version <= run[1]), (0, -1))
    commits = {
        version: file for version, file in listing.commits.items() if first <= version <= min(last, state.version)
    }
    lost = count_lost_files(state, replace(listing, commits=commits))
    if lost:
        raise _unproven(
            f"{plural(lost, 'file')} that commits add and do not remove {'is' if lost == 1 else 'are'} missing from "
            f"the checkpoint of version {state.version} [{MISSING_ADD}]"
        )


def with_proof(table: TableHandle, plan: ExpiryPlan) -> ExpiryPlan:
    """Return the plan with the refusal that would end its execution, verified before the confirmation.

    Raises what `prove_expiry` raises where the plan could not be verified.
    """
    if plan.refusals or not plan.files:
        return plan
    try:
        prove_expiry(table, plan)
    except Refused as fault:
        if fault.code != _NOT_PROVEN:
            raise
        return replace(plan, refusals=(Refusal(fault.code, fault.message.removeprefix(_UNPROVEN), hint=fault.hint),))
    return plan


def _unproven(why: str) -> Refused:
    return Refused(
        f"{_UNPROVEN}{why}",
        code=_NOT_PROVEN,
        hint=command("validate"),
    )


def require_not_refused(plan: ExpiryPlan) -> None:
    """Raise Refused for the first refusal of a plan."""
    for refusal in plan.refusals:
        raise Refused.by([refusal], hint=f"add {refusal.override}" if refusal.override else None)


def execute_expiry(table: TableHandle, plan: ExpiryPlan, outcome: ExpiryOutcome | None = None) -> ExpiryOutcome:
    """Verify the plan, then delete, oldest first, so that an interrupted run leaves a log without gaps. `outcome` is
    updated meanwhile.

    Raises Refused where the plan has refusals or cannot be verified, NoAtomicCreate, and StorageFailed.
    """
    require_not_refused(plan)
    prove_expiry(table, plan)
    done = outcome or ExpiryOutcome()
    with table.progress.step("deleting", unit="files", total=len(plan.files)) as step:
        delete_in_order(table, plan.files, partial(prove_expiry, table, plan), done, step.advance)
    return done


def require_done(outcome: ExpiryOutcome, *, again: str | None = None) -> None:
    """Raise PartlyDone, naming the first file, where some could not be deleted; `again` is the command that retries.
    Raises PermissionRefused where none could be deleted for lack of permission.
    """
    outcome.failed.require_none(
        plural(outcome.failed.count, "file"),
        code="expire.partly-done",
        hint=again or command("log expire", yes=True),
        has_deleted=bool(outcome.deleted),
    )
