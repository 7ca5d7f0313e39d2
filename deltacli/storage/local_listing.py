"""List local directories, and read the sizes and times of many files, without following links.

`os.scandir` returns the name and the type of each entry without a system call per file. Sizes and
times would take a call each, so listings do not contain them.
"""

from __future__ import annotations

import errno
import os
import stat as stat_module
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from deltacli.storage.base import WalkEntry
from deltacli.storage.hadoop_checksums import is_checksum_name
from deltacli.storage.local_bounds import require_openable

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

# Entries of a large directory are returned in parts of this size, to limit the memory.
_NAMES_AT_ONCE = 1 << 16

_PATHS_AT_ONCE = 1_000

# Error codes for a path that is not a file. Others, such as missing permissions, are raised.
_NO_FILE_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}

# Unbound methods, because `map` with them is the fastest loop over millions of entries.
_is_link = os.DirEntry.is_symlink
_is_file = os.DirEntry.is_file


class DirectoryPart(NamedTuple):
    """Some entries of a directory.

    Attributes:
        walk_entry: The files and other entries.
        subdirectories: The names of the subdirectories.
    """

    walk_entry: WalkEntry
    subdirectories: list[str]


def list_local_directory(full_path: str, path: str) -> Iterator[DirectoryPart]:
    """Yield the entries of a directory.

    Args:
        full_path: The absolute path of the directory.
        path: Its path relative to the root of the store; empty for the root.

    Raises:
        OSError: If the directory cannot be listed, or was replaced by a link.
    """
    # The root may be a link. Any other directory was not a link when its parent was listed. If it is
    # one now, it is not followed.
    flags = OPEN_DIRECTORY | os.O_NOFOLLOW if path else OPEN_DIRECTORY
    descriptor = os.open(full_path, flags)
    try:
        with os.scandir(descriptor) as entries:
            is_empty = True
            while some_entries := list(islice(entries, _NAMES_AT_ONCE)):
                # Earlier releases of vacuum left checksum files in directories that were otherwise
                # empty. These count as empty.
                is_empty = is_empty and all(map(is_checksum_entry, some_entries))
                yield _classify_entries(path, some_entries)
    finally:
        os.close(descriptor)

    if is_empty:
        # Read the time after the listing: a file that was created in between makes the directory look
        # new, and vacuum keeps it. Read the time by name: that fails if the directory was removed.
        modified_ms = os.lstat(full_path).st_mtime_ns // 1_000_000
        empty_entry = WalkEntry(path, [], None, None, [], is_empty=True, directory_modified_ms=modified_ms)
        yield DirectoryPart(empty_entry, [])


def _classify_entries(path: str, entries: list[os.DirEntry[str]]) -> DirectoryPart:
    """Divide entries into files, subdirectories and others.

    Args:
        path: The directory, relative to the root of the store.
        entries: Some of its entries.
    """
    # Check for links first: `is_file` follows them, and raises an error for a cyclic link.
    if not any(map(_is_link, entries)) and all(map(_is_file, entries)):
        # Only regular files, as in most directories. This takes two thirds of the time.
        return DirectoryPart(WalkEntry(path, [entry.name for entry in entries], None, None, []), [])

    names = list[str]()
    subdirectories = list[str]()
    special = list[str]()
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            names.append(entry.name)
        elif entry.is_dir(follow_symlinks=False):
            subdirectories.append(entry.name)
        elif entry.is_symlink() or _still_exists(entry):
            special.append(entry.name)
    return DirectoryPart(WalkEntry(path, names, None, None, special), subdirectories)


def is_checksum_entry(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a Hadoop checksum file."""
    return is_checksum_name(entry.name) and entry.is_file(follow_symlinks=False)


def _still_exists(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry without a known type still exists.

    Some file systems do not return types with the names. Python then asks for the type of each entry.
    If the entry was deleted meanwhile, `is_file`, `is_dir` and `is_symlink` are all False.
    """
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def stat_many(root: str, paths: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the sizes, and the modification times in epoch milliseconds.

    Both are -1 for a path that is missing, not a regular file, or contains a link.

    Args:
        root: The root of the store.
        paths: Paths relative to the root.

    Raises:
        OSError: If that cannot be determined.
    """
    sizes: list[int] = []
    times: list[int] = []
    for start in range(0, len(paths), _PATHS_AT_ONCE):
        some_paths = paths[start : start + _PATHS_AT_ONCE]
        stats = _stat_regular_files(root, some_paths)
        if stats is None:
            stats = [_stat_path(root, path) for path in some_paths]
        sizes += [size for size, _ in stats]
        times += [modified_ms for _, modified_ms in stats]
    return sizes, times


def _stat_regular_files(root: str, paths: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return the sizes and times of paths, if all of them are regular files inside the root.

    That is the usual case. It takes half the time of checking each path separately, because each
    directory is checked for links only once.

    Returns:
        The sizes and times; None if a path is not a regular file or contains a link.
    """
    try:
        directories = {path.rpartition("/")[0] for path in paths}
        if any(has_link_in_path(root, directory) for directory in directories):
            return None
        stats = list(map(os.lstat, [f"{root}/{path}" for path in paths]))
    except (OSError, ValueError):
        return None

    if not all(stat_module.S_ISREG(status.st_mode) for status in stats):
        return None
    return [(status.st_size, status.st_mtime_ns // 1_000_000) for status in stats]


def _stat_path(root: str, path: str) -> tuple[int, int]:
    """Return the size and time of a path, as `stat_many` does."""
    try:
        if has_link_in_path(root, path.rpartition("/")[0]):
            return -1, -1
        status = os.lstat(f"{root}/{path}")
    except ValueError:
        # The path contains NUL, so no such file can exist.
        return -1, -1
    except OSError as error:
        if error.errno in _NO_FILE_ERRORS:
            return -1, -1
        raise
    if not stat_module.S_ISREG(status.st_mode):
        return -1, -1
    return status.st_size, status.st_mtime_ns // 1_000_000


def has_link_in_path(root: str, path: str) -> bool:
    """Return whether a component of a path is a link or `..`, so that the path may be outside the root.

    Args:
        root: A directory. Links in its own path do not count.
        path: A path relative to the root.

    Raises:
        OSError: If the path is too long.
    """
    require_openable(path)
    names = path.split("/") if path else []
    if ".." in names:
        return True
    return any(os.path.islink(f"{root}/{'/'.join(names[:count])}") for count in range(1, len(names) + 1))
