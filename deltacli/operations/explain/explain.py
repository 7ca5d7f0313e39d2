"""Which clients read and write a table, what stops them and since when, and what a change would do to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import plain_action, read_protocol
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.clients import OTHERS, USED, Client, ClientAccess, access, traits_of, traits_without
from deltacli.delta.protocol.feature_changes import plan_features
from deltacli.delta.protocol.feature_drops import require_droppable, without_feature
from deltacli.delta.protocol.features import FEATURES
from deltacli.delta.schema.widening_plan import plan_widening
from deltacli.errors import LogIncomplete, ProtocolUnsupported, UsageError
from deltacli.hints import command
from deltacli.operations.change.widen_type import refusal_error
from deltacli.operations.explain.beginnings import State, beginnings, states
from deltacli.operations.explain.known_clients import known_clients
from deltacli.operations.explain.request import ChangeKind, ExplainRequest, Supposed
from deltacli.operations.explain.ways_out import WayOut, ways_out
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_newest_readable
from deltacli.operations.table.version import Snapshot
from deltacli.short_repr import short_repr
from deltacli.storage.base import StoreOfVersions
from deltacli.typing import Json, JsonObject


class Explained(NamedTuple):
    """A client: what it does with the table, with the changes that are supposed, and `before` them."""

    access: ClientAccess
    before: ClientAccess
    since: Mapping[str, int | None]
    """Trait -> the version since which the table has it; None where the log begins later, or for a supposed one."""
    counts: str = "version"
    """What `since` counts: versions of a Delta table, or schemas of a Paimon table."""

    @property
    def loses(self) -> bool:
        """Whether the changes take access from the client."""
        pairs = ((self.before.reads, self.access.reads), (self.before.writes, self.access.writes))
        return any(old is True and new is False for old, new in pairs)

    def as_json(self) -> JsonObject:
        """As in the document."""
        found, client = self.access, self.access.client
        return {
            "name": client.name,
            "title": client.title,
            "version": found.version,
            "reads": found.reads,
            "writes": found.writes,
            "readsNow": self.before.reads,
            "writesNow": self.before.writes,
            "from": found.since,
            "blockers": [
                {
                    "feature": one.feature,
                    "since": self.since.get(one.trait),
                    "trait": one.trait,
                    "stopsReading": one.stops_reading,
                    "stopsWriting": one.stops_writing,
                    "supportedFrom": one.needs,
                }
                for one in found.blockers
            ],
            "unknown": list(found.unknown),
            "measuredOn": client.day if found.is_known and client.is_measured else None,
            "documentedOn": client.day if found.is_known and not client.is_measured else None,
            "sources": list(found.sources),
            "notes": list(found.notes),
        }


@short_repr("version", "features", "clients", "ways_out", "unknown_features")
@dataclass(frozen=True, eq=False)
class Explanation:
    """What clients do with a table. `supposed` are changes that are not made. `gap`: why this is not about the newest
    version. Of a Paimon table: its traits, and `version` is that of its schema.
    """

    table: TableHandle
    version: int
    config: TableConfiguration
    clients: tuple[Explained, ...]
    ways_out: tuple[WayOut, ...]
    supposed: tuple[Supposed, ...]
    unknown_features: tuple[str, ...]
    gap: LogIncomplete | None = None
    paimon_traits: frozenset[str] | None = None

    @property
    def features(self) -> list[str]:
        """The features of the protocol, or the traits of a Paimon table."""
        return sorted(self.config.features if self.paimon_traits is None else self.paimon_traits)

    def client(self, name: str) -> Explained:
        """Return what a client does. Raises KeyError for one that was not asked about."""
        found = {one.access.client.name: one for one in self.clients}
        return found[name]

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.explain`."""
        return {
            "version": self.version,
            "protocol": self.config.protocol.as_json() if self.config.protocol else None,
            "features": self.features,
            "unknownFeatures": list(self.unknown_features),
            "supposed": [one.text for one in self.supposed],
            "clients": [one.as_json() for one in self.clients],
            "waysOut": [one.as_json() for one in self.ways_out],
        }


class _Ground(NamedTuple):
    """The table as it is or would be: its configuration, and its traits."""

    config: TableConfiguration
    raw_protocol: Action
    traits: frozenset[str]


def explain(table: TableHandle, request: ExplainRequest) -> Explanation:
    """Return which clients read and write the newest version, and what stops the others; where commits are missing, the
    newest version that can be rebuilt. Nothing is changed.

    Raises UsageError for a shared table and for features that are none, Refused for a change that cannot be made, and
    what `read_snapshot` raises; a reader feature that is not known is part of the result.
    """
    if isinstance(table.storage, StoreOfVersions):
        raise UsageError(
            "explain does not work on shared tables: their provider decides what recipients read",
            hint=command("snapshot"),
        )
    log: list[State] | None = None
    snapshot: Snapshot | None = None
    gap: LogIncomplete | None = None
    try:
        snapshot, gap = read_newest_readable(table)
        version, domains = snapshot.version, tuple(one.domain for one in snapshot.domains)
        config = replace(snapshot.config, raw_protocol=snapshot.raw_protocol, raw_metadata=snapshot.raw_metadata)
    except ProtocolUnsupported as fault:
        gap = fault.__context__ if isinstance(fault.__context__, LogIncomplete) else None
        log = list(states(table))
        if not log:
            raise
        version, config, domains, _ = log[-1]
    now = _Ground(config, plain_action(config.raw_protocol or {}), traits_of(config, domains))
    after = now
    for change in request.supposed:
        after = _with(after, change, version)
    pairs = [
        (access(one, after.traits, named), access(one, now.traits, named))
        for one, named in asked_of(known_clients(), request)
    ]
    stopping = {blocker.trait for found, before in pairs for blocker in (*found.blockers, *before.blockers)}
    since = beginnings(states(table) if log is None else log, stopping & now.traits) if stopping else {}
    out: tuple[WayOut, ...] = ()
    if snapshot is not None:
        out = tuple(ways_out(snapshot, [one for _, before in pairs for one in before.blockers]))
    clients = tuple(Explained(found, before, since) for found, before in pairs)
    unknown = tuple(sorted(config.features - FEATURES.keys()))
    return Explanation(table, version, after.config, clients, out, tuple(request.supposed), unknown, gap)


def asked_of(known: Sequence[Client], request: ExplainRequest) -> list[tuple[Client, str | None]]:
    """Return the clients that are asked about, of those known of a format. Raises UsageError for others."""
    clients = {client.name: client for client in known}
    if not request.clients:
        return [(client, None) for client in known]
    for name, _ in request.named:
        if name not in clients:
            facts = {"known": ", ".join(clients)}
            told = f"nothing is known of {name} on tables of this format"
            raise UsageError(told, code="usage.client", facts=facts, hint=command("explain"))
    return [(clients[name], version) for name, version in request.named]


def _with(ground: _Ground, change: Supposed, version: int) -> _Ground:
    """Return the table as a change would leave it; a feature that is added counts as used."""
    match change.kind:
        case ChangeKind.ADD:
            plan = plan_features(ground.config, ground.raw_protocol, [change.name], unguarded=True)
            names = {one.name for one in plan.added} | {change.name}
            return _changed(ground, plan.protocol_after, {*names, *(f"{name}{USED}" for name in names)})
        case ChangeKind.DROP:
            removal = require_droppable(ground.config, change.name)
            after = without_feature(ground.raw_protocol, change.name, protected=removal.protects_history)
            config = _of_protocol(ground.config, after)
            return _Ground(config, after, traits_without(ground.traits, ground.config, config))
        case ChangeKind.WIDEN:
            return _widened(ground, change, version)


def _widened(ground: _Ground, change: Supposed, version: int) -> _Ground:
    metadata = ground.config.raw_metadata or {}
    pairs = [(change.name, change.data_type)]
    plan = plan_widening(ground.config, metadata, pairs, commit_version=version + 1, enable=True, upgrade_protocol=True)
    if plan.all_refusals:
        raise refusal_error(plan.all_refusals, said_first="")  # nothing is ever changed
    if plan.is_noop:
        return ground
    features = {*plan.added_features} or {one for one in ground.config.features if one.startswith("typeWidening")}
    traits = {*features, *(f"{name}{USED}" for name in features), *(one.code for one in plan.warnings)}
    return _changed(ground, plan.protocol_after, traits & {*features, *(f"{one}{USED}" for one in features), *OTHERS})


def _changed(ground: _Ground, protocol: Action | None, traits: set[str]) -> _Ground:
    """Return the table with another protocol (None: the same) and more traits."""
    if protocol is None:
        return ground._replace(traits=ground.traits | traits)
    config = _of_protocol(ground.config, protocol)
    kept = {one for one in ground.traits if one not in ground.config.features and not one.startswith("features.")}
    return _Ground(config, protocol, frozenset(traits_of(config) | kept | traits))


def _of_protocol(config: TableConfiguration, protocol: Action) -> TableConfiguration:
    return replace(config, protocol=read_protocol(protocol, "the protocol"), raw_protocol=protocol)
