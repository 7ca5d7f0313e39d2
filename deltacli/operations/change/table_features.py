"""Showing the features of a table, and adding some in one commit with a protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from deltacli.changing.acts import Act
from deltacli.changing.basis import basis_of
from deltacli.changing.commit import Committed, require_possible
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import require_free
from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.clients import ClientAccess
from deltacli.delta.protocol.feature_changes import FeaturesPlan, ShownFeature, plan_features, show_features
from deltacli.operations.change.table_properties import GuardedCommit, guarded
from deltacli.table.handle import TableHandle
from deltacli.table.known_clients import clients_after
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate


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
        """True where the protocol has the features."""
        return self.plan.protocol_after is None

    def effects(self) -> Iterator[str]:
        """Yield the features that are added, and what clients need."""
        yield from (f"feature {one.name}" for one in self.plan.added)
        yield from (f"readers: {self.plan.readers}", f"writers: {self.plan.writers}")

    @property
    def clients(self) -> tuple[ClientAccess, ...]:
        """What the added features mean for known clients."""
        had = read_protocol(self.plan.protocol_before, "protocol").supported_features
        return clients_after([one.name for one in self.plan.added], before=had)

    def as_json(self) -> dict[str, Json]:
        added = [
            {"feature": one.name} if one.needed_by is None else {"feature": one.name, "neededBy": one.needed_by}
            for one in self.plan.added
        ]
        return {
            "version": self.version,
            "changes": added,
            "readers": self.plan.readers,
            "writers": self.plan.writers,
            "clients": [client.as_json() for client in self.clients],
            **self.basis.cautions_json,
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

    act: ClassVar[Act] = Act.COMMIT

    names: Sequence[str]
    commit_metadata: Mapping[str, str] = field(default_factory=dict)

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> FeaturesOutcome:
        """Plan it. What a guard refuses is part of the plan. Raises UsageError, Refused where nothing can be planned,
        and what `read_snapshot` raises.
        """
        require_free(self.commit_metadata)
        snapshot = now or read_snapshot(table)

        add = partial(plan_features, snapshot.config, snapshot.raw_protocol, self.names)

        def make() -> FeaturesPlan:
            plan = add()
            if (request := _request(plan)) is not None:
                require_possible(snapshot, request)
            return plan

        plan, refused = guarded(make, partial(add, unguarded=True))
        return FeaturesOutcome(basis_of(snapshot), tuple(self.names), plan, self.commit_metadata, refused=refused)

    def outcome(self, plan: FeaturesOutcome) -> FeaturesOutcome:
        """Return the plan: nothing is committed yet."""
        return replace(plan, dry_run=False)

    def execute(self, gate: Gate[FeaturesOutcome, FeaturesOutcome]) -> None:
        """Commit the protocol. Raises what `Gate.commit` raises."""
        done = gate.commit(lambda plan: _request(plan.plan), commit_metadata=self.commit_metadata)
        version = done.version if isinstance(done, Committed) else None
        gate.outcome = replace(gate.plan, committed_version=version, dry_run=False)


def _request(plan: FeaturesPlan) -> CommitRequest | None:
    """Return the commit with the operation name of Delta-Spark; None where nothing changes."""
    if plan.protocol_after is None:
        return None
    return CommitRequest("UPGRADE PROTOCOL", {"newProtocol": plan.protocol_after}, protocol=plan.protocol_after)
