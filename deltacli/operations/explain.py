"""The request to explain who reads and writes a table.

Spec: Protocol Evolution; Change Metadata.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import (
    TABLE_PLACEHOLDER,
    DeltacliError,
    LogIncomplete,
    ProtocolUnsupported,
    UsageError,
    command,
    nearest_name,
    parameter,
    quote_table,
)
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import FileCounts
from deltacli.delta.log.segment import LogListing
from deltacli.delta.log.state import StateBuilder, TableConfiguration, drop_null_fields, read_protocol
from deltacli.delta.protocol import feature_changes
from deltacli.delta.protocol.clients import (
    TRAIT_DESCRIPTIONS,
    USED_SUFFIX,
    Blocker,
    Client,
    ClientAccess,
    determine_access,
    find_remaining_traits,
    find_table_traits,
)
from deltacli.delta.protocol.features import FEATURES
from deltacli.delta.schema.to_arrow import require_partitions
from deltacli.delta.schema.types import parse_schema
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.table.configuration_actions import read_configuration_actions
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.known_clients import read_known_clients, read_paimon_clients
from deltacli.table.rebuild import read_newest_readable, read_snapshot
from deltacli.table.version import Snapshot
from deltacli.table.version_traits import find_version_traits

if TYPE_CHECKING:
    from deltacli.operations.log_damages import LogDamages

# -- the request -------------------------------------------------------------------------------------------------------

_OTHER_NAMES = {"delta-rs": "deltalake", "clickhouse": "chdb", "delta-spark": "spark", "dbr": "databricks"}


_OTHER_PRODUCTS = (
    *("arcticdb", "athena", "bigquery", "bodo", "dataproc", "denodo", "doris", "dremio", "drill", "dynamodb", "emr"),
    *("fabric", "firebolt", "flink", "glue", "hive", "hudi", "iceberg", "impala", "lakesail", "onelake", "pinot"),
    *("powerbi", "presto", "pulsar", "redshift", "snowflake", "snowpark", "starburst", "starrocks", "synapse"),
    *("vertica", "xtable"),
)
"""Products that people ask about, and of which nothing was measured or read: no name here is a misspelled one."""
_MISSPELLED = 0.8
"""The similarity above which a name is taken for a misspelled one: "sparc" for spark, not "fabric" for databricks."""


class ChangeKind(StrEnum):
    """A change whose effect is asked for."""

    ADD = "add"
    DROP = "drop"
    WIDEN = "widen"


class Supposed(NamedTuple):
    """A change that is supposed: a feature, or a column with its new type."""

    kind: ChangeKind
    name: str
    data_type: str = ""

    @property
    def text(self) -> str:
        return f"{self.kind}={self.name}" + (f":{self.data_type}" if self.data_type else "")


@dataclass(frozen=True, kw_only=True)
class ExplainRequest:
    """Which clients to explain, and changes whose effect on them is wanted.

    Attributes:
        clients: Names of clients, each with a version or without: `duckdb`, `trino=480`. Empty: all that are
            known.
        changes: Changes to suppose, in their order: `add=FEATURE`, `drop=FEATURE` or `widen=COLUMN:TYPE`.
            Nothing is changed.
    """

    clients: Sequence[str] = ()
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for unknown clients, and for what is not a change."""
        for name in ("clients", "changes"):
            if isinstance(getattr(self, name), str):
                raise UsageError(f"{parameter(f'explain.{name}')} is a text, expected a list")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _ = self.named, self.supposed

    @property
    def named(self) -> list[tuple[str, str | None]]:
        return [_client(text) for text in self.clients]

    @property
    def supposed(self) -> list[Supposed]:
        return [_change(text) for text in self.changes]


def _client(text: str) -> tuple[str, str | None]:
    name, has_version, version = text.partition("=")
    known = [client.name for client in (*read_known_clients(), *read_paimon_clients())]
    found = _OTHER_NAMES.get(name.lower(), name.lower())
    if found not in known:
        raise _no_facts(name, known)
    if has_version and not any(map(str.isdigit, version)):
        raise UsageError(f"{version!r} is not a version of {found}", facts={"expected": f"{found}=1.2.3"})
    return found, version.removeprefix("v") or None


def _no_facts(name: str, known: Sequence[str]) -> UsageError:
    """Return the error for a client about which nothing is known.

    A product is never suggested in place of another one, as it would be by the likeness of their names: what Databricks
    does says nothing of Fabric.
    """
    facts = {"known": ", ".join(known)}
    if _is_other_product(name):
        facts["instead"] = f"compare the features of the table with the documentation of {name}"
        return UsageError(f"no facts about {name}", code="usage.client", facts=facts, hint=command("explain"))
    near = nearest_name(name.lower(), [*known, *_OTHER_NAMES], cutoff=_MISSPELLED)
    meant = None if near is None else _OTHER_NAMES.get(near, near)
    return UsageError(f"no facts about {name!r}", code="usage.client", facts=facts).suggest(name, meant)


def _is_other_product(name: str) -> bool:
    """Return True for names such as fabric, Amazon Athena, snowflake-iceberg or big_query."""
    words = re.sub(r"[^a-z0-9]+", " ", name.lower())
    return any(product in words.split() or product in words.replace(" ", "") for product in _OTHER_PRODUCTS)


def _change(text: str) -> Supposed:
    kind, _, rest = text.partition("=")
    column, _, data_type = rest.rpartition(":") if kind == "widen" else (rest, "", "")
    if kind not in list(ChangeKind) or not column or (kind == "widen" and not data_type):
        unknown = UsageError(
            f"{text!r} is not a change that can be examined",
            code="usage.change",
            facts={"expected": "add=FEATURE, drop=FEATURE or widen=COLUMN:TYPE"},
        )
        parts = re.fullmatch(r"(\w+)[=:](.+)", text)
        near = None if parts is None else nearest_name(parts[1], list(ChangeKind))
        if parts is not None and near is not None and (near != ChangeKind.WIDEN or ":" in parts[2]):
            unknown.suggest_as_fact(text, f"{near}={parts[2]}")
        raise unknown
    return Supposed(ChangeKind(kind), column, data_type)


# -- clients, and what stops them --------------------------------------------------------------------------------------

LOG_PROBLEMS = "log.problems"
"""The code of the warning that the log has errors."""
_SWITCHES = {name: feature.enabled_by for name, feature in FEATURES.items() if feature.enabled_by}


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
        """Return whether the changes stop the client, also one whose access depends on the data now."""
        pairs = ((self.before.reads, self.access.reads), (self.before.writes, self.access.writes))
        return any(old is not False and new is False for old, new in pairs)

    def as_json(self) -> JsonObject:
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
@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What clients do with a table. `supposed` are changes that are not made. `gap`: why this is not about the newest
    version. Of a Paimon table: its traits, and `version` is that of its schema. `warnings`, as code and sentence, are
    about errors of the log, and about rows of a Paimon table that some clients do not see.
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
    warnings: tuple[tuple[str, str], ...] = ()

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
        content: dict[str, Json] = {
            "version": self.version,
            "protocol": self.config.protocol.as_json() if self.config.protocol else None,
            "features": self.features,
            "unknownFeatures": list(self.unknown_features),
            "supposed": [one.text for one in self.supposed],
            "clients": [one.as_json() for one in self.clients],
            "waysOut": [one.as_json() for one in self.ways_out],
        }
        if self.warnings:
            content["warnings"] = [{"code": code, "message": message} for code, message in self.warnings]
        return content


class _Ground(NamedTuple):
    """The table as it is or would be: its configuration, and its traits."""

    config: TableConfiguration
    raw_protocol: Action
    traits: frozenset[str]


def explain(table: TableHandle, request: ExplainRequest) -> Explanation:
    """Return which clients read and write the newest version, and what stops the others; where commits are missing, the
    newest version that can be rebuilt. Nothing is changed.

    Raises UsageError for a shared table and for features that are none, Refused for a change that cannot be made, and
    what `read_snapshot` and `require_partitions` raise; a reader feature that is not known is part of the result.
    """
    if is_shared_table(table.storage):
        raise UsageError(
            "explain does not work on shared tables: their provider decides what recipients read",
            hint=command("snapshot"),
        )
    log: list[State] | None = None
    snapshot: Snapshot | None = None
    gap: LogIncomplete | None = None
    try:
        snapshot, gap = read_newest_readable(table)
        require_partitions(snapshot.config, snapshot.version)
        version, traits = snapshot.version, find_version_traits(snapshot)
        config = replace(snapshot.config, raw_protocol=snapshot.raw_protocol, raw_metadata=snapshot.raw_metadata)
    except ProtocolUnsupported as fault:
        gap = fault.__context__ if isinstance(fault.__context__, LogIncomplete) else None
        log = list(states(table))
        if not log:
            raise
        version, config, traits = fault.version, log[-1].config, log[-1].traits
    now = _Ground(config, drop_null_fields(config.raw_protocol or {}), traits)
    after = now
    for change in request.supposed:
        after = _with(after, change, version)
    from deltacli.operations.log_damages import find_log_damages, with_damages

    damages = find_log_damages(table, now.traits)
    pairs = [
        tuple(with_damages(determine_access(client, ground.traits, named), damages.damages) for ground in (after, now))
        for client, named in asked_of(read_known_clients(), request)
    ]
    stopping = {blocker.trait for found, before in pairs for blocker in (*found.blockers, *before.blockers)}
    traits_that_stop = stopping & now.traits
    since = {damage.rule.id: damage.since for damage in damages.damages}
    if traits_that_stop:
        since |= beginnings(states(table) if log is None else log, traits_that_stop)
    rules = {damage.rule.id for damage in damages.damages}
    out: tuple[WayOut, ...] = ()
    if snapshot is not None:
        blockers = [one for _, before in pairs for one in before.blockers if one.trait not in rules]
        out = tuple(ways_out(snapshot, blockers))
    out += tuple(_repairs_of_log(table, damages, stopping & rules))
    warning = damages.warn(table.name or table.uri)
    warnings = ((LOG_PROBLEMS, warning),) if warning else ()
    clients = tuple(Explained(found, before, since) for found, before in pairs)
    unknown = tuple(sorted(config.features - FEATURES.keys()))
    return Explanation(
        table, version, after.config, clients, out, tuple(request.supposed), unknown, gap, warnings=warnings
    )


def _repairs_of_log(table: TableHandle, damages: LogDamages, stopping: Collection[str]) -> Iterator[WayOut]:
    """Yield a way out for each error of the log that stops a client."""
    from deltacli.operations.log_damages import find_repairs

    for repair in find_repairs(damages, stopping, table.name or table.uri):
        if repair.command is not None:
            yield WayOut(repair.rule, repair.command, (repair.words,), 0, 0)
        else:
            yield WayOut(repair.rule, None, (), 0, 0, repair.words)


def asked_of(known: Sequence[Client], request: ExplainRequest) -> list[tuple[Client, str | None]]:
    """Return the clients that are asked about, of those known of a format. Raises UsageError for others."""
    clients = {client.name: client for client in known}
    if not request.clients:
        return [(client, None) for client in known]
    for name, _ in request.named:
        if name not in clients:
            facts = {"known": ", ".join(clients)}
            told = f"no facts are known about {name} on tables of this format"
            raise UsageError(told, code="usage.client", facts=facts, hint=command("explain"))
    return [(clients[name], version) for name, version in request.named]


def _with(ground: _Ground, change: Supposed, version: int) -> _Ground:
    """Return the table as a change would leave it; a feature that is added counts as used."""
    match change.kind:
        case ChangeKind.ADD:
            plan = feature_changes.plan_features(ground.config, ground.raw_protocol, [change.name], unguarded=True)
            names = {one.name for one in plan.added} | {change.name}
            return _changed(ground, plan.protocol_after, {*names, *(f"{name}{USED_SUFFIX}" for name in names)})
        case ChangeKind.DROP:
            removal = feature_changes.require_droppable(ground.config, change.name)
            after = feature_changes.without_feature(
                ground.raw_protocol, change.name, protected=removal.protects_history
            )
            config = _of_protocol(ground.config, after)
            return _Ground(config, after, find_remaining_traits(ground.traits, ground.config, config))
        case ChangeKind.WIDEN:
            return _widened(ground, change, version)


def _widened(ground: _Ground, change: Supposed, version: int) -> _Ground:
    from deltacli.delta.schema.widening import plan_widening
    from deltacli.operations.change.widen_type import refusal_error

    metadata = ground.config.raw_metadata or {}
    pairs = [(change.name, change.data_type)]
    plan = plan_widening(ground.config, metadata, pairs, commit_version=version + 1, enable=True, upgrade_protocol=True)
    if plan.all_refusals:
        raise refusal_error(plan.all_refusals, preamble="")  # nothing is ever changed
    if plan.is_noop:
        return ground
    features = {*plan.added_features} or {one for one in ground.config.features if one.startswith("typeWidening")}
    traits = {*features, *(f"{name}{USED_SUFFIX}" for name in features), *(one.code for one in plan.warnings)}
    return _changed(
        ground,
        plan.protocol_after,
        traits & {*features, *(f"{one}{USED_SUFFIX}" for one in features), *TRAIT_DESCRIPTIONS},
    )


def _changed(ground: _Ground, protocol: Action | None, traits: set[str]) -> _Ground:
    """Return the table with another protocol (None: the same) and more traits."""
    if protocol is None:
        return ground._replace(traits=ground.traits | traits)
    config = _of_protocol(ground.config, protocol)
    kept = {one for one in ground.traits if one not in ground.config.features and not one.startswith("features.")}
    return _Ground(config, protocol, frozenset(find_table_traits(config) | kept | traits))


def _of_protocol(config: TableConfiguration, protocol: Action) -> TableConfiguration:
    return replace(config, protocol=read_protocol(protocol, "the protocol"), raw_protocol=protocol)


class State(NamedTuple):
    """The protocol and the metadata of a version, and its live domains. `is_first_known`: what it has may be older."""

    version: int
    config: TableConfiguration
    domains: tuple[str, ...]
    is_first_known: bool

    @property
    def traits(self) -> frozenset[str]:
        return find_table_traits(self.config, self.domains)


def states(table: TableHandle) -> Iterator[State]:
    """Yield the state of the first version from which the log is whole, and of each later one that changes it,
    ascending.

    Raises NotATable, StorageFailed, and what `read_snapshot` raises for the first version, except ProtocolUnsupported.
    """
    listing = list_log(table.storage, progress=table.progress)
    first = _first(listing)
    if first is None:
        return
    state = StateBuilder()
    if first > 0 or 0 not in listing.commits:
        try:
            snapshot = read_snapshot(table, version=first)
        except ProtocolUnsupported as fault:
            state.add_actions(fault.actions, f"version {first}")
        else:
            state.protocol, state.metadata = snapshot.protocol, snapshot.metadata
            state.raw_protocol, state.raw_metadata = snapshot.raw_protocol, snapshot.raw_metadata
            state.domains = {one.domain: one for one in snapshot.domains}
        yield _state(first, state, is_first_known=True)
        first += 1
    has_hole = False
    files = [listing.commits[version] for version in sorted(listing.commits) if version >= first]
    for version, actions in read_configuration_actions(table, files):
        if actions is None:
            has_hole = True
        elif actions:
            newer = StateBuilder()
            newer.add_actions(actions, f"commit {version}")
            newer.protocol = newer.protocol or state.protocol
            newer.metadata = newer.metadata or state.metadata
            newer.raw_protocol = newer.raw_protocol or state.raw_protocol
            newer.raw_metadata = newer.raw_metadata or state.raw_metadata
            newer.domains = {**state.domains, **newer.domains}
            state = newer
            yield _state(version, state, is_first_known=has_hole)
            has_hole = False


def _first(listing: LogListing) -> int | None:
    """Return the first version from which on every commit is there."""
    known = set(listing.reconstructable)
    if not known:
        return None
    version = max(known)
    while version in listing.commits and version - 1 in known:
        version -= 1
    return int(version)


def _state(version: int, state: StateBuilder, *, is_first_known: bool) -> State:
    schema = None
    if state.metadata is not None and state.metadata.schema_string is not None:
        try:
            schema = parse_schema(state.metadata.schema_string)
        except DeltacliError:
            schema = None
    config = TableConfiguration(state.protocol, state.metadata, schema, state.raw_protocol, state.raw_metadata)
    return State(version, config, tuple(one.domain for one in state.live_domains), is_first_known)


def beginnings(found: Iterable[State], traits: Iterable[str]) -> Mapping[str, int | None]:
    """Return for each trait the version since which the table has it without a break; None where the log begins later.

    `found` are the states of the log, ascending.
    """
    since: dict[str, int | None] = {}
    for state in found:
        since = {trait: since.get(trait, None if state.is_first_known else state.version) for trait in state.traits}
    return {trait: since.get(trait) for trait in traits}


@dataclass(frozen=True)
class WayOut:
    """How a table gets rid of a feature, or of what uses it: a command (None: none does), its steps, and the files that
    are rewritten (`files`, `size_bytes`; None: unknown). `why`: why no command does it.
    """

    feature: str
    command: str | None
    steps: tuple[str, ...]
    files: int | None
    size_bytes: int | None
    why: str | None = None

    def as_json(self) -> JsonObject:
        return {
            "feature": self.feature,
            "command": self.command,
            "steps": list(self.steps),
            "files": self.files,
            "sizeBytes": self.size_bytes,
            "why": self.why,
        }


def ways_out(snapshot: Snapshot, blockers: Collection[Blocker]) -> Iterator[WayOut]:
    """Yield a way out for each feature that stops a client, by name. Raises what counting the files raises."""
    counts: FileCounts | None = None
    by_feature: dict[str, list[Blocker]] = {}
    for one in blockers:
        if one.trait.startswith("features."):  # a list of features goes with the last of them
            continue
        by_feature.setdefault(one.feature, []).append(one)
    for feature, stopping in sorted(by_feature.items()):
        if counts is None:
            counts = _counts(snapshot)
        yield _way_out(snapshot, feature, [one.trait for one in stopping], counts)


def _counts(snapshot: Snapshot) -> FileCounts:
    """Return the number of live files, of those with vectors, and their bytes: as the checksum of the version states
    them where it has the protocol and the metadata of the log, else counted.
    """
    if snapshot.version in snapshot.listing.checksums:
        from deltacli.table.version_from_checksum import VersionFromChecksum, read_version_from_checksum

        stated = read_version_from_checksum(snapshot.table, version=snapshot.version)
        if isinstance(stated, VersionFromChecksum):
            found = stated.checksum
            is_whole = found.vectors is not None or feature_changes.VECTORS not in found.protocol.supported_features
            if is_whole and (found.protocol, found.metadata) == (snapshot.protocol, snapshot.metadata):
                return FileCounts(count=found.files, size_bytes=found.size_bytes, deletion_vectors=found.vectors or 0)
    return snapshot.counts()[0]


def _way_out(snapshot: Snapshot, feature: str, traits: list[str], counts: FileCounts) -> WayOut:
    switch = _SWITCHES.get(feature)
    if switch in snapshot.properties and all(trait == feature + USED_SUFFIX for trait in traits):
        return WayOut(feature, _named(snapshot, command("properties unset", switch)), (f"unset {switch}",), 0, 0)
    anew = ("write the rows into a new table without it",)
    if feature not in feature_changes.REMOVALS:
        return WayOut(feature, None, anew, counts.count, counts.size_bytes, _not_removable(feature))
    from deltacli.operations.change.drop_feature import plan_drop

    try:
        plan = plan_drop(snapshot.table, feature)
    except DeltacliError as fault:
        if fault.code == "features.required":  # it can be dropped after the other one
            return WayOut(feature, None, (), 0, 0, f"{fault.message}, which has to be dropped first")
        return WayOut(feature, None, anew, counts.count, counts.size_bytes, fault.message_without_outcome)
    files, size = _rewritten(snapshot, feature, counts)
    return WayOut(feature, _named(snapshot, command("features drop", feature)), tuple(plan.steps), files, size)


def _rewritten(snapshot: Snapshot, feature: str, counts: FileCounts) -> tuple[int | None, int | None]:
    """Return how many data files a drop rewrites, and their bytes; None where that is not known before."""
    files: int | None = 0
    size: int | None = 0
    if feature == feature_changes.VECTORS:
        files = counts.deletion_vectors
    elif feature == feature_changes.MAPPING:
        from deltacli.operations.change.remove_mapping import files_to_rename

        files, size = files_to_rename(snapshot) or (0, 0)
    elif feature_changes.REMOVALS[feature].rewrites_types(feature):
        files = None if feature_changes.widened_columns(snapshot.config) else 0
    return files, None if files is None or (files and not size) else size


def _named(snapshot: Snapshot, advice: str) -> str:
    """Return a command with the name of the table."""
    return advice.replace(TABLE_PLACEHOLDER, quote_table(snapshot.table.name or snapshot.table.uri))


def _not_removable(feature: str) -> str:
    if feature not in FEATURES:
        return "no command removes it"
    return f"the feature {feature} cannot be dropped from a protocol"
