"""Listing one local directory, and reading the properties of many paths, without following links.

The system returns the kind of an entry together with its name, so a listing needs no call per file.
That is why it has no sizes and times: those would take a call each.
"""

from __future__ import annotations

import errno
import os
import stat as stat_module
from collections.abc import Iterator, Sequence
from itertools import islice

from deltacli.storage.base import WalkEntry
from deltacli.storage.hadoop_checksums import is_checksum_name
from deltacli.storage.local_bounds import require_openable

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

# Number of names that are returned at a time, so that the names of a large directory are never all
# in memory.
_NAMES_AT_ONCE = 1 << 16

_PATHS_AT_ONCE = 1_000

# Codes of a path that leads to no file. Others, such as a lack of permission, are errors.
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}

# Looked up once: `map` over these is the fast path for directories with millions of files.
_is_link = os.DirEntry.is_symlink
_is_file = os.DirEntry.is_file


def list_local_directory(full_path: str, path: str, directories: list[str]) -> Iterator[WalkEntry]:
    """Yield what is in one directory.

    Args:
        full_path: The full path of the directory.
        path: Its path below the root of the store; '' for the root itself.
        directories: Receives the names of the subdirectories.

    Raises:
        OSError: If the directory cannot be listed, or is a link by now.
    """
    # Only the root itself may be a link. A directory that was replaced by a link meanwhile is not
    # followed.
    flags = OPEN_DIRECTORY | os.O_NOFOLLOW if path else OPEN_DIRECTORY
    descriptor = os.open(full_path, flags)
    try:
        with os.scandir(descriptor) as entries:
            is_empty = True
            while some_entries := list(islice(entries, _NAMES_AT_ONCE)):
                # Only checksum files without their files: an older vacuum has emptied the directory
                # otherwise.
                is_empty = is_empty and all(map(is_checksum_entry, some_entries))
                if any(map(_is_link, some_entries)) or not all(map(_is_file, some_entries)):
                    names = [entry.name for entry in some_entries if entry.is_file(follow_symlinks=False)]
                    special = _sort_out(some_entries, directories)
                else:
                    # Regular files only, in two thirds of the time.
                    names = [entry.name for entry in some_entries]
                    special = []
                yield WalkEntry(path, names, None, None, special)
    finally:
        os.close(descriptor)

    if is_empty:
        # The time is read after the directory was found empty, so that a new entry makes it look
        # newer. It is read by the name, which fails for a directory that was removed meanwhile.
        modified_ms = os.lstat(full_path).st_mtime_ns // 1_000_000
        yield WalkEntry(path, [], None, None, [], is_empty=True, directory_modified_ms=modified_ms)


def is_checksum_entry(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is one of Hadoop's checksum files."""
    return is_checksum_name(entry.name) and entry.is_file(follow_symlinks=False)


def _sort_out(entries: list[os.DirEntry[str]], directories: list[str]) -> list[str]:
    """Return the names that are neither directories nor regular files, and add those of directories to a list."""
    special = []
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            continue
        if entry.is_dir(follow_symlinks=False):
            directories.append(entry.name)
        elif entry.is_symlink() or _exists(entry):
            special.append(entry.name)
    return special


def _exists(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is still there.

    A file system that does not return kinds with names is asked for each kind, and denies all of
    them for an entry that was deleted meanwhile.
    """
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def stat_many(root: str, paths: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return sizes and times in milliseconds; -1 for a path that is not a regular file inside the root.

    Raises:
        OSError: If that cannot be determined.
    """
    sizes: list[int] = []
    times: list[int] = []
    for start in range(0, len(paths), _PATHS_AT_ONCE):
        some_paths = paths[start : start + _PATHS_AT_ONCE]
        stats = _stat_all_regular(root, some_paths)
        if stats is None:
            stats = [_stat_one(root, path) for path in some_paths]
        sizes += [size for size, _ in stats]
        times += [modified_ms for _, modified_ms in stats]
    return sizes, times


def _stat_all_regular(root: str, paths: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return sizes and times if every path is a regular file inside the root, else None.

    This is the usual case, and takes half the time of looking at each path: directories are checked for links once.
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


def _stat_one(root: str, path: str) -> tuple[int, int]:
    """Return size and time of one path, as `stat_many` does."""
    try:
        if has_link_in_path(root, path.rpartition("/")[0]):
            return -1, -1
        status = os.lstat(f"{root}/{path}")
    except ValueError:
        return -1, -1  # no file can have such a name
    except OSError as error:
        if error.errno in _NO_FILE:
            return -1, -1
        raise
    if not stat_module.S_ISREG(status.st_mode):
        return -1, -1
    return status.st_size, status.st_mtime_ns // 1_000_000


def has_link_in_path(root: str, path: str) -> bool:
    """Return whether a part of a path is a link or `..`, so that it may be outside the root. Raises OSError."""
    require_openable(path)
    names = path.split("/") if path else []
    if ".." in names:
        return True
    return any(os.path.islink(f"{root}/{'/'.join(names[:count])}") for count in range(1, len(names) + 1))
