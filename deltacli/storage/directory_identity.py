"""Protection against changing another directory than the one for which a change was planned.

The path of a local table may refer to another directory at any time: someone renames directories, or
changes a link in the path. A plan for one table, such as a vacuum, would then be carried out in
another one. To prevent this, a local store is bound to a directory when a change is planned: it
remembers the device and inode numbers, and checks them before each write.

The directory is kept open meanwhile. As long as it is open, the file system does not use its inode
number for another directory.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Protocol, Self, TypeGuard

from deltacli.core.errors import Refused
from deltacli.storage.base import ReadStorage, Storage
from deltacli.storage.open_descriptor import OpenDescriptor
from deltacli.storage.protocol_members import has_members_of

DirectoryIdentity = tuple[str, int, int]
"""Identifies a directory: the running kernel (`running_kernel`), the device number and the inode number."""

OTHER_DIRECTORY = "plan.other-place"


@cache
def running_kernel() -> str:
    """Return an identifier that the kernel generates when it starts; empty if the system has none.

    Device and inode numbers can only be compared if they come from the same running kernel.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as source:
            return source.read().strip()
    except (OSError, ValueError):
        return ""


class DirectoryStore(Storage, Protocol):
    """A store whose root is a path on a file system, where another directory may appear at any time."""

    @property
    def directory_identity(self) -> DirectoryIdentity | None:
        """The directory that the store is bound to; None if it is not bound."""

    def bind_to_directory(self, identity: DirectoryIdentity | None = None) -> Storage:
        """Return a store that is bound to the directory at the root path.

        Methods that write raise Refused (`plan.other-place`) if another directory is at the path.

        If there is no directory at the path, or the file system returns different inode numbers each
        time, the store that is returned is not bound.

        Args:
            identity: The expected directory, from a saved plan or from another process. None: bind
                to the directory that is at the path now.

        Raises:
            Refused: If another directory is at the path than the expected one, or than the one that
                this store is already bound to.
        """

    def require_same_directory(self) -> None:
        """Check that the directory that the store is bound to is still at the path.

        Raises:
            Refused: If another directory is there (`plan.other-place`).
        """


def is_directory_store(storage: object) -> TypeGuard[DirectoryStore]:
    """Return whether a store is a directory of a file system.

    Use this function, not `isinstance`: stores that wrap a directory forward its methods.
    """
    return has_members_of(DirectoryStore, storage)


def bind_to_directory(storage: Storage, identity: DirectoryIdentity | None = None) -> Storage:
    """Return a store that is bound to its directory (`DirectoryStore.bind_to_directory`).

    Stores that are not on a file system are returned unchanged.
    """
    return storage.bind_to_directory(identity) if is_directory_store(storage) else storage


def require_same_directory(storage: ReadStorage) -> None:
    """Check that the directory that a store is bound to is still at its path. Other stores are not checked.

    Raises:
        Refused: If another directory is there (`plan.other-place`).
    """
    if is_directory_store(storage):
        storage.require_same_directory()


def other_directory_refusal(path: str) -> Refused:
    """Return the error for a path that refers to another directory than when the change was planned."""
    return Refused(
        f"another directory is at {path} than when this was planned",
        code=OTHER_DIRECTORY,
        facts={"why": "the directory was renamed or replaced, or a link in its path leads elsewhere now"},
    )


class BoundDirectory:
    """An open directory and its identity.

    While it is open, its inode number is not reused. Otherwise a directory that is deleted and
    created again could have the same identity.

    Attributes:
        identity: The identity of the directory.
    """

    def __init__(self, descriptor: int) -> None:
        self._open_directory = OpenDescriptor(descriptor)
        status = os.fstat(descriptor)
        self.identity: DirectoryIdentity = (running_kernel(), status.st_dev, status.st_ino)

    @property
    def descriptor(self) -> int:
        """The file descriptor. It is closed when this object and all of its copies are deleted."""
        return self._open_directory.number

    @classmethod
    def at(cls, path: str) -> Self | None:
        """Open the directory at a path.

        Returns:
            The directory; None if there is none, or if the file system returns another inode number
            each time.
        """
        # O_PATH does not require permission to read the directory.
        access = getattr(os, "O_PATH", os.O_RDONLY)
        try:
            directory = cls(os.open(path, access | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError:
            return None
        return directory if directory.is_at(path) else None

    def is_at(self, path: str) -> bool:
        """Return whether a path refers to this directory."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity[1:]
