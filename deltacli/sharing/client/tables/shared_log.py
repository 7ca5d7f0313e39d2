"""What a shared table looks like as a store: the files of its log, made here, and data files behind URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, Protocol

from deltacli.sharing.client.faults import FilesMovedOn
from deltacli.sharing.client.tables.file_urls import FileUrl, StoredUrls

EARLY_MS = 30_000
"""A URL is replaced this long before it expires."""


class LogFileBytes(NamedTuple):
    """A file of the log. `read` gets an offset and a length."""

    size_bytes: int
    modified_ms: int
    read: Callable[[int, int], bytes]


class SharedLog(Protocol):
    """A log, and the URLs of the files that it names."""

    @property
    def version(self) -> int:
        """The newest version."""

    @property
    def urls(self) -> StoredUrls: ...

    @property
    def log_files(self) -> Mapping[str, LogFileBytes]:
        """The files of `_delta_log` by their names."""

    def url_of(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file, None for an unknown name. One that expires soon, or that is `not_this`, is renewed.

        Raises FilesMovedOn where the server does not share the file any more.
        """


@dataclass
class RenewedUrls:
    """URLs that are renewed before they expire, and when one is not accepted any more: once for all threads.

    `renew` gets the URLs so far and returns new ones of the same files. Where those would have to be renewed at once,
    the clocks of server and client differ too much, and URLs are used until one is not accepted.
    """

    urls: StoredUrls
    renew: Callable[[StoredUrls], StoredUrls]
    clock: Callable[[], int]
    _lock: Lock = field(default_factory=Lock, repr=False)
    _ignores_times: bool = field(default=False, init=False)

    def find(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file as `SharedLog.url_of` does."""
        found = self.urls.find(name)
        if found is None or not self._is_stale(found, not_this):
            return found
        with self._lock:
            found = self.urls.find(name)
            if found is not None and not self._is_stale(found, not_this):
                return found
            self.urls = self.renew(self.urls)
            found = self.urls.find(name)
            if found is None:
                raise FilesMovedOn("the server does not share a file of this version any more", facts={"file": name})
            self._ignores_times = self._ignores_times or self._is_late(found)
            return found

    def _is_stale(self, url: FileUrl, not_this: str | None) -> bool:
        return url.url == not_this or (not self._ignores_times and self._is_late(url))

    def _is_late(self, url: FileUrl) -> bool:
        return url.expires_ms is not None and url.expires_ms - EARLY_MS <= self.clock()
