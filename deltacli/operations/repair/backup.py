"""The backup of a repair: every file that it replaces or moves, byte for byte, with a manifest; and the way back.

Its directory is hidden from readers and vacuums: `_deltacli_backup/<run>` in the table, or `<table id>/<run>` in a
quarantine. A file is in the manifest before it is touched. Commits are not in it: they are undone by a restore.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import FileMissing, Refused, StorageFailed, Unreadable
from deltacli.hints import command
from deltacli.operations.recover.copies import copy_file
from deltacli.operations.table.find_log import list_log
from deltacli.operations.vacuum.quarantine.fill import open_quarantine
from deltacli.storage import Created, Failed, Storage
from deltacli.storage.base import require_writable
from deltacli.units import format_timestamp, plural

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
        for path, outcome in self.table.storage.delete_many(paths):
            if isinstance(outcome, Failed):
                raise StorageFailed(f"{path} could not be moved to the backup: {outcome.reason}")

    def note_versions(self, versions: Iterable[int]) -> None:
        """Record versions that this run committed or brought back: they do not prevent that files are put back."""
        self.committed += versions
        if self.kept:
            self._write_manifest()

    def below(self, name: str) -> str:
        """Return the path of a further file of the backup."""
        return f"{self.directory}/{name}"

    def _copy(self, path: str) -> Kept | None:
        origin = self.table.storage
        try:
            stat = origin.stat(path)
            seen = _digest(origin, path)
        except FileMissing:
            return None
        name = f"files/{path.replace(LOG_DIRECTORY, 'log', 1) if path.startswith(LOG_DIRECTORY) else path}"
        target = self.below(name)
        outcome = copy_file(origin, path, stat.size_bytes, self.store, target=target)
        if not isinstance(outcome, Created) or _digest(self.store, target) != seen:
            raise StorageFailed(f"{path} could not be kept in {self.uri}", code="repair.backup-differs")
        return Kept(path, name, stat.size_bytes, seen, stat.modified_ms)

    def _write_manifest(self) -> None:
        now_ms = self.table.clock()
        manifest = {
            "kind": KIND,
            "table": self.table.uri,
            "version": self.version,
            "committedVersions": self.committed,
            "timestampMs": now_ms,
            "timestamp": format_timestamp(now_ms),
            "files": [one.as_json() for one in self.kept],
        }
        self.store.put(self.below(MANIFEST), json.dumps(manifest, indent=2).encode() + b"\n")


def open_backup(table: TableHandle, version: int | None, table_id: str | None, quarantine: str | None) -> Backup:
    """Return the backup of a new run. Raises what `open_quarantine` raises."""
    run = f"repair-{format_timestamp(table.clock())[:19].replace(':', '').replace('-', '')}Z-{uuid4().hex[:8]}"
    if quarantine is None:
        return Backup(table, version, table.storage, f"{BACKUP_DIRECTORY}/{run}")
    store = open_quarantine(table, quarantine, table_id or "unknown-table")
    return Backup(table, version, store, f"{table_id or 'unknown-table'}/{run}")


class PutBack(NamedTuple):
    """What was put back of a backup."""

    files: int
    size_bytes: int
    unchanged: int


def put_back(table: TableHandle, uri: str, *, dry_run: bool = False) -> PutBack:
    """Put the files of a backup back in their places, byte for byte; those that are there unchanged stay.

    Raises Unreadable for a directory without a manifest and for a damaged backup; Refused where another writer has
    committed since (`repair.log-moved-on`) and the backup has files of the log, and for the backup of another table.
    """
    require_writable(table.storage)
    store = table.open_other(uri)
    version, committed, files = _manifest(table, store, uri)
    if any(one.path.startswith(f"{LOG_DIRECTORY}/") for one in files):
        newest = max([-1 if version is None else version, *committed])
        present = list_log(table.storage).newest_version
        if present > newest:
            raise Refused(
                f"nothing was changed: version {present} was committed after the repair, which ended at {newest}",
                code="repair.log-moved-on",
                facts={"why": "an older file of the log beside newer commits would be a state that never existed"},
                hint=command("history", limit=10),
            )
    waiting = [one for one in files if not _is_there(table.storage, one)]
    for one in waiting:
        if _digest(store, one.kept) != one.sha256:
            raise Unreadable(f"{one.kept} of the backup is damaged", code="repair.backup-damaged", facts={"in": uri})
    if not dry_run:
        for one in waiting:
            copy_file(store, one.kept, one.size_bytes, table.storage, target=one.path, replace=True)
    return PutBack(len(waiting), sum(one.size_bytes for one in waiting), len(files) - len(waiting))


def _manifest(table: TableHandle, store: Storage, uri: str) -> tuple[int | None, list[int], list[Kept]]:
    try:
        found = json.loads(store.read(MANIFEST))
        files = [
            Kept(one["path"], one["kept"], one["sizeBytes"], one["sha256"], one["modificationTimeMs"])
            for one in found["files"]
        ]
        version, committed, of_table, kind = (found[name] for name in ("version", "committedVersions", "table", "kind"))
    except FileMissing:
        said = f"{uri} is not the backup of a repair: it has no {MANIFEST}"
        raise Unreadable(said, code="repair.backup-missing") from None
    except (ValueError, KeyError, TypeError) as fault:
        raise Unreadable(f"{MANIFEST} of {uri} cannot be read", code="repair.backup-damaged") from fault
    if kind != KIND or any(".." in one.path.split("/") or one.path.startswith("/") for one in files):
        raise Unreadable(f"{MANIFEST} of {uri} is not that of a repair", code="repair.backup-damaged")
    if of_table not in (table.uri, *table.storage.aliases):
        raise Refused(
            f"{uri} is the backup of another table",
            code="repair.backup-of-another",
            facts={"of": str(of_table), "this table": table.uri},
        )
    return version, committed, files


def _is_there(storage: Storage, one: Kept) -> bool:
    try:
        return storage.stat(one.path).size_bytes == one.size_bytes and _digest(storage, one.path) == one.sha256
    except FileMissing:
        return False


def _digest(storage: Storage, path: str) -> str:
    import hashlib

    found = hashlib.sha256()
    with storage.open(path) as reader:
        for block in _blocks(reader):
            found.update(block)
    return found.hexdigest()


def _blocks(reader: object) -> Iterator[bytes]:
    read = reader.read  # type: ignore[attr-defined]
    while block := read(_BLOCK):
        yield block


def shown(files: PutBack) -> str:
    """Return in words what was put back."""
    same = f"; {plural(files.unchanged, 'file')} unchanged" if files.unchanged else ""
    return f"{plural(files.files, 'file')}{same}"
