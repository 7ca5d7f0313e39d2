"""One attempt to create a version, and how its result is determined.

A version is created by `put_if_absent`. The store answers "created" or "existed", or the answer is unknown: it was
lost, or the store failed after it may have written the file. In the last two cases the commit file is read. Every
commit of a run contains the same random `txnId`, which shows who wrote the file:

    answer     `txnId` in the file   result
    --------   -------------------   -------------------------------------------------------------------
    created    (not read)            committed
    existed    of this run           committed: a proxy has repeated the request
    existed    of another writer     conflict
    unknown    of this run           committed
    unknown    of another writer     conflict: the name is taken, so the request can have no effect any more
    unknown    (no such file)        undecided: the request may still arrive. It is sent again

Sending the request again is safe. All requests of an attempt write the same bytes to the same name, and at most one of
them has an effect, even if they arrive late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.base_version import MAX_LISTING_AGE_SECONDS, OwnCommit, identify_commit
from deltacli.changing.rechecks import require_same_base_commit, require_still_newest
from deltacli.core import errors
from deltacli.core.release import VERSION
from deltacli.delta.log.commit_content import (
    CommitRequest,
    PreviousVersion,
    build_next_version,
    compute_resulting_version,
    encode_commit_head,
)
from deltacli.delta.log.conflicts import ConcurrentCommit, examine_commit
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile, LogListing, commit_name
from deltacli.storage import Created, Creation, Unknown
from deltacli.storage.directory_identity import require_same_directory
from deltacli.storage.os_errors import translate_write_errors
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.work.commits.reading import commit_location, stream_commit

if TYPE_CHECKING:
    from deltacli.changing.commit_options import Pause
    from deltacli.table.version import Snapshot

ENGINE_INFO = f"deltacli/{VERSION}"

MAX_REQUESTS_PER_VERSION = 6
"""Maximum number of requests that try to create one version, of a Delta log or of a Paimon schema."""

_MAX_PREFETCHED_COMMIT_BYTES = 1 << 20


class PreparedCommit(NamedTuple):
    """A commit request together with the version that it will follow.

    Attributes:
        request: The content of the commit.
        read_version: The version that the request was built from; -1 for a new table.
        previous_version: The version that the commit follows. It is newer than `read_version` if other writers have
            committed since, and changed nothing that the request depends on.
        snapshot: The snapshot that the request was built from; None for a new table.
        base_commit: The commit file of `previous_version`; None if it is unknown.
        listed_at: When that file was listed, by the monotonic clock of this process; 0.0 if it was not listed.
    """

    request: CommitRequest
    read_version: int
    previous_version: PreviousVersion
    snapshot: Snapshot | None
    base_commit: LogFile | OwnCommit | None
    listed_at: float

    def can_follow(self, listed_commit: LogFile | None) -> bool:
        """Return True if the commit file of `previous_version` is unchanged in a new listing.

        Args:
            listed_commit: The commit file of the previous version in the listing; None if it is missing.
        """
        if self.base_commit is None or listed_commit == self.base_commit:
            return True
        # The size and time of a commit of this run are unknown, so only its existence can be checked here. Its content
        # is compared by `recheck_previous_version`.
        return isinstance(self.base_commit, OwnCommit) and listed_commit is not None

    def recheck_previous_version(self, table: TableHandle) -> None:
        """Require that the previous version is unchanged, right before the commit is sent.

        Raises:
            Refused: If its commit file was replaced or deleted; or, if some seconds have passed since the log was
                listed, if a later version was created and lost meanwhile.
        """
        age_seconds = table.machine.monotonic() - self.listed_at
        has_waited = age_seconds > MAX_LISTING_AGE_SECONDS
        if has_waited and isinstance(self.base_commit, LogFile):
            require_still_newest(table.writable(), self.base_commit)
        elif has_waited or table.storage.capabilities.has_cheap_requests:
            require_same_base_commit(table.writable(), self.base_commit)


class SentCommit(NamedTuple):
    """A commit that was created.

    Attributes:
        version: The new version.
        file: Its commit file.
    """

    version: PreviousVersion
    file: OwnCommit


@dataclass(frozen=True, slots=True)
class CommitConflict:
    """A version that another writer has created before this run.

    Attributes:
        version: The version.
        concurrent_commits: The commits of other writers: this version and the following ones, up to the first missing
            or damaged commit.
        previous_commit: The commit file of the version before, in the same listing; None if it is missing.
        last_commit: The file of the last concurrent commit; None if there are none.
        newest_version: The newest version in the listing. There may be gaps before it.
        highest_version_in_names: The highest version in the name of any log file, such as a checksum file.
        listed_at: When the log was listed, by the monotonic clock of this process.
    """

    version: int
    concurrent_commits: tuple[ConcurrentCommit, ...]
    previous_commit: LogFile | None
    last_commit: LogFile | None
    newest_version: int
    highest_version_in_names: int
    listed_at: float


class CommitSender:
    """Sends the commits of one run, and determines the result of each.

    Attributes:
        txn_id: The `txnId` of the commitInfo of all commits of the run.
        in_flight: The commit that was sent last, unless it had a conflict; None if there is none.
    """

    def __init__(self, table: TableHandle, txn_id: str, pause: Pause, commit_metadata: Mapping[str, str]) -> None:
        """Prepare to send commits.

        Args:
            table: The table.
            txn_id: A random id.
            pause: Waits before a retry.
            commit_metadata: Additional keys of the commitInfo.
        """
        self._table = table
        self._pause = pause
        self._commit_metadata = commit_metadata
        self.txn_id = txn_id
        self.in_flight: CommitInFlight | None = None

    def send(self, prepared: PreparedCommit, attempt: int) -> SentCommit | CommitConflict:
        """Create the next version, or find out that another writer has created it.

        Args:
            prepared: The commit.
            attempt: The number of the attempt, from 1. After a conflict, the pause before the concurrent commits are
                read grows with this number.

        Raises:
            Refused: If the previous version was replaced. Nothing was sent.
            StorageFailed: If nothing was sent.
            OutcomeUnknown: If it cannot be determined who has created the version.
        """
        # The head contains the commitInfo, protocol, metaData, txn and domainMetadata actions. The body contains the
        # add and remove actions.
        now_ms = self._table.clock()
        head = encode_commit_head(
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
            # The request to the catalog contains the changes of the metadata, relative to the previous version.
            managed.set_previous_version(prepared.previous_version)

        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        body = prepared.request.body
        if body is None:
            prepared.recheck_previous_version(self._table)
            conflict = self._send(prepared, version, attempt, partial(storage.put_if_absent, path, head))
        else:
            # A commit of millions of files may not fit into memory, so it is written to a temporary file.
            with storage.draft(path) as draft:
                with translate_write_errors(draft.local_path, path), open(draft.local_path, "wb") as file:
                    file.write(head)
                    file.writelines(body(build_next_version(prepared.request, prepared.previous_version)))
                # Writing may take minutes, so the previous version is checked afterwards.
                prepared.recheck_previous_version(self._table)
                conflict = self._send(prepared, version, attempt, draft.publish)
        if conflict is not None:
            return conflict
        first_line = head[: head.index(b"\n")]
        resulting_version = compute_resulting_version(prepared.request, prepared.previous_version, now_ms)
        return SentCommit(resulting_version, OwnCommit(commit_name(version), first_line))

    def _send(
        self, prepared: PreparedCommit, version: int, attempt: int, create: Callable[[], Creation]
    ) -> CommitConflict | None:
        """Create a version, and record it in `in_flight` unless there is a conflict.

        Args:
            prepared: The commit.
            version: The number of the version.
            attempt: The number of the attempt.
            create: Sends the request to the store.

        Returns:
            The conflict, if another writer has created the version; None if this run has created it.
        """
        self.in_flight = CommitInFlight(prepared.request, version)
        conflict = self._create_and_verify(prepared, version, attempt, create)
        if conflict is not None:
            self.in_flight = None
            return conflict
        managed = managed_store(self._table.storage)
        if managed is not None:
            managed.publish_if_ratified(version)
        return None

    def _create_and_verify(
        self, prepared: PreparedCommit, version: int, attempt: int, create: Callable[[], Creation]
    ) -> CommitConflict | None:
        """Create a version, and read the log until it is certain who has created it.

        As long as `unknown_reason` is None, no request of this run can be on its way, so an error means that nothing
        was written. Once it is set, the commit may exist, or appear at any later time. Then there are three ways to
        end:

        * The commit file has the `txnId` of this run: committed.
        * The commit file has another `txnId`: a conflict, because the name is taken for good.
        * Otherwise: OutcomeUnknown.

        The request is sent again only if a new listing shows that the version is still missing and that the version
        before it is unchanged. If the log was replaced meanwhile, or has newer versions after the gap, the commit must
        not be added to it. A catalog that ratifies commits checks this by itself.

        Args:
            prepared: The commit.
            version: The number of the version.
            attempt: The number of the attempt.
            create: Sends the request to the store.

        Returns:
            The conflict, if another writer has created the version; None if this run has created it.

        Raises:
            StorageFailed: If nothing was sent; also other errors of the store.
            OutcomeUnknown: If the result is still unknown after `MAX_REQUESTS_PER_VERSION` requests.
        """
        unknown_reason: str | None = None
        last_error: errors.DeltacliError | None = None
        is_ratified = managed_store(self._table.storage) is not None
        may_send = True
        for retry in range(MAX_REQUESTS_PER_VERSION):
            if retry:
                self._pause(retry)

            # Send the request.
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

            # Read the commit file, to see who has created the version. Pause before only if it is certain that another
            # writer has, because then the next attempt competes with that writer.
            may_send = is_ratified
            is_certain_conflict = retry == 0 and unknown_reason is None
            if is_certain_conflict:
                self._pause(attempt)
            try:
                conflict = self._read_concurrent_commits(prepared.request, version)
            except errors.DeltacliError as error:
                last_error = error
                if isinstance(error, errors.NotATable) and not is_ratified:
                    break  # The log was deleted, so there is no version that the commit could follow.
                if isinstance(error, errors.StorageFailed) and unknown_reason is None:
                    # The version exists. It may be the commit of this run, if a proxy has repeated the request.
                    unknown_reason = "the version exists, but its writer cannot be read"
                continue
            if conflict.concurrent_commits or unknown_reason is None:
                return None if self._has_own_commit(conflict) else conflict

            # The version does not exist yet. Send the request again, unless the log was replaced or has newer versions.
            can_follow = is_ratified or prepared.can_follow(conflict.previous_commit)
            if conflict.newest_version >= version or not can_follow:
                break
            may_send = True

        if unknown_reason is None and last_error is not None:
            raise last_error
        raise self._build_unknown_error(version, unknown_reason, last_error)

    def _has_own_commit(self, conflict: CommitConflict) -> bool:
        """Return True if one of the commits that were read is by this run."""
        return any(commit.txn_id == self.txn_id for commit in conflict.concurrent_commits)

    def _read_concurrent_commits(self, request: CommitRequest, version: int) -> CommitConflict:
        """Read the commits from a version on, up to the first missing or damaged one.

        They may include the commit of this run, if the answer of the store to it was lost.

        Args:
            request: The commit of this run. It determines which actions of the other commits matter.
            version: The first version to read.

        Raises:
            StorageFailed: If the commits cannot be read.
            CommitCorrupt: If the first commit is damaged.
            Refused: If the directory of the table was replaced. The commits in the new directory do not tell whether
                this run has created a version in the old one.
        """
        storage = self._table.storage
        listed_at = self._table.machine.monotonic()
        listing = list_log(storage, start_version=max(version - 1, 0))
        commit_files = _find_contiguous_commits(listing, version)
        self._prefetch_commits(commit_files)
        concurrent_commits = self._examine_commits(request, commit_files)
        require_same_directory(storage)
        return CommitConflict(
            version,
            tuple(concurrent_commits),
            previous_commit=identify_commit(listing, version - 1),
            last_commit=commit_files[len(concurrent_commits) - 1] if concurrent_commits else None,
            newest_version=listing.newest_version,
            highest_version_in_names=listing.highest_version_in_names,
            listed_at=listed_at,
        )

    def _examine_commits(self, request: CommitRequest, commit_files: Sequence[LogFile]) -> list[ConcurrentCommit]:
        """Compare a request with commits of other writers, up to the first damaged commit.

        The commits before a damaged one may be enough to resolve the conflict. If not, the next attempt reports it.

        Raises:
            CommitCorrupt: If the first commit is damaged.
        """
        concurrent_commits = list[ConcurrentCommit]()
        for commit_file in commit_files:
            try:
                actions = stream_commit(self._table.storage, commit_file)
                commit = examine_commit(request, commit_file.version, commit_file.modified_ms, actions)
            except errors.CommitCorrupt:
                if not concurrent_commits:
                    raise
                return concurrent_commits
            concurrent_commits.append(commit)
        return concurrent_commits

    def _prefetch_commits(self, files: Sequence[LogFile]) -> None:
        """Read small commits in parallel, so that they are in the cache of a remote store.

        Read one after the other, they would take as long as other writers need to create the next ones, and this run
        would never catch up.
        """
        storage = self._table.storage
        paths = [commit_location(file) for file in files if file.size_bytes <= _MAX_PREFETCHED_COMMIT_BYTES]
        if storage.capabilities.has_cheap_requests or len(paths) < 2:
            return
        # An error is raised again when the commit is needed.
        with suppress(errors.DeltacliError):
            results = self._table.engine.run(storage.read, paths, at_once=storage.capabilities.parallel_reads)
            deque(results, maxlen=0)

    def describe_interrupted_commit(self, commit: CommitInFlight) -> str:
        """Return a phrase that says whether a commit was created that was in flight when the run was interrupted.

        The log is read only once, because the user is waiting for the process to end.
        """
        name = commit_name(commit.version)
        unknown = f"version {commit.version} may have been committed: it was if {name} contains {self.txn_id}"
        try:
            conflict = self._read_concurrent_commits(commit.request, commit.version)
        except errors.DeltacliError:
            return unknown
        if not conflict.concurrent_commits:
            return unknown
        return f"version {commit.version} was committed" if self._has_own_commit(conflict) else "nothing was committed"

    def _build_unknown_error(
        self, version: int, reason: str | None, last_error: errors.DeltacliError | None
    ) -> errors.OutcomeUnknown:
        """Return the error for a version whose creation is unknown. It explains how to find out later.

        Args:
            version: The number of the version.
            reason: The reason why the answer of the store is unknown.
            last_error: The last error while the log was read; None if there was none.
        """
        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        file_fact = path
        condition = f"{path} exists"
        if managed_store(self._table.storage) is not None:
            # The catalog decides, and the file is published later. `reason` has the path of the staged file.
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
            table=self._table.uri,  # For a clone or a copy this is the target, while the command names the source.
        )


class CommitInFlight(NamedTuple):
    """A commit that was sent, and whose result is not known yet.

    Attributes:
        request: The content of the commit.
        version: The number of the version.
    """

    request: CommitRequest
    version: int


def _find_contiguous_commits(listing: LogListing, first_version: int) -> list[LogFile]:
    """Return the commit files from a version on, up to the first missing version."""
    versions = takewhile(listing.commits.__contains__, count(first_version))
    return [listing.commits[version] for version in versions]
