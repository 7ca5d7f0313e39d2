"""Temporary files that are locked while their writer runs, and the removal of abandoned ones.

The temporary files of killed runs must be removed, and those of running ones must not. A process id
in the name proves nothing, because ids are reused and a file system may be shared by several
machines. Instead:

* The writer holds a lock on its draft (`flock`), which the kernel releases when the process ends,
  however it ends.
* The name contains a tag of the running kernel and of the file system: `.3f2a…9c.<tag>.tmp`.

A later run that gets the lock knows that the writer is gone, if the tag is that of its own kernel:
there the writer would hold the lock. In every other case, such as on a network file system, after a
restart, or without locks, a draft is abandoned if it was not changed for a day.

See docs/decisions/0069-locked-drafts.md.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from uuid import uuid4

from deltacli.core import tempfiles
from deltacli.storage.directory_identity import running_kernel

# Age after which an unchanged draft is abandoned, by the clock of the file system. Ours may be
# wrong.
OLD_NS = 24 * 3_600 * 1_000_000_000

_TAG_DIGITS = 12
_NO_TAG = "0" * _TAG_DIGITS
_TAIL = rf"[0-9a-f]{{32}}(?:\.(?P<tag>[0-9a-f]{{{_TAG_DIGITS}}}))?\.tmp"

# Codes of a file that another process has locked.
_LOCKED = {errno.EAGAIN, errno.EACCES}


class Lock(Enum):
    """The result of an attempt to lock a draft.

    Attributes:
        TAKEN: The lock is ours.
        HELD: The draft is locked by its writer, or by a run that is about to remove it.
        UNSUPPORTED: The file system has no locks.
    """

    TAKEN = auto()
    HELD = auto()
    UNSUPPORTED = auto()


class LockedDraft:
    """An empty file in a directory, locked until it is closed. Raises OSError.

    Attributes:
        local_path: The path of the file.
    """

    def __init__(self, directory: str, prefix: str, mode: int = 0o666) -> None:
        self.local_path = ""
        self._descriptor = -1
        while self._descriptor < 0:
            self.local_path = f"{directory}/{prefix}{uuid4().hex}.{make_tag(directory)}.tmp"
            # Before the file exists: an interruption right after its creation must find the path.
            tempfiles.remember(Path(self.local_path))
            try:
                self._descriptor = create_locked_file(self.local_path, mode)
            except OSError:
                # Only after an error. After an interruption the file may exist, and its path must
                # stay remembered.
                tempfiles.forget(Path(self.local_path))
                raise

    @property
    def changed_ns(self) -> int:
        """Return the time of the last change by the clock of the file system."""
        return os.fstat(self._descriptor).st_ctime_ns

    def sync(self) -> None:
        """Write the content to the disk, also of a file that may not be opened again."""
        if os.path.samestat(os.fstat(self._descriptor), os.stat(self.local_path)):
            os.fsync(self._descriptor)
            return

        # A writer has deleted the file and created it anew. The content is in the new one.
        descriptor = os.open(self.local_path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Remove the file, unless it was renamed, and release the lock."""
        with suppress(OSError):  # renamed, or not removable: both are harmless
            os.unlink(self.local_path)
        tempfiles.forget(Path(self.local_path))
        with suppress(OSError):
            os.close(self._descriptor)


def sweep(directory: str, prefix: str, now_ns: int) -> int:
    """Remove the abandoned drafts of a directory.

    Inaccessible files, and files that are not drafts, are kept.

    Args:
        directory: Where to look.
        prefix: How the names of the drafts begin.
        now_ns: The time of the file system.

    Returns:
        The number of drafts that were removed.
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
            removed += _remove_if_abandoned(directory, match[0], match["tag"], now_ns)
    return removed


def is_abandoned(lock: Lock, tag: str | None, own_tag: str, age_ns: int) -> bool:
    """Return whether the writer of a draft is gone.

    Args:
        lock: The result of the attempt to lock the draft.
        tag: The tag in its name; None for a name without one.
        own_tag: The tag of this kernel and the file system.
        age_ns: The time since the last change.
    """
    if lock is Lock.HELD:
        return False
    was_lock_released = lock is Lock.TAKEN and tag == own_tag != _NO_TAG
    return was_lock_released or age_ns >= OLD_NS


def _remove_if_abandoned(directory: str, name: str, tag: str | None, now_ns: int) -> bool:
    """Remove a draft if it is abandoned, and return whether it was. Raises OSError."""
    full_path = f"{directory}/{name}"
    descriptor = os.open(full_path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return False
        # The time of the last change counts, because writers set the time of the last modification.
        age_ns = now_ns - status.st_ctime_ns
        if not is_abandoned(_lock(descriptor), tag, make_tag(directory), age_ns):
            return False
        # The name may lead to another file by now.
        if not os.path.samestat(status, os.lstat(full_path)):
            return False
        # The lock is still held: a writer that has just created this file sees that it lost its
        # name.
        os.unlink(full_path)
        return True
    finally:
        os.close(descriptor)


def create_locked_file(full_path: str, mode: int) -> int:
    """Return the descriptor of a new locked file; -1 if a sweeping run was faster.

    Between the creation and the lock, a sweeping run may lock and remove the file. Then the lock is
    held, or the file has no name (no link) any more, and the caller creates another one.
    """
    descriptor = os.open(full_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        if _lock(descriptor) is not Lock.HELD and os.fstat(descriptor).st_nlink:
            return descriptor
    except BaseException:
        os.close(descriptor)
        os.unlink(full_path)
        raise

    os.close(descriptor)
    with suppress(OSError):
        os.unlink(full_path)
    return -1


def _lock(descriptor: int) -> Lock:
    """Try to lock a file, without waiting."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return Lock.HELD if error.errno in _LOCKED else Lock.UNSUPPORTED
    return Lock.TAKEN


def make_tag(directory: str) -> str:
    """Return a text that identifies the running kernel since its start, and the file system of a directory."""
    kernel = running_kernel()
    if not kernel:
        return _NO_TAG  # only the age of a draft is used then
    import hashlib

    return hashlib.sha256(f"{kernel} {os.stat(directory).st_dev}".encode()).hexdigest()[:_TAG_DIGITS]
