"""Open local files, and translate the errors."""

from __future__ import annotations

import errno
import os
import shlex
import stat as stat_module
from urllib.parse import quote

from deltacli.core import errors
from deltacli.storage.os_errors import translate_os_error

ABSENT_CODES = {errno.ENOENT, errno.ENOTDIR}
"""Error codes for a path that does not exist."""

# The maximum number of bytes of a file name in all common file systems.
_MAX_NAME_BYTES = 255


def local_uri(root: str) -> str:
    """Return the `file:` URI of an absolute path. Bytes that are not UTF-8 are percent-encoded."""
    return "file://" + quote(os.fsencode(root))


def open_regular_file(full_path: str, flags: int = 0) -> int:
    """Open a regular file for reading.

    Reading from a pipe or a device could block forever, so these are rejected. `O_NONBLOCK` is
    needed because even opening a pipe blocks. It has no effect on regular files.

    Args:
        full_path: The path.
        flags: Additional flags for `os.open`, such as `O_NOFOLLOW`.

    Returns:
        The file descriptor.

    Raises:
        OSError: If the file cannot be opened.
        StorageFailed: If it is not a regular file.
    """
    descriptor = os.open(full_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if stat_module.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor

    os.close(descriptor)
    raise errors.StorageFailed(
        "it is not a regular file", preamble=f"{full_path} cannot be read: ", hint=f"ls -ld {shlex.quote(full_path)}"
    )


def translate_local_error(error: OSError | ValueError, full_path: str, verb: str = "read") -> errors.StorageFailed:
    """Return deltacli's error for a local file.

    Args:
        error: The error of the system. Python raises ValueError for a path that contains NUL; no
            such file can exist.
        full_path: The path of the file.
        verb: The participle of the action that failed, such as "written".
    """
    if isinstance(error, ValueError):
        return errors.FileMissing(f"{full_path} does not exist")
    if verb == "read" and is_absent(error, full_path):
        return errors.FileMissing(f"{full_path} does not exist")
    return translate_os_error(error, full_path, full_path, verb)


def is_absent(error: OSError, full_path: str) -> bool:
    """Return whether an error means that a path does not exist.

    ENAMETOOLONG has two causes. If a file name is longer than file systems allow, no such file can
    exist. If only the whole path is too long for the system call, the file may exist.
    """
    if error.errno == errno.ENAMETOOLONG:
        return any(len(os.fsencode(name)) > _MAX_NAME_BYTES for name in full_path.split("/"))
    return error.errno in ABSENT_CODES
