"""How far back a table can be read: ranges of versions with the same facts, and what the next cleanups take.

Spec: Metadata Cleanup; Add File and Remove File (tombstones); time travel as Delta-Spark allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.plan import Amount
from deltacli.core.cached import cached_property
from deltacli.core.errors import CommitCorrupt, Refused, Unreadable, UsageError
from deltacli.core.hints import command
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import JsonObject
from deltacli.core.units import DAY_MS, format_timestamp, ranges_of
from deltacli.delta.log.segment import file_times
from deltacli.delta.protocol.property_values import (
    LOG_CLEANUP,
    deleted_file_retention_ms,
    is_false,
    log_expires_at_ms,
    log_retention_ms,
)
from deltacli.operations.log.expire import ExpiryRequest, plan_expiry
from deltacli.operations.reach.replayed import Step, replayed
from deltacli.operations.reach.versions import NEVER, Part, VersionFiles, version_files
from deltacli.operations.vacuum.full_plan import kept_walk, plan_vacuum
from deltacli.operations.vacuum.request import VacuumRequest
from deltacli.storage.base import StoreOfVersions
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.operations.reach.request import ReachRequest
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot
    from deltacli.table.walk import KeptWalk


class Reached(NamedTuple):
    """What is known of a version. `until_ms`: when it may stop being readable (None: it is not readable, or nothing
    that is known will end it), `until_by` the command that then may delete what it needs.
    """

    log: Part
    data_files: Part
    vectors: Part
    change_data: Part
    spark_allows: bool | None
    until_ms: int | None = None
    until_by: str | None = None
    files_until_ms: int = NEVER
    """When a vacuum may delete the first of its files, whatever happens to the log."""
    why: str | None = None
    """Why it cannot be replayed."""

    @property
    def is_readable(self) -> bool:
        """Whether all that a reader of the rows needs is there."""
        return self.log == self.data_files == self.vectors == Part.THERE


_ABSENT = Reached(
    Part.MISSING, Part.UNKNOWN, Part.UNKNOWN, Part.MISSING, None, why="no commit and no checkpoint in the log"
)


class ReachRange(NamedTuple):
    """Neighbouring versions with the same facts; `reached` is that of the one that goes first."""

    first: int
    last: int
    reached: Reached

    def as_json(self) -> JsonObject:
        """As in the document."""
        one = self.reached
        return {
            "first": self.first,
            "last": self.last,
            "readable": one.is_readable,
            "log": one.log.value,
            "dataFiles": one.data_files.value,
            "vectors": one.vectors.value,
            "changeData": one.change_data.value,
            "readableUntilMs": one.until_ms,
            "readableUntil": None if one.until_ms is None else format_timestamp(one.until_ms),
            "readableUntilBy": one.until_by,
            "sparkAllows": one.spark_allows,
            "why": one.why,
        }


class Cleanup(NamedTuple):
    """What a log expiry and a vacuum would delete now, and the versions that can be read now and not afterwards. An
    amount is None where it is not known; `notes` say why, and why a command would be refused.
    """

    log_retention_ms: int
    file_retention_ms: int
    log: Amount | None
    files: Amount | None
    lost: tuple[int, ...]
    notes: tuple[str, ...]

    def as_json(self) -> JsonObject:
        """As in the document."""
        return {
            "logRetentionMs": self.log_retention_ms,
            "fileRetentionMs": self.file_retention_ms,
            "logExpire": None if self.log is None else self.log.as_json(),
            "vacuum": None if self.files is None else self.files.as_json(),
            "lostVersions": [list(pair) for pair in ranges_of(self.lost)],
            "notes": list(self.notes),
        }


@short_repr("newest_version", "versions", "readable", "is_complete")
@dataclass(frozen=True, eq=False, repr=False)
class TableReach:
    """The versions of a table, from 0 to the newest; `versions` has those with a commit or a checkpoint."""

    table: TableHandle
    now_ms: int
    versions: Mapping[int, Reached]
    next: Cleanup | None
    """What the next cleanups take by the table's own retentions; None where the newest version cannot be rebuilt."""
    retention: Cleanup | None
    """The same for the retention that was asked for."""
    is_complete: bool
    """No commit that should be there is missing or damaged, and every file could be looked for."""

    @cached_property
    def ranges(self) -> tuple[ReachRange, ...]:
        """Return ranges of versions with the same facts; those that stop being readable on the same day are one."""
        found: list[ReachRange] = []
        for _, group in groupby(self._in_runs(), key=lambda entry: (entry[0], _facts(entry[2]))):
            some = list(group)
            end = found[-1].last if found else -1
            if some[0][1] > end + 1:
                found.append(ReachRange(end + 1, some[0][1] - 1, _ABSENT))
            first = min((one for *_, one in some), key=lambda one: NEVER if one.until_ms is None else one.until_ms)
            found.append(ReachRange(some[0][1], some[-1][1], first))
        return tuple(found)

    def _in_runs(self) -> Iterator[tuple[int, int, Reached]]:
        """Yield the versions, each after a number that is the same for all without a gap between them."""
        for place, (version, one) in enumerate(self.versions.items()):
            yield version - place, version, one

    @property
    def newest_version(self) -> int:
        """The newest version that has a commit or a checkpoint."""
        return max(self.versions)

    @property
    def readable(self) -> list[int]:
        """Return the versions that can be read."""
        return [version for version, one in self.versions.items() if one.is_readable]

    def as_json(self) -> JsonObject:
        """Return the document `deltacli.reach`, without the envelope."""
        readable = self.readable
        return {
            "snapshotVersion": self.newest_version,
            "nowMs": self.now_ms,
            "oldestReadable": readable[0] if readable else None,
            "readableVersions": len(readable),
            "ranges": [one.as_json() for one in self.ranges],
            "next": None if self.next is None else self.next.as_json(),
            "retention": None if self.retention is None else self.retention.as_json(),
        }


def _facts(one: Reached) -> tuple[object, ...]:
    day = None if one.until_ms is None else one.until_ms // DAY_MS
    return (*one[:5], day, one.until_by, one.why)


def find_reach(table: TableHandle, request: ReachRequest) -> TableReach:
    """Determine which versions can be read, by what and until when. Nothing is changed.

    Raises NotATable, StorageFailed, and UsageError for a shared table; what is damaged is part of the result.
    """
    if isinstance(table.storage, StoreOfVersions):
        raise UsageError(
            "reach works on Delta tables only: the provider of a shared table decides what it shares",
            hint=command("snapshot"),
        )
    now_ms = table.clock()
    listing = list_log(table.storage, progress=table.progress)
    listing.require_versions()
    steps = list(replayed(table, listing))
    times = {version: found.timestamp_ms for version, found in file_times(listing.commits).items()}
    times |= {step.version: step.stamp for step in steps if step.stamp is not None}
    newest = steps[-1]
    metadata = next((step.metadata for step in reversed(steps) if step.metadata is not None), None)
    properties = {} if metadata is None else metadata.configuration
    retention_ms = deleted_file_retention_ms(properties)
    is_known = newest.run is not None and newest.fault is None
    snapshot, walk = _newest(table) if is_known else (None, None)
    files = version_files(table, steps, times, retention_ms, walk)
    log_until = _log_until(listing, times, properties)
    versions = {
        step.version: _reached(
            step, found, log_until[step.version], _spark_allows(step, newest, times, now_ms - retention_ms)
        )
        for step, found in zip(steps, files, strict=True)
    }
    first = min(listing.reconstructable, default=0)  # a reader can begin with it
    late = [step for step in steps if step.version >= first]
    is_whole = all(step.fault is None for step in late) and len(late) == newest.version - first + 1
    is_seen = all(
        Part.UNKNOWN not in (one.data_files, one.vectors) for one in versions.values() if one.log is Part.THERE
    )
    wanted = [None] if request.retention_ms is None else [None, request.retention_ms]
    found_plans = [_cleanup(table, properties, one, versions, snapshot, walk) if is_known else None for one in wanted]
    return TableReach(
        table, now_ms, versions, found_plans[0], found_plans[-1] if len(wanted) > 1 else None, is_whole and is_seen
    )


def _newest(table: TableHandle) -> tuple[Snapshot | None, KeptWalk | None]:
    """Return the newest version, and a walk over the table for all that looks at it; None for what cannot be had."""
    try:
        snapshot = read_snapshot(table)
    except (Unreadable, CommitCorrupt, Refused):
        return None, None
    return snapshot, kept_walk(snapshot)


def _reached(step: Step, files: VersionFiles, log_until_ms: int, spark_allows: bool | None) -> Reached:
    is_there = step.run is not None and step.fault is None
    log = Part.THERE if is_there else Part.UNKNOWN if step.is_unsupported else Part.MISSING
    data, vectors = (files.data_files, files.vectors) if is_there else (Part.UNKNOWN, Part.UNKNOWN)
    until = files.needed_until_ms
    found = Reached(log, data, vectors, files.change_data, spark_allows, files_until_ms=until, why=step.fault)
    until_ms = min(files.needed_until_ms, log_until_ms)
    if not found.is_readable or until_ms == NEVER:
        return found
    return found._replace(until_ms=until_ms, until_by="log expire" if log_until_ms == until_ms else "vacuum")


def _log_until(listing: LogListing, times: Mapping[int, int], properties: Mapping[str, str]) -> dict[int, int]:
    """Return for each version when log expire may begin the log after it: when the cutoff reaches a checkpoint."""
    retention_ms = log_retention_ms(properties)
    starts = {one.version for one in listing.checkpoints if one.version in times}
    found, until = dict[int, int](), NEVER
    for version in sorted({*listing.commits, *(one.version for one in listing.checkpoints)}, reverse=True):
        found[version] = until
        if version in starts and not is_false(properties, LOG_CLEANUP):
            until = min(until, log_expires_at_ms(times[version], retention_ms))
    return found


def _spark_allows(step: Step, newest: Step, times: Mapping[int, int], cutoff_ms: int) -> bool | None:
    """Return whether Delta-Spark reads a version by its age: the newest, and those within the retention of files."""
    if step.version == newest.version:
        return True
    return None if step.version not in times else times[step.version] >= cutoff_ms


def _cleanup(
    table: TableHandle,
    properties: Mapping[str, str],
    retention_ms: int | None,
    versions: Mapping[int, Reached],
    snapshot: Snapshot | None,
    walk: KeptWalk | None,
) -> Cleanup:
    of_log, of_files = log_retention_ms(properties), deleted_file_retention_ms(properties)
    notes: list[str] = []
    readable = {version for version, one in versions.items() if one.is_readable}
    lost: set[int] = set()
    log = files = None
    try:
        expiry = plan_expiry(
            table,
            ExpiryRequest(retention_ms=retention_ms, allow_retention_below_ms=of_log, dry_run=True),
            snapshot=snapshot,
        )
        notes += [f"log expire is refused: {one.message}" for one in expiry.refusals]
        log = Amount(len(expiry.files), expiry.size_bytes)
        lost |= readable & set(expiry.lost_versions)
    except (Unreadable, CommitCorrupt, Refused) as fault:
        notes.append(f"log expire is not possible: {fault.message}")
    try:
        vacuum = plan_vacuum(
            table,
            VacuumRequest(retention_ms=retention_ms, allow_retention_below_ms=of_files, dry_run=True),
            snapshot=snapshot,
            walk=walk,
        )
        notes += [f"vacuum is refused: {one.message}" for one in vacuum.refusals]
        files = Amount(vacuum.files, vacuum.size_bytes)
        lost |= {version for version in readable if versions[version].files_until_ms - of_files < vacuum.cutoff_ms}
    except (Unreadable, CommitCorrupt, Refused) as fault:
        notes.append(f"vacuum is not possible: {fault.message}")
    retentions = (of_log, of_files) if retention_ms is None else (retention_ms, retention_ms)
    return Cleanup(*retentions, log, files, tuple(sorted(lost)), tuple(notes))
