"""List one directory of a table as a task, with the place to which a link leads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.spelling import decode
from deltacli.storage import FileStat, ReadStorage, leads_outside
from deltacli.work.task import TaskContext


class ResolvedDirectory(NamedTuple):
    """A directory by its path below the table, and its path without links, which it may share with others."""

    path: str
    place: str


class Subdirectory(NamedTuple):
    """A directory in another one; `is_outside` is set by tasks only, where a link leads outside the table."""

    name: str
    place: str
    is_outside: bool = False


class DirectoryListing(NamedTuple):
    """The files and the directories in a directory."""

    files: tuple[FileStat, ...]
    directories: tuple[Subdirectory, ...]


def list_directory(piece: ResolvedDirectory, context: TaskContext) -> DirectoryListing:
    """Return the files and the subdirectories in a directory. Raises FileMissing and PermissionRefused."""
    storage = context.storage
    below = f"{piece.path}/" if piece.path else ""
    files = tuple(storage.list_from(piece.path))
    directories = (
        inner
        if inner.name == LOG_DIRECTORY
        else inner._replace(is_outside=leads_outside(storage, f"{below}{inner.name}"))
        for inner in list_subdirectories(storage, piece)
    )
    return DirectoryListing(files, tuple(directories))


def list_subdirectories(storage: ReadStorage, directory: ResolvedDirectory) -> Iterator[Subdirectory]:
    """Yield the directories in a directory, links to directories included."""
    is_local = _is_local(storage)
    for name in storage.list_directories(directory.path):
        resolved_path = f"{directory.place}/{name}"
        yield Subdirectory(name, _resolve_link(resolved_path) if is_local else resolved_path)


def resolve_table_path(storage: ReadStorage) -> str:
    """Return the resolved place of the table."""
    return os.path.realpath(decode(storage.uri[len("file://") :])) if _is_local(storage) else ""


def _is_local(storage: ReadStorage) -> bool:
    return storage.uri.startswith("file:")


def _resolve_link(path: str) -> str:
    return os.path.realpath(path) if os.path.islink(path) else path
