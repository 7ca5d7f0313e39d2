"""Showing the properties of a table, and changing them in one commit of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltacli.changing.commit import Committed, commit, require_possible
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import require_free
from deltacli.delta.protocol.known_properties import MEANINGS, kind_of
from deltacli.delta.protocol.property_changes import PropertiesPlan, expected_of, normal_form, plan_set, plan_unset
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.short_repr import short_repr
from deltacli.typing import Json, JsonObject


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


@short_repr("version", "committed_version", "changes=plan.changes", "dry_run")
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
    meaning, default = MEANINGS.get(key, (None, None))
    return ShownProperty(
        key,
        value,
        is_known=kind_of(key) is not None if is_ours else None,
        is_valid=normal_form(key, value) is not None,
        expected=expected_of(key),
        default=default,
        meaning=meaning,
    )
