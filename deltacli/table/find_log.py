"""List the log of a table, starting at the checkpoint that the hint refers to.

The file `_last_checkpoint`, called the hint here, contains the version of a recent checkpoint. On
an object store, listing from this version on saves thousands of names of older commits.

The hint is never trusted. It may be older than the newest checkpoint, cut off in the middle of a
write, or refer to a checkpoint that was deleted. A wrong hint costs one more listing, but it does
not change the version that is read.

Spec: Last Checkpoint File; Delta Log Entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deltacli.core import errors
from deltacli.core.machine import MACHINE
from deltacli.core.progress import SILENT, Progress, report_items
from deltacli.delta.log import segment
from deltacli.storage import ReadStorage, is_taken
from deltacli.table.missing_log import build_missing_log_error

_FIRST_VERSIONED_NAME = "0"
"""The start of a listing that skips `_sidecars` and similar names. Names with a version start with a digit."""
_FILES_PER_REPORT = 100


class ListedLog(NamedTuple):
    """The listing of a log, together with its hint.

    Attributes:
        listing: The files with a version in their name.
        hint_problems: The ids of the rules of `validate` that the hint violates.
        listed_at: Start of the listing in seconds of the monotonic clock of this process.
        hint_version: The version in the hint; -1 if there is no hint, or if the hint is invalid.
    """

    listing: segment.LogListing
    hint_problems: tuple[str, ...] = ()
    listed_at: float = 0.0
    hint_version: int = -1


class LostVersions(NamedTuple):
    """Evidence that commits after the newest version of a log existed, and were lost.

    Attributes:
        rule: The id of the rule of `validate` that reports it.
        file_name: Name of the file in `_delta_log` that is the evidence.
        message: A description for the user.
    """

    rule: str
    file_name: str
    message: str


def find_log(
    storage: ReadStorage,
    version: int | None = None,
    *,
    progress: Progress = SILENT,
    monotonic: Callable[[], float] = MACHINE.monotonic,
) -> ListedLog:
    """List the files of the log that are needed to read a version.

    Args:
        storage: The store of the table.
        version: The version to read. None for the newest one.
        progress: Receives the number of listed files.
        monotonic: The monotonic clock of this process.

    Raises:
        NotATable: If there is no log.
        LogIncomplete: If the newest version is to be read, and a directory or broken link has the
            name of the next commit.
    """
    listed_at = monotonic()
    hint = read_hint(storage)
    if not isinstance(hint, segment.Hint):
        problems = (hint.rule,) if isinstance(hint, segment.BadHint) else ()
        listing = list_log(storage, progress=progress)
        log = ListedLog(listing, problems, listed_at)
        _require_no_blocked_commit(storage, version, log)
        return log

    # A local directory is always listed completely. A version before the hint needs the files
    # before the hint.
    start_version = 0
    if not storage.capabilities.has_cheap_requests and (version is None or hint.version <= version):
        start_version = hint.version
    listing = list_log(storage, start_version=start_version, progress=progress)

    problems = ()
    if not any(checkpoint.version == hint.version for checkpoint in listing.checkpoints):
        problems = ("hint.checkpoint-missing",)
        # The version can be rebuilt from a newer checkpoint, too. Otherwise an older one is needed.
        has_newer_checkpoint = any(checkpoint.version > hint.version for checkpoint in listing.checkpoints)
        if start_version and not has_newer_checkpoint:
            listed_at = monotonic()
            listing = list_log(storage, progress=progress)

    log = ListedLog(listing, problems, listed_at, hint.version)
    _require_no_blocked_commit(storage, version, log)
    return log


def _require_no_blocked_commit(storage: ReadStorage, version: int | None, log: ListedLog) -> None:
    """Raise LogIncomplete if the newest version is to be read, but the name of the next commit is not a file."""
    if version is None and find_blocked_commit_name(storage, log.listing) is not None:
        raise segment.blocked_commit_error(log.listing)


def find_lost_versions(storage: ReadStorage, listing: segment.LogListing, hint_version: int) -> LostVersions | None:
    """Find evidence that commits after the newest listed version existed, and were lost.

    There are two kinds of evidence:

    * The hint or a checksum file refers to a newer version. It was written after the commit of this
      version.
    * The name of the next commit does not have 20 digits, for example `7.json`. Delta for Spark and
      Delta Kernel for Java read it as version 7, other clients ignore it.

    Args:
        storage: The store of the table.
        listing: The listing of the log.
        hint_version: The version in the hint before the log was listed; -1 if there was no hint.

    Returns:
        The evidence, or None.
    """
    newest = listing.newest_version
    referenced_version = max(hint_version, *listing.checksums, -1)
    if referenced_version <= newest and newest + 1 not in listing.unpadded:
        return None

    # A writer may have committed in the meantime, so list the log again.
    current_listing = list_log(storage, start_version=newest)
    checksum_version = max(current_listing.checksums, default=-1)
    lost_version = max(hint_version, checksum_version)
    if lost_version > max(newest, current_listing.newest_version):
        if hint_version >= checksum_version:
            rule = "hint.ahead-of-log"
            file_name = segment.HINT_NAME
        else:
            rule = "crc.without-commit"
            file_name = f"{checksum_version:020d}.crc"
        path = f"{segment.LOG_DIRECTORY}/{file_name}"
        message = f"commits after version {newest} seem to be lost: {path} is of version {lost_version}"
        return LostVersions(rule, file_name, message)

    unpadded_name = current_listing.unpadded.get(newest + 1)
    if unpadded_name is None or current_listing.newest_version > newest:
        return None
    path = f"{segment.LOG_DIRECTORY}/{unpadded_name}"
    message = f"commits after version {newest} may be there: Delta for Spark reads {path} as version {newest + 1}"
    return LostVersions(segment.RULE_NAME_NOT_PADDED, unpadded_name, message)


def find_blocked_commit_name(storage: ReadStorage, listing: segment.LogListing) -> str | None:
    """Return the name of the next commit if a directory or a broken link has this name, else None.

    A listing contains only files. A link to a commit on a disk that is not mounted, for example,
    would make the version before it look like the newest one.
    """
    name = segment.commit_name(listing.newest_version + 1)
    return name if is_taken(storage, f"{segment.LOG_DIRECTORY}/{name}") else None


def list_log(storage: ReadStorage, *, start_version: int = 0, progress: Progress = SILENT) -> segment.LogListing:
    """List the files of the log with a version in their name, starting at `start_version`.

    Raises:
        NotATable: If there is no log.
    """
    files = list_log_files(storage, start_version=start_version, progress=progress)
    return segment.read_listing(files, start_version=start_version)


def list_log_files(
    storage: ReadStorage, table_path: str = "", *, start_version: int = 0, progress: Progress = SILENT
) -> list[segment.LogFile]:
    """Return the files of a log with a version in their name, sorted by name.

    Args:
        storage: A store that contains the table.
        table_path: The path of the table in the store, "" for its root.
        start_version: The lowest version to list.
        progress: Receives the number of listed files.

    Raises:
        NotATable: If there is no log. If the table is the root of the store, the message describes
            what was found instead, such as a file or the `_delta_log` directory itself.
    """
    start_name = segment.version_prefix(start_version) if start_version else _FIRST_VERSIONED_NAME
    files = []
    try:
        entries = storage.list_from(_join_log_directory(table_path), start_name)
        for stat in report_items(entries, progress, "listing the log", unit="files", every=_FILES_PER_REPORT):
            # Listings are sorted. Names without a version, such as `_sidecars`, are last.
            if stat.name >= segment.AFTER_VERSIONED_NAMES:
                break
            files.append(segment.make_log_file(stat.name, stat.size_bytes, stat.modified_ms))
    except errors.FileMissing:
        if table_path:
            raise errors.NotATable(f"{segment.LOG_DIRECTORY} is not a directory") from None
        raise build_missing_log_error(storage) from None
    return files


def read_hint(storage: ReadStorage, table_path: str = "") -> segment.Hint | segment.BadHint | None:
    """Read and parse the file `_last_checkpoint` of a table.

    Args:
        storage: A store that contains the table.
        table_path: The path of the table in the store, "" for its root.

    Returns:
        The hint, a `BadHint` with the violated rule if the file is invalid, or None if there is no
        file.

    Raises:
        StorageFailed: If a remote store does not answer.
    """
    try:
        return segment.read_hint(read_hint_file(storage, table_path))
    except errors.FileMissing:
        return None
    except errors.PathExternal:
        # The file is a symbolic link to a place outside the table.
        return segment.BadHint("hint.bad-json")
    except errors.StorageFailed as error:
        # A remote store that does not answer would not answer the listing either, after more
        # retries.
        if not storage.capabilities.has_cheap_requests and not isinstance(error, errors.PermissionRefused):
            raise
        return segment.BadHint("hint.bad-json")


def read_hint_file(storage: ReadStorage, table_path: str = "") -> bytes:
    """Return the content of `_last_checkpoint`, cut off one byte after the maximum size of a hint.

    The size is limited because a damaged file may be arbitrarily large. The additional byte tells
    the parser that the file is too large.

    Raises:
        FileMissing: If there is no hint.
        StorageFailed: If the file cannot be read.
    """
    return storage.read_range(f"{_join_log_directory(table_path)}/{segment.HINT_NAME}", 0, segment.MAX_HINT_BYTES + 1)


def _join_log_directory(table_path: str) -> str:
    return f"{table_path}/{segment.LOG_DIRECTORY}" if table_path else segment.LOG_DIRECTORY
