"""Rules about features: what a table uses compared with what its protocol supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from deltacli.core.hints import Worded, command
from deltacli.core.patterns import pattern
from deltacli.delta.log.log_path import LOG_DIRECTORY, LogFileKind, Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.feature_use import Use, constraint_uses, property_uses, schema_uses
from deltacli.delta.protocol.features import FEATURES, GENERATED_COLUMNS, IDENTITY_COLUMNS, stable_name
from deltacli.delta.protocol.protocol_action import (
    NEWEST_READER_VERSION,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    Protocol,
)
from deltacli.rules.framework.base import LOST_BY_DROPPING, Area, Finding, Severity
from deltacli.rules.framework.views import CommitView, HistoryView, TableConfigurationView

AREA = Area("protocol", spec="Supported Features")

USED_NOT_SUPPORTED = AREA.error(
    "feature.used-not-supported",
    "The table uses a feature that its protocol does not support.",
    broken="engines without support for the feature read and write the table without it; for generated and identity "
    "columns the metadata then has no effect, which is only a note",
    repair="commit a protocol with the feature; metadata without effect needs no repair",
    loss="access by engines without support for the feature",
    example='a column of type timestamp_ntz with {"minReaderVersion":1,"minWriterVersion":2}',
)
PROPERTY_WITHOUT_FEATURE = AREA.error(
    "feature.property-without-feature",
    "A table property turns on a feature that the protocol does not support.",
    spec="Active Features",
    broken="some engines refuse the table, others treat the feature as off",
    repair="commit a protocol with the feature, or a metaData action without the property",
    loss="without the property, what it turned on",
    example='"delta.enableDeletionVectors":"true" with {"minReaderVersion":1,"minWriterVersion":2}',
)
SUPPORTED_NOT_USED = AREA.info(
    "feature.supported-not-used",
    "The protocol lists a feature that no visible version uses.",
    broken="engines without support for the feature refuse the table unnecessarily",
    repair=Worded("drop the feature, if it is one that can go: {}", partial(command, "features drop", "NAME")),
    loss=LOST_BY_DROPPING,
    example='"writerFeatures":["changeDataFeed"], but delta.enableChangeDataFeed was never true',
)
OLD_VACUUM = AREA.info(
    "vacuumcheck.old-vacuum",
    "A VACUUM ran in an engine that is older than the protocol check which the table requires.",
    spec="Vacuum Protocol Check",
    broken="such an engine may have deleted files that are needed by features it does not support",
    repair=Worded(
        "upgrade the engine, and check that no live file is missing: {}",
        partial(command, "validate", table=None, level="storage"),
    ),
    example='{"commitInfo":{"operation":"VACUUM START","engineInfo":"Apache-Spark/3.4.0 Delta-Lake/2.4.0"}}',
)


_DOMAINS = {"delta.clustering": "clustering", "delta.rowTracking": "rowTracking"}
_ALWAYS_ACTIVE = frozenset(
    {"domainMetadata", "catalogManaged", "catalogOwned", "vacuumProtocolCheck", "adaptiveMetadata"}
)
_LISTED_BY_HABIT = frozenset({"appendOnly", "invariants"})
"Engines list these for every table with features, because version 2 of writers implied them."
_INERT = frozenset({GENERATED_COLUMNS, IDENTITY_COLUMNS})
"Column metadata of these has no effect without the feature. Old releases of Delta-Spark left it in tables."
_JUDGED_ELSEWHERE = frozenset({"clustering"})  # by `clustering.domain-missing`
_USED_BY_OLD_FILES = frozenset({"deletionVectors", "rowTracking", "typeWidening"})
"""Features that files of a checkpoint can use although no visible commit shows it."""
_DELTA_SPARK = pattern(r"Delta-Lake/([0-9]{1,9})\.([0-9]{1,9})")
_FIRST_THAT_CHECKS = (3, 2)
"The release of Delta-Spark that introduced `vacuumProtocolCheck`."


def is_in_range(protocol: Protocol) -> bool:
    """Return True if both versions exist."""
    return 1 <= protocol.min_reader_version <= NEWEST_READER_VERSION and (
        1 <= protocol.min_writer_version <= WRITER_FEATURES_VERSION
    )


def knows_features(protocol: Protocol) -> bool:
    """Return True if the protocol determines its supported features: its versions exist, and no required list is
    missing.
    """
    return (
        is_in_range(protocol)
        and (protocol.min_reader_version < READER_FEATURES_VERSION or protocol.reader_features is not None)
        and (protocol.min_writer_version < WRITER_FEATURES_VERSION or protocol.writer_features is not None)
    )


def _supported(config: TableConfiguration) -> frozenset[str]:
    """Return the stable names of the supported features."""
    return frozenset(stable_name(name) for name in config.features)


@AREA.check(TableConfigurationView, USED_NOT_SUPPORTED)
def metadata_uses_unsupported_features(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: Supported Features; the requirements of each feature."""
    protocol = view.config.protocol
    if protocol is None or not knows_features(protocol):
        return
    supported = _supported(view.config)
    uses: Iterable[Use] = constraint_uses(view.config.properties)
    if view.config.schema is not None:
        uses = [*schema_uses(view.config.schema), *uses]
    for use in uses:
        if use.feature not in supported and not use.is_judged_elsewhere:
            is_inert = use.feature in _INERT
            verb = "which has no effect because the" if is_inert else "but the"
            message = f"{use.what}, {verb} protocol does not support {use.feature}"
            place = view.place._replace(key=use.key)
            severity = Severity.INFO if is_inert else None
            yield USED_NOT_SUPPORTED.at(place, message, seen=shown(protocol), expected=use.feature, severity=severity)


@AREA.check(TableConfigurationView, PROPERTY_WITHOUT_FEATURE)
def properties_turn_on_unsupported_features(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: Active Features."""
    protocol = view.config.protocol
    if protocol is None or not knows_features(protocol):
        return
    supported = _supported(view.config)
    for use in property_uses(view.config.properties):
        if use.feature in supported or use.is_judged_elsewhere:
            continue
        if use.feature == "typeWidening" and _uses_in_schema(view.config, "typeWidening"):
            continue  # `typewidening.not-supported` reports it
        message = f"{use.what}, but the protocol does not support {use.feature}"
        place = view.place._replace(key=use.key)
        yield PROPERTY_WITHOUT_FEATURE.at(place, message, seen=shown(protocol), expected=use.feature)


@AREA.check(CommitView, USED_NOT_SUPPORTED)
def actions_use_unsupported_features(view: CommitView) -> Iterator[Finding]:
    """Check row ids of files and the domains of features. One finding for each feature of a commit."""
    protocol = view.after.protocol
    if protocol is None or not knows_features(protocol):
        return
    supported = _supported(view.after)
    for placed in view.of_kind("domainMetadata"):
        domain = placed.action.get("domain")
        feature = _DOMAINS.get(domain) if isinstance(domain, str) else None
        if feature is None or feature in supported or placed.action.get("removed") is True:
            continue
        if "domainMetadata" in supported:  # else `domain.without-feature` reports it
            message = f"the domain {domain} is written, but the protocol does not support {feature}"
            place = view.place(placed.line, domain)
            yield USED_NOT_SUPPORTED.at(place, message, seen=shown(protocol), expected=feature)
    if "rowTracking" in supported:
        return
    first = next((placed for placed in view.adds if placed.action.get("baseRowId") is not None), None)
    if first is not None:
        message = "an add has baseRowId, but the protocol does not support rowTracking"
        place = view.place(first.line, str(first.action.get("path")))
        yield USED_NOT_SUPPORTED.at(place, message, seen=shown(protocol), expected="rowTracking")


@AREA.check(HistoryView, SUPPORTED_NOT_USED)
def listed_features_are_not_used(view: HistoryView) -> Iterator[Finding]:
    """Spec: Supported Features. Lists that only repeat features implied by earlier version numbers are skipped."""
    protocol = view.config.protocol
    if protocol is None:
        return
    named = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} & FEATURES.keys()
    silent = _ALWAYS_ACTIVE | _LISTED_BY_HABIT | _JUDGED_ELSEWHERE
    candidates = {name for name in named if stable_name(name) not in silent}
    if not candidates:
        return
    used = _used_in_history(view)
    needed = {stable_name(one) for name in named for one in FEATURES[name].requires}
    unused = sorted(name for name in candidates if stable_name(name) not in used | needed)
    if unused:
        message = f"the protocol lists {', '.join(unused)}, but no visible version uses {_it(unused)}"
        place = view.config.protocol_place or Place(LOG_DIRECTORY)
        yield SUPPORTED_NOT_USED.at(place, message, seen=", ".join(unused))


def _used_in_history(view: HistoryView) -> set[str]:
    """Return the stable names of the features that any visible version used, or that an older version number implied,
    and of those that its files can use without a trace in the log.
    """
    used: set[str] = set()
    regimes = {id(config): config for commit in view.commits for config in (commit.before, commit.after)}
    for config in (*regimes.values(), view.config):
        used.update(use.feature for use in property_uses(config.properties))
        used.update(use.feature for use in constraint_uses(config.properties))
        if config.schema is not None:
            used.update(use.feature for use in schema_uses(config.schema))
        if config.protocol is not None and config.protocol.min_writer_version < WRITER_FEATURES_VERSION:
            used.update(config.protocol.supported_features)
    for commit in view.commits:
        for placed in commit.of_kind("domainMetadata"):
            domain = placed.action.get("domain")
            used.add(_DOMAINS.get(domain, "") if isinstance(domain, str) else "")
    if any(instance.kind is LogFileKind.UUID_CHECKPOINT for instance in view.listing.checkpoints):
        used.add("v2Checkpoint")
    if any(kinds.get("cdc") for kinds in view.counts.values()):
        used.add("changeDataFeed")
    if "variantType" in used:
        used.add("variantShredding")  # any file can be shredded, which only its footer shows
    if 0 not in view.listing.commits:
        used |= _USED_BY_OLD_FILES
    return used | view.used_by_adds


@AREA.check(CommitView, OLD_VACUUM)
def old_engines_vacuum(view: CommitView) -> Iterator[Finding]:
    """Spec: Vacuum Protocol Check."""
    if "vacuumProtocolCheck" not in view.before.features or view.commit_info is None:
        return
    engine, operation = view.commit_info.get("engineInfo"), view.commit_info.get("operation")
    if not isinstance(engine, str) or operation not in ("VACUUM START", "VACUUM END"):
        return
    release = _DELTA_SPARK.search(engine)
    if release and (int(release[1]), int(release[2])) < _FIRST_THAT_CHECKS:
        message = f"{operation} of version {view.version} ran in {engine}, which does not support vacuumProtocolCheck"
        yield OLD_VACUUM.at(view.place(), message, seen=engine, expected="Delta-Lake/3.2 or newer")


def _uses_in_schema(config: TableConfiguration, feature: str) -> bool:
    return config.schema is not None and any(use.feature == feature for use in schema_uses(config.schema))


def shown(protocol: Protocol) -> str:
    """Return the text of a protocol for a finding."""
    versions = f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
    named = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    return f"{versions} with {', '.join(named)}" if named else versions


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"
