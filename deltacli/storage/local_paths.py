"""Links and occupied names in local stores.

All functions accept any store. Object stores have no links, and a name can only be that of an object
there, so the functions return the answer for a store without links.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import unquote_to_bytes

from deltacli.core import errors
from deltacli.storage.base import ReadStorage
from deltacli.storage.local import LocalStorage
from deltacli.storage.local_listing import has_link_in_path
from deltacli.storage.os_errors import is_not_a_file


def resolve_links(storage: ReadStorage, links: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find the links whose target is inside the store.

    Args:
        storage: A store.
        links: Paths of links, relative to the root of the store.

    Yields:
        The target, relative to the root, and the link. Links to targets outside the store are
        omitted.
    """
    if not storage.capabilities.has_directories:
        return

    root = os.path.realpath(os.fsdecode(unquote_to_bytes(storage.uri.removeprefix("file://"))))
    root_prefix = f"{root.rstrip('/')}/"
    for link in links:
        target = os.path.realpath(root_prefix + link)
        if target == root or target.startswith(root_prefix):
            yield target[len(root_prefix) :], link


def require_inside(storage: ReadStorage, path: str) -> None:
    """Check that a file is inside the store or its allowed prefixes after links are resolved.

    Raises:
        PathExternal: If a link in the path refers to a directory outside.
    """
    if isinstance(storage, LocalStorage):
        storage.bounds.directory_of(path)


def leads_outside(storage: ReadStorage, directory: str) -> bool:
    """Return whether a directory is outside the store and its allowed prefixes after links are resolved."""
    try:
        require_inside(storage, f"{directory}/")
    except errors.PathExternal:
        return True
    return False


def has_link(storage: ReadStorage, directory: str, path: str) -> bool:
    """Return whether a component of a path is a link.

    Args:
        storage: A store.
        directory: A directory of the store. Links in its own path do not count.
        path: The path to check, relative to `directory`.
    """
    return isinstance(storage, LocalStorage) and has_link_in_path(f"{storage.root}/{directory}", path)


def is_taken(storage: ReadStorage, path: str) -> bool:
    """Return whether no file can be created at a path because a directory, link or pipe is there.

    Listings of files do not contain such entries, so the path seems to be free.
    """
    if not isinstance(storage, LocalStorage):
        return False
    full_path = storage.full_path(path)
    return os.path.lexists(full_path) and is_not_a_file(full_path)


def prefetch_file(storage: ReadStorage, path: str) -> None:
    """Ask the operating system to load a local file into the page cache, while other files are read.

    Errors are ignored here. They are raised when the file is read.
    """
    if not isinstance(storage, LocalStorage) or not hasattr(os, "posix_fadvise"):
        return

    with suppress(errors.DeltacliError, OSError, ValueError):
        descriptor, _ = storage.open_inside(path)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)
