"""Showing the properties and the features of a table, and changing them in one commit of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from deltacli.changing.base_version import build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.execution import ChangeExecution, UnfinishedGoal
from deltacli.changing.outcome import SingleCommitChange
from deltacli.changing.plan import TableUriMixin
from deltacli.changing.request_checks import require_committable_change
from deltacli.core.errors import DeltacliError, Refused, command
from deltacli.core.ranges import format_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.log.actions import require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.row_ids import ENABLED
from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.clients import ClientAccess
from deltacli.delta.protocol.feature_changes import FeaturesPlan, ShownFeature, plan_features, show_features
from deltacli.delta.protocol.known_properties import MEANINGS, property_kind
from deltacli.delta.protocol.property_changes import PropertiesPlan, expected_of, normal_form, plan_set, plan_unset
from deltacli.table.handle import TableHandle
from deltacli.table.known_clients import find_affected_clients
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.operations.change.row_tracking import Backlog

# -- showing the properties of a table ---------------------------------------------------------------------------------


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
    """A requested change: properties to `put`, or keys to `drop`. `force`: also unrecognized keys, `upgrade_protocol`:
    also those whose features the protocol lacks.

    `commit_metadata` are keys for the commitInfo.
    """

    put: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    force: bool = False
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    upgrade_protocol: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCommit(SingleCommitChange, TableUriMixin):
    """A commit that a guard may refuse."""

    refused: Refused | None = None
    """Why it is not made; the plan is then what a guard refuses."""
    dry_run: bool = True

    @property
    def version(self) -> int:
        return self.base_version.version

    def build_refusal(self) -> Refused | None:
        return self.refused


@short_repr("version", "committed_version", "changes=plan.changes", "dry_run")
@dataclass(frozen=True, slots=True, repr=False)
class PropertiesOutcome(GuardedCommit):
    """A change of properties, planned or made. `version` is the one it was planned on, `committed_version` the one that
    it created, the last of `versions` where row tracking takes several; None where nothing was committed.
    """

    edits: PropertyEdits
    protocol: JsonObject = field(repr=False)
    plan: PropertiesPlan
    features: FeaturesPlan | None = None
    """Those that are added before, or with the properties."""
    backlog: Backlog | None = None
    """The files that get row ids before."""
    versions: list[int] = field(default_factory=list)

    @property
    def is_noop(self) -> bool:
        return self.plan.metadata is None

    def effects(self) -> Iterator[str]:
        for one in self.plan.changes:
            values = ["(not set)" if value is None else value for value in (one.before, one.after)]
            yield f"{one.key}: {' -> '.join(values)}"
        if self.features is not None:
            yield from (f"feature {one.name}" for one in self.features.added)
        if self.backlog is not None:
            yield "row ids for the rows of every file"

    def describe_progress(self) -> str:
        if not self.versions:
            return SingleCommitChange.describe_progress(self)
        return f"{'version' if len(self.versions) == 1 else 'versions'} {format_ranges(self.versions)} committed"

    def find_affected_clients(self) -> tuple[ClientAccess, ...]:
        """Return what the features that the properties need mean for each known client; empty where none is added."""
        if self.features is None or self.features.protocol_after is None:
            return ()
        added = _listed_features(self.features.protocol_after) - _listed_features(self.protocol)
        before = read_protocol(dict(self.protocol), "protocol").supported_features
        return find_affected_clients(sorted(added), used=True, before=before)

    def as_json(self) -> dict[str, Json]:
        changes = [
            {name: value for name, value in change._asdict().items() if value is not None}
            for change in self.plan.changes
        ]
        return {
            "version": self.version,
            "changes": changes,
            "cautions": [*self.plan.cautions, *self.base_version.warnings],
            **({} if self.features is None else _access(self.features)),
            **({} if self.backlog is None else {"rowIds": self.backlog.as_json()}),
            "protocolBefore": dict(self.protocol),
            "protocolAfter": dict((self.features and self.features.protocol_after) or self.protocol),
            **({} if self.backlog is None else {"committedVersions": list(self.versions)}),
            "committedVersion": self.committed_version,
            "dryRun": self.dry_run,
        }


def _access(plan: FeaturesPlan) -> dict[str, Json]:
    """Return who loses access by added features, for documents."""
    had = read_protocol(plan.protocol_before, "protocol").supported_features
    clients = find_affected_clients([one.name for one in plan.added], before=had)
    return {"readers": plan.readers, "writers": plan.writers, "clients": [client.as_json() for client in clients]}


def _listed_features(protocol: JsonObject) -> set[str]:
    return {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}


def show_properties(snapshot: Snapshot) -> list[ShownProperty]:
    """Return the properties of a version by key, each with what is known about it."""
    return [_shown(key, value) for key, value in sorted(snapshot.properties.items())]


@dataclass(frozen=True)
class PropertiesChange:
    """A change of properties, to be planned and committed."""

    kind: ClassVar[ChangeKind] = ChangeKind.CHANGE_METADATA

    edits: PropertyEdits

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PropertiesOutcome:
        """Plan it, with what a guard refuses. Raises UsageError, Refused, and what `read_snapshot` raises."""
        edits = self.edits
        require_unreserved_keys(edits.commit_metadata)
        snapshot = now or read_snapshot(table)

        def make() -> PropertiesPlan:
            plan = _plan(snapshot, edits)
            if (request := _properties_request(snapshot, plan, edits)) is not None:
                require_committable_change(snapshot, request)
            return plan

        plan, refused = plan_with_refusal(make, lambda: _plan(snapshot, replace(edits, force=True)))
        features, backlog = _features(snapshot, plan), None
        if plan.tracks_rows:
            from deltacli.operations.change.row_tracking import OPERATION, backlog_of, require_rearranging

            backlog, after = backlog_of(snapshot), None if features is None else features.protocol_after
            require_committable_change(snapshot, CommitRequest(OPERATION, protocol=after, new_rows=backlog.rows))
            if backlog.files:
                require_rearranging(table, asks=False)
        protocol = snapshot.protocol.as_json()
        return PropertiesOutcome(
            build_base_version(snapshot), edits, protocol, plan, features, backlog, refused=refused
        )

    def outcome(self, plan: PropertiesOutcome) -> PropertiesOutcome:
        return replace(plan, dry_run=False)

    def execute(self, execution: ChangeExecution[PropertiesOutcome, PropertiesOutcome]) -> None:
        """Commit the change, that of row tracking in several commits.

        Raises what `ChangeExecution.commit_plan` and `enable` raise.
        """
        if execution.plan.plan.tracks_rows:
            self._track_rows(execution)
            return
        edits = self.edits

        def request(plan: PropertiesOutcome) -> CommitRequest | None:
            assert plan.base_version.snapshot is not None
            return _properties_request(plan.base_version.snapshot, plan.plan, edits)

        done = execution.commit_plan(request, options=CommitOptions(metadata=edits.commit_metadata))
        version = done.version if isinstance(done, Committed) else None
        execution.outcome = replace(execution.plan, committed_version=version, dry_run=False)

    def _track_rows(self, execution: ChangeExecution[PropertiesOutcome, PropertiesOutcome]) -> None:
        from deltacli.operations.change.row_tracking import enable, require_rearranging

        if not execution.accepts_any_plan and (plan := self.plan(execution.table)).version != execution.plan.version:
            execution.outcome = replace(execution.accept_new_plan(plan), dry_run=False)
        edits = self.edits
        execution.outcome = outcome = replace(execution.outcome, versions=[])

        def upgrade(snapshot: Snapshot) -> CommitRequest | None:
            features = _features(snapshot, _plan(snapshot, edits))
            return None if features is None else _upgrade_request(features)

        def settle(snapshot: Snapshot) -> CommitRequest | None:
            return _properties_request(snapshot, _plan(snapshot, edits), edits)

        if outcome.backlog and outcome.backlog.files:
            require_rearranging(execution.table, asks=True)  # before the first commit
        execution.unfinished_goal = UnfinishedGoal(
            "row tracking is not enabled yet", command("properties set", dict(edits.put))
        )
        counts = outcome.backlog.counts if outcome.backlog else {}
        enable(execution, upgrade, settle, outcome.versions.append, edits.commit_metadata, counts)
        version = outcome.versions[-1] if outcome.versions else None
        execution.outcome = replace(outcome, committed_version=version)


Planned = TypeVar("Planned")


def plan_with_refusal(make: Callable[[], Planned], unguarded: Callable[[], Planned]) -> tuple[Planned, Refused | None]:
    """Return a plan and None; or, where a guard refuses it, what it would be without the guard, and the refusal. Raises
    the refusal where there is none.
    """
    try:
        return make(), None
    except Refused as refused:
        try:
            return unguarded(), refused
        except DeltacliError:
            raise refused from None


def _plan(snapshot: Snapshot, edits: PropertyEdits) -> PropertiesPlan:
    config = replace(snapshot.config, raw_metadata=snapshot.raw_metadata)
    if edits.drop:
        return plan_unset(config, snapshot.raw_metadata, edits.drop)
    force, upgrade = edits.force, edits.upgrade_protocol
    return plan_set(config, snapshot.raw_metadata, edits.put, force=force, upgrade_protocol=upgrade)


def _features(snapshot: Snapshot, plan: PropertiesPlan) -> FeaturesPlan | None:
    """Return the features that the protocol gets for properties, with what they need; None if it lacks none."""
    return plan_features(snapshot.config, snapshot.raw_protocol, plan.lacking) if plan.lacking else None


def _properties_request(snapshot: Snapshot, plan: PropertiesPlan, edits: PropertyEdits) -> CommitRequest | None:
    """Return the commit, which depends on the row ids of all files if they must have some; None without changes."""
    if plan.metadata is None:
        return None
    changed = {change.key for change in plan.changes}
    if edits.drop:
        keys = [key for key in edits.drop if key in changed]
        parameters: dict[str, object] = {"properties": keys, "ifExists": True}
        return CommitRequest("UNSET TBLPROPERTIES", parameters, metadata=plan.metadata)
    values = {change.key: change.after for change in plan.changes if change.after is not None}
    features = _features(snapshot, plan)
    request = CommitRequest(
        "SET TBLPROPERTIES",
        {"properties": values},
        protocol=None if features is None else features.protocol_after,
        metadata=plan.metadata,
    )
    if not plan.tracks_rows:
        return request
    from deltacli.operations.change.row_tracking import AddsWithoutIds, materialized_names

    names = materialized_names(snapshot.config, snapshot.table.machine)
    metadata = plan.metadata | {"configuration": {**plan.metadata["configuration"], **names}}
    tags = {"rowTrackingEnablementOnly": "true"} if changed == {ENABLED} else {}
    return replace(request, metadata=metadata, tags=tags, reads=AddsWithoutIds())


def _shown(key: str, value: str) -> ShownProperty:
    is_ours = key.lower().startswith("delta.")
    meaning, default = MEANINGS.get(key, (None, None))
    return ShownProperty(
        key,
        value,
        is_known=property_kind(key) is not None if is_ours else None,
        is_valid=normal_form(key, value) is not None,
        expected=expected_of(key),
        default=default,
        meaning=meaning,
    )


# -- showing the features of a table -----------------------------------------------------------------------------------


@short_repr("version", "committed_version", "added=plan.added", "dry_run")
@dataclass(frozen=True, slots=True, repr=False)
class FeaturesOutcome(GuardedCommit):
    """An addition of features, planned or made. `version` is the one it was planned on, `committed_version` the one
    that it created; None where nothing was committed.
    """

    names: tuple[str, ...]
    plan: FeaturesPlan
    commit_metadata: Mapping[str, str]

    @property
    def is_noop(self) -> bool:
        return self.plan.protocol_after is None

    def effects(self) -> Iterator[str]:
        yield from (f"feature {one.name}" for one in self.plan.added)
        yield from (f"readers: {self.plan.readers}", f"writers: {self.plan.writers}")

    def find_affected_clients(self) -> tuple[ClientAccess, ...]:
        """Return what the features mean for each known client; empty where none is added."""
        if not self.plan.protocol_after:
            return ()
        before = read_protocol(self.plan.protocol_before, "protocol").supported_features
        return find_affected_clients([addition.name for addition in self.plan.added], before=before)

    def as_json(self) -> dict[str, Json]:
        added = [
            {"feature": one.name} if one.needed_by is None else {"feature": one.name, "neededBy": one.needed_by}
            for one in self.plan.added
        ]
        return {
            "version": self.version,
            "changes": added,
            **_access(self.plan),
            **self.base_version.warnings_json,
            "protocolBefore": self.plan.protocol_before,
            "protocolAfter": self.plan.protocol_after or self.plan.protocol_before,
            "committedVersion": self.committed_version,
            "dryRun": self.dry_run,
        }


def list_features(snapshot: Snapshot) -> list[ShownFeature]:
    """Return the features of a version by name."""
    return show_features(snapshot.config, [domain.domain for domain in snapshot.domains])


@dataclass(frozen=True)
class FeaturesAddition:
    """An addition of features, to be planned and committed."""

    kind: ClassVar[ChangeKind] = ChangeKind.CHANGE_METADATA

    names: Sequence[str]
    commit_metadata: Mapping[str, str] = field(default_factory=dict)

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> FeaturesOutcome:
        """Plan it, with what a guard refuses. Raises UsageError, Refused, and what `read_snapshot` raises."""
        require_unreserved_keys(self.commit_metadata)
        snapshot = now or read_snapshot(table)

        add = partial(plan_features, snapshot.config, snapshot.raw_protocol, self.names)

        def make() -> FeaturesPlan:
            plan = add()
            if (request := _upgrade_request(plan)) is not None:
                require_committable_change(snapshot, request)
            return plan

        plan, refused = plan_with_refusal(make, partial(add, unguarded=True))
        return FeaturesOutcome(
            build_base_version(snapshot), tuple(self.names), plan, self.commit_metadata, refused=refused
        )

    def outcome(self, plan: FeaturesOutcome) -> FeaturesOutcome:
        return replace(plan, dry_run=False)

    def execute(self, execution: ChangeExecution[FeaturesOutcome, FeaturesOutcome]) -> None:
        """Commit the protocol. Raises what `ChangeExecution.commit_plan` raises."""
        done = execution.commit_plan(
            lambda plan: _upgrade_request(plan.plan), options=CommitOptions(metadata=self.commit_metadata)
        )
        version = done.version if isinstance(done, Committed) else None
        execution.outcome = replace(execution.plan, committed_version=version, dry_run=False)


def _upgrade_request(plan: FeaturesPlan) -> CommitRequest | None:
    """Return the commit with the operation name of Delta-Spark; None where nothing changes."""
    if plan.protocol_after is None:
        return None
    return CommitRequest("UPGRADE PROTOCOL", {"newProtocol": plan.protocol_after}, protocol=plan.protocol_after)
