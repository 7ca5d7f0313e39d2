"""One attempt to create a version, and how its outcome is determined.

A version is created by `put_if_absent`, which has three answers: created, existed, and unknown (the answer was lost, or
the store failed after it may have written). The third one is resolved by reading back. Every commit of a run contains
the same random txnId, so the file under the name of the version tells who has won:

    answer    the file has             outcome
    -------   ----------------------   --------------------------------------------------------------
    created   -                        this run has won
    existed   our txnId                this run has won: a proxy repeated the request
    existed   another txnId            this run has lost
    unknown   our txnId                this run has won
    unknown   another txnId            this run has lost, and the lost request cannot take effect any more
    unknown   no such file             undecided: the request may still be on its way. It is sent again

Sending again is safe: the same bytes go to the same name, where they take effect at most once, whenever they arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.basis import MAX_LISTING_AGE_SECONDS, OwnCommit, identify_commit
from deltacli.changing.rechecks import require_same_base_commit, require_still_newest
from deltacli.core import errors
from deltacli.core.release import VERSION
from deltacli.delta.log.commit_content import Base, CommitRequest, encode, following, slot_of
from deltacli.delta.log.conflicts import ConflictingCommit, look_at
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile, LogListing, commit_name
from deltacli.storage import Created, Creation, Unknown
from deltacli.storage.directory_identity import require_same_directory
from deltacli.storage.os_errors import translate_write_errors
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.work.commits.reading import commit_location, stream_commit

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

ENGINE_INFO = f"deltacli/{VERSION}"

MAX_REQUESTS_PER_VERSION = 6
"""How often one version, of a Delta log or of a Paimon schema, is asked for while its outcome is unknown."""

_MAX_PREFETCHED_COMMIT_BYTES = 1 << 20

Pause = Callable[[int], None]
"""Waits before a retry. Retries count from 1."""


class PreparedCommit(NamedTuple):
    """A commit request, ready to be sent as the next version.

    Attributes:
        request: The content of the commit.
        read_version: The version that the request was made from; -1 for a new table.
        previous_version: The version that the commit is to follow. It is newer than `read_version` if commits of other
            writers came in between and did not change what the request depends on.
        snapshot: The version that the request was made from; None for a new table.
        base_commit: The file of `previous_version`; None if it is not known.
        listed_at: When that file was listed, by the monotonic clock of this process; 0.0 if it was not.
    """

    request: CommitRequest
    read_version: int
    previous_version: Base
    snapshot: Snapshot | None
    base_commit: LogFile | OwnCommit | None
    listed_at: float

    def fits_behind(self, listed_commit: LogFile | None) -> bool:
        """Return True if the previous version is still the one that the request was made for.

        Args:
            listed_commit: The file of the previous version in a new listing; None if it is not there.
        """
        if self.base_commit is None or listed_commit == self.base_commit:
            return True
        # A commit of this run is in no listing that could be compared. It is recognized by its content elsewhere.
        return isinstance(self.base_commit, OwnCommit) and listed_commit is not None

    def recheck_previous_version(self, table: TableHandle) -> None:
        """Require that the previous version is unchanged, right before the commit is sent.

        If some seconds went by, a version may also have been made and lost meanwhile, which only a listing shows.
        """
        age_seconds = table.machine.monotonic() - self.listed_at
        has_waited = age_seconds > MAX_LISTING_AGE_SECONDS
        if has_waited and isinstance(self.base_commit, LogFile):
            require_still_newest(table.writable(), self.base_commit)
        elif has_waited or table.storage.capabilities.cheap_listing:
            require_same_base_commit(table.writable(), self.base_commit)


class SentCommit(NamedTuple):
    """A commit that was created.

    Attributes:
        version: The version that it made.
        file: Its file.
    """

    version: Base
    file: OwnCommit


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An attempt that was lost, because other writers created the version.

    Attributes:
        version: The version.
        winners: The commits of the other writers, from that version up to the first gap or damaged commit.
        previous_commit: The file of the version before, as it was listed with them.
        last_commit: The file of the last winner.
        newest_version: The newest version that was listed; gaps do not matter.
        highest_named_version: The highest version that any file of the log names.
        listed_at: When they were listed, by the monotonic clock of this process.
    """

    version: int
    winners: tuple[ConflictingCommit, ...]
    previous_commit: LogFile | None
    last_commit: LogFile | None
    newest_version: int
    highest_named_version: int
    listed_at: float


class CommitSender:
    """Sends the commits of one run under one txnId, and determines the outcome of each.

    Attributes:
        txn_id: The id that every commit of the run contains.
        in_flight: The commit that was sent last and has not lost; None if there is none.
    """

    def __init__(self, table: TableHandle, txn_id: str, pause: Pause, commit_metadata: Mapping[str, str]) -> None:
        self._table = table
        self._pause = pause
        self._commit_metadata = commit_metadata
        self.txn_id = txn_id
        self.in_flight: CommitInFlight | None = None

    def send(self, prepared: PreparedCommit, attempt: int) -> SentCommit | LostAttempt:
        """Create the next version, or find out who has created it. Only certain outcomes are returned.

        Args:
            prepared: The commit.
            attempt: The number of the attempt, from 1. After a loss there is a pause before the winners are read, and
                it grows with the attempts. A pause afterwards would let a busy writer win each time.

        Raises:
            StorageFailed: If nothing was sent.
            OutcomeUnknown: If the outcome cannot be determined.
        """
        # The head has the commitInfo, protocol, metaData, transactions and domains. The body has the file actions.
        now_ms = self._table.clock()
        head = encode(
            prepared.request,
            prepared.previous_version,
            txn_id=self.txn_id,
            now_ms=now_ms,
            engine_info=ENGINE_INFO,
            commit_metadata=self._commit_metadata,
        )
        storage = self._table.writable()
        version = prepared.previous_version.version + 1
        managed = managed_store(storage)
        if managed is not None:
            # The catalog is told what the commit changes, and for that it needs the version before.
            managed.follow(prepared.previous_version)

        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        body = prepared.request.body
        if body is None:
            prepared.recheck_previous_version(self._table)
            lost = self._send(prepared, version, attempt, partial(storage.put_if_absent, path, head))
        else:
            # The lines of many files are written to a draft, so that a commit may be larger than the memory.
            with storage.draft(path) as draft:
                with translate_write_errors(draft.local_path, path), open(draft.local_path, "wb") as file:
                    file.write(head)
                    file.writelines(body(slot_of(prepared.request, prepared.previous_version)))
                # They take a while, so the look at the previous version comes after them.
                prepared.recheck_previous_version(self._table)
                lost = self._send(prepared, version, attempt, draft.publish)
        if lost is not None:
            return lost
        first_line = head[: head.index(b"\n")]
        resulting_version = following(prepared.request, prepared.previous_version, now_ms)
        return SentCommit(resulting_version, OwnCommit(commit_name(version), first_line))

    def _send(
        self, prepared: PreparedCommit, version: int, attempt: int, create: Callable[[], Creation]
    ) -> LostAttempt | None:
        """Create a version, and remember it as in flight unless it was lost. Returns None if this run has won."""
        self.in_flight = CommitInFlight(prepared.request, version)
        lost = self._create_and_verify(prepared, version, attempt, create)
        if lost is not None:
            self.in_flight = None
            return lost
        managed = managed_store(self._table.storage)
        if managed is not None:
            managed.settle(version)
        return None

    def _create_and_verify(
        self, prepared: PreparedCommit, version: int, attempt: int, create: Callable[[], Creation]
    ) -> LostAttempt | None:
        """Create a version, and ask until it is certain who has created it.

        The loop keeps one fact: `unknown_reason` is None as long as it is certain that no request of this run is on its
        way. Then an error means that nothing was written, and it is raised as it is. Once the reason is set, the commit
        may exist or appear at any later time, so the only ways out are

        * to read a commit with the own txnId under the name of the version: won;
        * to read another one: lost, because the name is taken for good;
        * OutcomeUnknown.

        The commit is sent again only after a look at the log has shown that the version is still missing and that the
        version before is the one that the request was made for. If the log was replaced meanwhile, or has newer
        versions above the gap, the commit would not fit into it.

        A catalog that ratifies commits decides by itself whether one fits, so it may be asked without that look.

        Returns:
            None if this run has won.

        Raises:
            StorageFailed: And its siblings, if nothing was sent.
            OutcomeUnknown: If the outcome is not known after `MAX_REQUESTS_PER_VERSION` requests.
        """
        unknown_reason: str | None = None
        last_error: errors.DeltacliError | None = None
        is_ratified = managed_store(self._table.storage) is not None
        may_send = True
        for number in range(MAX_REQUESTS_PER_VERSION):
            if number:
                self._pause(number)
            answer: Creation | None = None
            try:
                if may_send:
                    answer = create()
            except errors.DeltacliError as error:
                if unknown_reason is None:
                    raise
                last_error = error
            if isinstance(answer, Created):
                return None
            if isinstance(answer, Unknown):
                unknown_reason = answer.cause

            may_send = is_ratified
            has_waited = number > 0 or unknown_reason is not None
            try:
                lost = self._read_winners(prepared.request, version, retry=0 if has_waited else attempt)
            except errors.DeltacliError as error:
                last_error = error
                if isinstance(error, errors.NotATable) and not is_ratified:
                    break  # the log is gone, and there is nothing that the commit could follow
                if isinstance(error, errors.StorageFailed) and unknown_reason is None:
                    # The version exists, but it may be this one: a proxy may have sent the request twice.
                    unknown_reason = "the version exists, but its writer cannot be read"
                continue

            if lost.winners or unknown_reason is None:
                is_own = any(winner.txn_id == self.txn_id for winner in lost.winners)
                return None if is_own else lost
            fits = is_ratified or prepared.fits_behind(lost.previous_commit)
            if lost.newest_version >= version or not fits:
                break
            may_send = True

        if unknown_reason is None and last_error is not None:
            raise last_error
        raise self._build_unknown_error(version, unknown_reason, last_error)

    def _read_winners(self, request: CommitRequest, version: int, *, retry: int = 0) -> LostAttempt:
        """Read the commits of other writers from a version on, up to the first missing or damaged one.

        Args:
            request: The commit that lost against them, which decides what matters in them.
            version: The first version.
            retry: The number of a retry to pause for before; 0 for no pause.

        Raises:
            StorageFailed: If they cannot be read.
            CommitCorrupt: If the first one is damaged.
            Refused: If another directory is in the place of the table: its commits say nothing about one that was sent.
        """
        if retry:
            self._pause(retry)
        storage = self._table.storage
        listed_at = self._table.machine.monotonic()
        listing = list_log(storage, start_version=max(version - 1, 0))
        self._prefetch_commits(_find_contiguous_commits(listing, version))

        winners = list[ConflictingCommit]()
        last_commit: LogFile | None = None
        for commit_file in _find_contiguous_commits(listing, version):
            try:
                actions = stream_commit(storage, commit_file)
                winners.append(look_at(request, commit_file.version, commit_file.modified_ms, actions))
            except errors.CommitCorrupt:
                if not winners:
                    raise
                # It is reported when a later attempt reaches it. The commits before it may already decide.
                break
            last_commit = commit_file
        require_same_directory(storage)
        return LostAttempt(
            version,
            tuple(winners),
            previous_commit=identify_commit(listing, version - 1),
            last_commit=last_commit,
            newest_version=listing.newest_version,
            highest_named_version=listing.told_version,
            listed_at=listed_at,
        )

    def _prefetch_commits(self, files: Sequence[LogFile]) -> None:
        """Read small commits in parallel into the cache of a remote store.

        One by one they would be read as slowly as some writers commit, so this run would never catch up.
        """
        storage = self._table.storage
        paths = [commit_location(file) for file in files if file.size_bytes <= _MAX_PREFETCHED_COMMIT_BYTES]
        if storage.capabilities.cheap_listing or len(paths) < 2:
            return
        # An error is reported by whoever needs that commit.
        with suppress(errors.DeltacliError):
            results = self._table.engine.run(storage.read, paths, at_once=storage.capabilities.parallel_reads)
            deque(results, maxlen=0)

    def describe_interrupted_commit(self, commit: CommitInFlight) -> str:
        """Return what became of a commit that was in flight when the run was interrupted. Looks once."""
        try:
            winners = self._read_winners(commit.request, commit.version).winners
        except errors.DeltacliError:
            winners = ()
        if any(winner.txn_id == self.txn_id for winner in winners):
            return f"version {commit.version} was committed"
        if winners:
            return "nothing was committed"
        name = commit_name(commit.version)
        return f"version {commit.version} may have been committed: it was if {name} contains {self.txn_id}"

    def _build_unknown_error(
        self, version: int, reason: str | None, last_error: errors.DeltacliError | None
    ) -> errors.OutcomeUnknown:
        """Return the error that tells somebody how to find out whether a version was committed."""
        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        file_fact = path
        condition = f"{path} exists"
        if managed_store(self._table.storage) is not None:
            # The catalog decides, and publishes the file later. Its staged file is in the reason.
            file_fact = f"{path}, once it is published"
            condition = f"the table has version {version}"

        facts = {"file": file_fact, "txnId": self.txn_id, "why": reason or "no answer"}
        if last_error is not None:
            facts["looking for it"] = last_error.reason
        facts["to check"] = (
            f"it was committed if {condition} and contains this txnId; if it does not exist, it may "
            "still appear for as long as a request can be on its way"
        )
        return errors.OutcomeUnknown(
            f"version {version} was sent, but it is not known whether it was committed",
            facts=facts,
            hint=errors.command("log cat", version),
            table=self._table.uri,  # which is the clone or the copy, and not the table that is cloned
        )


class CommitInFlight(NamedTuple):
    """A commit that was sent, and whose outcome the run does not know yet.

    Attributes:
        request: Its content.
        version: The version that it makes.
    """

    request: CommitRequest
    version: int


def _find_contiguous_commits(listing: LogListing, first_version: int) -> list[LogFile]:
    """Return the commits from a version on, up to the first gap."""
    versions = takewhile(listing.commits.__contains__, count(first_version))
    return [listing.commits[version] for version in versions]
