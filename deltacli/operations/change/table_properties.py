"""Showing the properties of a table, and changing them in one commit of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import require_free
from deltacli.delta.protocol.known_properties import kind_of
from deltacli.delta.protocol.property_changes import PropertiesPlan, expected_of, normal_form, plan_set, plan_unset
from deltacli.operations.change.commit import Committed, commit, require_possible
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.typing import Json, JsonObject


class _Guide(NamedTuple):
    """One property: what it does, and its default; None if engines differ or there is none."""

    meaning: str
    default: str | None = None


GUIDE: Mapping[str, _Guide] = {
    "delta.appendOnly": _Guide("rows can be added but never changed or deleted", "false"),
    "delta.autoOptimize.autoCompact": _Guide("writers merge small files after each write"),
    "delta.autoOptimize.optimizeWrite": _Guide("writers shuffle rows to write fewer files"),
    "delta.checkpoint.writeStatsAsJson": _Guide("checkpoints have statistics as JSON", "true"),
    "delta.checkpoint.writeStatsAsStruct": _Guide("checkpoints have statistics as columns"),
    "delta.checkpointInterval": _Guide("number of commits between two checkpoints", "10"),
    "delta.checkpointPolicy": _Guide("the form of checkpoints", "classic"),
    "delta.columnMapping.maxColumnId": _Guide("highest column id assigned so far"),
    "delta.columnMapping.mode": _Guide("how columns are found in files", "none"),
    "delta.dataSkippingNumIndexedCols": _Guide("leading columns that get statistics", "32"),
    "delta.dataSkippingStatsColumns": _Guide("columns that get statistics"),
    "delta.deletedFileRetentionDuration": _Guide("how long removed files are kept", "interval 1 week"),
    "delta.enableChangeDataFeed": _Guide("writers record row changes", "false"),
    "delta.enableDeletionVectors": _Guide("writers may mark rows as deleted", "false"),
    "delta.enableExpiredLogCleanup": _Guide("engines delete commits after their retention", "true"),
    "delta.enableInCommitTimestamps": _Guide("commits have their own timestamp", "false"),
    "delta.enableRowTracking": _Guide("rows keep an id over updates", "false"),
    "delta.enableTypeWidening": _Guide("types of columns may be widened", "false"),
    "delta.inCommitTimestampEnablementTimestamp": _Guide("time since which commits have their own timestamp"),
    "delta.inCommitTimestampEnablementVersion": _Guide("version from which commits have their own timestamp"),
    "delta.isolationLevel": _Guide("isolation level of concurrent writers"),
    "delta.logRetentionDuration": _Guide("how long commits are kept", "interval 30 days"),
    "delta.parquet.compression.codec": _Guide("compression codec of data files"),
    "delta.parquet.format.version": _Guide("Parquet version of data files"),
    "delta.randomizeFilePrefixes": _Guide("data files get random prefixes instead of partition names", "false"),
    "delta.setTransactionRetentionDuration": _Guide("how long application transactions are kept"),
    "delta.targetFileSize": _Guide("target size of data files"),
    "delta.universalFormat.enabledFormats": _Guide("other formats in which the table is also kept"),
}


@dataclass(frozen=True, slots=True)
class ShownProperty:
    """A property of a table. `is_known`: a known engine recognizes it; None for a user-defined key."""

    key: str
    value: str
    is_known: bool | None
    is_valid: bool
    expected: str
    default: str | None
    meaning: str | None

    def as_json(self) -> dict[str, Json]:
        document: dict[str, Any] = {
            "key": self.key,
            "value": self.value,
            "known": self.is_known,
            "valid": self.is_valid,
        }
        guide = {"expected": None if self.is_valid else self.expected, "default": self.default, "meaning": self.meaning}
        return document | {name: value for name, value in guide.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PropertyEdits:
    """A requested change: properties to `put`, or keys to `drop`. `force`: also unrecognized keys.

    `commit_metadata` are keys for the commitInfo.
    """

    put: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    force: bool = False
    commit_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PropertiesOutcome:
    """A change of properties, planned or made. `version` is the one it was planned on, `committed_version` the one that
    it created; None where nothing was committed.
    """

    table: str
    version: int
    protocol: JsonObject = field(repr=False)
    plan: PropertiesPlan
    committed_version: int | None
    dry_run: bool

    def as_json(self) -> dict[str, Json]:
        changes = [
            {name: value for name, value in change._asdict().items() if value is not None}
            for change in self.plan.changes
        ]
        return {
            "version": self.version,
            "changes": changes,
            "cautions": list(self.plan.cautions),
            "protocolBefore": dict(self.protocol),
            "protocolAfter": dict(self.protocol),
            "committedVersion": self.committed_version,
            "dryRun": self.dry_run,
        }


def show_properties(snapshot: Snapshot) -> list[ShownProperty]:
    """Return the properties of a version by key, each with what is known about it."""
    return [_shown(key, value) for key, value in sorted(snapshot.properties.items())]


def plan_properties(table: TableHandle, edits: PropertyEdits) -> PropertiesOutcome:
    """Plan a change of the newest version. Raises UsageError, Refused, and what `read_snapshot` raises."""
    require_free(edits.commit_metadata)
    snapshot = read_snapshot(table)
    plan = _plan(snapshot, edits)
    request = _request(plan, edits)
    if request is not None:
        require_possible(snapshot, request)
    protocol = snapshot.protocol.as_json()
    return PropertiesOutcome(table.uri, snapshot.version, protocol, plan, committed_version=None, dry_run=True)


def change_properties(table: TableHandle, edits: PropertyEdits) -> PropertiesOutcome:
    """Commit a change of properties; if another writer was first, plan again on the newest version.

    Raises what `plan_properties` and `commit` raise.
    """
    plan, protocol = PropertiesPlan((), None), dict[str, object]()

    def make(snapshot: Snapshot) -> CommitRequest | None:
        nonlocal plan, protocol
        plan, protocol = _plan(snapshot, edits), snapshot.protocol.as_json()
        return _request(plan, edits)

    done = commit(table, make, commit_metadata=edits.commit_metadata)
    version = done.version if isinstance(done, Committed) else None
    return PropertiesOutcome(table.uri, done.read_version, protocol, plan, version, dry_run=False)


def _plan(snapshot: Snapshot, edits: PropertyEdits) -> PropertiesPlan:
    config = replace(snapshot.config, raw_metadata=snapshot.raw_metadata)
    if edits.drop:
        return plan_unset(config, snapshot.raw_metadata, edits.drop)
    return plan_set(config, snapshot.raw_metadata, edits.put, force=edits.force)


def _request(plan: PropertiesPlan, edits: PropertyEdits) -> CommitRequest | None:
    """Return the commit with the operation name of Delta-Spark; None where nothing changes."""
    if plan.metadata is None:
        return None
    changed = {change.key for change in plan.changes}
    if edits.drop:
        keys = [key for key in edits.drop if key in changed]
        parameters: dict[str, object] = {"properties": keys, "ifExists": True}
        return CommitRequest("UNSET TBLPROPERTIES", parameters, metadata=plan.metadata)
    values = {change.key: change.after for change in plan.changes if change.after is not None}
    return CommitRequest("SET TBLPROPERTIES", {"properties": values}, metadata=plan.metadata)


def _shown(key: str, value: str) -> ShownProperty:
    is_ours = key.lower().startswith("delta.")
    guide = GUIDE.get(key)
    return ShownProperty(
        key,
        value,
        is_known=kind_of(key) is not None if is_ours else None,
        is_valid=normal_form(key, value) is not None,
        expected=expected_of(key),
        default=guide.default if guide else None,
        meaning=guide.meaning if guide else None,
    )
