"""Detection of other tables below a table, without a complete listing, and around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.errors import CredentialsMissing, FileMissing, PermissionRefused
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.vacuum.file_kinds import find_table_roots, kind_of_directories
from deltacli.delta.vacuum.keys import binary_paths
from deltacli.work.files.listing import TELLING

if TYPE_CHECKING:
    import pyarrow

    from deltacli.storage import ReadStorage, Storage
    from deltacli.table.handle import TableHandle


def kind_at(storage: ReadStorage, directory: str) -> str | None:
    """Return the format of the table in a directory, None without one; the root's own log is ignored.

    Raises FileMissing where there is no such directory.
    """
    names = [name for name in storage.list_directories(directory) if directory or name != LOG_DIRECTORY]
    kind = kind_of_directories(names)
    if kind is not None:
        return kind
    below = f"{directory}/" if directory else ""
    telling = [name for name in TELLING if name in names]
    paths = [f"{name}/{stat.name}" for name in telling for stat in storage.list_from(f"{below}{name}")]
    return find_table_roots(binary_paths(paths)).get("")


def tables_above(table: TableHandle, paths: pyarrow.Array) -> dict[str, str]:
    """Return the directories above files (binary array), including the root, that are tables of their own: directory ->
    format. Each directory is checked once.
    """
    above = {""}
    for parent in pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist():
        parts = parent.decode("utf-8", "surrogateescape").split("/")
        above |= {"/".join(parts[:length]) for length in range(1, len(parts) + 1)}
    directories, storage = sorted(above), table.storage
    look = partial(_kind_if_there, storage)
    kinds = table.engine.run(look, directories, at_once=storage.capabilities.parallel_reads)
    return {directory: kind for directory, kind in zip(directories, kinds, strict=True) if kind is not None}


def _kind_if_there(storage: ReadStorage, directory: str) -> str | None:
    try:
        return kind_at(storage, directory)
    except FileMissing:
        return None


def table_at(storage: ReadStorage) -> str | None:
    """Return the URI of the root of a store where that is a table of any format, whatever is left of its log."""
    with suppress(FileMissing):
        if kind_at(storage, "") is not None:
            return storage.uri
    with suppress(FileMissing):
        if any(True for _ in storage.list_from(LOG_DIRECTORY)):
            return storage.uri
    return None


def tables_around(table: TableHandle) -> Iterator[str]:
    """Yield the URIs of the Delta tables that contain a table, the nearest first; inaccessible directories are
    skipped.
    """
    for storage in stores_around(table):
        with suppress(FileMissing, PermissionRefused, CredentialsMissing):
            if any(file.name.endswith((".json", ".parquet")) for file in storage.list_from(LOG_DIRECTORY)):
                yield storage.uri


def stores_around(table: TableHandle) -> Iterator[Storage]:
    """Yield the directories that contain a table, the nearest first."""
    # Of a local directory, aliases have other directories above them; elsewhere they spell the same ones differently.
    aliases = table.storage.aliases if table.storage.capabilities.has_directories else ()
    for root in dict.fromkeys((table.uri, *aliases)):
        scheme, separator, path = root.partition("://")
        place = path.rstrip("/")
        while separator and "/" in place:
            place = place.rpartition("/")[0]
            if not place:
                break
            yield table.open_other(f"{scheme}://{place}")
