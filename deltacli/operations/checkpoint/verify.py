"""`checkpoint --verify`: each checkpoint against what older files of the log say. Spec: Checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltacli.delta.checkpoint.retention import live_transactions
from deltacli.delta.log.segment import CheckpointInstance, LogListing, choose_segment
from deltacli.delta.protocol.properties import TRANSACTION_RETENTION, is_true
from deltacli.errors import Unreadable, VersionAbsent
from deltacli.operations.checkpoint.checkpoint import STATS_AS_JSON, STATS_AS_STRUCT
from deltacli.operations.read.snapshot import SnapshotSummary, count_and_digest
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.log import Log, list_log
from deltacli.operations.table.rebuild import rebuild

_ANOTHER = "checkpoint.unreadable"
_OF_STATISTICS = ("files.records", "files.filesWithoutRecords", "files.rows")


class CheckpointVerdict(StrEnum):
    """What became of a checkpoint under examination."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNREADABLE = "unreadable"
    ALONE = "alone"
    """It could be read, and nothing older is left to compare it with."""


@dataclass(frozen=True, slots=True)
class Verification:
    """One checkpoint: `details` are the parts that differ, each as (name, of the checkpoint, of the log), or why it
    can't be read.
    """

    checkpoint: CheckpointInstance
    verdict: CheckpointVerdict
    details: tuple[tuple[str, object, object], ...] = ()
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As in the document `deltacli.checkpoint-verification`."""
        return {
            "version": self.checkpoint.version,
            "files": [f"_delta_log/{file.name}" for file in self.checkpoint.files],
            "verdict": self.verdict.value,
            "differences": [{"field": name, "checkpoint": ours, "log": theirs} for name, ours, theirs in self.details],
            **({"reason": self.reason} if self.reason else {}),
        }


def verify_checkpoints(table: TableHandle, *, version: int | None = None) -> Iterator[Verification]:
    """Verify every complete checkpoint, oldest first, or those of one version.

    Raises VersionAbsent where that version has none, and NotATable.
    """
    listing = list_log(table.storage, progress=table.progress)
    chosen = sorted(found for found in listing.checkpoints if version in (None, found.version))
    if version is not None and not chosen:
        there = sorted({found.version for found in listing.checkpoints})
        raise VersionAbsent(
            f"version {version} has no checkpoint",
            facts={"checkpoints": ", ".join(map(str, there[-10:])) or "none"},
            hint="deltacli checkpoint {table} --verify" if there else "deltacli checkpoint {table}",
        )
    for instance in chosen:
        yield verify_checkpoint(table, listing, instance, may_leave_out=True)


def verify_checkpoint(
    table: TableHandle, listing: LogListing, instance: CheckpointInstance, *, may_leave_out: bool = False
) -> Verification:
    """Compare one checkpoint with what older files of the log say; with `may_leave_out` it need not have the statistics
    that the table wants in none. Raises what reading the log raises.
    """
    others = {found: _ANOTHER for found in listing.checkpoints if found != instance}
    at_version = {found: _ANOTHER for found in listing.checkpoints if found.version == instance.version}
    try:
        ours = _summary(table, listing, instance.version, others)
        for _ in ours.snapshot.map_file_actions(lambda _: None):
            pass  # counting and digests leave out fields, whose pages may be corrupt as well
    except Unreadable as fault:
        return Verification(instance, CheckpointVerdict.UNREADABLE, reason=fault.message)
    if ours.snapshot.segment.checkpoint != instance:  # it was set aside, and the commits helped
        rule = ours.snapshot.set_aside.get(instance.files[0].name, "checkpoint.unreadable")
        return Verification(instance, CheckpointVerdict.UNREADABLE, reason=rule)
    try:
        choose_segment(listing, instance.version, unusable=at_version)
        theirs = _summary(table, listing, instance.version, at_version)
    except Unreadable:
        return Verification(instance, CheckpointVerdict.ALONE)
    found, wanted = facts_of(ours), facts_of(theirs)
    if may_leave_out and found["files.records"] == 0 and _leaves_statistics_out(ours.snapshot.properties):
        wanted |= {name: found[name] for name in _OF_STATISTICS}
    details = tuple((name, found[name], wanted[name]) for name in wanted if found[name] != wanted[name])
    return Verification(instance, CheckpointVerdict.DIFFERS if details else CheckpointVerdict.AGREES, details)


def _summary(
    table: TableHandle, listing: LogListing, version: int, unusable: Mapping[CheckpointInstance, str]
) -> SnapshotSummary:
    snapshot = rebuild(table, Log(listing), version, unusable=unusable)
    return count_and_digest(snapshot, table.clock())


def _leaves_statistics_out(properties: Mapping[str, str]) -> bool:
    """True if the table asks for checkpoints without statistics."""
    if STATS_AS_JSON not in properties:
        return False
    return not is_true(properties, STATS_AS_JSON) and not is_true(properties, STATS_AS_STRUCT)


def facts_of(summary: SnapshotSummary) -> dict[str, object]:
    """What two ways to one state must agree on."""
    document, snapshot = summary.as_json(), summary.snapshot
    facts = {name: document[name] for name in ("protocol", "domains")}
    facts["metadata"] = document["metadata"] | {"schemaString": _schema(snapshot.metadata.schema_string)}
    kept = live_transactions(snapshot.transactions, snapshot.properties, summary.now_ms)
    if TRANSACTION_RETENTION in snapshot.properties:  # engines differ in what becomes of those without a time
        kept = [found for found in kept if found.last_updated is not None]
    facts["transactions"] = [found._asdict() for found in kept]
    files = document["files"]
    facts |= {f"files.{name}": value for name, value in files.items()}
    facts["tombstones.unexpired"] = summary.tombstones.count - summary.tombstones.expired
    return facts


def _schema(text: str | None) -> object:
    """The schema as a value: writers have been seen to space it otherwise in checkpoints."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return text
