"""Rules about protocol actions: versions, lists of features, and how they change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from deltacli.delta.log.log_path import LOG_DIRECTORY, commit_name
from deltacli.delta.log.place import Place
from deltacli.delta.protocol.features import FEATURES, FeatureKind, stable_name
from deltacli.delta.protocol.protocol_action import (
    NEWEST_READER_VERSION,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    Protocol,
)
from deltacli.delta.rules.framework.base import Finding, Severity
from deltacli.delta.rules.framework.views import CommitView, HistoryView, ProtocolView, TableConfigurationView
from deltacli.delta.rules.protocol import features as protocol_features
from deltacli.delta.rules.protocol import rows

AREA = rows.AREA
__all__ = ["AREA", "protocol_features"]  # its checks belong to this area

NEWEST_WRITER_VERSION = 7
COLUMN_MAPPING_READER, COLUMN_MAPPING_WRITER = 2, 5


@AREA.check(HistoryView, rows.MISSING)
def no_protocol_is_known(view: HistoryView) -> Iterator[Finding]:
    """Report only if all commits from 0 on could be read, because missing ones may have had a protocol."""
    if not view.commits or view.config.protocol is not None or view.config.raw_protocol is not None:
        return
    versions = [commit.version for commit in view.commits]
    if versions != list(range(len(versions))) or len(versions) != len(view.listing.commits):
        return
    if all(commit.is_readable for commit in view.commits):
        newest = view.commits[-1]
        yield rows.MISSING.at(newest.place(), f"no commit up to version {newest.version} has a protocol action")


@AREA.check(ProtocolView, rows.VERSION_OUT_OF_RANGE, rows.READER3_NEEDS_WRITER7, rows.LEGACY_ODDITY)
def versions_make_no_sense(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Reader Version Requirements; Writer Version Requirements."""
    protocol = view.config.protocol
    if protocol is None:
        return
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    seen = f"reader {reader}, writer {writer}"
    if not 1 <= reader <= NEWEST_READER_VERSION:
        message = f"minReaderVersion {reader} is not a version of the protocol"
        yield rows.VERSION_OUT_OF_RANGE.at(view.place, message, seen=reader, expected="1 to 3")
    if not 1 <= writer <= NEWEST_WRITER_VERSION:
        message = f"minWriterVersion {writer} is not a version of the protocol"
        yield rows.VERSION_OUT_OF_RANGE.at(view.place, message, seen=writer, expected="1 to 7")
    if not protocol_features.is_in_range(protocol):
        return
    if reader == READER_FEATURES_VERSION and writer < WRITER_FEATURES_VERSION:
        message = f"reader version 3 needs writer version 7, found {writer}"
        yield rows.READER3_NEEDS_WRITER7.at(view.place, message, seen=seen, expected="reader 3, writer 7")
    elif writer < WRITER_FEATURES_VERSION and (reader >= COLUMN_MAPPING_READER) != (writer >= COLUMN_MAPPING_WRITER):
        message = f"{seen} does not support column mapping, which needs at least reader 2 and writer 5 together"
        yield rows.LEGACY_ODDITY.at(view.place, message, seen=seen)


@AREA.check(ProtocolView, rows.STRAY_KEYS)
def keys_are_misspelt(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Protocol Evolution (whose samples have these keys)."""
    stray = [key for key in ("readerVersion", "writerVersion") if key in view.raw]
    if stray:
        message = f"the protocol action has {' and '.join(stray)}, which engines ignore"
        expected = "minReaderVersion and minWriterVersion"
        yield rows.STRAY_KEYS.at(view.place, message, seen=", ".join(stray), expected=expected)


@AREA.check(ProtocolView, rows.READER_FEATURES_MISSING, rows.WRITER_FEATURES_MISSING, rows.FEATURES_ON_LEGACY)
def lists_and_versions_disagree(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Table Features. For checkpoints, `checkpoint.features-null` reports this."""
    protocol = view.config.protocol
    if protocol is None or view.commit is None or not protocol_features.is_in_range(protocol):
        return
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader == READER_FEATURES_VERSION and protocol.reader_features is None:
        yield rows.READER_FEATURES_MISSING.at(view.place, "reader version 3 without readerFeatures", seen="no list")
    if writer == WRITER_FEATURES_VERSION and protocol.writer_features is None:
        yield rows.WRITER_FEATURES_MISSING.at(view.place, "writer version 7 without writerFeatures", seen="no list")
    if reader < READER_FEATURES_VERSION and protocol.reader_features is not None:
        message = f"readerFeatures is present at reader version {reader}, but only version 3 has it"
        yield rows.FEATURES_ON_LEGACY.at(
            view.place, message, seen=_listed(protocol.reader_features), expected="no list"
        )
    if writer < WRITER_FEATURES_VERSION and protocol.writer_features is not None:
        message = f"writerFeatures is present at writer version {writer}, but only version 7 has it"
        yield rows.FEATURES_ON_LEGACY.at(
            view.place, message, seen=_listed(protocol.writer_features), expected="no list"
        )


@AREA.check(ProtocolView, rows.READER_ONLY_FEATURE, rows.RW_FEATURE_NOT_IN_READER, rows.WRITER_FEATURE_IN_READER)
def lists_disagree(view: ProtocolView) -> Iterator[Finding]:
    """Spec: Supported Features."""
    protocol = view.config.protocol
    if protocol is None or protocol.min_writer_version != WRITER_FEATURES_VERSION or protocol.writer_features is None:
        return
    of_readers, of_writers = set(protocol.reader_features or ()), set(protocol.writer_features)
    for name in sorted(of_readers - of_writers):
        message = f"{name} is in readerFeatures but not in writerFeatures"
        yield rows.READER_ONLY_FEATURE.at(view.place._replace(key=name), message, expected="in both lists")
    for name in sorted(of_readers & of_writers):
        feature = FEATURES.get(name)
        if feature is not None and feature.kind is FeatureKind.WRITER:
            message = f"{name} is a writer-only feature but is in readerFeatures"
            yield rows.WRITER_FEATURE_IN_READER.at(view.place._replace(key=name), message)
    for name in sorted(of_writers - of_readers):
        if _readers_miss(name, protocol):
            message = (
                f"{name} is a reader feature, but reader version {protocol.min_reader_version} does not require it"
            )
            expected = "reader version 3 with the feature in readerFeatures"
            yield rows.RW_FEATURE_NOT_IN_READER.at(view.place._replace(key=name), message, expected=expected)


def _readers_miss(name: str, protocol: Protocol) -> bool:
    """Return True if a reader feature is listed only for writers, so that readers do not check it.

    Reader version 2 implies column mapping without a list.
    """
    feature = FEATURES.get(name)
    if feature is None or feature.kind is FeatureKind.WRITER:
        return False
    if protocol.min_reader_version >= READER_FEATURES_VERSION:
        return protocol.reader_features is not None
    return feature.legacy is None or protocol.min_reader_version < feature.legacy.reader


@AREA.check(ProtocolView, rows.UNKNOWN_FEATURE, rows.PREVIEW_FEATURE, rows.DUPLICATE_FEATURE)
def names_are_odd(view: ProtocolView) -> Iterator[Finding]:
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
            yield rows.DUPLICATE_FEATURE.at(place, message, seen=_listed(spellings), expected="each name once")
    known = {name.casefold() for name in FEATURES}
    for name in sorted({name for names in lists.values() for name in names}):
        place = view.place._replace(key=name)
        if name not in FEATURES:
            if name in misspelt and name.casefold() in known:
                continue
            where = "readerFeatures" if name in lists["readerFeatures"] else "writerFeatures"
            yield rows.UNKNOWN_FEATURE.at(place, f"{where} has the unknown feature {name}", seen=name)
        elif stable_name(name) != name and name.endswith(("-preview", "-dev")):
            message = f"{name} is the preview name of {stable_name(name)}"
            yield rows.PREVIEW_FEATURE.at(place, message, seen=name)


def _duplicates(names: Iterable[str]) -> list[list[str]]:
    """Return the names that occur more than once in a list, ignoring case, each with its spellings."""
    spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        spellings[name.casefold()][name] += 1
    return [sorted(repeated.elements()) for repeated in spellings.values() if repeated.total() > 1]


@AREA.check(ProtocolView, rows.DEPENDENCY, rows.EXCLUSIVE)
def features_need_or_exclude_others(view: ProtocolView) -> Iterator[Finding]:
    """Spec: the sections of each feature. `catalog.ict-missing` reports the requirements of catalogs, and
    `iceberg.mapping-off` the column mapping that an active Iceberg compatibility requires.
    """
    protocol = view.config.protocol
    if protocol is None or not protocol_features.knows_features(protocol):
        return
    supported = {stable_name(name) for name in view.config.features}
    for name in sorted(view.config.features & FEATURES.keys()):
        feature = FEATURES[name]
        place = view.place._replace(key=name)
        is_active = feature.enabled_by is not None and view.config.is_on(feature.enabled_by)
        for needed in feature.requires:
            is_judged_elsewhere = needed == "columnMapping" and name.startswith("icebergCompat") and is_active
            if needed not in supported and not is_judged_elsewhere:
                yield rows.DEPENDENCY.at(place, f"{name} requires {needed}, which is not supported", expected=needed)
        for other in feature.excludes:
            if other in supported:
                message = f"{name} and {other} exclude each other, but both are supported"
                yield rows.EXCLUSIVE.at(place, message, seen=f"{name}, {other}", expected="one of the two")


@AREA.check(TableConfigurationView, rows.EXCLUSIVE)
def active_features_exclude_each_other(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: Writer Requirements for IcebergCompatV2."""
    iceberg, vectors = "delta.enableIcebergCompatV2", "delta.enableDeletionVectors"
    are_supported = {"icebergCompatV2", "deletionVectors"} <= view.config.features
    if are_supported and view.config.is_on(iceberg) and view.config.is_on(vectors):
        message = f"{iceberg} forbids deletion vectors, but {vectors} is true"
        yield rows.EXCLUSIVE.at(view.place._replace(key=vectors), message, seen="true", expected="false")


@AREA.check(HistoryView, rows.DOWNGRADE)
def protocol_gives_something_up(view: HistoryView) -> Iterator[Finding]:
    """A log that is notgin with version 0 may have been truncated for this change."""
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
    lost = sorted(name for name in before.supported_features if stable_name(name) not in kept)
    was_beyond = before.min_reader_version > NEWEST_READER_VERSION or before.min_writer_version > NEWEST_WRITER_VERSION
    is_lowered = after.min_reader_version < before.min_reader_version or (
        after.min_writer_version < before.min_writer_version
    )
    if not lost and not (was_beyond and is_lowered):
        return
    seen, expected = protocol_features.shown(after), f"at least {protocol_features.shown(before)}"
    place = commit.after.protocol_place or Place(f"{LOG_DIRECTORY}/{commit_name(commit.version)}", None, commit.version)
    given_up = ", ".join(lost) or expected.removeprefix("at least ")
    hinders_readers = was_beyond or any(_is_for_readers(name, before) for name in lost)
    message = f"version {commit.version} drops {given_up}, but older versions that may need it can still be read"
    severity = None if hinders_readers else Severity.WARNING
    yield rows.DOWNGRADE.at(place, message, seen=seen, expected=expected, severity=severity)


def _is_for_readers(name: str, protocol: Protocol) -> bool:
    feature = FEATURES.get(name)
    return name in (protocol.reader_features or ()) or (
        feature is not None and feature.kind is FeatureKind.READER_WRITER
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "an empty list"
