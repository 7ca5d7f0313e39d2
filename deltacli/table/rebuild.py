"""Rebuilding a version, and finding the one that was the newest at a time.

Spec: In-Commit Timestamps, Recommendations for Readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core import errors
from deltacli.core.progress import report_items
from deltacli.core.ranges import name_ranges
from deltacli.core.times import format_timestamp
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
    file_times,
    hint_readable,
)
from deltacli.delta.log.state import StateBuilder, in_commit_keys, parse_integer, plain_action
from deltacli.delta.protocol.features import require_readable
from deltacli.storage.optional_interfaces import StoreOfVersions, StoreWithBounds
from deltacli.table.api_arguments import VersionTime, require_optional_version, require_timestamp_ms
from deltacli.table.api_errors import api_method
from deltacli.table.find_log import Log, find_log, find_lost_versions, list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.older_metadata import MetadataOfLog
from deltacli.table.replay import read_tail
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import read_provenance

if TYPE_CHECKING:
    from deltacli.delta.log.actions import Action
    from deltacli.work.checkpoints.reading import CheckpointContents, CheckpointPiece

# -- rebuilding a version ----------------------------------------------------------------------------------------------


@api_method
def read_snapshot(table: TableHandle, *, version: int | None = None) -> Snapshot:
    """List the log and rebuild a version, or the newest one.

    Raises NotATable, VersionAbsent, LogIncomplete, CommitCorrupt, CheckpointUnreadable, ProtocolUnsupported.
    """
    try:
        log = find_log(table.storage, version, progress=table.progress, monotonic=table.machine.monotonic)
        return rebuild(table, log, version)
    except errors.FileMissing:
        # The log was cleaned between the listing and now: use a new listing.
        return rebuild(table, Log(list_log(table.storage, progress=table.progress)), version)


@api_method
def read_newest_readable(table: TableHandle) -> tuple[Snapshot, errors.LogIncomplete | None]:
    """Rebuild the newest version; where commits are missing, the newest one that can be rebuilt, with the reason.

    Raises what `read_snapshot` raises; LogIncomplete only where no version can be rebuilt.
    """
    try:
        return read_snapshot(table), None
    except errors.LogIncomplete as fault:
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
    except (errors.LogIncomplete, errors.VersionAbsent, errors.CheckpointUnreadable):
        if log.listing.start_version == 0:
            raise
        # A listing from the hint on lacks older starts.
        listing = list_log(table.storage, progress=table.progress)
        return _rebuild(table, log._replace(listing=listing), version, rejected)


def without_checkpoint(snapshot: Snapshot, rule: str) -> Snapshot:
    """Rebuild the same version as if its checkpoint, which breaks `rule`, did not exist. Raises as `rebuild`."""
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return snapshot
    return rebuild(snapshot.table, snapshot.log, snapshot.version, unusable={**snapshot.unusable, checkpoint: rule})


def _rebuild(table: TableHandle, log: Log, version: int | None, rejected: dict[CheckpointInstance, str]) -> Snapshot:
    first_fault: errors.CheckpointUnreadable | None = None
    while True:
        try:
            segment = choose_segment(log.listing, version, unusable=rejected)
        except errors.Unreadable as fault:
            if first_fault is not None:
                raise first_fault from None
            if isinstance(fault, errors.LogIncomplete) and managed_store(table.storage) is not None:
                readable, status = hint_readable(log.listing), errors.command("catalog status")
                fault.hint = status if readable is None else f"{readable}   # or see what the catalog has: {status}"
            raise
        try:
            state = _read_state(table, log, segment, rejected)
            table.note_version(log.listing.newest_version)
            if isinstance(table.storage, StoreWithBounds):
                table.storage.require_announced(state.metadata.id, log.listing.newest_version)
            if (managed := managed_store(table.storage)) is not None:
                managed.note_table(state.properties)
            return state
        except errors.CommitCorrupt as fault:
            broken = [file.version for file in segment.commits if file.name == fault.file]
            fault.hint = hint_readable(log.listing, broken) or errors.command("validate")
            raise
        except errors.CheckpointUnreadable as fault:
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
    disputed = set(tail.disputed)
    survived, inline = Survivors([], []), FileBatch()
    if contents is not None and segment.checkpoint is not None:
        name = segment.checkpoint.files[0].name
        try:
            disputed |= set(_find_repeated_kinds_of_checkpoint(state, contents.small))
            state.take(contents.small, name)
            hidden = tail.seen | decided_keys(contents.json_actions, tail.decided, name)
            if _has_repeated_adds(contents.json_actions, hidden, name):
                disputed.add(REPEATED_IN_CHECKPOINT)
            survived = reconcile_commit(contents.json_actions, hidden, name)
            inline = FileBatch(*narrow_batches(survived.adds, survived.removes, name))
        except errors.CommitCorrupt as fault:
            raise errors.CheckpointUnreadable(fault.message, code=fault.code, facts=fault.facts) from fault
    if state.protocol is None:
        raise _nothing_says(segment, "protocol", "protocol.missing")
    try:
        require_readable(state.protocol, segment.version)
    except errors.ProtocolUnsupported as fault:
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
        _problems=_problems(table, log, segment, state, rejected) | disputed,
        _log=log,
        _tail=tail,
        _inline=survived,
        _narrow_inline=inline,
        _pieces=tuple(pieces),
        _unusable=dict(rejected),
        _older_metadata=MetadataOfLog(table, segment.version, partial(_read_metadata, table)),
        _first_stamped=partial(first_stamped_version, table, log.listing),
    )


def _has_repeated_adds(actions: Sequence[tuple[str, Action]], hidden: Collection[str], source: str) -> bool:
    """Return whether the lines of a checkpoint have a live file twice that no commit decides."""
    keys = [file_key(action, source) for kind, action in actions if kind == "add"]
    return any(count > 1 and key not in hidden for key, count in Counter(keys).items())


def _find_repeated_kinds_of_checkpoint(newer: StateBuilder, actions: Sequence[tuple[str, Action]]) -> Iterator[str]:
    """Yield the rules that a checkpoint breaks by two protocols or two metaData of which newer commits decide none."""
    for rule in find_repeated_kinds(actions):
        if rule == TWO_PROTOCOLS and newer.protocol is None:
            yield "checkpoint.no-protocol"
        if rule == TWO_METADATA and newer.metadata is None:
            yield "checkpoint.no-metadata"


def _read_metadata(table: TableHandle, version: int) -> Action:
    return read_snapshot(table, version=version).raw_metadata


def _open(table: TableHandle, checkpoint: CheckpointInstance) -> CheckpointContents:
    from deltacli.work.checkpoints.reading import open_checkpoint

    return open_checkpoint(table.stores, checkpoint)


def _pieces_of(table: TableHandle, sidecars: Sequence[str]) -> Iterator[CheckpointPiece]:
    if not sidecars:
        return
    from deltacli.work.checkpoints.reading import plan_checkpoint_pieces

    reads = table.storage.capabilities.parallel_reads  # a footer is small: on a remote store the time is latency
    planned = table.engine.spread(plan_checkpoint_pieces, sidecars, table.stores, at_once=reads if reads > 1 else None)
    for found in report_items(planned, table.progress, "opening sidecars", unit="files", total=len(sidecars)):
        yield from found


def _nothing_says(segment: LogSegment, action: str, code: str) -> errors.Unreadable:
    return errors.Unreadable(
        f"version {segment.version} has no {action} action",
        code=code,
        facts={
            "replayed": name_ranges("commit", (commit.version for commit in segment.commits))
            if segment.commits
            else "no commit"
        },
        hint=errors.command("history"),
    )


def _layout(checkpoint: CheckpointInstance | None, contents: CheckpointContents | None) -> str | None:
    if checkpoint is None or contents is None:
        return None
    if contents.is_v2 or checkpoint.kind is LogFileKind.UUID_CHECKPOINT:
        return "v2"
    return "multi-part" if checkpoint.kind is LogFileKind.MULTI_PART_CHECKPOINT else "classic"


def _problems(
    table: TableHandle, log: Log, segment: LogSegment, state: StateBuilder, rejected: Mapping[CheckpointInstance, str]
) -> frozenset[str]:
    found = {*log.hint_problems, *segment.problems, *rejected.values()}
    is_managed = state.protocol is not None and state.protocol.is_catalog_managed
    if is_managed and managed_store(table.storage) is None:
        found.add("catalog.unpublished-possible")
    elif segment.version == log.listing.newest_version < log.hint_version:  # which was read before the listing
        found.add("hint.ahead-of-log")
    elif segment.version == log.listing.newest_version:
        lost = find_lost_versions(table.storage, log.listing, -1)
        found |= set() if lost is None else {lost[0]}
    if state.metadata is not None and state.metadata.schema_string is None:
        found.add("action.missing-required")  # metaData without schemaString, read as an empty schema
    return frozenset(found)


# -- the version at a time ---------------------------------------------------------------------------------------------


@api_method
def find_snapshot(
    table: TableHandle,
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    timestamp_ms: int | None = None,
) -> Snapshot:
    """Rebuild the newest version, `version`, or the newest one committed at or before a time: a datetime, a date
    (midnight UTC), or epoch milliseconds.

    Raises UsageError for arguments of a wrong type and for more than one of them, and what `read_snapshot` raises.
    """
    if sum(given is not None for given in (version, timestamp, timestamp_ms)) > 1:
        raise errors.UsageError("version, timestamp and timestamp_ms exclude each other")
    version = require_optional_version(version, "version")
    if timestamp is not None:
        timestamp_ms = require_timestamp_ms(timestamp, "timestamp")
    if isinstance(table.storage, StoreOfVersions):
        snapshot = read_snapshot(table.over(table.storage.at(version, timestamp_ms)))
        # The store has no commits, so a missing one is not a problem.
        return replace(snapshot, _problems=snapshot._problems - {"log.checkpoint-commit-missing"})
    if timestamp_ms is not None:
        version = version_at(table, timestamp_ms)
    return read_snapshot(table, version=version)


def version_at(table: TableHandle, timestamp_ms: int, listing: LogListing | None = None) -> int:
    """Return the newest version committed at or before a time; a time after the newest version returns that one.
    `listing` is the whole log where it is known already.

    Versions since in-commit timestamps were enabled use these, older ones use file times made monotonic.
    Raises VersionAbsent (`table.timestamp-before-start`), naming the range.
    """
    return _newest_until(table, _list_dated(table, listing), timestamp_ms)


def last_commit_before(
    table: TableHandle, listing: LogListing, timestamp_ms: int, *, known: Snapshot | None = None
) -> int | None:
    """Return the newest version committed before a time, whether or not it can still be rebuilt; None where every
    commit of the log is newer. `listing` is the whole log; `known` a version that need not be rebuilt.
    """
    searched, position, _ = _search(table, listing, timestamp_ms - 1, known)
    return searched[position - 1] if position else None


def committed_at(table: TableHandle, listing: LogListing, version: int, *, known: Snapshot | None = None) -> int | None:
    """Return when a version was committed, in epoch milliseconds; None where its commit is missing. `listing` is the
    whole log; `known` a version that need not be rebuilt.
    """
    return _search(table, listing, 0, known)[2](version) if version in listing.commits else None


class VersionRange(NamedTuple):
    """The first and the last version of a range; `first` is greater than `last` where the range is empty."""

    first: int
    last: int


def find_range(
    table: TableHandle, first: int | VersionTime, last: int | VersionTime | None, listing: LogListing | None = None
) -> VersionRange:
    """Return the versions from one end to another, or to the newest. A time selects the first version committed at or
    after it, or the last one at or before it. A range that begins one above the newest version is empty. `listing` is
    the whole log where it is known already.

    Raises VersionAbsent where the log does not reach back far enough to determine the first version, or lacks a
    requested version; UsageError for versions in the wrong order.
    """
    if isinstance(first, int) and isinstance(last, int) and first > last:
        of_end, of_begin = errors.parameter("changes.to_version", last), errors.parameter("changes.from_version", first)
        swapped = errors.command("changes", from_version=last, to_version=first)
        raise errors.UsageError(f"{of_end} is before {of_begin}", hint=swapped)
    if isinstance(table.storage, StoreOfVersions):
        return _find_range_in(table.storage, first, last)
    listing = _list_dated(table, listing)
    newest = listing.newest_version
    _require_existing(first, last, newest)
    begin = _oldest_since(table, listing, first.timestamp_ms) if isinstance(first, VersionTime) else first
    if last is None:
        return VersionRange(begin, newest)
    return VersionRange(
        begin, _newest_until(table, listing, last.timestamp_ms) if isinstance(last, VersionTime) else last
    )


def commits_between(
    table: TableHandle, listing: LogListing, first: int | VersionTime | None, last: int | VersionTime | None
) -> VersionRange:
    """Return the versions of a range that may begin before the log does, or at no version that can be rebuilt. Ends
    are as in `find_range`, the first one None for the oldest commit. `listing` is the whole log.

    Raises VersionAbsent for versions that do not exist yet.
    """
    if isinstance(table.storage, StoreOfVersions):
        return _find_range_in(table.storage, first or 0, last)
    newest = listing.newest_version
    _require_existing(first, last, newest)
    begin = min(listing.commits, default=0) if first is None else first
    end = newest if last is None else last
    if isinstance(begin, VersionTime):
        older = last_commit_before(table, listing, begin.timestamp_ms)
        begin = 0 if older is None else older + 1
    if isinstance(end, VersionTime):
        older = last_commit_before(table, listing, end.timestamp_ms + 1)
        end = -1 if older is None else older
    return VersionRange(begin, end)


def _find_range_in(store: StoreOfVersions, first: int | VersionTime, last: int | VersionTime | None) -> VersionRange:
    """Return the range of versions of a store that answers such questions itself."""
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
    """Raise VersionAbsent for versions that do not exist yet."""
    for end, highest in ((first, newest + 1 if last is None else newest), (last, newest)):
        if isinstance(end, int) and end > highest:
            absent = errors.VersionAbsent(
                f"version {end} does not exist yet: the newest is {newest}", hint=errors.command("history")
            )
            absent.wanted, absent.nearest = end, newest
            raise absent


def _oldest_since(table: TableHandle, listing: LogListing, timestamp_ms: int) -> int:
    """Return the oldest version committed at or after a time; one above the newest where there is none."""
    try:
        return _newest_until(table, listing, timestamp_ms - 1) + 1
    except errors.VersionAbsent as fault:
        if 0 in listing.commits:
            return 0
        oldest = min(listing.reconstructable, default=None)
        moment = format_timestamp(timestamp_ms)
        raise errors.VersionAbsent(
            f"the log does not reach back to {moment}: the oldest version that can be rebuilt is {oldest}",
            code=fault.code,
            facts=fault.facts,
            hint=errors.command("history") if oldest is None else errors.command("changes", from_version=oldest),
        ) from fault


def _list_dated(table: TableHandle, known: LogListing | None = None) -> LogListing:
    """Return the log, listed from its start unless it is known. Raises without a version, or without a time."""
    listing = list_log(table.storage, progress=table.progress) if known is None else known
    listing.require_versions()
    if not listing.commits:
        raise errors.VersionAbsent(
            "the log has no commit files, so no version has a time", code="table.timestamp-unknown"
        )
    return listing


def _newest_until(table: TableHandle, listing: LogListing, timestamp_ms: int) -> int:
    """Return the newest version committed at or before a time."""
    searched, position, committed_ms = _search(table, listing, timestamp_ms)
    reconstructable = set(listing.reconstructable)
    if position == 0 or (
        searched[position - 1] not in reconstructable and searched[position - 1] < min(reconstructable, default=0)
    ):
        raise _before_start(timestamp_ms, {version: committed_ms(version) for version in _ends(listing)})
    return searched[position - 1]


def _search(
    table: TableHandle, listing: LogListing, timestamp_ms: int, known: Snapshot | None = None
) -> tuple[list[int], int, Callable[[int], int]]:
    """Return the versions to search, how many of them were committed until a time, and the time of each."""
    enabled_at = _enablement(table, listing, known)
    times = file_times(listing.commits)
    versions = sorted(listing.commits)
    by_file = [version for version in versions if enabled_at is None or version < enabled_at[0]]
    by_commit = [version for version in versions if enabled_at is not None and version >= enabled_at[0]]

    def committed_ms(version: int) -> int:
        stamped = (
            read_provenance(table.storage, listing.commits[version]).in_commit_timestamp
            if version in stamped_versions
            else None
        )
        return times[version].timestamp_ms if stamped is None else stamped

    stamped_versions = set(by_commit)
    searched = by_commit if enabled_at is not None and timestamp_ms >= enabled_at[1] else by_file or by_commit
    low, high = 0, len(searched)
    while low < high:
        middle = (low + high) // 2
        if committed_ms(searched[middle]) <= timestamp_ms:
            low = middle + 1
        else:
            high = middle
    return searched, low, committed_ms


def first_stamped_version(table: TableHandle, listing: LogListing) -> int | None:
    """Return the first version whose time is its in-commit timestamp; None if all versions have the times of files.

    The properties of the newest version decide for all, as in Spark: after in-commit timestamps were disabled, also the
    versions that have one are found by the times of their files. If no version can be rebuilt, no time selects one, and
    the timestamps in the commits are all that is known: 0.
    """
    try:
        newest = _newest_readable(table, listing, None)
    except errors.FileMissing:  # deleted since it was listed
        newest = None
    return 0 if newest is None else first_stamped_by(newest)


def first_stamped_by(newest: Snapshot) -> int | None:
    """Return the same, given the newest version."""
    start = _start_of_stamps(newest)
    return None if start is None else start[0]


def _enablement(table: TableHandle, listing: LogListing, known: Snapshot | None) -> tuple[int, int] | None:
    """Return (version, epoch milliseconds) of the start of in-commit timestamps; None without them."""
    newest = _newest_readable(table, listing, known)
    return None if newest is None else _start_of_stamps(newest)


def _newest_readable(table: TableHandle, listing: LogListing, known: Snapshot | None) -> Snapshot | None:
    """Return the newest version that can be rebuilt, among the last ones. `known` need not be rebuilt."""
    for version in reversed(listing.reconstructable[-8:]):
        if known is not None and known.version == version:
            return known
        try:
            return rebuild(table, Log(listing), version)
        except errors.Unreadable:
            continue
    return None


def _start_of_stamps(newest: Snapshot) -> tuple[int, int] | None:
    """Return (version, epoch milliseconds) of the start of in-commit timestamps by the properties of a version."""
    keys = in_commit_keys(newest.protocol.supported_features, newest.properties)
    if keys is None:
        return None
    since = parse_integer(newest.properties, keys.version)
    moment = parse_integer(newest.properties, keys.timestamp)
    return (0, -(2**63)) if since is None or moment is None else (since, moment)


def _ends(listing: LogListing) -> list[int]:
    """Return the oldest and newest reconstructable version that has a commit file."""
    dated = [version for version in listing.readable_without(()) if version in listing.commits]
    return [dated[0], dated[-1]] if dated else []


def _before_start(timestamp_ms: int, ends: dict[int, int]) -> errors.VersionAbsent:
    facts = {}
    if ends:
        first, last = min(ends), max(ends)
        facts = {
            "earliest": f"version {first}, {format_timestamp(ends[first])}",
            "newest": f"version {last}, {format_timestamp(ends[last])}",
        }
    absent = errors.VersionAbsent(
        f"no version that can be rebuilt was committed at or before {format_timestamp(timestamp_ms)}",
        code="table.timestamp-before-start",
        facts=facts,
        hint=errors.command("snapshot", version=min(ends)) if ends else errors.command("history"),
    )
    absent.wanted_ms = timestamp_ms
    return absent
