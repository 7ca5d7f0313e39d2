"""Recognize tables by the names in a directory: Delta, Paimon, both, or nothing at all."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from deltacli.core import errors
from deltacli.delta.log.segment import BACKUP_LIST, CLONES_DIRECTORY, LOG_DIRECTORY
from deltacli.storage import LocalStorage, PathKind, ReadStorage

_TELLING_FILES = (LOG_DIRECTORY, BACKUP_LIST)
"""Names that tell what a directory is also if they are not directories."""


def list_table_directories(storage: ReadStorage, at: str) -> list[str]:
    """Return the names of the directories in a directory, and two names whatever they are.

    `_delta_log` counts also as a file or as a broken link: then the directory is a table that cannot be
    read. The list of a backup counts, because it tells a backup of a log from a table.

    Args:
        storage: The store.
        at: The path of the directory in the store.

    Raises:
        DeltacliError: What listing raises.
    """
    if isinstance(storage, LocalStorage):
        directories = storage.list_directories(at)
        path = os.path.join(storage.root, at)
        return directories + [
            name for name in _TELLING_FILES if name not in directories and os.path.lexists(os.path.join(path, name))
        ]

    # Object stores list files and directories together, so one listing without entering anything has both.
    directories = []

    def enter_none(_: str, below: Sequence[str]) -> tuple[()]:
        directories.extend(below)
        return ()

    telling_files = []
    for entry in storage.walk(at, enter_none):
        telling_files += [name for name in (*entry.names, *entry.special) if name in _TELLING_FILES]
    return sorted({*directories, *telling_files})


def require_one_format(storage: ReadStorage) -> None:
    """Check that a directory with a log is not a Paimon table, too: then the user has to choose the format.

    This is checked only where it needs no request to a remote store.

    Raises:
        UsageError: `table.format-ambiguous`.
    """
    # A Paimon table has a directory of schemas in its root.
    if not storage.capabilities.cheap_listing or storage.kind_of(LOG_DIRECTORY) is not PathKind.DIRECTORY:
        return
    if storage.kind_of("schema") is not PathKind.DIRECTORY:
        return
    schema_name = _find_numbered_name(storage, "schema", "schema-")
    if schema_name is not None:
        raise errors.UsageError(
            "this directory is both a Delta table and a Paimon table",
            code="table.format-ambiguous",
            facts={"found": f"{LOG_DIRECTORY}/ and schema/{schema_name}"},
            hint=errors.suggest_parameters(errors.parameter("open_table.table_format", "delta")),
        )


def require_no_paimon_table(storage: ReadStorage) -> None:
    """Check that a directory in which a log is about to be created is not a Paimon table.

    Raises:
        PaimonTable: If it is one.
    """
    try:
        directories = storage.list_directories("")
    except errors.FileMissing:
        return
    if is_paimon_directory(storage, directories):
        raise paimon_table_error(storage)


def is_paimon_directory(storage: ReadStorage, directories: Collection[str], at: str = "") -> bool:
    """Return True for a directory with schemas of Paimon, or with snapshots and manifests that have lost them.

    Args:
        storage: The store.
        directories: The names of the directories in it. Without fitting names no request is made.
        at: The path of the directory in the store.
    """
    prefix = f"{at}/" if at else ""
    if "schema" in directories and _find_numbered_name(storage, f"{prefix}schema", "schema-") is not None:
        return True
    if not {"snapshot", "manifest"} <= set(directories):
        return False
    return _find_numbered_name(storage, f"{prefix}snapshot", "snapshot-") is not None


def paimon_table_error(storage: ReadStorage) -> errors.PaimonTable:
    """Return the error for a Paimon table where a Delta table is needed."""
    return errors.PaimonTable(
        "this is a Paimon table, and this command works on Delta tables only",
        facts={"path": storage.uri},
        hint=errors.paimon_command("snapshot"),
    )


def _find_numbered_name(storage: ReadStorage, directory: str, prefix: str) -> str | None:
    """Return the first name in a directory that is a prefix and a number."""
    files = storage.list_from(directory, prefix)
    return next((file.name for file in files if file.name.removeprefix(prefix).isdecimal()), None)


def is_empty_directory(storage: ReadStorage) -> bool:
    """Return True if a directory is missing, or has only drafts and probes that a killed run left."""
    try:
        for entry in storage.walk("", lambda _, names: names):
            for name in (*entry.names, *filter(None, entry.special)):
                # Drafts and probes have names such as `.NAME.tmp` and `.NAME.probe`.
                if not name.startswith(".") or not name.endswith((".tmp", ".probe")):
                    return False
    except errors.FileMissing:
        return True
    return True


def has_clone_notes(storage: ReadStorage) -> bool:
    """Return True if a table has a note of a clone, readable or not.

    Raises:
        DeltacliError: What the store raises.
    """
    try:
        return any(storage.list_from(f"{LOG_DIRECTORY}/{CLONES_DIRECTORY}"))
    except errors.FileMissing:
        return False
