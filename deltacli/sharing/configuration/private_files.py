"""Files that hold secrets or hashes: readable by their owner only, and replaced as a whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from deltacli.storage.disk_faults import writing_faults
from deltacli.storage.drafts import Draft, sweep

MODE = 0o600


def write_private(path: Path, data: bytes, *, replace: bool = True) -> bool:
    """Write a file of mode 0600 that appears with its whole content, or not at all, and return True.

    A link is followed. Without `replace`, False is returned where the name exists. Raises StorageFailed.
    """
    target = os.path.realpath(path)
    directory, name = os.path.split(target)
    with writing_faults(target, str(path)):
        draft = Draft(directory, f".{name[:100]}.", MODE)
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
