"""URLs of files that the server itself returns: of local tables, and of stores that cannot sign.

`{base}/_files/{scope}/{path}?sp=r&se={expiry}&sig={signature}`. The scope has the table, the recipient and the
epoch of its token.
Scope and path are opaque texts of [A-Za-z0-9_-], which no client and no proxy normalizes. delta-kernel takes a URL for
a signed one only if it has one of a few known parameters; `sp` is one of them.
"""

from __future__ import annotations

import hmac
import json
import re
from binascii import b2a_base64
from collections.abc import Sequence
from typing import NamedTuple

from deltacli.sharing.signing.keys import ID_BYTES, Keys
from deltacli.sharing.signing.signed_urls import SignedUrls
from deltacli.sharing.signing.tokens import TokenRefused, from_text, to_text
from deltacli.sharing.signing.v4 import hmac_states

SEGMENT = "_files"
FILE_KEY = "file"
_FORMAT = b"\x01"
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
