"""What only this server checks: page, refresh and query tokens, which a client brings back unchanged, sealed with a key
that only the server has; and URLs of files that the server itself returns, of local tables, and of stores that cannot
sign.

A token is accepted only for the kind, the table, the parameters and the recipient that it was made for, and until it
expires. So a token of an older version is never accepted from someone who did not get it from the server.

The URLs are `{base}/_files/{scope}/{path}?sp=r&se={expiry}&sig={signature}`. The scope has the table, the recipient and
the epoch of its token. Scope and path are opaque texts of [A-Za-z0-9_-], which no client and no proxy normalizes.
delta-kernel takes a URL for a signed one only if it has one of a few known parameters; `sp` is one of them.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltacli.sharing.signing.keys import ID_BYTES, Keys
from deltacli.sharing.signing.v4 import SignedUrls, hmac_states

_FORMAT = b"\x01"
_TIME_BYTES = 8
_MAC_BYTES = 32
_HEAD_BYTES = len(_FORMAT) + ID_BYTES + _TIME_BYTES
_LONGEST = 8_192
_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")


class TokenRefused(Exception):
    """A token or a URL that is not accepted. `reason`: `invalid` or `expired`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Bound:
    """What a token belongs to. `parameters` identifies the rest of the request."""

    recipient: str
    epoch: int
    table_id: str = ""
    parameters: str = ""


class Seal:
    """Makes and opens tokens. Their content is readable by anyone, but only the server can make one."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(self, kind: str, payload: Mapping[str, Any], *, bound: Bound, expires_ms: int, now_ms: int) -> str:
        """Return a token of [A-Za-z0-9_-]. `payload`: JSON values. `now_ms` chooses the key."""
        key = self._keys.signing(f"token {kind}", now_ms)
        body = json.dumps(payload, separators=(",", ":"), sort_keys=True).encode()
        signed = _FORMAT + key.id + expires_ms.to_bytes(_TIME_BYTES) + body
        return to_text(signed + _mac(key.secret, bound, signed))

    def open(self, kind: str, token: str, *, bound: Bound, now_ms: int) -> dict[str, Any]:
        """Return the payload of a token. Raises TokenRefused."""
        data = from_text(token)
        if len(data) <= _HEAD_BYTES + _MAC_BYTES or data[:1] != _FORMAT:
            raise TokenRefused("invalid")
        key = self._keys.checking(f"token {kind}", data[1 : 1 + ID_BYTES], now_ms)
        signed, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        if key is None or not hmac.compare_digest(_mac(key.secret, bound, signed), mac):
            raise TokenRefused("invalid")
        if int.from_bytes(signed[1 + ID_BYTES : _HEAD_BYTES]) <= now_ms:
            raise TokenRefused("expired")
        payload: dict[str, Any] = json.loads(signed[_HEAD_BYTES:])
        return payload


def to_text(data: bytes) -> str:
    """Return bytes as text of [A-Za-z0-9_-]."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """Return the bytes of a text. Raises TokenRefused unless it is exactly what `to_text` makes of them."""
    if not isinstance(text, str) or len(text) > _LONGEST or not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        raise TokenRefused("invalid")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_text(data) != text:  # unused bits of the last character
        raise TokenRefused("invalid")
    return data


def _mac(secret: bytes, bound: Bound, signed: bytes) -> bytes:
    """Return the code of a token. Each part is preceded by its length, so none can grow into its neighbour."""
    parts = (
        bound.recipient.encode("utf-8", "surrogatepass"),
        str(bound.epoch).encode(),
        bound.table_id.encode("utf-8", "surrogatepass"),
        bound.parameters.encode("utf-8", "surrogatepass"),
        signed,
    )
    return hmac.digest(secret, b"".join(len(part).to_bytes(4) + part for part in parts), "sha256")


SEGMENT = "_files"
FILE_KEY = "file"
_QUERY = re.compile(r"sp=r&se=([1-9][0-9]{0,15})&sig=([A-Za-z0-9_-]{43})")
_TO_URL = bytes.maketrans(b"+/", b"-_")


class SignedFile(NamedTuple):
    """A file that a URL allows to read. The caller checks that the recipient still has the token of the epoch."""

    table_id: str
    recipient: str
    token_epoch: int
    path: str
    "Decoded, below the table's root."
    expires_ms: int


class LocalUrlSigner:
    """Signs URLs of one table for one recipient. `base_url`: up to the prefix of the server, without a slash at the
    end. `not_after_ms`: when the recipient's own token expires, and every URL with it.
    """

    def __init__(
        self,
        keys: Keys,
        base_url: str,
        *,
        table_id: str,
        recipient: str,
        token_epoch: int,
        not_after_ms: int | None = None,
    ) -> None:
        self._keys = keys
        self._base = f"{base_url.rstrip('/')}/{SEGMENT}/"
        self._claims = json.dumps([table_id, recipient, token_epoch], separators=(",", ":")).encode()
        self._not_after_ms = not_after_ms

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root."""
        if self._not_after_ms is not None:
            expires_ms = min(expires_ms, self._not_after_ms)
        key = self._keys.signing(FILE_KEY, now_ms)
        scope = to_text(_FORMAT + key.id + self._claims)
        head, tail = f"{self._base}{scope}/".encode(), f"?sp=r&se={expires_ms}&sig=".encode()
        inner, outer = hmac_states(key.secret)
        inner.update(_fixed(scope, str(expires_ms)))
        urls = []
        for path in paths:
            text = b2a_base64(path.encode("utf-8", "surrogateescape"), newline=False).translate(_TO_URL, b"=")
            code = inner.copy()
            code.update(text)
            seal = outer.copy()
            seal.update(code.digest())
            signature = b2a_base64(seal.digest(), newline=False).translate(_TO_URL, b"=")
            urls.append(b"".join((head, text, tail, signature)).decode())
        return SignedUrls(urls, expires_ms)


def open_file_url(keys: Keys, scope: str, path: str, query: str, *, now_ms: int) -> SignedFile:
    """Return the file of a URL, given by its raw segments and its raw query string. Raises TokenRefused."""
    match = _QUERY.fullmatch(query)
    claims, name = from_text(scope), from_text(path)
    if match is None or claims[:1] != _FORMAT:
        raise TokenRefused("invalid")
    key = keys.checking(FILE_KEY, claims[1 : 1 + ID_BYTES], now_ms)
    if key is None:
        raise TokenRefused("invalid")
    expected = hmac.digest(key.secret, _fixed(scope, match[1]) + path.encode(), "sha256")
    if not hmac.compare_digest(expected, from_text(match[2])):
        raise TokenRefused("invalid")
    if int(match[1]) <= now_ms:
        raise TokenRefused("expired")
    table_id, recipient, token_epoch = json.loads(claims[1 + ID_BYTES :])
    return SignedFile(table_id, recipient, token_epoch, name.decode("utf-8", "surrogateescape"), int(match[1]))


def _fixed(scope: str, expires: str) -> bytes:
    """Return what is the same in the signatures of all files. No part can contain the separator."""
    return f"{scope}\n{expires}\n".encode()
