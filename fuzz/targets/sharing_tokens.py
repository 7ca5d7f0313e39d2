"""Tokens and URLs of the server: only those that it made are accepted."""

from __future__ import annotations

import contextlib
from functools import lru_cache

from deltacli.sharing.signing.keys import (
    Bound,
    LocalUrlSigner,
    Seal,
    ServerKey,
    ServerKeys,
    TokenRefused,
    open_file_url,
    to_text,
)

TOKENS = (b"AQ", b"?sp=r&se=", b"&sig=", b"-_", b"==", b"/", b"%2F", b"\x00")
_KEYS = ServerKeys((ServerKey(b"k" * 32, 0),))
_BOUND = Bound("acme", 1, "table", "parameters")
_NOW_MS = 1_000


@lru_cache(maxsize=1)
def _made() -> frozenset[bytes]:
    tokens = [
        Seal(_KEYS).seal("page", {"version": number}, bound=_BOUND, expires_ms=10**13, now_ms=_NOW_MS)
        for number in (1, 10, 100)
    ]
    signer = LocalUrlSigner(_KEYS, "http://h", table_id="table", recipient="acme", token_epoch=1)
    urls = signer.sign(["a", "d=é/b.parquet"], expires_ms=10**13, now_ms=_NOW_MS).urls
    return frozenset(text.encode() for text in (*tokens, *(url.partition("/_files/")[2] for url in urls)))


def seeds() -> list[bytes]:
    return [*sorted(_made()), to_text(b"\x01" * 60).encode()]


def test_one_input(data: bytes) -> None:
    text = data.decode("latin-1")
    scope, _, rest = text.partition("/")
    path, _, query = rest.partition("?")
    with contextlib.suppress(TokenRefused):
        Seal(_KEYS).open("page", text, bound=_BOUND, now_ms=_NOW_MS)
        _require_made(data)
    with contextlib.suppress(TokenRefused):
        open_file_url(_KEYS, scope, path, query, now_ms=_NOW_MS)
        _require_made(data)


def _require_made(data: bytes) -> None:
    if data not in _made():
        raise AssertionError("a token that nobody made was accepted")
