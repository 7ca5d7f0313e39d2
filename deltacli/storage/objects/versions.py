"""Object versions: listing, reading and restoring content that was overwritten or deleted.

S3 keeps versions and delete markers, Google Cloud Storage keeps generations and soft-deleted objects, and Azure
keeps versions, snapshots and soft-deleted blobs. `ObjectVersions` implements `VersionedObjects` for all of them.
The subclasses in `s3/versions.py`, `gcs/versions.py` and `azure/versions.py` send the requests, sort the versions
of a key, and make an old version current again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import groupby, takewhile
from typing import NamedTuple

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.core.typing import BinaryFile
from deltacli.storage.objects.calls import (
    ABSENT,
    CopySource,
    call_store,
)
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage, Result
from deltacli.storage.outcomes import Creation
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState

PERMISSION = "permission"
"""The fact of a `PermissionRefused` error that contains the missing permission."""


class VersionPage(NamedTuple):
    """A page of a listing of versions.

    Attributes:
        versions: The versions. Their `path` is the key in the bucket.
        token: The token of the next page; '' for the last page.
    """

    versions: list[ObjectVersion]
    token: str


class ObjectVersions(ABC):
    """The versions of the objects in a store. Implements `VersionedObjects`.

    Callers pass and receive paths relative to the root of the store. The methods that subclasses implement or
    call (`list_page`, `list_keys`, `list_key_versions`, …) use keys of the bucket instead.

    Attributes:
        listings: The listings of the cloud that together contain all versions. If there is more than one, each
            must return its entries in the order of the keys, because the listings are merged.
        list_permission: The permission to list versions, for error messages.
        read_permission: The permission to read a version, for error messages.
    """

    listings: Sequence[str] = ("",)
    list_permission: str
    read_permission: str

    def __init__(self, store: ObjectStorage) -> None:
        self._store = store
        self._bucket = store.uri.removesuffix(store.root).removesuffix("/")

    @abstractmethod
    def keeping(self) -> VersionRetention:
        """Return whether the store keeps overwritten or deleted objects."""

    @abstractmethod
    def list_page(self, listing: str, prefix: str, token: str) -> VersionPage:
        """Send one request for a page of versions.

        Args:
            listing: An element of `listings`.
            prefix: A prefix of keys.
            token: The token of the page; '' for the first page.

        Returns:
            The versions, in the order of their keys.

        Raises:
            HttpError: If the request fails, or if the response is invalid.
        """

    @abstractmethod
    def sort_versions(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Sort the versions of one key, newest first.

        Args:
            versions: The versions, in the order of the listing.
        """

    @abstractmethod
    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        """Make an old version the current one, see `VersionedObjects.bring_back`."""

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        """Yield the versions of all files whose path begins with `prefix`."""
        root = f"{self._store.root}/" if self._store.root else ""
        for version in self.list_keys(root + prefix):
            yield version._replace(path=version.path.removeprefix(root))

    def read(self, version: ObjectVersion) -> bytes:
        """Return the content of a version."""
        self._require_readable(version)
        read_version = partial(self._store.read_version, version.path, version.version_id)
        return self.call_with_permission(read_version, self.read_permission)

    def open(self, version: ObjectVersion) -> BinaryFile:
        """Open a version for random access."""
        self._require_readable(version)
        open_version = partial(self._store.open_version, version.path, version.version_id)
        return self.call_with_permission(open_version, self.read_permission)

    def list_keys(self, prefix: str) -> Iterator[ObjectVersion]:
        """Yield the versions of all keys with a prefix. The versions of a key are adjacent, newest first."""
        for _, group in groupby(self.list_entries(prefix), key=lambda entry: entry.path):
            yield from self.sort_versions([*group])

    def list_key_versions(self, key: str) -> Sequence[ObjectVersion]:
        """Return the versions of one key, newest first."""
        # Keys are listed in ascending order, and a key is the first one with itself as prefix: `a` before `a.crc`.
        return self.sort_versions([*takewhile(lambda entry: entry.path == key, self.list_entries(key))])

    def list_entries(self, prefix: str) -> Iterator[ObjectVersion]:
        """Yield the versions of all keys with a prefix. The versions of a key are adjacent, but not sorted."""
        streams = [self.list_pages(listing, prefix) for listing in self.listings]
        if len(streams) == 1:
            return streams[0]
        return merge(*streams, key=lambda entry: entry.path.encode())

    def list_pages(self, listing: str, prefix: str) -> Iterator[ObjectVersion]:
        """Request the pages of a listing one after another, and yield their versions."""
        token = ""
        while True:
            request_page = partial(self.list_page, listing, prefix, token)
            page = self.call(request_page, prefix, "listed with its versions", self.list_permission)
            yield from page.versions

            if not page.token:
                return
            # A store that returns the same token again would be listed forever.
            if page.token == token:
                raise StorageFailed(
                    f"{self._bucket}/{prefix} cannot be listed with its versions: the store repeats a page",
                    code="storage.unexpected-answer",
                )
            token = page.token

    def copy(self, version: ObjectVersion, instead_of: ObjectVersion | None, permission: str) -> Creation:
        """Copy an old version to its own key, which makes the copy the current version.

        Args:
            version: The version to copy.
            instead_of: The current version, which the copy replaces; None if the key has no current version.
                The store refuses the copy if the current version is a different one.
            permission: The permission that the copy requires, for error messages.
        """
        source = CopySource(self.get_key(version.path), version.version_id, version.size_bytes, version.tag)
        condition = ABSENT if instead_of is None else instead_of.tag
        copy_version = partial(self._store.copy, source, version.path, condition)
        return self.call_with_permission(copy_version, permission)

    def call(self, call: Callable[[], Result], key: str, verb: str, permission: str) -> Result:
        """Make an idempotent call with retries, and translate its errors.

        Args:
            call: Sends the request.
            key: The key or prefix, for error messages.
            verb: A participle for error messages, such as "read".
            permission: The permission that the call requires, for error messages.
        """
        location = f"{self._bucket}/{key}".removesuffix("/")
        return self.call_with_permission(
            lambda: call_store(self._store.calls, self._store.retry, call, location, verb), permission
        )

    def call_with_permission(self, call: Callable[[], Result], permission: str) -> Result:
        """Make a call, and add the required permission to the error if access is denied."""
        try:
            return call()
        except PermissionRefused as refused:
            refused.facts[PERMISSION] = permission
            raise

    def get_key(self, path: str) -> str:
        """Return the key of a path."""
        return f"{self._store.root}/{path}" if self._store.root else path

    def find_remaining_versions(self, settings: str) -> VersionRetention:
        """Return whether old versions exist although the bucket no longer keeps versions.

        Args:
            settings: The disabled settings, for messages, such as "versioning and soft delete".
        """
        if any(version.state is not VersionState.CURRENT for version in self.list()):
            return VersionRetention(is_kept=True, how=f"{settings} are disabled, but older versions remain")
        return VersionRetention(is_kept=False, how=f"{settings} are disabled")

    def build_missing_error(self, version: ObjectVersion) -> FileMissing:
        """Return the error for a version that no longer exists."""
        return FileMissing(f"version {version.version_id} of {self._store.uri}/{version.path} does not exist")

    def _require_readable(self, version: ObjectVersion) -> None:
        """Raise FileMissing for a delete marker, or for a soft-deleted object, which must be restored first."""
        if not version.is_readable:
            raise FileMissing(
                f"version {version.version_id} of {self._store.uri}/{version.path} has no content to read",
                facts={"state": version.state.value},
            )


def is_access_denied(error: BaseException | None) -> bool:
    """Return whether the store refused a request because a permission is missing."""
    return isinstance(error, HttpError) and error.status in (401, 403)


def find_current(versions: Sequence[ObjectVersion]) -> ObjectVersion | None:
    """Return the current one of the versions of a key; None if the key has no current version."""
    return next((version for version in versions if version.state is VersionState.CURRENT), None)
