"""Writing local files so that a name appears with its whole content, or not at all, and stays after a power cut.

A temporary file beside the target is written and synced, then gets the name by a hard link, which fails where the name
is taken. Its own name begins with a dot: what a killed process leaves is never taken for a file of a log or a table.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from functools import cache
from typing import Any
from uuid import uuid4

from deltacli.storage.base import Created, Creation, Existed, Unknown, no_atomic_create

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_RENAME = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1


def create(place: str, data: bytes, modified_ms: int | None = None) -> Creation:
    """Return whether the file was created; raises OSError, or NoAtomicCreate, with nothing left behind."""
    with _Temporary(place, data, modified_ms) as temporary:
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


def replace(place: str, data: bytes, modified_ms: int | None = None) -> None:
    """Put a file in place of what was there; raises OSError. A fault after the rename says so by raising, too."""
    with _Temporary(place, data, modified_ms) as temporary:
        os.replace(temporary, place)
    _sync_directory(os.path.dirname(place))


class _Temporary:
    """A synced file beside the target, gone at the end whatever happens."""

    def __init__(self, place: str, data: bytes, modified_ms: int | None) -> None:
        self._directory = os.path.dirname(place)
        self._data = data
        self._modified_ms = modified_ms
        self._path = f"{self._directory}/.{uuid4().hex}.tmp"

    def __enter__(self) -> str:
        _make_directories(self._directory)
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                rest = memoryview(self._data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                if self._modified_ms is not None:
                    os.utime(self._path, ns=(self._modified_ms * 1_000_000,) * 2)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)  # a network file system may say only here that there is no space
        except BaseException:
            self._remove()
            raise
        return self._path

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        with suppress(OSError):  # renamed away, never made, or stuck: harmless either way
            os.unlink(self._path)


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
