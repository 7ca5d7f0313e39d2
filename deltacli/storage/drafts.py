"""Temporary files of writers, and their removal after a writer was killed.

A draft is locked while its writer runs, and its name identifies the running kernel and the file system. A later run on
the same kernel can therefore tell by a free lock that the draft is abandoned. Where that is not possible, as on a
network file system or after a restart, a draft is deleted if it was not changed for a day.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Self
from uuid import uuid4

from deltacli.core import tempfiles
from deltacli.core.errors import StorageFailed
from deltacli.storage.base import running_kernel
from deltacli.storage.outcomes import Created, Creation

OLD_NS = 24 * 3_600 * 1_000_000_000
"""Age after which an unchanged draft is abandoned, by the clock of the file system."""

_TAG_DIGITS = 12
_NO_TAG = "0" * _TAG_DIGITS
_TAIL = rf"[0-9a-f]{{32}}(?:\.(?P<tag>[0-9a-f]{{{_TAG_DIGITS}}}))?\.tmp"
_BUSY = {errno.EAGAIN, errno.EACCES}
_PREFIX = "deltacli-"


class Lock(Enum):
    """The outcome of an attempt to lock a draft."""

    TAKEN = auto()
    HELD = auto()
    """It is locked by its writer, or by a run that is about to remove it."""
    UNSUPPORTED = auto()


class LockedDraft:
    """An empty file with a name prefix in a directory, locked until it is closed. Raises OSError."""

    def __init__(self, directory: str, prefix: str, mode: int = 0o666) -> None:
        self.place = ""
        self._descriptor = -1
        while self._descriptor < 0:
            self.place = f"{directory}/{prefix}{uuid4().hex}.{_tag(directory)}.tmp"
            tempfiles.remember(Path(self.place))
            try:
                self._descriptor = _make(self.place, mode)
            finally:
                if self._descriptor < 0:
                    tempfiles.forget(Path(self.place))

    @property
    def changed_ns(self) -> int:
        """Return the time of the last change by the clock of the file system."""
        return os.fstat(self._descriptor).st_ctime_ns

    def sync(self) -> None:
        """Write the content to the disk, also of a file that may not be opened again."""
        if os.path.samestat(os.fstat(self._descriptor), os.stat(self.place)):
            os.fsync(self._descriptor)
            return
        descriptor = os.open(self.place, os.O_RDWR | os.O_CLOEXEC)  # a writer has made it anew
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Remove the file, unless it was renamed, and release the lock."""
        with suppress(OSError):  # renamed, or not removable: both are harmless
            os.unlink(self.place)
        tempfiles.forget(Path(self.place))
        with suppress(OSError):
            os.close(self._descriptor)


def sweep(directory: str, prefix: str, now_ns: int) -> int:
    """Remove the abandoned drafts of a directory whose names begin with a prefix, and return their number.

    `now_ns` is the time of the file system. Inaccessible files and files that are not drafts are kept.
    """
    pattern = re.compile(re.escape(prefix) + _TAIL)
    try:
        with os.scandir(directory) as entries:
            matches = [match for entry in entries if (match := pattern.fullmatch(entry.name))]
    except OSError:
        return 0
    removed = 0
    for match in matches:
        with suppress(OSError):
            removed += _remove_abandoned(directory, match[0], match["tag"], now_ns)
    return removed


def is_abandoned(lock: Lock, tag: str | None, here: str, age_ns: int) -> bool:
    """Return True for an abandoned draft: `tag` is that of its name, `here` that of this kernel."""
    if lock is Lock.HELD:
        return False
    is_gone = lock is Lock.TAKEN and tag == here != _NO_TAG
    return is_gone or age_ns >= OLD_NS


def _remove_abandoned(directory: str, name: str, tag: str | None, now_ns: int) -> bool:
    place = f"{directory}/{name}"
    descriptor = os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        # The change time, because a writer sets the modification time.
        age_ns = now_ns - status.st_ctime_ns
        is_due = stat.S_ISREG(status.st_mode) and is_abandoned(_lock(descriptor), tag, _tag(directory), age_ns)
        if is_due and os.path.samestat(status, os.lstat(place)):
            os.unlink(place)  # while the lock is held: a writer that has just started notices that its file is deleted
            return True
        return False
    finally:
        os.close(descriptor)


def _make(place: str, mode: int) -> int:
    """Return the descriptor of a new locked file, -1 where a cleaning run was faster."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        if _lock(descriptor) is not Lock.HELD and os.fstat(descriptor).st_nlink:
            return descriptor
    except BaseException:
        os.close(descriptor)
        os.unlink(place)
        raise
    os.close(descriptor)
    with suppress(OSError):
        os.unlink(place)
    return -1


def _lock(descriptor: int) -> Lock:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        return Lock.HELD if fault.errno in _BUSY else Lock.UNSUPPORTED
    return Lock.TAKEN


def _tag(directory: str) -> str:
    """Return a text that identifies the running kernel since its start, and the file system of a directory."""
    kernel = running_kernel()
    if not kernel:
        return _NO_TAG  # only the age is used
    import hashlib

    return hashlib.sha256(f"{kernel} {os.stat(directory).st_dev}".encode()).hexdigest()[:_TAG_DIGITS]


class ScratchDraft:
    """A file in the directory for temporary files (`TMPDIR`), which is always removed at the end."""

    def __init__(self, create: Callable[[str], Creation], replace: Callable[[str], None]) -> None:
        """`create` and `replace` get the local path of what they send."""
        self._create, self._replace = create, replace
        self.place = ""
        self._draft: LockedDraft | None = None

    def __enter__(self) -> Self:
        import tempfile

        try:
            directory = tempfile.gettempdir()
            self._draft = LockedDraft(directory, _PREFIX, mode=0o600)
            self.place = self._draft.place
            sweep(directory, _PREFIX, self._draft.changed_ns)
        except OSError as fault:
            raise StorageFailed(
                f"cannot create a temporary file: {(fault.strerror or str(fault)).lower()}",
                hint="set TMPDIR to a directory with free space",
            ) from fault
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def publish(self, *, replace: bool = False) -> Creation:
        """Send the file."""
        if not replace:
            return self._create(self.place)
        self._replace(self.place)
        return Created()
