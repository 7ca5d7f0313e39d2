"""Answers to requests that are refused before the application sees them, or while it reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltacli.sharing.configuration.recipients import TokenState
from deltacli.units import format_size, format_timestamp

_CHALLENGE = 'Bearer realm="delta-sharing"'


class RequestRefused(Exception):
    """An answer other than 200. The message is for the client: it contains no location and no secret."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None, detail: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers: dict[str, str] = dict(headers or {})
        self.detail = detail
        """What the log of the server gets besides."""

    def body(self) -> bytes:
        """Return the body of the answer, in ASCII."""
        return json.dumps({"errorCode": self.code, "message": self.message}).encode("ascii")


def token_missing() -> RequestRefused:
    """Return the answer to a request without a bearer token."""
    message = "the request has no bearer token (expected: the header Authorization: Bearer TOKEN)"
    return RequestRefused(401, "UNAUTHENTICATED", message, headers={"WWW-Authenticate": _CHALLENGE})


def token_refused(state: TokenState | None = None, at_ms: int | None = None) -> RequestRefused:
    """Return the answer to a token that is unknown, or not valid at the moment; the latter is told to its owner only,
    because only the owner can present it.
    """
    match state:
        case TokenState.EXPIRED:
            reason = f"expired at {format_timestamp(at_ms or 0)}"
        case TokenState.NOT_YET_VALID:
            reason = f"is not valid before {format_timestamp(at_ms or 0)}"
        case _:
            reason = "is not valid"
    challenge = f'{_CHALLENGE}, error="invalid_token"'
    message = f"the bearer token {reason}; ask the provider for a new profile"
    return RequestRefused(401, "UNAUTHENTICATED", message, headers={"WWW-Authenticate": challenge})


def url_revoked() -> RequestRefused:
    """Return the answer to a signed URL whose recipient lost access since."""
    return RequestRefused(403, "PERMISSION_DENIED", "the URL was revoked; repeat the query to get another one")


def too_many(what: str, retry_after_seconds: int) -> RequestRefused:
    """Return the answer to a recipient that asks too often, or too much at once."""
    headers = {"Retry-After": str(max(retry_after_seconds, 1))}
    return RequestRefused(429, "TOO_MANY_REQUESTS", f"too many requests: {what}", headers=headers)


def body_too_large(most_bytes: int) -> RequestRefused:
    """Return the answer to a body that is too large. The rest of it is not read, so the connection is closed."""
    message = f"the body of the request is larger than {format_size(most_bytes)}"
    return RequestRefused(413, "REQUEST_TOO_LARGE", message, headers={"Connection": "close"})


def body_too_slow(seconds: int) -> RequestRefused:
    """Return the answer to a body that does not arrive."""
    message = f"the body of the request did not arrive within {seconds} seconds"
    return RequestRefused(408, "REQUEST_TIMEOUT", message, headers={"Connection": "close"})


def headers_too_large(most_bytes: int) -> RequestRefused:
    """Return the answer to headers that are too large."""
    message = f"the headers of the request are larger than {format_size(most_bytes)}"
    return RequestRefused(431, "REQUEST_TOO_LARGE", message, headers={"Connection": "close"})


def encoding_refused(name: str) -> RequestRefused:
    """Return the answer to a compressed body."""
    message = f"the Content-Encoding {name[:40]!r} is not accepted; send the body as it is"
    return RequestRefused(415, "UNSUPPORTED_MEDIA_TYPE", message, headers={"Accept-Encoding": "identity"})


def host_refused() -> RequestRefused:
    """Return the answer to a request for another host, such as one by a page of a foreign web site."""
    return RequestRefused(421, "INVALID_PARAMETER_VALUE", "the Host header does not name this server")


def body_malformed(reason: str) -> RequestRefused:
    """Return the answer to a body that is not what it has to be."""
    return RequestRefused(400, "MALFORMED_REQUEST", f"the body of the request {reason}")


def not_recorded() -> RequestRefused:
    """Return the answer to a request that cannot be recorded, and so is not served."""
    message = "the server cannot record requests at the moment, so it does not answer them"
    return RequestRefused(503, "SERVICE_UNAVAILABLE", message, headers={"Retry-After": "60"})
