"""A guard with one token, which sees everything: for trying the server out, and for `authorization.bearerToken`."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256

from starlette.requests import Request

from deltacli.sharing.model import Catalog
from deltacli.sharing.protocol.wire_errors import ErrorCode, WireError
from deltacli.sharing.server.ports import Access, Caller

NAME = "everyone"


@dataclass(frozen=True)
class OneToken:
    """Admits the bearer of one token."""

    token_sha256: bytes
    catalog: Catalog

    async def admit(self, request: Request) -> Access:
        """Return the whole catalog. Raises WireError without the token."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        if not hmac.compare_digest(given, self.token_sha256) or scheme.lower() != "bearer":
            raise WireError(401, ErrorCode.UNAUTHENTICATED, "the bearer token is missing or invalid")
        return Access(Caller(NAME), self.catalog)

    def readmit(self, name: str, epoch: int) -> Access:
        """Return the whole catalog."""
        if (name, epoch) != (NAME, 0):
            raise WireError(403, ErrorCode.FORBIDDEN, "the access that the URL was made for was revoked")
        return Access(Caller(NAME), self.catalog)


def digest_of(token: str) -> bytes:
    """Return what is kept of a token."""
    return sha256(token.encode()).digest()
