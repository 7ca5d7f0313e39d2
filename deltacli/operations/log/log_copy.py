"""All files in `_delta_log` and their versions, for copying a log as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY, LogFileKind, LogPath, parse_log_path
from deltacli.delta.log.segment import LogListing, make_log_file, read_listing
from deltacli.engine.base import Engine
from deltacli.errors import CommitCorrupt, FileMissing, Unreadable
from deltacli.operations.table.find_log import list_log
from deltacli.progress import SILENT, Progress, Step
from deltacli.storage import Storage
from deltacli.work.commits.reading import stream_commit

_LEFT_OVER = (".tmp", ".probe")


def _is_left_over(name: str) -> bool:
    """Return True for a temporary file, which is no part of the log."""
    return name.startswith(".") and name.endswith(_LEFT_OVER)


def copying_order(name: str) -> tuple[int, int, int, str]:
    """Return the sort key of the order in which a log grew, so that every prefix of a copy is a valid log.

    Sidecars come before checkpoints, the commit of a version before its other files, and the hint last.
    """
    path = parse_log_path(name)
    match path.kind:
        case LogFileKind.COMMIT:
            return (1, path.version, 0, name)
        case LogFileKind.CHECKSUM:
            return (1, path.version, 1, name)
        case LogFileKind.COMPACTED_COMMIT:
            return (1, path.last_version, 2, name)
        case LogFileKind.CLASSIC_CHECKPOINT | LogFileKind.MULTI_PART_CHECKPOINT | LogFileKind.UUID_CHECKPOINT:
            return (1, path.version, 3, name)
    return (2 if name == HINT_NAME else 0, 0, 0, name)


_DEEPEST = 8
"""Maximum depth of directories; writers create one. Also limits cycles of links."""

_MOST_BYTES_READ = 256 << 20
"""Bytes of several files at a time; a single one may be larger, because stores create files from one buffer."""

_COMMITS_LOOKED_AT = 20


class StoredFile(NamedTuple):
    """A file below `_delta_log`: its path there, its size, and when it was written."""

    name: str
    size_bytes: int
    modified_ms: int

    @property
    def path(self) -> LogPath:
        return parse_log_path(self.name)


class LogAmount(NamedTuple):
    """The number of files and their total size."""

    files: int
    size_bytes: int

    @classmethod
    def of(cls, sizes: Iterable[int]) -> LogAmount:
        found = list(sizes)
        return cls(len(found), sum(found))

    def as_json(self) -> dict[str, int]:
        return {"count": self.files, "sizeBytes": self.size_bytes}


@dataclass(slots=True)
class Journal:
    """The progress of an execution, for the message of an interrupted run."""

    written: int = 0


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    import hashlib  # with OpenSSL, which a plan does without

    return hashlib.sha256(data).hexdigest()


def log_location(name: str) -> str:
    """Return the path of a log file relative to the table."""
    return f"{LOG_DIRECTORY}/{name}"


def list_whole_log(storage: Storage, *, progress: Progress = SILENT) -> dict[str, StoredFile] | None:
    """List all files below `_delta_log` except temporary files; None where there is no such directory.

    The top level is listed first, so the sidecars of a listed checkpoint exist already.
    """
    with progress.step("listing the log", unit="files") as step:
        try:
            return {file.name: file for file in _files_below(storage, "", _DEEPEST, step)}
        except FileMissing:
            return None


def _files_below(storage: Storage, directory: str, deeper: int, step: Step) -> Iterator[StoredFile]:
    place = LOG_DIRECTORY + (f"/{directory}" if directory else "")
    prefix = f"{directory}/" if directory else ""
    for stat in storage.list_from(place):
        if not _is_left_over(stat.name):
            step.advance()
            yield StoredFile(prefix + stat.name, stat.size_bytes, stat.modified_ms)
    for name in storage.list_directories(place) if deeper else ():
        yield from _files_below(storage, prefix + name, deeper - 1, step)


def at_once(storage: Storage, sizes: Iterable[int]) -> int:
    """Return how many files of these sizes to read at a time, limited by memory."""
    return max(1, min(storage.capabilities.parallel_reads, _MOST_BYTES_READ // max(1, *sizes, 1)))


def versioned(files: Iterable[StoredFile]) -> LogListing:
    """Return the commits and complete checkpoints among files of a log."""
    return read_listing(
        make_log_file(file.name, file.size_bytes, file.modified_ms) for file in files if "/" not in file.name
    )


def find_table_id(storage: Storage, engine: Engine) -> str | None:
    """Return the id in the metaData of a table, also of one that cannot be opened; None where it is not found."""
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.rebuild import read_snapshot

    try:
        return read_snapshot(TableHandle(storage, engine=engine)).metadata.id
    except (Unreadable, FileMissing):
        pass
    try:
        commits = list_log(storage).commits
    except Unreadable:
        return None
    newest_first = sorted(commits, reverse=True)
    for version in dict.fromkeys([*newest_first[:_COMMITS_LOOKED_AT], *newest_first[-1:]]):
        try:
            for kind, action in stream_commit(storage, commits[version]):
                if kind == "metaData" and isinstance(action.get("id"), str):
                    return str(action["id"])
        except (CommitCorrupt, FileMissing):
            continue
    return None
