"""Temporary files that are locked by their writer, so that files of killed processes can be removed.

If deltacli is killed, its temporary files remain. The next run removes them, but must not remove the
temporary files of other running processes. A process id in the file name would not help: ids are
reused, and the directory may be on a file system that several machines share. Instead:

* The writer locks its draft with `flock`. The kernel releases the lock when the process ends, even if
  it is killed.
* The file name contains a tag of the running kernel and the file system: `.3f2a…9c.<tag>.tmp`

If the tag is that of this kernel and the file is not locked, its writer is no longer running. On
network file systems without locks, after a restart, or for drafts of other machines, the lock proves
nothing. There a draft is abandoned if it has not changed for a day.

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

# Measured by the clock of the file system. The clock of this machine may be wrong.
ABANDONED_AFTER_NS = 24 * 3_600 * 1_000_000_000

_TAG_DIGITS = 12
_NO_TAG = "0" * _TAG_DIGITS
_NAME_AFTER_PREFIX = rf"[0-9a-f]{{32}}(?:\.(?P<tag>[0-9a-f]{{{_TAG_DIGITS}}}))?\.tmp"

# The error codes of flock if another process has locked the file.
_LOCKED_ERRORS = {errno.EAGAIN, errno.EACCES}


class LockResult(Enum):
    """The result of an attempt to lock a draft.

    Attributes:
        TAKEN: This process holds the lock now.
        HELD: The writer holds the lock, or another process that is removing the draft.
        UNSUPPORTED: The file system does not support locks.
    """

    TAKEN = auto()
    HELD = auto()
    UNSUPPORTED = auto()


class LockedDraft:
    """A new, empty temporary file that is locked until it is closed. All methods raise OSError.

    Attributes:
        local_path: The path of the file.
    """

    def __init__(self, directory: str, prefix: str, mode: int = 0o666) -> None:
        """Create the file.

        Args:
            directory: The directory of the file.
            prefix: The beginning of the file name.
            mode: The permissions of the file, reduced by the umask.
        """
        self.local_path = ""
        self._descriptor = -1
        while self._descriptor < 0:
            self.local_path = f"{directory}/{prefix}{uuid4().hex}.{make_tag(directory)}.tmp"
            # Register the path before the file is created: if a signal arrives right after the
            # creation, the signal handler must know the file to remove.
            tempfiles.remember(Path(self.local_path))
            try:
                self._descriptor = create_locked_file(self.local_path, mode)
            except OSError:
                # The file was not created. After a KeyboardInterrupt it may have been created, so the
                # path stays registered.
                tempfiles.forget(Path(self.local_path))
                raise

    @property
    def changed_ns(self) -> int:
        """The time of the last change, by the clock of the file system."""
        return os.fstat(self._descriptor).st_ctime_ns

    def sync(self) -> None:
        """Write the content of the file to the disk."""
        if os.path.samestat(os.fstat(self._descriptor), os.stat(self.local_path)):
            os.fsync(self._descriptor)
            return

        # A library has deleted the file and created it again. The content is in the new file.
        descriptor = os.open(self.local_path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Remove the file if it still has its temporary name, and release the lock."""
        # A published draft was renamed. A draft that cannot be removed is harmless.
        with suppress(OSError):
            os.unlink(self.local_path)
        tempfiles.forget(Path(self.local_path))
        with suppress(OSError):
            os.close(self._descriptor)


def remove_abandoned_drafts(directory: str, prefix: str, now_ns: int) -> int:
    """Remove the drafts whose writers are no longer running.

    Other files, and drafts that cannot be accessed, are not removed.

    Args:
        directory: The directory of the drafts.
        prefix: The beginning of their names.
        now_ns: The current time of the file system in epoch nanoseconds.

    Returns:
        The number of removed drafts.
    """
    pattern = re.compile(re.escape(prefix) + _NAME_AFTER_PREFIX)
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


def is_abandoned(lock: LockResult, tag: str | None, own_tag: str, age_ns: int) -> bool:
    """Return whether the writer of a draft is no longer running.

    Args:
        lock: The result of an attempt to lock the draft.
        tag: The tag in the name of the draft; None if it has none.
        own_tag: The tag of this kernel and the file system.
        age_ns: The time since the last change of the draft.
    """
    if lock is LockResult.HELD:
        return False
    has_writer_ended = lock is LockResult.TAKEN and tag == own_tag != _NO_TAG
    return has_writer_ended or age_ns >= ABANDONED_AFTER_NS


def _remove_if_abandoned(directory: str, name: str, tag: str | None, now_ns: int) -> bool:
    """Remove a draft if its writer is no longer running.

    Args:
        directory: The directory of the draft.
        name: The name of the draft.
        tag: The tag in the name; None if it has none.
        now_ns: The current time of the file system.

    Returns:
        True if the draft was removed.

    Raises:
        OSError: If the draft cannot be opened or removed.
    """
    full_path = f"{directory}/{name}"
    descriptor = os.open(full_path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return False

        # Writers may set the modification time (mtime). The time of the last change (ctime) cannot
        # be set.
        age_ns = now_ns - status.st_ctime_ns
        if not is_abandoned(_try_lock(descriptor), tag, make_tag(directory), age_ns):
            return False

        # Another process may have replaced the file since it was opened.
        if not os.path.samestat(status, os.lstat(full_path)):
            return False

        # The lock is still held. A writer that has just created this file fails to lock it, and
        # creates another one (`create_locked_file`).
        os.unlink(full_path)
        return True
    finally:
        os.close(descriptor)


def create_locked_file(full_path: str, mode: int) -> int:
    """Create a file and lock it.

    Between both steps, another process may lock the file and remove it as abandoned. The lock then
    fails, or the file has no name any more (its link count is 0).

    Args:
        full_path: The path of the new file.
        mode: The permissions of the file, reduced by the umask.

    Returns:
        The descriptor; -1 if another process has removed the file. The caller tries another name.
    """
    descriptor = os.open(full_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        if _try_lock(descriptor) is not LockResult.HELD and os.fstat(descriptor).st_nlink:
            return descriptor
    except BaseException:
        os.close(descriptor)
        os.unlink(full_path)
        raise

    os.close(descriptor)
    with suppress(OSError):
        os.unlink(full_path)
    return -1


def _try_lock(descriptor: int) -> LockResult:
    """Try to lock a file, without waiting for another process to release it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return LockResult.HELD if error.errno in _LOCKED_ERRORS else LockResult.UNSUPPORTED
    return LockResult.TAKEN


def make_tag(directory: str) -> str:
    """Return a tag for the running kernel and the file system of a directory.

    After a restart of the machine, the tag is different.
    """
    kernel = running_kernel()
    if not kernel:
        # The kernel cannot be identified, so only the age of drafts counts.
        return _NO_TAG
    import hashlib

    return hashlib.sha256(f"{kernel} {os.stat(directory).st_dev}".encode()).hexdigest()[:_TAG_DIGITS]
