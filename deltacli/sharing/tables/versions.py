"""Which versions of a table a recipient may choose, and when they were committed.

Spec: Read Data from a Table (version, timestamp); Query Table Version (startingTimestamp).
"""

from __future__ import annotations

from deltacli.core.errors import VersionAbsent
from deltacli.core.units import format_timestamp
from deltacli.delta.log.state import has_in_commit_timestamps
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.parameters import Point
from deltacli.sharing.protocol.wire_errors import invalid, unsupported
from deltacli.sharing.tables.shared_snapshot import SharedSnapshot
from deltacli.sharing.tables.snapshots import SharedSnapshots, WholeLog
from deltacli.table.api_arguments import VersionTime
from deltacli.table.time_travel import committed_at, find_range, version_at
from deltacli.work.commits.provenance import read_provenance


def require_history(table: SharedTable, what: str) -> None:
    """Raise WireError unless the history of a table is shared, which `what` needs."""
    if not table.history_shared:
        raise unsupported(f"{what} needs the history of the table {table.full_name}, which is not shared")


def choose_version(snapshots: SharedSnapshots, table: SharedTable, choice: Point) -> int:
    """Return the chosen version, or the newest one. Raises WireError where the recipient may not read it."""
    newest = snapshots.newest_version(table)
    if choice.is_newest:
        return newest
    require_history(table, "reading an older version")
    version = choice.version
    if version is None:
        version = _version_at(snapshots, table, choice.timestamp_ms or 0, newest)
    require_in_range(table, version, newest)
    return version


def require_in_range(table: SharedTable, version: int, newest: int, name: str = "version") -> None:
    """Raise WireError for a version before the first shared one, or after the newest one."""
    if version < table.start_version:
        raise invalid(f"{name} {version} is not shared: the first shared version is {table.start_version}")
    if version > newest:
        raise invalid(f"{name} {version} does not exist: the newest version is {newest}")


def first_version_since(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int) -> int:
    """Return the first version committed at or after a time. Raises WireError where there is none, where it is before
    the shared ones, and where its commit is missing: a later version would hide changes.
    """
    require_history(table, "finding a version by time")

    def find(log: WholeLog) -> tuple[int, bool]:
        first = find_range(snapshots.handle(table), VersionTime(timestamp_ms), None, log.listing).first
        return first, first in log.listing.commits

    first, is_there = snapshots.by_log(table, find)
    if first > snapshots.newest_version(table):
        raise invalid(f"no version was committed at or after {format_timestamp(timestamp_ms)}")
    _require_shared(table, first, timestamp_ms)
    if not is_there:
        raise invalid(
            f"the first version at or after {format_timestamp(timestamp_ms)} is unknown: "
            f"version {first} is missing from the log"
        )
    return first


def _require_shared(table: SharedTable, version: int, timestamp_ms: int) -> None:
    """Raise WireError for a version that a time chose, and that is before the first shared one."""
    if version < table.start_version:
        raise invalid(
            f"startingTimestamp {format_timestamp(timestamp_ms)} is before the shared versions: it chooses version "
            f"{version}, and the first shared version is {table.start_version}"
        )


def first_readable_since(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int) -> int:
    """Return the same, and the oldest version that can be read where the log no longer reaches back to the time."""
    try:
        return first_version_since(snapshots, table, timestamp_ms)
    except VersionAbsent as fault:
        oldest = min(snapshots.whole_log(table).listing.reconstructable, default=None)
        if fault.code != "table.timestamp-before-start" or oldest is None:
            raise
        _require_shared(table, oldest, timestamp_ms)
        return oldest


def last_version_until(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int) -> int:
    """Return the last version committed at or before a time. Raises WireError where there is none."""
    try:
        return snapshots.by_log(table, lambda log: version_at(snapshots.handle(table), timestamp_ms, log.listing))
    except VersionAbsent:
        raise invalid(f"no version was committed at or before {format_timestamp(timestamp_ms)}") from None


def _version_at(snapshots: SharedSnapshots, table: SharedTable, timestamp_ms: int, newest: int) -> int:
    """Return the newest version committed at or before a time, which must not be after the newest version."""
    version = last_version_until(snapshots, table, timestamp_ms)
    if version >= newest:
        handle = snapshots.handle(table)
        newest_ms = snapshots.by_log(table, lambda log: committed_at(handle, log.listing, version))
        if newest_ms is not None and timestamp_ms > newest_ms:
            raise invalid(
                f"timestamp {format_timestamp(timestamp_ms)} is after the newest version, {version}, which was "
                f"committed at {format_timestamp(newest_ms)}"
            )
    return version


def commit_time_ms(snapshots: SharedSnapshots, table: SharedTable, snapshot: SharedSnapshot) -> int | None:
    """Return when a version was committed, in epoch milliseconds; None where its commit is missing."""
    storage = snapshots.handle(table).storage
    if snapshot.commit is None:
        return None
    if has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        stamp = read_provenance(storage, snapshot.commit).in_commit_timestamp
        if stamp is not None:
            return stamp
    times = snapshots.whole_log(table).times
    return times[snapshot.version].timestamp_ms if snapshot.version in times else None
