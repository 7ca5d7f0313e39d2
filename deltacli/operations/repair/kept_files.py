"""The backup of a repair: every file that it replaces or moves, byte for byte, with a manifest.

Its directory is hidden from readers and vacuums: `_deltacli_backup/<run>` in the table, or `<table id>/<run>` in a
quarantine. A file is in the manifest before it is touched. Commits are not in it: they are undone by a restore.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import FileMissing, Refused, StorageFailed, Unreadable
from deltacli.operations.log.log_copy import list_whole_log
from deltacli.operations.recover.copies import copy_file
from deltacli.operations.vacuum.quarantine.fill import open_quarantine
from deltacli.storage import Created, Failed, ReadStorage, Storage, is_address_of
from deltacli.units import format_timestamp

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle
    from deltacli.typing import Json

BACKUP_DIRECTORY = "_deltacli_backup"
MANIFEST = "manifest.json"
KIND = "deltacli.repair-backup"
_BLOCK = 8 << 20


class Kept(NamedTuple):
    """A file in a backup: its path in the table and in the backup, and what it was."""

    path: str
    kept: str
    size_bytes: int
    sha256: str
    modified_ms: int

    def as_json(self) -> dict[str, Json]:
        return {
            "path": self.path,
            "kept": self.kept,
            "sizeBytes": self.size_bytes,
            "sha256": self.sha256,
            "modificationTimeMs": self.modified_ms,
        }


@dataclass(eq=False)
class Backup:
    """The backup of one run; nothing is written before the first file is kept."""

    table: TableHandle
    version: int | None
    store: Storage
    directory: str
    kept: list[Kept] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    log_files: list[str] | None = None

    @property
    def uri(self) -> str:
        """The directory of the backup."""
        return f"{self.store.uri}/{self.directory}"

    def keep(self, paths: Iterable[str]) -> None:
        """Copy files of the table, before they are replaced or moved; one that is missing is left out.

        Raises StorageFailed where a copy differs.
        """
        names = {one.path for one in self.kept}
        fresh = [one for path in dict.fromkeys(paths) if path not in names and (one := self._copy(path)) is not None]
        if fresh:
            self.kept += fresh
            self._write_manifest()

    def move(self, paths: Sequence[str]) -> None:
        """Keep files, then delete them from the table. Raises StorageFailed."""
        self.keep(paths)
        for path, outcome in self.table.writable().delete_many(paths):
            if isinstance(outcome, Failed):
                raise StorageFailed(f"{path} could not be moved to the backup: {outcome.reason}")

    def note_versions(self, versions: Iterable[int]) -> None:
        """Record versions that this run committed or brought back: they do not prevent that files are put back."""
        self.committed += versions
        if self.kept:
            self._write_manifest()

    def note_end(self) -> None:
        """Record the files that the log has now: where one is gone later, what was replaced may not be put back."""
        if self.kept:
            self.log_files = sorted(list_whole_log(self.table.storage) or {})
            self._write_manifest()

    def below(self, name: str) -> str:
        """Return the path of a further file of the backup."""
        return f"{self.directory}/{name}"

    def _copy(self, path: str) -> Kept | None:
        origin = self.table.storage
        try:
            stat = origin.stat(path)
            seen = digest_of_file(origin, path)
        except FileMissing:
            return None
        name = f"files/{path.replace(LOG_DIRECTORY, 'log', 1) if path.startswith(LOG_DIRECTORY) else path}"
        target = self.below(name)
        outcome = copy_file(origin, path, stat.size_bytes, self.store, target=target)
        if not isinstance(outcome, Created) or digest_of_file(self.store, target) != seen:
            raise StorageFailed(f"{path} could not be kept in {self.uri}", code="repair.backup-differs")
        return Kept(path, name, stat.size_bytes, seen, stat.modified_ms)

    def _write_manifest(self) -> None:
        now_ms = self.table.clock()
        manifest: dict[str, Json] = {
            "kind": KIND,
            "table": self.table.uri,
            "version": self.version,
            "committedVersions": list(self.committed),
            "timestampMs": now_ms,
            "timestamp": format_timestamp(now_ms),
            "files": [one.as_json() for one in self.kept],
        }
        if self.log_files is not None:
            manifest["logFiles"] = list(self.log_files)
        self.store.put(self.below(MANIFEST), json.dumps(manifest, indent=2).encode() + b"\n")


def open_backup(table: TableHandle, version: int | None, table_id: str | None, quarantine: str | None) -> Backup:
    """Return the backup of a new run. Raises what `open_quarantine` raises."""
    run = f"repair-{format_timestamp(table.clock())[:19].replace(':', '').replace('-', '')}Z-{uuid4().hex[:8]}"
    if quarantine is None:
        return Backup(table, version, table.writable(), f"{BACKUP_DIRECTORY}/{run}")
    store = open_quarantine(table, quarantine, table_id or "unknown-table")
    return Backup(table, version, store, f"{table_id or 'unknown-table'}/{run}")


class Manifest(NamedTuple):
    version: int | None
    committed: Sequence[int]
    files: Sequence[Kept]
    log: frozenset[str]
    """The names of the files of the log at the end of the repair; one that no log has, where that is not known."""


def read_manifest(table: TableHandle, store: ReadStorage, uri: str) -> Manifest:
    try:
        found = json.loads(store.read(MANIFEST))
        files = [
            Kept(one["path"], one["kept"], one["sizeBytes"], one["sha256"], one["modificationTimeMs"])
            for one in found["files"]
        ]
        version, committed, of_table, kind = (found[name] for name in ("version", "committedVersions", "table", "kind"))
        log = frozenset(map(str, found.get("logFiles", [""])))
    except FileMissing:
        said = f"{uri} is not the backup of a repair: it has no {MANIFEST}"
        raise Unreadable(said, code="repair.backup-missing") from None
    except (ValueError, KeyError, TypeError) as fault:
        raise Unreadable(f"{MANIFEST} of {uri} cannot be read", code="repair.backup-damaged") from fault
    if kind != KIND or any(".." in one.path.split("/") or one.path.startswith("/") for one in files):
        raise Unreadable(f"{MANIFEST} of {uri} is not that of a repair", code="repair.backup-damaged")
    if not is_address_of(table.storage, str(of_table)):
        raise Refused(
            f"{uri} is the backup of another table",
            code="repair.backup-of-another",
            facts={"of": str(of_table), "this table": table.uri},
        )
    return Manifest(version, committed, files, log)


def digest_at(storage: ReadStorage, path: str) -> str | None:
    """Return the SHA-256 of a file, None where there is none."""
    try:
        return digest_of_file(storage, path)
    except FileMissing:
        return None


def digest_of_file(storage: ReadStorage, path: str) -> str:
    import hashlib

    found = hashlib.sha256()
    with storage.open(path) as reader:
        while block := reader.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
