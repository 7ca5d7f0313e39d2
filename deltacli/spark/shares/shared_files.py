"""The files of a partition as an executor finds them: by URLs that expire, and nothing that gives access to others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from deltacli.clock import Clock
from deltacli.sharing.client.addresses import ShareAddress, parse_table_name
from deltacli.sharing.client.faults import AccessRefused
from deltacli.sharing.client.guards import require_endpoint
from deltacli.sharing.client.table_requests import TableRequests
from deltacli.sharing.client.tables.file_urls import FileUrl, StoredUrls
from deltacli.sharing.client.tables.share_storage import ShareStorage
from deltacli.sharing.client.tables.shared_log import LogFileBytes
from deltacli.sharing.client.transport import Transport
from deltacli.storage import NOTHING, Allowed, Storage, path_external
from deltacli.units import format_timestamp


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """Some files of a shared table, by the names that the client gives them. It can be pickled, and holds no token.

    `endpoint` decides from which networks URLs are accepted. Whoever has this can read the files until the URLs expire,
    so it has no representation as a text.
    """

    table: str
    endpoint: str = field(repr=False)
    urls: tuple[tuple[str, FileUrl], ...] = field(repr=False)
    allowed: Allowed = NOTHING

    @property
    def uri(self) -> str:
        """The name of the table, for errors."""
        return f"share:/{self.table}"

    def open(self) -> Storage:
        """Return the store of the files."""
        return ListedStorage(self)

    def open_other(self, uri: str) -> NoReturn:
        """Raise PathExternal: a share has no files elsewhere."""
        raise path_external(uri, self.uri, uri)


class ListedStorage(ShareStorage):
    """The store of files whose URLs are known. It asks for no others."""

    def __init__(self, files: SharedFiles) -> None:
        transport, name = _transport(files.endpoint), parse_table_name(files.table)
        super().__init__(ShareAddress("share", name), TableRequests(transport, name))
        self._files = files

    @property
    def uri(self) -> str:
        return self._files.uri

    def _load(self) -> KnownUrls:
        return KnownUrls(self._files, self.requests.transport.clock)


class KnownUrls:
    """The URLs of some files, and no log."""

    version = 0

    def __init__(self, files: SharedFiles, clock: Clock) -> None:
        self._clock = clock
        self.urls = StoredUrls()
        for name, (url, size_bytes, expires_ms) in files.urls:
            self.urls.add(name, url, size_bytes, expires_ms)
        self.urls.finish()

    @property
    def log_files(self) -> Mapping[str, LogFileBytes]:
        """Return no files."""
        return {}

    def url_of(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file, None for an unknown name. Raises AccessRefused where it was not accepted and has
        expired, as the clock of the executor has it: only the driver can get another one.
        """
        found = self.urls.find(name)
        if found is None or found.url != not_this or found.expires_ms is None or self._clock() < found.expires_ms:
            return found  # asked for again, so that the status decides about the error
        raise AccessRefused(
            "the URL of a file expired before a task read it",
            code="share.url-expired",
            facts={"file": name, "expires": format_timestamp(found.expires_ms)},
            hint="make the frame again, or restart the query: the driver gets new URLs. Long jobs need more executors",
        )


@lru_cache(maxsize=8)
def _transport(endpoint: str) -> Transport:
    """Return the connections of this process for the files of a server."""
    transport = Transport(*require_endpoint(endpoint))
    transport.learn_reach()
    return transport
