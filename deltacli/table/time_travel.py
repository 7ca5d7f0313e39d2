"""Find the version that was the newest at a time, and the versions of a range of times.

A commit has up to two times: that of its file, and an in-commit timestamp. From the version that enables
in-commit timestamps on these count; before it, the times of files, made strictly increasing. The two
halves are searched apart, because times of files may be newer than in-commit timestamps (a copied log has
the time of the copy):

    version         0      1      2    |    3      4
    time of file    10:00  10:01  10:02|    10:03  10:04
    in-commit       -      -      -    |    10:03  10:04
                    searched for times |    searched for times from
                    before 10:03       |    10:03, the enablement, on

Reading an in-commit timestamp takes a request per commit, so the newer half is searched by bisection.

Spec: In-Commit Timestamps, Recommendations for Readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import NamedTuple

from deltacli.core import errors
from deltacli.core.times import format_timestamp
from deltacli.delta.log.segment import LogListing, file_times
from deltacli.storage.optional_interfaces import SharedTableStore
from deltacli.table.api_arguments import VersionTime, require_optional_version, require_timestamp_ms
from deltacli.table.api_errors import api_method
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import find_newest_readable, read_snapshot
from deltacli.table.timestamp_enablement import get_timestamp_enablement
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import read_provenance


@api_method
def find_snapshot(
    table: TableHandle,
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    timestamp_ms: int | None = None,
) -> Snapshot:
    """Rebuild a version, the one that was the newest at a time, or the newest one.

    Args:
        table: The table.
        version: The version.
        timestamp: A time; a date is its midnight in UTC.
        timestamp_ms: The same in epoch milliseconds.

    Raises:
        UsageError: For more than one of these arguments, and for values of a wrong type.
        VersionAbsent: `table.timestamp-before-start`, if every version is newer than the time.
        DeltacliError: As `read_snapshot` does.
    """
    if sum(argument is not None for argument in (version, timestamp, timestamp_ms)) > 1:
        raise errors.UsageError("version, timestamp and timestamp_ms exclude each other")
    version = require_optional_version(version, "version")
    if timestamp is not None:
        timestamp_ms = require_timestamp_ms(timestamp, "timestamp")

    if isinstance(table.storage, SharedTableStore):
        # The server of a share finds the version, and the store makes a log of that version alone.
        snapshot = read_snapshot(table.replace_storage(table.storage.at(version, timestamp_ms)))
        # That log has no commits, so a missing one is not a problem.
        return replace(snapshot, _problems=snapshot._problems - {"log.checkpoint-commit-missing"})

    if timestamp_ms is not None:
        version = find_version_at(table, timestamp_ms)
    return read_snapshot(table, version=version)


def find_version_at(table: TableHandle, timestamp_ms: int, listing: LogListing | None = None) -> int:
    """Return the newest version that was committed at or before a time.

    A time after the newest version means that one.

    Args:
        table: The table.
        timestamp_ms: The time, in epoch milliseconds.
        listing: The whole log, if it was listed already.

    Raises:
        VersionAbsent: `table.timestamp-before-start`, naming the range of times that can be asked for.
    """
    return _find_newest_until(table, _require_commits(table, listing), timestamp_ms)


def find_last_commit_before(
    table: TableHandle, listing: LogListing, timestamp_ms: int, *, known: Snapshot | None = None
) -> int | None:
    """Return the newest version that was committed before a time, whether or not it can still be rebuilt.

    Args:
        table: The table.
        listing: The whole log.
        timestamp_ms: The time, in epoch milliseconds.
        known: A version that need not be rebuilt.

    Returns:
        The version; None if every commit of the log is at or after the time.
    """
    return _CommitTimes(table, listing, known).find_newest_until(timestamp_ms - 1)


def read_commit_time(
    table: TableHandle, listing: LogListing, version: int, *, known: Snapshot | None = None
) -> int | None:
    """Return when a version was committed, in epoch milliseconds; None if its commit is missing.

    Args:
        table: The table.
        listing: The whole log.
        version: The version.
        known: A version that need not be rebuilt.
    """
    if version not in listing.commits:
        return None
    return _CommitTimes(table, listing, known).read(version)


class VersionRange(NamedTuple):
    """The first and the last version of a range; `first` is greater than `last` if the range is empty."""

    first: int
    last: int


def find_version_range(
    table: TableHandle, first: int | VersionTime, last: int | VersionTime | None, listing: LogListing | None = None
) -> VersionRange:
    """Return the versions from one end to the other.

    Args:
        table: The table.
        first: A version, or a time: the first version committed at or after it. One above the newest
            version makes the range empty.
        last: A version, or a time: the last version committed at or before it. None for the newest one.
        listing: The whole log, if it was listed already.

    Raises:
        VersionAbsent: If the log does not reach back far enough to determine the first version, or lacks
            a requested version.
        UsageError: If the last version is before the first one.
    """
    if isinstance(first, int) and isinstance(last, int) and first > last:
        to_version = errors.parameter("changes.to_version", last)
        from_version = errors.parameter("changes.from_version", first)
        swapped = errors.command("changes", from_version=last, to_version=first)
        raise errors.UsageError(f"{to_version} is before {from_version}", hint=swapped)

    if isinstance(table.storage, SharedTableStore):
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
    """Return the versions of a range of commits, which need not be versions that can be rebuilt.

    Unlike in `find_version_range`, the range may begin before the log does.

    Args:
        table: The table.
        listing: The whole log.
        first: A version, a time, or None for the oldest commit.
        last: A version, a time, or None for the newest commit.

    Raises:
        VersionAbsent: For versions that do not exist yet.
    """
    if isinstance(table.storage, SharedTableStore):
        return _find_range_of_share(table.storage, first or 0, last)

    newest = listing.newest_version
    _require_existing(first, last, newest)
    begin = min(listing.commits, default=0) if first is None else first
    end = newest if last is None else last
    if isinstance(begin, VersionTime):
        older = find_last_commit_before(table, listing, begin.timestamp_ms)
        begin = 0 if older is None else older + 1
    if isinstance(end, VersionTime):
        older = find_last_commit_before(table, listing, end.timestamp_ms + 1)
        end = -1 if older is None else older
    return VersionRange(begin, end)


def _find_range_of_share(
    store: SharedTableStore, first: int | VersionTime, last: int | VersionTime | None
) -> VersionRange:
    """Return the range of versions of a shared table, whose server knows the times."""
    newest = store.newest_version()
    try:
        _require_existing(first, last, newest)
    except errors.VersionAbsent as absent:
        absent.nearest = newest if store.has_change_feed() else None  # without one no version has changes
        raise
    begin = store.version_since(first.timestamp_ms) if isinstance(first, VersionTime) else first
    if isinstance(last, VersionTime):
        return VersionRange(begin, store.version_until(last.timestamp_ms))
    return VersionRange(begin, newest if last is None else last)


def _require_existing(first: int | VersionTime | None, last: int | VersionTime | None, newest: int) -> None:
    """Raise VersionAbsent if an end of a range is a version that does not exist yet.

    An open range may begin at the next version: it is empty until that is committed.
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
    """Return the oldest version committed at or after a time; one above the newest if there is none.

    Raises:
        VersionAbsent: If versions before the log may have been committed at or after the time.
    """
    # It is the successor of the newest version before the time.
    try:
        return _find_newest_until(table, listing, timestamp_ms - 1) + 1
    except errors.VersionAbsent as fault:
        # No version is before the time. With the first commit that is the whole answer; without it,
        # commits that have expired may have been after the time, too.
        if 0 in listing.commits:
            return 0
        oldest = min(listing.reconstructable, default=None)
        time_text = format_timestamp(timestamp_ms)
        raise errors.VersionAbsent(
            f"the log does not reach back to {time_text}: the oldest version that can be rebuilt is {oldest}",
            code=fault.code,
            facts=fault.facts,
            hint=errors.command("history") if oldest is None else errors.command("changes", from_version=oldest),
        ) from fault


def _require_commits(table: TableHandle, listing: LogListing | None) -> LogListing:
    """Return the log of a table that has times, listed from its start unless it was listed already.

    Raises:
        NotATable: If there is no version.
        VersionAbsent: `table.timestamp-unknown`, if there are only checkpoints, which have no times.
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
    """Return the newest version committed at or before a time.

    A version in a gap of the log is returned, too: reading it raises an error that names what is missing.
    But below all versions that can be rebuilt, the time is before the start.

    Raises:
        VersionAbsent: `table.timestamp-before-start`.
    """
    times = _CommitTimes(table, listing)
    version = times.find_newest_until(timestamp_ms)
    if version is not None:
        reconstructable = listing.reconstructable
        if version in set(reconstructable) or version >= min(reconstructable, default=0):
            return version

    time_by_version = {end: times.read(end) for end in _find_dated_ends(listing)}
    raise _before_start_error(timestamp_ms, time_by_version)


class _CommitTimes:
    """The times of the commits of a log, as they select versions."""

    def __init__(self, table: TableHandle, listing: LogListing, known: Snapshot | None = None) -> None:
        """Rebuild the newest version, whose properties decide which times count.

        Args:
            table: The table.
            listing: The whole log.
            known: A version that need not be rebuilt.
        """
        newest = find_newest_readable(table, listing, known)
        self._enablement = None if newest is None else get_timestamp_enablement(newest)
        self._storage = table.storage
        self._commits = listing.commits
        self._file_times = file_times(listing.commits)

    def read(self, version: int) -> int:
        """Return the time of a commit, in epoch milliseconds. Takes a request if it is an in-commit timestamp."""
        if self._enablement is not None and version >= self._enablement.version:
            timestamp_ms = read_provenance(self._storage, self._commits[version]).in_commit_timestamp
            if timestamp_ms is not None:
                return timestamp_ms
        return self._file_times[version].timestamp_ms

    def find_newest_until(self, timestamp_ms: int) -> int | None:
        """Return the newest version committed at or before a time; None if there is none."""
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
        """Return the versions on that side of the enablement on which a time is, in ascending order."""
        versions = sorted(self._commits)
        if self._enablement is None:
            return versions
        enabled = [version for version in versions if version >= self._enablement.version]
        if timestamp_ms >= self._enablement.timestamp_ms:
            return enabled
        # The commits before the enablement may have expired.
        return [version for version in versions if version < self._enablement.version] or enabled


def _find_dated_ends(listing: LogListing) -> Sequence[int]:
    """Return the oldest and the newest version that can be rebuilt and has a commit file; empty without one."""
    dated = [version for version in listing.readable_without(()) if version in listing.commits]
    return [dated[0], dated[-1]] if dated else []


def _before_start_error(timestamp_ms: int, ends: dict[int, int]) -> errors.VersionAbsent:
    """Return the error for a time before the oldest version.

    Args:
        timestamp_ms: The time.
        ends: The times of the oldest and the newest version, by version; empty if none can be rebuilt.
    """
    facts = {}
    hint = errors.command("history")
    if ends:
        first = min(ends)
        last = max(ends)
        facts = {
            "earliest": f"version {first}, {format_timestamp(ends[first])}",
            "newest": f"version {last}, {format_timestamp(ends[last])}",
        }
        hint = errors.command("snapshot", version=first)
    absent = errors.VersionAbsent(
        f"no version that can be rebuilt was committed at or before {format_timestamp(timestamp_ms)}",
        code="table.timestamp-before-start",
        facts=facts,
        hint=hint,
    )
    absent.wanted_ms = timestamp_ms
    return absent
