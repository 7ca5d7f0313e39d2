"""Writing local files so that a name appears with its whole content, or not at all, and stays after a power cut.

A temporary file beside the target is written and synced, then gets the name by a hard link, which fails where the name
is taken. Its own name begins with a dot: what a killed process leaves is never taken for a file of a log or a table.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Self

from deltacli.storage.base import Created, Creation, Existed, Unknown, no_atomic_create
from deltacli.storage.drafts import Draft

DRAFT_PREFIX = "."
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_RENAME = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1


Swept = Callable[[str, int], None]
"""Receives a directory that a draft was made in, and the time of its file system in nanoseconds."""


def create(place: str, data: bytes, modified_ms: int | None = None, *, swept: Swept | None = None) -> Creation:
    """Return whether the file was created; raises OSError, or NoAtomicCreate, with nothing left behind."""
    with LocalDraft(place, swept) as draft:
        draft.write(data, modified_ms)
        return draft.publish()


def replace(place: str, data: bytes, modified_ms: int | None = None, *, swept: Swept | None = None) -> None:
    """Put a file in place of what was there; raises OSError. A fault after the rename says so by raising, too."""
    with LocalDraft(place, swept) as draft:
        draft.write(data, modified_ms)
        draft.publish(replace=True)


class LocalDraft:
    """An empty file beside the target, gone at the end whatever happens. Raises OSError, or NoAtomicCreate."""

    def __init__(self, target: str, swept: Swept | None = None) -> None:
        self._target = target
        self._directory = os.path.dirname(target)
        self._swept = swept
        self._draft: Draft | None = None
        self.place = ""

    def __enter__(self) -> Self:
        _make_directories(self._directory)
        self._draft = Draft(self._directory, DRAFT_PREFIX)
        self.place = self._draft.place
        if self._swept is not None:
            self._swept(self._directory, self._draft.changed_ns)
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def write(self, data: bytes, modified_ms: int | None = None) -> None:
        """Fill the file, and set when it was last written."""
        descriptor = os.open(self.place, os.O_WRONLY | os.O_CLOEXEC)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)  # a network file system may say only here that there is no space
        if modified_ms is not None:
            os.utime(self.place, ns=(modified_ms * 1_000_000,) * 2)

    def publish(self, *, replace: bool = False) -> Creation:
        """Make what was written durable, and give it the name."""
        _sync_file(self.place)
        if replace:
            os.replace(self.place, self._target)
            _sync_directory(self._directory)
            return Created()
        return _link(self.place, self._target)


def _link(temporary: str, place: str) -> Creation:
    try:
        _claim(temporary, place)
    except FileExistsError:
        # NFS: the answer to a link that was made may get lost, and the repeated request finds our own link.
        match _is_same(temporary, place):
            case None:
                return Unknown(f"{place} is there, and whether it is this one can't be looked at")
            case False:
                return Existed()
    except OSError as fault:
        match _is_same(temporary, place):
            case None:
                return Unknown(f"{os.strerror(fault.errno or 0).lower()}, and {place} can't be looked at")
            case False:
                raise
    try:
        _sync_directory(os.path.dirname(place))
    except OSError as fault:
        reason = os.strerror(fault.errno or 0).lower()
        return Unknown(f"{place} is there, but may not outlast a crash: its directory can't be synced ({reason})")
    return Created()


def _sync_file(place: str) -> None:
    descriptor = os.open(place, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(temporary: str, place: str) -> None:
    """Give the temporary file the name, failing with FileExistsError where it is taken."""
    try:
        os.link(temporary, place)
    except OSError as fault:
        if fault.errno not in _NO_LINKS:
            raise
        _rename_no_replace(temporary, place)


def _rename_no_replace(temporary: str, place: str) -> None:
    """The way out on file systems without hard links."""
    rename = _renameat2()
    if rename is None:
        raise no_atomic_create(place, "no hard links here, and no renameat2 on this system")
    if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(place), _RENAME_NOREPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code in _NO_RENAME:
        raise no_atomic_create(place, "this file system has neither hard links nor renames that don't replace")
    raise OSError(code, os.strerror(code), place)


@cache
def _renameat2() -> Any:  # Any: a function of the C library, or None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _is_same(temporary: str, place: str) -> bool | None:
    """True if both names are one file, None where the system doesn't say.

    A temporary file that is gone was renamed, whatever the answer was.
    """
    try:
        mine = os.stat(temporary)
    except OSError:
        return None
    try:
        return os.path.samestat(mine, os.lstat(place))
    except FileNotFoundError:
        return False
    except OSError:
        return None


def _make_directories(directory: str) -> None:
    """Make a directory and those above it, and sync each into the one that holds it."""
    if os.path.isdir(directory):
        return
    above = os.path.dirname(directory)
    if above != directory:
        _make_directories(above)
    with suppress(FileExistsError):
        os.mkdir(directory)
    _sync_directory(above)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as fault:
        if fault.errno != errno.EINVAL:  # a file system that can't sync directories does it by itself
            raise
    finally:
        os.close(descriptor)
