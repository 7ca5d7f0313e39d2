"""URLs for partitions: with at least half of their time left, since tasks begin later than their planning."""

from __future__ import annotations

from deltacli.sharing.client.tables.file_urls import FileUrl
from deltacli.sharing.client.tables.share_storage import ShareStorage

_UNKNOWN_MS = 600_000
"""How long a URL is used whose end is unknown."""


class FreshUrls:
    """The URLs of the files of a store, listed again where half of the time is over. Make it before the files are
    listed.
    """

    def __init__(self, store: ShareStorage) -> None:
        self._store, self._clock = store, store.requests.transport.clock
        self._listed_ms = self._clock()

    def find(self, name: str) -> FileUrl | None:
        """Return the URL of a file, None for an unknown name. Raises what `ShareStorage` raises."""
        now = self._clock()
        found = self._store.shared.url_of(name)
        if found is None or not self._is_half_over(found, now):
            return found
        self._listed_ms = now
        return self._store.shared.url_of(name, not_this=found.url)

    def _is_half_over(self, found: FileUrl, now: int) -> bool:
        ends = self._listed_ms + _UNKNOWN_MS if found.expires_ms is None else found.expires_ms
        return now - self._listed_ms > max(ends - self._listed_ms, 0) / 2
