"""Interfaces that only some stores implement: shared tables, grants, and prefixes of buckets.

Check for them with `is_shared_table` and the other functions here, never with `isinstance`. A store
that wraps another store forwards unknown attributes (`__getattr__`). From Python 3.12 on, `isinstance`
does not see forwarded methods, so a wrapped directory would not be recognised as a directory, and its
checks before each write would be skipped.

The protocols only contain methods: the checks evaluate properties, and some of these would send a
request.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard

from deltacli.core.errors import UsageError
from deltacli.storage.allowed_prefixes import AllowedPrefixes
from deltacli.storage.base import FileStat, ReadStorage, Storage, no_atomic_create_error
from deltacli.storage.protocol_members import has_members_of


class SharedTableStore(Storage, Protocol):
    """A table of a Delta Sharing server that is read by queries.

    The server returns the files of one version per query. The store presents the answer as the log
    of a Delta table.
    """

    def at(self, version: int | None, timestamp_ms: int | None) -> Storage:
        """Return the store of a version.

        Args:
            version: The version.
            timestamp_ms: The newest version that was committed at or before this time. Without
                version and time, the newest version is used.
        """

    def expecting(
        self,
        *,
        where: str | None = None,
        limit: int | None = None,
        version: int | None = None,
        at_ms: int | None = None,
    ) -> Storage:
        """Return the store for a single scan. The server may omit files that the scan does not need.

        Args:
            where: The condition of the scan; None for all rows.
            limit: The maximum number of rows; None for all rows.
            version: The version to scan.
            at_ms: Scan the newest version at this time.
        """

    def between(self, first: int, last: int) -> Storage:
        """Return the store with the commits from version `first` to `last`, inclusive."""

    def recent(self, limit: int) -> Storage:
        """Return the store with the commits of the newest versions, as far as the server returns them.

        Args:
            limit: The number of versions; 0 for all.
        """

    def untimed_versions(self) -> frozenset[int]:
        """Return the versions whose commit time is unknown.

        Their commit files have invented modification times that only preserve the order.
        """

    def knows_protocol(self) -> bool:
        """Return whether the server returned the protocol of the table.

        Otherwise the store contains the lowest protocol that is sufficient to read the files.
        """

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""

    def newest_version(self) -> int:
        """Return the current version of the table."""

    def has_change_feed(self) -> bool:
        """Return whether the change data feed is enabled in the newest version."""

    def version_since(self, timestamp_ms: int) -> int:
        """Return the first version that was committed at or after a time."""

    def version_until(self, timestamp_ms: int) -> int:
        """Return the last version that was committed at or before a time."""


class Openable(Protocol):
    """The arguments with which another process opens a store. Can be pickled and compared."""

    @property
    def allowed(self) -> AllowedPrefixes:
        """Prefixes outside the store that its links may refer to."""

    def open(self) -> Storage:
        """Open the store."""

    def open_other(self, uri: str) -> Storage:
        """Open the store of files outside the table directory."""


class SharedDirectoryStore(Storage, Protocol):
    """A table of a Delta Sharing server that is read directly from its directory.

    The server grants temporary credentials for the directory. The table may refer to files in other
    directories, as shallow clones do. The provider decides which of these may be read, and grants
    credentials for them as well.
    """

    def get_openable(self) -> Openable:
        """Return the arguments with which another process opens the store.

        They contain credentials that are valid for some time.
        """

    def open_granted(self, uri: str) -> Storage:
        """Return the store of a directory that is inside one of the provider's locations."""

    def list_granted_prefixes(self) -> AllowedPrefixes:
        """Return the provider's locations."""

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""

    def require_announced(self, table_id: str | None, newest: int) -> None:
        """Check that the log in the directory is that of the shared table.

        Args:
            table_id: The table id in the log; None if it is unknown.
            newest: The newest version in the log.

        Raises:
            Unreadable: If the server has announced another table id or a newer version.
        """


class PrefixStore(Storage, Protocol):
    """A store for a prefix of a bucket, which can also list directories outside the prefix."""

    def find_ancestor_with(self, name: str) -> str | None:
        """Return the URI of the nearest parent directory that contains a directory `name`; None if there is none."""

    def below(self, directory: str) -> Storage:
        """Return the store of a subdirectory. It uses the client, connections and credentials of this store."""

    def list_page_from(self, start: str) -> tuple[list[FileStat], bool]:
        """Return the first page of a recursive listing.

        Args:
            start: The first path to list.

        Returns:
            The files, with paths relative to the root as names, sorted; and whether the page is the
            last one. Directory markers, whose path ends with `/`, are included. ([], False) if the
            store cannot start a listing at a path.
        """


class StoreWithGrant(Protocol):
    """A store that may have been opened with vended credentials."""

    def request_write_access(self) -> None:
        """Replace vended credentials for reading by credentials for writing. Later calls do nothing."""


def is_bound_to_this_process(storage: ReadStorage) -> bool:
    """Return whether other processes cannot open a store by its URI.

    This is the case for vended credentials, for tables with catalog-managed commits, and for shared
    tables.
    """
    has_grant = getattr(storage, "grant", None) is not None
    is_managed_by_catalog = getattr(storage, "catalog_store", None) is not None
    return has_grant or is_managed_by_catalog or is_shared_table(storage)


def require_writable(storage: ReadStorage) -> None:
    """Check that a store is not read-only, before a change is planned. Requests credentials for writing.

    Raises:
        NoAtomicCreate: If the store cannot create files atomically.
        UsageError: If the table is shared.
    """
    if is_shared_table(storage) or is_shared_directory(storage):
        raise storage.refusal()
    if not storage.capabilities.atomic_create:
        raise no_atomic_create_error(storage.uri, "this store is not known to create files atomically")

    # Catalogs grant credentials for reading until credentials for writing are requested.
    if is_store_with_grant(storage):
        storage.request_write_access()


def is_shared_table(storage: object) -> TypeGuard[SharedTableStore]:
    """Return whether a store is a table of a Delta Sharing server that is read by queries."""
    return has_members_of(SharedTableStore, storage)


def is_shared_directory(storage: object) -> TypeGuard[SharedDirectoryStore]:
    """Return whether a store is the directory of a shared table that is read with vended credentials."""
    return has_members_of(SharedDirectoryStore, storage)


def is_prefix_store(storage: object) -> TypeGuard[PrefixStore]:
    """Return whether a store is a prefix of a bucket."""
    return has_members_of(PrefixStore, storage)


def is_store_with_grant(storage: object) -> TypeGuard[StoreWithGrant]:
    """Return whether a store can ask for credentials for writing."""
    return has_members_of(StoreWithGrant, storage)
