"""Rebuilding a version, and choosing the files of the log to rebuild it from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltacli.core.errors import (
    CheckpointUnreadable,
    CommitCorrupt,
    FileMissing,
    LogIncomplete,
    ProtocolUnsupported,
    Unreadable,
    VersionAbsent,
)
from deltacli.core.hints import command
from deltacli.core.progress import reported
from deltacli.core.units import named_ranges
from deltacli.delta.log.file_actions import FileBatch, narrow_batches
from deltacli.delta.log.log_path import LogFileKind
from deltacli.delta.log.replay import Survivors, decided_keys, reconcile_commit
from deltacli.delta.log.segment import CheckpointInstance, LogSegment, choose_segment, hint_readable
from deltacli.delta.log.state import StateBuilder, plain_action
from deltacli.delta.protocol.protocol_action import require_readable
from deltacli.table.api_arguments import named
from deltacli.table.find_log import Log, find_log, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.replay import read_tail
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.work.checkpoints.reading import CheckpointContents, CheckpointPiece


@named
def read_snapshot(table: TableHandle, *, version: int | None = None) -> Snapshot:
    """List the log and rebuild a version, or the newest one.

    Raises NotATable, VersionAbsent, LogIncomplete, CommitCorrupt, CheckpointUnreadable, ProtocolUnsupported.
    """
    try:
        log = find_log(table.storage, version, progress=table.progress, monotonic=table.machine.monotonic)
        return rebuild(table, log, version)
    except FileMissing:
        # The log was cleaned between the listing and now: use a new listing.
        return rebuild(table, Log(list_log(table.storage, progress=table.progress)), version)


@named
def read_newest_readable(table: TableHandle) -> tuple[Snapshot, LogIncomplete | None]:
    """Rebuild the newest version; where commits are missing, the newest one that can be rebuilt, with the reason.

    Raises what `read_snapshot` raises; LogIncomplete only where no version can be rebuilt.
    """
    try:
        return read_snapshot(table), None
    except LogIncomplete as fault:
        readable = list_log(table.storage, progress=table.progress).reconstructable
        if not readable:
            raise
        return read_snapshot(table, version=max(readable)), fault


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
            state = _read_state(table, log, segment, rejected)
            table.note_version(log.listing.newest_version)
            return state
        except CommitCorrupt as fault:
            broken = [file.version for file in segment.commits if file.name == fault.file]
            fault.hint = hint_readable(log.listing, broken) or command("validate")
            raise
        except CheckpointUnreadable as fault:
            if segment.checkpoint is None:
                raise
            first_fault = first_fault or fault
            rejected[segment.checkpoint] = fault.code


def _read_state(
    table: TableHandle, log: Log, segment: LogSegment, rejected: Mapping[CheckpointInstance, str]
) -> Snapshot:
    """Read the small actions of a segment, check that the version may be read, and prepare reading its file actions."""
    older_follow = segment.checkpoint is not None
    tail = read_tail(table.storage, table.engine, segment.commits, older_follow=older_follow, progress=table.progress)
    contents = _open(table, segment.checkpoint) if segment.checkpoint else None
    state = tail.state
    survived, inline = Survivors([], []), FileBatch()
    if contents is not None and segment.checkpoint is not None:
        name = segment.checkpoint.files[0].name
        try:
            state.take(contents.small, name)
            hidden = tail.seen | decided_keys(contents.json_actions, tail.decided, name)
            survived = reconcile_commit(contents.json_actions, hidden, name)
            inline = FileBatch(*narrow_batches(survived.adds, survived.removes, name))
        except CommitCorrupt as fault:
            raise CheckpointUnreadable(fault.message, code=fault.code, facts=fault.facts) from fault
    if state.protocol is None:
        raise _nothing_says(segment, "protocol", "protocol.missing")
    try:
        require_readable(state.protocol, segment.version)
    except ProtocolUnsupported as fault:
        fault.actions = list(state.described())
        raise
    if state.metadata is None:
        raise _nothing_says(segment, "metaData", "metadata.missing")
    sidecars = contents.sidecars if contents else ()
    pieces = [*(contents.pieces if contents else ()), *_pieces_of(table, sidecars)]
    return Snapshot(
        table=table,
        version=segment.version,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=state.live_transactions,
        domains=state.live_domains,
        segment=segment,
        checkpoint_layout=_layout(segment.checkpoint, contents),
        sidecars=len(sidecars),
        raw_protocol=plain_action(state.raw_protocol or {}),
        raw_metadata=plain_action(state.raw_metadata or {}),
        _problems=_problems(log, segment, state, rejected),
        _log=log,
        _tail=tail,
        _inline=survived,
        _narrow_inline=inline,
        _pieces=tuple(pieces),
        _unusable=dict(rejected),
    )


def _open(table: TableHandle, checkpoint: CheckpointInstance) -> CheckpointContents:
    from deltacli.work.checkpoints.reading import open_checkpoint

    return open_checkpoint(table.stores, checkpoint)


def _pieces_of(table: TableHandle, sidecars: Sequence[str]) -> Iterator[CheckpointPiece]:
    if not sidecars:
        return
    from deltacli.work.checkpoints.reading import plan_pieces

    reads = table.storage.capabilities.parallel_reads  # a footer is small: on a remote store the time is latency
    planned = table.engine.spread(plan_pieces, sidecars, table.stores, at_once=reads if reads > 1 else None)
    for found in reported(planned, table.progress, "opening sidecars", unit="files", total=len(sidecars)):
        yield from found


def _nothing_says(segment: LogSegment, action: str, code: str) -> Unreadable:
    return Unreadable(
        f"version {segment.version} has no {action} action",
        code=code,
        facts={
            "replayed": named_ranges("commit", (commit.version for commit in segment.commits))
            if segment.commits
            else "no commit"
        },
        hint=command("history"),
    )


def _layout(checkpoint: CheckpointInstance | None, contents: CheckpointContents | None) -> str | None:
    if checkpoint is None or contents is None:
        return None
    if contents.is_v2 or checkpoint.kind is LogFileKind.UUID_CHECKPOINT:
        return "v2"
    return "multi-part" if checkpoint.kind is LogFileKind.MULTI_PART_CHECKPOINT else "classic"


def _problems(
    log: Log, segment: LogSegment, state: StateBuilder, rejected: Mapping[CheckpointInstance, str]
) -> frozenset[str]:
    found = {*log.hint_problems, *segment.problems, *rejected.values()}
    if state.protocol is not None and state.protocol.is_catalog_managed:
        found.add("catalog.unpublished-possible")
    if state.metadata is not None and state.metadata.schema_string is None:
        found.add("action.missing-required")  # metaData without schemaString, read as an empty schema
    return frozenset(found)
