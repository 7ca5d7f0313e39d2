"""Signed tokens and URLs of this server itself, by HMAC with one key."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BinasciiError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.wire_errors import WireError, invalid
from deltacli.sharing.server.ports import Caller, SignedUrls

FILES = "_files"
_SEPARATOR = "\0"


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Return the bytes of the one spelling of a text. Raises ValueError for any other."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _text(data) != text:
        raise ValueError("not the canonical spelling")
    return data


@dataclass(frozen=True)
class HmacSeal:
    """Tokens `PAYLOAD.MAC` as one word; the MAC covers kind, bound and expiry."""

    key: bytes

    def seal(self, kind: str, payload: Mapping[str, Any], *, bound: str, expires_ms: int) -> str:
        """Return a token."""
        content = json.dumps([expires_ms, payload], separators=(",", ":")).encode()
        return _text(self._mac(kind, bound, content) + content)

    def open(self, kind: str, token: str, *, bound: str, now_ms: int) -> Mapping[str, Any]:
        """Return the payload of a token. Raises WireError."""
        try:
            data = _bytes(token)
        except (ValueError, BinasciiError):
            raise invalid("the token is invalid") from None
        mac, content = data[:32], data[32:]
        if not hmac.compare_digest(mac, self._mac(kind, bound, content)):
            raise invalid("the token is invalid, or belongs to another request")
        expires_ms, payload = json.loads(content)
        if expires_ms <= now_ms:
            raise invalid("the token has expired; begin again without it")
        found: Mapping[str, Any] = payload
        return found

    def _mac(self, kind: str, bound: str, content: bytes) -> bytes:
        head = f"{kind}{_SEPARATOR}{bound}{_SEPARATOR}".encode("utf-8", "surrogateescape")
        return hmac.digest(self.key, head + content, "sha256")


class FileClaim(NamedTuple):
    """What the URL of a local file says."""

    share: str
    schema: str
    table: str
    table_id: str
    recipient: str
    epoch: int
    path: str


@dataclass(frozen=True)
class LocalUrls:
    """URLs of local files, answered by this server: `BASE/_files/CLAIM/NAME?sp=r&se=EXPIRY&sig=MAC`. `sp` lets readers
    of the delta format recognize that a URL is signed.
    """

    key: bytes
    base_url: str

    def for_table(self, table: SharedTable, caller: Caller) -> LocalSigner:
        """Return the signer of a table for a recipient."""
        claim = (table.share, table.schema, table.name, table.table_id, caller.name, str(caller.epoch), "")
        head = _SEPARATOR.join(claim).encode("utf-8", "surrogateescape")
        head = b" " * (-len(head) % 3) + head  # so that the end can be encoded on its own
        return LocalSigner(self.key, f"{self.base_url}/{FILES}/", _text(head))

    def verify(self, claim: str, expiry: str, signature: str, now_ms: int) -> FileClaim:
        """Return what a URL says. Raises WireError unless this server made it and it has not expired."""
        if not hmac.compare_digest(_mac_of_url(self.key, claim, expiry), signature.encode("utf-8", "replace")):
            raise WireError(403, "PERMISSION_DENIED", "the URL is not signed by this server")
        if int(expiry) <= now_ms:
            raise WireError(403, "PERMISSION_DENIED", "the URL has expired; query the table again")
        *names, epoch, path = _bytes(claim).decode("utf-8", "surrogateescape").lstrip(" ").split(_SEPARATOR)
        return FileClaim(names[0], names[1], names[2], names[3], names[4], int(epoch), path)


@dataclass(frozen=True)
class LocalSigner:
    """Signs the files of one table for one recipient."""

    key: bytes
    start: str
    head: str

    def sign(self, paths: Sequence[str], expires_ms: int) -> SignedUrls:
        """Return a URL for each path."""
        return SignedUrls([self._url(path, str(expires_ms)) for path in paths], expires_ms)

    def _url(self, path: str, expiry: str) -> str:
        claim = self.head + _text(path.encode("utf-8", "surrogateescape"))
        return f"{self.start}{claim}?sp=r&se={expiry}&sig={_mac_of_url(self.key, claim, expiry).decode()}"


def _mac_of_url(key: bytes, claim: str, expiry: str) -> bytes:
    mac = hmac.digest(key, f"{claim}{_SEPARATOR}{expiry}".encode("utf-8", "replace"), "sha256")
    return urlsafe_b64encode(mac).rstrip(b"=")


def derived(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose."""
    return hmac.digest(key, purpose.encode(), sha256)
