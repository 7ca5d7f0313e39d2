"""Table features as data. Spec: Valid Feature Names; the sections of each feature; `protocol_rfcs`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class FeatureKind(StrEnum):
    READER_WRITER = "reader and writer"
    WRITER = "writer"


class Legacy(NamedTuple):
    """The protocol versions that imply a feature without naming it."""

    writer: int
    reader: int = 1


class Feature(NamedTuple):
    """One table feature.

    `replayable`: deltacli rebuilds states of tables that have it (a reader-writer feature it must know for that).
    `enabled_by`: the boolean property that activates it. `requires`: features that must be supported with it,
    `excludes`: those that must not; a stable name stands for its preview too.
    """

    name: str
    kind: FeatureKind
    legacy: Legacy | None = None
    replayable: bool = True
    enabled_by: str | None = None
    requires: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


_RW, _W = FeatureKind.READER_WRITER, FeatureKind.WRITER
_OF_MANIFESTS = ("columnMapping", "rowTracking", "domainMetadata", "deletionVectors", "inCommitTimestamp")
_ALIASES = {"timestampWithoutTimezone": "timestampNtz"}

FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", _W, Legacy(writer=2), enabled_by="delta.appendOnly"),
        Feature("invariants", _W, Legacy(writer=2)),
        Feature("checkConstraints", _W, Legacy(writer=3)),
        Feature("changeDataFeed", _W, Legacy(writer=4), enabled_by="delta.enableChangeDataFeed"),
        Feature("generatedColumns", _W, Legacy(writer=4)),
        Feature("columnMapping", _RW, Legacy(writer=5, reader=2)),
        Feature("identityColumns", _W, Legacy(writer=6)),
        Feature("allowColumnDefaults", _W),
        Feature("deletionVectors", _RW, enabled_by="delta.enableDeletionVectors"),
        Feature("rowTracking", _W, enabled_by="delta.enableRowTracking", requires=("domainMetadata",)),
        Feature("timestampNtz", _RW),
        Feature("timestampWithoutTimezone", _RW),  # an alias that kernel-rs accepts
        Feature("domainMetadata", _W),
        Feature("v2Checkpoint", _RW),
        Feature("catalogManaged", _RW),
        Feature("catalogOwned-preview", _RW),
        Feature(
            "icebergCompatV1",
            _W,
            enabled_by="delta.enableIcebergCompatV1",
            requires=("columnMapping",),
            excludes=("deletionVectors",),
        ),
        Feature("icebergCompatV2", _W, enabled_by="delta.enableIcebergCompatV2", requires=("columnMapping",)),
        Feature(
            "icebergCompatV3", _W, enabled_by="delta.enableIcebergCompatV3", requires=("columnMapping", "rowTracking")
        ),
        Feature(
            "icebergWriterCompatV1", _W, enabled_by="delta.enableIcebergWriterCompatV1", requires=("icebergCompatV2",)
        ),
        Feature(
            "icebergWriterCompatV3", _W, enabled_by="delta.enableIcebergWriterCompatV3", requires=("icebergCompatV3",)
        ),
        Feature("clustering", _W, requires=("domainMetadata",)),
        Feature("vacuumProtocolCheck", _RW),
        Feature("inCommitTimestamp", _W, enabled_by="delta.enableInCommitTimestamps"),
        Feature("inCommitTimestamp-preview", _W, enabled_by="delta.enableInCommitTimestamps-preview"),
        Feature("typeWidening", _RW, enabled_by="delta.enableTypeWidening"),
        Feature("typeWidening-preview", _RW, enabled_by="delta.enableTypeWidening"),
        Feature("variantType", _RW),
        Feature("variantType-preview", _RW),
        Feature("variantShredding", _RW, enabled_by="delta.enableVariantShredding", requires=("variantType",)),
        Feature("variantShredding-preview", _RW, enabled_by="delta.enableVariantShredding", requires=("variantType",)),
        Feature("checkpointProtection", _W),
        Feature("materializePartitionColumns", _W, enabled_by="delta.enableMaterializePartitionColumnsFeature"),
        Feature("collations", _W, requires=("domainMetadata",)),
        Feature("collations-preview", _W, requires=("domainMetadata",)),
        Feature("columnMappingUsageTracking", _W, requires=("columnMapping",)),
        Feature("geospatial", _RW),
        Feature("geospatial-dev", _RW),
        Feature("timestampNanos", _RW, requires=("timestampNtz",)),
        Feature("coordinatedCommits-preview", _W, requires=("inCommitTimestamp", "vacuumProtocolCheck")),
        Feature("redirectWriterOnly-preview", _W),
        # The state lives in a tree of manifests (adaptiveMetadata) or in another table (redirect): the log alone
        # would be a wrong answer.
        Feature("adaptiveMetadata", _RW, replayable=False, requires=_OF_MANIFESTS, excludes=("v2Checkpoint",)),
        Feature("adaptiveMetadata-preview", _RW, replayable=False, requires=_OF_MANIFESTS, excludes=("v2Checkpoint",)),
        Feature("redirectReaderWriter-preview", _RW, replayable=False),
    )
}

CATALOG_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})
"""With one of these, newer commits may exist that only a catalog knows. Spec: Catalog-managed tables."""

TYPE_WIDENING, TYPE_WIDENING_PREVIEW = "typeWidening", "typeWidening-preview"
GENERATED_COLUMNS, IDENTITY_COLUMNS = "generatedColumns", "identityColumns"
NTZ_FEATURES = frozenset({"timestampNtz", "timestampWithoutTimezone"})
"""Names under which timestamps without a zone are supported."""


def stable_name(name: str) -> str:
    """The name under which a feature and its previews are one: `typeWidening` for `typeWidening-preview`."""
    name = _ALIASES.get(name, name)
    return name.removesuffix("-preview").removesuffix("-dev") if name in FEATURES else name
