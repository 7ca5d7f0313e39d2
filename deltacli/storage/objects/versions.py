"""The older versions of the objects below a prefix: what all clouds have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
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
"""The fact of an error that names what the caller lacks."""


class VersionPage(NamedTuple):
    """A page of a listing of versions, with keys as paths, and the token of the next page ('' at the end)."""

    versions: list[ObjectVersion]
    token: str


class ObjectVersions(ABC):
    """The versions of the objects of a store. A cloud lists, orders and brings them back.

    Attributes:
        listings: The listings whose entries are merged. If there are several, each one is in the
            order of keys.
        list_permission: What the caller needs to list versions.
        read_permission: What the caller needs to read one.
    """

    listings: Sequence[str] = ("",)
    list_permission: str
    read_permission: str

    def __init__(self, store: ObjectStorage) -> None:
        self._store = store
        self._bucket = store.uri.removesuffix(store.root).removesuffix("/")

    @abstractmethod
    def keeping(self) -> VersionRetention: ...

    @abstractmethod
    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        """Return a page of versions of keys with a prefix, in order of keys. Raises HttpError."""

    @abstractmethod
    def in_order(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Return the versions of one key, which are in the order of the listing, newest first."""

    @abstractmethod
    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation: ...

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        root = f"{self._store.root}/" if self._store.root else ""
        for version in self.listed(root + prefix):
            yield version._replace(path=version.path.removeprefix(root))

    def listed(self, prefix: str) -> Iterator[ObjectVersion]:
        for _, group in groupby(self.entries(prefix), key=lambda entry: entry.path):
            yield from self.in_order([*group])

    def of_key(self, key: str) -> Sequence[ObjectVersion]:
        """Return the versions of one key, newest first, with the key as path. It is the first with itself as prefix."""
        return self.in_order([*takewhile(lambda entry: entry.path == key, self.entries(key))])

    def entries(self, prefix: str) -> Iterator[ObjectVersion]:
        """Yield the versions of all keys with a prefix, those of one key in a row."""
        streams = [self.pages(listing, prefix) for listing in self.listings]
        return streams[0] if len(streams) == 1 else merge(*streams, key=lambda entry: entry.path.encode())

    def read(self, version: ObjectVersion) -> bytes:
        self._require_readable(version)
        return self.permitted(lambda: self._store.read_version(version.path, version.version_id), self.read_permission)

    def open(self, version: ObjectVersion) -> BinaryFile:
        self._require_readable(version)
        return self.permitted(lambda: self._store.open_version(version.path, version.version_id), self.read_permission)

    def copy(self, version: ObjectVersion, instead_of: ObjectVersion | None, permission: str) -> Creation:
        """Bring a version back by copying it to its own name."""
        source = CopySource(self.key(version.path), version.version_id, version.size_bytes, version.tag)
        condition = instead_of.tag if instead_of is not None else ABSENT
        return self.permitted(lambda: self._store.copy(source, version.path, condition), permission)

    def ask(self, call: Callable[[], Result], key: str, what: str, permission: str) -> Result:
        """Make a call with retries and translate its errors, which name the permission that is missing."""
        location = f"{self._bucket}/{key}".removesuffix("/")
        return self.permitted(
            lambda: call_store(self._store.calls, self._store.retry, call, location, what), permission
        )

    def key(self, path: str) -> str:
        return f"{self._store.root}/{path}" if self._store.root else path

    def kept_before(self, ways: str) -> VersionRetention:
        """Return whether there are versions although nothing that keeps them is enabled (any more)."""
        if any(version.state is not VersionState.CURRENT for version in self.list()):
            return VersionRetention(is_kept=True, how=f"{ways} are disabled, but older versions remain")
        return VersionRetention(is_kept=False, how=f"{ways} are disabled")

    def gone(self, version: ObjectVersion) -> FileMissing:
        return FileMissing(f"version {version.version_id} of {self._store.uri}/{version.path} does not exist")

    def pages(self, listing: str, prefix: str) -> Iterator[ObjectVersion]:
        """Yield the entries of a listing, page by page."""
        token = ""
        while True:
            page = self.ask(
                lambda token=token: self.page(listing, prefix, token),  # type: ignore[misc]  # of the loop
                prefix,
                "listed with its versions",
                self.list_permission,
            )
            yield from page.versions
            if not page.token:
                return
            if page.token == token:
                raise StorageFailed(
                    f"{self._bucket}/{prefix} cannot be listed with its versions: the store repeats a page",
                    code="storage.unexpected-answer",
                )
            token = page.token

    def _require_readable(self, version: ObjectVersion) -> None:
        if not version.is_readable:
            raise FileMissing(
                f"version {version.version_id} of {self._store.uri}/{version.path} has no content to read",
                facts={"state": version.state.value},
            )

    def permitted(self, call: Callable[[], Result], permission: str) -> Result:
        """Make a call whose error names the permission that is missing."""
        try:
            return call()
        except PermissionRefused as refused:
            refused.facts[PERMISSION] = permission
            raise


def is_denied(error: BaseException | None) -> bool:
    """Return whether a store refused a request for lack of permission."""
    return isinstance(error, HttpError) and error.status in (401, 403)


def current(versions: Sequence[ObjectVersion]) -> ObjectVersion | None:
    return next((version for version in versions if version.state is VersionState.CURRENT), None)
