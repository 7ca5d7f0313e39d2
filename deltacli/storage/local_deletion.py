"""Delete local files and empty directories.

If the store is bound to a directory, files are deleted relative to the descriptor of the open
directory. Even if another directory appears at the path, none of its files are deleted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from deltacli.core import errors
from deltacli.storage.directory_identity import BoundDirectory
from deltacli.storage.hadoop_checksums import remove_checksum_before_deletion
from deltacli.storage.local_files import ABSENT_CODES, translate_local_error
from deltacli.storage.local_listing import OPEN_DIRECTORY, is_checksum_entry
from deltacli.storage.os_errors import describe_os_error
from deltacli.storage.outcomes import Deleted, Deletion, Failed, Missing


def delete_local_file(full_path: str, directory: BoundDirectory | None, path: str) -> Deletion:
    """Delete a file and its Hadoop checksum file.

    Args:
        full_path: The absolute path of the file.
        directory: The root, if the store is bound to it.
        path: The path of the file, relative to the root.
    """
    try:
        remove_entry(_unlink_with_checksum, full_path, directory, path)
    except ValueError:
        # The path contains NUL, so no such file can exist.
        return Missing()
    except OSError as error:
        if error.errno in ABSENT_CODES:
            return Missing()
        if os.path.isdir(full_path):
            return Failed("it is a directory")
        translated = translate_local_error(error, full_path, "deleted")
        denied = translated if isinstance(translated, errors.PermissionRefused) else None
        return Failed(describe_os_error(error), denied)
    return Deleted()


def remove_entry(remove: Callable[..., None], full_path: str, directory: BoundDirectory | None, path: str) -> None:
    """Remove a file or directory, relative to the bound directory if there is one.

    Args:
        remove: Removes a path. It has the parameter `dir_fd`, like functions of `os`.
        full_path: The absolute path.
        directory: The root, if the store is bound to it.
        path: The path relative to the root.
    """
    if directory is None:
        remove(full_path)
    else:
        remove(path, dir_fd=directory.descriptor)


def remove_local_directory(full_path: str, *, dir_fd: int | None = None) -> None:
    """Remove a directory that is empty, or only contains Hadoop checksum files of missing files.

    Args:
        full_path: The directory, relative to `dir_fd` if that is given.
        dir_fd: The descriptor of an open directory.

    Raises:
        OSError: If the directory contains anything else. Nothing is removed then.
        ValueError: If the path contains NUL.
    """
    try:
        os.rmdir(full_path, dir_fd=dir_fd)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        _delete_orphaned_checksums(full_path, dir_fd)
        os.rmdir(full_path, dir_fd=dir_fd)


def _delete_orphaned_checksums(full_path: str, dir_fd: int | None) -> None:
    """Delete all files of a directory, if all of them are checksum files. Raises OSError."""
    descriptor = os.open(full_path, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        with os.scandir(descriptor) as entries:
            checksum_names = [entry.name for entry in entries if is_checksum_entry(entry)]
        if len(checksum_names) == len(os.listdir(descriptor)):
            for name in checksum_names:
                os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _unlink_with_checksum(full_path: str, *, dir_fd: int | None = None) -> None:
    """Delete a checksum file and its file.

    In this order, because a later file with the same name must not have an old checksum file.
    """
    remove_checksum_before_deletion(full_path, dir_fd=dir_fd)
    os.unlink(full_path, dir_fd=dir_fd)
