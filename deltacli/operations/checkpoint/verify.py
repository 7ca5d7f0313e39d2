"""`checkpoint --verify`: compares each checkpoint with older files of the log. Spec: Checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltacli.core.errors import Unreadable, VersionAbsent, command
from deltacli.delta.checkpoint.content import live_transactions
from deltacli.delta.log.segment import CheckpointInstance, LogListing, choose_segment
from deltacli.delta.log.state import STATS_AS_JSON, STATS_AS_STRUCT, TRANSACTION_RETENTION, is_true
from deltacli.operations.read.snapshot import SnapshotSummary, summarize_with_digests
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import rebuild_version

_ANOTHER = "checkpoint.unreadable"
_OF_STATISTICS = ("files.records", "files.filesWithoutRecords", "files.rows")


class CheckpointVerdict(StrEnum):
    """The result of comparing a checkpoint."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNREADABLE = "unreadable"
    ALONE = "alone"
    """It could be read, but no older files are left to compare it with."""


@dataclass(frozen=True, slots=True)
class Verification:
    """One checkpoint: `details` are differing parts (name, of the checkpoint, of the log), or why it cannot be read."""

    checkpoint: CheckpointInstance
    verdict: CheckpointVerdict
    details: tuple[tuple[str, object, object], ...] = ()
    reason: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the checkpoint differs from the log, or cannot be read."""
        return self.verdict in (CheckpointVerdict.DIFFERS, CheckpointVerdict.UNREADABLE)

    def as_json(self) -> dict[str, Any]:
        """Return it as in the document `deltacli.checkpoint-verification`."""
        return {
            "version": self.checkpoint.version,
            "files": [f"_delta_log/{file.name}" for file in self.checkpoint.files],
            "verdict": self.verdict.value,
            "differences": [{"field": name, "checkpoint": ours, "log": theirs} for name, ours, theirs in self.details],
            **({"reason": self.reason} if self.reason else {}),
        }


def verify_checkpoints(table: TableHandle, *, version: int | None = None) -> Iterator[Verification]:
    """Verify every complete checkpoint, oldest first, or those of one version. Raises VersionAbsent, NotATable."""
    listing = list_log(table.storage, progress=table.progress)
    chosen = sorted(checkpoint for checkpoint in listing.checkpoints if version in (None, checkpoint.version))
    if version is not None and not chosen:
        there = sorted({checkpoint.version for checkpoint in listing.checkpoints})
        raise VersionAbsent(
            f"version {version} has no checkpoint",
            facts={"checkpoints": ", ".join(map(str, there[-10:])) or "none"},
            hint=command("checkpoint", verify=True) if there else command("checkpoint"),
        )
    yield from (verify_checkpoint(table, listing, instance, may_leave_out=True) for instance in chosen)


def verify_checkpoint(
    table: TableHandle, listing: LogListing, instance: CheckpointInstance, *, may_leave_out: bool = False
) -> Verification:
    """Compare one checkpoint with older files of the log; with `may_leave_out` statistics may be missing where the
    table asks for checkpoints without them. Raises what reading the log raises.
    """
    others = {checkpoint: _ANOTHER for checkpoint in listing.checkpoints if checkpoint != instance}
    at_version = {checkpoint: _ANOTHER for checkpoint in listing.checkpoints if checkpoint.version == instance.version}
    try:
        ours = _summary(table, listing, instance.version, others)
        for _ in ours.snapshot.file_actions.map_file_actions(lambda _: None):
            pass  # counting and digests skip fields whose pages may be corrupt as well
    except Unreadable as fault:
        return Verification(instance, CheckpointVerdict.UNREADABLE, reason=fault.message)
    if ours.snapshot.segment.checkpoint != instance:  # it was skipped and the state rebuilt from commits
        rule = ours.snapshot.skipped_checkpoints.get(instance.files[0].name, "checkpoint.unreadable")
        return Verification(instance, CheckpointVerdict.UNREADABLE, reason=rule)
    try:
        choose_segment(listing, instance.version, unusable=at_version)
        theirs = _summary(table, listing, instance.version, at_version)
    except Unreadable:
        return Verification(instance, CheckpointVerdict.ALONE)
    checkpoint, wanted = facts_of(ours), facts_of(theirs)
    if may_leave_out and checkpoint["files.records"] == 0 and _leaves_statistics_out(ours.snapshot.properties):
        wanted |= {name: checkpoint[name] for name in _OF_STATISTICS}
    details = tuple((name, checkpoint[name], wanted[name]) for name in wanted if checkpoint[name] != wanted[name])
    return Verification(instance, CheckpointVerdict.DIFFERS if details else CheckpointVerdict.AGREES, details)


def _summary(
    table: TableHandle, listing: LogListing, version: int, unusable: Mapping[CheckpointInstance, str]
) -> SnapshotSummary:
    snapshot = rebuild_version(table, ListedLog(listing), version, unusable=unusable)
    return summarize_with_digests(snapshot, table.clock())


def _leaves_statistics_out(properties: Mapping[str, str]) -> bool:
    if STATS_AS_JSON not in properties:
        return False
    return not is_true(properties, STATS_AS_JSON) and not is_true(properties, STATS_AS_STRUCT)


def facts_of(summary: SnapshotSummary) -> dict[str, object]:
    """Return the facts that two ways to rebuild one state must agree on."""
    document, snapshot = summary.as_json(), summary.snapshot
    facts = {name: document[name] for name in ("protocol", "domains")}
    facts["metadata"] = document["metadata"] | {"schemaString": _schema(snapshot.metadata.schema_string)}
    kept = live_transactions(snapshot.transactions, snapshot.properties, summary.now_ms)
    if TRANSACTION_RETENTION in snapshot.properties:  # engines treat those without a time differently
        kept = [transaction for transaction in kept if transaction.last_updated is not None]
    facts["transactions"] = [transaction._asdict() for transaction in kept]
    files = document["files"]
    facts |= {f"files.{name}": value for name, value in files.items()}
    facts["tombstones.unexpired"] = summary.tombstones.count - summary.tombstones.expired
    return facts


def _schema(text: str | None) -> object:
    """Return the schema as a value, because some writers use other whitespace in checkpoints."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return text
