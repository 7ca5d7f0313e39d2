"""Explain why a path has no log: what is there instead, and what the user probably meant.

People give the directory above or below the table, one of its files, a Paimon table, or a table that was
deleted. Each of these errors names the path that would have been right, where it can be found cheaply.
"""

from __future__ import annotations

import os
import re
from itertools import islice

from deltacli.core import errors
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.storage import LocalStorage, PathKind, ReadStorage
from deltacli.table.table_directories import is_paimon_directory, list_table_directories, paimon_table_error

_PARTITION = r"(?<=[^/:])/[^/=]+=[^/]*(?=/|$)"
"""A directory that looks like a partition, such as `/day=2026-01-01`."""
_MOST_NESTED_TABLES = 5
"""Tables below a path that an error names."""
_MOST_VERSIONS = 100
"""Versions of deleted objects that are looked at: every store returns these in its first page."""


def missing_log_error(storage: ReadStorage) -> errors.DeltacliError:
    """Return the error for a path without a log."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            return missing_path_error(storage)
        case PathKind.FILE:
            return _path_is_file_error(storage)

    directories = set(list_table_directories(storage, ""))
    if storage.uri.rstrip("/").endswith(f"/{LOG_DIRECTORY}"):
        return errors.NotATable(
            "this is the log of a table; pass the directory above it",
            code="table.path-is-log",
            hint=_suggest_enclosing_table(storage) or errors.command("snapshot", table="{parent}"),
        )
    if is_paimon_directory(storage, directories):
        return paimon_table_error(storage)
    if LOG_DIRECTORY in directories:  # as a file, or as a link to nothing
        fault = errors.NotATable(f"{LOG_DIRECTORY} is not a directory")
        _suggest_undelete(fault, storage)
        return fault
    return _no_table_error(storage, directories)


def missing_path_error(storage: ReadStorage) -> errors.NotATable:
    """Return the error for a path where nothing is. It names `undelete` if a deleted table can come back."""
    fault = errors.NotATable("no such file or directory", code="table.path-missing", facts={"path": storage.uri})
    _suggest_undelete(fault, storage)
    return fault


def _path_is_file_error(storage: ReadStorage) -> errors.NotATable:
    enclosing = find_enclosing_table(storage)
    facts = {"path": storage.uri}
    if enclosing:
        facts["inside the table"] = enclosing
    return errors.NotATable(
        "this is a file; a table is a directory that contains _delta_log",
        code="table.path-is-file",
        facts=facts,
        hint=None if enclosing is None else errors.command("snapshot", table=enclosing),
    )


def _no_table_error(storage: ReadStorage, directories: set[str]) -> errors.NotATable:
    """Return the error for a directory that is no table. It names tables directly below it, and one above it."""
    tables_below = [
        name for name in sorted(directories) if storage.kind_of(f"{name}/{LOG_DIRECTORY}") is PathKind.DIRECTORY
    ][:_MOST_NESTED_TABLES]
    enclosing = find_enclosing_table(storage)
    facts = {"path": storage.uri}
    if enclosing:
        facts["inside the table"] = enclosing
    if tables_below:
        facts["tables below"] = ", ".join(tables_below)
        hint: str | None = errors.command("snapshot", table=f"{{table}}/{tables_below[0]}")
    else:
        hint = _suggest_enclosing_table(storage)

    fault = errors.NotATable("this is not a Delta table: the directory has no _delta_log", facts=facts, hint=hint)
    fault.below = tables_below[0] if tables_below else None
    _suggest_undelete(fault, storage)
    return fault


def _suggest_undelete(fault: errors.NotATable, storage: ReadStorage) -> None:
    """Make `undelete` the hint of an error if the store has a log that was deleted. Costs one request."""
    if has_deleted_log(storage):
        fault.facts["deleted log"] = "the store keeps versions of its files"
        fault.hint = errors.command("undelete", dry_run=True)


def has_deleted_log(storage: ReadStorage) -> bool:
    """Return True if the store has files of a log that were deleted.

    False is no proof: the store may not let the caller list versions. This is asked only for a hint, so
    errors are ignored.
    """
    object_versions = storage.versions
    if object_versions is None:
        return False
    from deltacli.storage.versions import VersionState  # which only stores with versions import

    try:
        first_versions = islice(object_versions.list(f"{LOG_DIRECTORY}/"), _MOST_VERSIONS)
        return any(version.is_readable or version.state is VersionState.SOFT_DELETED for version in first_versions)
    except errors.DeltacliError:
        return False


def find_enclosing_table(storage: ReadStorage) -> str | None:
    """Return the table that contains a directory or file; None if none is found.

    On a local disk this is the nearest directory above with a log. Elsewhere, without any request, it is
    the directory above the first name that looks like a partition, such as `day=2026-01-01`.
    """
    if not isinstance(storage, LocalStorage):
        partition = re.search(_PARTITION, storage.uri)
        return storage.uri[: partition.start()] if partition else None

    path = storage.root
    parent = os.path.dirname(path)
    while parent != path:
        path = parent
        if os.path.isdir(os.path.join(path, LOG_DIRECTORY)):
            return path
        parent = os.path.dirname(path)
    return None


def _suggest_enclosing_table(storage: ReadStorage) -> str | None:
    enclosing = find_enclosing_table(storage)
    return None if enclosing is None else errors.command("snapshot", table=enclosing)
