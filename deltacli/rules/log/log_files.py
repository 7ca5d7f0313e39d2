"""Rules about the files of the log: their names and their times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from deltacli.core.ranges import find_ranges, format_ranges, name_ranges
from deltacli.core.times import CLOCK_SKEW_MS, DAY_MS, format_timestamp
from deltacli.core.units import plural
from deltacli.delta.log import segment, state
from deltacli.delta.protocol.features import CATALOG_FEATURES
from deltacli.rules.framework.base import Area, Finding, Level, Severity, from_a_copy
from deltacli.rules.framework.views import CommitView, HistoryView, ListingView, StorageView, hidden_names

AREA = Area("log_files", spec="Delta Log Entries")

NOT_A_TABLE = AREA.error(
    "log.not-a-table",
    "The directory has no log, or a log without a commit and without a complete checkpoint.",
    spec="File Types",
    broken="no version can be rebuilt",
    repair=from_a_copy("pass the directory that contains _delta_log, or bring it back from a copy"),
    loss="every version, unless a backup has them",
    example="an empty _delta_log",
)
GAP = AREA.error(
    "log.gap",
    "Commits are missing in between, so the newest version cannot be rebuilt, or (a warning) older ones cannot.",
    spec="Delta Table Specification",
    broken="versions must be contiguous; the changes of the missing commits are unknown",
    repair=from_a_copy("bring the missing commits back from a copy"),
    loss="nothing if a copy has them; without one, every version that needs them",
    example="00000000000000000001.json, 00000000000000000003.json, and no checkpoint from 2 on",
)
START_MISSING = AREA.error(
    "log.start-missing",
    "The log has neither commit 0 nor a complete checkpoint to start from.",
    spec="Checkpoints; Metadata Cleanup",
    broken="commits hold only changes; without a starting point no version can be rebuilt",
    repair=from_a_copy("bring the older commits, or a checkpoint, back from a copy"),
    loss="every version, unless a backup has them",
    example="a log that begins with 00000000000000000007.json and has no checkpoint",
)
CHECKPOINT_COMMIT_MISSING = AREA.error(
    "log.checkpoint-commit-missing",
    "A complete checkpoint has no commit of its own version. A warning if readers begin with a newer checkpoint.",
    spec="Metadata Cleanup, step 2",
    broken="the time and the provenance of the version are lost; Delta Kernel for Java needs the commit of the "
    "checkpoint that it begins with, Spark a commit at or after it",
    repair="restore the commit from a backup; if the checkpoint is the newest version, a further commit helps",
    loss="the history of that version",
    example="00000000000000000010.checkpoint.parquet without 00000000000000000010.json",
)
NAME_NOT_PADDED = AREA.error(
    "log.name-not-padded",
    "A version in a file name does not have exactly 20 digits.",
    broken="some engines read the file as that version, others ignore it",
    repair="find out which engine wrote it; rename or delete it manually",
    loss="the changes of that file, if it is deleted and some version needs it",
    example="_delta_log/12.json",
)
NAME_MISTAKEN = AREA.error(
    "log.name-mistaken",
    "A file of the log is named like a commit with one more word before .json, and readers do not list the log from a "
    "later version on.",
    broken="Delta Kernel for Java reads the file as a commit and refuses the table; others ignore it",
    repair="find out which program wrote it, then move it out of the log or delete it",
    loss="nothing from the table",
    example="_delta_log/00000000000000000003.tmp.json",
)
NAME_UNKNOWN = AREA.info(
    "log.name-unknown",
    "A file of the log has a name that the protocol does not define.",
    spec="Protocol Evolution",
    broken="nothing: readers ignore it",
    repair="delete it if it has no known purpose",
    loss="nothing from the table",
    example="_delta_log/notes.txt",
)
TEMP_LEFTOVER = AREA.info(
    "log.temp-leftover",
    "A temporary file, or a checksum file of Hadoop, has been in the log for more than a day.",
    spec="Delta-Spark: names of temporary files; Hadoop: checksum files",
    broken="nothing: readers ignore it; a writer was interrupted, or a file system left its checksum",
    repair="delete it when no writer is running",
    loss="nothing from the table",
    example="_delta_log/.00000000000000000003.json.9c1f….tmp",
)
SUBDIR_UNKNOWN = AREA.info(
    "log.subdir-unknown",
    "The log has a directory that the protocol does not define.",
    spec="File Types",
    broken="nothing: readers ignore it",
    repair="no repair needed",
    example="_delta_log/backup/",
)
VERSION_TOO_LARGE = AREA.error(
    "log.version-too-large",
    "A file name has an unreachable version: 2^63 - 1 or above, or far beyond all others.",
    broken="engines treat the file as the newest version, or fail to parse its number; nothing can be committed",
    repair="find out who wrote it and move it out of the log manually",
    loss="the changes of that file, if they were intended",
    example="_delta_log/99999999999999999999.json",
)
STAGED_WITHOUT_FEATURE = AREA.warning(
    "log.staged-without-feature",
    "There are staged commits, but no catalog manages the table.",
    spec="Catalog-managed tables",
    broken="they will never be published; their changes are in no version",
    repair="delete them after checking that no catalog manages the table",
    loss="changes that were never ratified",
    example="_delta_log/_staged_commits/00000000000000000004.1b1c….json in a table without catalogManaged",
)
STAGED_STALE = AREA.info(
    "log.staged-stale",
    "Staged commits are not newer than the oldest checkpoint.",
    spec="Metadata Cleanup, step 3",
    broken="nothing: they only take space",
    repair="no repair needed; log expire deletes them where the catalog permits clients to clean the log",
    example="_delta_log/_staged_commits/00000000000000000002.1b1c….json below the checkpoint of version 10",
)
STAGED_NAME = AREA.warning(
    "log.staged-name",
    "The name of a staged commit is not 20 digits, a UUID and `.json`.",
    broken="neither the catalog nor a reader finds it",
    repair="delete it once the catalog has no commit of that name",
    loss="changes that were never ratified",
    example="_delta_log/_staged_commits/4.json",
)
CLEANUP_OVERDUE = AREA.info(
    "log.cleanup-overdue",
    "Commits older than the log retention, which a checkpoint replaces, still exist.",
    spec="Metadata Cleanup",
    broken="nothing: listings are longer than necessary",
    repair="delete the expired part of the log",
    loss="time travel to the versions that are cleaned up",
    example="a commit of last year below a checkpoint of last year, with a retention of 30 days",
)
NO_CHECKPOINT_LONG = AREA.warning(
    "log.no-checkpoint-long",
    "Many commits were made since the last complete checkpoint.",
    spec="Checkpoints",
    broken="every reader reads all of these commits",
    repair="write a checkpoint",
    example="150 commits and no checkpoint",
)
NESTED_TABLE = AREA.warning(
    "log.nested-table",
    "A directory below the table has its own table.",
    spec="Data Files",
    broken="a vacuum of the outer table treats the inner table's files as unreferenced",
    repair="move the inner table out of the outer one; do not run vacuum before",
    loss="the inner table's rows, after a vacuum",
    example="events/archive/_delta_log inside events/",
    level=Level.STORAGE,
)


KNOWN_NAMES = frozenset({segment.HINT_NAME, "_last_vacuum_info"})
KNOWN_DIRECTORIES = frozenset({"_sidecars", "_staged_commits", "_commits"})
LARGEST_JUMP = 1_000_000
"A gap larger than this was not caused by writers counting up."

_VERSIONED = re.compile(r"([0-9]+)\.(?:([0-9]+)\.compacted\.json|json|crc|checkpoint\..+)")
_LIKE_A_COMMIT = re.compile(r"([0-9]+)\.[^.]+\.json")
"""Names that Delta Kernel for Java takes for those of commits: measured, `N.a.b.json` and `N-a.json` are ignored."""
_TEMPORARY = re.compile(r"\..+\.crc|.*[._]tmp|.*\.json#[0-9]+|\..*\.tmp\..*", re.DOTALL)
_HADOOP_CHECKSUM = re.compile(r"\..+\.crc", re.DOTALL)
_STAGED = re.compile(r"([0-9]{20})\.[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.json")

Range = tuple[int, int]


@AREA.check(ListingView, NOT_A_TABLE)
def log_holds_no_version(view: ListingView) -> Iterator[Finding]:
    """Spec: File Types."""
    if not view.log_exists:
        yield NOT_A_TABLE.at(view.place(), "the directory has no _delta_log", seen="no _delta_log")
    elif view.listing.is_empty:
        seen = plural(len(view.files), "file")
        message = "the log has no commit and no complete checkpoint"
        yield NOT_A_TABLE.at(view.place(), message, seen=seen, expected="a commit or a complete checkpoint")


@AREA.check(ListingView, GAP, START_MISSING, VERSION_TOO_LARGE)
def commits_are_missing(view: ListingView) -> Iterator[Finding]:
    """Spec: Delta Table Specification; Checkpoints."""
    listing = view.listing
    if listing.is_empty:
        return
    if listing.newest_version == segment.MAX_VERSION:
        message = "the newest version is 2^63 - 1, which no version can follow"
        place = view.place(version=segment.MAX_VERSION)
        yield VERSION_TOO_LARGE.at(place, message, seen=segment.MAX_VERSION, expected=f"< {segment.MAX_VERSION}")
    base = max((instance.version for instance in listing.checkpoints), default=-1)
    if not listing.checkpoints and 0 not in listing.commits:
        first = min(listing.commits)
        message = f"the log begins with commit {first}, and no complete checkpoint covers the versions before it"
        expected = "commit 0 or a complete checkpoint"
        yield START_MISSING.at(view.place(listing.commits[first].name, first), message, seen=first, expected=expected)
    for first, last in gaps_of(listing):
        if first < base:
            yield _gap(view, first, last, needed=False)
        elif last - first + 2 > LARGEST_JUMP:
            name = listing.commits[last + 1].name  # above the newest checkpoint every existing version has its commit
            message = (
                f"{name} is {last - first + 2} versions after version {first - 1}, which no writer reaches by counting"
            )
            yield VERSION_TOO_LARGE.at(view.place(name, last + 1), message, seen=last + 1, expected=first)
        elif not view.config.features & CATALOG_FEATURES:
            # The catalog may have the missing versions; `catalog.publish-order` reports them.
            yield _gap(view, first, last, needed=True)


@AREA.check(ListingView, GAP)
def commits_that_a_catalog_ratified(view: ListingView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables (a ratified commit is staged until it is published)."""
    lost_versions = {version for version, _ in view.lost}
    present = [version for version in view.listing.commits if version not in lost_versions]
    base = view.newest_checkpoint.version if view.newest_checkpoint else -1
    for version, path in view.lost:
        message = f"commit {version} is missing: the catalog ratified it, but it is neither staged nor published"
        place = view.place(segment.commit_name(version), version)
        # Readers begin at the checkpoint, so a commit that it covers is missing from older versions only.
        severity = Severity.WARNING if version <= base else None
        yield GAP.at(place, message, seen=name_ranges("commit", present), expected=path, severity=severity)


def gaps_of(listing: segment.LogListing) -> list[Range]:
    """Yield runs of versions between the oldest file and the newest that have no commit and no complete checkpoint."""
    present = {*listing.commits, *(instance.version for instance in listing.checkpoints)}
    runs = find_ranges(present)
    return [(before[1] + 1, after[0] - 1) for before, after in pairwise(runs)]


def _gap(view: ListingView, first: int, last: int, *, needed: bool) -> Finding:
    missing = f"commit {first} is" if first == last else f"commits {first} to {last} are"
    if needed:
        message = f"{missing} missing, so version {view.listing.newest_version} cannot be rebuilt"
    else:
        message = f"{missing} missing, so versions from {first} up to the next checkpoint can no longer be rebuilt"
    expected = first if first == last else f"{first}-{last}"
    severity = None if needed else Severity.WARNING
    seen = name_ranges("commit", view.listing.commits)
    place = view.place(segment.commit_name(first), first)
    return GAP.at(place, message, seen=seen, expected=expected, severity=severity)


@AREA.check(ListingView, CHECKPOINT_COMMIT_MISSING)
def checkpoint_without_its_commit(view: ListingView) -> Iterator[Finding]:
    """Spec: Metadata Cleanup (the commit of the checkpoint's version is kept)."""
    seen: set[int] = set()
    for instance in sorted(view.listing.checkpoints, key=lambda found: found.version):
        version = instance.version
        if version in view.listing.commits or version in seen:
            continue
        seen.add(version)
        message = f"the checkpoint of version {version} has no commit {version}"
        place = view.place(instance.files[0].name, version)
        newest = view.newest_checkpoint
        is_replaced = newest is not None and newest.version > version
        case = "replaced" if is_replaced else "newest" if version > view.newest_commit else "first"
        yield CHECKPOINT_COMMIT_MISSING.at(
            place,
            message,
            expected=f"{version:020d}.json",
            severity=Severity.WARNING if is_replaced else None,
            cases=(case,),
        )


@AREA.check(
    ListingView, NAME_NOT_PADDED, NAME_MISTAKEN, VERSION_TOO_LARGE, NAME_UNKNOWN, TEMP_LEFTOVER, SUBDIR_UNKNOWN, GAP
)
def odd_names(view: ListingView) -> Iterator[Finding]:
    """Spec: Delta Log Entries; Protocol Evolution (unrecognized files are ignored)."""
    hadoop: list[segment.LogFile] = []
    for file in view.files:
        match = _VERSIONED.fullmatch(file.name)
        digits = [digits for digits in match.groups() if digits] if match else []
        if any(int(number) > segment.MAX_VERSION for number in digits):
            message = f"{file.name} has a version above 2^63 - 1"
            place = view.place(file.name)
            cases = ("beyond 64 bits",) if file.name.endswith(".json") else ()
            expected = f"<= {segment.MAX_VERSION}"
            yield VERSION_TOO_LARGE.at(place, message, seen=digits[-1], expected=expected, cases=cases)
        elif file.path.kind not in (segment.LogFileKind.UNPADDED, segment.LogFileKind.OTHER) or _is_known(file.name):
            continue
        elif any(len(number) != 20 for number in digits):
            odd = next(number for number in digits if len(number) != 20)
            message = f"{file.name} has a version of {len(odd)} digits, but names in the log have 20"
            newest = view.newest_checkpoint
            cases = ("covered",) if newest is not None and int(odd) <= newest.version else ()
            place = view.place(file.name)
            yield NAME_NOT_PADDED.at(place, message, seen=odd, expected=f"{int(odd):020d}", cases=cases)
        elif (match := _LIKE_A_COMMIT.fullmatch(file.name)) and _is_listed_by_readers(view, file.name):
            message = f"{file.name} is not a commit, and {segment.commit_name(int(match[1]))} would be the name of one"
            yield NAME_MISTAKEN.at(view.place(file.name), message, seen=file.name, expected="no such file in the log")
        elif not _TEMPORARY.fullmatch(file.name):
            yield NAME_UNKNOWN.at(view.place(file.name), f"{file.name} is not a name of the protocol and is ignored")
        elif view.now_ms - file.modified_ms > DAY_MS:
            if _HADOOP_CHECKSUM.fullmatch(file.name):
                hadoop.append(file)
            else:
                yield _leftover(view, file, f"{file.name} is a leftover temporary file")
    if hadoop:
        message = f"Hadoop left {plural(len(hadoop), 'checksum file')} next to the files of the log"
        yield _leftover(view, hadoop[0], message)
    after = view.listing.newest_version + 1
    for directory in sorted({name.strip("/").split("/")[0] for name in view.directories} - KNOWN_DIRECTORIES):
        if directory == segment.commit_name(after):
            message = f"{directory} is not a file, so version {after} cannot be read, and no commit can be made"
            seen, expected = "a directory or a link to nothing", "a file; move this out of the log first"
            place = view.place(directory, after)
            yield GAP.at(place, message, seen=seen, expected=expected, cases=("directory",))
            continue
        message = f"the directory {directory} is not defined by the protocol and is ignored"
        yield SUBDIR_UNKNOWN.at(view.place(directory), message)


def _is_known(name: str) -> bool:
    """Return True for files that tools keep in the log on purpose, and for directory markers of some stores."""
    is_kept = name in KNOWN_NAMES or name.startswith((".s3-optimization-", "_deltacli_"))
    return is_kept or name.endswith("_$folder$") or not name


def _is_listed_by_readers(view: ListingView, name: str) -> bool:
    """Return whether readers of the newest version see a name: they list the log from their checkpoint on."""
    newest = view.newest_checkpoint
    return newest is None or name >= f"{newest.version:020d}"


def _leftover(view: ListingView, file: segment.LogFile, message: str) -> Finding:
    return TEMP_LEFTOVER.at(view.place(file.name), message, seen=format_timestamp(file.modified_ms))


@AREA.check(ListingView, STAGED_WITHOUT_FEATURE, STAGED_NAME, STAGED_STALE)
def staged_commits(view: ListingView) -> Iterator[Finding]:
    """Spec: Catalog-managed tables; Metadata Cleanup."""
    staged = [file for file in view.staged if not file.path.startswith(".")]
    if not staged:
        return
    if view.config.protocol is not None and not view.config.features & CATALOG_FEATURES:
        message = f"{plural(len(staged), 'staged commit')} in _staged_commits, but no catalog manages this table"
        seen = ", ".join(sorted(view.config.features)) or "no feature"
        place = view.place(f"_staged_commits/{staged[0].path}")
        yield STAGED_WITHOUT_FEATURE.at(place, message, seen=seen, expected="catalogManaged")
        return
    oldest = view.oldest_checkpoint
    stale: list[tuple[int, str]] = []
    for file in staged:
        place = view.place(f"_staged_commits/{file.path}")
        match = _STAGED.fullmatch(file.path)
        if match is None:
            message = f"{file.path} is not a valid name of a staged commit"
            yield STAGED_NAME.at(place, message, seen=file.path, expected="20 digits, a UUID, .json")
        elif oldest is not None and int(match[1]) <= oldest.version:
            stale.append((int(match[1]), file.path))
    if oldest is not None and stale:
        yield _stale_commits(view, stale, oldest.version)


def _stale_commits(view: ListingView, stale: Sequence[tuple[int, str]], oldest: int) -> Finding:
    """Return one finding for all staged commits that a checkpoint covers; each is a version and a name."""
    versions = name_ranges("version", sorted({version for version, _ in stale}))
    are = "is" if len(stale) == 1 else "are"
    message = f"{plural(len(stale), 'staged commit')} ({versions}) {are} covered by the checkpoint of version {oldest}"
    rule = STAGED_STALE
    if view.may_clean_log is False:
        advice = "no repair needed: the catalog does not permit clients to clean the log"
        rule = rule._replace(fix=rule.fix._replace(advice=advice))
    return rule.at(view.place(f"_staged_commits/{stale[0][1]}"), message, seen=versions, expected=f"> {oldest}")


@AREA.check(ListingView, NO_CHECKPOINT_LONG)
def many_commits_without_checkpoint(view: ListingView) -> Iterator[Finding]:
    """Spec: Checkpoints."""
    if view.config.metadata is None:
        return
    interval = (
        state.parse_integer_property(view.config.properties, "delta.checkpointInterval")
        or state.DEFAULT_CHECKPOINT_INTERVAL
    )
    limit = max(10 * interval, 100)
    newest = view.newest_checkpoint
    base = newest.version if newest else -1
    count = sum(version > base for version in view.listing.commits)
    if count > limit:
        since = f"since the checkpoint of version {base}" if newest else "and there is no complete checkpoint"
        message = f"{plural(count, 'commit')} {since}"
        yield NO_CHECKPOINT_LONG.at(view.place(), message, seen=count, expected=f"<= {limit}")


@AREA.check(ListingView, CLEANUP_OVERDUE)
def cleanup_is_overdue(view: ListingView) -> Iterator[Finding]:
    """Spec: Metadata Cleanup (never above the newest checkpoint old enough)."""
    if view.config.metadata is None or view.may_clean_log is False:
        return
    properties = view.config.properties
    if state.is_false(properties, state.LOG_CLEANUP):
        return
    cutoff = state.log_cutoff_ms(view.now_ms, state.log_retention_ms(properties))
    times = segment.compute_file_times(view.listing.commits)
    newest_old = max((version for version, time in times.items() if time.timestamp_ms <= cutoff), default=-1)
    below = max(
        (checkpoint.version for checkpoint in view.listing.checkpoints if checkpoint.version <= newest_old), default=-1
    )
    expired = [version for version in times if version < below]
    if expired and below not in view.wrong_checkpoints:
        message = (
            f"{_commits(expired)} older than the log retention, and the checkpoint of version {below} replaces them"
        )
        first = view.listing.commits[min(expired)]
        seen = format_timestamp(times[min(expired)].timestamp_ms)
        place = view.place(first.name, first.version)
        yield CLEANUP_OVERDUE.at(place, message, seen=seen, expected=f"> {format_timestamp(cutoff)}")


def _commits(versions: Iterable[int]) -> str:
    listed = list(versions)
    return f"commit {listed[0]} is" if len(listed) == 1 else f"commits {format_ranges(listed)} are"


@AREA.check(StorageView, NESTED_TABLE)
def tables_within_the_table(view: StorageView) -> Iterator[Finding]:
    """The vacuum of Delta-Spark descends into nested tables."""
    for directory in view.nested_logs:
        inner = directory.removesuffix("/").removesuffix("_delta_log").removesuffix("/")
        message = f"{inner} is a separate table inside this one"
        yield NESTED_TABLE.at(segment.Place(inner), message, seen=f"{inner}/_delta_log")


# -- rules about the times of the log's files, in the area `log_files` -------------------------------------------------

TIME_AREA = Area("log_files")

MTIME_ORDER = TIME_AREA.warning(
    "log.mtime-order",
    "Commit files are not newer than the previous ones, although their times are the times of the versions.",
    spec="In-Commit Timestamps",
    broken="time travel by timestamp works on adjusted times",
    repair="past versions cannot be repaired; set delta.enableInCommitTimestamps for future ones",
    loss="the true times of these versions",
    example="the file of version 4 is older than that of version 3",
)
MTIME_FUTURE = TIME_AREA.warning(
    "log.mtime-future",
    "A commit file or a data file was last modified in the future.",
    spec="Delta-Spark: VACUUM compares file times with the clock",
    broken="ages are wrong: time travel misses the version, and vacuum keeps the file too long",
    repair="correct the clocks; the times of files become valid as time passes",
    example="a file of tomorrow",
    level=Level.STORAGE,
)
MTIME_VS_COMMITINFO = TIME_AREA.info(
    "log.mtime-vs-commitinfo",
    "The time of a commit file and the timestamp in its commitInfo differ by more than a day.",
    spec="Commit Provenance Information",
    broken="the log was copied, so time travel by timestamp uses the times of the copy",
    repair="set delta.enableInCommitTimestamps; preserve file times when copying tables",
    loss="the true times of these versions, for engines that use file times",
    example='a file of 2026-01-10 that holds {"commitInfo":{"timestamp":1600000000000}}',
)


@TIME_AREA.check(ListingView, MTIME_ORDER)
def commit_files_out_of_order(view: ListingView) -> Iterator[Finding]:
    """Spec: In-Commit Timestamps (without them the time of a version is its file time)."""
    commits = view.listing.commits
    keys = view.config.in_commit_timestamp_keys
    below = None if keys is None else state.parse_integer_property(view.config.properties, keys.version) or 0
    versions = [version for version in sorted(commits) if below is None or version < below]
    odd = [
        (before, version)
        for before, version in pairwise(versions)
        if commits[version].modified_ms <= commits[before].modified_ms
    ]
    if odd:
        before, version = odd[0]
        amount = "1 commit file is" if len(odd) == 1 else f"{len(odd):,} commit files are"
        message = (
            f"{amount} not newer than the previous one, first at version {version}; time travel adjusts their times"
        )
        seen = format_timestamp(commits[version].modified_ms)
        expected = f"> {format_timestamp(commits[before].modified_ms)}"
        yield MTIME_ORDER.at(view.place(commits[version].name, version), message, seen=seen, expected=expected)


@TIME_AREA.check(ListingView, MTIME_FUTURE)
def commit_files_of_the_future(view: ListingView) -> Iterator[Finding]:
    """Vacuum and time travel compare these times with the clock."""
    for version in sorted(view.listing.commits):
        file = view.listing.commits[version]
        if file.modified_ms > view.now_ms + CLOCK_SKEW_MS:
            yield _future(view.place(file.name, version), f"commit {version}", file.modified_ms, view.now_ms)


@TIME_AREA.check(StorageView, MTIME_FUTURE)
def data_files_of_the_future(view: StorageView) -> Iterator[Finding]:
    """Vacuum compares these times with the clock."""
    latest = view.now_ms + CLOCK_SKEW_MS
    hidden = hidden_names(view)
    for path, file in view.files.items():
        if file.modified_ms > latest and not hidden.hides_path(path):
            yield _future(segment.Place(path), path, file.modified_ms, view.now_ms)


def _future(place: segment.Place, what: str, modified_ms: int, now_ms: int) -> Finding:
    message = f"{what} was last modified in the future"
    expected = f"<= {format_timestamp(now_ms)}"
    return MTIME_FUTURE.at(place, message, seen=format_timestamp(modified_ms), expected=expected)


@TIME_AREA.check(HistoryView, MTIME_VS_COMMITINFO)
def file_times_differ_from_commit_infos(view: HistoryView) -> Iterator[Finding]:
    """Spec: Commit Provenance Information. With in-commit timestamps file times are not used."""
    odd = [commit for commit in view.commits if not commit.after.has_ict and is_copied(commit)]
    if odd:
        first = odd[0]
        amount = plural(len(odd), "commit file")
        message = (
            f"{amount}, from version {first.version} on, more than a day from the time in the commit, so the log was "
            "probably copied"
        )
        told = format_timestamp(told_time(first) or 0)
        place = first.place()
        yield MTIME_VS_COMMITINFO.at(place, message, seen=format_timestamp(first.modified_ms), expected=f"about {told}")


def told_time(commit: CommitView) -> int | None:
    """Return the commit time according to the writer: `commitInfo.timestamp` if it is an integer."""
    timestamp = (commit.commit_info or {}).get("timestamp")
    return timestamp if type(timestamp) is int else None


def is_copied(commit: CommitView) -> bool:
    """Return True if the file time and the one in the commit differ by more than a day, as after copying."""
    told = told_time(commit)
    return told is not None and abs(commit.modified_ms - told) > DAY_MS
