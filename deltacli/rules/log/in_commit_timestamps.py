"""Rules about in-commit timestamps, and about tables whose state is not only in the log."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.units import CLOCK_SKEW_MS, format_timestamp
from deltacli.delta.log.segment import MAX_TIME_MS
from deltacli.delta.protocol.features import CATALOG_FEATURES
from deltacli.delta.protocol.property_values import IN_COMMIT_KEYS, IN_COMMIT_TIMESTAMPS, InCommitKeys, parse_integer
from deltacli.rules.framework.base import Area, Finding, Severity
from deltacli.rules.framework.views import CommitView, HistoryView, ListingView, TableConfigurationView
from deltacli.rules.log.file_times import is_copied
from deltacli.rules.log.log_files import gaps_of

AREA = Area("commit_times", spec="In-Commit Timestamps")

MISSING = AREA.error(
    "ict.missing",
    "In-commit timestamps are on, but a commit has none.",
    broken="the version has no time: time travel by timestamp fails or is wrong",
    repair="past versions cannot be repaired; find the writer that does not support the feature",
    loss="the true time of that version",
    example='{"commitInfo":{"operation":"WRITE"}} with delta.enableInCommitTimestamps=true',
)
NOT_FIRST = AREA.error(
    "ict.not-first",
    "In-commit timestamps are on, but commitInfo is not the first action of a commit.",
    broken="readers may read only the first line and find no time",
    repair="past versions cannot be repaired; find the writer that orders actions differently",
    example='{"add":{…}} before {"commitInfo":{"inCommitTimestamp":…}}',
)
NOT_MONOTONE = AREA.error(
    "ict.not-monotone",
    "An in-commit timestamp is not later than that of the previous version.",
    broken="time travel by timestamp searches a sorted list and finds the wrong version",
    repair="past versions cannot be repaired; check the clocks of the writers",
    example="inCommitTimestamp 1000 in version 4, 1000 in version 5",
)
ENABLEMENT_PROPERTIES = AREA.error(
    "ict.enablement-properties",
    "The properties that record when in-commit timestamps were enabled are incomplete, missing or wrong.",
    broken="readers do not know which versions use file times; Delta-Spark fails if one of the two is missing",
    repair="set both delta.inCommitTimestampEnablement… properties to the first such version and its time",
    example="delta.inCommitTimestampEnablementVersion=3 without delta.inCommitTimestampEnablementTimestamp",
)
ENABLE_BEFORE_MTIME = AREA.warning(
    "ict.enable-before-mtime",
    "The commit that enables in-commit timestamps has one that is not later than the file of the previous version.",
    spec="In-Commit Timestamps, writer requirement 5",
    broken="times of versions decrease there: time travel by timestamp may find the wrong version",
    repair="past versions cannot be repaired",
    example="inCommitTimestamp 11:59 in version 3, and a file of 12:00 for version 2",
)
FUTURE = AREA.warning(
    "ict.future",
    "An in-commit timestamp is in the future. It is an error if no later one fits 64 bits in microseconds.",
    broken="later commits must use even later timestamps; time travel to now misses the version; if no later "
    "timestamp fits, nothing can be committed and change data feeds fail",
    repair="check the clock of the writer; the fault disappears as time passes. If no later timestamp fits, restore "
    "the log from a backup",
    loss="nothing; after a restore, the changes of that version and of later ones",
    example="an inCommitTimestamp of tomorrow",
)
WITHOUT_FEATURE = AREA.error(
    "ict.without-feature",
    "In-commit timestamps are enabled in a table that does not support them.",
    broken="writers need not write them, so versions have no in-commit timestamp",
    repair="add the feature inCommitTimestamp to the protocol, or unset the property",
    loss="the true times of versions that have one, if the property is unset",
    example='{"minReaderVersion":1,"minWriterVersion":2} with delta.enableInCommitTimestamps=true',
)
UNPUBLISHED_POSSIBLE = AREA.info(
    "catalog.unpublished-possible",
    "A catalog manages the table, so versions may exist that are not in the log yet.",
    spec="Catalog-managed tables",
    broken="nothing: only published versions were checked",
    repair="no repair needed",
    example='"writerFeatures":["catalogManaged",…]',
)
TXNID_MISSING = AREA.error(
    "catalog.txnid-missing",
    "A catalog manages the table, but a commit has no commitInfo.txnId.",
    spec="Writer Requirements for Catalog-managed tables",
    broken="a writer that loses the response cannot determine whether the commit is its own",
    repair="past versions cannot be repaired; find the writer that does not support the feature",
    example='{"commitInfo":{"inCommitTimestamp":…}} with the feature catalogManaged',
)
CATALOG_ICT_MISSING = AREA.error(
    "catalog.ict-missing",
    "A catalog manages the table, but in-commit timestamps are not on.",
    spec="Catalog-managed tables",
    broken="files are published late, so versions have no reliable time",
    repair="turn in-commit timestamps on through the catalog",
    loss="the true times of versions until then",
    example='"writerFeatures":["catalogManaged"] without delta.enableInCommitTimestamps=true',
)
PUBLISH_ORDER = AREA.error(
    "catalog.publish-order",
    "A catalog manages the table, and a version is published although an earlier one is not.",
    spec="Publishing Commits",
    broken="the newest version cannot be rebuilt from the log",
    repair="let the catalog publish the missing version, or restore it from a backup",
    loss="the changes of the missing version, if the catalog no longer has it",
    example="00000000000000000007.json, 00000000000000000009.json",
)
READABLE_PARTIALLY = AREA.warning(
    "amt.readable-partially",
    "The table keeps its state in manifests (adaptiveMetadata). Only its log was checked.",
    spec="RFC: Iceberg v4 metadata",
    broken="nothing known: files named by manifests were not checked",
    repair="check the table with an engine that supports the feature",
    example='"readerFeatures":["adaptiveMetadata-preview",…]',
)


MANAGED_BY_CATALOG = frozenset({"catalogManaged", "catalogOwned-preview"})
ADAPTIVE = frozenset({"adaptiveMetadata", "adaptiveMetadata-preview"})


@AREA.check(CommitView, MISSING, NOT_FIRST, NOT_MONOTONE, FUTURE)
def in_commit_timestamp_of_a_commit(view: CommitView) -> Iterator[Finding]:
    """Spec: In-Commit Timestamps."""
    if not view.after.has_ict or not view.is_readable:
        return
    found = view.in_commit_timestamp
    if found is None:
        seen = "no commitInfo" if view.commit_info is None else (view.commit_info.get("inCommitTimestamp") or "none")
        message = f"version {view.version} has no in-commit timestamp, although they are on"
        yield MISSING.at(view.place(), message, seen=seen, expected="commitInfo.inCommitTimestamp")
        return
    if view.first_kind != "commitInfo":
        message = (
            f"the first action of version {view.version} is {view.first_kind}, but readers expect commitInfo there"
        )
        yield NOT_FIRST.at(view.place(1), message, seen=view.first_kind, expected="commitInfo")
    line = next(placed.line for placed in view.others if placed.kind == "commitInfo")
    before = view.previous.in_commit_timestamp if view.previous and view.previous.after.has_ict else None
    if found < -MAX_TIME_MS:
        message = f"the in-commit timestamp of version {view.version} does not fit 64 bits in microseconds"
        yield NOT_MONOTONE.at(view.place(line), message, seen=found, expected=f">= {-MAX_TIME_MS}")
    elif before is not None and found <= before:
        message = (
            f"the in-commit timestamp of version {view.version} is not later than that of version {view.version - 1}"
        )
        yield NOT_MONOTONE.at(view.place(line), message, seen=found, expected=f"> {before}")
    if found >= MAX_TIME_MS:
        message = (
            f"no timestamp can follow that of version {view.version}: it is the last one that fits 64 bits, or above"
        )
        place = view.place(line)
        yield FUTURE.at(place, message, seen=found, expected=f"< {MAX_TIME_MS}", severity=Severity.ERROR)
    elif found > view.now_ms + CLOCK_SKEW_MS:
        message = f"the in-commit timestamp of version {view.version} is in the future"
        expected = f"<= {format_timestamp(view.now_ms)}"
        yield FUTURE.at(view.place(line), message, seen=format_timestamp(found), expected=expected)


@AREA.check(CommitView, ENABLE_BEFORE_MTIME)
def enabling_is_older_than_the_file_before(view: CommitView) -> Iterator[Finding]:
    """Spec: In-Commit Timestamps, writer requirement 5. The file times of a copied log are ignored."""
    found, previous = view.in_commit_timestamp, view.previous
    if found is None or previous is None or not view.after.has_ict or view.before.has_ict or is_copied(previous):
        return
    if found <= previous.modified_ms:
        message = (
            f"version {view.version} turns in-commit timestamps on with a timestamp not later than the previous file"
        )
        seen, expected = format_timestamp(found), f"> {format_timestamp(previous.modified_ms)}"
        yield ENABLE_BEFORE_MTIME.at(view.place(), message, seen=seen, expected=expected)


@AREA.check(HistoryView, ENABLEMENT_PROPERTIES)
def enablement_properties(view: HistoryView) -> Iterator[Finding]:
    """Spec: In-Commit Timestamps. Checked at each version whose commit has a metaData or turns the feature on."""
    times = {commit.version: commit.in_commit_timestamp for commit in view.commits if commit.after.has_ict}
    has_older = False
    judged: set[tuple[str | None, str | None, bool]] = set()
    for commit in view.commits:
        config = commit.after
        if not config.has_ict:
            # Without a protocol or a metaData the configuration is unknown: a log that begins with a checkpoint.
            has_older = has_older or (config.protocol is not None and config.metadata is not None)
            continue
        if config is commit.before:
            continue
        keys = config.in_commit_keys
        assert keys is not None
        texts = (config.properties.get(keys.version), config.properties.get(keys.timestamp))
        if (*texts, has_older) not in judged:
            judged.add((*texts, has_older))
            yield from _enablement_of(commit, keys, times, has_older=has_older)


def _enablement_of(
    commit: CommitView, keys: InCommitKeys, times: dict[int, int | None], *, has_older: bool
) -> Iterator[Finding]:
    config = commit.after
    version_text, timestamp_text = config.properties.get(keys.version), config.properties.get(keys.timestamp)
    place = (config.metadata_place or commit.place())._replace(key=keys.version)
    rule = ENABLEMENT_PROPERTIES
    if (version_text is None) != (timestamp_text is None):
        has, lacks = keys.version, keys.timestamp
        if version_text is None:
            has, lacks = lacks, has
        yield rule.at(place._replace(key=lacks), f"the table has {has} but not {lacks}", seen=has, expected=lacks)
    elif version_text is None:
        if has_older:
            message = "older versions have no in-commit timestamps, but no property records the first version with them"
            yield rule.at(place, message, expected=f"{keys.version}, {keys.timestamp}")
    else:
        version = parse_integer(config.properties, keys.version)
        timestamp = parse_integer(config.properties, keys.timestamp)
        found = times.get(version) if version is not None else None
        if found is not None and timestamp is not None and found != timestamp:
            message = f"{keys.timestamp} is not the in-commit timestamp of version {version}"
            yield rule.at(place._replace(key=keys.timestamp), message, seen=timestamp, expected=found)


@AREA.check(TableConfigurationView, WITHOUT_FEATURE)
def property_without_feature(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: In-Commit Timestamps."""
    config = view.config
    if config.protocol is None or config.has_ict:
        return
    for feature, (switch, *_) in IN_COMMIT_KEYS.items():
        if config.is_on(switch):
            message = f"{switch} is true, but the protocol lacks the feature {feature}, so it has no effect"
            yield WITHOUT_FEATURE.at(view.place._replace(key=switch), message, expected=feature)


@AREA.check(ListingView, UNPUBLISHED_POSSIBLE, READABLE_PARTIALLY)
def state_outside_the_log(view: ListingView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables; RFC: Iceberg v4 metadata."""
    if names := sorted(view.config.features & CATALOG_FEATURES):
        message = f"a catalog manages this table, so versions after {view.listing.newest_version} may exist there"
        yield UNPUBLISHED_POSSIBLE.at(view.place(), message, seen=", ".join(names))
    if names := sorted(view.config.features & ADAPTIVE):
        message = "the state of this table is partly in manifests, so only its log was checked"
        yield READABLE_PARTIALLY.at(view.place(), message, seen=", ".join(names))


@AREA.check(CommitView, TXNID_MISSING)
def catalog_commit_without_id(view: CommitView) -> Iterator[Finding]:
    """Spec: Writer Requirements for Catalog-managed tables. A commit without commitInfo is reported as such."""
    info = view.commit_info
    if info is not None and view.is_readable and view.after.features & MANAGED_BY_CATALOG and not info.get("txnId"):
        message = f"version {view.version} has no commitInfo.txnId, by which a catalog recognizes its commits"
        yield TXNID_MISSING.at(view.place(), message, expected="commitInfo.txnId")


@AREA.check(TableConfigurationView, CATALOG_ICT_MISSING)
def catalog_without_in_commit_timestamps(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables (they require in-commit timestamps to be active)."""
    config = view.config
    if config.metadata is not None and config.features & MANAGED_BY_CATALOG and not config.has_ict:
        message = "a catalog manages this table, but in-commit timestamps are not on"
        seen = config.properties.get(IN_COMMIT_TIMESTAMPS) or "unset"
        place = view.place._replace(key=IN_COMMIT_TIMESTAMPS)
        yield CATALOG_ICT_MISSING.at(place, message, seen=seen, expected="true")


@AREA.check(ListingView, PUBLISH_ORDER)
def published_out_of_order(view: ListingView) -> Iterator[Finding]:
    """Spec: Publishing Commits (in order). `log.gap` reports versions missing below a checkpoint."""
    if not view.config.features & CATALOG_FEATURES:
        return
    base = max((instance.version for instance in view.listing.checkpoints), default=-1)
    for first, last in gaps_of(view.listing):
        if first > base:
            missing = f"version {first} is" if first == last else f"versions {first} to {last} are"
            message = f"{missing} not published, although version {last + 1} is"
            place = view.place(version=last + 1)
            yield PUBLISH_ORDER.at(place, message, seen=last + 1, expected=first)
