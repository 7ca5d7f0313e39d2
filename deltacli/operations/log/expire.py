"""The plan of `log expire`: the log files that no kept version needs.

Spec: Metadata Cleanup; Checkpoint Protection.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.changing.basis import Basis, basis_of, with_digest
from deltacli.core.errors import CheckpointUnreadable, FileMissing, Refusal, Refused, VersionAbsent
from deltacli.core.hints import adding, command, parameter
from deltacli.core.request_fields import Kind, option
from deltacli.core.short_repr import short_repr
from deltacli.core.units import DAY_MS, duration, format_duration, format_ranges, format_timestamp, ranges_of
from deltacli.delta.checkpoint.last_checkpoint_content import Hint, read_hint
from deltacli.delta.log.log_path import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind
from deltacli.delta.log.segment import LogFile, LogListing, read_listing
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
from deltacli.operations.validate.inspect_storage import WholeLog, list_log_whole
from deltacli.table.api_arguments import optional_count, version_number
from deltacli.table.find_log import read_hint_file
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import version_at
from deltacli.table.version import Snapshot
from deltacli.work.checkpoints.reading import open_checkpoint


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
class ExpiryPlan:
    """The files to delete, in the order of deletion. Nothing has been done."""

    basis: Basis
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

    @property
    def table(self) -> str:
        """The URI of the table."""
        return self.basis.table.uri

    @property
    def newest_version(self) -> int:
        """The version that it was planned on."""
        return self.basis.version

    @property
    def now_ms(self) -> int:
        """When it was planned."""
        return self.basis.now_ms

    @property
    def is_noop(self) -> bool:
        """True where there is nothing to delete."""
        return not self.files

    def objection(self) -> Refused | None:
        """Return the error of the first refusal, None without one."""
        if not self.refusals:
            return None
        override = self.refusals[0].override
        return Refused.by(self.refusals[:1], hint=adding(override) if override else None)

    def effects(self) -> Iterator[str]:
        """Yield where the log will begin, and the files."""
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
    basis = with_digest(basis_of(snapshot))
    now_ms = basis.now_ms
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
    kept = without(whole, gone)
    lost = tuple(sorted(set(listing.reconstructable) - set(kept.reconstructable)))
    offered = limit if boundary is None and limit > 0 and limit in listing.reconstructable else None
    return ExpiryPlan(
        basis,
        request,
        retention,
        own_retention,
        cutoff,
        boundary if files else None,
        files,
        lost,
        len(kept.reconstructable),
        tuple(refusals_of(snapshot, listing, request, boundary)),
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


def without(whole: WholeLog, gone: Collection[str]) -> LogListing:
    """Return the log without the files at these paths."""
    return read_listing(file for file in whole.files if f"{LOG_DIRECTORY}/{file.name}" not in gone)


def refusals_of(
    snapshot: Snapshot,
    listing: LogListing,
    request: ExpiryRequest,
    boundary: int | None,
) -> Iterator[Refusal]:
    """Yield the refusals. `listing` is the whole log; the listing of a snapshot may begin at the hint."""
    properties = snapshot.properties
    own_retention = log_retention_ms(properties)
    retention = own_retention if request.retention_ms is None else request.retention_ms
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
