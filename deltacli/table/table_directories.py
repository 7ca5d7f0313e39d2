"""Recognize the format of a table by the names in its directory.

A Delta table contains `_delta_log`. A Paimon table contains `schema/schema-0`, or at least `snapshot` and
`manifest`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from deltacli.core import errors
from deltacli.delta.log.segment import BACKUP_LIST, CLONES_DIRECTORY, LOG_DIRECTORY
from deltacli.storage import LocalStorage, PathKind, ReadStorage

_MARKER_NAMES = (LOG_DIRECTORY, BACKUP_LIST)
"""Names that show the purpose of a directory even if they are not subdirectories."""


class SubdirectoryRecorder:
    """Prevents `ReadStorage.walk` from entering subdirectories, and records their names.

    Pass an instance to `walk` to list a single directory of a store that returns files and directories in one
    listing.

    Attributes:
        names: The names of the subdirectories, complete when the walk is exhausted.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, _: str, subdirectories: Sequence[str]) -> Sequence[str]:
        """Record the names of the subdirectories of a directory, and return those to enter: none."""
        self.names += subdirectories
        return ()


def list_table_directories(storage: ReadStorage, at: str) -> list[str]:
    """Return the names of subdirectories that show whether a directory is a table.

    `_delta_log` is included even if it is a file or a broken link: the directory is a table then, although
    it cannot be read. The file list of a log backup is included, too, because a backup contains a
    `_delta_log` and is not a table.

    Args:
        storage: The store.
        at: The path of the directory in the store.

    Raises:
        DeltacliError: If the directory cannot be listed.
    """
    if isinstance(storage, LocalStorage):
        directories = storage.list_directories(at)
        path = os.path.join(storage.root, at)
        other_names = [name for name in _MARKER_NAMES if name not in directories]
        # `lexists` is also true for a broken link.
        return directories + [name for name in other_names if os.path.lexists(os.path.join(path, name))]

    # Object stores return files and directories in one listing. No subdirectory is entered.
    subdirectories = SubdirectoryRecorder()
    marker_names: list[str] = []
    for entry in storage.walk(at, subdirectories):
        marker_names += [name for name in (*entry.names, *entry.special) if name in _MARKER_NAMES]
    return sorted({*subdirectories.names, *marker_names})


def require_one_format(storage: ReadStorage) -> None:
    """Check that a directory is not both a Delta table and a Paimon table.

    Only local directories are checked, because the check would take several requests to a remote store.

    Raises:
        UsageError: `table.format-ambiguous`, if the directory is both. The user has to choose a format.
    """
    if not storage.capabilities.has_cheap_requests or storage.kind_of(LOG_DIRECTORY) is not PathKind.DIRECTORY:
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
    """Check that a directory is not a Paimon table, before a Delta log is created in it.

    Raises:
        PaimonTable: If the directory is a Paimon table.
    """
    try:
        directories = storage.list_directories("")
    except errors.FileMissing:
        return
    if is_paimon_directory(storage, directories):
        raise build_paimon_table_error(storage)


def is_paimon_directory(storage: ReadStorage, directories: Collection[str], at: str = "") -> bool:
    """Return True if a directory is a Paimon table.

    A Paimon table has a schema file. A table whose schema files were lost is recognized by its snapshots
    and manifests.

    Args:
        storage: The store.
        directories: The names of the subdirectories. If no name is one of Paimon's, no request is made.
        at: The path of the directory in the store.
    """
    prefix = f"{at}/" if at else ""
    if "schema" in directories and _find_numbered_name(storage, f"{prefix}schema", "schema-") is not None:
        return True
    if not {"snapshot", "manifest"} <= set(directories):
        return False
    return _find_numbered_name(storage, f"{prefix}snapshot", "snapshot-") is not None


def build_paimon_table_error(storage: ReadStorage) -> errors.PaimonTable:
    """Build the error for a command that requires a Delta table but got a Paimon table."""
    return errors.PaimonTable(
        "this is a Paimon table, and this command works on Delta tables only",
        facts={"path": storage.uri},
        hint=errors.paimon_command("snapshot"),
    )


def _find_numbered_name(storage: ReadStorage, directory: str, prefix: str) -> str | None:
    """Return the first file name in a directory that consists of a prefix and a number, such as `schema-0`."""
    files = storage.list_from(directory, prefix)
    return next((file.name for file in files if file.name.removeprefix(prefix).isdecimal()), None)


def is_empty_directory(storage: ReadStorage) -> bool:
    """Return True if a directory does not exist or contains no files.

    Temporary files that a killed process has left, such as `.NAME.tmp` and `.NAME.probe`, are ignored.
    """
    try:
        for entry in storage.walk("", _enter_all):
            # On object stores, the name of the marker object of the directory itself is empty.
            for name in (*entry.names, *filter(None, entry.special)):
                if not name.startswith(".") or not name.endswith((".tmp", ".probe")):
                    return False
    except errors.FileMissing:
        return True
    return True


def _enter_all(_: str, names: Sequence[str]) -> Sequence[str]:
    """Enter all subdirectories. Called by `ReadStorage.walk`."""
    return names


def has_clone_notes(storage: ReadStorage) -> bool:
    """Return True if the log directory of a table contains notes about its shallow clones.

    The notes are not read, so the result is also True if they are damaged.

    Raises:
        DeltacliError: If the directory cannot be listed.
    """
    try:
        return any(storage.list_from(f"{LOG_DIRECTORY}/{CLONES_DIRECTORY}"))
    except errors.FileMissing:
        return False
