"""Commits: adding the next version to a table, and retrying after commits of other writers.

Several writers may try to create `00000000000000000007.json`. The store lets exactly one of them succeed. Any other
writer has a conflict. It reads the concurrent commits, from version 7 on, and there are three ways to continue:

    version 7 of the other writer                    this writer
    ----------------------------------------------   ----------------------------------------------------------
    changed nothing that the request depends on      commits the same request as version 8 (a rebase)
    changed something that it depends on             builds the request again from version 7, and commits that
    changed the files of a request to be dropped     commits nothing, and returns `Dropped` (`OnConflict.DROP`)

No other module creates commits. `commit_sender.py` sends one commit, and determines whether it was created.
`request_checks.py` checks whether the table allows a request. `deltacli.delta.log.conflicts` compares a request with
concurrent commits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from deltacli.changing.base_version import OwnCommit, identify_commit
from deltacli.changing.commit_options import DEFAULT_OPTIONS, CommitOptions
from deltacli.changing.commit_sender import CommitConflict, CommitSender, PreparedCommit, SentCommit
from deltacli.changing.log_cache import cache_log_files
from deltacli.changing.rechecks import require_same_listed_commit, require_still_newest, require_valid_clock
from deltacli.changing.request_checks import describe_version, require_allowed_request
from deltacli.core import errors
from deltacli.delta.log.actions import require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest, PreviousVersion
from deltacli.delta.log.conflicts import Drop, Rebase, Recompute, resolve_conflicts
from deltacli.delta.log.segment import LOG_DIRECTORY, RULE_COMPACTION_AFTER_NEWEST_COMMIT, LogFile
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.core.machine import Machine
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

MAX_RETRY_SECONDS = 120.0
"""Time after which no further version is tried, except for the first `MIN_ATTEMPTS`."""

MIN_ATTEMPTS = 10
"""Number of versions that are tried even after `MAX_RETRY_SECONDS`, because building a large request takes minutes."""

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5
_MAX_DOUBLINGS = 16


@dataclass(frozen=True)
class Committed:
    """A version that was committed.

    Attributes:
        version: The number of the version.
        txn_id: The `txnId` in its commitInfo.
        request: The content of the commit.
        read_version: The version that the request was built from; -1 for a new table.
        lost_attempts: The number of conflicts before: versions that this run tried, and another writer created.
        read_snapshot: The snapshot that the request was built from; None for a new table.
        resulting_version: The protocol, metadata and row ids of the new version, for a commit that follows it.
        commit_file: The commit file.
    """

    version: int
    txn_id: str
    request: CommitRequest
    read_version: int
    lost_attempts: int
    read_snapshot: Snapshot | None = None
    resulting_version: PreviousVersion | None = None
    commit_file: OwnCommit | None = None

    is_committed: ClassVar[Literal[True]] = True


@dataclass(frozen=True)
class NothingToDo:
    """No version was created, because the table already is in the requested state.

    Attributes:
        read_version: The version that was read; -1 if there is no table.
    """

    is_committed: ClassVar[Literal[False]] = False

    read_version: int


@dataclass(frozen=True)
class Dropped(NothingToDo):
    """No version was created, because another writer has changed the files of the request (`OnConflict.DROP`).

    Attributes:
        reason: The conflicting action of the other writer.
    """

    reason: str


def commit(
    table: TableHandle,
    build_request: Callable[[Snapshot], CommitRequest | None],
    *,
    read: Callable[[TableHandle], Snapshot | None] = read_snapshot,
    build_first_request: Callable[[], CommitRequest | None] | None = None,
    after: Committed | None = None,
    options: CommitOptions = DEFAULT_OPTIONS,
) -> Committed | NothingToDo:
    """Build a request from the newest version of a table, and commit it as the next version.

    Before each attempt, the version that the commit follows is checked again: always on a local disk, and on a remote
    store if it was listed more than a few seconds ago.

    After a conflict, the function first pauses, then reads the concurrent commits, then immediately sends the next
    attempt. If it paused after reading instead, a writer that commits faster than the pause would be first every time.

    Args:
        table: The table.
        build_request: Builds the request from a snapshot, or returns None if there is nothing to do. It is called again
            with a newer snapshot if another writer has changed something that the request depends on. Its errors are
            raised.
        read: Reads the newest version. It returns None if there is no table yet.
        build_first_request: Builds the request for version 0, if the table may not exist yet.
        after: An earlier commit of the same run that changed neither protocol nor metadata. The request is then built
            from the same snapshot as that commit, and tried as the version after it, without reading the table.
        options: Additional keys of the commitInfo, a check before each attempt, and the limits of retries.

    Returns:
        The commit; NothingToDo if there is nothing to do; Dropped if the request was dropped.

    Raises:
        UsageError: If a key of `options.metadata` is reserved.
        NoAtomicCreate: If the store is read-only.
        Refused: If the protocol forbids the commit, if the newest versions of the table are lost, or if the log was
            replaced by another one (`plan.other-past`).
        ConflictLost: If other writers created all `options.max_attempts` versions, or every version for two minutes.
        StorageFailed: If the store failed before the commit was sent.
        OutcomeUnknown: If the commit was sent, and it cannot be determined whether it was created.

        After all of them except OutcomeUnknown, no version was created. If an interruption, such as KeyboardInterrupt,
        comes while a commit is in flight, it gets a note that says whether the commit was created.

    Spec: Delta Log Entries; Protocol Evolution; In-Commit Timestamps.
    """
    storage = table.storage
    require_unreserved_keys(options.metadata)
    require_writable(storage)

    # A retry reads mostly the same files of the log again. On a local disk the operating system caches them.
    retry_table = table if storage.capabilities.has_cheap_requests else cache_log_files(table)
    pause = options.pause or partial(wait_before_retry, table.machine)
    preparer = _CommitPreparer(build_request, read, build_first_request)
    sender = CommitSender(retry_table, table.machine.new_uuid(), pause, options.metadata)
    prepared: PreparedCommit | None = None
    conflict: CommitConflict | None = None
    started_at = table.machine.monotonic()
    attempt = 0
    try:
        while _may_try(attempt, options.max_attempts, started_at, table.machine):
            # Build the request: at the first attempt, and after each commit of another writer that affects it.
            if prepared is None:
                if attempt:
                    preparation = preparer.prepare(retry_table)
                elif after is not None:
                    preparation = preparer.prepare_after(table, after)
                else:
                    preparation = preparer.prepare(table)
                if isinstance(preparation, NothingToDo):
                    return preparation
                prepared = preparation

            require_allowed_request(storage, prepared.request, prepared.previous_version)
            _require_valid_deletion_time(table, prepared)

            # The caller checks files that the log does not know yet, such as the new data files of the commit.
            attempt += 1
            if options.recheck is not None and not options.recheck():
                prepared = None
                pause(attempt)
                continue

            result = sender.send(prepared, attempt)
            if isinstance(result, SentCommit):
                return _build_committed(prepared, result, sender.txn_id, lost_attempts=attempt - 1)

            conflict = result
            resolution = _resolve_conflict(prepared, conflict, storage)
            if isinstance(resolution, Dropped):
                return resolution
            prepared = resolution
    except BaseException as interruption:
        # The type of an Exception already says whether the commit was created. A signal may arrive at any time, even
        # after the store has confirmed the commit.
        if sender.in_flight is not None and not isinstance(interruption, Exception):
            interruption.add_note(sender.describe_interrupted_commit(sender.in_flight))
        raise
    raise _build_conflict_error(conflict, attempt, table.machine.monotonic() - started_at)


def _may_try(attempt: int, max_attempts: int, started_at: float, machine: Machine) -> bool:
    """Return True if another attempt is allowed, by the number of attempts and by the time since the first one."""
    if attempt >= max_attempts:
        return False
    return attempt < MIN_ATTEMPTS or machine.monotonic() - started_at <= MAX_RETRY_SECONDS


def wait_before_retry(machine: Machine, retry: int) -> None:
    """Wait for a random time, so that competing writers do not collide again. Its maximum doubles with each retry."""
    longest_seconds = _FIRST_PAUSE_SECONDS * 2 ** min(retry, _MAX_DOUBLINGS)
    machine.sleep_up_to(min(_LONGEST_PAUSE_SECONDS, longest_seconds))


@dataclass(frozen=True, slots=True)
class _CommitPreparer:
    """Builds the commits of one run. The attributes are arguments of `commit`.

    Attributes:
        build_request: Builds the request from a snapshot, or returns None if there is nothing to do.
        read: Reads the newest version. It returns None if there is no table yet.
        build_first_request: Builds the request for version 0; None if the table must exist.
    """

    build_request: Callable[[Snapshot], CommitRequest | None]
    read: Callable[[TableHandle], Snapshot | None]
    build_first_request: Callable[[], CommitRequest | None] | None

    def prepare(self, table: TableHandle) -> PreparedCommit | NothingToDo:
        """Build the commit that follows the newest version, or that creates the table.

        Raises:
            Refused: If the newest versions are lost, or if the next in-commit timestamp or row id is unknown.
            ValueError: If there is no table, and `build_first_request` is None.
        """
        snapshot = self.read(table)
        if snapshot is None:
            return self._prepare_first()
        request = self._build_request(table, snapshot)
        if request is None:
            return NothingToDo(snapshot.version)
        return PreparedCommit(
            request,
            snapshot.version,
            describe_version(snapshot, request),
            snapshot,
            base_commit=identify_commit(snapshot.listing, snapshot.version),
            listed_at=snapshot.listed_at,
        )

    def prepare_after(self, table: TableHandle, earlier: Committed) -> PreparedCommit | NothingToDo:
        """Build the commit that follows an earlier commit of this run, from the snapshot of the earlier commit.

        Raises:
            Refused: As for `prepare`.
        """
        snapshot = earlier.read_snapshot
        assert snapshot is not None
        request = self._build_request(table, snapshot)
        if request is None:
            return NothingToDo(snapshot.version)
        return PreparedCommit(
            request,
            snapshot.version,
            describe_version(snapshot, request, later_version=earlier.resulting_version),
            snapshot,
            base_commit=earlier.commit_file,
            listed_at=0.0,
        )

    def _prepare_first(self) -> PreparedCommit | NothingToDo:
        """Build the commit that creates a table."""
        if self.build_first_request is None:
            raise ValueError("there is no table to commit to")
        request = self.build_first_request()
        if request is None:
            return NothingToDo(-1)
        return PreparedCommit(request, -1, describe_version(None, request), None, base_commit=None, listed_at=0.0)

    def _build_request(self, table: TableHandle, snapshot: Snapshot) -> CommitRequest | None:
        """Build the request from a snapshot; None if there is nothing to do.

        Raises:
            Refused: If the newest versions are lost.
        """
        _require_no_compaction_of_lost_versions(table, snapshot)
        request = self.build_request(snapshot)
        return None if request is None else _add_table_id(request, snapshot, table)


def _require_valid_deletion_time(table: TableHandle, prepared: PreparedCommit) -> None:
    """Require a valid clock for a commit with remove actions, whose deletion time is the time of the clock.

    Raises:
        Refused: If the clock is behind the newest commit (`plan.clock`), see `require_valid_clock`.
    """
    # A blind append has no remove actions.
    removes_files = prepared.request.body is not None and not prepared.request.is_blind_append
    if removes_files and isinstance(prepared.base_commit, LogFile):
        require_valid_clock(table, 0, prepared.base_commit)


def _add_table_id(request: CommitRequest, snapshot: Snapshot, table: TableHandle) -> CommitRequest:
    """Return the request with a new table id, if it replaces the metadata of a table that has no id.

    deltalake cannot open a table without an id. Delta for Spark invents an id each time it reads the table, and writes
    it into its next metaData action.
    """
    has_id = bool(snapshot.metadata.id)
    if request.metadata is None or request.metadata.get("id") or has_id:
        return request
    return replace(request, metadata={**request.metadata, "id": table.machine.new_uuid()}, assigns_table_id=True)


def _require_no_compaction_of_lost_versions(table: TableHandle, snapshot: Snapshot) -> None:
    """Require that no log compaction covers versions after the newest one.

    Example: the newest commit is version 5, and `00000000000000000004.00000000000000000007.compacted.json` exists. The
    commits 6 and 7 are lost. Other engines would read the actions in the compaction instead of new commits 6 and 7.

    Raises:
        Refused: If there is such a compaction (`compaction.beyond-log`).
    """
    if RULE_COMPACTION_AFTER_NEWEST_COMMIT not in snapshot.segment.problems:
        return
    # Another writer may have added commits and a compaction during the listing of the snapshot. So list again.
    listing = list_log(table.storage)
    if listing.has_compaction_of_lost_versions:
        raise errors.Refused(
            f"{listing.lost_versions_message}, and engines would read it instead of a new commit",
            code=RULE_COMPACTION_AFTER_NEWEST_COMMIT,
            facts={"file": f"{LOG_DIRECTORY}/*.{listing.last_compacted_version:020d}.compacted.json"},
            hint=errors.command("repair", level="log", sources=["COPY"]),
        )


def _resolve_conflict(
    prepared: PreparedCommit, conflict: CommitConflict, storage: ReadStorage
) -> PreparedCommit | Dropped | None:
    """Decide how to continue after a conflict.

    Returns:
        The same request, prepared to follow the last concurrent commit, if no concurrent commit has changed anything
        that it depends on. None if the request has to be built again. Dropped if it is given up.

    Raises:
        Refused: If the log was replaced. Its commits belong to another history, so comparing the request with them
            would mean nothing. Also if versions after the concurrent commits are lost.
    """
    require_same_listed_commit(storage, prepared.base_commit, conflict.previous_commit)
    match resolve_conflicts(prepared.request, prepared.previous_version, conflict.concurrent_commits):
        case Rebase(previous_version):
            return _rebase(prepared, previous_version, conflict, storage)
        case Recompute():
            return None
        case Drop(reason):
            return Dropped(prepared.read_version, reason)


def _rebase(
    prepared: PreparedCommit, previous_version: PreviousVersion, conflict: CommitConflict, storage: ReadStorage
) -> PreparedCommit:
    """Return the same request, prepared to follow the last concurrent commit.

    Args:
        prepared: The commit.
        previous_version: The version of the last concurrent commit.
        conflict: The conflict.
        storage: The store of the table.

    Raises:
        Refused: If the next version existed already and was lost, so that its number is not free.
    """
    # For example, a checksum file of version 9 exists although the last concurrent commit is version 8. A catalog that
    # manages the table assigns the version numbers by itself, so there is nothing to check.
    has_later_version = conflict.highest_version_in_names > previous_version.version
    is_managed = managed_store(storage) is not None
    if has_later_version and conflict.last_commit is not None and not is_managed:
        require_still_newest(storage, conflict.last_commit)
    return prepared._replace(
        previous_version=previous_version, base_commit=conflict.last_commit, listed_at=conflict.listed_at
    )


def _build_committed(prepared: PreparedCommit, sent: SentCommit, txn_id: str, *, lost_attempts: int) -> Committed:
    return Committed(
        sent.version.version,
        txn_id,
        prepared.request,
        prepared.read_version,
        lost_attempts,
        read_snapshot=prepared.snapshot,
        resulting_version=sent.version,
        commit_file=sent.file,
    )


def _build_conflict_error(conflict: CommitConflict | None, attempts: int, seconds: float) -> errors.ConflictLost:
    """Return the error for a run that gives up, because other writers created every version that it tried.

    Args:
        conflict: The last conflict; None if no commit was sent.
        attempts: The number of versions that were tried.
        seconds: The time since the first attempt.
    """
    facts = {"versions tried": f"{attempts}, in {seconds:.0f} s"}
    if conflict is not None and conflict.concurrent_commits:
        last_commit = conflict.concurrent_commits[-1]
        writer = " by ".join(word for word in (last_commit.operation, last_commit.engine_info) if word)
        facts["last lost to"] = f"version {last_commit.version}, {writer or 'by an unnamed writer'}"
    facts["next"] = "let the other writers pause, or run the same command again when they commit less often"
    return errors.ConflictLost(
        "nothing was committed: other writers created every version that was tried",
        facts=facts,
        hint=errors.command("history", limit=10),
    )
