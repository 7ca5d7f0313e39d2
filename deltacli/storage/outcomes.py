"""What happened to a file that was to be created or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.core.made_once import NamedTuple

if TYPE_CHECKING:
    from deltacli.storage.base import FileStat, ReadStorage


class _Known:
    """An outcome without facts: any two of one class are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Created(_Known):
    """The file was absent and now exists, complete and durable."""


class Existed(_Known):
    """The name already exists; nothing was changed."""


class Unknown(NamedTuple):
    """The file may exist, complete, or not at all: read it back to find out."""

    cause: str


Creation = Created | Existed | Unknown


def stat_created(storage: ReadStorage, path: str, outcome: Creation) -> FileStat:
    """Return facts about a file after an attempt to create it.

    Raises:
        StorageFailed: If the file is not there. The error has the answer of the store to the attempt, and is no
            FileMissing, which a caller could take for one about the file that was to be copied.
    """
    try:
        return storage.stat(path)
    except FileMissing as fault:
        raise not_created(storage, path, outcome) from fault


def not_created(storage: ReadStorage, path: str, outcome: Creation) -> StorageFailed:
    """Return the error for a file that was to be created and is not there."""
    why = outcome.cause if isinstance(outcome, Unknown) else "it was deleted right after it had been written"
    return StorageFailed(f"{storage.uri.rstrip('/')}/{path} cannot be written", facts={"why": why})


class Deleted(_Known):
    """The file is deleted. Some stores also return this for a file that never existed."""


class Missing(_Known):
    """There was no such file, which counts as deleted."""


class Failed(NamedTuple):
    """The file exists, or may exist. `denied` is the error where permission is missing."""

    reason: str
    denied: PermissionRefused | None = None


Deletion = Deleted | Missing | Failed
