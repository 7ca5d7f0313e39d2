"""Table features as data, and who may read a version and write the next one by its protocol.

Spec: Valid Feature Names; the sections of each feature; `protocol_rfcs`; Protocol Evolution; Table Features; Reader
Version Requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.core.errors import ProtocolUnsupported, Refused, command


class FeatureKind(StrEnum):
    READER_WRITER = "reader and writer"
    WRITER = "writer"


class Legacy(NamedTuple):
    """The protocol versions that imply a feature without listing it."""

    writer: int
    reader: int = 1


class FeatureObstacle(NamedTuple):
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
    obstacle: FeatureObstacle | None = None
    constrains_files: bool = False

    @property
    def is_readable(self) -> bool:
        """Return True if deltacli rebuilds versions that have it. Writer features have no requirements for readers."""
        return self.kind is FeatureKind.WRITER or self.is_writable


_RW, _W = FeatureKind.READER_WRITER, FeatureKind.WRITER
_OF_MANIFESTS = ("columnMapping", "rowTracking", "domainMetadata", "deletionVectors", "inCommitTimestamp")
_CATALOG = FeatureObstacle(
    "the table would be managed by a catalog, but no catalog has it", "ask the catalog to take over the table"
)
_MANIFESTS = FeatureObstacle(
    "the state of the table would have to move into a tree of manifests", "an engine that writes such tables"
)
_ELSEWHERE = FeatureObstacle(
    "readers and writers would be redirected to another table, which only its engine can name", "that engine"
)
_OTHER_NAME = FeatureObstacle("it is another name of {stable}", None)
_DROPPING = FeatureObstacle("it is useful only once another feature is dropped", "drop a feature, which adds it")
_CLUSTERED = FeatureObstacle(
    "a clustered table names its columns", "set the clustering columns with alter, which adds the feature"
)
_PAST_USE = FeatureObstacle(
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


# -- who may read a version --------------------------------------------------------------------------------------------

NEWEST_READER_VERSION = 3
READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7

_COMMIT_COORDINATOR = "delta.coordinatedCommits.commitCoordinator-preview"
_REDIRECTS = ("redirectReaderWriter-preview", "redirectWriterOnly-preview")
"Features, and with the prefix `delta.` the properties that name the target."


class Protocol(NamedTuple):
    """The protocol action of a version; feature lists are sorted, None where the action has none."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @property
    def supported_features(self) -> frozenset[str]:
        """Return every feature the table supports: the listed ones, and those its version numbers imply."""
        named = {*(self.reader_features or ()), *(self.writer_features or ())}
        implied = {
            feature.name
            for feature in FEATURES.values()
            if feature.legacy
            and self.min_writer_version < WRITER_FEATURES_VERSION
            and feature.legacy.writer <= self.min_writer_version
            and feature.legacy.reader <= self.min_reader_version
        }
        return frozenset(named | implied)

    @property
    def supported_reader_features(self) -> tuple[str, ...]:
        """Return the features that readers must support: the listed ones, or the one that reader version 2 implies."""
        if self.reader_features is not None:
            return self.reader_features
        return ("columnMapping",) if self.min_reader_version == 2 else ()

    @property
    def is_catalog_managed(self) -> bool:
        """Return True if newer commits may exist that only a catalog has."""
        return bool(self.supported_features & CATALOG_FEATURES)

    def as_json(self) -> dict[str, Any]:
        """Return the action as in the log, without absent lists, lists sorted."""
        document: dict[str, Any] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.reader_features is not None:
            document["readerFeatures"] = list(self.reader_features)
        if self.writer_features is not None:
            document["writerFeatures"] = list(self.writer_features)
        return document


def require_readable(protocol: Protocol, version: int) -> None:
    """Raise ProtocolUnsupported, naming every unsupported feature, unless deltacli can rebuild this version."""
    if not 1 <= protocol.min_reader_version <= NEWEST_READER_VERSION:
        raise _unsupported(
            version,
            f"needs reader version {protocol.min_reader_version}; deltacli reads 1 to {NEWEST_READER_VERSION}",
            code="protocol.version-out-of-range",
            facts={"protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"},
            hint=command("history"),
        )
    unknown = [name for name in protocol.reader_features or () if not (name in FEATURES and FEATURES[name].is_readable)]
    if unknown:
        listed = f"{'features' if len(unknown) > 1 else 'feature'} {', '.join(unknown)}"
        raise _unsupported(
            version,
            f"needs the reader {listed}, which deltacli cannot read",
            code="protocol.unknown-feature",
            facts={"readerFeatures": ", ".join(protocol.reader_features or ())},
            hint=command("explain"),
        )


def _unsupported(version: int, needs: str, *, code: str, facts: Mapping[str, str], hint: str) -> ProtocolUnsupported:
    fault = ProtocolUnsupported(f"version {version} {needs}", code=code, facts=facts, hint=hint)
    fault.version, fault.needs = version, needs
    return fault


def require_writable(protocol: Protocol, version: int) -> None:
    """Raise Refused, naming the obstacle, unless deltacli meets all requirements of this version for writers."""
    if not 1 <= protocol.min_writer_version <= WRITER_FEATURES_VERSION:
        raise Refused(
            f"version {version} needs writer version {protocol.min_writer_version}; "
            f"deltacli knows 1 to {WRITER_FEATURES_VERSION}",
            code="protocol.version-out-of-range",
            facts={"protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"},
            hint=command("snapshot"),
        )
    names = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    refused = [name for name in names if name not in FEATURES or not FEATURES[name].is_writable]
    if refused:
        listed = f"{'features' if len(refused) > 1 else 'feature'} {', '.join(refused)}"
        why = "cannot write" if FEATURES.keys() >= {*refused} else "does not know"
        raise Refused(
            f"version {version} has the writer {listed}, which deltacli {why}: it writes nothing to this table",
            code="protocol.unknown-feature",
            facts={"writerFeatures": ", ".join(protocol.writer_features or ())},
            hint=command("snapshot"),
        )


def require_derived_files_supported(protocol: Protocol, version: int) -> None:
    """Raise Refused unless deltacli may write files that follow from commits, such as checkpoints: every feature is
    recognized, and the numbers and lists are valid. Spec: Table Features.
    """
    require_writable(protocol, version)
    fault = _illegal(protocol)
    if fault is not None:
        code, seen = fault
        raise Refused(
            f"version {version} has a protocol that no writer may commit to: {seen}",
            code=code,
            facts={"protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"},
            hint=command("validate"),
        )


OPEN_BY_NAME = "pass the table as its catalog names it: uc://CATALOG.SCHEMA.TABLE"
"""The hint where a table that a catalog manages was opened by its path."""


def require_commits_supported(
    protocol: Protocol, properties: Mapping[str, str], version: int, *, by_catalog: bool = False
) -> None:
    """Raise Refused unless deltacli may write the commit after this version, which no other table decides, and no
    catalog unless the commit is ratified `by_catalog`. Spec: Table Features; Catalog-managed tables.
    """
    require_derived_files_supported(protocol, version)
    catalogs = sorted(protocol.supported_features & CATALOG_FEATURES)
    if (catalogs and not (by_catalog and catalogs == ["catalogManaged"])) or properties.get(_COMMIT_COORDINATOR):
        cause = ", ".join(catalogs) or _COMMIT_COORDINATOR
        if by_catalog:
            message = f"version {version} has {cause}, and commits through a catalog require catalogManaged instead"
            raise Refused(message, code="catalog.managed", hint=command("catalog status"))
        raise Refused(
            f"version {version} is managed by a catalog, and only the catalog commits to this table",
            code="catalog.managed",
            facts={"because of": cause},
            hint=OPEN_BY_NAME,
        )
    redirects = [name for name in _REDIRECTS if name in protocol.supported_features or properties.get(f"delta.{name}")]
    if redirects:
        message = f"version {version} redirects its writers to another table"
        raise Refused(
            message, code="table.redirected", facts={"because of": ", ".join(redirects)}, hint=command("snapshot")
        )


def _illegal(protocol: Protocol) -> tuple[str, str] | None:
    """Return the rule that numbers and lists violate together, and what was seen."""
    takes_reader_list = protocol.min_reader_version >= READER_FEATURES_VERSION
    takes_writer_list = protocol.min_writer_version >= WRITER_FEATURES_VERSION
    if takes_reader_list and not takes_writer_list:
        return "protocol.reader3-needs-writer7", f"reader 3 with writer {protocol.min_writer_version}"
    if takes_reader_list and protocol.reader_features is None:
        return "protocol.reader-features-missing", "reader 3 without readerFeatures"
    if takes_writer_list and protocol.writer_features is None:
        return "protocol.writer-features-missing", "writer 7 without writerFeatures"
    lonely = sorted({*(protocol.reader_features or ())} - {*(protocol.writer_features or ())})
    if lonely:
        return "protocol.reader-only-feature", f"{', '.join(lonely)} in readerFeatures alone"
    return None
