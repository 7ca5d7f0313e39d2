"""Answers to requests that are refused before the application sees them, or while it reads them."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.core.units import format_size, format_timestamp
from deltacli.sharing.configuration.recipients import TokenState
from deltacli.sharing.protocol.wire_errors import ErrorCode, WireError

_CLOSE = {"Connection": "close"}
_CHALLENGE = 'Bearer realm="delta-sharing"'


def token_missing() -> WireError:
    """Return the answer to a request without a bearer token."""
    message = "the request has no bearer token (expected: the header Authorization: Bearer TOKEN)"
    return WireError(401, ErrorCode.UNAUTHENTICATED, message, headers={"WWW-Authenticate": _CHALLENGE})


def token_refused(state: TokenState | None = None, at_ms: int | None = None) -> WireError:
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
    return WireError(401, ErrorCode.UNAUTHENTICATED, message, headers={"WWW-Authenticate": challenge})


def url_revoked() -> WireError:
    """Return the answer to a signed URL whose recipient lost access since."""
    return WireError(403, ErrorCode.FORBIDDEN, "the URL was revoked; repeat the query to get another one")


def too_many(what: str, retry_after_seconds: int) -> WireError:
    """Return the answer to a recipient that asks too often, or too much at once."""
    headers = {"Retry-After": str(max(retry_after_seconds, 1))}
    return WireError(429, ErrorCode.TOO_MANY, f"too many requests: {what}", headers=headers)


def too_large(what: str, most_bytes: int) -> WireError:
    """Return the answer to a head or a body that is too large. The rest of it is not read: the connection is closed."""
    message = f"the {what} of the request is larger than {format_size(most_bytes)}"
    return WireError(431 if what == "head" else 413, ErrorCode.TOO_LARGE, message, headers={"Connection": "close"})


def too_slow(what: str, seconds: int) -> WireError:
    """Return the answer to a head or a body that does not arrive."""
    message = f"the {what} of the request did not arrive within {seconds} seconds"
    return WireError(408, ErrorCode.TIMEOUT, message, headers={"Connection": "close"})


def too_many_connections() -> WireError:
    """Return the answer to a connection for which there is no room."""
    headers = {"Retry-After": "1", "Connection": "close"}
    return WireError(503, ErrorCode.UNAVAILABLE, "too many connections are open", headers=headers)


def encoding_refused(name: str) -> WireError:
    """Return the answer to a compressed body."""
    message = f"the Content-Encoding {name[:40]!r} is not accepted; send the body as it is"
    return WireError(415, ErrorCode.MEDIA_TYPE, message, headers={"Accept-Encoding": "identity"})


def require_framing(headers: Iterable[tuple[bytes, bytes]], http_version: str) -> None:
    """Raise WireError for a head that proxies and servers understand differently: without exactly one Host, or with
    another coding of the body than chunks.
    """
    found = list(headers)
    hosts = sum(name == b"host" for name, _ in found)
    if hosts > 1 or (not hosts and http_version == "1.1"):
        raise WireError(400, ErrorCode.MALFORMED, f"the request has {hosts} Host headers (expected: 1)", headers=_CLOSE)
    for name, value in found:
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            message = f"the Transfer-Encoding {value.decode('latin-1')[:40]!r} is not supported (expected: chunked)"
            raise WireError(501, ErrorCode.UNSUPPORTED, message, headers=_CLOSE)


def host_refused() -> WireError:
    """Return the answer to a request for another host, such as one by a page of a foreign web site."""
    return WireError(421, ErrorCode.INVALID, "the Host header does not name this server")


def not_recorded() -> WireError:
    """Return the answer to a request that cannot be recorded, and so is not served."""
    message = "the server cannot record requests at the moment, so it does not answer them"
    return WireError(503, ErrorCode.UNAVAILABLE, message, headers={"Retry-After": "60"})
