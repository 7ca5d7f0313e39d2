"""Rules about the history of a table: commit timestamps, vacuums, writers, and the reach of time travel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.core.times import CLOCK_SKEW_MS, format_timestamp
from deltacli.core.units import plural
from deltacli.delta.log.segment import MAX_TIME_MS, Place
from deltacli.delta.log.state import IN_COMMIT_KEYS, IN_COMMIT_TIMESTAMPS, InCommitKeys, parse_integer_property
from deltacli.delta.paths.spelling_columns import locate_all
from deltacli.delta.protocol.features import CATALOG_FEATURES
from deltacli.rules.files.storage import Compared
from deltacli.rules.framework.base import LOST_BY_VACUUM, Area, Finding, Level, Severity, from_a_copy
from deltacli.rules.framework.views import CommitView, HistoryView, ListingView, StorageView, TableConfigurationView
from deltacli.rules.log.log_files import gaps_of, is_copied

AREA = Area("history")

OPERATION_MISSING = AREA.info(
    "history.operation-missing",
    "A commitInfo has no operation.",
    spec="Commit Provenance Information",
    broken="nothing: the history does not show what the commit did",
    repair="no repair needed",
    example='{"commitInfo":{"timestamp":1768003200000}}',
)
VACUUM_START_WITHOUT_END = AREA.warning(
    "history.vacuum-start-without-end",
    "A vacuum has started but not ended.",
    spec="Delta-Spark: VACUUM START, VACUUM END",
    broken="the vacuum was interrupted: some of the files it should delete are deleted, others not",
    repair="run the vacuum again",
    loss=LOST_BY_VACUUM,
    example='{"commitInfo":{"operation":"VACUUM START",…}} as the newest commit',
)
VACUUM_SHORT_RETENTION = AREA.warning(
    "history.vacuum-short-retention",
    "A vacuum used a retention below the table's, or had the retention check disabled.",
    spec="Delta-Spark: VACUUM START, specifiedRetentionMillis and retentionCheckEnabled",
    broken="running readers and writers may have lost files; time travel reaches less far than it should",
    repair=LazyText(
        "past versions cannot be repaired; compare the files with the log ({})",
        partial(command, "validate", table=None, level="storage"),
    ),
    loss="files that were still in use, if there were any",
    example='{"operation":"VACUUM START","operationParameters":{"specifiedRetentionMillis":0,…}}',
)
TIME_TRAVEL_BROKEN = AREA.warning(
    "history.time-travel-broken",
    "The log can rebuild a version whose files are missing.",
    spec="Overview",
    broken="readers open the version and fail on its files",
    repair=from_a_copy(
        "use equal retentions for log and files; to bring the files of version N back from a copy", version="N"
    ),
    loss="time travel to that version and older ones",
    example="a vacuum after 7 days, and a log of 30 days",
    level=Level.STORAGE,
)
RESTORE_RISK = AREA.info(
    "history.restore-risk",
    "Some versions are no longer readable. This is the oldest version with complete log and files.",
    spec="Delta-Spark: RESTORE",
    broken="nothing: a restore to an older version fails",
    repair="no repair needed; longer retentions keep more versions",
    loss="nothing more",
    example="commits 0 to 9 are gone: version 10 is the oldest",
    level=Level.STORAGE,
)
WRITER_MIX = AREA.info(
    "history.writer-mix",
    "Several engines, or several versions of an engine, have written to the table.",
    spec="Commit Provenance Information",
    broken="nothing: engines differ in what they write and enforce",
    repair="no repair needed; check this first when commits contradict each other",
    example='"engineInfo":"Apache-Spark/3.5.3 …" and "engineInfo":"delta-rs:py-1.6.6"',
)
CONCURRENT_VERSION_HOLE = AREA.warning(
    "history.concurrent-version-hole",
    "A commit that depends on what it read was prepared many versions earlier.",
    spec="Delta-Spark: commitInfo.readVersion and isBlindAppend",
    broken="possibly nothing: if its writer did not check for conflicts, it ignored the commits in between",
    repair="check the changes of the versions in between",
    loss="changes of the versions in between, if they were ignored",
    example='{"commitInfo":{"readVersion":3,"isBlindAppend":false,…}} in version 50',
)


VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
FAR_BEHIND = 1_000
"A commit that was prepared this many versions earlier is unusual in any table."
BEHIND_IN_YOUNG_TABLES = 10
"In a short history more than this number of versions is unusual, if it is also most of the history."
_INTEGER = re.compile("-?[0-9]{1,18}")


@AREA.check(CommitView, OPERATION_MISSING)
def commit_without_operation(view: CommitView) -> Iterator[Finding]:
    """Spec: Commit Provenance Information. `commit.no-provenance` reports a commit without any."""
    info = view.commit_info
    if info is not None and not info.get("operation"):
        yield OPERATION_MISSING.at(view.place(), f"the commitInfo of version {view.version} names no operation")


@AREA.check(HistoryView, VACUUM_START_WITHOUT_END)
def vacuums_without_end(view: HistoryView) -> Iterator[Finding]:
    """An end closes the newest open start, so that two concurrent vacuums are kept apart."""
    started: list[CommitView] = []
    for commit in view.commits:
        operation = (commit.commit_info or {}).get("operation")
        if operation == VACUUM_START:
            started.append(commit)
        elif operation == VACUUM_END and started:
            started.pop()
    for commit in started:
        message = (
            f"the vacuum that began at version {commit.version} has no end: it was interrupted or is still running"
        )
        yield VACUUM_START_WITHOUT_END.at(commit.place(), message, seen=VACUUM_START, expected=VACUUM_END)


@AREA.check(CommitView, VACUUM_SHORT_RETENTION)
def vacuum_with_short_retention(view: CommitView) -> Iterator[Finding]:
    """Writers record these parameters as numbers or as text."""
    info = view.commit_info or {}
    parameters = info.get("operationParameters")
    if info.get("operation") != VACUUM_START or not isinstance(parameters, dict):
        return
    specified = _integer(parameters.get("specifiedRetentionMillis"))
    default = _integer(parameters.get("defaultRetentionMillis"))
    if specified is not None and default is not None and specified < default:
        message = f"version {view.version} ran vacuum with a retention shorter than the table's"
        yield VACUUM_SHORT_RETENTION.at(view.place(), message, seen=f"{specified} ms", expected=f">= {default} ms")
    elif str(parameters.get("retentionCheckEnabled")).strip('"').lower() == "false":
        message = f"version {view.version} ran vacuum with the retention check disabled"
        yield VACUUM_SHORT_RETENTION.at(view.place(), message, seen="retentionCheckEnabled: false", expected="true")


def _integer(value: object) -> int | None:
    if type(value) is int:
        return value
    text = value.strip('"') if isinstance(value, str) else ""
    return int(text) if _INTEGER.fullmatch(text) else None


@AREA.check(HistoryView, WRITER_MIX)
def several_writers(view: HistoryView) -> Iterator[Finding]:
    """Report the engines, and their versions, that have written to the table."""
    first: dict[str, CommitView] = {}
    for commit in view.commits:
        engine = (commit.commit_info or {}).get("engineInfo")
        if isinstance(engine, str) and engine:
            first.setdefault(engine, commit)
    if len(first) > 1:
        newest = max(first.values(), key=lambda commit: commit.version)
        message = f"{len(first)} engines, or versions of engines, have written to this table"
        yield WRITER_MIX.at(newest.place(), message, seen=", ".join(sorted(first)))


@AREA.check(CommitView, CONCURRENT_VERSION_HOLE)
def commit_far_behind(view: CommitView) -> Iterator[Finding]:
    """Report a `readVersion` far below the previous version, in a commit that depends on what it read."""
    info = view.commit_info or {}
    read = info.get("readVersion")
    if type(read) is not int or info.get("isBlindAppend") is not False or read < -1:
        return
    behind = view.version - 1 - read
    if behind > FAR_BEHIND or (behind > BEHIND_IN_YOUNG_TABLES and 2 * behind > view.version):
        message = f"version {view.version} was prepared on version {read}, {plural(behind, 'version')} earlier"
        yield CONCURRENT_VERSION_HOLE.at(view.place(), message, seen=read, expected=view.version - 1)


@AREA.check(StorageView, TIME_TRAVEL_BROKEN, RESTORE_RISK)
def how_far_time_travel_reaches(view: StorageView) -> Iterator[Finding]:
    """A version needs the files that later ones removed, although the log may still rebuild it."""
    run = _newest_run(view.commits)
    base = _oldest_rebuilt(run, view.state.version)
    compared = Compared(view)
    gone = _removed_and_gone(run, base, compared)
    oldest = max([base, *gone])
    if gone:
        versions = sorted(gone)
        message = (
            f"version {oldest - 1} can be rebuilt from the log but needs missing files, for example {gone[oldest]}"
        )
        if len(versions) > 1:
            message += f"; so do older ones, down to version {versions[0] - 1}"
        place = view.state.place(gone[oldest])._replace(version=oldest - 1, path=_path_of(run, oldest - 1))
        yield TIME_TRAVEL_BROKEN.at(place, message, seen=f"broken: version {oldest - 1}", expected="every file")
    if oldest > 0 and not compared.absent_rows:
        message = f"all versions from {oldest} on are complete, both log and files; some older versions are not"
        place = Place(_path_of(run, oldest), version=oldest)
        yield RESTORE_RISK.at(place, message, seen=oldest, expected=0)


def _newest_run(commits: Iterable[CommitView]) -> list[CommitView]:
    """Return the newest commits without a gap. A checkpoint does not replace a missing commit."""
    run: list[CommitView] = []
    for commit in commits:
        step = commit.version - run[-1].version if run else 1
        if step > 2 or (step == 2 and not _follows_checkpoint(commit)):
            run = []
        run.append(commit)
    return run


def _oldest_rebuilt(run: list[CommitView], newest: int) -> int:
    """Return the oldest version of a run that can be rebuilt: 0, or that of the checkpoint before the first commit."""
    if run and run[0].version == 0:
        return 0
    return next((commit.version - 1 for commit in run if _follows_checkpoint(commit)), newest)


def _follows_checkpoint(commit: CommitView) -> bool:
    """Return True if the state before a commit is known from a checkpoint, even if its own commit is missing."""
    place = commit.before.metadata_place
    return place is not None and ".checkpoint." in place.path


def _removed_and_gone(run: list[CommitView], base: int, compared: Compared) -> dict[int, str]:
    """Return version that removed a missing file -> that file, for versions whose predecessor the log can rebuild.
    `data.file-missing` reports files that are still live with another deletion vector.
    """
    view, live = compared.view, compared.absent_names
    removed_and_gone: dict[int, str] = {}
    for commit in run:
        if commit.version <= base or not commit.removes:
            continue
        paths = locate_all((placed.action.get("path") for placed in commit.removes), view.uri)
        named = (path for path in paths if path is not None and path not in live)
        gone = next((path for path in named if not view.may_be_there(path)), None)
        if gone is not None:
            removed_and_gone[commit.version] = gone
    return removed_and_gone


def _path_of(run: list[CommitView], version: int) -> str:
    return next((commit.path for commit in run if commit.version == version), "_delta_log")


# -- rules about in-commit timestamps ----------------------------------------------------------------------------------

COMMIT_TIME_AREA = Area("commit_times", spec="In-Commit Timestamps")

MISSING = COMMIT_TIME_AREA.error(
    "ict.missing",
    "In-commit timestamps are on, but a commit has none.",
    broken="the version has no time: time travel by timestamp fails or is wrong",
    repair="past versions cannot be repaired; find the writer that does not support the feature",
    loss="the true time of that version",
    example='{"commitInfo":{"operation":"WRITE"}} with delta.enableInCommitTimestamps=true',
)
NOT_FIRST = COMMIT_TIME_AREA.error(
    "ict.not-first",
    "In-commit timestamps are on, but commitInfo is not the first action of a commit.",
    broken="readers may read only the first line and find no time",
    repair="past versions cannot be repaired; find the writer that orders actions differently",
    example='{"add":{…}} before {"commitInfo":{"inCommitTimestamp":…}}',
)
NOT_MONOTONE = COMMIT_TIME_AREA.error(
    "ict.not-monotone",
    "An in-commit timestamp is not later than that of the previous version.",
    broken="time travel by timestamp searches a sorted list and finds the wrong version",
    repair="past versions cannot be repaired; check the clocks of the writers",
    example="inCommitTimestamp 1000 in version 4, 1000 in version 5",
)
ENABLEMENT_PROPERTIES = COMMIT_TIME_AREA.error(
    "ict.enablement-properties",
    "The properties that record when in-commit timestamps were enabled are incomplete, missing or wrong.",
    broken="readers do not know which versions use file times; Delta-Spark fails if one of the two is missing",
    repair="set both delta.inCommitTimestampEnablement… properties to the first such version and its time",
    example="delta.inCommitTimestampEnablementVersion=3 without delta.inCommitTimestampEnablementTimestamp",
)
ENABLE_BEFORE_MTIME = COMMIT_TIME_AREA.warning(
    "ict.enable-before-mtime",
    "The commit that enables in-commit timestamps has one that is not later than the file of the previous version.",
    spec="In-Commit Timestamps, writer requirement 5",
    broken="times of versions decrease there: time travel by timestamp may find the wrong version",
    repair="past versions cannot be repaired",
    example="inCommitTimestamp 11:59 in version 3, and a file of 12:00 for version 2",
)
FUTURE = COMMIT_TIME_AREA.warning(
    "ict.future",
    "An in-commit timestamp is in the future. It is an error if no later one fits 64 bits in microseconds.",
    broken="later commits must use even later timestamps; time travel to now misses the version; if no later "
    "timestamp fits, nothing can be committed and change data feeds fail",
    repair="check the clock of the writer; the fault disappears as time passes. If no later timestamp fits, restore "
    "the log from a backup",
    loss="nothing; after a restore, the changes of that version and of later ones",
    example="an inCommitTimestamp of tomorrow",
)
WITHOUT_FEATURE = COMMIT_TIME_AREA.error(
    "ict.without-feature",
    "In-commit timestamps are enabled in a table that does not support them.",
    broken="writers need not write them, so versions have no in-commit timestamp",
    repair="add the feature inCommitTimestamp to the protocol, or unset the property",
    loss="the true times of versions that have one, if the property is unset",
    example='{"minReaderVersion":1,"minWriterVersion":2} with delta.enableInCommitTimestamps=true',
)
UNPUBLISHED_POSSIBLE = COMMIT_TIME_AREA.info(
    "catalog.unpublished-possible",
    "A catalog manages the table, so versions may exist that are not in the log yet.",
    spec="Catalog-managed tables",
    broken="nothing: only published versions were checked",
    repair="no repair needed",
    example='"writerFeatures":["catalogManaged",…]',
)
TXNID_MISSING = COMMIT_TIME_AREA.error(
    "catalog.txnid-missing",
    "A catalog manages the table, but a commit has no commitInfo.txnId.",
    spec="Writer Requirements for Catalog-managed tables",
    broken="a writer that loses the response cannot determine whether the commit is its own",
    repair="past versions cannot be repaired; find the writer that does not support the feature",
    example='{"commitInfo":{"inCommitTimestamp":…}} with the feature catalogManaged',
)
CATALOG_ICT_MISSING = COMMIT_TIME_AREA.error(
    "catalog.ict-missing",
    "A catalog manages the table, but in-commit timestamps are not on.",
    spec="Catalog-managed tables",
    broken="files are published late, so versions have no reliable time",
    repair="turn in-commit timestamps on through the catalog",
    loss="the true times of versions until then",
    example='"writerFeatures":["catalogManaged"] without delta.enableInCommitTimestamps=true',
)
PUBLISH_ORDER = COMMIT_TIME_AREA.error(
    "catalog.publish-order",
    "A catalog manages the table, and a version is published although an earlier one is not.",
    spec="Publishing Commits",
    broken="the newest version cannot be rebuilt from the log",
    repair="let the catalog publish the missing version, or restore it from a backup",
    loss="the changes of the missing version, if the catalog no longer has it",
    example="00000000000000000007.json, 00000000000000000009.json",
)
CATALOG_DIVERGED = COMMIT_TIME_AREA.error(
    "catalog.diverged",
    "The catalog that manages the table has ratified another commit than the log has.",
    spec="Catalog-managed tables; Publishing Commits",
    broken="readers by path see other rows than readers by the catalog, and nothing more is published",
    repair="only the owner of the catalog can put it right: the catalog decides which commit is the version",
    loss="the changes of the commit that is given up",
    example="00000000000000000007.json with other lines than the staged commit of version 7 that the catalog names",
)
CATALOG_STAGED_MISSING = COMMIT_TIME_AREA.warning(
    "catalog.staged-missing",
    "The staged file of a commit is missing, and the catalog does not know yet that the commit is published.",
    spec="Catalog-managed tables; Publishing Commits",
    broken="readers that look for the staged file fail until the publication is reported",
    repair="catalog publish reports it: the published file has the size and the time that the catalog ratified",
    example="00000000000000000007.json, and a catalog that still names its staged file, which is missing",
)
READABLE_PARTIALLY = COMMIT_TIME_AREA.warning(
    "amt.readable-partially",
    "The table keeps its state in manifests (adaptiveMetadata). Only its log was checked.",
    spec="RFC: Iceberg v4 metadata",
    broken="nothing known: files named by manifests were not checked",
    repair="check the table with an engine that supports the feature",
    example='"readerFeatures":["adaptiveMetadata-preview",…]',
)


MANAGED_BY_CATALOG = frozenset({"catalogManaged", "catalogOwned-preview"})
ADAPTIVE = frozenset({"adaptiveMetadata", "adaptiveMetadata-preview"})


@COMMIT_TIME_AREA.check(CommitView, MISSING, NOT_FIRST, NOT_MONOTONE, FUTURE)
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


@COMMIT_TIME_AREA.check(CommitView, ENABLE_BEFORE_MTIME)
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


@COMMIT_TIME_AREA.check(HistoryView, ENABLEMENT_PROPERTIES)
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
        keys = config.in_commit_timestamp_keys
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
        yield rule.at(place, f"the table has {has} but not {lacks}", key=lacks, seen=has, expected=lacks)
    elif version_text is None:
        if has_older:
            message = "older versions have no in-commit timestamps, but no property records the first version with them"
            yield rule.at(place, message, expected=f"{keys.version}, {keys.timestamp}")
    else:
        version = parse_integer_property(config.properties, keys.version)
        timestamp = parse_integer_property(config.properties, keys.timestamp)
        found = times.get(version) if version is not None else None
        if found is not None and timestamp is not None and found != timestamp:
            message = f"{keys.timestamp} is not the in-commit timestamp of version {version}"
            yield rule.at(place, message, key=keys.timestamp, seen=timestamp, expected=found)


@COMMIT_TIME_AREA.check(TableConfigurationView, WITHOUT_FEATURE)
def property_without_feature(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: In-Commit Timestamps."""
    config = view.config
    if config.protocol is None or config.has_ict:
        return
    for feature, (switch, *_) in IN_COMMIT_KEYS.items():
        if config.is_on(switch):
            message = f"{switch} is true, but the protocol lacks the feature {feature}, so it has no effect"
            yield WITHOUT_FEATURE.at(view.place, message, key=switch, expected=feature)


@COMMIT_TIME_AREA.check(ListingView, UNPUBLISHED_POSSIBLE, READABLE_PARTIALLY)
def state_outside_the_log(view: ListingView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables; RFC: Iceberg v4 metadata."""
    if names := sorted(view.config.features & CATALOG_FEATURES):
        message = f"a catalog manages this table, so versions after {view.listing.newest_version} may exist there"
        yield UNPUBLISHED_POSSIBLE.at(view.place(), message, seen=", ".join(names))
    if names := sorted(view.config.features & ADAPTIVE):
        message = "the state of this table is partly in manifests, so only its log was checked"
        yield READABLE_PARTIALLY.at(view.place(), message, seen=", ".join(names))


@COMMIT_TIME_AREA.check(ListingView, CATALOG_DIVERGED)
def other_commits_than_ratified(view: ListingView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables (a ratified commit is immutable)."""
    for version, difference in view.of_catalog:
        rule = CATALOG_DIVERGED
        if version in view.proposable:
            advice = "catalog publish proposes the staged file of the version to the catalog again, with the same lines"
            rule = rule._replace(fix=rule.fix._replace(advice=advice, loss="nothing"))
        yield rule.at(view.place(f"{version:020d}.json", version), f"version {version}: {difference}")


@COMMIT_TIME_AREA.check(ListingView, CATALOG_STAGED_MISSING)
def staged_files_that_are_gone(view: ListingView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables (a ratified commit is staged until its publication is known)."""
    for version in view.replaced_staged:
        message = f"the staged file of version {version} is gone, and the published one is as ratified"
        yield CATALOG_STAGED_MISSING.at(view.place(f"{version:020d}.json", version), message)


@COMMIT_TIME_AREA.check(CommitView, TXNID_MISSING)
def catalog_commit_without_id(view: CommitView) -> Iterator[Finding]:
    """Spec: Writer Requirements for Catalog-managed tables. A commit without commitInfo is reported as such."""
    info = view.commit_info
    if info is not None and view.is_readable and view.after.features & MANAGED_BY_CATALOG and not info.get("txnId"):
        message = f"version {view.version} has no commitInfo.txnId, by which a catalog recognizes its commits"
        yield TXNID_MISSING.at(view.place(), message, expected="commitInfo.txnId")


@COMMIT_TIME_AREA.check(TableConfigurationView, CATALOG_ICT_MISSING)
def catalog_without_in_commit_timestamps(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables (they require in-commit timestamps to be active)."""
    config = view.config
    if config.metadata is not None and config.features & MANAGED_BY_CATALOG and not config.has_ict:
        message = "a catalog manages this table, but in-commit timestamps are not on"
        seen = config.properties.get(IN_COMMIT_TIMESTAMPS) or "unset"
        yield CATALOG_ICT_MISSING.at(view.place, message, key=IN_COMMIT_TIMESTAMPS, seen=seen, expected="true")


@COMMIT_TIME_AREA.check(ListingView, PUBLISH_ORDER)
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
