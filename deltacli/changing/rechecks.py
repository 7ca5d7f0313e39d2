"""Checks that a table is still the one that a plan, or another commit, was made from.

Somebody may take minutes to answer a question, and a rewrite may run for hours. Meanwhile the log can be rolled back,
restored from a backup or replaced by that of a copy. A commit on top of such a log, or a deletion of the files that the
old one did not need, would destroy data. Each function here raises Refused before that.

What is compared, and what it costs:

    require_same_base_commit      the base commit has its size and time               one `stat`
    require_unchanged_basis       the same, unless the log was listed just now        none or one `stat`
    require_still_newest          the same, and no later version was made and lost    one listing
    require_same_log              all of this, and no commit since the plan expired   none: the caller has listed

`execution.py` calls them before the first act, `commit.py` before each attempt, and operations that delete files
before each batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.changing.base_errors import (
    BASE_COMMIT_REPLACED,
    CLOCK_BEHIND,
    COMMITS_MISSING,
    LOG_ROLLED_BACK,
    build_gone_commit_error,
    build_replaced_commit_error,
    build_replaced_file_error,
)
from deltacli.changing.basis import (
    Basis,
    OwnCommit,
    add_commit_digest,
    build_basis,
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
_LISTING_ATTEMPTS = 2


def recheck_log(basis: Basis) -> LogListing | None:
    """List the log from the version of a basis on, and require that it is the log that the plan was made from.

    Returns:
        The listing. None if there was nothing to list: the plan had no log, as one of a Paimon table, or the log of a
        remote store was listed for the plan just now.

    Raises:
        Refused: If the log is another one, as `require_same_log` says.
    """
    # Without a log there is nothing to compare. Paimon compares schemas by itself.
    if basis.base_commit is None:
        return None
    # In an object store a listing is a request, and a change that follows its plan at once should need no more of them.
    if basis.is_fresh and not basis.table.storage.capabilities.cheap_listing:
        return None

    listing = list_log(basis.table.storage, start_version=basis.version)
    require_same_log(basis, listing)
    return listing


def require_same_log(basis: Basis, listing: LogListing) -> None:
    """Require that a log is the one that a plan was made from, perhaps with newer commits.

    Args:
        basis: What the plan was made from.
        listing: The log as it is now, listed from the version of the basis on.

    Raises:
        Refused: If the log was rolled back (`plan.newer`), if the base commit was replaced or is gone, or a table was
            created where there was none (`plan.other-past`), or if commits after the plan have expired, so that nobody
            can tell what they changed (`plan.too-old`).
    """
    # A plan to create the table must not continue the log of another writer.
    if basis.version < 0 <= listing.newest_version:
        raise Refused(
            f"the log has version {listing.newest_version} by now, and had none when this was planned",
            preamble=NOTHING_CHANGED,
            code=BASE_COMMIT_REPLACED,
            facts={"why": "another writer created the table, or restores it"},
            hint=command("history", limit=10),
        )
    if listing.newest_version < basis.version:
        raise Refused(
            f"this was planned on version {basis.version}, but the newest is now {listing.newest_version}",
            preamble=NOTHING_CHANGED,
            code=LOG_ROLLED_BACK,
            facts={"why": "the log was rolled back, or the table was replaced"},
            hint=command("history", limit=10),
        )
    if basis.base_commit is not None:
        _require_listed_base_commit(listing, basis, basis.base_commit)
    # The base commit may be kept by its checkpoint although the commits behind it have expired.
    if not listing.can_follow(basis.version):
        raise Refused(
            f"commits after version {basis.version}, on which this was planned, are no longer in the log",
            preamble=NOTHING_CHANGED,
            code=COMMITS_MISSING,
            facts={"newest": f"version {listing.newest_version}"},
            hint=command("history", limit=10),
        )


def _require_listed_base_commit(listing: LogListing, basis: Basis, base_commit: LogFile) -> None:
    """Require that a listing has the base commit of a plan as it was, and the same content if that is known.

    Raises:
        Refused: If it was replaced or is gone (`plan.other-past`).
    """
    listed_commit = identify_commit(listing, basis.version)
    if listed_commit is None:
        raise build_gone_commit_error(base_commit.name)
    if listed_commit != base_commit:
        raise build_replaced_commit_error(base_commit, listed_commit.size_bytes, listed_commit.modified_ms)
    if basis.sha256 is None:
        return

    sha256 = hash_log_file(basis.table.storage, listed_commit)
    if sha256 != basis.sha256:
        facts = {"planned on": f"sha256 {basis.sha256}", "found": f"sha256 {sha256}"}
        raise build_replaced_file_error(listed_commit.name, facts)


def require_same_base_commit(storage: ReadStorage, base_commit: LogFile | OwnCommit | None) -> None:
    """Require that the commit which a plan or another commit follows is still the same file. Sends one request.

    Args:
        storage: The store of the table.
        base_commit: The file as it was listed, or a commit that this run has sent. None requires nothing.

    Raises:
        Refused: If it was replaced or is gone (`plan.other-past`).
    """
    if base_commit is None:
        return
    path = f"{LOG_DIRECTORY}/{base_commit.name}"
    try:
        if isinstance(base_commit, OwnCommit):
            first_line = storage.read_range(path, 0, len(base_commit.first_line))
            if first_line != base_commit.first_line:
                facts = {"planned on": "a commit of this run", "found": "one of another writer"}
                raise build_replaced_file_error(base_commit.name, facts)
            return
        stat = storage.stat(path)
    except FileMissing:
        raise build_gone_commit_error(base_commit.name) from None

    # A store over a network tells the time of a single file in seconds, and that in a listing in milliseconds.
    tolerance_ms = 0 if storage.capabilities.cheap_listing else _SECOND_MS
    _require_size_and_time(base_commit, stat.size_bytes, stat.modified_ms, tolerance_ms=tolerance_ms)


def require_unchanged_basis(basis: Basis) -> None:
    """Require that the base commit of a plan is still the same file, right before a write that follows from it.

    On a disk that is one `stat`. On a remote store nothing is sent if the log was listed a few seconds ago.

    Raises:
        Refused: If it was replaced or is gone (`plan.other-past`).
    """
    storage = basis.table.storage
    if storage.capabilities.cheap_listing or not basis.is_fresh:
        require_same_base_commit(storage, basis.base_commit)


def require_still_newest(storage: ReadStorage, base_commit: LogFile) -> None:
    """Require that the number after a version is free: the version is unchanged, and no later one was made and lost.

    A version that was lost leaves traces: a commit above a gap, a checkpoint, a checksum or a log compaction. Its
    number is not free, because these files belong to it and not to the commit that would take the number. Like
    `require_same_base_commit` this sends one request, a listing instead of a `stat`.

    Args:
        storage: The store of the table.
        base_commit: The file of the version, as it was listed.

    Raises:
        Refused: If the file was replaced or is gone (`plan.other-past`), or a later version was lost (`plan.too-old`).
    """
    # A listing may miss a commit that was just created and show what follows from it, so a second one decides.
    for _ in range(_LISTING_ATTEMPTS):
        listing = list_log(storage, start_version=base_commit.version)
        listed_commit = identify_commit(listing, base_commit.version)
        if listed_commit is None or listed_commit.name != base_commit.name:
            raise build_gone_commit_error(base_commit.name)
        _require_size_and_time(base_commit, listed_commit.size_bytes, listed_commit.modified_ms)

        # Commits of other writers that follow without a gap are no reason to stop: the commit will find them.
        last_versions = [last for first, last in listing.commit_runs if first <= base_commit.version + 1]
        newest_version = max([base_commit.version, *last_versions])
        highest_named_version = listing.told_version
        if highest_named_version <= newest_version:
            return
    raise Refused(
        f"commits after version {newest_version} seem to be lost: a commit, a checkpoint, a checksum or a log "
        f"compaction of version {highest_named_version} came since this was planned",
        preamble=NOTHING_CHANGED,
        code=COMMITS_MISSING,
        facts={"file": f"{LOG_DIRECTORY}/*{highest_named_version:020d}*"},
        hint=command("validate", level="log"),
    )


def require_same_listed_commit(
    storage: ReadStorage, base_commit: LogFile | OwnCommit | None, listed_commit: LogFile | None
) -> None:
    """Require that a new listing shows the base commit as it was.

    A base commit that has expired, so that the listing shows its checkpoint or nothing, is accepted.

    Args:
        storage: The store of the table, which is read only for a commit of this run.
        base_commit: The commit that an attempt would have followed.
        listed_commit: What the listing has for the same version.

    Raises:
        Refused: If it was replaced (`plan.other-past`).
    """
    if base_commit is None or listed_commit is None or base_commit.name != listed_commit.name:
        return
    if isinstance(base_commit, OwnCommit):
        require_same_base_commit(storage, base_commit)
    else:
        _require_size_and_time(base_commit, listed_commit.size_bytes, listed_commit.modified_ms)


def _require_size_and_time(base_commit: LogFile, size_bytes: int, modified_ms: int, *, tolerance_ms: int = 0) -> None:
    has_same_time = abs(modified_ms - base_commit.modified_ms) <= tolerance_ms
    if size_bytes != base_commit.size_bytes or not has_same_time:
        raise build_replaced_commit_error(base_commit, size_bytes, modified_ms)


def build_storable_basis(snapshot: Snapshot, listing: LogListing, now_ms: int) -> Basis:
    """Return the basis of a plan that may be saved to a file and executed days later.

    Args:
        snapshot: The version that the plan was made from. The basis does not keep it.
        listing: The log, listed after the snapshot was read.
        now_ms: The time of the plan in epoch milliseconds.

    Raises:
        Refused: If the listed log is another one than that of the snapshot.
    """
    basis = add_commit_digest(replace(build_basis(snapshot), now_ms=now_ms, snapshot=None))
    require_same_log(basis, listing)
    return basis


def hash_base_commit(storage: ReadStorage, base_commit: LogFile | None) -> str | None:
    """Return the SHA-256 of the base commit of a plan; None if there is none.

    Raises:
        Refused: If the file was replaced since it was listed, so that the digest may be that of another one.
    """
    sha256 = None if base_commit is None else hash_log_file(storage, base_commit)
    require_same_base_commit(storage, base_commit)
    return sha256


def require_valid_clock(table: TableHandle, planned_at_ms: int, newest_commit: LogFile | None) -> None:
    """Require a clock that is not behind the plan, and at most five minutes behind the newest commit.

    Removed files get the time of the clock as their deletion time. By a clock that is behind, tombstones would be older
    than the files that they remove, and a vacuum would delete these too early.

    Args:
        table: The table. A clock that was given (`--now`) is accepted as it is.
        planned_at_ms: The time of the plan in epoch milliseconds; 0 if it does not matter.
        newest_commit: The newest commit, by the time of its file; None if there is none.

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
