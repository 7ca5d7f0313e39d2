"""Translate errors of the operating system about local files into deltacli's errors."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from deltacli.core.errors import NoSpace, PermissionRefused, StorageFailed

_NO_SPACE_ERRORS = {errno.ENOSPC, errno.EDQUOT}
_DENIED_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS}


def describe_os_error(error: OSError) -> str:
    """Return the message of an error, such as "no space left on device"."""
    text = os.strerror(error.errno) if error.errno else " ".join(str(error).split())[:200]
    return text.lower()


def translate_os_error(error: OSError, name: str, full_path: str, verb: str) -> StorageFailed:
    """Return deltacli's error for a local file that cannot be read, written or deleted.

    Args:
        error: The error of the system.
        name: The name of the file in messages.
        full_path: The absolute path of the file.
        verb: The participle of the action that failed, such as "written".
    """
    reason = describe_os_error(error)
    preamble = f"{name} cannot be {verb}: "

    if error.errno in _DENIED_ERRORS:
        # Creating or deleting a file requires permissions on its directory.
        denied_path = _find_existing_ancestor(full_path if verb == "read" else os.path.dirname(full_path))
        refusal = PermissionRefused(reason, preamble=preamble, hint=f"ls -ld {shlex.quote(denied_path)}")
        refusal.denied_path = denied_path
        return refusal

    if error.errno in _NO_SPACE_ERRORS:
        directory = _find_existing_ancestor(os.path.dirname(full_path))
        return NoSpace(reason, preamble=preamble, hint=f"df -h {shlex.quote(directory)}")

    return StorageFailed(reason, preamble=preamble)


@contextmanager
def translate_write_errors(full_path: str, name: str) -> Iterator[None]:
    """Translate an OSError in the block into the error for a file that cannot be written.

    Args:
        full_path: The absolute path of the file.
        name: The name of the file in messages.

    Raises:
        StorageFailed: If the block raises OSError.
    """
    try:
        yield
    except OSError as error:
        raise translate_os_error(error, name, full_path, "written") from error


def _find_existing_ancestor(full_path: str) -> str:
    """Return a path, or its nearest parent directory that exists and can be accessed."""
    while not os.path.lexists(full_path) and os.path.dirname(full_path) != full_path:
        full_path = os.path.dirname(full_path)
    return full_path


def is_not_a_file(full_path: str) -> bool:
    """Return whether a path exists, but is neither a regular file nor a link to one.

    Examples are directories, pipes and broken links.
    """
    try:
        return not (os.path.isfile(full_path) or stat.S_ISREG(os.lstat(full_path).st_mode))
    except (OSError, ValueError):
        return False
