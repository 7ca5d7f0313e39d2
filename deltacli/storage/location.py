"""The location of a store: what another process needs to open it. It is a small value that can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from deltacli.storage import open_storage
from deltacli.storage.bounds import NOTHING, Allowed

if TYPE_CHECKING:
    from deltacli.storage import Storage


class Openable(Protocol):
    """What tells another process how to open a store: a small value that can be pickled, and compared with others."""

    @property
    def allowed(self) -> Allowed:
        """The prefixes that links may point to."""

    def open(self) -> Storage:
        """Open the store."""

    def open_other(self, uri: str) -> Storage:
        """Open the store of files elsewhere."""


class StoreLocation(NamedTuple):
    """The root of a store, and how to open it: `options` of the store, prefixes that links may point to, and the
    seconds for which a request is retried (None: the default).

    Without credentials: every process takes them from its own environment.
    """

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    allowed: Allowed = NOTHING
    retry_seconds: float | None = None

    @classmethod
    def of(
        cls,
        uri: str,
        options: Mapping[str, str] | None = None,
        allowed: Allowed = NOTHING,
        retry_seconds: float | None = None,
    ) -> Self:
        """Return the location of a store that `open_storage` opens with the same arguments."""
        return cls(uri, tuple(sorted((options or {}).items())), allowed, retry_seconds)

    def open(self) -> Storage:
        """Open the store. Raises what `open_storage` raises."""
        return self.open_other(self.uri)

    def open_other(self, uri: str) -> Storage:
        """Open another store with the same options. Raises what `open_storage` raises."""
        from deltacli.storage.retry import Retry

        retry = None
        if "://" in uri:
            retry = Retry() if self.retry_seconds is None else Retry(self.retry_seconds, is_explicit=True)
        return open_storage(uri, dict(self.options), self.allowed, retry=retry)
