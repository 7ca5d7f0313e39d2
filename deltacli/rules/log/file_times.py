"""Rules about the times of the log's files, in the area `log_files`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from deltacli.core.units import CLOCK_SKEW_MS, DAY_MS, format_timestamp, plural
from deltacli.delta.log.log_path import Place
from deltacli.delta.protocol.property_values import parse_integer
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.view_lookups import hidden_names
from deltacli.rules.framework.views import CommitView, HistoryView, ListingView, StorageView

AREA = Area("log_files")

MTIME_ORDER = AREA.warning(
    "log.mtime-order",
    "Commit files are not newer than the previous ones, although their times are the times of the versions.",
    spec="In-Commit Timestamps",
    broken="time travel by timestamp works on adjusted times",
    repair="past versions cannot be repaired; set delta.enableInCommitTimestamps for future ones",
    loss="the true times of these versions",
    example="the file of version 4 is older than that of version 3",
)
MTIME_FUTURE = AREA.warning(
    "log.mtime-future",
    "A commit file or a data file was last modified in the future.",
    spec="Delta-Spark: VACUUM compares file times with the clock",
    broken="ages are wrong: time travel misses the version, and vacuum keeps the file too long",
    repair="correct the clocks; the times of files become valid as time passes",
    example="a file of tomorrow",
    level=Level.STORAGE,
)
MTIME_VS_COMMITINFO = AREA.info(
    "log.mtime-vs-commitinfo",
    "The time of a commit file and the timestamp in its commitInfo differ by more than a day.",
    spec="Commit Provenance Information",
    broken="the log was copied, so time travel by timestamp uses the times of the copy",
    repair="set delta.enableInCommitTimestamps; preserve file times when copying tables",
    loss="the true times of these versions, for engines that use file times",
    example='a file of 2026-01-10 that holds {"commitInfo":{"timestamp":1600000000000}}',
)


@AREA.check(ListingView, MTIME_ORDER)
def commit_files_out_of_order(view: ListingView) -> Iterator[Finding]:
    """Spec: In-Commit Timestamps (without them the time of a version is its file time)."""
    commits = view.listing.commits
    below = _first_in_commit_time(view)
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


def _first_in_commit_time(view: ListingView) -> int | None:
    """Return the version from which in-commit timestamps apply, or None if they are off."""
    keys = view.config.in_commit_keys
    return None if keys is None else parse_integer(view.config.properties, keys.version) or 0


@AREA.check(ListingView, MTIME_FUTURE)
def commit_files_of_the_future(view: ListingView) -> Iterator[Finding]:
    """Vacuum and time travel compare these times with the clock."""
    for version in sorted(view.listing.commits):
        file = view.listing.commits[version]
        if file.modified_ms > view.now_ms + CLOCK_SKEW_MS:
            yield _future(view.place(file.name, version), f"commit {version}", file.modified_ms, view.now_ms)


@AREA.check(StorageView, MTIME_FUTURE)
def data_files_of_the_future(view: StorageView) -> Iterator[Finding]:
    """Vacuum compares these times with the clock."""
    latest = view.now_ms + CLOCK_SKEW_MS
    hidden = hidden_names(view)
    for path, file in view.files.items():
        if file.modified_ms > latest and not hidden.hides_path(path):
            yield _future(Place(path), path, file.modified_ms, view.now_ms)


def _future(place: Place, what: str, modified_ms: int, now_ms: int) -> Finding:
    message = f"{what} was last modified in the future"
    expected = f"<= {format_timestamp(now_ms)}"
    return MTIME_FUTURE.at(place, message, seen=format_timestamp(modified_ms), expected=expected)


@AREA.check(HistoryView, MTIME_VS_COMMITINFO)
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
        yield MTIME_VS_COMMITINFO.at(
            first.place(), message, seen=format_timestamp(first.modified_ms), expected=f"about {told}"
        )


def told_time(commit: CommitView) -> int | None:
    """Return the commit time according to the writer: `commitInfo.timestamp` if it is an integer."""
    timestamp = (commit.commit_info or {}).get("timestamp")
    return timestamp if type(timestamp) is int else None


def is_copied(commit: CommitView) -> bool:
    """Return True if the file time and the one in the commit differ by more than a day, as after copying."""
    told = told_time(commit)
    return told is not None and abs(commit.modified_ms - told) > DAY_MS
