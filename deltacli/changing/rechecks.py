"""Checks that the log is still the one that a plan, or an earlier commit of the run, was made from.

A user may take minutes to confirm a plan, and a rewrite may run for hours. Meanwhile the log can be rolled back,
restored from a backup, or replaced by the log of a copy. A commit to such a log would mix two histories. A vacuum would
delete files that the new log still references. Each function in this module raises Refused before that happens.

    function                       requires                                                  cost
    ----------------------------   -------------------------------------------------------   ----------------------
    require_same_base_commit       the base commit has the same size and time                one request
    recheck_base_commit            the same, unless a remote log was listed just now         at most one request
    require_still_newest           the same, and that the next version number is free        one or two listings
    require_same_log               the same, and that no commit after the plan has expired   none, takes a listing

`execution.py` calls them before the first write, `commit.py` before each attempt, and operations that delete files
before each batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.base_commit_errors import (
    BASE_COMMIT_REPLACED,
    CLOCK_BEHIND,
    COMMITS_MISSING,
    LOG_ROLLED_BACK,
    build_missing_commit_error,
    build_replaced_error,
    describe_size_and_time,
)
from deltacli.changing.base_version import (
    BaseVersion,
    OwnCommit,
    add_commit_digest,
    build_base_version,
    hash_log_file,
    identify_commit,
)
from deltacli.core.errors import NOTHING_CHANGED, FileMissing, Refused, command
from deltacli.core.times import CLOCK_SKEW_MS, format_timestamp
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile, LogListing
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

_SECOND_MS = 1000


def recheck_log(base_version: BaseVersion) -> LogListing | None:
    """Require that the log is the one that a plan was made from. Lists it again, from the base version on.

    Returns:
        The listing. None if the log was not listed: because the table has no Delta log, or because the log of a remote
        store was listed for the plan just now.

    Raises:
        Refused: If the log was replaced or rolled back, see `require_same_log`.
    """
    # A new table has no log, and neither has a Paimon table, whose operations compare schemas instead.
    if base_version.base_commit is None:
        return None
    # Avoid a request to a remote store if the change is executed immediately after its plan.
    has_cheap_requests = base_version.table.storage.capabilities.has_cheap_requests
    if base_version.was_listed_just_now and not has_cheap_requests:
        return None

    listing = list_log(base_version.table.storage, start_version=base_version.version)
    require_same_log(base_version, listing)
    return listing


def require_same_log(base_version: BaseVersion, listing: LogListing) -> None:
    """Require that a log is the one that a plan was made from. Newer commits are allowed.

    Args:
        base_version: The base version of the plan.
        listing: The current log, listed from the base version on.

    Raises:
        Refused: If the log was rolled back (`plan.newer`); if the base commit was replaced or deleted, or another
            writer created the table first (`plan.other-past`); or if commits after the plan have expired, so that their
            effects are unknown (`plan.too-old`).
    """
    # A plan that creates a table must not add to the log of another writer.
    if base_version.version < 0 <= listing.newest_version:
        raise Refused(
            f"the log has version {listing.newest_version} by now, and had none when this was planned",
            preamble=NOTHING_CHANGED,
            code=BASE_COMMIT_REPLACED,
            facts={"why": "another writer created the table, or restores it"},
            hint=command("history", limit=10),
        )
    if listing.newest_version < base_version.version:
        raise Refused(
            f"this was planned on version {base_version.version}, but the newest is now {listing.newest_version}",
            preamble=NOTHING_CHANGED,
            code=LOG_ROLLED_BACK,
            facts={"why": "the log was rolled back, or the table was replaced"},
            hint=command("history", limit=10),
        )
    if base_version.base_commit is not None:
        _require_listed_base_commit(listing, base_version, base_version.base_commit)
    # The checkpoint of the base version may still exist although the commits after it have expired.
    if not listing.can_follow(base_version.version):
        raise Refused(
            f"commits after version {base_version.version}, on which this was planned, are no longer in the log",
            preamble=NOTHING_CHANGED,
            code=COMMITS_MISSING,
            facts={"newest": f"version {listing.newest_version}"},
            hint=command("history", limit=10),
        )


def _require_listed_base_commit(listing: LogListing, base_version: BaseVersion, base_commit: LogFile) -> None:
    """Require that a listing contains the base commit of a plan, with the same size and time.

    If the plan has a digest of the commit, the content is compared, too.

    Args:
        listing: The current log.
        base_version: The base version of the plan.
        base_commit: `base_version.base_commit`, which is not None here.

    Raises:
        Refused: If the commit was replaced or deleted (`plan.other-past`).
    """
    listed_commit = identify_commit(listing, base_version.version)
    if listed_commit is None:
        raise build_missing_commit_error(base_commit.name)
    if listed_commit != base_commit:
        facts = describe_size_and_time(base_commit, listed_commit.size_bytes, listed_commit.modified_ms)
        raise build_replaced_error(base_commit.name, facts)
    if base_version.sha256 is None:
        return

    sha256 = hash_log_file(base_version.table.storage, listed_commit)
    if sha256 != base_version.sha256:
        facts = {"planned on": f"sha256 {base_version.sha256}", "found": f"sha256 {sha256}"}
        raise build_replaced_error(listed_commit.name, facts)


def require_same_base_commit(storage: ReadStorage, base_commit: LogFile | OwnCommit | None) -> None:
    """Require that the base commit of a plan, or of the next commit, is still the same file. Sends one request.

    Args:
        storage: The store of the table.
        base_commit: The file as it was listed, or a commit that this run has created. None to check nothing.

    Raises:
        Refused: If the file was replaced or deleted (`plan.other-past`).
    """
    if base_commit is None:
        return
    try:
        if isinstance(base_commit, OwnCommit):
            _require_same_first_line(storage, base_commit)
        else:
            _require_same_stat(storage, base_commit)
    except FileMissing:
        raise build_missing_commit_error(base_commit.name) from None


def _require_same_first_line(storage: ReadStorage, own_commit: OwnCommit) -> None:
    """Require that a commit file begins with the commitInfo that this run has written, which has a random `txnId`.

    Raises:
        FileMissing: If the file was deleted.
        Refused: If the file was replaced (`plan.other-past`).
    """
    path = f"{LOG_DIRECTORY}/{own_commit.name}"
    first_line = storage.read_range(path, 0, len(own_commit.first_line))
    if first_line != own_commit.first_line:
        facts = {"planned on": "a commit of this run", "found": "one of another writer"}
        raise build_replaced_error(own_commit.name, facts)


def _require_same_stat(storage: ReadStorage, base_commit: LogFile) -> None:
    """Require that a commit file has the size and time that it was listed with.

    Raises:
        FileMissing: If the file was deleted.
        Refused: If the file was replaced (`plan.other-past`).
    """
    stat = storage.stat(f"{LOG_DIRECTORY}/{base_commit.name}")
    # Object stores return the time of a single file in seconds, but the times in a listing in milliseconds.
    tolerance_ms = 0 if storage.capabilities.has_cheap_requests else _SECOND_MS
    _require_size_and_time(base_commit, stat.size_bytes, stat.modified_ms, tolerance_ms=tolerance_ms)


def recheck_base_commit(base_version: BaseVersion) -> None:
    """Require that the base commit of a plan is still the same file, right before a write that depends on it.

    On a local disk this is one `stat`. On a remote store it is one request, or none if the log was listed a few seconds
    ago.

    Raises:
        Refused: If the file was replaced or deleted (`plan.other-past`).
    """
    storage = base_version.table.storage
    if storage.capabilities.has_cheap_requests or not base_version.was_listed_just_now:
        require_same_base_commit(storage, base_version.base_commit)


class _LostVersions(NamedTuple):
    """Versions that were created after the base version, and whose commit files are missing.

    Attributes:
        last_version: The last version before the first missing commit.
        highest_version: The highest version in the name of any log file.
    """

    last_version: int
    highest_version: int


def require_still_newest(storage: ReadStorage, base_commit: LogFile) -> None:
    """Require that a version is unchanged, and that the number after it (or after newer commits) is free.

    The number is not free if a later version existed and its commit file was lost. Such a version leaves traces:

        …04.json   …05.json   …07.json     commit 6 is lost
        …04.json   …05.json   …06.crc      commit 6 is lost, its checksum file remains

    A new commit 6 would be combined with files that belong to the lost one. Newer commits without a gap are accepted,
    because `put_if_absent` finds that their numbers are taken.

    Args:
        storage: The store of the table.
        base_commit: The file of the version, as it was listed.

    Raises:
        Refused: If the file was replaced or deleted (`plan.other-past`), or a later version is lost (`plan.too-old`).
    """
    lost_versions = _find_lost_versions(storage, base_commit)
    if lost_versions is not None:
        # A listing can miss a commit that is created at the same moment, and still contain its checksum. So list again.
        lost_versions = _find_lost_versions(storage, base_commit)
    if lost_versions is None:
        return

    highest_version = lost_versions.highest_version
    raise Refused(
        f"commits after version {lost_versions.last_version} seem to be lost: a commit, a checkpoint, a checksum or a "
        f"log compaction of version {highest_version} came since this was planned",
        preamble=NOTHING_CHANGED,
        code=COMMITS_MISSING,
        facts={"file": f"{LOG_DIRECTORY}/*{highest_version:020d}*"},
        hint=command("validate", level="log"),
    )


def _find_lost_versions(storage: ReadStorage, base_commit: LogFile) -> _LostVersions | None:
    """List the log from a base commit on, and find traces of versions whose commits are missing.

    Returns:
        The lost versions; None if no commit is missing.

    Raises:
        Refused: If the base commit was replaced or deleted (`plan.other-past`).
    """
    listing = list_log(storage, start_version=base_commit.version)
    _require_listed_unchanged(listing, base_commit)
    last_version = _find_last_contiguous_version(listing, base_commit.version)
    highest_version = listing.highest_version_in_names
    if highest_version <= last_version:
        return None
    return _LostVersions(last_version, highest_version)


def _require_listed_unchanged(listing: LogListing, base_commit: LogFile) -> None:
    """Require that a listing contains a commit, with the same size and time.

    Raises:
        Refused: If the commit was replaced or deleted (`plan.other-past`).
    """
    listed_commit = identify_commit(listing, base_commit.version)
    if listed_commit is None or listed_commit.name != base_commit.name:
        raise build_missing_commit_error(base_commit.name)
    _require_size_and_time(base_commit, listed_commit.size_bytes, listed_commit.modified_ms)


def _find_last_contiguous_version(listing: LogListing, version: int) -> int:
    """Return the last version of the commits that follow a version without a gap.

    Example: for version 4 and the commits 4, 5, 6 and 8 the result is 6.
    """
    last_version = version
    for first, last in listing.commit_runs:
        if first <= version + 1:
            last_version = max(last_version, last)
    return last_version


def require_same_listed_commit(
    storage: ReadStorage, base_commit: LogFile | OwnCommit | None, listed_commit: LogFile | None
) -> None:
    """Require that the base commit of an attempt is unchanged in a new listing.

    An expired base commit is accepted: the listing then has only a checkpoint of its version, or no file.

    Args:
        storage: The store of the table. It is read only if the base commit is a commit of this run.
        base_commit: The commit that the attempt was to follow.
        listed_commit: The file of the same version in the new listing; None if there is none.

    Raises:
        Refused: If the base commit was replaced (`plan.other-past`).
    """
    if base_commit is None or listed_commit is None or base_commit.name != listed_commit.name:
        return
    if isinstance(base_commit, OwnCommit):
        require_same_base_commit(storage, base_commit)
    else:
        _require_size_and_time(base_commit, listed_commit.size_bytes, listed_commit.modified_ms)


def _require_size_and_time(base_commit: LogFile, size_bytes: int, modified_ms: int, *, tolerance_ms: int = 0) -> None:
    """Raise Refused (`plan.other-past`) if a commit has another size or time than it had in the earlier listing."""
    has_same_time = abs(modified_ms - base_commit.modified_ms) <= tolerance_ms
    if size_bytes != base_commit.size_bytes or not has_same_time:
        raise build_replaced_error(base_commit.name, describe_size_and_time(base_commit, size_bytes, modified_ms))


def build_storable_base_version(snapshot: Snapshot, listing: LogListing, now_ms: int) -> BaseVersion:
    """Return the base version of a plan that may be saved to a file and executed days later.

    Args:
        snapshot: The version that the plan was made from. The result does not contain it, so that it can be saved.
        listing: The log, listed after the snapshot was read.
        now_ms: The time of the plan in epoch milliseconds.

    Raises:
        Refused: If the log was replaced between the snapshot and the listing.
    """
    base_version = add_commit_digest(replace(build_base_version(snapshot), now_ms=now_ms, snapshot=None))
    require_same_log(base_version, listing)
    return base_version


def hash_base_commit(storage: ReadStorage, base_commit: LogFile | None) -> str | None:
    """Return the SHA-256 of the base commit of a plan; None if there is none.

    Raises:
        Refused: If the file was replaced after it was listed, so that the digest may belong to another commit.
    """
    sha256 = None if base_commit is None else hash_log_file(storage, base_commit)
    require_same_base_commit(storage, base_commit)
    return sha256


def require_valid_clock(table: TableHandle, planned_at_ms: int, newest_commit: LogFile | None) -> None:
    """Require that the clock is not behind the plan, and at most five minutes behind the newest commit.

    Remove actions contain the current time as `deletionTimestamp`. If the clock were hours behind, the retention period
    of the removed files would end too early, and a vacuum would delete files that older versions still need.

    Args:
        table: The table. A time that the user has set (`--now`) is not checked.
        planned_at_ms: The time of the plan in epoch milliseconds; 0 to compare with the newest commit only.
        newest_commit: The newest commit, whose file time is compared; None to compare with the plan only.

    Raises:
        Refused: If the clock is behind (`plan.clock`).
    """
    if table.has_given_clock:
        return
    now_ms = table.clock()
    newest_commit_ms = 0 if newest_commit is None else newest_commit.modified_ms
    if now_ms < planned_at_ms:
        raise _build_clock_error(now_ms, "the plan", {"planned at": format_timestamp(planned_at_ms)})
    if now_ms < newest_commit_ms - CLOCK_SKEW_MS:
        raise _build_clock_error(now_ms, "the newest commit", {"newest commit": format_timestamp(newest_commit_ms)})


def _build_clock_error(now_ms: int, reference: str, facts: dict[str, str]) -> Refused:
    return Refused(
        f"the clock is {format_timestamp(now_ms)}, behind {reference}",
        preamble=NOTHING_CHANGED,
        code=CLOCK_BEHIND,
        facts=facts,
        hint="date -u",
    )
