"""Rules about protocol actions: versions, lists of features, and features that a table uses."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFileKind, Place, commit_name
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.feature_use import Use, constraint_uses, property_uses, schema_uses
from deltacli.delta.protocol.features import (
    FEATURES,
    GENERATED_COLUMNS,
    IDENTITY_COLUMNS,
    NEWEST_READER_VERSION,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    FeatureKind,
    Protocol,
    stable_name,
)
from deltacli.rules.framework.base import LOST_BY_DROPPING, Area, Finding, Severity
from deltacli.rules.framework.views import CommitView, HistoryView, ProtocolView, TableConfigurationView

FEATURE_AREA = Area("protocol", spec="Supported Features")

USED_NOT_SUPPORTED = FEATURE_AREA.error(
    "feature.used-not-supported",
    "The table uses a feature that its protocol does not support.",
    broken="engines without support for the feature read and write the table without it; for generated and identity "
    "columns the metadata then has no effect, which is only a note",
    repair="commit a protocol with the feature; metadata without effect needs no repair",
    loss="access by engines without support for the feature",
    example='a column of type timestamp_ntz with {"minReaderVersion":1,"minWriterVersion":2}',
)
PROPERTY_WITHOUT_FEATURE = FEATURE_AREA.error(
    "feature.property-without-feature",
    "A table property turns on a feature that the protocol does not support.",
    spec="Active Features",
    broken="some engines refuse the table, others treat the feature as off",
    repair="commit a protocol with the feature, or a metaData action without the property",
    loss="without the property, what it turned on",
    example='"delta.enableDeletionVectors":"true" with {"minReaderVersion":1,"minWriterVersion":2}',
)
SUPPORTED_NOT_USED = FEATURE_AREA.info(
    "feature.supported-not-used",
    "The protocol lists a feature that no visible version uses.",
    broken="engines without support for the feature refuse the table unnecessarily",
    repair=LazyText("drop the feature, if it is one that can go: {}", partial(command, "features drop", "NAME")),
    loss=LOST_BY_DROPPING,
    example='"writerFeatures":["changeDataFeed"], but delta.enableChangeDataFeed was never true',
)
OLD_VACUUM = FEATURE_AREA.info(
    "vacuumcheck.old-vacuum",
    "A VACUUM ran in an engine that is older than the protocol check which the table requires.",
    spec="Vacuum Protocol Check",
    broken="such an engine may have deleted files that are needed by features it does not support",
    repair=LazyText(
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
_DELTA_SPARK = re.compile(r"Delta-Lake/([0-9]{1,9})\.([0-9]{1,9})")
_FIRST_THAT_CHECKS = (3, 2)
"The release of Delta-Spark that introduced `vacuumProtocolCheck`."


def is_in_range(protocol: Protocol) -> bool:
    """Return True if both versions exist."""
    return 1 <= protocol.min_reader_version <= NEWEST_READER_VERSION and (
        1 <= protocol.min_writer_version <= WRITER_FEATURES_VERSION
    )


def knows_features(protocol: Protocol) -> bool:
    """Return True if the protocol determines its features: its versions exist, and no required list is missing."""
    return (
        is_in_range(protocol)
        and (protocol.min_reader_version < READER_FEATURES_VERSION or protocol.reader_features is not None)
        and (protocol.min_writer_version < WRITER_FEATURES_VERSION or protocol.writer_features is not None)
    )


def _supported(config: TableConfiguration) -> frozenset[str]:
    return frozenset(stable_name(name) for name in config.features)


@FEATURE_AREA.check(TableConfigurationView, USED_NOT_SUPPORTED)
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
            yield USED_NOT_SUPPORTED.at(
                place, message, seen=describe_protocol(protocol), expected=use.feature, severity=severity
            )


@FEATURE_AREA.check(TableConfigurationView, PROPERTY_WITHOUT_FEATURE)
def properties_turn_on_unsupported_features(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: Active Features."""
    protocol = view.config.protocol
    if protocol is None or not knows_features(protocol):
        return
    supported, schema = _supported(view.config), view.config.schema
    for use in property_uses(view.config.properties):
        if use.feature in supported or use.is_judged_elsewhere:
            continue
        if use.feature == "typeWidening" and schema and any(one.feature == use.feature for one in schema_uses(schema)):
            continue  # `typewidening.not-supported` reports it
        message = f"{use.what}, but the protocol does not support {use.feature}"
        place = view.place._replace(key=use.key)
        yield PROPERTY_WITHOUT_FEATURE.at(place, message, seen=describe_protocol(protocol), expected=use.feature)


@FEATURE_AREA.check(CommitView, USED_NOT_SUPPORTED)
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
            yield USED_NOT_SUPPORTED.at(place, message, seen=describe_protocol(protocol), expected=feature)
    if "rowTracking" in supported:
        return
    first = next((placed for placed in view.adds if placed.action.get("baseRowId") is not None), None)
    if first is not None:
        message = "an add has baseRowId, but the protocol does not support rowTracking"
        place = view.place(first.line, str(first.action.get("path")))
        yield USED_NOT_SUPPORTED.at(place, message, seen=describe_protocol(protocol), expected="rowTracking")


@FEATURE_AREA.check(HistoryView, SUPPORTED_NOT_USED)
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
        them = "it" if len(unused) == 1 else "them"
        message = f"the protocol lists {', '.join(unused)}, but no visible version uses {them}"
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


@FEATURE_AREA.check(CommitView, OLD_VACUUM)
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


def describe_protocol(protocol: Protocol) -> str:
    """Return the text of a protocol for a finding."""
    versions = f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
    named = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    return f"{versions} with {', '.join(named)}" if named else versions


# -- rules about protocol actions --------------------------------------------------------------------------------------

AREA = Area("protocol", spec="Table Features")

_RAISE = "commit a protocol action with the versions and lists that the table needs"
MISSING = AREA.error(
    "protocol.missing",
    "No commit of the log and no checkpoint has a protocol.",
    spec="Action Reconciliation",
    broken="no engine opens a table without a protocol",
    repair="commit a protocol action, at least minReaderVersion 1 and minWriterVersion 2",
    example='{"metaData":{"id":"8e1a6ad6-…"}} and no {"protocol":{…}} in any commit',
)
VERSION_OUT_OF_RANGE = AREA.error(
    "protocol.version-out-of-range",
    "The protocol requires a reader version other than 1 to 3, or a writer version other than 1 to 7.",
    spec="Reader Version Requirements",
    broken="the requirements of such a version are not defined, so all engines refuse the table",
    repair=_RAISE,
    loss="nothing, if the numbers are a mistake",
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":8}}',
)
READER3_NEEDS_WRITER7 = AREA.error(
    "protocol.reader3-needs-writer7",
    "The protocol has reader version 3 with a writer version below 7.",
    spec="Table Features for New and Existing Tables",
    broken="reader features must also be listed for writers, but below writer version 7 there is no such list",
    repair="commit a protocol with minWriterVersion 7 and writerFeatures with every feature in use",
    loss="access by writers without support for table features",
    example='{"protocol":{"minReaderVersion":3,"minWriterVersion":5,"readerFeatures":[]}}',
)
READER_FEATURES_MISSING = AREA.error(
    "protocol.reader-features-missing",
    "The protocol has reader version 3 and no readerFeatures.",
    broken="readers do not know which features they must support",
    repair=_RAISE,
    example='{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"writerFeatures":[]}}',
)
WRITER_FEATURES_MISSING = AREA.error(
    "protocol.writer-features-missing",
    "The protocol has writer version 7 and no writerFeatures.",
    broken="writers do not know which features they must support",
    repair=_RAISE,
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":7}}',
)
FEATURES_ON_LEGACY = AREA.error(
    "protocol.features-on-legacy",
    "The protocol has readerFeatures below reader version 3, or writerFeatures below writer version 7.",
    broken="engines of that version ignore the list, others refuse the table",
    repair="commit a protocol without the list, or with the versions that have one",
    loss="without the list, what the table uses of the listed features",
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":2,"writerFeatures":["appendOnly"]}}',
)
READER_ONLY_FEATURE = AREA.error(
    "protocol.reader-only-feature",
    "A feature is in readerFeatures but not in writerFeatures.",
    spec="Supported Features",
    broken="writers do not learn of the feature and may write data that its readers misread",
    repair="commit a protocol with the feature in both lists",
    loss="access by writers without support for the feature",
    example='"readerFeatures":["deletionVectors"],"writerFeatures":[]',
)
RW_FEATURE_NOT_IN_READER = AREA.error(
    "protocol.rw-feature-not-in-reader",
    "A reader feature is listed only in writerFeatures.",
    spec="Supported Features",
    broken="readers without support for the feature open the table and return wrong rows",
    repair="commit a protocol with reader version 3 and the feature in readerFeatures too",
    loss="access by readers without support for the feature",
    example='"minReaderVersion":3,"readerFeatures":[],"writerFeatures":["deletionVectors"]',
)
WRITER_FEATURE_IN_READER = AREA.error(
    "protocol.writer-feature-in-reader",
    "A writer-only feature is in readerFeatures.",
    spec="Supported Features",
    broken="readers that could read the table refuse it",
    repair="commit a protocol with the feature in writerFeatures only",
    example='"readerFeatures":["appendOnly"],"writerFeatures":["appendOnly"]',
)
UNKNOWN_FEATURE = AREA.warning(
    "protocol.unknown-feature",
    "A listed feature is not recognized, so its requirements for readers and writers are not checked.",
    broken="deltacli does not write to the table, and reads it only if the feature is not in readerFeatures",
    repair="use a newer deltacli; if the name is a typo, commit a protocol with the correct name",
    example='"writerFeatures":["appendOnly","futureFeature"]',
)
PREVIEW_FEATURE = AREA.info(
    "protocol.preview-feature",
    "The protocol lists a feature under its preview name.",
    spec="Delta-Spark: names of features under development",
    broken="engines that support only the final feature refuse the table",
    repair="let the engine that created the table upgrade the feature",
    example='"writerFeatures":["typeWidening-preview"]',
)
DEPENDENCY = AREA.error(
    "protocol.dependency",
    "The protocol lists a feature without another feature that it requires.",
    broken="engines refuse the table, or write the feature without its requirement",
    repair="commit a protocol with both features",
    loss="access by engines without support for the other feature",
    example='"writerFeatures":["rowTracking"] without "domainMetadata"',
)
EXCLUSIVE = AREA.error(
    "protocol.exclusive",
    "Two features that exclude each other are both supported or both active.",
    spec="Writer Requirements for IcebergCompatV1",
    broken="each of them forbids data that the other one writes",
    repair="turn one of the two off, and drop it from the protocol if listing it is forbidden",
    loss="that feature",
    example='"writerFeatures":["icebergCompatV1","deletionVectors"]',
)
DUPLICATE_FEATURE = AREA.warning(
    "protocol.duplicate-feature",
    "A feature is listed twice, or with two spellings that differ only in case.",
    broken="names are compared exactly, so every engine treats the wrong spelling as an unknown feature",
    repair="commit a protocol with each name once",
    example='"writerFeatures":["appendOnly","appendonly"]',
)
DOWNGRADE = AREA.error(
    "protocol.downgrade",
    "The protocol drops a feature or lowers a version while older versions that need it still exist.",
    spec="Supported Features",
    broken="engines assume that they can read and checkpoint the older versions",
    repair="commit the former protocol again, or truncate the log to the versions since the change",
    loss="time travel to the older versions, if the log is truncated",
    example='version 4: "readerFeatures":["deletionVectors"], version 5: "minReaderVersion":1,"minWriterVersion":2',
)
LEGACY_ODDITY = AREA.info(
    "protocol.legacy-oddity",
    "The pair of versions is valid but implies fewer features than the higher number suggests.",
    spec="Writer Version Requirements",
    broken="column mapping needs reader version 2 and writer version 5 together",
    repair="commit a protocol with both versions, or with writer version 7 and the features in use",
    loss="access by readers of version 1, if column mapping is intended",
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":5}}',
)
STRAY_KEYS = AREA.warning(
    "protocol.stray-keys",
    "The protocol action has readerVersion or writerVersion, which are not valid keys.",
    spec="Protocol Evolution",
    broken="engines read minReaderVersion and minWriterVersion and ignore these two",
    repair="commit a protocol action with the right keys",
    example='{"protocol":{"readerVersion":3,"writerVersion":7}}',
)


NEWEST_WRITER_VERSION = 7
COLUMN_MAPPING_READER, COLUMN_MAPPING_WRITER = 2, 5


@AREA.check(HistoryView, MISSING)
def no_protocol_is_known(view: HistoryView) -> Iterator[Finding]:
    """Report only if all commits from 0 on could be read, because missing ones may have had a protocol."""
    if not view.commits or view.config.protocol is not None or view.config.raw_protocol is not None:
        return
    versions = [commit.version for commit in view.commits]
    if versions != list(range(len(versions))) or len(versions) != len(view.listing.commits):
        return
    if all(commit.is_readable for commit in view.commits):
        newest = view.commits[-1]
        yield MISSING.at(newest.place(), f"no commit up to version {newest.version} has a protocol action")


@AREA.check(ProtocolView, VERSION_OUT_OF_RANGE, READER3_NEEDS_WRITER7, LEGACY_ODDITY)
def versions_make_no_sense(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Reader Version Requirements; Writer Version Requirements."""
    protocol = view.config.protocol
    if protocol is None:
        return
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    seen = f"reader {reader}, writer {writer}"
    if not 1 <= reader <= NEWEST_READER_VERSION:
        message = f"minReaderVersion {reader} is not a version of the protocol"
        yield VERSION_OUT_OF_RANGE.at(view.place, message, seen=reader, expected="1 to 3")
    if not 1 <= writer <= NEWEST_WRITER_VERSION:
        message = f"minWriterVersion {writer} is not a version of the protocol"
        yield VERSION_OUT_OF_RANGE.at(view.place, message, seen=writer, expected="1 to 7")
    if not is_in_range(protocol):
        return
    if reader == READER_FEATURES_VERSION and writer < WRITER_FEATURES_VERSION:
        message = f"reader version 3 needs writer version 7, found {writer}"
        yield READER3_NEEDS_WRITER7.at(view.place, message, seen=seen, expected="reader 3, writer 7")
    elif writer < WRITER_FEATURES_VERSION and (reader >= COLUMN_MAPPING_READER) != (writer >= COLUMN_MAPPING_WRITER):
        message = f"{seen} does not support column mapping, which needs at least reader 2 and writer 5 together"
        yield LEGACY_ODDITY.at(view.place, message, seen=seen)


@AREA.check(ProtocolView, STRAY_KEYS)
def keys_are_misspelt(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Protocol Evolution (whose samples have these keys)."""
    stray = [key for key in ("readerVersion", "writerVersion") if key in view.raw]
    if stray:
        message = f"the protocol action has {' and '.join(stray)}, which engines ignore"
        expected = "minReaderVersion and minWriterVersion"
        yield STRAY_KEYS.at(view.place, message, seen=", ".join(stray), expected=expected)


@AREA.check(ProtocolView, READER_FEATURES_MISSING, WRITER_FEATURES_MISSING, FEATURES_ON_LEGACY)
def lists_and_versions_disagree(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Table Features. For checkpoints, `checkpoint.features-null` reports this."""
    protocol = view.config.protocol
    if protocol is None or view.commit is None or not is_in_range(protocol):
        return
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader == READER_FEATURES_VERSION and protocol.reader_features is None:
        yield READER_FEATURES_MISSING.at(view.place, "reader version 3 without readerFeatures", seen="no list")
    if writer == WRITER_FEATURES_VERSION and protocol.writer_features is None:
        yield WRITER_FEATURES_MISSING.at(view.place, "writer version 7 without writerFeatures", seen="no list")
    if reader < READER_FEATURES_VERSION and protocol.reader_features is not None:
        message = f"readerFeatures is present at reader version {reader}, but only version 3 has it"
        yield FEATURES_ON_LEGACY.at(view.place, message, seen=_listed(protocol.reader_features), expected="no list")
    if writer < WRITER_FEATURES_VERSION and protocol.writer_features is not None:
        message = f"writerFeatures is present at writer version {writer}, but only version 7 has it"
        yield FEATURES_ON_LEGACY.at(view.place, message, seen=_listed(protocol.writer_features), expected="no list")


@AREA.check(ProtocolView, READER_ONLY_FEATURE, RW_FEATURE_NOT_IN_READER, WRITER_FEATURE_IN_READER)
def lists_disagree(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Supported Features."""
    protocol = view.config.protocol
    if protocol is None or protocol.min_writer_version != WRITER_FEATURES_VERSION or protocol.writer_features is None:
        return
    of_readers, of_writers = set(protocol.reader_features or ()), set(protocol.writer_features)
    for name in sorted(of_readers - of_writers):
        message = f"{name} is in readerFeatures but not in writerFeatures"
        yield READER_ONLY_FEATURE.at(view.place, message, key=name, expected="in both lists")
    for name in sorted(of_readers & of_writers):
        feature = FEATURES.get(name)
        if feature is not None and feature.kind is FeatureKind.WRITER:
            message = f"{name} is a writer-only feature but is in readerFeatures"
            yield WRITER_FEATURE_IN_READER.at(view.place, message, key=name)
    for name in sorted(of_writers - of_readers):
        if _readers_miss(name, protocol):
            message = (
                f"{name} is a reader feature, but reader version {protocol.min_reader_version} does not require it"
            )
            expected = "reader version 3 with the feature in readerFeatures"
            yield RW_FEATURE_NOT_IN_READER.at(view.place, message, key=name, expected=expected)


def _readers_miss(name: str, protocol: Protocol) -> bool:
    """Return True if a reader feature is listed only for writers; reader version 2 implies column mapping unlisted."""
    feature = FEATURES.get(name)
    if feature is None or feature.kind is FeatureKind.WRITER:
        return False
    if protocol.min_reader_version >= READER_FEATURES_VERSION:
        return protocol.reader_features is not None
    return feature.legacy is None or protocol.min_reader_version < feature.legacy.reader


@AREA.check(ProtocolView, UNKNOWN_FEATURE, PREVIEW_FEATURE, DUPLICATE_FEATURE)
def feature_names_are_odd(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Table Features; Valid Feature Names."""
    protocol = view.config.protocol
    if protocol is None:
        return
    lists = {"readerFeatures": protocol.reader_features or (), "writerFeatures": protocol.writer_features or ()}
    misspelt: set[str] = set()
    for list_name, names in lists.items():
        for spellings in _duplicates(names):
            misspelt.update(spellings)
            message = f"{list_name} has {' and '.join(spellings)}, one feature listed more than once"
            place = view.place._replace(key=spellings[0])
            yield DUPLICATE_FEATURE.at(place, message, seen=_listed(spellings), expected="each name once")
    known = {name.casefold() for name in FEATURES}
    for name in sorted({name for names in lists.values() for name in names}):
        place = view.place._replace(key=name)
        if name not in FEATURES:
            if name in misspelt and name.casefold() in known:
                continue
            where = "readerFeatures" if name in lists["readerFeatures"] else "writerFeatures"
            yield UNKNOWN_FEATURE.at(place, f"{where} has the unknown feature {name}", seen=name)
        elif stable_name(name) != name and name.endswith(("-preview", "-dev")):
            message = f"{name} is the preview name of {_RENAMED.get(name) or stable_name(name)}"
            yield PREVIEW_FEATURE.at(place, message, seen=name)


_RENAMED = {"catalogOwned-preview": "catalogManaged"}


def _duplicates(names: Iterable[str]) -> list[list[str]]:
    """Return the names that occur more than once in a list, ignoring case, each with its spellings."""
    spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        spellings[name.casefold()][name] += 1
    return [sorted(repeated.elements()) for repeated in spellings.values() if repeated.total() > 1]


@AREA.check(ProtocolView, DEPENDENCY, EXCLUSIVE)
def features_need_or_exclude_others(view: ProtocolView) -> Iterator[Finding]:
    """Spec: the sections of each feature. `catalog.ict-missing` reports the requirements of catalogs, and
    `iceberg.mapping-off` the column mapping that an active Iceberg compatibility requires.
    """
    protocol = view.config.protocol
    if protocol is None or not knows_features(protocol):
        return
    supported = {stable_name(name) for name in view.config.features}
    for name in sorted(view.config.features & FEATURES.keys()):
        feature = FEATURES[name]
        place = view.place._replace(key=name)
        is_active = feature.enabled_by is not None and view.config.is_on(feature.enabled_by)
        for needed in feature.requires:
            is_judged_elsewhere = needed == "columnMapping" and name.startswith("icebergCompat") and is_active
            if needed not in supported and not is_judged_elsewhere:
                yield DEPENDENCY.at(place, f"{name} requires {needed}, which is not supported", expected=needed)
        for other in feature.excludes:
            if other in supported:
                message = f"{name} and {other} exclude each other, but both are supported"
                yield EXCLUSIVE.at(place, message, seen=f"{name}, {other}", expected="one of the two")


@AREA.check(TableConfigurationView, EXCLUSIVE)
def active_features_exclude_each_other(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: Writer Requirements for IcebergCompatV2."""
    iceberg, vectors = "delta.enableIcebergCompatV2", "delta.enableDeletionVectors"
    are_supported = {"icebergCompatV2", "deletionVectors"} <= view.config.features
    if are_supported and view.config.is_on(iceberg) and view.config.is_on(vectors):
        message = f"{iceberg} forbids deletion vectors, but {vectors} is true"
        yield EXCLUSIVE.at(view.place, message, key=vectors, seen="true", expected="false")


@AREA.check(HistoryView, DOWNGRADE)
def protocol_gives_something_up(view: HistoryView) -> Iterator[Finding]:
    """A log that does not begin with version 0 may have been truncated for this change. A feature that older versions
    do not need may go with a commit that names it.
    """
    if 0 not in view.listing.commits:
        return
    for commit in view.commits:
        before, after = commit.before.protocol, commit.after.protocol
        if before is None or after is None or before is after:
            continue
        if "checkpointProtection" in before.supported_features | after.supported_features:
            continue
        yield from _downgrades(commit, before, after)


def _downgrades(commit: CommitView, before: Protocol, after: Protocol) -> Iterator[Finding]:
    kept = {stable_name(name) for name in after.supported_features}
    kept |= _dropped_with_care(commit)
    lost = sorted(name for name in before.supported_features if stable_name(name) not in kept)
    was_beyond = before.min_reader_version > NEWEST_READER_VERSION or before.min_writer_version > NEWEST_WRITER_VERSION
    is_lowered = after.min_reader_version < before.min_reader_version or (
        after.min_writer_version < before.min_writer_version
    )
    if not lost and not (was_beyond and is_lowered):
        return
    seen, expected = describe_protocol(after), f"at least {describe_protocol(before)}"
    place = commit.after.protocol_place or Place(f"{LOG_DIRECTORY}/{commit_name(commit.version)}", None, commit.version)
    given_up = ", ".join(lost) or expected.removeprefix("at least ")
    hinders_readers = was_beyond or any(_is_for_readers(name, before) for name in lost)
    message = f"version {commit.version} drops {given_up}, but older versions that may need it can still be read"
    severity = None if hinders_readers else Severity.WARNING
    yield DOWNGRADE.at(place, message, seen=seen, expected=expected, severity=severity)


def _dropped_with_care(commit: CommitView) -> set[str]:
    """Return the feature that a commit says it drops, if older versions do not need it."""
    from deltacli.delta.protocol.feature_changes import REMOVALS

    info = commit.commit_info or {}
    parameters = info.get("operationParameters")
    if info.get("operation") != "DROP FEATURE" or not isinstance(parameters, dict):
        return set()
    name = parameters.get("featureName")
    removal = REMOVALS.get(name) if isinstance(name, str) else None
    return set() if removal is None or removal.protects_history else {stable_name(str(name))}


def _is_for_readers(name: str, protocol: Protocol) -> bool:
    feature = FEATURES.get(name)
    return name in (protocol.reader_features or ()) or (
        feature is not None and feature.kind is FeatureKind.READER_WRITER
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "an empty list"
