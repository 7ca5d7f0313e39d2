"""Looking into a single directory for a table of its own, where no listing shows all that lies in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.delta.log_path import LOG_DIRECTORY
from deltacli.delta.vacuum.keys import binary_paths
from deltacli.delta.vacuum.names import find_table_roots, kind_of_directories

if TYPE_CHECKING:
    from deltacli.storage import Storage

TELLING = ("metadata", "schema", "snapshot", "manifest")
"""Directories whose files tell of a table; others do by their name alone."""


def kind_at(storage: Storage, directory: str) -> str | None:
    """The format of the table that lies in a directory, None for none; the root's own log says nothing.

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
