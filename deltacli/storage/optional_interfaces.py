"""Interfaces that only some stores have: of versions of a shared table, of grants, of prefixes.

A caller asks with `isinstance`. The protocols have methods only, because `isinstance` evaluates
properties, and some of these would send a request.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from deltacli.core.errors import UsageError
from deltacli.storage.allowed_prefixes import AllowedPrefixes
from deltacli.storage.base import FileStat, ReadStorage, Storage, no_atomic_create_error


@runtime_checkable
class SharedTableStore(Protocol):
    """A shared table, which its server shows one version at a time."""

    def at(self, version: int | None, timestamp_ms: int | None) -> Storage:
        """Return the store of a version, or of the newest version at a time. Without both, of the newest version."""

    def expecting(
        self,
        *,
        where: str | None = None,
        limit: int | None = None,
        version: int | None = None,
        at_ms: int | None = None,
    ) -> Storage:
        """Return the store for one scan, in which the server may leave out files that the scan does
        not need.

        Args:
            where: Condition of the rows that are wanted; None for all rows.
            limit: Number of rows that are wanted; None for all rows.
            version: The version to scan.
            at_ms: Scan the newest version at this time.
        """

    def between(self, first: int, last: int) -> Storage:
        """Return the store with the commits of a range of versions, both included."""

    def recent(self, limit: int) -> Storage:
        """Return the store with the commits of the newest `limit` versions (0 for all), as far as they are known."""

    def untimed_versions(self) -> frozenset[int]:
        """Return the versions whose times are unknown. The times of their commit files only keep their order."""

    def knows_protocol(self) -> bool:
        """Return whether the protocol is the table's own, not one that suffices to read what the server shows."""

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""

    def newest_version(self) -> int:
        """Return the newest version that exists now."""

    def has_change_feed(self) -> bool:
        """Return whether the newest version says that changes are recorded."""

    def version_since(self, timestamp_ms: int) -> int:
        """Return the first version that was committed at or after a time."""

    def version_until(self, timestamp_ms: int) -> int:
        """Return the last version that was committed at or before a time."""


class Openable(Protocol):
    """Everything that another process needs to open a store: a small value that can be pickled and compared."""

    @property
    def allowed(self) -> AllowedPrefixes:
        """The prefixes that links may lead to."""

    def open(self) -> Storage:
        """Open the store."""

    def open_other(self, uri: str) -> Storage:
        """Open the store of files elsewhere."""


@runtime_checkable
class SharedDirectoryStore(Protocol):
    """A shared directory. Its provider, not the user, decides which files elsewhere the table may
    read.

    For these the provider gives credentials as well.
    """

    def get_openable(self) -> Openable:
        """Return what another process needs to open the store, with credentials that last for some time."""

    def open_granted(self, uri: str) -> Storage:
        """Return the store of a directory that one of the provider's locations covers."""

    def list_granted_prefixes(self) -> AllowedPrefixes:
        """Return the provider's locations."""

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""

    def require_announced(self, table_id: str | None, newest: int) -> None:
        """Raise Unreadable unless the log belongs to the announced table and is not older than
        announced.

        Args:
            table_id: The id of the table that the log describes; None if it is unknown.
            newest: The newest version of the log.
        """


@runtime_checkable
class PrefixStore(Protocol):
    """An object store below a prefix. It can look above the prefix, and list directories together."""

    def find_ancestor_with(self, name: str) -> str | None:
        """Return the URI of the nearest prefix above the root that has a directory `name`; None if there is none."""

    def below(self, directory: str) -> Storage:
        """Return the store of a directory. It shares client, connections and credentials with this one."""

    def list_page_from(self, start: str) -> tuple[list[FileStat], bool]:
        """Return the files at or below the root that one request lists from a path on, and whether
        these are the last.

        Names are paths, ascending, and include those that end with `/`. ([], False) if the store
        cannot list so.
        """


@runtime_checkable
class StoreWithGrant(Protocol):
    """A store that may have been opened with credentials that a server gave to this process."""

    def request_write_access(self) -> None:
        """Ask the server for credentials that permit writing, once, if those so far only permit reading."""


def is_bound_to_this_process(storage: ReadStorage) -> bool:
    """Return whether another process cannot open the store by its address alone."""
    has_grant = getattr(storage, "grant", None) is not None
    is_managed_by_catalog = getattr(storage, "catalog_store", None) is not None
    return has_grant or is_managed_by_catalog or isinstance(storage, SharedTableStore)


def require_writable(storage: ReadStorage) -> None:
    """Refuse a store that is known to be read-only, without sending a request to it.

    Raises:
        NoAtomicCreate: If the store cannot create files atomically.
        UsageError: If it is a share.
    """
    if isinstance(storage, SharedTableStore | SharedDirectoryStore):
        raise storage.refusal()
    if not storage.capabilities.atomic_create:
        raise no_atomic_create_error(storage.uri, "this store is not known to create files atomically")

    # A catalog gives credentials to read unless it is asked for more, and a change begins here.
    if isinstance(storage, StoreWithGrant):
        storage.request_write_access()
