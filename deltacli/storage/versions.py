"""The versions of files that a store keeps after they were overwritten or deleted."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol

from deltacli.core.errors import Refused
from deltacli.core.typing import BinaryFile
from deltacli.storage.outcomes import Creation

NO_VERSIONS = "storage.no-versions"


class VersionState(StrEnum):
    CURRENT = "current"
    """What the name leads to now."""
    NONCURRENT = "noncurrent"
    """Overwritten, or below a delete marker, or without a current version."""
    DELETE_MARKER = "delete-marker"
    """An entry without content that hides the versions before it (S3)."""
    SOFT_DELETED = "soft-deleted"
    """Deleted and retained; its content can be read only after it was brought back."""


class ObjectVersion(NamedTuple):
    """One version of a file. `version_id` is what the store calls it: a version, a generation, '' for the only one.

    `tag` identifies the content. `keeps_time`: bringing it back leaves `modified_ms` as it is. The
    size of a delete marker is 0.
    """

    path: str
    version_id: str
    size_bytes: int
    modified_ms: int
    state: VersionState
    tag: str = ""
    keeps_time: bool = False

    @property
    def is_readable(self) -> bool:
        return self.state in (VersionState.CURRENT, VersionState.NONCURRENT)


class VersionRetention(NamedTuple):
    """The settings of a store about what is overwritten or deleted.

    Attributes:
        is_kept: Whether it is kept; None if the store does not let the caller see it.
        how: What is turned on or off, or why it is unknown.
    """

    is_kept: bool | None
    how: str


class VersionedObjects(Protocol):
    """The versions of the files of one store.

    Every method raises PermissionRefused, with the missing permission as a fact, and StorageFailed.
    All methods are thread-safe.
    """

    def keeping(self) -> VersionRetention:
        """Return whether the store keeps versions or deleted files."""

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        """Yield the versions of all files whose path begins with `prefix`: those of one path in a
        row, newest first. Nothing is cached.
        """

    def read(self, version: ObjectVersion) -> bytes:
        """Return the whole content of a version. Raises FileMissing where it is gone or cannot be read yet."""

    def open(self, version: ObjectVersion) -> BinaryFile:
        """Open a version for random access. Raises FileMissing as `read` does."""

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        """Make the content of a version the current one of its path. Existed, with nothing changed,
        where the path has a current version other than `instead_of`, which is replaced and remains
        as a version.

        Readers never see a partial file. FileMissing where the version is gone.
        """


class _Keeper(Protocol):
    @property
    def uri(self) -> str: ...

    @property
    def versions(self) -> VersionedObjects | None: ...


def require_versions(storage: _Keeper) -> VersionedObjects:
    """Return the versions of the files of a store. Raises Refused where it certainly keeps none."""
    versions = storage.versions
    keeping = (
        VersionRetention(is_kept=False, how="stores of this kind keep none") if versions is None else versions.keeping()
    )
    if versions is None or keeping.is_kept is False:
        raise Refused(f"{storage.uri} keeps no versions of its files", code=NO_VERSIONS, facts={"why": keeping.how})
    return versions
