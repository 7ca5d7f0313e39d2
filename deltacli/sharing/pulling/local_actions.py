"""The actions of the local table: protocol, metadata and files as a table of its own can have them.

A pulled table has whole data files of the shared one, but neither its log nor its catalog, row ids or change feed.
Features that depend on those are left out. Spec: Table Features; Add File and Remove File.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.feature_use import constraint_uses, property_uses, schema_uses
from deltacli.delta.protocol.features import FEATURES, stable_name
from deltacli.delta.protocol.protocol_action import WRITER_FEATURES_VERSION
from deltacli.delta.protocol.upgrade import upgraded
from deltacli.delta.schema.types import NO_COLUMNS, parse_schema
from deltacli.delta.vectors import unique_id

if TYPE_CHECKING:
    import pyarrow

APP_ID = "deltacli.share.pull"
"""The transaction whose version is the version of the shared table."""
TAG = "deltacli.share"
"""The tag of files that were pulled; its value is the id of the shared table."""
ENDPOINT, TABLE = "deltacli.share.endpoint", "deltacli.share.table"
"""Properties that name where the table is pulled from."""

_KEPT_FEATURES = frozenset(
    {
        *(
            "columnMapping",
            "deletionVectors",
            "timestampNtz",
            "timestampWithoutTimezone",
            "geospatial",
            "geospatial-dev",
        ),
        *("typeWidening", "typeWidening-preview", "variantType", "variantType-preview", "timestampNanos"),
        *("variantShredding", "variantShredding-preview", "invariants", "checkConstraints", "generatedColumns"),
        *("identityColumns", "allowColumnDefaults", "collations", "collations-preview"),
    }
)
_KEPT_PROPERTIES = frozenset(
    {
        "delta.columnMapping.mode",
        "delta.columnMapping.maxColumnId",
        "delta.enableDeletionVectors",
        "delta.enableTypeWidening",
        "delta.enableVariantShredding",
    }
)
_LEAST_PROTOCOL: Action = {"minReaderVersion": 1, "minWriterVersion": 2}
_CONSTRAINT = "delta.constraints."
_NAMES = uuid.UUID("b0c1a7b8-6f53-4d0c-9a51-0d8f3c1f7e22")


@dataclass(frozen=True, slots=True)
class PullSource:
    """Where a table is pulled from. `table_id` is that of its metadata."""

    endpoint: str
    table: str
    table_id: str

    @property
    def facts(self) -> dict[str, str]:
        """Return it for people, commits and the record of an unfinished pull."""
        return {"table": self.table, "endpoint": self.endpoint, "tableId": self.table_id}

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties that record it."""
        return {ENDPOINT: self.endpoint, TABLE: self.table}


def table_id_of(metadata: Action, endpoint: str, table: str) -> str:
    """Return the id of a shared table; for a server that sends none, one made of the address."""
    found = metadata.get("id")
    return found if isinstance(found, str) and found else str(uuid.uuid5(_NAMES, f"{endpoint} {table}"))


def local_protocol(remote: Action, metadata: Action, before: Action | None) -> Action | None:
    """Return the protocol that a local table needs for the metadata; None where it has it already."""
    wanted = _of_versions(remote)
    schema = parse_schema(metadata.get("schemaString") or NO_COLUMNS)
    properties = metadata["configuration"]
    uses = [*schema_uses(schema), *property_uses(properties), *constraint_uses(properties)]
    known = {stable_name(name) for name in read_protocol(wanted, "the shared table").supported_features}
    wanted = upgraded(wanted, _with_required({use.feature for use in uses} - known)) or wanted
    if before is None:
        return wanted
    needed = read_protocol(wanted, "the shared table").supported_features
    lacking = needed - read_protocol(before, "the local table").supported_features
    return upgraded(before, sorted(lacking))


def _of_versions(remote: Action) -> Action:
    """Return the protocol with the features that concern data files and columns."""
    protocol = read_protocol(remote, "the shared table")
    if protocol.min_writer_version < WRITER_FEATURES_VERSION:
        return {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    kept = _with_required(protocol.supported_features & _KEPT_FEATURES & FEATURES.keys())
    return upgraded(_LEAST_PROTOCOL, kept) or _LEAST_PROTOCOL


def _with_required(names: Iterable[str]) -> list[str]:
    found = set(names)
    return sorted(found | {other for name in found for other in FEATURES[name].requires})


def local_metadata(remote: Action, source: PullSource, before: Action | None, now_ms: int) -> Action:
    """Return the metadata of a local table. Properties that were set on the local table stay."""
    given = {str(key): str(value) for key, value in (remote.get("configuration") or {}).items()}
    own = {} if before is None else before.get("configuration") or {}
    configuration = {key: value for key, value in own.items() if _is_own(key)}
    configuration |= {key: value for key, value in given.items() if _is_kept(key)}
    action = {key: value for key, value in remote.items() if key not in ("version", "size", "numFiles", "location")}
    created = remote.get("createdTime") if before is None else before.get("createdTime")
    return action | {
        "id": source.table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": remote.get("schemaString") or NO_COLUMNS,
        "partitionColumns": remote.get("partitionColumns") or [],
        "configuration": dict(sorted((configuration | source.properties).items())),
        "createdTime": now_ms if created is None else created,
    }


def _is_kept(key: str) -> bool:
    """Return True for a property of the shared table that is one of its data, or of its users."""
    return key in _KEPT_PROPERTIES or key.startswith(_CONSTRAINT) or not key.lower().startswith("delta")


def _is_own(key: str) -> bool:
    """Return True for a property that only the local table can have set."""
    return key.lower().startswith("delta.") and not _is_kept(key)


def key_of(add: Mapping[str, Any]) -> str:
    """Return the identity of a logical file: its path and its deletion vector."""
    return f"{add['path']} {unique_id(add.get('deletionVector'))}"


def adds_of(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield live files as dictionaries, without absent fields."""
    for batch in batches:
        for row in batch.to_pylist():
            add = {name: value for name, value in row.items() if value is not None}
            for name in ("partitionValues", "tags"):
                add[name] = dict(add.get(name) or ())
            if (vector := add.get("deletionVector")) is not None:
                add["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
            yield add


def add_line(add: Mapping[str, Any], source: PullSource, now_ms: int) -> Action:
    """Return the add of a pulled file."""
    action: Action = {
        "path": add["path"],
        "partitionValues": add["partitionValues"],
        "size": add["size"],
        "modificationTime": add.get("modificationTime") or now_ms,
        "dataChange": True,
    }
    optional = {name: add[name] for name in ("stats", "deletionVector") if name in add}
    return {"add": action | optional | {"tags": {TAG: source.table_id}}}


def remove_line(add: Mapping[str, Any], now_ms: int) -> Action:
    """Return the tombstone of a file."""
    action: Action = {
        "path": add["path"],
        "deletionTimestamp": now_ms,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": add["partitionValues"],
        "size": add["size"],
    }
    optional = {name: add[name] for name in ("deletionVector", "tags") if add.get(name)}
    return {"remove": action | optional}
