"""Find tables inside and around a table, whose files belong to them and not to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.delta.listing import find_table_roots, kind_of_directories
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.keys import binary_paths
from deltacli.delta.paths.spelling import key_text
from deltacli.storage import ReadStorage, Storage
from deltacli.work.files.walking import METADATA_DIRECTORIES

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle


def find_table_format(storage: ReadStorage, directory: str) -> str | None:
    """Return the format of the table in a directory.

    Most formats are recognized by the names of directories. Where a name is also used by others, the
    names of the files in it tell.

    Args:
        storage: The store of the table.
        directory: The path of the directory, "" for the root. The Delta log of the root itself does not
            count: this asks what else the directory is.

    Returns:
        The format; None if the directory is no table.

    Raises:
        FileMissing: If the directory does not exist.
    """
    names = [name for name in storage.list_directories(directory) if directory or name != LOG_DIRECTORY]
    table_format = kind_of_directories(names)
    if table_format is not None:
        return table_format

    prefix = f"{directory}/" if directory else ""
    telling_names = [name for name in METADATA_DIRECTORIES if name in names]
    paths = [f"{name}/{file.name}" for name in telling_names for file in storage.list_from(f"{prefix}{name}")]
    return find_table_roots(binary_paths(paths)).get("")


def find_tables_above(table: TableHandle, paths: pyarrow.Array) -> dict[str, str]:
    """Return the directories above files, including the root, that are tables of their own.

    Args:
        table: The table.
        paths: The paths of the files (binary).

    Returns:
        The format by directory. Each directory is checked once.
    """
    ancestors = {""}
    for parent in pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist():
        parts = key_text(parent).split("/")
        ancestors |= {"/".join(parts[:length]) for length in range(1, len(parts) + 1)}

    directories = sorted(ancestors)
    storage = table.storage
    find_format = partial(_find_format_if_there, storage)
    formats = table.engine.run(find_format, directories, at_once=storage.capabilities.parallel_reads)
    return {
        directory: table_format
        for directory, table_format in zip(directories, formats, strict=True)
        if table_format is not None
    }


def _find_format_if_there(storage: ReadStorage, directory: str) -> str | None:
    try:
        return find_table_format(storage, directory)
    except errors.FileMissing:
        return None


def find_table_uri(storage: ReadStorage) -> str | None:
    """Return the URI of a store if its root is a table of any format, whatever is left of its log."""
    with suppress(errors.FileMissing):
        if find_table_format(storage, "") is not None:
            return storage.uri
    # A log without a commit is left of a table, too.
    with suppress(errors.FileMissing):
        if any(True for _ in storage.list_from(LOG_DIRECTORY)):
            return storage.uri
    return None


def find_enclosing_tables(table: TableHandle) -> Iterator[str]:
    """Yield the URIs of the Delta tables around a table, nearest first.

    Directories that must not be read are skipped: access often ends at the directory of the table.
    """
    for storage in open_enclosing_directories(table):
        with suppress(errors.FileMissing, errors.PermissionRefused, errors.CredentialsMissing):
            if any(file.name.endswith((".json", ".parquet")) for file in storage.list_from(LOG_DIRECTORY)):
                yield storage.uri


def open_enclosing_directories(table: TableHandle) -> Iterator[Storage]:
    """Yield the directories that contain a table, the nearest first."""
    # Of a local directory, aliases have other directories above them; elsewhere they spell the same ones differently.
    aliases = table.storage.aliases if table.storage.capabilities.has_directories else ()
    for root in dict.fromkeys((table.uri, *aliases)):
        scheme, separator, path = root.partition("://")
        directory = path.rstrip("/")
        while separator and "/" in directory:
            directory = directory.rpartition("/")[0]
            if not directory:
                break
            yield table.open_other(f"{scheme}://{directory}")
