"""Table features as data. Spec: Valid Feature Names; the sections of each feature; `protocol_rfcs`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class FeatureKind(StrEnum):
    READER_WRITER = "reader and writer"
    WRITER = "writer"


class Legacy(NamedTuple):
    """The protocol versions that imply a feature without listing it."""

    writer: int
    reader: int = 1


class Obstacle(NamedTuple):
    """Why a feature cannot be added on its own, and the way out; `{stable}` is the stable name of the feature, and None
    means to add that one.
    """

    reason: str
    way_out: str | None


class Feature(NamedTuple):
    """One table feature.

    `is_writable`: deltacli commits to tables that have it; others are recognized by name only, because a result from
    the log alone would be wrong. `enabled_by`: the boolean property that activates it; `used_by`: the property that
    uses it by being set. `is_always_active`: it needs no property and no column. `requires`: features that must be
    supported with it, `excludes`: those that must not; a stable name stands for its preview too. `obstacle`: why it
    cannot be added by itself. `constrains_files`: as soon as it is active, it changes what files and commits must hold.
    """

    name: str
    kind: FeatureKind
    legacy: Legacy | None = None
    is_writable: bool = True
    enabled_by: str | None = None
    used_by: str | None = None
    is_always_active: bool = False
    requires: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    obstacle: Obstacle | None = None
    constrains_files: bool = False

    @property
    def is_readable(self) -> bool:
        """Return True if deltacli rebuilds versions that have it. Writer features have no requirements for readers."""
        return self.kind is FeatureKind.WRITER or self.is_writable


_RW, _W = FeatureKind.READER_WRITER, FeatureKind.WRITER
_OF_MANIFESTS = ("columnMapping", "rowTracking", "domainMetadata", "deletionVectors", "inCommitTimestamp")
_CATALOG = Obstacle(
    "the table would be managed by a catalog, but no catalog has it", "ask the catalog to take over the table"
)
_MANIFESTS = Obstacle(
    "the state of the table would have to move into a tree of manifests", "an engine that writes such tables"
)
_ELSEWHERE = Obstacle(
    "readers and writers would be redirected to another table, which only its engine can name", "that engine"
)
_OTHER_NAME = Obstacle("it is another name of {stable}", None)
_DROPPING = Obstacle("it is useful only once another feature is dropped", "drop a feature, which adds it")
_CLUSTERED = Obstacle(
    "a clustered table names its columns", "set the clustering columns with alter, which adds the feature"
)
_PAST_USE = Obstacle(
    "whether columns were dropped or renamed before would have to be known", "an engine that creates tables with it"
)
_ALIASES = {"timestampWithoutTimezone": "timestampNtz", "liquid": "clustering"}

FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", _W, Legacy(writer=2), enabled_by="delta.appendOnly"),
        Feature("invariants", _W, Legacy(writer=2)),
        Feature("checkConstraints", _W, Legacy(writer=3)),
        Feature("changeDataFeed", _W, Legacy(writer=4), enabled_by="delta.enableChangeDataFeed"),
        Feature("generatedColumns", _W, Legacy(writer=4)),
        Feature("columnMapping", _RW, Legacy(writer=5, reader=2), constrains_files=True),
        Feature("identityColumns", _W, Legacy(writer=6)),
        Feature("allowColumnDefaults", _W),
        Feature("deletionVectors", _RW, enabled_by="delta.enableDeletionVectors"),
        Feature(
            "rowTracking", _W, enabled_by="delta.enableRowTracking", requires=("domainMetadata",), constrains_files=True
        ),
        Feature("timestampNtz", _RW),
        Feature("timestampWithoutTimezone", _RW, obstacle=_OTHER_NAME),  # an alias that kernel-rs accepts
        Feature("domainMetadata", _W, is_always_active=True),
        Feature("v2Checkpoint", _RW),
        Feature("catalogManaged", _RW, is_always_active=True, obstacle=_CATALOG),
        Feature("catalogOwned-preview", _RW, is_always_active=True, obstacle=_CATALOG),
        Feature(
            "icebergCompatV1",
            _W,
            enabled_by="delta.enableIcebergCompatV1",
            requires=("columnMapping",),
            excludes=("deletionVectors",),
            constrains_files=True,
        ),
        Feature(
            "icebergCompatV2",
            _W,
            enabled_by="delta.enableIcebergCompatV2",
            requires=("columnMapping",),
            constrains_files=True,
        ),
        Feature(
            "icebergCompatV3",
            _W,
            enabled_by="delta.enableIcebergCompatV3",
            requires=("columnMapping", "rowTracking"),
            constrains_files=True,
        ),
        Feature(
            "icebergWriterCompatV1",
            _W,
            enabled_by="delta.enableIcebergWriterCompatV1",
            requires=("icebergCompatV2",),
            constrains_files=True,
        ),
        Feature(
            "icebergWriterCompatV3",
            _W,
            enabled_by="delta.enableIcebergWriterCompatV3",
            requires=("icebergCompatV3",),
            constrains_files=True,
        ),
        Feature("clustering", _W, requires=("domainMetadata",), obstacle=_CLUSTERED),
        Feature("liquid", _W, requires=("domainMetadata",), obstacle=_OTHER_NAME),  # an early name of clustering
        Feature("vacuumProtocolCheck", _RW, is_always_active=True),
        Feature("inCommitTimestamp", _W, enabled_by="delta.enableInCommitTimestamps", constrains_files=True),
        Feature(
            "inCommitTimestamp-preview", _W, enabled_by="delta.enableInCommitTimestamps-preview", obstacle=_OTHER_NAME
        ),
        Feature("typeWidening", _RW, enabled_by="delta.enableTypeWidening"),
        Feature("typeWidening-preview", _RW, enabled_by="delta.enableTypeWidening", obstacle=_OTHER_NAME),
        Feature("variantType", _RW),
        Feature("variantType-preview", _RW, obstacle=_OTHER_NAME),
        Feature("variantShredding", _RW, enabled_by="delta.enableVariantShredding", requires=("variantType",)),
        Feature(
            "variantShredding-preview",
            _RW,
            enabled_by="delta.enableVariantShredding",
            requires=("variantType",),
            obstacle=_OTHER_NAME,
        ),
        Feature("checkpointProtection", _W, obstacle=_DROPPING),
        Feature("materializePartitionColumns", _W, enabled_by="delta.enableMaterializePartitionColumnsFeature"),
        Feature("collations", _W, requires=("domainMetadata",)),
        Feature("collations-preview", _W, requires=("domainMetadata",), obstacle=_OTHER_NAME),
        Feature(
            "columnMappingUsageTracking",
            _W,
            requires=("columnMapping",),
            used_by="delta.columnMapping.hasDroppedOrRenamed",
            obstacle=_PAST_USE,
        ),
        Feature("geospatial", _RW),
        Feature("geospatial-dev", _RW, obstacle=_OTHER_NAME),
        Feature("timestampNanos", _RW, requires=("timestampNtz",)),
        Feature(
            "coordinatedCommits-preview",
            _W,
            requires=("inCommitTimestamp", "vacuumProtocolCheck"),
            used_by="delta.coordinatedCommits.commitCoordinator-preview",
            obstacle=_CATALOG,
        ),
        Feature("redirectWriterOnly-preview", _W, used_by="delta.redirectWriterOnly-preview", obstacle=_ELSEWHERE),
        # The state is in a tree of manifests (adaptiveMetadata) or in another table (redirect), so a result from
        # the log alone would be wrong.
        *(
            Feature(
                name,
                _RW,
                is_writable=False,
                requires=_OF_MANIFESTS,
                excludes=("v2Checkpoint",),
                is_always_active=True,
                obstacle=_MANIFESTS,
            )
            for name in ("adaptiveMetadata", "adaptiveMetadata-preview")
        ),
        Feature(
            "redirectReaderWriter-preview",
            _RW,
            is_writable=False,
            used_by="delta.redirectReaderWriter-preview",
            obstacle=_ELSEWHERE,
        ),
    )
}

OF_UNREAD_TYPES = frozenset({"geospatial", "geospatial-dev"})
"""Features whose types no value is read of."""
CATALOG_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})
"With one of these, newer commits may exist that only a catalog has. Spec: Catalog-managed tables."

TYPE_WIDENING, TYPE_WIDENING_PREVIEW = "typeWidening", "typeWidening-preview"
GENERATED_COLUMNS, IDENTITY_COLUMNS = "generatedColumns", "identityColumns"
NTZ_FEATURES = frozenset({"timestampNtz", "timestampWithoutTimezone"})
"""Names under which timestamps without a zone are supported."""


def stable_name(name: str) -> str:
    """Return the common name of a feature and its previews: `typeWidening` for `typeWidening-preview`."""
    name = _ALIASES.get(name, name)
    return name.removesuffix("-preview").removesuffix("-dev") if name in FEATURES else name
