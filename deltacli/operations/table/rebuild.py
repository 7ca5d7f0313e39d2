"""Rebuilding a version, and choosing the files of the log to rebuild it from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from deltacli.delta.log.segment import CheckpointInstance, choose_segment, hint_readable
from deltacli.errors import CheckpointUnreadable, CommitCorrupt, FileMissing, LogIncomplete, Unreadable, VersionAbsent
from deltacli.hints import command
from deltacli.operations.table.api_hints import named
from deltacli.operations.table.find_log import Log, find_log, list_log
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.version import Snapshot, read_state


@named
def read_snapshot(table: TableHandle, *, version: int | None = None) -> Snapshot:
    """List the log and rebuild a version, or the newest one.

    Raises NotATable, VersionAbsent, LogIncomplete, CommitCorrupt, CheckpointUnreadable, ProtocolUnsupported.
    """
    try:
        return rebuild(table, find_log(table.storage, version, progress=table.progress), version)
    except FileMissing:
        # The log was cleaned between the listing and now: use a new listing.
        return rebuild(table, Log(list_log(table.storage, progress=table.progress)), version)


def rebuild(
    table: TableHandle,
    log: Log,
    version: int | None,
    *,
    unusable: Mapping[CheckpointInstance, str] = MappingProxyType({}),
) -> Snapshot:
    """Rebuild a version, or the newest one, from a listing, without the `unusable` checkpoints (each with the rule it
    breaks).

    Uses the newest readable checkpoint; each unreadable one is a problem, which is fatal only where no older start
    exists. Raises what `read_snapshot` raises.
    """
    rejected = dict(unusable)
    try:
        return _rebuild(table, log, version, rejected)
    except (LogIncomplete, VersionAbsent, CheckpointUnreadable):
        if log.listing.start_version == 0:
            raise
        # A listing from the hint on lacks older starts.
        listing = list_log(table.storage, progress=table.progress)
        return _rebuild(table, log._replace(listing=listing), version, rejected)


def without_checkpoint(snapshot: Snapshot, rule: str) -> Snapshot:
    """Rebuild the same version as if its checkpoint, which breaks `rule`, did not exist.

    Raises what `rebuild` raises where no older start exists.
    """
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return snapshot
    return rebuild(snapshot.table, snapshot.log, snapshot.version, unusable={**snapshot.unusable, checkpoint: rule})


def _rebuild(table: TableHandle, log: Log, version: int | None, rejected: dict[CheckpointInstance, str]) -> Snapshot:
    first_fault: CheckpointUnreadable | None = None
    while True:
        try:
            segment = choose_segment(log.listing, version, unusable=rejected)
        except Unreadable:
            if first_fault is not None:
                raise first_fault from None
            raise
        try:
            state = read_state(table, log, segment, rejected)
            table.note_version(log.listing.newest_version)
            return state
        except CommitCorrupt as fault:
            broken = [file.version for file in segment.commits if file.name in fault.message]
            fault.hint = hint_readable(log.listing, broken) or command("validate")
            raise
        except CheckpointUnreadable as fault:
            if segment.checkpoint is None:
                raise
            first_fault = first_fault or fault
            rejected[segment.checkpoint] = fault.code
