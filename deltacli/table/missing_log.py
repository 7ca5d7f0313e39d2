"""Build the error message for a path that is not a Delta table.

Typical mistakes are to pass the parent directory of a table, one of its partition directories, its
`_delta_log`, a data file, a Paimon table, or a table that was deleted. The error describes the path, and
suggests the path that the user probably meant if a few requests are enough to find it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from deltacli.core import errors
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.storage import LocalStorage, PathKind, ReadStorage
from deltacli.table.table_directories import build_paimon_table_error, is_paimon_directory, list_table_directories

_PARTITION_DIRECTORY = r"(?<=[^/:])/[^/=]+=[^/]*(?=/|$)"
"""Matches a partition directory in a URI, such as `/day=2026-01-01`."""
_MAX_NESTED_TABLES = 5
"""Number of nested tables that an error message lists."""
_MAX_OBJECT_VERSIONS = 100
"""Number of object versions to examine. Every store returns that many in its first page."""


def build_missing_log_error(storage: ReadStorage) -> errors.DeltacliError:
    """Build the error for a path without a Delta log, depending on what exists at the path."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            return build_missing_path_error(storage)
        case PathKind.FILE:
            return _build_path_is_file_error(storage)

    directories = set(list_table_directories(storage, ""))
    if storage.uri.rstrip("/").endswith(f"/{LOG_DIRECTORY}"):
        return errors.NotATable(
            "this is the log of a table; pass the directory above it",
            code="table.path-is-log",
            hint=_suggest_enclosing_table(storage) or errors.command("snapshot", table="{parent}"),
        )
    if is_paimon_directory(storage, directories):
        return build_paimon_table_error(storage)
    # `_delta_log` exists, but as a file or as a broken link.
    if LOG_DIRECTORY in directories:
        undelete = _suggest_undelete(storage)
        return errors.NotATable(f"{LOG_DIRECTORY} is not a directory", facts=undelete.facts, hint=undelete.hint)
    return _build_not_a_table_error(storage, directories)


def build_missing_path_error(storage: ReadStorage) -> errors.NotATable:
    """Build the error for a path that does not exist. If a table there was deleted, the hint is `undelete`."""
    undelete = _suggest_undelete(storage)
    facts = {"path": storage.uri, **undelete.facts}
    return errors.NotATable("no such file or directory", code="table.path-missing", facts=facts, hint=undelete.hint)


def _build_path_is_file_error(storage: ReadStorage) -> errors.NotATable:
    """Build the error for a path that is a file. If a table contains the file, the error suggests that table."""
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


def _build_not_a_table_error(storage: ReadStorage, directories: set[str]) -> errors.NotATable:
    """Build the error for a directory that is not a table, such as `lake` or `lake/orders/day=2026-01-01`.

    The error lists tables in subdirectories, and the table that contains the directory. The hint is a command
    for the first of these tables, or `undelete` if the store has deleted versions of a log.

    Args:
        storage: The store of the directory.
        directories: The names of its subdirectories.
    """
    is_table = {name: storage.kind_of(f"{name}/{LOG_DIRECTORY}") is PathKind.DIRECTORY for name in sorted(directories)}
    nested_tables = [name for name in is_table if is_table[name]][:_MAX_NESTED_TABLES]
    enclosing = find_enclosing_table(storage)
    undelete = _suggest_undelete(storage)

    facts = {"path": storage.uri}
    if enclosing:
        facts["inside the table"] = enclosing
    if nested_tables:
        facts["tables below"] = ", ".join(nested_tables)
    facts |= undelete.facts

    first_nested_table = nested_tables[0] if nested_tables else None
    if undelete.hint is not None:
        hint: str | None = undelete.hint
    elif first_nested_table is not None:
        hint = errors.command("snapshot", table=f"{{table}}/{first_nested_table}")
    else:
        hint = _suggest_enclosing_table(storage)
    return errors.NotATable(
        "this is not a Delta table: the directory has no _delta_log", facts=facts, hint=hint, below=first_nested_table
    )


class _UndeleteSuggestion(NamedTuple):
    """Facts and a hint that suggest `undelete`. Without a deleted log, the facts are empty and the hint is None."""

    facts: Mapping[str, str]
    hint: str | None


def _suggest_undelete(storage: ReadStorage) -> _UndeleteSuggestion:
    """Suggest `undelete` if the store has deleted versions of a log. This sends one request."""
    if not has_deleted_log(storage):
        return _UndeleteSuggestion({}, None)
    facts = {"deleted log": "the store keeps versions of its files"}
    return _UndeleteSuggestion(facts, errors.command("undelete", dry_run=True))


def has_deleted_log(storage: ReadStorage) -> bool:
    """Return True if an object store has deleted versions of files in `_delta_log`.

    The result is only used for hints, so errors are ignored: if the caller may not list object versions, the
    result is False.
    """
    object_versions = storage.versions
    if object_versions is None:
        return False
    # Imported here because only object stores with versioning need it.
    from deltacli.storage.versions import VersionState

    try:
        first_versions = islice(object_versions.list(f"{LOG_DIRECTORY}/"), _MAX_OBJECT_VERSIONS)
        return any(version.is_readable or version.state is VersionState.SOFT_DELETED for version in first_versions)
    except errors.DeltacliError:
        return False


def find_enclosing_table(storage: ReadStorage) -> str | None:
    """Return the path or URI of the table that contains a directory or file.

    On a local disk, the nearest parent directory with a `_delta_log` is returned. On a remote store, no
    request is made, and the path is guessed: the table is assumed to be the parent of the first partition
    directory. For `s3://bucket/sales/day=2026-01-01/hour=3` that is `s3://bucket/sales`.

    Returns:
        The path or URI; None if no parent directory is a table, or the path has no partition directory.
    """
    if not isinstance(storage, LocalStorage):
        partition = re.search(_PARTITION_DIRECTORY, storage.uri)
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
