"""Translation of errors of the operating system about local files to errors of deltacli."""

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


def reason_of(fault: OSError) -> str:
    """Return why a call failed, in the words of the system and on one line."""
    text = os.strerror(fault.errno) if fault.errno else " ".join(str(fault).split())[:200]
    return text.lower()


def disk_fault(fault: OSError, name: str, place: str, what: str) -> StorageFailed:
    """Return the error of a file that could not be `what`, such as "written".

    `name` is the file's name in the message, `place` its path.
    """
    reason, said_first = reason_of(fault), f"{name} cannot be {what}: "
    if fault.errno in _DENIED:
        where = _visible(place if what == "read" else os.path.dirname(place))
        denied = PermissionRefused(reason, said_first=said_first, hint=f"ls -ld {shlex.quote(where)}")
        denied.place = where
        return denied
    if fault.errno in _NO_SPACE:
        return NoSpace(reason, said_first=said_first, hint=f"df -h {shlex.quote(_visible(os.path.dirname(place)))}")
    return StorageFailed(reason, said_first=said_first)


@contextmanager
def writing_faults(place: str, name: str) -> Iterator[None]:
    """Raise StorageFailed where the block cannot write the file at `place`, which errors refer to as `name`."""
    try:
        yield
    except OSError as fault:
        raise disk_fault(fault, name, place, "written") from fault


def _visible(place: str) -> str:
    """Return the path, or the nearest accessible directory above it, which lacks the permission."""
    while not os.path.lexists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return place


def is_no_file(place: str) -> bool:
    """Return whether a name is taken by something else than a file or a link to one, such as a directory."""
    try:
        return not (os.path.isfile(place) or stat.S_ISREG(os.lstat(place).st_mode))
    except (OSError, ValueError):
        return False
