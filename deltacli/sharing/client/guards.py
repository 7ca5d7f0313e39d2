"""What an answer of a server is held to: where requests may go, which is https except on loopback, and never from a
public server into private networks; how much of it the client accepts, and how long it waits.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from deltacli.core.errors import UsageError
from deltacli.core.loopback import is_loopback
from deltacli.sharing.client.faults import UrlRefused, clean


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """Bytes, numbers and seconds. An answer above a limit is an error that names it."""

    line_bytes: int = 32 << 20
    """One line of an answer: an action with its statistics."""
    document_bytes: int = 16 << 20
    """A JSON document, such as a page of a list."""
    answer_bytes: int = 64 << 30
    """All lines of an answer."""
    error_bytes: int = 64 << 10
    """The body of an error; more is not read."""
    pages: int = 100_000
    """Pages of one list or query."""
    files: int = 20_000_000
    """Files of one version."""
    items: int = 1_000_000
    """Shares, schemas or tables of one list."""
    connect_seconds: float = 10.0
    read_seconds: float = 120.0
    """Without a byte."""
    head_seconds: float = 120.0
    """For the status and the headers of an answer, all interim answers included; and for each part of the framing of
    its body: a line with the size of a chunk, the trailers."""
    pace_seconds: float = 60.0
    pace_bytes: int = 1_024
    """Least bytes that arrive in `pace_seconds`."""
    redirects: int = 3
    """All of them to the same origin."""


DEFAULTS = AnswerLimits()


_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Reach(StrEnum):
    """From where an address can be reached."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link-local"
    RESERVED = "reserved"


def reach_of(text: str) -> Reach:
    """Return the range of an IP address. IPv4 addresses inside IPv6 ones are judged as IPv4."""
    address = _inner(ipaddress.ip_address(text.partition("%")[0]))
    if address.is_loopback:
        return Reach.LOOPBACK
    if address.is_link_local:
        return Reach.LINK_LOCAL
    if address.is_multicast or address.is_unspecified or address.is_reserved:
        return Reach.RESERVED
    return Reach.PUBLIC if address.is_global else Reach.PRIVATE


def _inner(address: _Address) -> _Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None) or address


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port, which decide who gets a token."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def origin_of(parts: SplitResult) -> Origin | None:
    """Return the origin of a URL; None where it is not http or https, or has no host."""
    try:
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return Origin(parts.scheme, parts.hostname.lower().rstrip("."), port or _PORTS[parts.scheme])


def require_endpoint(text: object, what: str = "the endpoint") -> tuple[str, Origin]:
    """Return a URL of a profile without its last slash, and its origin. Raises UsageError unless it is https, or http
    on loopback.
    """
    try:
        parts = urlsplit(text) if isinstance(text, str) and text.isprintable() else None
    except ValueError:
        parts = None
    origin = origin_of(parts) if parts is not None else None
    if parts is None or origin is None or parts.username is not None or parts.query or parts.fragment:
        raise UsageError(f"{what} of the profile is not an https URL", code="share.profile")
    if origin.scheme == "http" and not is_loopback(origin.host):
        raise UsageError(
            f"{what} of the profile is plain http: the token would be sent unencrypted",
            code="share.profile",
            facts={what.removeprefix("the "): f"http://{origin.host}", "expected": "https"},
        )
    return str(text).rstrip("/"), origin


def require_file_url(text: object, endpoint: Origin) -> SplitResult:
    """Return a URL of a file, parsed. Raises UrlRefused unless it is https, or http where the endpoint is on loopback.

    Messages contain the host only: the rest of the URL gives access to the file.
    """
    try:
        parts = urlsplit(text) if isinstance(text, str) else None
    except ValueError:
        parts = None
    if parts is None or not isinstance(text, str) or not text.isascii() or not text.isprintable() or " " in text:
        raise UrlRefused("the server sent a file URL that is not a URL")
    origin = origin_of(parts)
    if origin is None or parts.username is not None:
        raise UrlRefused(
            "the server sent a file URL that is not http or https", facts={"scheme": clean(parts.scheme[:20] or "none")}
        )
    if origin.scheme == "http" and not (is_loopback(endpoint.host) and is_loopback(origin.host)):
        raise UrlRefused("the server sent a file URL of plain http", facts={"host": clean(origin.host)})
    return parts


def require_reach(host: str, address: str, allowed: frozenset[Reach]) -> None:
    """Raise UrlRefused where a host has an address in a range that is not allowed. Public ones always are."""
    reach = reach_of(address)
    if reach is not Reach.PUBLIC and reach not in allowed:
        raise UrlRefused(
            f"the server sent a file URL of a {reach} address",
            facts={"host": clean(host), "address": address},
            hint=None,
        )
