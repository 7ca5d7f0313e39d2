"""Rebuild the state of a table at one version from its log.

Every command, share and Spark data source opens a version through this module:

1. `find_log` lists `_delta_log`. If `_last_checkpoint` exists, the listing starts at the checkpoint that
   it references.
2. `choose_segment` selects the newest usable checkpoint at or before the version, and all later commits
   up to the version.
3. `replay_commits` reads these commits, newest first.
4. The checkpoint is opened. Its file actions are filtered: an add or remove in a later commit replaces
   the action of the same file in the checkpoint.

`_last_checkpoint` and checkpoints are optimizations. If a checkpoint is damaged, the version is rebuilt
from an older checkpoint, or from the first commit, and the snapshot lists the damage in its `problems`.
Commits are not optional: if one is missing, the state of the table is unknown, and an error is raised.

`time_travel.py` finds the version that belongs to a timestamp.

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
    ReconciledActions,
    build_narrow_batches,
    compute_file_key,
    find_superseded_keys,
    reconcile_commit,
)
from deltacli.delta.log.segment import (
    CheckpointInstance,
    LogFileKind,
    LogListing,
    LogSegment,
    choose_segment,
    suggest_readable_version,
)
from deltacli.delta.log.state import StateBuilder, drop_null_fields
from deltacli.delta.protocol.features import require_readable
from deltacli.storage.optional_interfaces import is_shared_directory
from deltacli.table.api_errors import api_method
from deltacli.table.find_log import ListedLog, find_log, find_lost_versions, list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.older_metadata import LogMetadataReader
from deltacli.table.replay import ReplayedCommits, replay_commits
from deltacli.table.segment_contents import SegmentContents
from deltacli.table.timestamp_enablement import get_enablement_version
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.delta.log.actions import Action
    from deltacli.work.checkpoints.parquet_files import CheckpointPiece
    from deltacli.work.checkpoints.reading import CheckpointContents

_MOST_VERSIONS_TRIED = 8
"""Number of versions that `find_newest_readable` tries.

Its callers read table properties, which rarely change. Trying every version of a broken table would take
as many replays as it has versions.
"""


@api_method
def read_snapshot(table: TableHandle, *, version: int | None = None) -> Snapshot:
    """List the log and rebuild a version.

    Args:
        table: The table. Its `machine` provides the clock that records when the log was listed.
        version: The version to read. None for the newest version.

    Raises:
        NotATable: If the directory has no log.
        VersionAbsent: If the version does not exist yet, or its log files were deleted.
        LogIncomplete: If commits are missing that are required to rebuild the version.
        CommitCorrupt: If one of the required commits is damaged.
        CheckpointUnreadable: If no checkpoint can be read and the commits do not start at version 0.
        ProtocolUnsupported: If the version requires a reader feature that deltacli does not support.
    """
    try:
        log = find_log(table.storage, version, progress=table.progress, monotonic=table.machine.monotonic)
        return rebuild_version(table, log, version)
    except errors.FileMissing:
        # A log cleanup deleted a listed file before it was read. List the remaining files and retry once.
        listing = list_log(table.storage, progress=table.progress)
        return rebuild_version(table, ListedLog(listing), version)


class NewestReadable(NamedTuple):
    """The newest version that can be rebuilt.

    Attributes:
        snapshot: The version.
        gap: The error that prevented reading the newest version of the table; None if `snapshot` is the
            newest version.
    """

    snapshot: Snapshot
    gap: errors.LogIncomplete | None = None


@api_method
def read_newest_readable(table: TableHandle) -> NewestReadable:
    """Rebuild the newest version or, if commits are missing, the newest version that does not need them.

    Raises:
        LogIncomplete: If no version can be rebuilt.
    """
    try:
        return NewestReadable(read_snapshot(table))
    except errors.LogIncomplete as error:
        readable_versions = list_log(table.storage, progress=table.progress).reconstructable
        if not readable_versions:
            raise
        return NewestReadable(read_snapshot(table, version=max(readable_versions)), error)


def rebuild_version(
    table: TableHandle,
    log: ListedLog,
    version: int | None,
    *,
    unusable: Mapping[CheckpointInstance, str] = MappingProxyType({}),
) -> Snapshot:
    """Rebuild a version from a listing of the log.

    The newest readable checkpoint is used. A checkpoint that cannot be read is added to the problems of
    the snapshot; it is an error only if neither an older checkpoint nor the first commit exists.

    Args:
        table: The table.
        log: The listing. If it starts at the checkpoint of `_last_checkpoint` and the version cannot be
            rebuilt from there, the log is listed again from its start.
        version: The version to read. None for the newest version.
        unusable: Checkpoints that must not be used, each with the id of the rule that it violates.

    Raises:
        DeltacliError: The same errors as `read_snapshot`.
    """
    rejected = dict(unusable)
    try:
        return _rebuild_from_listing(table, log, version, rejected)
    except (errors.LogIncomplete, errors.VersionAbsent, errors.CheckpointUnreadable):
        if log.listing.start_version == 0:
            raise
        # The listing started at `_last_checkpoint`. Older checkpoints and commits may still exist.
        listing = list_log(table.storage, progress=table.progress)
        return _rebuild_from_listing(table, log._replace(listing=listing), version, rejected)


def rebuild_without_checkpoint(snapshot: Snapshot, rule: str) -> Snapshot:
    """Rebuild the version of a snapshot without the checkpoint that the snapshot was rebuilt from.

    Args:
        snapshot: The snapshot. It is returned unchanged if it does not use a checkpoint.
        rule: The id of the rule that the checkpoint violates, such as `checkpoint.duplicate-key`.

    Raises:
        DeltacliError: The same errors as `read_snapshot`.
    """
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return snapshot
    unusable = {**snapshot.unusable, checkpoint: rule}
    return rebuild_version(snapshot.table, snapshot.log, snapshot.version, unusable=unusable)


def find_enablement_version(table: TableHandle, listing: LogListing) -> int | None:
    """Return the first version whose commit time is its in-commit timestamp.

    The answer is recorded in the properties of the newest version. If no recent version can be rebuilt,
    the properties are unknown, and all in-commit timestamps are used.

    Returns:
        The version; None if the commit times of all versions are file modification times.
    """
    try:
        newest = find_newest_readable(table, listing)
    except errors.FileMissing:
        # A log cleanup deleted a file after it was listed.
        return 0
    return 0 if newest is None else get_enablement_version(newest)


def find_newest_readable(
    table: TableHandle, listing: LogListing, loaded_snapshot: Snapshot | None = None
) -> Snapshot | None:
    """Return the newest version that can be rebuilt.

    Args:
        table: The table.
        listing: The log, listed from its start.
        loaded_snapshot: A snapshot that has been read already. It is returned instead of rebuilding its
            version.

    Returns:
        The snapshot; None if none of the newest eight versions can be rebuilt.
    """
    for version in reversed(listing.reconstructable[-_MOST_VERSIONS_TRIED:]):
        if loaded_snapshot is not None and loaded_snapshot.version == version:
            return loaded_snapshot
        try:
            return rebuild_version(table, ListedLog(listing), version)
        except errors.Unreadable:
            continue
    return None


def _rebuild_from_listing(
    table: TableHandle, log: ListedLog, version: int | None, rejected: dict[CheckpointInstance, str]
) -> Snapshot:
    """Rebuild a version from the newest checkpoint that can be read, or from the first commit.

    If the log is sound, every start results in the same state, because a checkpoint only repeats the
    reconciled actions of the commits before it.

    Args:
        table: The table.
        log: The listing.
        version: The version to read. None for the newest version.
        rejected: Checkpoints that must not be used, with the ids of the rules that they violate.
            Checkpoints that turn out to be unreadable are added, so that a second call skips them.
    """
    first_error: errors.CheckpointUnreadable | None = None
    # Each iteration returns, raises, or rejects one more checkpoint. So the loop ends.
    while True:
        try:
            segment = choose_segment(log.listing, version, unusable=rejected)
        except errors.Unreadable as error:
            if first_error is not None:
                # Older commits are required only because the checkpoint is damaged. Report the damage.
                raise first_error from None
            if isinstance(error, errors.LogIncomplete) and managed_store(table.storage) is not None:
                error.hint = _suggest_catalog_status(log.listing)
            raise

        try:
            snapshot = _read_segment(table, log, segment, rejected)
        except errors.CommitCorrupt as error:
            corrupt_versions = [file.version for file in segment.commits if file.name == error.file]
            error.hint = suggest_readable_version(log.listing, corrupt_versions) or errors.command("validate")
            raise
        except errors.CheckpointUnreadable as error:
            if segment.checkpoint is None:
                raise
            first_error = first_error or error
            rejected[segment.checkpoint] = error.code
            continue

        _note_version(table, log, snapshot)
        return snapshot


def _suggest_catalog_status(listing: LogListing) -> str:
    """Return the hint for missing commits of a catalog-managed table.

    The catalog may have ratified these commits without publishing them to `_delta_log` yet.
    """
    status = errors.command("catalog status")
    readable = suggest_readable_version(listing)
    return status if readable is None else f"{readable}   # or see what the catalog has: {status}"


def _note_version(table: TableHandle, log: ListedLog, snapshot: Snapshot) -> None:
    """Report the version to the table handle and its store, which compare it with other readings.

    Raises:
        AnswerInvalid: If the server of a share announced a different table id or a newer version.
    """
    table.note_version(log.listing.newest_version)
    if is_shared_directory(table.storage):
        table.storage.require_announced(snapshot.metadata.id, log.listing.newest_version)
    managed = managed_store(table.storage)
    if managed is not None:
        managed.note_table(snapshot.properties)


class _CheckpointState(NamedTuple):
    """File actions of a JSON checkpoint, reconciled with the commits after it.

    Parquet checkpoints store file actions in row groups, which are read on demand; for them the file
    actions are empty here. V2 checkpoints in JSON store them in lines, which are read at once.

    Attributes:
        file_actions: File actions that no later commit replaces.
        narrow_file_actions: The same file actions in narrow columns.
        disputed_rules: Ids of `validate` rules for content that other engines may interpret differently.
    """

    file_actions: ReconciledActions
    narrow_file_actions: FileBatch
    disputed_rules: set[str]


def _read_segment(
    table: TableHandle, log: ListedLog, segment: LogSegment, rejected: Mapping[CheckpointInstance, str]
) -> Snapshot:
    """Read protocol, metadata and other small actions of a log segment, and plan reading its file actions.

    Raises:
        CommitCorrupt: If a commit is damaged.
        CheckpointUnreadable: If the checkpoint is damaged.
        ProtocolUnsupported: If the version requires a reader feature that deltacli does not support.
        Unreadable: If the segment has no protocol action or no metaData action.
    """
    # Commits are newer than the checkpoint. They are read first, because their actions replace those of
    # the checkpoint.
    replayed = replay_commits(
        table.storage,
        table.engine,
        segment.commits,
        has_older_actions=segment.checkpoint is not None,
        progress=table.progress,
    )
    state = replayed.state

    contents: CheckpointContents | None = None
    checkpoint_state = _CheckpointState(ReconciledActions([], []), FileBatch(), set())
    if segment.checkpoint is not None:
        contents = _open_checkpoint(table, segment.checkpoint)
        checkpoint_state = _reconcile_checkpoint(replayed, contents, segment.checkpoint.files[0].name)

    # The protocol is checked before the metadata: an unknown reader feature may change its meaning.
    if state.protocol is None:
        raise _missing_action_error(segment, "protocol", "protocol.missing")
    try:
        require_readable(state.protocol, segment.version)
    except errors.ProtocolUnsupported as error:
        error.actions = list(state.to_actions())
        raise
    if state.metadata is None:
        raise _missing_action_error(segment, "metaData", "metadata.missing")

    sidecars = contents.sidecars if contents else ()
    pieces = [*contents.pieces] if contents else []
    pieces += _plan_sidecar_pieces(table, sidecars)
    contents_of_segment = SegmentContents(
        replayed, checkpoint_state.file_actions, checkpoint_state.narrow_file_actions, tuple(pieces)
    )
    problems = _find_problems(table, log, segment, state, rejected)
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
        raw_protocol=drop_null_fields(state.raw_protocol or {}),
        raw_metadata=drop_null_fields(state.raw_metadata or {}),
        contents=contents_of_segment,
        _problems=problems | replayed.disputed_rules | checkpoint_state.disputed_rules,
        _log=log,
        _unusable=dict(rejected),
        _older_metadata=LogMetadataReader(table, segment.version, partial(_read_metadata, table)),
        _find_enablement_version=partial(find_enablement_version, table, log.listing),
    )


def _open_checkpoint(table: TableHandle, checkpoint: CheckpointInstance) -> CheckpointContents:
    # Imported here because tables without a checkpoint start faster without the Parquet reader.
    from deltacli.work.checkpoints.reading import open_checkpoint

    return open_checkpoint(table.stores, checkpoint)


def _reconcile_checkpoint(replayed: ReplayedCommits, contents: CheckpointContents, file_name: str) -> _CheckpointState:
    """Reconcile the actions of a checkpoint with the commits after it.

    Args:
        replayed: The replayed commits. The protocol, metadata, transactions and domains of the checkpoint
            are added to `replayed.state` where no commit has replaced them.
        contents: The opened checkpoint.
        file_name: The name of the first file of the checkpoint, for error messages.

    Raises:
        CheckpointUnreadable: If an action is invalid. The same action in a commit raises CommitCorrupt,
            but a damaged checkpoint can be skipped and a damaged commit cannot.
    """
    disputed_rules: set[str] = set()
    try:
        disputed_rules.update(_find_repeated_kinds_of_checkpoint(replayed.state, contents.small))
        replayed.state.add_actions(contents.small, file_name)

        replaced_keys = replayed.superseded_keys | find_superseded_keys(
            contents.json_actions, replayed.keys_of_large_commits, file_name
        )
        if _has_repeated_adds(contents.json_actions, replaced_keys, file_name):
            disputed_rules.add(REPEATED_IN_CHECKPOINT)
        file_actions = reconcile_commit(contents.json_actions, replaced_keys, file_name)
        narrow_file_actions = FileBatch(*build_narrow_batches(file_actions.adds, file_actions.removes, file_name))
    except errors.CommitCorrupt as error:
        raise errors.CheckpointUnreadable(error.message, code=error.code, facts=error.facts) from error
    return _CheckpointState(file_actions, narrow_file_actions, disputed_rules)


def _has_repeated_adds(actions: Sequence[tuple[str, Action]], replaced_keys: Collection[str], file_name: str) -> bool:
    """Return True if a JSON checkpoint adds a file twice and no later commit replaces that file."""
    keys = [compute_file_key(action, file_name) for kind, action in actions if kind == "add"]
    return any(count > 1 and key not in replaced_keys for key, count in Counter(keys).items())


def _find_repeated_kinds_of_checkpoint(
    commit_state: StateBuilder, actions: Sequence[tuple[str, Action]]
) -> Iterator[str]:
    """Yield the rules that a checkpoint violates by containing two protocol or two metaData actions.

    Repeated actions do not matter if a commit after the checkpoint replaces them.
    """
    for rule in find_repeated_kinds(actions):
        if rule == TWO_PROTOCOLS and commit_state.protocol is None:
            yield "checkpoint.no-protocol"
        if rule == TWO_METADATA and commit_state.metadata is None:
            yield "checkpoint.no-metadata"


def _read_metadata(table: TableHandle, version: int) -> Action:
    return read_snapshot(table, version=version).raw_metadata


def _plan_sidecar_pieces(table: TableHandle, sidecars: Sequence[str]) -> Iterator[CheckpointPiece]:
    """Read the Parquet footers of the sidecar files of a V2 checkpoint, and yield their row groups."""
    if not sidecars:
        return
    # Imported here because tables without sidecars start faster without the Parquet reader.
    from deltacli.work.checkpoints.reading import plan_checkpoint_pieces

    # Reading a footer from a remote store is dominated by latency, so use all requests that the store
    # allows in parallel. On a local disk, the number of threads of the engine is the limit.
    parallel_reads = table.storage.capabilities.parallel_reads
    at_once = parallel_reads if parallel_reads > 1 else None
    planned = table.engine.run_tasks(plan_checkpoint_pieces, sidecars, table.stores, at_once=at_once)
    for pieces in report_items(planned, table.progress, "opening sidecars", unit="files", total=len(sidecars)):
        yield from pieces


def _missing_action_error(segment: LogSegment, action: str, code: str) -> errors.Unreadable:
    replayed_commits = "no commit"
    if segment.commits:
        replayed_commits = name_ranges("commit", (commit.version for commit in segment.commits))
    return errors.Unreadable(
        f"version {segment.version} has no {action} action",
        code=code,
        facts={"replayed": replayed_commits},
        hint=errors.command("history"),
    )


def _name_layout(checkpoint: CheckpointInstance | None, contents: CheckpointContents | None) -> str | None:
    """Return the layout of a checkpoint: `classic`, `multi-part` or `v2`; None without a checkpoint.

    The content decides, because writers may store a V2 checkpoint under the file name of a classic one.
    """
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
    """Return the ids of the `validate` rules that the log violates although the version could be rebuilt."""
    problems = {*log.hint_problems, *segment.problems, *rejected.values()}

    is_newest = segment.version == log.listing.newest_version
    is_catalog_managed = state.protocol is not None and state.protocol.is_catalog_managed
    if is_catalog_managed and managed_store(table.storage) is None:
        # The table was opened by its path and not through the catalog, which may have newer commits.
        problems.add("catalog.unpublished-possible")
    elif is_newest and log.listing.newest_version < log.hint_version:
        # `_last_checkpoint` was read before the log was listed. So its version existed then, and the
        # commits up to it have been lost.
        problems.add("hint.ahead-of-log")
    elif is_newest:
        lost_versions = find_lost_versions(table.storage, log.listing, -1)
        if lost_versions is not None:
            problems.add(lost_versions.rule)

    if state.metadata is not None and state.metadata.schema_string is None:
        # The schemaString field is required. Without it the schema is read as empty.
        problems.add("action.missing-required")
    return frozenset(problems)
