"""The directory that a local store writes to, although a link or a rename may put another one at its path.

A path can lead to another directory at any time: a link in it is switched, or a directory is
renamed. A plan that was made for the one table would then change the other. A change is therefore
bound to the directory that was at the path when it was planned, and each write checks that the path
still leads there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import Protocol, Self, runtime_checkable

from deltacli.core.errors import Refused
from deltacli.storage.base import ReadStorage, Storage

DirectoryIdentity = tuple[str, int, int]
"""The running kernel (see `running_kernel`), and the numbers of the device and the inode that it gave."""

OTHER_DIRECTORY = "plan.other-place"


@cache
def running_kernel() -> str:
    """Return a text that identifies the kernel since it was started; '' if the system has none.

    Numbers of devices and inodes are comparable only within one of them.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as source:
            return source.read().strip()
    except (OSError, ValueError):
        return ""


@runtime_checkable
class DirectoryStore(Protocol):
    """A store whose root is a path, where a link or a rename can put another directory at any time."""

    @property
    def directory_identity(self) -> DirectoryIdentity | None:
        """The directory that the store is bound to; None for one that follows its path."""

    def bind_to_directory(self, identity: DirectoryIdentity | None = None) -> Storage:
        """Return the store bound to the directory that is at its path now.

        What writes raises Refused (`plan.other-place`) once the path leads elsewhere. The same
        store is returned if nothing is at the path yet, or if the file system gives the directory
        another identity each time.

        Args:
            identity: The directory that is expected: that of a plan, or of another process of the
                same kernel.

        Raises:
            Refused: If another directory is at the path, also than the one that the store is bound
                to already.
        """

    def require_same_directory(self) -> None:
        """Raise Refused (`plan.other-place`) if the store is bound to a directory that is not at its path now."""


def bind_to_directory(storage: Storage, identity: DirectoryIdentity | None = None) -> Storage:
    """Return a store bound to the directory at its path, if it has one.

    Raises:
        Refused: If that is not the expected directory.
    """
    return storage.bind_to_directory(identity) if isinstance(storage, DirectoryStore) else storage


def require_same_directory(storage: ReadStorage) -> None:
    """Raise Refused (`plan.other-place`) if a store is bound to a directory that is not at its path now."""
    if isinstance(storage, DirectoryStore):
        storage.require_same_directory()


def other_directory_refusal(path: str) -> Refused:
    """Return the refusal to write to a path that leads to another directory than when the change was planned."""
    return Refused(
        f"another directory is at {path} than when this was planned",
        code=OTHER_DIRECTORY,
        facts={"why": "the directory was renamed or replaced, or a link in its path leads elsewhere now"},
    )


class BoundDirectory:
    """A directory that is kept open.

    As long as it is open, the system gives its inode number to no other directory, so that the
    comparison in `is_at` cannot be deceived by a directory that was deleted and created anew.
    """

    def __init__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.descriptor = descriptor
        self.identity: DirectoryIdentity = (running_kernel(), status.st_dev, status.st_ino)

    @classmethod
    def at(cls, path: str) -> Self | None:
        """Return the directory at a path; None if there is none, or if the path shows another identity each time."""
        # O_PATH needs no permission to read the directory.
        access = getattr(os, "O_PATH", os.O_RDONLY)
        try:
            directory = cls(os.open(path, access | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError:
            return None
        return directory if directory.is_at(path) else None

    def is_at(self, path: str) -> bool:
        """Return whether the path leads to this directory now."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity[1:]

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self.descriptor)
