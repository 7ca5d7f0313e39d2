"""The target directory of a pull: absent or empty, left by an unfinished pull, or a table that was pulled."""

from __future__ import annotations

import os
from dataclasses import dataclass

from deltacli.core.errors import DeltacliError
from deltacli.core.units import some_of
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.sharing.client.faults import PullRefused
from deltacli.sharing.pulling.local_actions import APP_ID, ENDPOINT, TABLE, PullSource
from deltacli.sharing.pulling.unfinished_downloads import WORKSPACE, Unfinished, read_unfinished
from deltacli.storage.disk_faults import disk_fault
from deltacli.table.api_arguments import name_table
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

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
    has_workspace: bool = False
    """Whether an interrupted pull has left something, which a whole one removes."""


def read_target(handle: TableHandle, directory: str, now: Snapshot | None = None) -> PullTarget:
    """Return what a directory has, with the newest version if that was read already. Raises PullRefused for one that
    has something else than a pull, StorageFailed, and what `read_snapshot` raises.
    """
    found = _entries(directory)
    has_workspace = WORKSPACE in found
    unfinished = read_unfinished(directory) if has_workspace else None
    if _has_commits(directory):
        try:
            return PullTarget(
                directory, pulled_table(now or read_snapshot(handle), directory), unfinished, has_workspace
            )
        except DeltacliError as fault:
            name_table(fault, directory)
            raise
    others = sorted(found - {WORKSPACE, LOG_DIRECTORY})
    if others and unfinished is None:
        some = some_of(others, _NAMED)
        raise PullRefused(
            f"{directory} is not empty, and no pull has written to it",
            facts={"found": some, "expected": "a table that was pulled, an empty directory, or none"},
        )
    return PullTarget(directory, None, unfinished, has_workspace)


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


def pulled_table(snapshot: Snapshot, directory: str) -> PulledTable:
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
