"""Questions about paths of local stores: links in them, and names that are taken.

All of them answer for any store: on an object store there are no links, and no name is taken by a directory.
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
    """Yield (final target, link) of links inside a store, both below its root; no links to targets outside."""
    if not storage.capabilities.has_directories:
        return

    root = os.path.realpath(os.fsdecode(unquote_to_bytes(storage.uri.removeprefix("file://"))))
    root_prefix = f"{root.rstrip('/')}/"
    for link in links:
        target = os.path.realpath(root_prefix + link)
        if target == root or target.startswith(root_prefix):
            yield target[len(root_prefix) :], link


def require_inside(storage: ReadStorage, path: str) -> None:
    """Raise PathExternal if a link in the path of a file leads outside the store and its allowed prefixes."""
    if isinstance(storage, LocalStorage):
        storage.bounds.directory_of(path)


def leads_outside(storage: ReadStorage, directory: str) -> bool:
    """Return whether a link in the path of a directory leads outside the store and its allowed prefixes."""
    try:
        require_inside(storage, f"{directory}/")
    except errors.PathExternal:
        return True
    return False


def has_link(storage: ReadStorage, directory: str, below: str) -> bool:
    """Return whether a part of `below`, a path relative to `directory`, is a link."""
    return isinstance(storage, LocalStorage) and has_link_in_path(f"{storage.root}/{directory}", below)


def is_taken(storage: ReadStorage, path: str) -> bool:
    """Return whether a name on a local disk is taken by something that is no file and therefore in no listing."""
    if not isinstance(storage, LocalStorage):
        return False
    full_path = storage.full_path(path)
    return os.path.lexists(full_path) and is_not_a_file(full_path)


def prefetch_file(storage: ReadStorage, path: str) -> None:
    """Let the system fetch a file of a local disk in advance, while others are read.

    It is only an announcement: an error shows when the file is read.
    """
    if not isinstance(storage, LocalStorage) or not hasattr(os, "posix_fadvise"):
        return

    with suppress(errors.DeltacliError, OSError, ValueError):
        descriptor, _ = storage.open_inside(path)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)
