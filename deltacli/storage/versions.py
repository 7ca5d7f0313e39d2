"""The interface for object versions: older contents of files that a store retains.

Object stores can retain the versions of objects that are overwritten or deleted ("versioning"), or
only deleted objects ("soft delete"). `deltacli undelete` restores files from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol

from deltacli.core.errors import Refused
from deltacli.core.typing import BinaryFile
from deltacli.storage.outcomes import Creation

NO_VERSIONS = "storage.no-versions"


class VersionState(StrEnum):
    """The state of an object version.

    Attributes:
        CURRENT: The version that a normal read returns.
        NONCURRENT: The object was overwritten or deleted. The version can be read by its id.
        DELETE_MARKER: A version without content, which S3 creates when an object is deleted.
        SOFT_DELETED: The object was deleted. It must be restored before it can be read.
    """

    CURRENT = "current"
    NONCURRENT = "noncurrent"
    DELETE_MARKER = "delete-marker"
    SOFT_DELETED = "soft-deleted"


class ObjectVersion(NamedTuple):
    """A version of a file.

    Attributes:
        path: The path of the file, relative to the root of the store.
        version_id: The store's identifier: a version id or a generation. Empty if the store retains
            only one version.
        size_bytes: The size; 0 for a delete marker.
        modified_ms: When the version was created, in epoch milliseconds.
        state: The state of the version.
        tag: The tag of the content (ETag or generation).
        keeps_time: Whether the file has the same modification time after it is restored.
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
        """Whether the content can be read without restoring it first."""
        return self.state in (VersionState.CURRENT, VersionState.NONCURRENT)


class VersionRetention(NamedTuple):
    """Whether a store retains files that are overwritten or deleted.

    Attributes:
        is_kept: Whether they are retained; None if the caller may not read the setting.
        how: A description of the setting, or why it is unknown.
    """

    is_kept: bool | None
    how: str


class VersionedObjects(Protocol):
    """The object versions of a store. Thread-safe.

    Every method raises PermissionRefused, with the missing permission as a fact, and StorageFailed.
    """

    def keeping(self) -> VersionRetention:
        """Return whether the store retains files that are overwritten or deleted."""

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        """Yield the versions of all files with a path that begins with `prefix`.

        The versions of a file follow each other, the newest first. Each call lists the store again.
        """

    def read(self, version: ObjectVersion) -> bytes:
        """Return the content of a version.

        Raises:
            FileMissing: If the version does not exist any more, or must be restored first.
        """

    def open(self, version: ObjectVersion) -> BinaryFile:
        """Open a version for random access.

        Raises:
            FileMissing: If the version does not exist any more, or must be restored first.
        """

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        """Restore a version: make its content the current content of the file.

        Readers never see a partial file.

        Args:
            version: The version to restore.
            instead_of: The current version, which is replaced. None if the file must not exist.

        Returns:
            Existed, without a change, if the file has another current version than `instead_of`.

        Raises:
            FileMissing: If the version does not exist any more.
        """


class _HasVersions(Protocol):
    @property
    def uri(self) -> str: ...

    @property
    def versions(self) -> VersionedObjects | None: ...


def require_versions(storage: _HasVersions) -> VersionedObjects:
    """Return the object versions of a store.

    Raises:
        Refused: If the store certainly retains no versions. If the setting is unknown, no error is
            raised.
    """
    versions = storage.versions
    if versions is None:
        raise _no_versions_error(storage, "stores of this kind keep none")

    retention = versions.keeping()
    if retention.is_kept is False:
        raise _no_versions_error(storage, retention.how)
    return versions


def _no_versions_error(storage: _HasVersions, why: str) -> Refused:
    return Refused(f"{storage.uri} keeps no versions of its files", code=NO_VERSIONS, facts={"why": why})
