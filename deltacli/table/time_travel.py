"""Find the version of a table at a timestamp, and the versions between two timestamps.

A commit has up to two times: the modification time of its file, and an in-commit timestamp. A table that
enables in-commit timestamps late has commits of both kinds. Commits before the enablement use the time of
the file (adjusted so that times increase with the version), later commits use their in-commit timestamp.
The two ranges are searched separately, because the file times of old commits may be newer than in-commit
timestamps. For example, a log that was copied today has file times of today:

    version         0      1      2    |    3      4
    time of file    10:00  10:01  10:02|    10:03  10:04
    in-commit       -      -      -    |    10:03  10:04
                                       |
                    searched for times | searched for times
                    before 10:03       | from 10:03 on

Reading an in-commit timestamp takes one request per commit, so the newer range is searched by bisection.

Spec: In-Commit Timestamps, Recommendations for Readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple

from deltacli.core import errors
from deltacli.core.times import format_timestamp
from deltacli.delta.log.segment import LogListing, compute_file_times
from deltacli.storage.optional_interfaces import SharedTableStore, is_shared_table
from deltacli.table.api_arguments import VersionTime, require_optional_version, require_timestamp_ms
from deltacli.table.api_errors import api_method
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import find_newest_readable, read_snapshot
from deltacli.table.timestamp_enablement import get_timestamp_enablement
from deltacli.table.version import Snapshot
from deltacli.work.commits.provenance import read_provenance


@api_method
def find_snapshot(
    table: TableHandle,
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    timestamp_ms: int | None = None,
) -> Snapshot:
    """Rebuild the table at a version or at a timestamp.

    Without a version and a timestamp, the newest version is returned.

    Args:
        table: The table.
        version: The version.
        timestamp: The timestamp. A date means midnight UTC.
        timestamp_ms: The timestamp in epoch milliseconds.

    Raises:
        UsageError: If more than one of these arguments is passed, or one has a wrong type.
        VersionAbsent: `table.timestamp-before-start`, if all versions were committed after the timestamp.
        DeltacliError: The same errors as `read_snapshot`.
    """
    if sum(argument is not None for argument in (version, timestamp, timestamp_ms)) > 1:
        raise errors.UsageError("version, timestamp and timestamp_ms exclude each other")
    version = require_optional_version(version, "version")
    if timestamp is not None:
        timestamp_ms = require_timestamp_ms(timestamp, "timestamp")

    if is_shared_table(table.storage):
        # The server of a share finds the version. Its response is presented as a log that consists of one
        # checkpoint. The commit of that version is missing in this log, which is not a problem.
        snapshot = read_snapshot(table.replace_storage(table.storage.at(version, timestamp_ms)))
        return snapshot.remove_problem("log.checkpoint-commit-missing")

    if timestamp_ms is not None:
        version = find_version_at(table, timestamp_ms)
    return read_snapshot(table, version=version)


def find_version_at(table: TableHandle, timestamp_ms: int, listing: LogListing | None = None) -> int:
    """Return the newest version that was committed at or before a timestamp.

    A timestamp in the future selects the newest version.

    Args:
        table: The table.
        timestamp_ms: The timestamp in epoch milliseconds.
        listing: The log, listed from its start. None to list it.

    Raises:
        VersionAbsent: `table.timestamp-before-start`, if all versions were committed after the timestamp.
            The error contains the range of valid timestamps.
    """
    return _find_newest_until(table, _require_commits(table, listing), timestamp_ms)


def find_last_commit_before(
    table: TableHandle, listing: LogListing, timestamp_ms: int, *, loaded_snapshot: Snapshot | None = None
) -> int | None:
    """Return the newest version that was committed before a timestamp.

    Unlike `find_version_at`, this also returns versions that cannot be rebuilt any more.

    Args:
        table: The table.
        listing: The log, listed from its start.
        timestamp_ms: The timestamp in epoch milliseconds.
        loaded_snapshot: A snapshot that has been read already. It saves reading the newest version if it
            is that version.

    Returns:
        The version; None if all commits of the log are at or after the timestamp.
    """
    return _CommitTimes(table, listing, loaded_snapshot).find_newest_until(timestamp_ms - 1)


def read_commit_time(
    table: TableHandle, listing: LogListing, version: int, *, loaded_snapshot: Snapshot | None = None
) -> int | None:
    """Return the time of the commit of a version, in epoch milliseconds.

    Args:
        table: The table.
        listing: The log, listed from its start.
        version: The version.
        loaded_snapshot: A snapshot that has been read already, as for `find_last_commit_before`.

    Returns:
        The time; None if the commit file does not exist.
    """
    if version not in listing.commits:
        return None
    return _CommitTimes(table, listing, loaded_snapshot).read(version)


class VersionRange(NamedTuple):
    """A range of versions, including both ends. It is empty if `first` is greater than `last`."""

    first: int
    last: int


def find_version_range(
    table: TableHandle, first: int | VersionTime, last: int | VersionTime | None, listing: LogListing | None = None
) -> VersionRange:
    """Return the range between two versions or timestamps.

    Args:
        table: The table.
        first: A version, or a timestamp, which means the first version committed at or after it. If no
            version is that new, the range is empty.
        last: A version, or a timestamp, which means the last version committed at or before it. None for
            the newest version.
        listing: The log, listed from its start. None to list it.

    Raises:
        VersionAbsent: If a version does not exist, or the log does not reach back to the timestamp.
        UsageError: If the last version is smaller than the first version.
    """
    if isinstance(first, int) and isinstance(last, int) and first > last:
        to_version = errors.parameter("changes.to_version", last)
        from_version = errors.parameter("changes.from_version", first)
        swapped = errors.command("changes", from_version=last, to_version=first)
        raise errors.UsageError(f"{to_version} is before {from_version}", hint=swapped)

    if is_shared_table(table.storage):
        return _find_range_of_share(table.storage, first, last)

    listing = _require_commits(table, listing)
    newest = listing.newest_version
    _require_existing(first, last, newest)
    if isinstance(first, VersionTime):
        first = _find_oldest_since(table, listing, first.timestamp_ms)
    if last is None:
        return VersionRange(first, newest)
    if isinstance(last, VersionTime):
        last = _find_newest_until(table, listing, last.timestamp_ms)
    return VersionRange(first, last)


def find_commit_range(
    table: TableHandle, listing: LogListing, first: int | VersionTime | None, last: int | VersionTime | None
) -> VersionRange:
    """Return the range of commits between two versions or timestamps.

    Unlike in `find_version_range`, the versions need not be readable, and the range may start before the
    first commit of the log.

    Args:
        table: The table.
        listing: The log, listed from its start.
        first: A version, a timestamp, or None for the oldest commit.
        last: A version, a timestamp, or None for the newest commit.

    Raises:
        VersionAbsent: If a version does not exist yet.
    """
    if is_shared_table(table.storage):
        return _find_range_of_share(table.storage, first or 0, last)

    newest = listing.newest_version
    _require_existing(first, last, newest)
    start = min(listing.commits, default=0) if first is None else first
    end = newest if last is None else last
    if isinstance(start, VersionTime):
        version_before = find_last_commit_before(table, listing, start.timestamp_ms)
        start = 0 if version_before is None else version_before + 1
    if isinstance(end, VersionTime):
        last_version = find_last_commit_before(table, listing, end.timestamp_ms + 1)
        end = -1 if last_version is None else last_version
    return VersionRange(start, end)


def _find_range_of_share(
    store: SharedTableStore, first: int | VersionTime, last: int | VersionTime | None
) -> VersionRange:
    """Return the range of versions of a shared table. The server converts timestamps to versions.

    Raises:
        VersionAbsent: If a version does not exist yet. `nearest` is the newest version, or None if the
            table has no change data feed: then no other version has changes either.
    """
    newest = store.newest_version()
    try:
        _require_existing(first, last, newest)
    except errors.VersionAbsent as absent:
        absent.nearest = newest if store.has_change_feed() else None
        raise
    start = store.version_since(first.timestamp_ms) if isinstance(first, VersionTime) else first
    if isinstance(last, VersionTime):
        return VersionRange(start, store.version_until(last.timestamp_ms))
    return VersionRange(start, newest if last is None else last)


def _require_existing(first: int | VersionTime | None, last: int | VersionTime | None, newest: int) -> None:
    """Check that the ends of a range are existing versions. Timestamps are not checked.

    Without a last version, the first version may be the next one: a stream that waits for new commits
    requests such a range, and it is empty until the commit exists.

    Raises:
        VersionAbsent: If a version does not exist yet.
    """
    highest_first = newest + 1 if last is None else newest
    for version, highest in ((first, highest_first), (last, newest)):
        if isinstance(version, int) and version > highest:
            absent = errors.VersionAbsent(
                f"version {version} does not exist yet: the newest is {newest}", hint=errors.command("history")
            )
            absent.wanted = version
            absent.nearest = newest
            raise absent


def _find_oldest_since(table: TableHandle, listing: LogListing, timestamp_ms: int) -> int:
    """Return the oldest version that was committed at or after a timestamp.

    Returns:
        The version; the newest version plus one if all versions were committed before the timestamp.

    Raises:
        VersionAbsent: If the first commits have expired, and one of them may have been committed at or
            after the timestamp.
    """
    # It is the version after the newest one that was committed earlier.
    try:
        return _find_newest_until(table, listing, timestamp_ms - 1) + 1
    except errors.VersionAbsent as error:
        # All commits in the log are at or after the timestamp. Version 0 is the oldest of them, unless
        # it has expired.
        if 0 in listing.commits:
            return 0
        oldest = min(listing.reconstructable, default=None)
        time_text = format_timestamp(timestamp_ms)
        raise errors.VersionAbsent(
            f"the log does not reach back to {time_text}: the oldest version that can be rebuilt is {oldest}",
            code=error.code,
            facts=error.facts,
            hint=errors.command("history") if oldest is None else errors.command("changes", from_version=oldest),
        ) from error


def _require_commits(table: TableHandle, listing: LogListing | None) -> LogListing:
    """Return a listing of the log, and check that it contains a commit.

    Args:
        table: The table.
        listing: The log, listed from its start. None to list it.

    Raises:
        NotATable: If the log has no version.
        VersionAbsent: `table.timestamp-unknown`, if the log consists of checkpoints only. Checkpoints do
            not contain the time of a commit.
    """
    if listing is None:
        listing = list_log(table.storage, progress=table.progress)
    listing.require_versions()
    if not listing.commits:
        raise errors.VersionAbsent(
            "the log has no commit files, so no version has a time", code="table.timestamp-unknown"
        )
    return listing


def _find_newest_until(table: TableHandle, listing: LogListing, timestamp_ms: int) -> int:
    """Return the newest version that was committed at or before a timestamp.

    The version may be one that cannot be rebuilt because of a gap in the log. Reading it raises an error
    that describes the gap. But if it is older than all versions that can be rebuilt, the timestamp is
    before the start of the table's readable history.

    Raises:
        VersionAbsent: `table.timestamp-before-start`.
    """
    times = _CommitTimes(table, listing)
    version = times.find_newest_until(timestamp_ms)
    if version is not None:
        reconstructable = listing.reconstructable
        if version in set(reconstructable) or version >= min(reconstructable, default=0):
            return version

    times_by_version = {end: times.read(end) for end in _find_ends_with_commits(listing)}
    raise _before_start_error(timestamp_ms, times_by_version)


class _CommitTimes:
    """The commit times that time travel uses: in-commit timestamps where enabled, else file times."""

    def __init__(self, table: TableHandle, listing: LogListing, loaded_snapshot: Snapshot | None = None) -> None:
        """Read the newest version, whose properties contain the enablement of in-commit timestamps.

        Args:
            table: The table.
            listing: The log, listed from its start.
            loaded_snapshot: A snapshot that has been read already. It is used if it is the newest version.
        """
        newest = find_newest_readable(table, listing, loaded_snapshot)
        self._enablement = None if newest is None else get_timestamp_enablement(newest)
        self._storage = table.storage
        self._commits = listing.commits
        self._file_times = compute_file_times(listing.commits)

    def read(self, version: int) -> int:
        """Return the time of a commit in epoch milliseconds. In-commit timestamps require a request."""
        if self._enablement is not None and version >= self._enablement.version:
            timestamp_ms = read_provenance(self._storage, self._commits[version]).in_commit_timestamp
            if timestamp_ms is not None:
                return timestamp_ms
        return self._file_times[version].timestamp_ms

    def find_newest_until(self, timestamp_ms: int) -> int | None:
        """Return the newest version that was committed at or before a timestamp; None if there is none."""
        versions = self._list_versions_to_search(timestamp_ms)
        low = 0
        high = len(versions)
        while low < high:
            middle = (low + high) // 2
            if self.read(versions[middle]) <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return versions[low - 1] if low else None

    def _list_versions_to_search(self, timestamp_ms: int) -> Sequence[int]:
        """Return the versions before the enablement, or those from it on, depending on the timestamp.

        Returns:
            The versions in ascending order. Their times are comparable, because they are of one kind.
        """
        versions = sorted(self._commits)
        if self._enablement is None:
            return versions
        enabled_versions = [version for version in versions if version >= self._enablement.version]
        if timestamp_ms >= self._enablement.timestamp_ms:
            return enabled_versions
        # If the commits before the enablement have expired, the search in the others finds no version.
        return [version for version in versions if version < self._enablement.version] or enabled_versions


def _find_ends_with_commits(listing: LogListing) -> Sequence[int]:
    """Return the oldest and the newest version that can be rebuilt and have a commit file; empty without one."""
    versions = [version for version in listing.readable_without(()) if version in listing.commits]
    return [versions[0], versions[-1]] if versions else []


def _before_start_error(timestamp_ms: int, times_by_version: dict[int, int]) -> errors.VersionAbsent:
    """Build the error for a timestamp before the oldest readable version.

    Args:
        timestamp_ms: The timestamp in epoch milliseconds.
        times_by_version: The commit times of the oldest and the newest readable version; empty if no
            version can be rebuilt.
    """
    facts = {}
    hint = errors.command("history")
    if times_by_version:
        oldest = min(times_by_version)
        newest = max(times_by_version)
        facts = {
            "earliest": f"version {oldest}, {format_timestamp(times_by_version[oldest])}",
            "newest": f"version {newest}, {format_timestamp(times_by_version[newest])}",
        }
        hint = errors.command("snapshot", version=oldest)
    absent = errors.VersionAbsent(
        f"no version that can be rebuilt was committed at or before {format_timestamp(timestamp_ms)}",
        code="table.timestamp-before-start",
        facts=facts,
        hint=hint,
    )
    absent.wanted_ms = timestamp_ms
    return absent
