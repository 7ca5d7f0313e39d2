"""Writing local files atomically and durably: a name appears with its complete content, or not at all.

A temporary file next to the target is written and synced, then linked to the name by a hard link, which fails if the
name exists. Its own name begins with a dot, so that a leftover is not mistaken for a file of a log or a table.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Self

from deltacli.core.errors import StorageFailed
from deltacli.storage.base import no_atomic_create
from deltacli.storage.disk_faults import is_no_file
from deltacli.storage.drafts import LockedDraft
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown

DRAFT_PREFIX = "."
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_RENAME = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_COPY = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF}
"""Codes of systems and pairs of file systems between which the kernel does not copy."""
_COPIED_BYTES, _READ_BYTES = 1 << 30, 1 << 20
_PERMISSIONS, _OF_THE_GROUP = 0o777, 0o070
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1


Swept = Callable[[str, int], None]
"""Called with the directory of a new draft, and the time of its file system in nanoseconds."""
Here = Callable[[], None]
"""Called before a file gets its name; raises Refused where its directory is not that of the store any more."""


def create(
    place: str, data: bytes, modified_ms: int | None = None, *, swept: Swept | None = None, here: Here | None = None
) -> Creation:
    """Return whether the file was created; raises OSError, or NoAtomicCreate, with nothing left behind."""
    with LocalDraft(place, swept, here) as draft:
        draft.write(data, modified_ms)
        return draft.publish()


def replace(
    place: str, data: bytes, modified_ms: int | None = None, *, swept: Swept | None = None, here: Here | None = None
) -> None:
    """Write a file, replacing an existing one; raises OSError, also for a fault after the rename."""
    with LocalDraft(place, swept, here) as draft:
        draft.write(data, modified_ms)
        draft.publish(replace=True)


def create_copy(source: int, place: str, *, swept: Swept | None = None, here: Here | None = None) -> Creation:
    """Create a file with the content, the time and the permissions of an open one, and where this user may set them its
    owner and group; where the file system can, both share their blocks.

    Raises OSError, StorageFailed where the source changes meanwhile, or NoAtomicCreate.
    """
    status = os.fstat(source)
    with LocalDraft(place, swept, here) as draft:
        descriptor = os.open(draft.place, os.O_WRONLY | os.O_CLOEXEC)
        try:
            take_permissions(descriptor, status)  # before the content: nobody else may open it meanwhile
            copied = _copy(source, descriptor)
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here
        after = os.fstat(source)
        if copied != status.st_size or (after.st_size, after.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            raise StorageFailed(f"{place} cannot be written: the file to copy was changed meanwhile")
        os.utime(draft.place, ns=(status.st_atime_ns, status.st_mtime_ns))
        return draft.publish()


def take_permissions(file: int | str, status: os.stat_result) -> None:
    """Give a new file the owner, the group and the permissions of another one, as far as this user may. Where the group
    is another one, nobody loses what a new file would allow.
    """
    made = os.stat(file)
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(OSError):
            os.chown(file, owner, group)
    mode = status.st_mode & _PERMISSIONS
    if mode & _OF_THE_GROUP and os.stat(file).st_gid != status.st_gid:
        mode |= made.st_mode & _PERMISSIONS
    with suppress(OSError):
        os.chmod(file, mode)


def _copy(source: int, target: int) -> int:
    """Copy a file from its start, and return the number of bytes."""
    copied = 0
    try:
        while count := os.copy_file_range(source, target, _COPIED_BYTES, copied, copied):
            copied += count
    except (AttributeError, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno not in _NO_COPY:
            raise
        while data := os.pread(source, _READ_BYTES, copied):
            copied += os.pwrite(target, data, copied)
    return copied


class LocalDraft:
    """Yield an empty file next to the target, which is removed in any case. Raises OSError, or NoAtomicCreate."""

    def __init__(self, target: str, swept: Swept | None = None, here: Here | None = None) -> None:
        self._target = target
        self._here = here
        self._directory = os.path.dirname(target)
        self._swept = swept
        self._draft: LockedDraft | None = None
        self.place = ""

    def __enter__(self) -> Self:
        _make_directories(self._directory)
        self._draft = LockedDraft(self._directory, DRAFT_PREFIX)
        self.place = self._draft.place
        if self._swept is not None:
            self._swept(self._directory, self._draft.changed_ns)
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def write(self, data: bytes, modified_ms: int | None = None) -> None:
        """Write the file, and set its modification time."""
        descriptor = os.open(self.place, os.O_WRONLY | os.O_CLOEXEC)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here
        if modified_ms is not None:
            os.utime(self.place, ns=(modified_ms * 1_000_000,) * 2)

    def publish(self, *, replace: bool = False) -> Creation:
        """Sync the file and link it to the name."""
        assert self._draft is not None
        self._draft.sync()
        if self._here is not None:
            self._here()  # a directory that was switched before is found here, one that is switched later has no draft
        if replace:
            os.replace(self.place, self._target)
            _sync_directory(self._directory)
            return Created()
        return _link(self.place, self._target)


def _link(temporary: str, place: str) -> Creation:
    try:
        _claim(temporary, place)
    except FileExistsError:
        if is_no_file(place):
            raise StorageFailed(
                f"{place} cannot be written: it exists, but is not a file", hint=f"ls -ld {shlex.quote(place)}"
            ) from None
        # NFS: the answer to a successful link may get lost, and the repeated request finds the link it made itself.
        match _is_same(temporary, place):
            case None:
                return Unknown(f"{place} exists, but it cannot be determined whether it is this file")
            case False:
                return Existed()
    except OSError as fault:
        match _is_same(temporary, place):
            case None:
                return Unknown(f"{os.strerror(fault.errno or 0).lower()}, and {place} cannot be accessed")
            case False:
                raise
    try:
        _sync_directory(os.path.dirname(place))
    except OSError as fault:
        reason = os.strerror(fault.errno or 0).lower()
        return Unknown(f"{place} exists but may not survive a crash: its directory cannot be synced ({reason})")
    return Created()


def _claim(temporary: str, place: str) -> None:
    """Link the temporary file to the name. Raises FileExistsError where it exists."""
    try:
        os.link(temporary, place)
    except OSError as fault:
        if fault.errno not in _NO_LINKS:
            raise
        _rename_no_replace(temporary, place)


def _rename_no_replace(temporary: str, place: str) -> None:
    """Rename without replacing, for file systems without hard links."""
    rename = _renameat2()
    if rename is None:
        raise no_atomic_create(place, "the file system has no hard links, and this system has no renameat2")
    if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(place), _RENAME_NOREPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code in _NO_RENAME:
        raise no_atomic_create(place, "the file system supports neither hard links nor renames without replacing")
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
    """Return True if both names are one file, None where that cannot be determined.

    A missing temporary file was renamed, whatever the answer was.
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
    """Create a directory and its parents, and sync each parent."""
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
        if fault.errno != errno.EINVAL:  # file systems that cannot sync directories do so automatically
            raise
    finally:
        os.close(descriptor)
