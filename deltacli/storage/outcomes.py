"""The outcomes of creating and deleting a file.

A request to create a file has three possible outcomes, because the response may be lost:

    Created     the file was created
    Existed     the file already existed
    Unknown     no response: read the file to find out

See docs/decisions/0009-three-outcomes-of-a-create.md.
"""

from __future__ import annotations

from typing import NamedTuple

from deltacli.core.errors import PermissionRefused


class _Outcome:
    """An outcome without attributes. All instances of a class are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Created(_Outcome):
    """The file did not exist before. It exists now, is complete, and survives a crash of the machine."""


class Existed(_Outcome):
    """The file already existed and was not changed."""


class Unknown(NamedTuple):
    """The file either exists and is complete, or does not exist. It must be read to find out.

    Attributes:
        cause: Why the outcome is unknown, such as a broken connection.
    """

    cause: str


Creation = Created | Existed | Unknown


class Deleted(_Outcome):
    """The file was deleted. Some stores also report this if the file did not exist."""


class Missing(_Outcome):
    """The file did not exist."""


class Failed(NamedTuple):
    """The file could not be deleted, and probably still exists.

    Attributes:
        reason: The message of the store.
        denied: The error, if permission to delete the file is missing.
    """

    reason: str
    denied: PermissionRefused | None = None


Deletion = Deleted | Missing | Failed
