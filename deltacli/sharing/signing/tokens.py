"""Page, refresh and query tokens: what a client brings back unchanged, sealed with a key that only the server has.

A token is accepted only for the kind, the table, the parameters and the recipient that it was made for, and until it
expires. So a token of an older version is never accepted from someone who did not get it from the server.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.sharing.signing.keys import ID_BYTES, Keys

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
    """What a token belongs to. `parameters` identifies the rest of the request, see `hash_parameters`."""

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


def hash_parameters(parameters: Mapping[str, Any]) -> str:
    """Return a text that identifies the parameters of a request: JSON values by name, in any order."""
    text = json.dumps(parameters, separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


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
