"""The list of a log's backup: its table, and each file with its digest and its original time.

It is stored next to the copied `_delta_log`, as lines of JSON, the first of which has the number of the others. It is
written as incomplete before the first file, and again when all files are copied. Nothing is restored from a directory
without the list or with an incomplete one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deltacli.engine.base import Engine
from deltacli.errors import FileMissing, Unreadable
from deltacli.operations.log.log_copy import StoredFile, at_once, digest, log_location
from deltacli.progress import Progress, weighed
from deltacli.storage import Storage
from deltacli.typing import Json
from deltacli.units import format_timestamp

LIST_NAME = "_delta_log_backup.ndjson"
KIND = "deltacli.log-backup-list"
_SHA256 = re.compile(r"[0-9a-f]{64}")


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


def read_list(storage: Storage) -> BackupList | None:
    """Read the list of a backup; None where there is none. Raises Unreadable (`backup.list-corrupt`)."""
    try:
        data = storage.read(LIST_NAME)
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
    storage: Storage, files: Collection[BackedUp], engine: Engine, what: str, progress: Progress
) -> list[str]:
    """Return the names of files that a log lacks or has with another digest."""

    def is_right(file: BackedUp) -> bool:
        try:
            return digest(storage.read(log_location(file.name))) == file.sha256
        except FileMissing:
            return False

    found = engine.run(is_right, files, at_once=at_once(storage, (file.size_bytes for file in files)))
    wrong = []
    with weighed(progress, what, unit="files", total=len(files), weight=sum(file.size_bytes for file in files)) as step:
        for file, right in zip(files, found, strict=True):
            if not right:
                wrong.append(file.name)
            step.advance(weight=file.size_bytes)
    return wrong


def _read_first(first: Json, files: Mapping[str, BackedUp]) -> BackupList:
    if first["kind"] != KIND or first["schemaVersion"] != 1:
        raise ValueError(f"its first line is of kind {str(first['kind'])[:80]}")
    table_id, version = first["tableId"], first["version"]
    if not (table_id is None or isinstance(table_id, str)) or not (version is None or type(version) is int):
        raise ValueError("its first line has a field of a wrong type")
    return BackupList(
        str(first["table"]), table_id, version, int(first["timestampMs"]), first["complete"] is True, files
    )


def _read_entry(line: Json) -> BackedUp:
    found = BackedUp(line["name"], line["sizeBytes"], line["sha256"], line["modificationTimeMs"])
    parts = found.name.split("/") if isinstance(found.name, str) else [""]
    if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        raise ValueError(f"{str(found.name)[:200]!r} is not the name of a log file")
    if type(found.size_bytes) is not int or found.size_bytes < 0 or type(found.modified_ms) is not int:
        raise ValueError(f"{found.name}: its size or its time is not an integer")
    if not isinstance(found.sha256, str) or not _SHA256.fullmatch(found.sha256):
        raise ValueError(f"{found.name}: its digest is not a SHA-256")
    return found


def _corrupt(storage: Storage, reason: str) -> Unreadable:
    return Unreadable(
        "the list of the backup cannot be read",
        code="backup.list-corrupt",
        facts={"backup": storage.uri, "file": LIST_NAME, "reason": reason},
    )
