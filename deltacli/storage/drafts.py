"""Temporary files of writers, and their removal after a writer that was killed.

A draft is locked for as long as its writer lives, and its name tells the running kernel and the file system it was made
on. So a later run knows for certain that nobody writes it any more: the lock is free, and whoever could hold it would
hold it on this kernel. Where that cannot be known, as on a network file system or after a restart, a draft goes when
nobody has touched it for a day.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress
from enum import Enum, auto
from functools import cache
from pathlib import Path
from uuid import uuid4

from deltacli import tempfiles

OLD_NS = 24 * 3_600 * 1_000_000_000
"""A draft that was last changed before this time belongs to nobody. By the clock of the file system."""

_TAG_DIGITS = 12
_NO_TAG = "0" * _TAG_DIGITS
_TAIL = rf"[0-9a-f]{{32}}(?:\.(?P<tag>[0-9a-f]{{{_TAG_DIGITS}}}))?\.tmp"
_BUSY = {errno.EAGAIN, errno.EACCES}


class Lock(Enum):
    """What became of an attempt to lock a draft."""

    TAKEN = auto()
    HELD = auto()
    """Somebody else has it: its writer, or a run that is about to remove it."""
    UNSUPPORTED = auto()


class Draft:
    """An empty file in a directory whose name begins with a prefix, locked until it is closed. Raises OSError."""

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
        """The time of the file system when it was last changed."""
        return os.fstat(self._descriptor).st_ctime_ns

    def close(self) -> None:
        """Remove the file, unless it was renamed, and give the lock up."""
        with suppress(OSError):  # renamed away, or stuck: harmless either way
            os.unlink(self.place)
        tempfiles.forget(Path(self.place))
        with suppress(OSError):
            os.close(self._descriptor)


def sweep(directory: str, prefix: str, now_ns: int) -> int:
    """Remove the abandoned drafts of a directory whose names begin with a prefix, and return how many there were.

    `now_ns` is the time of the file system. What cannot be looked at stays, and so does whatever is not a draft.
    """
    pattern = re.compile(re.escape(prefix) + _TAIL)
    try:
        with os.scandir(directory) as entries:
            found = [match for entry in entries if (match := pattern.fullmatch(entry.name))]
    except OSError:
        return 0
    removed = 0
    for match in found:
        with suppress(OSError):
            removed += _remove_abandoned(directory, match[0], match["tag"], now_ns)
    return removed


def is_abandoned(lock: Lock, tag: str | None, here: str, age_ns: int) -> bool:
    """Return True for a draft that nobody will finish: `tag` is that of its name, `here` that of this kernel."""
    if lock is Lock.HELD:
        return False
    is_gone = lock is Lock.TAKEN and tag == here != _NO_TAG
    return is_gone or age_ns >= OLD_NS


def _remove_abandoned(directory: str, name: str, tag: str | None, now_ns: int) -> bool:
    place = f"{directory}/{name}"
    descriptor = os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        # The time of change, not the one of modification, which a writer sets to whatever the file is to have.
        age_ns = now_ns - status.st_ctime_ns
        is_due = stat.S_ISREG(status.st_mode) and is_abandoned(_lock(descriptor), tag, _tag(directory), age_ns)
        if is_due and os.path.samestat(status, os.lstat(place)):
            os.unlink(place)  # while the lock is held: its writer, if it only begins, sees that its file is gone
            return True
        return False
    finally:
        os.close(descriptor)


def _make(place: str, mode: int) -> int:
    """Return the descriptor of a new file that is locked, -1 where a run that cleans up came between."""
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
    """Return a text that stands for this kernel, since it was started, and the file system of a directory."""
    kernel = _kernel()
    if not kernel:
        return _NO_TAG
    import hashlib

    return hashlib.sha256(f"{kernel} {os.stat(directory).st_dev}".encode()).hexdigest()[:_TAG_DIGITS]


@cache
def _kernel() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""  # a system without it: then age alone decides
