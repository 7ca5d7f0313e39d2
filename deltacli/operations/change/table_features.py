"""Showing the features of a table, and adding some in one commit with a protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltacli.changing.commit import Committed, commit, require_possible
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import NO_METADATA, require_free
from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.clients import ClientAccess
from deltacli.delta.protocol.feature_changes import FeaturesPlan, ShownFeature, plan_features, show_features
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.known_clients import clients_after
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.short_repr import short_repr
from deltacli.typing import Json


@short_repr("version", "committed_version", "added=plan.added", "dry_run")
@dataclass(frozen=True, slots=True)
class FeaturesOutcome:
    """An addition of features, planned or made. `version` is the one it was planned on, `committed_version` the one
    that it created; None where nothing was committed.
    """

    table: str
    version: int
    plan: FeaturesPlan
    committed_version: int | None
    dry_run: bool

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
            "protocolBefore": self.plan.protocol_before,
            "protocolAfter": self.plan.protocol_after or self.plan.protocol_before,
            "committedVersion": self.committed_version,
            "dryRun": self.dry_run,
        }


def list_features(snapshot: Snapshot) -> list[ShownFeature]:
    """Return the features of a version by name."""
    return show_features(snapshot.config, [domain.domain for domain in snapshot.domains])


def plan_addition(
    table: TableHandle,
    names: Sequence[str],
    *,
    commit_metadata: Mapping[str, str] = NO_METADATA,
    unguarded: bool = False,
) -> FeaturesOutcome:
    """Plan to add features to the newest version; an `unguarded` plan shows what a guard refuses.

    Raises UsageError, Refused, and what `read_snapshot` raises.
    """
    require_free(commit_metadata)
    snapshot = read_snapshot(table)
    plan = plan_features(snapshot.config, snapshot.raw_protocol, names, unguarded=unguarded)
    request = _request(plan)
    if request is not None and not unguarded:
        require_possible(snapshot, request)
    return FeaturesOutcome(table.uri, snapshot.version, plan, committed_version=None, dry_run=True)


def add_features(
    table: TableHandle, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
) -> FeaturesOutcome:
    """Commit a protocol with more features; if another writer was first, plan again on the newest version.

    `commit_metadata` are keys for the commitInfo.
    Raises what `plan_addition` and `commit` raise.
    """
    plan = FeaturesPlan((), {}, None)

    def make(snapshot: Snapshot) -> CommitRequest | None:
        nonlocal plan
        plan = plan_features(snapshot.config, snapshot.raw_protocol, names)
        return _request(plan)

    done = commit(table, make, commit_metadata=commit_metadata)
    version = done.version if isinstance(done, Committed) else None
    return FeaturesOutcome(table.uri, done.read_version, plan, version, dry_run=False)


def _request(plan: FeaturesPlan) -> CommitRequest | None:
    """Return the commit with the operation name of Delta-Spark; None where nothing changes."""
    if plan.protocol_after is None:
        return None
    return CommitRequest("UPGRADE PROTOCOL", {"newProtocol": plan.protocol_after}, protocol=plan.protocol_after)
