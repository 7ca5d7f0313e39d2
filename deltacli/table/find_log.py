"""Find the log of a table: the listing, and the hint where to begin it.

`_last_checkpoint` is only a hint. Whatever it says, the listing decides: a hint that is stale, torn,
dangling or forged costs one more listing, and never changes what is read.

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
from deltacli.table.missing_log import missing_log_error

_FIRST_VERSIONED_NAME = "0"
"""Names with a version begin with a digit, so a sorted listing starts here."""
_FILES_PER_REPORT = 100


class ListedLog(NamedTuple):
    """The listed content of a table's log, and what its hint said.

    Attributes:
        listing: The versioned files.
        hint_problems: The rules of `validate` that the hint breaks.
        listed_at: When the listing began, by the monotonic clock of this process.
        hint_version: The version that the hint names; -1 if none can be trusted, or none was read.
    """

    listing: segment.LogListing
    hint_problems: tuple[str, ...] = ()
    listed_at: float = 0.0
    hint_version: int = -1


class LostVersions(NamedTuple):
    """The reason why versions newer than the newest one may have existed.

    Attributes:
        rule: The rule of `validate` that reports this.
        file_name: The file of the log that shows it.
        message: The reason in words.
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
    """List the log for reading a version, from the checkpoint of the hint where that is shorter.

    Args:
        storage: The store of the table.
        version: The version that will be read. None for the newest one.
        progress: Where the listed files are reported.
        monotonic: The monotonic clock of this process.

    Raises:
        NotATable: If there is no log.
        LogIncomplete: If the next commit has a name that is no file.
    """
    began = monotonic()
    hint = read_hint(storage)
    if not isinstance(hint, segment.Hint):
        problems = (hint.rule,) if isinstance(hint, segment.BadHint) else ()
        listing = list_log(storage, progress=progress)
        return _require_no_blocked_commit(storage, version, ListedLog(listing, problems, began))

    # On a local disk the whole log is listed at once. For an older version than the hint's, the files
    # before the hint are needed.
    start = 0
    if not storage.capabilities.cheap_listing and (version is None or hint.version <= version):
        start = hint.version
    listing = list_log(storage, start_version=start, progress=progress)

    problems = ()
    if not any(checkpoint.version == hint.version for checkpoint in listing.checkpoints):
        problems = ("hint.checkpoint-missing",)
        # A newer checkpoint is as good a start: the hint is only stale. Without one, the start is before it.
        has_newer_checkpoint = any(checkpoint.version > hint.version for checkpoint in listing.checkpoints)
        if start and not has_newer_checkpoint:
            began = monotonic()
            listing = list_log(storage, progress=progress)
    return _require_no_blocked_commit(storage, version, ListedLog(listing, problems, began, hint.version))


def _require_no_blocked_commit(storage: ReadStorage, version: int | None, log: ListedLog) -> ListedLog:
    """Return a log. Raise LogIncomplete if the newest version is wanted and the commit after it is no file."""
    if version is None and find_blocked_commit_name(storage, log.listing) is not None:
        raise segment.not_a_file(log.listing)
    return log


def find_lost_versions(storage: ReadStorage, listing: segment.LogListing, hint_version: int) -> LostVersions | None:
    """Return why there were, or may be, newer versions than the newest one of a listing.

    Two things show it: the hint or a checksum of a newer version, whose commits must have existed; and a
    commit of the next version whose name does not have 20 digits. Delta for Spark and Delta Kernel for
    Java read the latter as a version, other clients do not.

    Args:
        storage: The store of the table.
        listing: The listing.
        hint_version: The version that the hint named before the listing; -1 without one.

    Returns:
        The reason; None if nothing shows newer versions.
    """
    newest = listing.newest_version
    stated_version = max(hint_version, *listing.checksums, -1)
    if stated_version <= newest and newest + 1 not in listing.unpadded:
        return None

    now = list_log(storage, start_version=newest)  # once more: a writer may have added versions in between
    checksum_version = max(now.checksums, default=-1)
    lost_version = max(hint_version, checksum_version)
    if lost_version > max(newest, now.newest_version):
        if hint_version >= checksum_version:
            rule = "hint.ahead-of-log"
            file_name = segment.HINT_NAME
        else:
            rule = "crc.without-commit"
            file_name = f"{checksum_version:020d}.crc"
        path = f"{segment.LOG_DIRECTORY}/{file_name}"
        message = f"commits after version {newest} seem to be lost: {path} is of version {lost_version}"
        return LostVersions(rule, file_name, message)

    unpadded_name = now.unpadded.get(newest + 1)
    if unpadded_name is None or now.newest_version > newest:
        return None
    path = f"{segment.LOG_DIRECTORY}/{unpadded_name}"
    message = f"commits after version {newest} may be there: Delta for Spark reads {path} as version {newest + 1}"
    return LostVersions(segment.NAME_NOT_PADDED, unpadded_name, message)


def find_blocked_commit_name(storage: ReadStorage, listing: segment.LogListing) -> str | None:
    """Return the name of the commit after the newest one if it is a directory, or a link to nothing.

    A listing has files only, so the version before would be taken for the newest one.
    """
    name = segment.commit_name(listing.newest_version + 1)
    return name if is_taken(storage, f"{segment.LOG_DIRECTORY}/{name}") else None


def list_log(storage: ReadStorage, *, start_version: int = 0, progress: Progress = SILENT) -> segment.LogListing:
    """List the versioned files of the log from a version on.

    Raises:
        NotATable: If there is no log.
    """
    files = list_log_files(storage, start_version=start_version, progress=progress)
    return segment.read_listing(files, start_version=start_version)


def list_log_files(
    storage: ReadStorage, at: str = "", *, start_version: int = 0, progress: Progress = SILENT
) -> list[segment.LogFile]:
    """Return the versioned files of the log of a table.

    Listings are sorted, so this stops before `_sidecars` and other names without a version.

    Args:
        storage: A store that contains the table.
        at: The path of the table in the store, "" for its root.
        start_version: The version at which to begin.
        progress: Where the listed files are reported.

    Raises:
        NotATable: If there is no log. For the root of the store, the error says what is there instead.
    """
    start_name = segment.version_prefix(start_version) if start_version else _FIRST_VERSIONED_NAME
    files = []
    try:
        entries = storage.list_from(_join_log_directory(at), start_name)
        for stat in report_items(entries, progress, "listing the log", unit="files", every=_FILES_PER_REPORT):
            # Names without a version, such as `_sidecars`, come last.
            if stat.name >= segment.AFTER_VERSIONED_NAMES:
                break
            files.append(segment.make_log_file(stat.name, stat.size_bytes, stat.modified_ms))
    except errors.FileMissing:
        if at:
            raise errors.NotATable(f"{segment.LOG_DIRECTORY} is not a directory") from None
        raise missing_log_error(storage) from None
    return files


def read_hint(storage: ReadStorage, at: str = "") -> segment.Hint | segment.BadHint | None:
    """Read the hint of a table.

    Args:
        storage: A store that contains the table.
        at: The path of the table in the store, "" for its root.

    Returns:
        The hint, or the rule that it breaks if it cannot be used; None if there is none.

    Raises:
        StorageFailed: If a remote store does not answer.
    """
    try:
        return segment.read_hint(read_hint_file(storage, at))
    except errors.FileMissing:
        return None
    except errors.PathExternal:  # a link that leads outside the table
        return segment.BadHint("hint.bad-json")
    except errors.StorageFailed as fault:
        if not storage.capabilities.cheap_listing and not isinstance(fault, errors.PermissionRefused):
            raise  # the listing would retry the same fault again
        return segment.BadHint("hint.bad-json")


def read_hint_file(storage: ReadStorage, at: str = "") -> bytes:
    """Return the bytes of `_last_checkpoint`, at most one more than a hint may have.

    The file may be a terabyte of zeros, and the byte too many shows that it is too large.

    Raises:
        DeltacliError: What the store raises.
    """
    return storage.read_range(f"{_join_log_directory(at)}/{segment.HINT_NAME}", 0, segment.MAX_HINT_BYTES + 1)


def _join_log_directory(at: str) -> str:
    return f"{at}/{segment.LOG_DIRECTORY}" if at else segment.LOG_DIRECTORY
