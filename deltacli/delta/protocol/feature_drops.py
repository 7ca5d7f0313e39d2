"""Dropping a feature from a protocol: which can go, what must be gone before, and the protocol without it.

Spec: Table Features; Checkpoint Protection; Delta-Spark: ALTER TABLE … DROP FEATURE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.core.errors import Refused, UsageError
from deltacli.core.hints import command, nearest_name
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.row_ids import ENABLED, MATERIALIZED_NAMES, SUSPENDED
from deltacli.delta.log.state import TableConfiguration, read_protocol
from deltacli.delta.protocol.feature_use import constraint_uses, schema_uses
from deltacli.delta.protocol.features import CATALOG_FEATURES, FEATURES, FeatureKind, stable_name
from deltacli.delta.protocol.known_properties import kind_of
from deltacli.delta.protocol.property_values import CHECKPOINT_PROTECTION
from deltacli.delta.protocol.protocol_action import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY, named_fields
from deltacli.delta.schema.types import StructType

PROTECTION = "checkpointProtection"
MAPPING = "columnMapping"
ROW_IDS = "rowTracking"
VECTORS = "deletionVectors"
WIDENINGS = ("typeWidening", "typeWidening-preview")


class Removal(NamedTuple):
    """How a feature is dropped. `protects_history`: older versions need it, and readers that no longer look for it must
    not read them; so new checkpoints are written before the drop, and old ones are protected after it. `unset`:
    properties that are removed before, `forget`: those removed with the feature.
    """

    protects_history: bool = False
    unset: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()

    def rewrites_types(self, name: str) -> bool:
        """Return True if files with older types of widened columns have to be rewritten first."""
        return name in WIDENINGS and self.protects_history


REMOVALS: Mapping[str, Removal] = {
    "checkConstraints": Removal(),
    MAPPING: Removal(protects_history=True),
    "columnMappingUsageTracking": Removal(forget=("delta.columnMapping.hasDroppedOrRenamed",)),
    VECTORS: Removal(protects_history=True, unset=("delta.enableDeletionVectors",)),
    "v2Checkpoint": Removal(protects_history=True, unset=("delta.checkpointPolicy",)),
    "typeWidening": Removal(protects_history=True, unset=("delta.enableTypeWidening",)),
    "typeWidening-preview": Removal(protects_history=True, unset=("delta.enableTypeWidening",)),
    "vacuumProtocolCheck": Removal(protects_history=True),
    "inCommitTimestamp": Removal(unset=("delta.enableInCommitTimestamps",)),
    ROW_IDS: Removal(forget=(ENABLED, SUSPENDED, *MATERIALIZED_NAMES)),
    "domainMetadata": Removal(),
    "geospatial": Removal(protects_history=True),
    "geospatial-dev": Removal(protects_history=True),
    PROTECTION: Removal(protects_history=True, forget=(CHECKPOINT_PROTECTION,)),
    "materializePartitionColumns": Removal(forget=("delta.enableMaterializePartitionColumnsFeature",)),
}
"""The features that can be dropped. What Delta-Spark never removes is not here, nor what needs a catalog."""


def require_droppable(config: TableConfiguration, name: str) -> Removal:
    """Return how a feature of a table is dropped.

    Raises UsageError (`usage.feature`) for a name that is none, and Refused for a feature that the table does not have,
    that others need, that only other engines know, or that cannot be dropped.
    """
    if name not in FEATURES and name in config.features:
        raise Refused(
            f"the table lists the feature {name}, which deltacli does not know: it cannot tell what needs the feature, "
            "so it does not drop it",
            code="features.unknown",
            hint="drop it with the engine that added it, or write the rows to a new table without it",
        )
    if name not in FEATURES:
        what = f"{name} is a property, not a feature" if kind_of(name) else f"there is no feature {name!r}"
        near = nearest_name(name, config.features, ignores_case=True)
        raise UsageError(what, code="usage.feature", hint=command("features")).asking(name, near)
    if name not in config.features:
        raise Refused(
            f"the table does not support the feature {name}",
            code="features.not-present",
            facts={"features": ", ".join(sorted(config.features)) or "none"},
            hint=command("features"),
        )
    removal = REMOVALS.get(name)
    if removal is None:
        raise Refused(
            f"the feature {name} cannot be dropped: {_why_kept(name)}",
            code="features.not-removable",
            facts={"removable": ", ".join(removable(config)) or "none of this table"},
            hint=command("features"),
        )
    if kept := _kept_by(config, name):
        raise Refused(
            f"the feature {name} cannot be dropped: {', '.join(kept)} requires it, and cannot be dropped",
            code="features.required",
        )
    if users := _users_of(config, name):
        raise Refused(
            f"the feature {name} cannot be dropped: {', '.join(users)} requires it",
            code="features.required",
            hint=command("features drop", users[0]),
        )
    return removal


def _users_of(config: TableConfiguration, name: str) -> list[str]:
    """Return the features of a table that require one."""
    return sorted(user for user in config.features if user in FEATURES and stable_name(name) in FEATURES[user].requires)


def removable(config: TableConfiguration) -> list[str]:
    """Return the features of a table that can be dropped, one after the other."""
    return sorted(one for one in config.features & REMOVALS.keys() if not _kept_by(config, one))


def _kept_by(config: TableConfiguration, name: str) -> list[str]:
    """Return the features that require one and cannot be dropped."""
    return [user for user in _users_of(config, name) if user not in REMOVALS]


def _why_kept(name: str) -> str:
    if name in CATALOG_FEATURES:
        return "the catalog has commits that the table does not have, and only it can hand them over"
    if name.startswith("redirect"):
        return "only the engine that redirects the table knows when it ends"
    return "no engine removes it, because rows and versions that were written with it may need it"


def uses_left(config: TableConfiguration, name: str, domains: Sequence[str]) -> Iterator[str]:
    """Yield what in the metadata still uses a feature and is not removed with it."""
    schema = config.schema or StructType(())
    match name:
        case "checkConstraints":
            for use in constraint_uses(config.properties):
                yield f"the constraint {use.key.partition('.')[2].partition('.')[2]}"
        case "geospatial" | "geospatial-dev":
            for use in schema_uses(schema):
                if use.feature == "geospatial":
                    yield use.what
        case "domainMetadata":
            for domain in domains:
                yield f"the domain {domain}"


def widened_columns(config: TableConfiguration) -> list[str]:
    """Return the columns whose types were changed, so that files can have older ones."""
    schema = config.schema or StructType(())
    return [one.path for one in named_fields(schema) if TYPE_CHANGES_KEY in one.field.metadata]


def without_feature(raw_protocol: Action, name: str, *, protected: bool) -> Action:
    """Return the protocol without a feature: as a pair of versions if one implies just the others, else as lists.
    `protected` adds checkpoint protection.
    """
    protocol = read_protocol(raw_protocol, "the protocol")
    listed = [
        *(str(one) for one in raw_protocol.get("writerFeatures") or ()),
        *(one for one in FEATURES if one in protocol.supported_features),
        *(str(one) for one in raw_protocol.get("readerFeatures") or ()),
    ]
    kept = [one for one in dict.fromkeys(listed) if one != name] + ([PROTECTION] if protected else [])
    of_readers = [one for one in kept if _concerns_readers(one, raw_protocol)]
    others = {key: value for key, value in raw_protocol.items() if key not in ("readerFeatures", "writerFeatures")}
    for writer in range(1, WRITER_FEATURES_VERSION):
        implied = {one.name for one in FEATURES.values() if one.legacy and one.legacy.writer <= writer}
        # deltalake 1.6.6 reads tables with column mapping wrong where only the versions imply it.
        if implied == set(kept) and not of_readers:
            return {**others, "minReaderVersion": 1, "minWriterVersion": writer}
    lists: Action = {"writerFeatures": list(dict.fromkeys(kept))}
    if of_readers:
        lists["readerFeatures"] = of_readers
    reader = READER_FEATURES_VERSION if of_readers else 1
    return {**others, "minReaderVersion": reader, "minWriterVersion": WRITER_FEATURES_VERSION, **lists}


def _concerns_readers(name: str, raw_protocol: Action) -> bool:
    feature = FEATURES.get(name)
    if feature is None:
        return name in (raw_protocol.get("readerFeatures") or ())
    return feature.kind is FeatureKind.READER_WRITER


def properties_of_drop(
    configuration: Mapping[str, str], removal: Removal, version: int, *, protected: bool
) -> dict[str, str]:
    """Return the properties of the version that drops a feature."""
    kept = {key: value for key, value in configuration.items() if key not in removal.forget}
    return kept | ({CHECKPOINT_PROTECTION: str(version)} if protected else {})
