"""Finding the log of a table: the listing, the hint for its start, and the time of each version."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import NamedTuple

from deltacli.core import errors
from deltacli.core.machine import MACHINE
from deltacli.core.progress import SILENT, Progress, report_items
from deltacli.delta.log import segment
from deltacli.storage import LocalStorage, PathKind, ReadStorage, is_taken

_FIRST_VERSIONED_NAME = "0"
_FILES_A_REPORT = 100
_FILES = (segment.LOG_DIRECTORY, segment.BACKUP_LIST)
_PARTITION = r"(?<=[^/:])/[^/=]+=[^/]*(?=/|$)"


class Log(NamedTuple):
    """The listed content of a table's log, and the problem of its hint."""

    listing: segment.LogListing
    hint_problems: tuple[str, ...] = ()
    listed_at: float = 0.0
    """When the listing began, by the monotonic clock of this process."""
    hint_version: int = -1
    """The version that the hint names; -1 where none can be trusted, or was read."""


def find_log(
    storage: ReadStorage,
    version: int | None = None,
    *,
    progress: Progress = SILENT,
    monotonic: Callable[[], float] = MACHINE.monotonic,
) -> Log:
    """List the log for reading `version`, or the newest one: from the hint's checkpoint where that is shorter, else
    from the start.

    A stale, torn, dangling or forged hint costs one more listing but is not an error. Raises NotATable where there is
    no log.
    """
    began, hint = monotonic(), find_hint(storage)
    problems = (hint.rule,) if isinstance(hint, segment.BadHint) else ()
    start = 0
    if (
        isinstance(hint, segment.Hint)
        and not storage.capabilities.cheap_listing
        and (version is None or hint.version <= version)
    ):
        start = hint.version
    listing = list_log(storage, start_version=start, progress=progress)
    if isinstance(hint, segment.Hint) and not any(instance.version == hint.version for instance in listing.checkpoints):
        problems = ("hint.checkpoint-missing",)
        if start and not any(instance.version > hint.version for instance in listing.checkpoints):
            began, listing = monotonic(), list_log(storage, progress=progress)
    if version is None and taken_name(storage, listing) is not None:
        raise segment.not_a_file(listing)
    return Log(listing, problems, began, hint.version if isinstance(hint, segment.Hint) else -1)


def find_lost_versions(
    storage: ReadStorage, listing: segment.LogListing, hint_version: int
) -> tuple[str, str, str] | None:
    """Return rule, file and words if there were or may be newer versions than the newest one; None otherwise.

    The hint or a checksum proves that newer versions were lost. A commit of the next version whose name does not have
    20 digits is a version to Delta for Spark and to Delta Kernel for Java, and not to others.
    """
    newest = listing.newest_version
    if max(hint_version, *listing.checksums, -1) <= newest and newest + 1 not in listing.unpadded:
        return None
    now = list_log(storage, start_version=newest)  # once more: a writer may have added versions in between
    checked = max(now.checksums, default=-1)
    version = max(hint_version, checked)
    if version > max(newest, now.newest_version):
        is_hint = hint_version >= checked
        code, name = (
            ("hint.ahead-of-log", segment.HINT_NAME) if is_hint else ("crc.without-commit", f"{checked:020d}.crc")
        )
        place = f"{segment.LOG_DIRECTORY}/{name}"
        return code, name, f"commits after version {newest} seem to be lost: {place} is of version {version}"

    unread = now.unpadded.get(newest + 1)
    if unread is None or now.newest_version > newest:
        return None
    place = f"{segment.LOG_DIRECTORY}/{unread}"
    words = f"commits after version {newest} may be there: Delta for Spark reads {place} as version {newest + 1}"
    return segment.NAME_NOT_PADDED, unread, words


def taken_name(storage: ReadStorage, listing: segment.LogListing) -> str | None:
    """Return the name of the commit after the newest one where it is a directory, or a link to nothing: the version
    before would be taken for the newest one.
    """
    name = segment.commit_name(listing.newest_version + 1)
    return name if is_taken(storage, f"{segment.LOG_DIRECTORY}/{name}") else None


def require_delta(storage: ReadStorage) -> None:
    """Raise UsageError where the directory is also a Paimon table, so that the user has to choose the format.

    Checked only where that needs no request to a remote store.
    """
    is_delta = storage.capabilities.cheap_listing and storage.kind_of(segment.LOG_DIRECTORY) is PathKind.DIRECTORY
    has_schemas = is_delta and storage.kind_of("schema") is PathKind.DIRECTORY
    if has_schemas and (name := _first_with(storage, "schema", "schema-")) is not None:
        raise errors.UsageError(
            "this directory is both a Delta table and a Paimon table",
            code="table.format-ambiguous",
            facts={"found": f"{segment.LOG_DIRECTORY}/ and schema/{name}"},
            hint=errors.suggest_parameters(errors.parameter("open_table.table_format", "delta")),
        )


def is_empty(storage: ReadStorage) -> bool:
    """Return whether a directory has no file, nor any below it, but for drafts and probes that a killed run left."""
    try:
        walked = storage.walk("", lambda _, names: names)
        names = (name for one in walked for name in (*one.names, *filter(None, one.special)))
        return all(name.startswith(".") and name.endswith((".tmp", ".probe")) for name in names)
    except errors.FileMissing:
        return True


def has_clone_notes(storage: ReadStorage) -> bool:
    """Return whether a table has a note of a clone, readable or not. Raises what the storage raises."""
    try:
        return any(storage.list_from(f"{segment.LOG_DIRECTORY}/{segment.CLONES_DIRECTORY}"))
    except errors.FileMissing:
        return False


def list_log(storage: ReadStorage, *, start_version: int = 0, progress: Progress = SILENT) -> segment.LogListing:
    """List the versioned files of the log from `start_version` on."""
    files = list_log_files(storage, start_version=start_version, progress=progress)
    return segment.read_listing(files, start_version=start_version)


def list_log_files(
    storage: ReadStorage, at: str = "", *, start_version: int = 0, progress: Progress = SILENT
) -> list[segment.LogFile]:
    """Return the versioned files of the log of the table at a path of the store, stopping before `_sidecars` and other
    names without a version.
    """
    start = segment.version_prefix(start_version) if start_version else _FIRST_VERSIONED_NAME
    files = []
    try:
        entries = storage.list_from(_log_directory(at), start)
        for stat in report_items(entries, progress, "listing the log", unit="files", every=_FILES_A_REPORT):
            if stat.name >= segment.AFTER_VERSIONED_NAMES:
                break
            files.append(segment.make_log_file(stat.name, stat.size_bytes, stat.modified_ms))
    except errors.FileMissing:
        raise errors.NotATable(f"{segment.LOG_DIRECTORY} is not a directory") if at else missing_log(storage) from None
    return files


def find_hint(storage: ReadStorage, at: str = "") -> segment.Hint | segment.BadHint | None:
    """Read the hint of the table at a path of the store. One that cannot be read, that links outside the table, or that
    is too large counts as missing.
    """
    try:
        return segment.read_hint(read_hint_file(storage, at))
    except errors.FileMissing:
        return None
    except errors.PathExternal:
        return segment.BadHint("hint.bad-json")
    except errors.StorageFailed as fault:
        if not storage.capabilities.cheap_listing and not isinstance(fault, errors.PermissionRefused):
            raise  # the listing would retry the same fault again
        return segment.BadHint("hint.bad-json")


def read_hint_file(storage: ReadStorage, at: str = "") -> bytes:
    """Return the bytes of `_last_checkpoint`, at most one more than a hint may have. Raises what the store raises."""
    return storage.read_range(f"{_log_directory(at)}/{segment.HINT_NAME}", 0, segment.MAX_HINT_BYTES + 1)


def _log_directory(at: str) -> str:
    return f"{at}/{segment.LOG_DIRECTORY}" if at else segment.LOG_DIRECTORY


def missing_log(storage: ReadStorage) -> errors.DeltacliError:
    """Return the error for a path without a log: what is there instead, and what to try."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            return nothing_at(storage)
        case PathKind.FILE:
            around = table_around(storage)
            return errors.NotATable(
                "this is a file; a table is a directory that contains _delta_log",
                code="table.path-is-file",
                facts={"path": storage.uri, **({"inside the table": around} if around else {})},
                hint=None if around is None else errors.command("snapshot", table=around),
            )
    directories = set(table_directories(storage, ""))
    if storage.uri.rstrip("/").endswith(f"/{segment.LOG_DIRECTORY}"):
        return errors.NotATable(
            "this is the log of a table; pass the directory above it",
            code="table.path-is-log",
            hint=_hint_table_around(storage) or errors.command("snapshot", table="{parent}"),
        )
    if is_paimon_directory(storage, directories):
        return _paimon_table(storage)
    if segment.LOG_DIRECTORY in directories:
        fault = errors.NotATable(f"{segment.LOG_DIRECTORY} is not a directory")
        _name_undelete(fault, storage)
        return fault
    nested = [
        name for name in sorted(directories) if storage.kind_of(f"{name}/{segment.LOG_DIRECTORY}") is PathKind.DIRECTORY
    ][:5]
    around = table_around(storage)
    fault = errors.NotATable(
        "this is not a Delta table: the directory has no _delta_log",
        facts={
            "path": storage.uri,
            **({"inside the table": around} if around else {}),
            **({"tables below": ", ".join(nested)} if nested else {}),
        },
        hint=errors.command("snapshot", table=f"{{table}}/{nested[0]}") if nested else _hint_table_around(storage),
    )
    fault.below = nested[0] if nested else None
    _name_undelete(fault, storage)
    return fault


def nothing_at(storage: ReadStorage) -> errors.NotATable:
    """Return the error for a path where nothing is. It names `undelete` where a deleted table can come back."""
    fault = errors.NotATable("no such file or directory", code="table.path-missing", facts={"path": storage.uri})
    _name_undelete(fault, storage)
    return fault


_LARGEST_LOOK = 100
"""Versions of deleted objects that are looked at: those of the first page of every store."""


def _name_undelete(fault: errors.NotATable, storage: ReadStorage) -> None:
    """Make `undelete` the hint of an error if the store keeps a log that was deleted. Costs one request."""
    if keeps_deleted_log(storage):
        fault.facts["deleted log"] = "the store keeps versions of its files"
        fault.hint = errors.command("undelete", dry_run=True)


def keeps_deleted_log(storage: ReadStorage) -> bool:
    """Return True if the store keeps files of a log that were deleted.

    False is no proof: the store may not let the caller list versions. The error for which this is asked says what is
    known without it.
    """
    kept = storage.versions
    if kept is None:
        return False
    from deltacli.storage.versions import VersionState  # which only stores with versions import

    try:
        first = islice(kept.list(f"{segment.LOG_DIRECTORY}/"), _LARGEST_LOOK)
        return any(version.is_readable or version.state is VersionState.SOFT_DELETED for version in first)
    except errors.DeltacliError:
        return False


def table_around(storage: ReadStorage) -> str | None:
    """Return the table that contains a directory or file: on a local disk the nearest directory above with a log,
    elsewhere the directory above the first name that looks like a partition, `day=2026-01-01`. None without one.
    """
    if isinstance(storage, LocalStorage):
        path = storage.root
        while (above := os.path.dirname(path)) != path:
            path = above
            if os.path.isdir(os.path.join(path, segment.LOG_DIRECTORY)):
                return path
        return None
    match = re.search(_PARTITION, storage.uri)
    return storage.uri[: match.start()] if match else None


def _hint_table_around(storage: ReadStorage) -> str | None:
    around = table_around(storage)
    return None if around is None else errors.command("snapshot", table=around)


def _paimon_table(storage: ReadStorage) -> errors.PaimonTable:
    return errors.PaimonTable(
        "this is a Paimon table, and this command works on Delta tables only",
        facts={"path": storage.uri},
        hint=errors.paimon_command("snapshot"),
    )


def table_directories(storage: ReadStorage, at: str) -> list[str]:
    """Return the names of the directories in a directory, and two that count where they are files or broken links:
    `_delta_log`, which is a table that cannot be read, and the list of a backup of a log. Raises what listing raises.
    """
    if isinstance(storage, LocalStorage):
        names = storage.list_directories(at)
        place = os.path.join(storage.root, at)
        return names + [one for one in _FILES if one not in names and os.path.lexists(os.path.join(place, one))]
    names = []

    def enter(_: str, below: Sequence[str]) -> tuple[()]:
        names.extend(below)
        return ()

    found = [name for entry in storage.walk(at, enter) for name in (*entry.names, *entry.special) if name in _FILES]
    return sorted({*names, *found})


def refuse_paimon(storage: ReadStorage) -> None:
    """Raise PaimonTable for a directory with a Paimon table, where a log is about to be created."""
    try:
        directories = storage.list_directories("")
    except errors.FileMissing:
        return
    if is_paimon_directory(storage, directories):
        raise _paimon_table(storage)


def is_paimon_directory(storage: ReadStorage, directories: Collection[str], at: str = "") -> bool:
    """Return True for a directory with schemas of Paimon, or with snapshots and manifests that have lost them.

    `at` is its path below the root, `directories` are the names of the directories in it. Names alone decide whether a
    request is needed.
    """
    below = f"{at}/" if at else ""
    if "schema" in directories and _first_with(storage, f"{below}schema", "schema-") is not None:
        return True
    needed = {"snapshot", "manifest"}
    return needed <= set(directories) and _first_with(storage, f"{below}snapshot", "snapshot-") is not None


def _first_with(storage: ReadStorage, directory: str, prefix: str) -> str | None:
    """Return the first name in a directory that is the prefix and a number."""
    files = storage.list_from(directory, prefix)
    return next((stat.name for stat in files if stat.name.removeprefix(prefix).isdecimal()), None)
