"""Outcomes for a file that was to be created or deleted."""

from __future__ import annotations

from typing import NamedTuple

from deltacli.core.errors import PermissionRefused


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


class Deleted(_Known):
    """The file is deleted. Some stores also return this for a file that never existed."""


class Missing(_Known):
    """There was no such file, which counts as deleted."""


class Failed(NamedTuple):
    """The file exists, or may exist. `denied` is the error where permission is missing."""

    reason: str
    denied: PermissionRefused | None = None


Deletion = Deleted | Missing | Failed
