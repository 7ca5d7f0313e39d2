"""Changes of metadata as actions of the request that proposes a commit, and which changes a catalog cannot take.

Where log and catalog differ, the log is correct, and nothing repairs the catalog. So the request of a commit has each
change of protocol, metadata and domains that its staged file has.

Spec: Catalog-managed tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import NOTHING_CHANGED, Refused, command
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION
from deltacli.delta.protocol.features import Protocol

if TYPE_CHECKING:
    from deltacli.catalogs.base import CatalogTable
    from deltacli.delta.log.commit_content import CommitRequest, PreviousVersion

MANAGED, PREVIEW = "catalogManaged", "catalogOwned-preview"
_ADDED_BY_CATALOGS = (MANAGED, PREVIEW, "coordinatedCommits-preview")
CLUSTERING, ROW_TRACKING = "delta.clustering", "delta.rowTracking"
REQUIRED = (MANAGED, "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck")
"""The features that tables have as long as the catalog manages them."""
_IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
CONTRACT: Mapping[str, str] = {
    "delta.checkpointPolicy": "v2",
    "delta.enableDeletionVectors": "true",
    _IN_COMMIT_TIMESTAMPS: "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}
"""Properties that Unity Catalog requires of a managed table. It compares them at creation and whenever a commit changes
the protocol, and not when a commit changes the properties."""
TABLE_IDS = ("io.unitycatalog.tableId", "ucTableId")
_SETTLED = (_IN_COMMIT_TIMESTAMPS, ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP, *TABLE_IDS)
"""Properties that cannot be changed as long as the catalog manages the table."""
_UNIFORM = "delta.universalFormat.enabledFormats"
_SYNTHETIC = (
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.clusteringColumns",
    "clusteringColumns",
    "delta.rowTracking.rowIdHighWaterMark",
    "delta.lastUpdateVersion",
    "delta.lastCommitTimestamp",
)
WIRE_KEYS = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}
"""Keys of nested types in the log -> in requests and answers of catalogs."""


def unmet_contract(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the contract, with the values it requires, that a table has otherwise or not at all."""
    return {key: value for key, value in CONTRACT.items() if properties.get(key, "").lower() != value}


def is_synthetic(key: str) -> bool:
    """Return whether a catalog adds a property to its answers that is not in the configuration of the table."""
    return key in _SYNTHETIC or key.startswith("delta.feature.")


def named_table(properties: Mapping[str, str]) -> str | None:
    """Return the id of the table in its catalog that the properties of a log name."""
    return next((properties[key] for key in TABLE_IDS if properties.get(key)), None)


def on_the_wire(data_type: Json) -> Json:
    """Return a type of a schema with the keys that catalogs use. Metadata of fields is unchanged."""
    if not isinstance(data_type, Mapping):
        return data_type
    return {
        WIRE_KEYS.get(key, key): value
        if key == "metadata"
        else [on_the_wire(one) for one in value]
        if isinstance(value, list)
        else on_the_wire(value)
        for key, value in data_type.items()
    }


def require_takes_commits(table: CatalogTable) -> None:
    """Raise Refused for a table whose versions a catalog decides that takes no commits of clients."""
    if table.is_managed and not table.takes_commits:
        raise Refused(
            "the catalog of the table is too old to take commits, so it can only be read",
            preamble=NOTHING_CHANGED,
            code="catalog.read-only",
            facts={"needed": "Unity Catalog 0.5 or newer, with /delta/v1"},
        )


def named_other_table(properties: Mapping[str, str], uuid: str) -> str | None:
    """Return the id of another table that the properties of a log name.

    Args:
        properties: The properties of a version.
        uuid: The id of the table in the catalog.

    Returns:
        None if the properties name this table, or none: versions from before a catalog managed the table do not.
    """
    named = named_table(properties)
    return None if named == uuid else named


def require_no_other_table(properties: Mapping[str, str], version: int, uuid: str) -> None:
    """Raise Refused where the properties of a version name another table than that with this id in the catalog.

    Then the catalog and the log are about different tables, for example because a table was created anew under the
    name. What is written into the log by the word of the catalog would damage the table that is there.
    """
    named = named_other_table(properties, uuid)
    if named is not None:
        raise _other_table(f"is of table {named}", version, named, uuid)


def _other_table(what: str, version: int, named: str, uuid: str) -> Refused:
    return Refused(
        f"version {version} {what}, and the name in the catalog is that of table {uuid}",
        preamble=NOTHING_CHANGED,
        code="catalog.diverged",
        facts={"property": TABLE_IDS[0], "log": named, "catalog": uuid},
        hint=command("catalog status"),
    )


def require_managed(protocol: Protocol, properties: Mapping[str, str], version: int, uuid: str) -> None:
    """Raise Refused unless a version is of the table with this id in the catalog, and has what its commits require."""
    needed = {*(protocol.reader_features or ())} & {*(protocol.writer_features or ())}
    if MANAGED not in needed:
        instead = f"has the feature {PREVIEW} instead of" if PREVIEW in needed else "does not have the feature"
        raise Refused(
            f"version {version} {instead} {MANAGED}, which commits through a catalog require",
            preamble=NOTHING_CHANGED,
            code="catalog.managed",
            facts={"writerFeatures": ", ".join(protocol.writer_features or ())},
            hint=command("catalog status"),
        )
    require_no_other_table(properties, version, uuid)
    if named_table(properties) is None:
        raise _other_table("does not name its table", version, "none", uuid)
    if properties.get(_IN_COMMIT_TIMESTAMPS) != "true" or "inCommitTimestamp" not in (protocol.writer_features or ()):
        raise _refused(
            f"version {version} has no in-commit timestamps, which the catalog requires", "catalog.ict-missing"
        )


def require_ratifiable_content(request: CommitRequest, base: PreviousVersion, *, has_uniform: bool) -> None:
    """Raise Refused for a commit with a change of metadata that the request to the catalog cannot have."""
    actions: list[tuple[str, Action]] = []
    if request.protocol is not None:
        actions.append(("protocol", request.protocol))
    if request.metadata is not None:
        actions.append(("metaData", request.metadata))
    actions += [("domainMetadata", action) for action in request.domains]
    updates_of(actions, base, has_uniform=has_uniform)


def updates_of(
    actions: Iterable[tuple[str, Action]], base: PreviousVersion, *, has_uniform: bool
) -> tuple[JsonObject, ...]:
    """Return the actions of a request for what a commit changes in protocol, metadata and domains. Raises Refused."""
    before = base.metadata.configuration
    if has_uniform or "iceberg" in before.get(_UNIFORM, "").lower():
        raise _refused(
            "each commit to the table must also write its Iceberg metadata, which deltacli does not", "catalog.uniform"
        )
    updates: list[JsonObject] = []
    domains: dict[str, JsonObject] = {}
    removed: list[str] = []
    for kind, action in actions:
        if kind == "protocol":
            updates.append(_protocol(action, base.protocol))
        elif kind == "metaData":
            updates += _metadata(action, base)
        elif kind == "domainMetadata":
            name = str(action.get("domain"))
            if name not in (CLUSTERING, ROW_TRACKING):
                raise _refused(
                    f"the change writes the metadata domain {name}, which the catalog does not accept", "catalog.domain"
                )
            if action.get("removed") is True:
                removed.append(name)
            else:
                domains[name] = _domain(name, action)
    if domains:
        updates.append({"action": "set-domain-metadata", "updates": domains})
    if removed:
        updates.append({"action": "remove-domain-metadata", "domains": removed})
    return tuple(updates)


def _protocol(action: Action, before: Protocol) -> JsonObject:
    reader, writer = (list(action.get(name) or ()) for name in ("readerFeatures", "writerFeatures"))
    for name in REQUIRED:
        if name in before.supported_features and name not in (*reader, *writer):
            raise _refused(
                f"the feature {name} cannot be dropped as long as a catalog manages the table", "catalog.feature"
            )
    for name in _ADDED_BY_CATALOGS:
        if name not in before.supported_features and name in (*reader, *writer):
            raise _refused(f"the feature {name} cannot be added by a client", "catalog.feature")
    return {
        "action": "set-protocol",
        "protocol": {
            "min-reader-version": action.get("minReaderVersion"),
            "min-writer-version": action.get("minWriterVersion"),
            "reader-features": reader,
            "writer-features": writer,
        },
    }


def _metadata(action: Action, base: PreviousVersion) -> Iterator[JsonObject]:
    old = base.metadata
    was: Mapping[str, Any] = old.as_json()
    new: Mapping[str, str] = action.get("configuration") or {}
    changed = {key for key in {*new, *old.configuration} if new.get(key) != old.configuration.get(key)}
    if settled := sorted(changed & {*_SETTLED}):
        raise _refused(f"{settled[0]} cannot be changed as long as a catalog manages the table", "catalog.property")
    if "iceberg" in str(new.get(_UNIFORM, "")).lower():
        raise _refused(
            f"{_UNIFORM} with iceberg requires Iceberg metadata, which deltacli does not write", "catalog.uniform"
        )
    made_up = sorted(key for key in changed if is_synthetic(key))
    if made_up and any(key in new for key in made_up):
        raise _refused(f"{made_up[0]} is set by the catalog and cannot be a property in the log", "catalog.property")
    if action.get("schemaString") != was.get("schemaString"):
        yield {"action": "set-columns", "columns": on_the_wire(json.loads(action.get("schemaString") or "{}"))}
    if list(action.get("partitionColumns") or ()) != list(was.get("partitionColumns") or ()):
        yield {"action": "set-partition-columns", "partition-columns": list(action.get("partitionColumns") or ())}
    if given := {key: new[key] for key in sorted(changed) if key in new}:
        yield {"action": "set-properties", "updates": given}
    if gone := sorted(key for key in changed if key not in new and not is_synthetic(key)):
        yield {"action": "remove-properties", "removals": gone}
    if (action.get("description") or "") != (was.get("description") or ""):
        yield {"action": "set-table-comment", "comment": action.get("description") or ""}


def _domain(name: str, action: Action) -> JsonObject:
    key = "clusteringColumns" if name == CLUSTERING else "rowIdHighWaterMark"
    try:
        content = json.loads(action.get("configuration") or "")
        return {key: content[key]}
    except (ValueError, KeyError, TypeError):
        raise _refused(
            f"the metadata domain {name} has no {key}, which the catalog requires", "catalog.domain"
        ) from None


def _refused(message: str, code: str) -> Refused:
    return Refused(message, preamble=NOTHING_CHANGED, code=code, hint=command("catalog status"))
