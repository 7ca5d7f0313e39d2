"""The target directory of a pull: absent or empty, left by an unfinished pull, or a table that was pulled; and the
hidden directory inside it that has unfinished downloads, and what is being pulled.

Several pulls may use the hidden directory at once: each holds a shared lock on it, and the last one removes it. Readers
and writers of tables skip it, because its name begins with a dot.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import DeltacliError
from deltacli.operations.table.api_arguments import name_table
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.sharing.client.faults import PullRefused
from deltacli.sharing.pulling.local_actions import APP_ID, ENDPOINT, TABLE, PullSource
from deltacli.sharing.pulling.unfinished_downloads import lock_named
from deltacli.storage.disk_faults import disk_fault, writing_faults
from deltacli.typing import Json

NAME = ".deltacli-pull"
_MARKER, _LOCK = "pull.json", "lock"
_MOST_MARKER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What an unfinished pull was pulling."""

    source: PullSource
    version: int


class Workspace:
    """The open workspace of one pull."""

    def __init__(self, directory: str, lock: int) -> None:
        self.directory, self._lock = directory, lock

    @property
    def place(self) -> str:
        """The path of the workspace."""
        return f"{self.directory}/{NAME}"

    def mark(self, source: PullSource, version: int) -> None:
        """Record what is being pulled. Raises PullRefused where another pull is pulling another table."""
        draft, marker = f"{self.place}/{uuid4().hex}", f"{self.place}/{_MARKER}"
        with writing_faults(marker, _MARKER):
            with open(draft, "x", encoding="utf-8") as file:
                json.dump({**source.facts, "version": version}, file)
            with suppress(OSError):  # it exists, or the file system has no hard links
                os.link(draft, marker)
            found = read_unfinished(self.directory)
            if found is not None and found.source != source:
                os.unlink(draft)
                raise unfinished_other(self.directory, found)
            os.replace(draft, marker)

    def close(self, *, is_done: bool) -> None:
        """Release the workspace; remove it after a finished pull, if no other pull uses it."""
        try:
            if is_done:
                with suppress(OSError):
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(self.place, ignore_errors=True)
        finally:
            os.close(self._lock)


@contextmanager
def open_workspace(directory: str) -> Iterator[Workspace]:
    """Make the workspace of a target, and remove it when the block ends without an error. Raises StorageFailed."""
    with writing_faults(f"{directory}/{NAME}", NAME):
        workspace = Workspace(directory, _locked(directory))
    is_done = False
    try:
        yield workspace
        is_done = True
    finally:
        workspace.close(is_done=is_done)


def _locked(directory: str) -> int:
    """Return the descriptor of a lock file that is still there after it was locked. Raises OSError."""
    while True:
        os.makedirs(f"{directory}/{NAME}", mode=0o777, exist_ok=True)
        if not stat.S_ISDIR(os.lstat(f"{directory}/{NAME}").st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"{directory}/{NAME}")
        with suppress(FileNotFoundError):  # another pull has just removed the workspace
            if (descriptor := lock_named(f"{directory}/{NAME}/{_LOCK}", fcntl.LOCK_SH)) is not None:
                return descriptor


def read_unfinished(directory: str) -> Unfinished | None:
    """Return what an unfinished pull of a target was pulling; None where there is none."""
    try:
        with open(f"{directory}/{NAME}/{_MARKER}", "rb") as file:
            found: dict[str, Json] = json.loads(file.read(_MOST_MARKER_BYTES))
        source = PullSource(str(found["endpoint"]), str(found["table"]), str(found["tableId"]))
        return Unfinished(source, int(found["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def unfinished_other(directory: str, found: Unfinished) -> PullRefused:
    """Return the refusal of a target where another table is being pulled."""
    return PullRefused(
        f"{directory} has an unfinished pull of another table",
        facts=found.source.facts,
        hint="pull into another directory, or delete this one",
    )


_NAMED = 5


@dataclass(frozen=True, slots=True)
class PulledTable:
    """A local table and the version of the shared table that it has."""

    snapshot: Snapshot
    source: PullSource
    shared_version: int


@dataclass(frozen=True, slots=True)
class PullTarget:
    """A directory that can take a pull. `table` is None before the first pull is finished."""

    directory: str
    table: PulledTable | None = None
    unfinished: Unfinished | None = None


def read_target(handle: TableHandle, directory: str) -> PullTarget:
    """Return what a directory has. Raises PullRefused for one that has something else than a pull, StorageFailed, and
    what `read_snapshot` raises.
    """
    found = _entries(directory)
    unfinished = read_unfinished(directory) if NAME in found else None
    if _has_commits(directory):
        try:
            return PullTarget(directory, _pulled(read_snapshot(handle), directory), unfinished)
        except DeltacliError as fault:
            name_table(fault, directory)
            raise
    others = sorted(found - {NAME, LOG_DIRECTORY})
    if others and unfinished is None:
        some = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
        raise PullRefused(
            f"{directory} is not empty, and no pull has written to it",
            facts={"found": some, "expected": "a table that was pulled, an empty directory, or none"},
        )
    return PullTarget(directory, None, unfinished)


def _entries(directory: str) -> set[str]:
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()
    except NotADirectoryError:
        raise PullRefused(f"{directory} is a file, not a directory") from None
    except OSError as fault:
        raise disk_fault(fault, directory, directory, "read") from fault


def _has_commits(directory: str) -> bool:
    """Return True where a log has anything but drafts."""
    try:
        return any(not name.startswith(".") for name in os.listdir(f"{directory}/{LOG_DIRECTORY}"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as fault:
        raise disk_fault(fault, LOG_DIRECTORY, f"{directory}/{LOG_DIRECTORY}", "read") from fault


def _pulled(snapshot: Snapshot, directory: str) -> PulledTable:
    """Return what a table was pulled from. Raises PullRefused for a table that was not."""
    properties = snapshot.properties
    version = next((one.version for one in snapshot.transactions if one.app_id == APP_ID), None)
    if version is None or ENDPOINT not in properties or TABLE not in properties:
        raise PullRefused(
            f"{directory} is a table that was not pulled from a share",
            facts={"version": str(snapshot.version), "tableId": snapshot.metadata.id},
            hint="pull into another directory",
        )
    return PulledTable(snapshot, PullSource(properties[ENDPOINT], properties[TABLE], snapshot.metadata.id), version)


def require_same_table(target: PullTarget, source: PullSource) -> None:
    """Raise PullRefused where a directory has another table, finished or not. The endpoint may be another one."""
    for what, known in (("has", target.table), ("has an unfinished pull of", target.unfinished)):
        if known is None or (known.source.table, known.source.table_id) == (source.table, source.table_id):
            continue
        raise PullRefused(
            f"{target.directory} {what} another table",
            facts={
                "there": f"{known.source.table}, table id {known.source.table_id}",
                "asked for": f"{source.table}, table id {source.table_id}",
            },
            hint="pull into another directory",
        )


def require_not_backwards(target: PullTarget, version: int) -> None:
    """Raise PullRefused where a directory has a newer version."""
    table = target.table
    if table is not None and table.shared_version > version:
        raise PullRefused(
            f"{target.directory} has version {table.shared_version} of the shared table, which is newer than {version}",
            facts={"local version": str(table.snapshot.version)},
            hint="pull an older version into another directory",
        )
