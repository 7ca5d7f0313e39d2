"""Files that hold secrets or hashes: readable by their owner only, and replaced as a whole."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deltacli.core.errors import StorageFailed
from deltacli.core.hints import quoted
from deltacli.storage.disk_faults import writing_faults
from deltacli.storage.drafts import LockedDraft, sweep

MODE = 0o600
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.05


def write_private(path: Path, data: bytes, *, replace: bool = True) -> bool:
    """Write a file of mode 0600 that appears with its whole content, or not at all, and return True.

    A link is followed. Without `replace`, False is returned where the name exists. Raises StorageFailed.
    """
    with writing_faults(os.path.realpath(path), str(path)):
        return write_atomically(path, data, replace=replace)


def write_atomically(path: Path, data: bytes, *, replace: bool = True) -> bool:
    """Write a file as `write_private` does. Raises OSError."""
    target = os.path.realpath(path)
    directory, name = os.path.split(target)
    draft = LockedDraft(directory, f".{name[:100]}.", MODE)
    try:
        sweep(directory, f".{name[:100]}.", draft.changed_ns)
        _fill(draft.place, data)
        if replace:
            os.replace(draft.place, target)
        elif not _claim(draft.place, target):
            return False
        _sync_directory(directory)
        return True
    finally:
        draft.close()


@contextmanager
def locked(path: Path, pause: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Hold the lock of a file: a lock on an empty file beside it, because the file itself is replaced.

    Raises StorageFailed (`share.locked`) where another command holds it for 10 seconds.
    """
    place = f"{os.path.realpath(path)}.lock"
    with writing_faults(place, place):
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
    try:
        _wait_for_lock(descriptor, path, pause)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(descriptor)


def _wait_for_lock(descriptor: int, path: Path, pause: Callable[[float], None]) -> None:
    for _ in range(int(_PATIENCE_SECONDS / _PAUSE_SECONDS)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause(_PAUSE_SECONDS)
        except OSError as fault:
            raise StorageFailed(
                f"{path} was not changed: its lock is not available: {os.strerror(fault.errno or 0).lower()}",
                code="share.locked",
                hint=f"df {quoted(str(path))}   # shows the file system, which has to support locks",
            ) from fault
        else:
            return
    raise StorageFailed(
        f"{path} was not changed: another command has been changing it for {_PATIENCE_SECONDS:.0f} seconds",
        code="share.locked",
        hint=f"fuser -v {quoted(f'{path}.lock')}   # shows that command; then repeat this one",
    )


def others_may_read(path: Path) -> bool:
    """Return True if the group or all users may read a file. Raises OSError."""
    return bool(stat.S_IMODE(os.stat(path).st_mode) & 0o077)


def _fill(place: str, data: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, MODE)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(place: str, target: str) -> bool:
    """Give the file its name, and return False where that exists."""
    try:
        os.link(place, target)
    except FileExistsError:
        return False
    return True


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
