"""Find tables inside a table directory, and tables in its parent directories.

The files of a nested table belong to the nested table. Operations such as vacuum must not delete them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.delta.listing import find_table_roots, identify_table_format
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.keys import encode_paths_as_binary
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.storage import ReadStorage, Storage
from deltacli.work.files.walking import METADATA_DIRECTORIES

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle


def find_table_format(storage: ReadStorage, directory: str) -> str | None:
    """Return the format of the table in a directory.

    Most formats are recognized by the name of a subdirectory, such as `_delta_log`. Names such as
    `metadata` or `schema` are too common for that, so the names of the files in them are examined.

    Args:
        storage: The store of the table.
        directory: The path of the directory, "" for the table directory. `_delta_log` in the table directory
            is ignored: the result is the other format that the table has as well.

    Returns:
        The format, such as `paimon`; None if the directory is not a table.

    Raises:
        FileMissing: If the directory does not exist.
    """
    names = [name for name in storage.list_directories(directory) if directory or name != LOG_DIRECTORY]
    table_format = identify_table_format(names)
    if table_format is not None:
        return table_format

    prefix = f"{directory}/" if directory else ""
    paths: list[str] = []
    for name in METADATA_DIRECTORIES:
        if name in names:
            paths += [f"{name}/{file.name}" for file in storage.list_from(f"{prefix}{name}")]
    return find_table_roots(encode_paths_as_binary(paths)).get("")


def find_tables_containing(table: TableHandle, paths: pyarrow.Array) -> dict[str, str]:
    """Return the nested tables that contain files.

    Args:
        table: The table.
        paths: The paths of the files inside the table directory (binary).

    Returns:
        The format of each nested table, by its directory. "" is a key if the table directory is also a
        table of another format.
    """
    # Collect the parent directories of all files, so that each one is requested once.
    parents = pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", ""))
    ancestors = {""}
    for parent in parents.to_pylist():
        segments = decode_path_bytes(parent).split("/")
        ancestors |= {"/".join(segments[:length]) for length in range(1, len(segments) + 1)}

    directories = sorted(ancestors)
    storage = table.storage
    find_format = partial(_find_format_of_existing, storage)
    formats = table.engine.run(find_format, directories, at_once=storage.capabilities.parallel_reads)
    return {
        directory: table_format
        for directory, table_format in zip(directories, formats, strict=True)
        if table_format is not None
    }


def _find_format_of_existing(storage: ReadStorage, directory: str) -> str | None:
    """Return the format of the table in a directory; None if it is not a table or does not exist."""
    try:
        return find_table_format(storage, directory)
    except errors.FileMissing:
        return None


def find_table_uri(storage: ReadStorage) -> str | None:
    """Return the URI of a store if its root directory is, or was, a table of any format; None otherwise."""
    with suppress(errors.FileMissing):
        if find_table_format(storage, "") is not None:
            return storage.uri
    # A log directory that contains any file is enough, even if all commits are missing.
    with suppress(errors.FileMissing):
        if any(True for _ in storage.list_from(LOG_DIRECTORY)):
            return storage.uri
    return None


def find_enclosing_tables(table: TableHandle) -> Iterator[str]:
    """Yield the URIs of Delta tables that contain a table in one of their subdirectories, nearest first.

    Parent directories that this process may not read are skipped: credentials are often limited to the
    table directory.
    """
    for storage in open_enclosing_directories(table):
        with suppress(errors.FileMissing, errors.PermissionRefused, errors.CredentialsMissing):
            if any(file.name.endswith((".json", ".parquet")) for file in storage.list_from(LOG_DIRECTORY)):
                yield storage.uri


def open_enclosing_directories(table: TableHandle) -> Iterator[Storage]:
    """Open the parent directories of a table, nearest first."""
    # A local table may have been opened through a symbolic link. Then its two paths have different parent
    # directories. On an object store, aliases are only different URIs of the same location.
    aliases = table.storage.aliases if table.storage.capabilities.has_directories else ()
    for uri in dict.fromkeys((table.uri, *aliases)):
        scheme, separator, path = uri.partition("://")
        directory = path.rstrip("/")
        while separator and "/" in directory:
            directory = directory.rpartition("/")[0]
            if not directory:
                break
            yield table.open_other(f"{scheme}://{directory}")
