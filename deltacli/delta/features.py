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
    """

    name: str
    kind: FeatureKind
    legacy: Legacy | None = None
    replayable: bool = True


_RW, _W = FeatureKind.READER_WRITER, FeatureKind.WRITER

FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", _W, Legacy(writer=2)),
        Feature("invariants", _W, Legacy(writer=2)),
        Feature("checkConstraints", _W, Legacy(writer=3)),
        Feature("changeDataFeed", _W, Legacy(writer=4)),
        Feature("generatedColumns", _W, Legacy(writer=4)),
        Feature("columnMapping", _RW, Legacy(writer=5, reader=2)),
        Feature("identityColumns", _W, Legacy(writer=6)),
        Feature("allowColumnDefaults", _W),
        Feature("deletionVectors", _RW),
        Feature("rowTracking", _W),
        Feature("timestampNtz", _RW),
        Feature("timestampWithoutTimezone", _RW),  # an alias that kernel-rs accepts
        Feature("domainMetadata", _W),
        Feature("v2Checkpoint", _RW),
        Feature("catalogManaged", _RW),
        Feature("catalogOwned-preview", _RW),
        Feature("icebergCompatV1", _W),
        Feature("icebergCompatV2", _W),
        Feature("icebergCompatV3", _W),
        Feature("icebergWriterCompatV1", _W),
        Feature("icebergWriterCompatV3", _W),
        Feature("clustering", _W),
        Feature("vacuumProtocolCheck", _RW),
        Feature("inCommitTimestamp", _W),
        Feature("typeWidening", _RW),
        Feature("typeWidening-preview", _RW),
        Feature("variantType", _RW),
        Feature("variantType-preview", _RW),
        Feature("variantShredding", _RW),
        Feature("variantShredding-preview", _RW),
        Feature("checkpointProtection", _W),
        Feature("materializePartitionColumns", _W),
        Feature("collations", _W),
        Feature("collations-preview", _W),
        Feature("columnMappingUsageTracking", _W),
        Feature("geospatial", _RW),
        Feature("geospatial-dev", _RW),
        Feature("timestampNanos", _RW),
        Feature("coordinatedCommits-preview", _W),
        Feature("redirectWriterOnly-preview", _W),
        # The state lives in a tree of manifests (adaptiveMetadata) or in another table (redirect): the log alone
        # would be a wrong answer.
        Feature("adaptiveMetadata", _RW, replayable=False),
        Feature("adaptiveMetadata-preview", _RW, replayable=False),
        Feature("redirectReaderWriter-preview", _RW, replayable=False),
    )
}

CATALOG_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})
"""With one of these, newer commits may exist that only a catalog knows. Spec: Catalog-managed tables."""
