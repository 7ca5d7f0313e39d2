"""Errors of the client and of pulls, what an answer of a server is held to, and queries that it answers later."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import SystemRandom
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from deltacli.core import errors
from deltacli.core.hosts import is_loopback
from deltacli.core.typing import Json

if TYPE_CHECKING:
    from deltacli.storage.retry import Retry


DIFFERS = "share.file-differs"
ASK_PROVIDER = "ask the provider of the share to validate the table at level storage"


class PullRefused(errors.Refused):
    """The target is not a copy of this table at this or an earlier version. Nothing was changed."""

    code = "share.pull-target"


def other_size(name: str, declared: int | None, found: int | str) -> errors.DataUnreadable:
    """Return the error for a file whose size is not the declared one."""
    return errors.DataUnreadable(
        "a shared file has another size than the server declared",
        code=DIFFERS,
        facts={"file": name, "declared": f"{declared} bytes", "found": f"{found} bytes"},
        hint=ASK_PROVIDER,
    )


def invalid_file(name: str, why: str, facts: Mapping[str, str] | None = None) -> errors.DataUnreadable:
    """Return the error for a file whose content is not that of the shared table."""
    return errors.DataUnreadable(
        f"{name} was downloaded, but {why}", code=DIFFERS, facts={"file": name, **(facts or {})}
    )


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LONGEST_TEXT = 500


class ShareAbsent(errors.Unreadable):
    """The share, schema or table does not exist, or is not shared with this recipient."""

    code = "share.not-found"


class RequestRefused(errors.Unreadable):
    """The server rejected a request that a repetition cannot change. `error_code` is the server's own."""

    code = "share.request"
    status = 400
    error_code = ""


class AnswerInvalid(errors.Unreadable):
    """The server answered against the protocol, or more than the client accepts."""

    code = "share.answer"


class AnswerBroken(errors.StorageFailed):
    """An answer ended before it was complete."""

    code = "share.answer-cut"


class ServerUnavailable(errors.StorageFailed):
    """The server cannot be reached, or fails."""

    code = "share.unavailable"


class AccessRefused(errors.PermissionRefused):
    """The server does not accept the credentials of the profile."""

    code = "share.access"


class UrlRefused(errors.Refused):
    """A URL that a server sent leads where the client does not go."""

    code = "share.url-refused"


class FilesMovedOn(errors.Unreadable):
    """The files of the version are not shared any more: the table was changed while it was read."""

    code = "share.moved-on"


def clean(text: object) -> str:
    """Return a text of a server as one line of printable characters, shortened."""
    line = " ".join(_CONTROL.sub(" ", str(text)).split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}…"


def invalid_answer(what: str, facts: Mapping[str, object] | None = None) -> AnswerInvalid:
    """Return the error for an answer that breaks the protocol."""
    shown = {name: clean(value) for name, value in (facts or {}).items()}
    return AnswerInvalid(f"invalid answer of the sharing server: {what}", facts=shown)


def unframed(message: str) -> AnswerBroken:
    """Return the error for a body without a length and chunks whose content does not show that it is complete."""
    facts = {"expected": "Content-Length, Transfer-Encoding: chunked, or a body whose end is known by its content"}
    return AnswerBroken(message, facts=facts)


def too_much(what: str, limit: str) -> AnswerInvalid:
    """Return the error for an answer above a limit of the client."""
    return AnswerInvalid(f"{what} exceeds the limit of {limit}", code="share.limit")


def missing_extra() -> errors.UsageError:
    """Return the error for an installation without the library that connects to servers."""
    message = "reading shares requires urllib3, which is not installed"
    return errors.UsageError(message, code="usage.missing-extra", hint=errors.install_command("share-client"))


def make_read_only_error(address: str) -> errors.UsageError:
    """Return the error for a command that writes."""
    return errors.UsageError(
        "a shared table is read-only: this command changes tables",
        code="share.read-only",
        facts={"table": address},
        hint="ask the provider of the share, or run the command on a table of your own",
    )


# -- what an answer of a server is held to -----------------------------------------------------------------------------


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
    query_seconds: float = 600.0
    """For a query that the server answers later, from its submission on."""
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
    """Return a profile's URL without its last slash, and its origin. Raises UsageError unless https, or loopback."""
    try:
        parts = urlsplit(text) if isinstance(text, str) and text.isprintable() else None
    except ValueError:
        parts = None
    origin = origin_of(parts) if parts is not None else None
    if parts is None or origin is None or parts.username is not None or parts.query or parts.fragment:
        raise errors.UsageError(f"{what} of the profile is not an https URL", code="share.profile")
    if origin.scheme == "http" and not is_loopback(origin.host):
        raise errors.UsageError(
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
        message = f"the server sent a file URL of a {reach} address"
        raise UrlRefused(message, facts={"host": clean(host), "address": address}, hint=None)


# -- queries that a server answers later -------------------------------------------------------------------------------

CAPABILITY = "asyncquery=true"
STATUS = "queryStatus"
_ERROR_NAMES = ("errorMessage", "message", "error")
"""The protocol does not name the member."""
_LONGEST_ID = 1_024
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 10.0

Answer = TypeVar("Answer")


class NotReadyError(Exception):
    """An answer that begins with a queryStatus. `asked_s`: the seconds that the server wants to be left alone."""

    def __init__(self, fields: Mapping[str, Json], asked_s: float) -> None:
        super().__init__(STATUS)
        self.fields, self.asked_s = fields, asked_s


class QueryStatus(NamedTuple):
    """What a server says of a query. `error` is None while the query is pending."""

    query_id: str
    error: str | None = None


def read_status(fields: Mapping[str, Json], query_id: str | None = None) -> QueryStatus:
    """Return a queryStatus. Raises AnswerInvalid for one of another query than `query_id`, or of an unknown status."""
    found, status = fields.get("queryId"), fields.get("status")
    if not isinstance(found, str) or not found or len(found) > _LONGEST_ID:
        raise invalid_answer("a queryStatus has no queryId", {"queryId": found})
    if query_id is not None and found != query_id:
        raise invalid_answer("a queryStatus is that of another query", {"asked": query_id, "found": found})
    match status.lower() if isinstance(status, str) else None:
        case "pending":
            return QueryStatus(found)
        case "failed":
            texts = (fields.get(name) for name in _ERROR_NAMES)
            return QueryStatus(found, next((clean(text) for text in texts if isinstance(text, str) and text), ""))
    raise invalid_answer("the status of a query is neither pending nor failed", {"status": status})


def path_of(query_id: str) -> str:
    """Return the path of a query below its table."""
    return f"/queries/{quote(query_id, safe='')}"


def wait_for(ask: Callable[[str | None], Answer], retry: Retry, limit_s: float, what: str) -> tuple[Answer, str | None]:
    """Return the answer to a query, and the id of the query where it was not there at once. `ask` submits the query for
    None, and asks for the result of an id; it raises NotReadyError. A query that the server has forgotten is submitted
    once more.

    Raises RequestRefused where the query failed, ServerUnavailable where it takes longer than `limit_s`.
    """
    query_id: str | None = None
    began, wait_s, may_submit = retry.now(), _FIRST_WAIT_S, True
    while True:
        try:
            return ask(query_id), query_id
        except NotReadyError as fault:
            status, asked_s = read_status(fault.fields, query_id), fault.asked_s
        except ShareAbsent:
            if query_id is None or not may_submit:
                raise
            query_id, may_submit = None, False
            continue
        if status.error is not None:
            said = f": {status.error}" if status.error else ""
            raise RequestRefused(f"the server could not complete {what}{said}", code="share.query-failed")
        query_id, waited_s = status.query_id, retry.now() - began
        pause_s = max(SystemRandom().uniform(wait_s / 2, wait_s), asked_s)
        if waited_s + pause_s > limit_s or retry.is_stopping():
            asked = {"asked to wait": f"{asked_s:.0f} s"} if asked_s else {}
            raise ServerUnavailable(
                f"the server did not complete {what} in {waited_s:.0f} s",
                code="share.query-timeout",
                facts={"query": clean(query_id), **asked, "limit": f"{limit_s:.0f} s"},
                hint="run the command again later",
            )
        since = f"has been preparing {what} for {waited_s:.0f} s" if waited_s >= 1 else f"is preparing {what}"
        retry.note_delay(f"the server {since}")
        retry.wait(pause_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
