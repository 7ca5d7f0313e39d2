"""Page, refresh and list tokens, whose refusals are answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.sharing.protocol.wire_errors import invalid
from deltacli.sharing.signing.tokens import Bound, Seal, TokenRefused


@dataclass(frozen=True)
class WireSeal:
    """Makes and opens tokens. `clock` is in epoch milliseconds."""

    inner: Seal
    clock: Callable[[], int]

    def seal(self, kind: str, payload: Mapping[str, Any], *, bound: Bound, expires_ms: int) -> str:
        """Return a token of letters, digits, `-` and `_`."""
        return self.inner.seal(kind, payload, bound=bound, expires_ms=expires_ms, now_ms=self.clock())

    def open(self, kind: str, token: str, *, bound: Bound) -> Mapping[str, Any]:
        """Return the payload of a token. Raises WireError."""
        try:
            return self.inner.open(kind, token, bound=bound, now_ms=self.clock())
        except TokenRefused as refused:
            if refused.reason == "expired":
                raise invalid("the token has expired; begin again without it") from None
            raise invalid("the token is invalid, or belongs to another request") from None
