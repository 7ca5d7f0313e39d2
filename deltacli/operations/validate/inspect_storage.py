"""Listing the whole log with its directories, and the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY, SIDECAR_DIRECTORY
from deltacli.delta.log.segment import LogFile, LogListing, make_log_file, read_listing
from deltacli.delta.paths.canonical_path import decode
from deltacli.delta.rules.framework.views import StoredFile
from deltacli.errors import FileMissing, NotATable
from deltacli.progress import Progress, reported
from deltacli.storage import PathKind, Storage, leads_outside
from deltacli.work.rows.table_files import TableFiles

_STAGED_DIRECTORY = "_staged_commits"
_FILES_A_REPORT = 1_000


class WholeLog(NamedTuple):
    """Everything in `_delta_log`, by name, size and time."""

    files: tuple[LogFile, ...]
    directories: tuple[str, ...]
    sidecars: tuple[StoredFile, ...]
    staged: tuple[StoredFile, ...]
    listing: LogListing
    has_hint: bool
    exists: bool


class WholeTable(NamedTuple):
    """Every file below the root except those of the log, and the directories that are tables of their own. `unlisted`
    are links to directories outside the table.
    """

    files: dict[str, StoredFile]
    nested_logs: tuple[str, ...]
    unlisted: tuple[str, ...] = ()


def list_log_whole(storage: Storage, progress: Progress) -> WholeLog:
    """List the log and its directories. Raises NotATable where the path does not exist or is a file."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            raise NotATable("no such file or directory", code="table.path-missing", facts={"path": storage.uri})
        case PathKind.FILE:
            message = "this is a file; a table is a directory that contains _delta_log"
            raise NotATable(message, code="table.path-is-file", facts={"path": storage.uri})
    try:
        entries = storage.list_from(LOG_DIRECTORY)
        counted = reported(entries, progress, "listing the log", unit="files", every=_FILES_A_REPORT)
        files = tuple(make_log_file(stat.name, stat.size_bytes, stat.modified_ms) for stat in counted)
        directories = tuple(storage.list_directories(LOG_DIRECTORY))
    except FileMissing:
        return WholeLog((), (), (), (), read_listing(()), has_hint=False, exists=False)
    return WholeLog(
        files,
        directories,
        _stored(storage, SIDECAR_DIRECTORY, directories),
        _stored(storage, _STAGED_DIRECTORY, directories),
        read_listing(files),
        has_hint=any(file.name == HINT_NAME for file in files),
        exists=True,
    )


def _stored(storage: Storage, name: str, directories: tuple[str, ...]) -> tuple[StoredFile, ...]:
    if name not in directories or leads_outside(storage, f"{LOG_DIRECTORY}/{name}"):
        return ()
    entries = storage.list_from(f"{LOG_DIRECTORY}/{name}")
    return tuple(StoredFile(stat.name, stat.size_bytes, stat.modified_ms) for stat in entries)


def list_table(storage: Storage, progress: Progress) -> WholeTable:
    """List every file below the root except those of the log; nested tables are reported and listed, too."""
    nested, unlisted = list[str](), list[str]()
    walked = _walk(storage, nested, unlisted)
    files = {
        file.path: file for file in reported(walked, progress, "listing the table", unit="files", every=_FILES_A_REPORT)
    }
    return WholeTable(files, tuple(sorted(nested)), tuple(sorted(unlisted)))


def _walk(storage: Storage, nested: list[str], unlisted: list[str]) -> Iterator[StoredFile]:
    """Yield every file, directory by directory. A link to a visited directory is not followed, because it may be a
    cycle. One that leads outside the table is added to `unlisted`.
    """
    root, real = _real_places(storage)
    seen = {root}
    waiting = [("", root)]
    while waiting:
        directory, place = waiting.pop()
        prefix = f"{directory}/" if directory else ""
        for stat in storage.list_from(directory):
            yield StoredFile(f"{prefix}{stat.name}", stat.size_bytes, stat.modified_ms)
        for name in storage.list_directories(directory):
            if name == LOG_DIRECTORY:
                if directory:
                    nested.append(directory)
                continue
            inner = real(f"{place}/{name}")
            if inner in seen:
                continue
            seen.add(inner)
            if leads_outside(storage, f"{prefix}{name}"):
                unlisted.append(f"{prefix}{name}")
            else:
                waiting.append((f"{prefix}{name}", inner))


def _real_places(storage: Storage) -> tuple[str, Callable[[str], str]]:
    """Return the resolved path of the table, and a function that resolves a directory with a resolved parent; only
    local disks have links.
    """
    if not storage.uri.startswith("file:"):
        return "", lambda path: path
    import os

    def real(path: str) -> str:
        return os.path.realpath(path) if os.path.islink(path) else path

    return os.path.realpath(decode(storage.uri[len("file://") :])), real


def make_exists(storage: Storage, files: TableFiles) -> Callable[[str], bool | None]:
    """Return a function that returns whether an absolute path or URI exists; None for stores other than local disks. An
    inaccessible path counts as existing, and `files` records it as not checked.
    """
    is_local = storage.uri.startswith("file:")

    def exists(path: str) -> bool | None:
        import os

        bare = path[len("file:") :] if path.startswith("file:") else path
        if not is_local or not bare.startswith("/"):
            return None
        return not files.may_look(path) or os.path.exists("/" + decode(bare).lstrip("/"))

    return exists
