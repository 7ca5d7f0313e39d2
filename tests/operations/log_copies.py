"""Logs to back up and restore, and how they read."""

from __future__ import annotations

from typing import Any

from deltacli.changing.change import execute_change
from deltacli.core.errors import Unreadable
from deltacli.core.machine import fixed_clock
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.log.log_backup import BackupResult, LogBackup
from deltacli.operations.log.log_copy import read_list
from deltacli.operations.log.log_restore import LogRestore, LogRestorePlan
from deltacli.storage import Storage
from deltacli.table.handle import TableHandle
from tests.support.builder import LOG, TableBuilder
from tests.support.checkpoints import CheckpointKind
from tests.support.in_memory import MemoryStorage
from tests.support.reading import NOW_MS, open_at, state_document

ENGINE = EmbeddedEngine(1)


def builder_of(kind: CheckpointKind = CheckpointKind.CLASSIC, *, commits: int = 9) -> TableBuilder:
    """A log with everything in it: two checkpoints, a hint, a checksum, a compaction, a staged commit, odd names."""
    made = TableBuilder().commits(commits).checkpoint(3, kind).checkpoint(commits - 3, kind).hint(commits - 3)
    made.file(f"{LOG}/{4:020d}.crc", b"{}").file(f"{LOG}/{1:020d}.{2:020d}.compacted.json", b"{}\n")
    made.file(f"{LOG}/_staged_commits/{9:020d}.a.json", b"{}\n").file(f"{LOG}/odd name", b"")
    made.file(f"{LOG}/deep/er/file", b"x").file(f"{LOG}/.{5:020d}.json.tmp", b"left over")
    return made


def log_of(storage: MemoryStorage) -> dict[str, bytes]:
    """Every file of a log but what a killed writer left."""
    return {
        path: data
        for path, (data, _) in storage._files.items()
        if path.startswith(f"{LOG}/") and not path.endswith(".tmp")
    }


def without(storage: MemoryStorage, *parts: str) -> MemoryStorage:
    """A copy of a store that lacks the files of its log whose names contain one of these."""
    copy = MemoryStorage(storage.uri.removeprefix("memory://"))
    for path, (data, modified_ms) in storage._files.items():
        if not any(part in path for part in parts):
            copy.write(path, data, modified_ms=modified_ms)
    return copy


def handle(storage: Storage) -> TableHandle:
    """The table in a store."""
    return TableHandle(storage, engine=ENGINE, clock=fixed_clock(NOW_MS))


def back_up(table: Storage, destination: Storage, *, full: bool = False) -> BackupResult:
    return execute_change(LogBackup(destination, full), handle(table))


def restore(table: Storage, source: Storage, *, replace: bool = False) -> LogRestorePlan:
    return execute_change(LogRestore(source, replace), handle(table)).plan


def how_it_reads(storage: Storage) -> tuple[int, dict[str, Any]] | None:
    """The newest version and its state; None where it can't be read."""
    table = open_at(storage)
    try:
        snapshot = table.snapshot()
        return snapshot.version, state_document(table)
    except Unreadable:
        return None


def is_sound_backup(storage: MemoryStorage) -> bool:
    """True for a backup whose list is complete and true of every file that it names."""
    from deltacli.operations.log.log_copy import digest

    listed = read_list(storage)
    return (
        listed is not None
        and listed.is_complete
        and all(digest(storage.read(f"{LOG}/{name}")) == file.sha256 for name, file in listed.files.items())
    )
