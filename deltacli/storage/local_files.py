"""Opening local files, and their errors."""

from __future__ import annotations

import errno
import os
import shlex
import stat as stat_module
from urllib.parse import quote

from deltacli.core import errors
from deltacli.storage.os_errors import translate_os_error

ABSENT_CODES = {errno.ENOENT, errno.ENOTDIR}

# In bytes. No file system in use permits a longer name.
_LONGEST_NAME = 255


def local_uri(root: str) -> str:
    """Return the `file:` URI of a directory. Bytes of its name that are not UTF-8 are percent-encoded as they are."""
    return "file://" + quote(os.fsencode(root))


def open_regular_file(full_path: str, flags: int = 0) -> int:
    """Open a regular file for reading and return its descriptor.

    Any other kind is refused, because reading a pipe or a device could block forever. `O_NONBLOCK`
    lets the call that opens it return at once; it means nothing for regular files.
    """
    descriptor = os.open(full_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if stat_module.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor

    os.close(descriptor)
    raise errors.StorageFailed(
        "it is not a regular file", preamble=f"{full_path} cannot be read: ", hint=f"ls -ld {shlex.quote(full_path)}"
    )


def translate_local_error(error: OSError | ValueError, full_path: str, verb: str = "read") -> errors.StorageFailed:
    """Return the error of deltacli for a local file.

    Args:
        error: The error of the system. Python raises ValueError for a name that no file can have,
            such as one with NUL.
        full_path: The full path of the file.
        verb: What could not be done to it, as a participle: "written".
    """
    if isinstance(error, ValueError):
        return errors.FileMissing(f"{full_path} does not exist")
    if verb == "read" and is_absent(error, full_path):
        return errors.FileMissing(f"{full_path} does not exist")
    return translate_os_error(error, full_path, full_path, verb)


def is_absent(error: OSError, full_path: str) -> bool:
    """Return whether an error means that a path does not exist.

    That includes a path with a name that is too long for any file. A path that is too long as a whole may well exist.
    """
    if error.errno == errno.ENAMETOOLONG:
        return any(len(os.fsencode(name)) > _LONGEST_NAME for name in full_path.split("/"))
    return error.errno in ABSENT_CODES
