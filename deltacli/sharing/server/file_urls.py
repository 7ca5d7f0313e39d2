"""URLs of the files of shared tables: signed by their store, or leading to this server."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.wire_errors import ErrorCode, WireError
from deltacli.sharing.server.ports import Caller
from deltacli.sharing.signing.choose import FileAccess, Proxy, choose_access
from deltacli.sharing.signing.keys import Keys
from deltacli.sharing.signing.local import FILE_KEY, LocalUrlSigner, open_file_url
from deltacli.sharing.signing.signed_urls import SignedUrls, UrlSigner
from deltacli.sharing.signing.tokens import TokenRefused
from deltacli.sharing.tables.snapshots import Place, place_of


class FileClaim(NamedTuple):
    """What a URL of this server says. `path` is decoded, below the table's root."""

    share: str
    schema: str
    table: str
    table_id: str
    recipient: str
    token_epoch: int
    path: str


@dataclass(frozen=True)
class TimedSigner:
    """A signer that knows the time. `clock` is in epoch milliseconds."""

    signer: UrlSigner
    clock: Callable[[], int]
    identity: Hashable
    waits: bool = False

    def sign(self, paths: Sequence[str], expires_ms: int) -> SignedUrls:
        """Return a URL for each path. They may expire before `expires_ms`."""
        return self.signer.sign(paths, expires_ms=expires_ms, now_ms=self.clock())


@dataclass(frozen=True)
class FileUrls:
    """Makes and reads URLs. `base_url` is the endpoint, without a slash at the end."""

    keys: Keys
    base_url: str
    clock: Callable[[], int]
    proxy: Proxy = Proxy.WHEN_NEEDED
    _chosen: dict[Place, FileAccess] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def for_table(self, table: SharedTable, caller: Caller) -> TimedSigner:
        """Return the signer of a table for a recipient. Raises what looking up credentials raises."""
        access = self._access(table)
        table_id = "/".join((table.share, table.schema, table.name, table.table_id))  # names have no slash
        key = self.keys.signing(FILE_KEY, self.clock())
        identity = (place_of(table), table_id, caller.name, caller.token_epoch, caller.expires_ms, key.id)
        signer: UrlSigner = access.signer or LocalUrlSigner(
            self.keys,
            self.base_url,
            table_id=table_id,
            recipient=caller.name,
            token_epoch=caller.token_epoch,
            not_after_ms=caller.expires_ms,
        )
        return TimedSigner(signer, self.clock, identity, access.waits)

    def verify(self, segments: Sequence[str], query: str) -> FileClaim:
        """Return what a URL says, given the raw segments behind `_files` and the raw query. Raises WireError."""
        try:
            scope, path = segments
            found = open_file_url(self.keys, scope, path, query, now_ms=self.clock())
        except TokenRefused as refused:
            if refused.reason == "expired":
                raise WireError(403, ErrorCode.FORBIDDEN, "the URL has expired; query the table again") from None
            raise WireError(403, ErrorCode.FORBIDDEN, "the URL is not signed by this server, or was changed") from None
        except ValueError:
            raise WireError(404, ErrorCode.MISSING, "there is no file here") from None
        share, schema, table, table_id = found.table_id.split("/", 3)
        return FileClaim(share, schema, table, table_id, found.recipient, found.token_epoch, found.path)

    def _access(self, table: SharedTable) -> FileAccess:
        place = place_of(table)
        with self._lock:
            known = self._chosen.get(place)
            if known is None:
                known = self._chosen[place] = choose_access(table.location, table.storage_options, proxy=self.proxy)
            return known
