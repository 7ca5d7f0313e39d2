"""All files in `_delta_log` and their versions, for copying a log as a whole, and the list of a backup: its table, and
each file with its digest and its original time.

The list is stored next to the copied `_delta_log`, as lines of JSON, the first of which has the number of the others.
It is written as incomplete before the first file, and again when all files are copied. Nothing is restored from a
directory without the list or with an incomplete one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from deltacli.changing.recorded_fields import (
    validate_path,
    validate_sha256,
    validate_size_bytes,
    validate_time_ms,
    validate_uri,
    validate_version,
)
from deltacli.core.errors import CommitCorrupt, FileMissing, Unreadable
from deltacli.core.progress import SILENT, Progress, Step, start_weighed_step
from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json
from deltacli.delta.log import segment
from deltacli.delta.log.state import read_checksum
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage, Storage
from deltacli.storage.hadoop_checksums import is_checksum_name
from deltacli.table.find_log import list_log
from deltacli.work.commits.reading import stream_commit

_LEFT_OVER = (".tmp", ".probe")
KIND = "deltacli.log-backup-list"


def copying_order(name: str) -> tuple[int, int, int, str]:
    """Return the sort key of the order in which a log grew, so that every prefix of a copy is a valid log.

    Sidecars come before checkpoints, the commit of a version before its other files, and the hint last.
    """
    path = segment.parse_log_path(name)
    match path.kind:
        case segment.LogFileKind.COMMIT:
            return (1, path.version, 0, name)
        case segment.LogFileKind.CHECKSUM:
            return (1, path.version, 1, name)
        case segment.LogFileKind.COMPACTED_COMMIT:
            return (1, path.last_version, 2, name)
        case (
            segment.LogFileKind.CLASSIC_CHECKPOINT
            | segment.LogFileKind.MULTI_PART_CHECKPOINT
            | segment.LogFileKind.UUID_CHECKPOINT
        ):
            return (1, path.version, 3, name)
    return (2 if name == segment.HINT_NAME else 0, 0, 0, name)


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
    def path(self) -> segment.LogPath:
        return segment.parse_log_path(self.name)


AMOUNT_NAMES = {"count": "files", "sizeBytes": "size_bytes"}
"""The names of an amount in documents."""


@dataclass(slots=True)
class LogJournal:
    """The progress of an execution, for the message of an interrupted run."""

    written: int = 0


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    import hashlib  # with OpenSSL, which a plan does without

    return hashlib.sha256(data).hexdigest()


def log_location(name: str) -> str:
    """Return the path of a log file relative to the table."""
    return f"{segment.LOG_DIRECTORY}/{name}"


def list_whole_log(storage: ReadStorage, *, progress: Progress = SILENT) -> dict[str, StoredFile] | None:
    """List all files below `_delta_log` except temporary files and Hadoop's checksum files; None where there is no such
    directory.

    A checksum file belongs to the bytes beside it: a copy of it would arrive before or after those, and the store
    removes one that is there before.

    The top level is listed first, so the sidecars of a listed checkpoint exist already.
    """
    with progress.step("listing the log", unit="files") as step:
        try:
            return {file.name: file for file in _files_below(storage, "", _DEEPEST, step)}
        except FileMissing:
            return None


def _files_below(storage: ReadStorage, directory: str, deeper: int, step: Step) -> Iterator[StoredFile]:
    place = segment.LOG_DIRECTORY + (f"/{directory}" if directory else "")
    prefix = f"{directory}/" if directory else ""
    for stat in storage.list_from(place):
        is_left_over = stat.name.startswith(".") and stat.name.endswith(_LEFT_OVER)
        if not is_left_over and not is_checksum_name(stat.name):
            step.advance()
            yield StoredFile(prefix + stat.name, stat.size_bytes, stat.modified_ms)
    for name in storage.list_directories(place) if deeper else ():
        yield from _files_below(storage, prefix + name, deeper - 1, step)


def at_once(storage: ReadStorage, sizes: Iterable[int]) -> int:
    """Return how many files of these sizes to read at a time, limited by memory."""
    return max(1, min(storage.capabilities.parallel_reads, _MOST_BYTES_READ // max(1, *sizes, 1)))


def versioned(files: Iterable[StoredFile]) -> segment.LogListing:
    """Return the commits and complete checkpoints among files of a log."""
    return segment.read_listing(
        segment.make_log_file(file.name, file.size_bytes, file.modified_ms) for file in files if "/" not in file.name
    )


def find_table_id(storage: ReadStorage, engine: Engine) -> str | None:
    """Return the id in the metaData of a table, also of one that cannot be opened; None where it is not found."""
    from deltacli.table.handle import TableHandle
    from deltacli.table.rebuild import read_snapshot

    try:
        return read_snapshot(TableHandle(cast("Storage", storage), engine=engine)).metadata.id
    except (Unreadable, FileMissing):
        pass
    try:
        listing = list_log(storage)
    except Unreadable:
        return None
    commits = listing.commits
    newest_first = sorted(commits, reverse=True)
    for version in dict.fromkeys([*newest_first[:_COMMITS_LOOKED_AT], *newest_first[-1:]]):
        try:
            for kind, action in stream_commit(storage, commits[version]):
                if kind == "metaData" and isinstance(action.get("id"), str):
                    return str(action["id"])
        except (CommitCorrupt, FileMissing):
            continue
    for version in listing.checksums[-1:]:
        with suppress(FileMissing):
            metadata = (read_checksum(storage.read(log_location(f"{version:020d}.crc"))) or {}).get("metadata")
            if isinstance(metadata, dict) and isinstance(metadata.get("id"), str):
                return str(metadata["id"])
    return None


class BackedUp(NamedTuple):
    """One file of a backup: its path below `_delta_log`, and the properties of the log's file when it was copied."""

    name: str
    size_bytes: int
    sha256: str
    modified_ms: int

    @property
    def stored(self) -> StoredFile:
        return StoredFile(self.name, self.size_bytes, self.modified_ms)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sizeBytes": self.size_bytes,
            "sha256": self.sha256,
            "modificationTimeMs": self.modified_ms,
        }


@dataclass(frozen=True, slots=True)
class BackupList:
    """The content of a backup. `version` is the newest one of the log, None where it had none."""

    table: str
    table_id: str | None
    version: int | None
    taken_ms: int
    is_complete: bool
    files: Mapping[str, BackedUp] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the list as it is stored."""
        first = {
            "kind": KIND,
            "schemaVersion": 1,
            "table": self.table,
            "tableId": self.table_id,
            "version": self.version,
            "timestampMs": self.taken_ms,
            "timestamp": format_timestamp(self.taken_ms),
            "complete": self.is_complete,
            "files": {"count": len(self.files), "sizeBytes": sum(file.size_bytes for file in self.files.values())},
        }
        # Names that are not UTF-8 contain lone surrogates, which only the standard library writes and reads.
        lines = [first, *(self.files[name].as_json() for name in sorted(self.files))]
        return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode("ascii")


def read_list(storage: ReadStorage) -> BackupList | None:
    """Read the list of a backup; None where there is none. Raises Unreadable (`backup.list-corrupt`)."""
    try:
        data = storage.read(segment.BACKUP_LIST)
    except FileMissing:
        return None
    try:
        first, *lines = [json.loads(line) for line in data.decode("ascii").splitlines()]
        files = {entry.name: entry for entry in map(_read_entry, lines)}
        found = _read_first(first, files)
        expected = first["files"]["count"]
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise _corrupt(storage, str(fault)) from fault
    if not len(lines) == len(files) == expected:
        raise _corrupt(storage, f"it lists {len(files)} files instead of {expected}")
    return found


def differing(
    storage: ReadStorage, files: Collection[BackedUp], engine: Engine, what: str, progress: Progress
) -> list[str]:
    """Return the names of files that a log lacks or has with another digest."""

    def is_right(file: BackedUp) -> bool:
        try:
            return digest(storage.read(log_location(file.name))) == file.sha256
        except FileMissing:
            return False

    found = engine.run(is_right, files, at_once=at_once(storage, (file.size_bytes for file in files)))
    wrong = []
    with start_weighed_step(
        progress, what, unit="files", total=len(files), weight=sum(file.size_bytes for file in files)
    ) as step:
        for file, right in zip(files, found, strict=True):
            if not right:
                wrong.append(file.name)
            step.advance(weight=file.size_bytes)
    return wrong


def _read_first(first: Json, files: Mapping[str, BackedUp]) -> BackupList:
    """Return the list without its entries, which are in further lines. Raises ValueError, KeyError and TypeError."""
    if first["kind"] != KIND or first["schemaVersion"] != 1:
        raise ValueError(f"its first line is of kind {str(first['kind'])[:80]}")
    table_id, version = first["tableId"], first["version"]
    if not (table_id is None or isinstance(table_id, str)):
        raise ValueError("tableId is not a text")
    return BackupList(
        validate_uri(first["table"], "table"),
        table_id,
        None if version is None else validate_version(version, "version"),
        validate_time_ms(first["timestampMs"], "timestampMs"),
        first["complete"] is True,
        files,
    )


def _read_entry(line: Json) -> BackedUp:
    """Return an entry of a list. Raises ValueError, KeyError and TypeError."""
    name = validate_path(line["name"], "name")
    if "\\" in name:
        raise ValueError(f"{name[:200]!r} is not the name of a log file")
    return BackedUp(
        name,
        validate_size_bytes(line["sizeBytes"], f"sizeBytes of {name}"),
        validate_sha256(line["sha256"], f"sha256 of {name}"),
        validate_time_ms(line["modificationTimeMs"], f"modificationTimeMs of {name}"),
    )


def _corrupt(storage: ReadStorage, reason: str) -> Unreadable:
    return Unreadable(
        "the list of the backup cannot be read",
        code="backup.list-corrupt",
        facts={"backup": storage.uri, "file": segment.BACKUP_LIST, "reason": reason},
    )
