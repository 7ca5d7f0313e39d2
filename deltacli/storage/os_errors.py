"""Translation of errors of the operating system about local files into errors of deltacli."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from deltacli.core.errors import NoSpace, PermissionRefused, StorageFailed

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def describe_os_error(error: OSError) -> str:
    """Return the reason of an error in words, such as "no space left on device"."""
    text = os.strerror(error.errno) if error.errno else " ".join(str(error).split())[:200]
    return text.lower()


def translate_os_error(error: OSError, name: str, full_path: str, verb: str) -> StorageFailed:
    """Return the error for a local file that could not be read, written or deleted.

    Args:
        error: The error of the system.
        name: What messages call the file.
        full_path: Its full path.
        verb: What could not be done to it, as a participle: "written".
    """
    reason = describe_os_error(error)
    preamble = f"{name} cannot be {verb}: "

    if error.errno in _DENIED:
        # To create or delete a file, the directory must permit it; the hint shows what lacks the
        # permission.
        denied_path = _find_accessible(full_path if verb == "read" else os.path.dirname(full_path))
        refusal = PermissionRefused(reason, preamble=preamble, hint=f"ls -ld {shlex.quote(denied_path)}")
        refusal.denied_path = denied_path
        return refusal

    if error.errno in _NO_SPACE:
        directory = _find_accessible(os.path.dirname(full_path))
        return NoSpace(reason, preamble=preamble, hint=f"df -h {shlex.quote(directory)}")

    return StorageFailed(reason, preamble=preamble)


@contextmanager
def writing_faults(full_path: str, name: str) -> Iterator[None]:
    """Raise StorageFailed if the block cannot write the file at `full_path`, which errors call `name`."""
    try:
        yield
    except OSError as error:
        raise translate_os_error(error, name, full_path, "written") from error


def _find_accessible(full_path: str) -> str:
    """Return the path, or the nearest directory above it that can be looked at: that one lacks the permission."""
    while not os.path.lexists(full_path) and os.path.dirname(full_path) != full_path:
        full_path = os.path.dirname(full_path)
    return full_path


def is_not_a_file(full_path: str) -> bool:
    """Return whether a name is taken by something else than a file or a link to one, such as a directory."""
    try:
        return not (os.path.isfile(full_path) or stat.S_ISREG(os.lstat(full_path).st_mode))
    except (OSError, ValueError):
        return False
