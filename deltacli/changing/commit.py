"""Adding a version to a table: the attempts of one commit behind other writers. No other module creates commits.

The next version belongs to whoever creates its file first. A commit that loses reads the commits that won and decides:

    the winners changed nothing that the request depends on   the same request is tried behind the last of them
    they did                                                  the request is made again from the newest version
    they changed its files, and it is to be dropped then      Dropped

`commit_sender.py` creates one version and finds out who has won it. `request_checks.py` says which requests are allowed
at all. `deltacli.delta.log.conflicts` compares a request with the commits that won.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from deltacli.changing.basis import OwnCommit, identify_commit
from deltacli.changing.commit_sender import CommitSender, LostAttempt, Pause, PreparedCommit, SentCommit
from deltacli.changing.log_cache import cache_log_files
from deltacli.changing.rechecks import require_same_listed_commit, require_still_newest, require_valid_clock
from deltacli.changing.request_checks import describe_version, require_allowed_request
from deltacli.core import errors
from deltacli.delta.log.actions import NO_METADATA, require_free
from deltacli.delta.log.commit_content import Base, CommitRequest
from deltacli.delta.log.conflicts import Drop, Rebase, Recompute, judge
from deltacli.delta.log.segment import BEYOND_LOG, LOG_DIRECTORY, LogFile
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.core.machine import Machine
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

MAX_ATTEMPTS = 400
"""Maximum number of versions to try. Eight processes that commit without a break take turns, and one of them may lose
dozens of times in a row.
"""

MAX_RETRY_SECONDS = 120.0
"""Time after which no further version is tried, apart from the first `MIN_ATTEMPTS`."""

MIN_ATTEMPTS = 10
"""Number of versions that are tried however long it takes. A plan of a million files takes a while each time."""

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5
_MAX_DOUBLINGS = 16


@dataclass(frozen=True)
class Committed:
    """A version that was committed.

    Attributes:
        version: The version.
        txn_id: The id in its commitInfo.
        request: Its content.
        read_version: The version that the request was made from; -1 for a new table.
        lost_attempts: The number of versions that other writers won before.
        read_snapshot: The version that the request was made from; None for a new table.
        resulting_version: The version as far as the next commit depends on it.
        commit_file: Its file.
    """

    version: int
    txn_id: str
    request: CommitRequest
    read_version: int
    lost_attempts: int
    read_snapshot: Snapshot | None = None
    resulting_version: Base | None = None
    commit_file: OwnCommit | None = None


@dataclass(frozen=True)
class NothingToDo:
    """The table already is in the requested state: no version was created.

    Attributes:
        read_version: The version that was read; -1 if there is no table.
    """

    read_version: int


@dataclass(frozen=True)
class Dropped(NothingToDo):
    """Another writer has changed the files of a request (`OnConflict.DROP`): no version was created.

    Attributes:
        reason: What the other writer did.
    """

    reason: str


def commit(
    table: TableHandle,
    build_request: Callable[[Snapshot], CommitRequest | None],
    *,
    read: Callable[[TableHandle], Snapshot | None] = read_snapshot,
    build_first_request: Callable[[], CommitRequest | None] | None = None,
    after: Committed | None = None,
    recheck: Callable[[], bool] | None = None,
    commit_metadata: Mapping[str, str] = NO_METADATA,
    max_attempts: int = MAX_ATTEMPTS,
    pause: Pause | None = None,
) -> Committed | NothingToDo:
    """Make a request from the newest version of a table, and commit it as the next one.

    Before each attempt the version that the commit follows is looked at again: on a disk always, on a remote store if
    it was read some seconds ago. The pause after a loss comes before the winners are read, and nothing but the next
    attempt follows the read. So a writer that commits more often than the pause takes does not win each time.

    Args:
        table: The table.
        build_request: Makes the request from a snapshot; None if nothing is to be done. It is called again, with a
            newer snapshot, if another writer has changed what the request depends on. What it raises ends the run.
        read: Reads the newest version; it returns None if there is no table yet.
        build_first_request: Makes the request for version 0 if there is no table yet.
        after: A commit of the same run that changed neither protocol nor metadata. The request is made from the same
            snapshot as that one, and tried as the version after it, without reading the table.
        recheck: Called before each attempt. If it returns False, the request is made again from the newest version.
        commit_metadata: Keys to add to the commitInfo.
        max_attempts: Maximum number of versions to try.
        pause: Waits before a retry; None for a random time that grows with the retries.

    Returns:
        The commit, or NothingToDo, or Dropped if the request says so.

    Raises:
        UsageError: If a key of `commit_metadata` is reserved.
        NoAtomicCreate: If the store is read-only.
        Refused: If the protocol forbids the commit, the newest commits of the table are lost, or its log has another
            past by now (`plan.other-past`).
        ConflictLost: If other writers have won `max_attempts` versions, or all of two minutes and ten attempts.
        StorageFailed: If nothing was sent.
        OutcomeUnknown: If the commit was sent and cannot be read back.

        All but the last one mean that nothing was changed. An interruption gets a note on a commit that is in flight.

    Spec: Delta Log Entries; Protocol Evolution; In-Commit Timestamps.
    """
    storage = table.storage
    require_free(commit_metadata)
    require_writable(storage)
    wait = pause or partial(wait_before_retry, table.machine)
    # From the second attempt on, most files of the log have been read before. On a disk they are in its cache.
    retry_table = table if storage.capabilities.cheap_listing else cache_log_files(table)
    table_to_read = table
    earlier_commit = after
    sender = CommitSender(retry_table, table.machine.new_uuid(), wait, commit_metadata)
    prepared: PreparedCommit | None = None
    lost: LostAttempt | None = None
    started_at = table.machine.monotonic()
    attempt = 0
    try:
        while _may_try(attempt, max_attempts, started_at, table.machine):
            if prepared is None:
                preparation = _prepare(
                    table_to_read,
                    build_request,
                    read=read,
                    build_first_request=build_first_request,
                    after=earlier_commit,
                )
                # Other writers have committed if there is a second time, so it begins with the newest version.
                table_to_read = retry_table
                earlier_commit = None
                if isinstance(preparation, NothingToDo):
                    return preparation
                prepared = preparation

            require_allowed_request(storage, prepared.request, prepared.previous_version)
            # Others may have committed since the plan, and the removes of this commit must not seem older than the
            # files that they remove. Blind appends have no removes.
            removes_files = prepared.request.body is not None and not prepared.request.is_blind_append
            if removes_files and isinstance(prepared.base_commit, LogFile):
                require_valid_clock(table, 0, prepared.base_commit)
            attempt += 1
            # The caller looks at what the commit depends on beside the log, such as its new data files.
            if recheck is not None and not recheck():
                prepared = None
                wait(attempt)
                continue

            result = sender.send(prepared, attempt)
            if isinstance(result, SentCommit):
                return _build_committed(prepared, result, sender.txn_id, lost_attempts=attempt - 1)
            lost = result
            resolution = _resolve_conflict(prepared, lost, storage)
            if isinstance(resolution, Dropped):
                return resolution
            prepared = resolution
    except BaseException as interruption:
        # An Exception says by itself whether the commit was made. A signal comes at any time, also between the answer
        # of the store and the end of this function.
        if sender.in_flight is not None and not isinstance(interruption, Exception):
            interruption.add_note(sender.describe_interrupted_commit(sender.in_flight))
        raise
    raise _build_conflict_error(lost, attempt, table.machine.monotonic() - started_at)


def _may_try(attempt: int, max_attempts: int, started_at: float, machine: Machine) -> bool:
    if attempt >= max_attempts:
        return False
    return attempt < MIN_ATTEMPTS or machine.monotonic() - started_at <= MAX_RETRY_SECONDS


def wait_before_retry(machine: Machine, retry: int) -> None:
    """Wait for a random time whose limit doubles with each retry, so that competing writers do not collide again."""
    longest_seconds = _FIRST_PAUSE_SECONDS * 2 ** min(retry, _MAX_DOUBLINGS)
    machine.sleep_up_to(min(_LONGEST_PAUSE_SECONDS, longest_seconds))


def _prepare(
    table: TableHandle,
    build_request: Callable[[Snapshot], CommitRequest | None],
    *,
    read: Callable[[TableHandle], Snapshot | None],
    build_first_request: Callable[[], CommitRequest | None] | None,
    after: Committed | None,
) -> PreparedCommit | NothingToDo:
    """Make the request for the newest version, or for the version after a commit of the same run.

    Raises:
        ValueError: If there is no table, and nothing to create it with.
    """
    snapshot = read(table) if after is None else after.read_snapshot
    if snapshot is not None:
        _require_no_lost_versions(table, snapshot)
        request = build_request(snapshot)
        read_version = snapshot.version
    elif build_first_request is not None:
        request = build_first_request()
        read_version = -1
    else:
        raise ValueError("there is no table to commit to")
    if request is None:
        return NothingToDo(read_version)

    base_commit: LogFile | OwnCommit | None = None
    listed_at = 0.0
    if snapshot is not None:
        request = _add_table_id(request, snapshot, table)
        base_commit = identify_commit(snapshot.listing, snapshot.version)
        listed_at = snapshot.listed_at
    later_version: Base | None = None
    if after is not None:
        base_commit = after.commit_file
        listed_at = 0.0
        later_version = after.resulting_version
    previous_version = describe_version(snapshot, request, later_version=later_version)
    return PreparedCommit(request, read_version, previous_version, snapshot, base_commit, listed_at)


def _add_table_id(request: CommitRequest, snapshot: Snapshot, table: TableHandle) -> CommitRequest:
    """Return a request whose metaData gives a table an id that has none.

    Without one, deltalake cannot open the table, and Delta for Spark makes up another one at each reading, which it
    writes into its next metaData. An empty id would stay for good, as that of many tables.
    """
    has_id = bool(snapshot.metadata.id)
    if request.metadata is None or request.metadata.get("id") or has_id:
        return request
    return replace(request, metadata={**request.metadata, "id": table.machine.new_uuid()}, gives_id=True)


def _require_no_lost_versions(table: TableHandle, snapshot: Snapshot) -> None:
    """Require that no log compaction covers versions after the newest one.

    Engines would read the compaction instead of the commits that come now.

    Raises:
        Refused: If there is one.
    """
    if BEYOND_LOG not in snapshot.segment.problems:
        return
    # A writer may have added commits and a compaction while the snapshot was listed, so a new listing decides.
    listing = list_log(table.storage)
    if listing.has_lost_newest:
        raise errors.Refused(
            f"{listing.of_lost_newest}, and engines would read it instead of a new commit",
            code=BEYOND_LOG,
            facts={"file": f"{LOG_DIRECTORY}/*.{listing.compacted_to:020d}.compacted.json"},
            hint=errors.command("repair", level="log", sources=["COPY"]),
        )


def _resolve_conflict(
    prepared: PreparedCommit, lost: LostAttempt, storage: ReadStorage
) -> PreparedCommit | Dropped | None:
    """Return how to go on after a lost attempt.

    Returns:
        The same request behind the last winner if the winners did not change what it depends on; None if it has to be
        made again; Dropped if it is given up.

    Raises:
        Refused: If the winners followed another commit than the request was to follow: the log was replaced, and
            comparing the request with them would mean nothing. Also if a version above the winners was made and lost.
    """
    require_same_listed_commit(storage, prepared.base_commit, lost.previous_commit)
    match judge(prepared.request, prepared.previous_version, lost.winners):
        case Rebase(last_winner):
            # A file of the log names a version above the winners: it was made and lost, and its number is not free. A
            # catalog gives out the numbers itself.
            names_later_version = lost.highest_named_version > last_winner.version
            if names_later_version and lost.last_commit is not None and managed_store(storage) is None:
                require_still_newest(storage, lost.last_commit)
            return prepared._replace(
                previous_version=last_winner, base_commit=lost.last_commit, listed_at=lost.listed_at
            )
        case Recompute():
            return None
        case Drop(reason):
            return Dropped(prepared.read_version, reason)


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


def _build_conflict_error(lost: LostAttempt | None, attempts: int, seconds: float) -> errors.ConflictLost:
    """Return the error for a commit that other writers have kept from every version that it tried."""
    facts = {"versions tried": f"{attempts}, in {seconds:.0f} s"}
    if lost is not None and lost.winners:
        winner = lost.winners[-1]
        writer = " by ".join(word for word in (winner.operation, winner.engine_info) if word)
        facts["last lost to"] = f"version {winner.version}, {writer or 'by an unnamed writer'}"
    facts["next"] = "let the other writers pause, or run the same command again when they commit less often"
    return errors.ConflictLost(
        "nothing was committed: other writers created every version that was tried",
        facts=facts,
        hint=errors.command("history", limit=10),
    )
