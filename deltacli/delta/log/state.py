"""The small part of a state, as values: protocol, metadata, transactions, domains; and the configuration in effect at a
version, its protocol and its metadata together.

Spec: Actions; Action Reconciliation; Table Features; Column Mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.cached import cached_property
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.log.action_fields import missing, shown, wrong_type
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.protocol.property_values import InCommitKeys, in_commit_keys, is_true
from deltacli.delta.protocol.protocol_action import WRITER_FEATURES_VERSION, Protocol
from deltacli.delta.schema.names import physical_name
from deltacli.delta.schema.types import StructField, StructType

if TYPE_CHECKING:
    from deltacli.delta.log.log_path import Place


class Metadata(NamedTuple):
    """The metaData action of a version.

    `schema_string` is verbatim, None if the action has none (seen in practice).
    """

    id: str
    name: str | None
    description: str | None
    provider: str
    format_options: Mapping[str, str]
    schema_string: str | None
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int | None

    def as_json(self) -> dict[str, Any]:
        """Return the action as in the log, without absent values."""
        document: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "format": {"provider": self.provider, "options": dict(self.format_options)},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": self.created_time,
        }
        return {key: value for key, value in document.items() if value is not None}


class SetTransaction(NamedTuple):
    """The newest version that an application has committed. `last_updated` is epoch milliseconds."""

    app_id: str
    version: int
    last_updated: int | None = None


class DomainMetadata(NamedTuple):
    """A configuration that belongs to one named domain."""

    domain: str
    configuration: str


class StateBuilder:
    """Collects the small actions newest first: the first value of each is kept.

    Transactions are decided by commit, not by version; removed domains hide older ones.
    """

    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata | None] = {}
        self.raw_protocol: Action | None = None
        self.raw_metadata: Action | None = None
        "The two actions as found, with unrecognized fields."

    def take(self, actions: Iterable[tuple[str, Action]], source: str) -> None:
        """Add the small actions of one file.

        Within a file the last of a kind applies (the order there is undefined).
        """
        fresh = StateBuilder()
        for kind, action in actions:
            match kind:
                case "protocol":
                    fresh.protocol, fresh.raw_protocol = read_protocol(action, source), action
                case "metaData":
                    fresh.metadata, fresh.raw_metadata = read_metadata(action, source), action
                case "txn":
                    transaction = _read_transaction(action, source)
                    fresh.transactions[transaction.app_id] = transaction
                case "domainMetadata":
                    domain = _text(action, "domain", "domainMetadata", source)
                    removed = action.get("removed") is True
                    fresh.domains[domain] = (
                        None
                        if removed
                        else DomainMetadata(
                            domain, _as_text(action.get("configuration") or "", "domainMetadata.configuration", source)
                        )
                    )
        self.protocol = self.protocol or fresh.protocol
        self.metadata = self.metadata or fresh.metadata
        self.raw_protocol = self.raw_protocol or fresh.raw_protocol
        self.raw_metadata = self.raw_metadata or fresh.raw_metadata
        self.transactions = {**fresh.transactions, **self.transactions}
        self.domains = {**fresh.domains, **self.domains}

    @property
    def live_domains(self) -> tuple[DomainMetadata, ...]:
        """Return domains that are not removed, by name."""
        return tuple(domain for _, domain in sorted(self.domains.items()) if domain is not None)

    def described(self) -> Iterator[tuple[str, Action]]:
        """Yield the protocol, the metadata and the live domains as actions that `take` accepts."""
        for kind, action in (("protocol", self.raw_protocol), ("metaData", self.raw_metadata)):
            if action is not None:
                yield kind, plain_action(action)
        for one in self.live_domains:
            yield "domainMetadata", {"domain": one.domain, "configuration": one.configuration, "removed": False}

    @property
    def live_transactions(self) -> tuple[SetTransaction, ...]:
        """Return the newest transaction of every application, including expired ones, by application."""
        return tuple(transaction for _, transaction in sorted(self.transactions.items()))


def has_in_commit_timestamps(protocol: Protocol, metadata: Metadata) -> bool:
    """Return True if this version's commit time is `commitInfo.inCommitTimestamp`. Spec: In-Commit Timestamps."""
    return in_commit_keys(protocol.supported_features, metadata.configuration) is not None


def read_protocol(action: Action, source: str) -> Protocol:
    """Read a protocol action. Raises CommitCorrupt (`action.missing-required`, `action.wrong-type`)."""
    return Protocol(
        _number(action, "minReaderVersion", "protocol", source),
        _number(action, "minWriterVersion", "protocol", source),
        _features(action, "readerFeatures", source),
        _features(action, "writerFeatures", source),
    )


def read_metadata(action: Action, source: str) -> Metadata:
    """Read a metaData action. A missing schemaString is None. Raises CommitCorrupt."""
    form = _mapping(action.get("format"), "metaData.format", source)
    schema = action.get("schemaString")
    created = action.get("createdTime")
    if schema is not None and not isinstance(schema, str):
        raise wrong_type("metaData.schemaString", shown(schema), source)
    return Metadata(
        id=_as_text(action.get("id") or "", "metaData.id", source),
        name=_optional_text(action, "name", source),
        description=_optional_text(action, "description", source),
        provider=_as_text(form.get("provider") or "parquet", "metaData.format.provider", source),
        format_options=_strings(form.get("options"), "metaData.format.options", source),
        schema_string=schema,
        partition_columns=_texts(action.get("partitionColumns") or [], "metaData.partitionColumns", source),
        configuration=_strings(action.get("configuration"), "metaData.configuration", source),
        created_time=created if type(created) is int else None,
    )


def plain_action(action: Action) -> Action:
    """Return a protocol or metaData action as in a commit. In a checkpoint, absent fields are null, including those of
    a format.
    """
    plain = {key: value for key, value in action.items() if value is not None}
    if isinstance(plain.get("format"), dict):
        plain["format"] = {key: value for key, value in plain["format"].items() if value is not None}
    return plain


def plain_metadata(metadata: Action) -> Action:
    """Return a metaData action as in a commit. In a checkpoint, maps are lists of pairs, too."""
    action = plain_action(metadata)
    if "configuration" in action:
        action["configuration"] = _object(action["configuration"])
    if isinstance(action.get("format"), Mapping):
        action["format"] = {**action["format"], "options": _object(action["format"].get("options") or {})}
    return action


def _object(value: Json) -> Json:
    return dict(value) if isinstance(value, list | Mapping) else value


def _read_transaction(action: Action, source: str) -> SetTransaction:
    updated = action.get("lastUpdated")
    return SetTransaction(
        _text(action, "appId", "txn", source),
        _number(action, "version", "txn", source),
        updated if type(updated) is int else None,
    )


def _features(action: Action, field_name: str, source: str) -> tuple[str, ...] | None:
    names = action.get(field_name)
    if names is None:
        return None
    return tuple(sorted(_texts(names, f"protocol.{field_name}", source)))


def _number(action: Action, field_name: str, kind: str, source: str) -> int:
    value = action.get(field_name)
    if value is None:
        raise missing(f"{kind}.{field_name}", source)
    if type(value) is not int:
        raise wrong_type(f"{kind}.{field_name}", shown(value), source)
    return value


def _text(action: Action, field_name: str, kind: str, source: str) -> str:
    value = action.get(field_name)
    if value is None:
        raise missing(f"{kind}.{field_name}", source)
    if not isinstance(value, str):
        raise wrong_type(f"{kind}.{field_name}", shown(value), source)
    return value


def _optional_text(action: Action, field_name: str, source: str) -> str | None:
    value = action.get(field_name)
    return None if value is None else _as_text(value, f"metaData.{field_name}", source)


def _texts(value: object, what: str, source: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise wrong_type(what, shown(value), source)
    return tuple(_as_text(item, what, source) for item in value)


def _as_text(value: object, what: str, source: str) -> str:
    """Return a scalar as text, because some writers omit the quotes."""
    if isinstance(value, dict | list):
        raise wrong_type(what, shown(value), source)
    return str(value)


def _mapping(value: object, what: str, source: str) -> JsonObject:
    """Return a map of the log: an object in JSON, a list of pairs in Parquet, empty if absent."""
    if value is None:
        return {}
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if not isinstance(value, dict):
        raise wrong_type(what, shown(value), source)
    return value


def _strings(value: object, what: str, source: str) -> dict[str, str]:
    pairs = _mapping(value, what, source).items()
    return {str(key): "" if item is None else _as_text(item, what, source) for key, item in pairs}


@dataclass(frozen=True)
class TableConfiguration:
    """The protocol and the metadata in effect. Parts that could not be read are None; the raw actions are kept."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    schema: StructType | None = None
    raw_protocol: Action | None = None
    raw_metadata: Action | None = None
    protocol_place: Place | None = None
    metadata_place: Place | None = None
    protocol_version: int = -1
    "The version whose commit (or checkpoint) has the protocol, or -1."
    metadata_version: int = -1

    @cached_property
    def features(self) -> frozenset[str]:
        """Return every supported feature: listed, or implied by version numbers."""
        return self.protocol.supported_features if self.protocol else frozenset()

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """Return the table properties, empty without a metadata."""
        return self.metadata.configuration if self.metadata else {}

    def is_on(self, key: str) -> bool:
        """Return True if a boolean property is true (whether or not its feature is supported)."""
        return is_true(self.properties, key)

    def is_inert(self, feature: str) -> bool:
        """Return True if the protocol does not support a writer feature, so that its column metadata has no effect.

        Old writers left generated and identity columns in such tables. Spec: Generated Columns; Identity Columns.
        """
        if self.protocol is None or feature in self.features:
            return False
        needs_list = self.protocol.min_writer_version >= WRITER_FEATURES_VERSION
        return not (needs_list and self.protocol.writer_features is None)

    @cached_property
    def mapping_mode(self) -> str:
        """Return `delta.columnMapping.mode` if column mapping is supported, else `none`."""
        mode = str(self.properties.get("delta.columnMapping.mode") or "none").lower()
        return mode if "columnMapping" in self.features else "none"

    @cached_property
    def has_ict(self) -> bool:
        """Return True if in-commit timestamps are supported and on."""
        return self.in_commit_keys is not None

    @cached_property
    def in_commit_keys(self) -> InCommitKeys | None:
        """Return the properties used by in-commit timestamps, or None if they are not supported or not on."""
        return in_commit_keys(self.features, self.properties)

    @cached_property
    def columns(self) -> dict[str, StructField]:
        """Return top-level columns by their name in files and statistics (physical under mapping)."""
        fields = self.schema.fields if self.schema else ()
        return {self.physical_name(column): column for column in fields}

    def physical_name(self, column: StructField) -> str:
        """Return the name of a column or nested field in files, statistics and partition values."""
        return physical_name(column, self.mapping_mode)

    @cached_property
    def partition_columns(self) -> dict[str, StructField | None]:
        """Return partition columns by physical name, or None if the schema lacks one."""
        by_name = {column.name: column for column in (self.schema.fields if self.schema else ())}
        fields: dict[str, StructField | None] = {}
        for name in self.metadata.partition_columns if self.metadata else ():
            column = by_name.get(name)
            fields[self.physical_name(column) if column else name] = column
        return fields
