"""Rebuild a version of a table from its log.

This is the only way to the state of a table; every command, share and frame comes through here:

1. `find_log` lists the log, from the checkpoint that `_last_checkpoint` names where that is shorter.
2. `choose_segment` chooses the newest usable checkpoint at or below the version, and the commits after it.
3. `replay_commits` reads these commits, newest first.
4. The checkpoint is opened, and what the commits have decided hides its actions.

`_last_checkpoint` and checkpoints are shortcuts. If one is damaged, the same version is rebuilt from an
older start, and the snapshot says so in its `problems`. Commits are not shortcuts: without one of them
the state is unknown, which is an error.

Which version a time means is decided in `time_travel.py`.

Spec: Action Reconciliation; Checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core import errors
from deltacli.core.progress import report_items
from deltacli.core.ranges import name_ranges
from deltacli.delta.log.disputed_readings import (
    REPEATED_IN_CHECKPOINT,
    TWO_METADATA,
    TWO_PROTOCOLS,
    find_repeated_kinds,
)
from deltacli.delta.log.file_actions import (
    FileBatch,
    Survivors,
    decided_keys,
    file_key,
    narrow_batches,
    reconcile_commit,
)
from deltacli.delta.log.segment import (
    CheckpointInstance,
    LogFileKind,
    LogListing,
    LogSegment,
    choose_segment,
    hint_readable,
)
from deltacli.delta.log.state import StateBuilder, plain_action
from deltacli.delta.protocol.features import require_readable
from deltacli.storage.optional_interfaces import SharedDirectoryStore
from deltacli.table.api_errors import api_method
from deltacli.table.find_log import ListedLog, find_log, find_lost_versions, list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.older_metadata import MetadataOfLog
from deltacli.table.replay import ReplayedCommits, replay_commits
from deltacli.table.timestamp_enablement import get_enablement_version
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.delta.log.actions import Action
    from deltacli.work.checkpoints.reading import CheckpointContents, CheckpointPiece

_VERSIONS_TRIED = 8
"""Newest versions that are tried when any recent one will do, such as for the properties of the table."""


@api_method
def read_snapshot(table: TableHandle, *, version: int | None = None) -> Snapshot:
    """List the log and rebuild a version.

    Args:
        table: The table.
        version: The version. None for the newest one.

    Raises:
        NotATable: If there is no log.
        VersionAbsent: If the version does not exist, or its files were deleted.
        LogIncomplete: If commits are missing that the version needs.
        CommitCorrupt: If one of these commits is damaged.
        CheckpointUnreadable: If no checkpoint can be read, and the commits do not reach back to the start.
        ProtocolUnsupported: If the version needs a reader feature that is unknown here.
    """
    try:
        log = find_log(table.storage, version, progress=table.progress, monotonic=table.machine.monotonic)
        return rebuild_version(table, log, version)
    except errors.FileMissing:
        # A writer cleaned the log between the listing and the reading. A new listing has what is left.
        listing = list_log(table.storage, progress=table.progress)
        return rebuild_version(table, ListedLog(listing), version)


@api_method
def read_newest_readable(table: TableHandle) -> tuple[Snapshot, errors.LogIncomplete | None]:
    """Rebuild the newest version or, if commits are missing, the newest one that can be rebuilt.

    Returns:
        The version, and why it is not the newest one; None if it is.

    Raises:
        LogIncomplete: If no version can be rebuilt.
    """
    try:
        return read_snapshot(table), None
    except errors.LogIncomplete as fault:
        readable = list_log(table.storage, progress=table.progress).reconstructable
        if not readable:
            raise
        return read_snapshot(table, version=max(readable)), fault


def rebuild_version(
    table: TableHandle,
    log: ListedLog,
    version: int | None,
    *,
    unusable: Mapping[CheckpointInstance, str] = MappingProxyType({}),
) -> Snapshot:
    """Rebuild a version from a listing of the log.

    The newest readable checkpoint is used. An unreadable one becomes a problem of the snapshot, and an
    error only if there is no older start.

    Args:
        table: The table.
        log: The listing. If it begins at the checkpoint of the hint and that does not lead to the
            version, the log is listed from its start.
        version: The version. None for the newest one.
        unusable: Checkpoints that must not be used, each with the rule that it breaks.

    Raises:
        DeltacliError: As `read_snapshot` does.
    """
    rejected = dict(unusable)
    try:
        return _rebuild_from_listing(table, log, version, rejected)
    except (errors.LogIncomplete, errors.VersionAbsent, errors.CheckpointUnreadable):
        if log.listing.start_version == 0:
            raise
        # A listing that begins at the hint lacks older checkpoints and commits, which may be the way out.
        listing = list_log(table.storage, progress=table.progress)
        return _rebuild_from_listing(table, log._replace(listing=listing), version, rejected)


def rebuild_without_checkpoint(snapshot: Snapshot, rule: str) -> Snapshot:
    """Rebuild the same version as if the checkpoint that it was rebuilt from did not exist.

    Args:
        snapshot: The version.
        rule: The rule that its checkpoint breaks.

    Raises:
        DeltacliError: As `read_snapshot` does.
    """
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return snapshot
    unusable = {**snapshot.unusable, checkpoint: rule}
    return rebuild_version(snapshot.table, snapshot.log, snapshot.version, unusable=unusable)


def find_enablement_version(table: TableHandle, listing: LogListing) -> int | None:
    """Return the first version whose time is its in-commit timestamp; None if all have the times of files.

    If no version can be rebuilt, no time selects one, and the timestamps in the commits are all that is
    known: 0.
    """
    try:
        newest = find_newest_readable(table, listing)
    except errors.FileMissing:  # deleted since it was listed
        newest = None
    return 0 if newest is None else get_enablement_version(newest)


def find_newest_readable(table: TableHandle, listing: LogListing, known: Snapshot | None = None) -> Snapshot | None:
    """Return the newest version that can be rebuilt, among the last ones of a log; None if none of them can.

    Args:
        table: The table.
        listing: Its log, listed from the start.
        known: A version that need not be rebuilt.
    """
    for version in reversed(listing.reconstructable[-_VERSIONS_TRIED:]):
        if known is not None and known.version == version:
            return known
        try:
            return rebuild_version(table, ListedLog(listing), version)
        except errors.Unreadable:
            continue
    return None


def _rebuild_from_listing(
    table: TableHandle, log: ListedLog, version: int | None, rejected: dict[CheckpointInstance, str]
) -> Snapshot:
    """Rebuild a version from the newest start that can be read.

    Each round either ends or rejects one more checkpoint, so the loop ends. All starts lead to the same
    state in a sound log, because a checkpoint is what the commits up to it lead to.

    Args:
        table: The table.
        log: The listing.
        version: The version. None for the newest one.
        rejected: Checkpoints that must not be used, with the rules that they break. Those that turn out
            to be unreadable are added.
    """
    first_fault: errors.CheckpointUnreadable | None = None
    while True:
        try:
            segment = choose_segment(log.listing, version, unusable=rejected)
        except errors.Unreadable as fault:
            if first_fault is not None:
                # The damaged checkpoint is the cause; without it nobody would miss the older commits.
                raise first_fault from None
            if isinstance(fault, errors.LogIncomplete) and managed_store(table.storage) is not None:
                fault.hint = _suggest_catalog_status(log.listing)
            raise

        try:
            snapshot = _read_segment(table, log, segment, rejected)
        except errors.CommitCorrupt as fault:
            broken_versions = [file.version for file in segment.commits if file.name == fault.file]
            fault.hint = hint_readable(log.listing, broken_versions) or errors.command("validate")
            raise
        except errors.CheckpointUnreadable as fault:
            if segment.checkpoint is None:
                raise
            first_fault = first_fault or fault
            rejected[segment.checkpoint] = fault.code
            continue

        _note_version(table, log, snapshot)
        return snapshot


def _suggest_catalog_status(listing: LogListing) -> str:
    """Return the hint for a table that a catalog manages: the missing commits may be waiting in the catalog."""
    status = errors.command("catalog status")
    readable = hint_readable(listing)
    return status if readable is None else f"{readable}   # or see what the catalog has: {status}"


def _note_version(table: TableHandle, log: ListedLog, snapshot: Snapshot) -> None:
    """Tell the handle and its store what was read, for those that compare it with later readings.

    Raises:
        AnswerInvalid: If the server of a share announced another table, or a newer version of it.
    """
    table.note_version(log.listing.newest_version)
    if isinstance(table.storage, SharedDirectoryStore):
        table.storage.require_announced(snapshot.metadata.id, log.listing.newest_version)
    managed = managed_store(table.storage)
    if managed is not None:
        managed.note_table(snapshot.properties)


class _CheckpointState(NamedTuple):
    """The part that an opened checkpoint adds to the commits after it.

    A checkpoint in Parquet has its file actions in row groups, which are read when they are needed. One
    in JSON has them in lines, which are reconciled here.

    Attributes:
        file_actions: The file actions of lines that no commit has decided.
        narrow_file_actions: The same in narrow columns.
        disputed: The rules of `validate` for what other engines may read differently.
    """

    file_actions: Survivors
    narrow_file_actions: FileBatch
    disputed: set[str]


def _read_segment(
    table: TableHandle, log: ListedLog, segment: LogSegment, rejected: Mapping[CheckpointInstance, str]
) -> Snapshot:
    """Read the small actions of a segment of the log, and prepare reading its file actions.

    The commits come first: they are newer, so that their actions hide those of the checkpoint.

    Raises:
        CommitCorrupt: If a commit is damaged.
        CheckpointUnreadable: If the checkpoint is damaged.
        ProtocolUnsupported: If the version needs a reader feature that is unknown here.
        Unreadable: If no action says which protocol or metadata the version has.
    """
    replayed = replay_commits(
        table.storage,
        table.engine,
        segment.commits,
        older_follow=segment.checkpoint is not None,
        progress=table.progress,
    )
    state = replayed.state

    contents: CheckpointContents | None = None
    checkpoint_state = _CheckpointState(Survivors([], []), FileBatch(), set())
    if segment.checkpoint is not None:
        contents = _open_checkpoint(table, segment.checkpoint)
        checkpoint_state = _reconcile_checkpoint(replayed, contents, segment.checkpoint.files[0].name)

    # Of a version with an unknown reader feature nothing is read, its metadata included.
    if state.protocol is None:
        raise _missing_action_error(segment, "protocol", "protocol.missing")
    try:
        require_readable(state.protocol, segment.version)
    except errors.ProtocolUnsupported as fault:
        fault.actions = list(state.described())
        raise
    if state.metadata is None:
        raise _missing_action_error(segment, "metaData", "metadata.missing")

    sidecars = contents.sidecars if contents else ()
    pieces = [*contents.pieces] if contents else []
    pieces += _plan_sidecar_pieces(table, sidecars)
    return Snapshot(
        table=table,
        version=segment.version,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=state.live_transactions,
        domains=state.live_domains,
        segment=segment,
        checkpoint_layout=_name_layout(segment.checkpoint, contents),
        sidecars=len(sidecars),
        raw_protocol=plain_action(state.raw_protocol or {}),
        raw_metadata=plain_action(state.raw_metadata or {}),
        _problems=_find_problems(table, log, segment, state, rejected) | replayed.disputed | checkpoint_state.disputed,
        _log=log,
        _replayed=replayed,
        _inline=checkpoint_state.file_actions,
        _narrow_inline=checkpoint_state.narrow_file_actions,
        _pieces=tuple(pieces),
        _unusable=dict(rejected),
        _older_metadata=MetadataOfLog(table, segment.version, partial(_read_metadata, table)),
        _find_enablement_version=partial(find_enablement_version, table, log.listing),
    )


def _open_checkpoint(table: TableHandle, checkpoint: CheckpointInstance) -> CheckpointContents:
    from deltacli.work.checkpoints.reading import open_checkpoint  # which tables without a checkpoint do not need

    return open_checkpoint(table.stores, checkpoint)


def _reconcile_checkpoint(replayed: ReplayedCommits, contents: CheckpointContents, name: str) -> _CheckpointState:
    """Put the actions of a checkpoint below those of the commits after it.

    Args:
        replayed: What the commits lead to. The small actions of the checkpoint are added to its state.
        contents: The opened checkpoint.
        name: The name of its first file, for errors.

    Raises:
        CheckpointUnreadable: If an action is invalid. In a commit the same would be CommitCorrupt, but a
            checkpoint can be replaced by an older start.
    """
    disputed: set[str] = set()
    try:
        disputed.update(_find_repeated_kinds_of_checkpoint(replayed.state, contents.small))
        replayed.state.take(contents.small, name)
        hidden = replayed.decided_keys | decided_keys(contents.json_actions, replayed.keys_of_large_commits, name)
        if _has_repeated_adds(contents.json_actions, hidden, name):
            disputed.add(REPEATED_IN_CHECKPOINT)
        survived = reconcile_commit(contents.json_actions, hidden, name)
        narrow = FileBatch(*narrow_batches(survived.adds, survived.removes, name))
    except errors.CommitCorrupt as fault:
        raise errors.CheckpointUnreadable(fault.message, code=fault.code, facts=fault.facts) from fault
    return _CheckpointState(survived, narrow, disputed)


def _has_repeated_adds(actions: Sequence[tuple[str, Action]], hidden: Collection[str], source: str) -> bool:
    """Return True if the lines of a checkpoint have a live file twice that no commit has decided."""
    keys = [file_key(action, source) for kind, action in actions if kind == "add"]
    return any(count > 1 and key not in hidden for key, count in Counter(keys).items())


def _find_repeated_kinds_of_checkpoint(newer: StateBuilder, actions: Sequence[tuple[str, Action]]) -> Iterator[str]:
    """Yield the rules that a checkpoint breaks by two protocols or two metaData, unless a newer commit decides."""
    for rule in find_repeated_kinds(actions):
        if rule == TWO_PROTOCOLS and newer.protocol is None:
            yield "checkpoint.no-protocol"
        if rule == TWO_METADATA and newer.metadata is None:
            yield "checkpoint.no-metadata"


def _read_metadata(table: TableHandle, version: int) -> Action:
    return read_snapshot(table, version=version).raw_metadata


def _plan_sidecar_pieces(table: TableHandle, sidecars: Sequence[str]) -> Iterator[CheckpointPiece]:
    """Yield the row groups of the sidecars of a checkpoint, for which the footer of each sidecar is read."""
    if not sidecars:
        return
    from deltacli.work.checkpoints.reading import plan_checkpoint_pieces

    parallel_reads = table.storage.capabilities.parallel_reads
    # A footer is small, so on a remote store the time is latency. A local disk gets as many as the engine has threads.
    at_once = parallel_reads if parallel_reads > 1 else None
    planned = table.engine.spread(plan_checkpoint_pieces, sidecars, table.stores, at_once=at_once)
    for pieces in report_items(planned, table.progress, "opening sidecars", unit="files", total=len(sidecars)):
        yield from pieces


def _missing_action_error(segment: LogSegment, action: str, code: str) -> errors.Unreadable:
    replayed = "no commit"
    if segment.commits:
        replayed = name_ranges("commit", (commit.version for commit in segment.commits))
    return errors.Unreadable(
        f"version {segment.version} has no {action} action",
        code=code,
        facts={"replayed": replayed},
        hint=errors.command("history"),
    )


def _name_layout(checkpoint: CheckpointInstance | None, contents: CheckpointContents | None) -> str | None:
    """Return the layout of a checkpoint: a V2 checkpoint may also have the name of a classic one."""
    if checkpoint is None or contents is None:
        return None
    if contents.is_v2 or checkpoint.kind is LogFileKind.UUID_CHECKPOINT:
        return "v2"
    return "multi-part" if checkpoint.kind is LogFileKind.MULTI_PART_CHECKPOINT else "classic"


def _find_problems(
    table: TableHandle,
    log: ListedLog,
    segment: LogSegment,
    state: StateBuilder,
    rejected: Mapping[CheckpointInstance, str],
) -> frozenset[str]:
    """Return the rules of `validate` for what was worked around to rebuild a version."""
    problems = {*log.hint_problems, *segment.problems, *rejected.values()}

    is_newest = segment.version == log.listing.newest_version
    is_catalog_managed = state.protocol is not None and state.protocol.is_catalog_managed
    if is_catalog_managed and managed_store(table.storage) is None:
        # The path was given instead of the name in the catalog, which may have newer commits.
        problems.add("catalog.unpublished-possible")
    elif is_newest and log.listing.newest_version < log.hint_version:
        # The hint was read before the listing, so that no writer can have been in between.
        problems.add("hint.ahead-of-log")
    elif is_newest:
        lost = find_lost_versions(table.storage, log.listing, -1)
        if lost is not None:
            problems.add(lost.rule)

    if state.metadata is not None and state.metadata.schema_string is None:
        problems.add("action.missing-required")  # metaData without schemaString, read as an empty schema
    return frozenset(problems)
