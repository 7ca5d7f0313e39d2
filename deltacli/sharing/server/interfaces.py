"""What the application needs from others: who asks, tokens that cannot be forged, and URLs of files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deltacli.sharing.model import Catalog, SharedTable
from deltacli.sharing.protocol.wire_errors import invalid
from deltacli.sharing.signing.tokens import Bound, Seal, TokenRefused
from deltacli.sharing.signing.v4 import SignedUrls


@dataclass(frozen=True)
class Caller:
    """A recipient at the time of a request. `epoch` is the recipient's, for page tokens. `expires_ms` is the end of the
    token that was used, in epoch milliseconds; None if it has none. `token_id` names the token in the audit log, and
    `token_epoch` in URLs of files.
    """

    name: str
    epoch: int = 0
    expires_ms: int | None = None
    token_id: str | None = None
    token_epoch: int = 0


@dataclass(frozen=True)
class Access:
    """What a caller sees."""

    caller: Caller
    catalog: Catalog


@dataclass(frozen=True)
class TokenSeal:
    """Makes tokens that nobody can change or make, and opens them. `clock` is in epoch milliseconds."""

    inner: Seal
    clock: Callable[[], int]

    def seal(self, kind: str, payload: Mapping[str, Any], *, bound: Bound, expires_ms: int) -> str:
        """Return a token of letters, digits, `-` and `_`."""
        return self.inner.seal(kind, payload, bound=bound, expires_ms=expires_ms, now_ms=self.clock())

    def open(self, kind: str, token: str, *, bound: Bound) -> Mapping[str, Any]:
        """Return the payload of a token. Raises WireError unless it was made for the same `kind` and `bound`, and has
        not expired.
        """
        try:
            return self.inner.open(kind, token, bound=bound, now_ms=self.clock())
        except TokenRefused as refused:
            if refused.reason == "expired":
                raise invalid("the token has expired; begin again without it") from None
            raise invalid("the token is invalid, or belongs to another request") from None


class TableUrlSigner(Protocol):
    """Makes URLs of the files of one table for one recipient. `waits`: every URL takes a request to another machine."""

    @property
    def waits(self) -> bool: ...

    @property
    def identity(self) -> Hashable:
        """Equal for signers that make the same URLs, now."""

    def sign(self, paths: Sequence[str], expires_ms: int) -> SignedUrls:
        """Return a URL for each path, relative to the table and decoded. They expire at `expires_ms` or before."""


OpenSigner = Callable[[SharedTable, Caller], TableUrlSigner]
"""Returns the signer of a table for a recipient. Raises WireError where the store of the table cannot be signed for."""
