"""Requests to a sharing server with the credentials of a profile, and for the files it names.

The token is sent to the endpoint's own origin only.

Connections of files have no credentials, and go only to addresses that the endpoint's own range allows.

Spec: Profile File Format; OAuth 2.0, Client Credentials Grant.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote_plus, urlencode, urljoin, urlsplit

import orjson

from deltacli.core.errors import DeltacliError, UsageError, command
from deltacli.core.hosts import is_loopback
from deltacli.core.lock_free_property import cached_property
from deltacli.core.machine import Clock, system_clock
from deltacli.core.typing import Json, JsonObject
from deltacli.sharing.client import faults
from deltacli.sharing.configuration.secrets import CODE, Profile, find_profile_problems, read_profile
from deltacli.storage.fsspec_errors import is_unreachable
from deltacli.storage.objects.http_errors import CERTIFICATES_HINT
from deltacli.storage.retry import BODY_ATTEMPTS, TEMPORARY_STATUSES, Retry, describe_attempts
from deltacli.storage.retry_after import read_retry_after
from deltacli.storage.secrets import mask_secrets, remember_secrets

if TYPE_CHECKING:
    import urllib3

    from deltacli.sharing.client.connections import Resolve

# -- credentials of a profile as headers -------------------------------------------------------------------------------

EARLY_MS = 60_000
"""A token is replaced this long before it expires."""
_USUAL_LIFETIME_S = 3_600
_LONGEST_LIFETIME_S = 10 * 365 * 86_400

PostForm = Callable[[str, Mapping[str, str], bytes], bytes]
"""Sends a form to a URL with headers and returns the body of the answer."""


class Credentials(Protocol):
    """Makes the header of a request to the endpoint."""

    def authorization(self) -> str:
        """Return the value of `Authorization`."""

    def renew(self) -> bool:
        """Forget a token that was not accepted; return True where another one can be had."""


@dataclass(frozen=True, slots=True)
class FixedCredentials:
    """The same header for every request."""

    header: str

    def authorization(self) -> str:
        return self.header

    def renew(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "FixedCredentials()"


class OAuthCredentials:
    """Tokens of an OAuth server, each used until shortly before it expires."""

    def __init__(self, fields: Mapping[str, object], post: PostForm, clock: Clock) -> None:
        self._url, _ = faults.require_endpoint(fields.get("tokenEndpoint"), "the tokenEndpoint")
        self._client, self._secret = _text(fields, "clientId"), _text(fields, "clientSecret")
        scope = fields.get("scope")
        self._scope = scope if isinstance(scope, str) and scope else None
        self._post, self._clock, self._lock = post, clock, Lock()
        self._token, self._until_ms = "", 0

    def authorization(self) -> str:
        with self._lock:
            if not self._token or self._clock() >= self._until_ms:
                self._token, self._until_ms = self._fetch()
            return f"Bearer {self._token}"

    def renew(self) -> bool:
        with self._lock:
            self._token = ""
        return True

    def _fetch(self) -> tuple[str, int]:
        form = {"grant_type": "client_credentials"} | ({} if self._scope is None else {"scope": self._scope})
        pair = f"{quote_plus(self._client)}:{quote_plus(self._secret)}".encode()
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        answer = _parse(self._post(self._url, headers, urlencode(form).encode()))
        token, lifetime = answer.get("access_token"), answer.get("expires_in", _USUAL_LIFETIME_S)
        if not isinstance(token, str) or not is_header_text(token):
            raise faults.AccessRefused("the token server of the profile sent no access_token")
        try:
            seconds = min(max(int(lifetime), 0), _LONGEST_LIFETIME_S)
        except (TypeError, ValueError, OverflowError):
            seconds = _USUAL_LIFETIME_S
        return token, self._clock() + max(seconds * 1_000 - EARLY_MS, seconds * 500)


def _parse(body: bytes) -> dict[str, Json]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise faults.invalid_answer("the answer of the token server is not a JSON object")
    return document


def is_header_text(text: str) -> bool:
    """Return True for a text that a header can contain."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"the profile has no {name}", code=CODE)
    return value


def require_usable(profile: Profile, clock: Clock) -> tuple[str, faults.Origin, list[str]]:
    """Return the endpoint of a profile, its origin, and warnings. Raises UsageError for a profile that cannot work."""
    problems = find_profile_problems(profile, clock())
    for problem in problems:
        if problem.is_error:
            message = f"the profile {profile.path} cannot be used: {problem.message}"
            raise UsageError(
                message, code=CODE, facts={"problem": problem.code}, hint=command("share profile check", profile.path)
            )
    endpoint, origin = faults.require_endpoint(profile.endpoint)
    return endpoint, origin, [f"{profile.path}: {problem.message}" for problem in problems]


def credentials_of(profile: Profile, post: PostForm, clock: Clock) -> Credentials:
    """Return the credentials of a profile. Raises UsageError for a type that this client does not support."""
    fields = profile.credentials
    for name in ("bearerToken", "password", "clientSecret"):
        remember_secrets({"token": fields.get(name, "")})
    match profile.kind:
        case "bearer_token":
            return FixedCredentials(f"Bearer {_text(fields, 'bearerToken')}")
        case "basic":
            pair = f"{_text(fields, 'username')}:{_text(fields, 'password')}".encode()
            return FixedCredentials(f"Basic {base64.b64encode(pair).decode()}")
        case "oauth_client_credentials":
            return OAuthCredentials(fields, post, clock)
    message = f"the profile {profile.path} has credentials of type {profile.kind[:60]}, which is not supported"
    raise UsageError(message, code=CODE, facts={"supported": "bearer_token, oauth_client_credentials, basic"})


# -- requests to a sharing server --------------------------------------------------------------------------------------

Result = TypeVar("Result")

PARALLEL_DOWNLOADS = 16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BLOCK_BYTES = 256 << 10
_LONGEST_ASKED_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request below the endpoint. Names in `path` are encoded already."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: JsonObject | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    may_redirect: bool = True
    """A redirect to the same origin is followed."""


class _AgainError(Exception):
    """An answer after which the request may be repeated; `fault` is raised when it is not."""

    def __init__(self, fault: DeltacliError, cause: str, seconds: float) -> None:
        super().__init__(cause)
        self.fault, self.cause, self.seconds = fault, cause, seconds


class Reply:
    """The status and the headers of an answer, and its body, read once."""

    def __init__(self, response: Any, limits: faults.AnswerLimits, now: Callable[[], float]) -> None:  # Any: of urllib3
        self.status: int = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response, self._limits, self._now = response, limits, now
        self._is_kept = False
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise faults.invalid_answer(
                "the body is compressed, which was not asked for", {"content-encoding": encoding}
            )

    @property
    def is_framed(self) -> bool:
        """Return True if the end of the body can be told from a broken connection."""
        return "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()

    def blocks(self, most: int, what: str) -> Iterator[bytes]:
        """Yield the body. Raises AnswerBroken where it ends early or hardly moves, AnswerInvalid above `most` bytes."""
        count, window, since = 0, 0, self._now()
        while block := self._read(_BLOCK_BYTES, what):
            count, window = count + len(block), window + len(block)
            if count > most:
                raise faults.too_much(what, f"{most:,} bytes")
            now = self._now()
            if now - since >= self._limits.pace_seconds:
                if window < self._limits.pace_bytes:
                    raise faults.AnswerBroken(f"{what} hardly moves: {window} bytes in {now - since:.0f} s")
                window, since = 0, now
            yield block

    def _read(self, most: int, what: str) -> bytes:
        import urllib3.exceptions

        try:
            return bytes(self._response.read1(most))
        except urllib3.exceptions.HTTPError as fault:
            raise faults.AnswerBroken(f"{what} broke off", facts={"reason": faults.clean(fault)}) from fault

    def whole(self, most: int, what: str) -> bytes:
        """Return the whole body. Raises what `blocks` raises."""
        return b"".join(self.blocks(most, what))

    def head(self, most: int) -> bytes:
        """Return the beginning of the body, less of one that hardly moves."""
        data, began = b"", self._now()
        while len(data) < most and self._now() - began < self._limits.pace_seconds:
            block = self._read(most - len(data), "the body of an error")
            if not block:
                break
            data += block
        return data

    def keep_open(self) -> Reply:
        """Leave closing to the caller."""
        self._is_kept = True
        return self

    def release(self) -> None:
        """Close, unless the caller does."""
        if not self._is_kept:
            self.close()

    def close(self) -> None:
        """Release the connection; it is used again only where the body was read to its end."""
        if self._response.closed:
            self._response.release_conn()
        else:
            self._response.close()


class EndpointReach:
    """The ranges that the endpoint's own addresses lie in, as far as it was connected to.

    Connections hold this, and nothing that holds connections: urllib3 keeps those of a pool until the pool is gone.
    """

    def __init__(self, origin: faults.Origin) -> None:
        self._host = origin.host
        self._reaches: set[faults.Reach] = {faults.Reach.LOOPBACK} if is_loopback(origin.host) else set()

    def note(self, host: str, address: str) -> None:
        """Remember the range of the endpoint. Plain http goes to loopback only, whatever a name resolves to."""
        reach = faults.reach_of(address)
        if is_loopback(host) and reach is not faults.Reach.LOOPBACK:
            raise faults.ServerUnavailable(f"{host} has the address {address}, which is not on loopback")
        if host.lower().rstrip(".") == self._host:
            self._reaches.add(reach)

    def require(self, host: str, address: str) -> None:
        """Raise UrlRefused for an address of a file in another range than those of the endpoint."""
        faults.require_reach(host, address, frozenset(self._reaches))


class Transport:
    """Sends the requests of one profile, from any thread."""

    def __init__(
        self,
        endpoint: str,
        origin: faults.Origin,
        *,
        retry: Retry | None = None,
        limits: faults.AnswerLimits = faults.DEFAULTS,
        clock: Clock = system_clock,
        now: Callable[[], float] = time.monotonic,
        lookup: Resolve | None = None,
    ) -> None:
        self.endpoint, self.origin, self.limits, self.clock = endpoint, origin, limits, clock
        self.retry = retry or Retry()
        self.credentials: Credentials | None = None
        self._now, self._lookup = now, lookup
        self._reach = EndpointReach(origin)
        self._answered: set[str] = set()
        """Hosts that have answered, so that they exist."""

    # -- requests to the endpoint ---------------------------------------------------------------------------------

    def document(self, request: Request) -> tuple[Reply, Json]:
        """Return an answer and its JSON document, None for an empty body."""

        def read(reply: Reply) -> tuple[Reply, Any]:
            body = reply.whole(self.limits.document_bytes, "a document of the sharing server")
            try:
                return reply, parse_json(body) if body.strip() or not reply.is_framed else None
            except faults.AnswerInvalid as fault:
                if reply.is_framed:
                    raise
                message = "a document of the sharing server ended with the connection, before the end of its JSON"
                raise faults.unframed(message) from fault

        return self.ask(request, read)

    def ask(self, request: Request, read: Callable[[Reply], Result]) -> Result:
        """Return what `read` makes of the answer; it is called again where a body breaks off and is asked for again."""
        target = self.endpoint + request.path
        if request.query:
            target += "?" + urlencode(request.query)
        body = None if request.body is None else orjson.dumps(request.body)
        headers = dict(request.headers)
        if body is not None:
            headers["Content-Type"] = "application/json; charset=utf-8"

        def send() -> Result:
            may_redirect = request.may_redirect
            return self._with_token(request.method, target, headers, body, read, may_redirect=may_redirect)

        return self._repeated(send, self.origin.host)

    def open_reply(self, request: Request) -> Reply:
        """Return an answer with status 200, its body unread. Close it. A body that breaks off raises AnswerBroken."""
        return self.ask(request, Reply.keep_open)

    def post_form(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """Send a form to the token server of the profile and return the body of the answer."""
        host = urlsplit(url).hostname or url

        def send() -> bytes:
            reply = self._open(self._pools, "POST", url, headers, body)
            try:
                self._require_done(reply, "the token server")
                return reply.whole(self.limits.document_bytes, "the answer of the token server")
            finally:
                reply.close()

        return self._repeated(send, host)

    def _with_token(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        read: Callable[[Reply], Result],
        *,
        may_redirect: bool = True,
    ) -> Result:
        is_renewed = False
        for _ in range(self.limits.redirects + 2):
            assert self.credentials is not None
            own = {"Authorization": self.credentials.authorization(), **headers}
            reply = self._open(self._pools, method, target, own, body)
            try:
                if reply.status in _REDIRECTS:
                    if not may_redirect:
                        raise faults.invalid_answer("it redirects a request that is not to be redirected")
                    target = self._redirected(target, reply)
                    continue
                if reply.status == 401 and not is_renewed and self.credentials.renew():
                    is_renewed = True
                    continue
                self._require_done(reply, "the sharing server")
                return read(reply)
            finally:
                reply.release()
        raise faults.invalid_answer("too many redirects", {"limit": self.limits.redirects})

    def _redirected(self, target: str, reply: Reply) -> str:
        """Return where a redirect leads. Raises AnswerInvalid unless it is the same origin."""
        try:
            found: str = urljoin(target, reply.headers.get("location", ""))
            origin = faults.origin_of(urlsplit(found))
        except ValueError:
            found, origin = "", None
        if origin != faults.origin_of(urlsplit(target)) or not found.isascii() or not found.isprintable():
            raise faults.invalid_answer(
                "it redirects to another origin", {"from": self.origin, "to": origin or "no http URL"}
            )
        return found

    # -- files ----------------------------------------------------------------------------------------------------

    def fetch(self, url: str, headers: Mapping[str, str], read: Callable[[Reply], Result]) -> Result:
        """Get a file, or a range of it, without any credentials, and return what `read` makes of the answer: 2xx, 4xx.

        Raises UrlRefused for a URL that leads where the client does not go.
        """
        parts = faults.require_file_url(url, self.origin)
        host = parts.hostname or ""

        def send() -> Result:
            reply = self._open(self._file_pools, "GET", url, headers, None)
            try:
                if reply.status in _REDIRECTS:
                    raise faults.invalid_answer("the URL of a file redirects", {"host": host, "status": reply.status})
                if reply.status in TEMPORARY_STATUSES:
                    fault = faults.ServerUnavailable(f"{host} answered with status {reply.status}")
                    raise _AgainError(fault, f"status {reply.status}", self._asked_seconds(reply))
                return read(reply)
            finally:
                reply.close()

        return self._repeated(send, host)

    # -- one request ----------------------------------------------------------------------------------------------

    @cached_property
    def _pools(self) -> urllib3.PoolManager:
        return self._make_pools(self._reach.note)

    @cached_property
    def _file_pools(self) -> urllib3.PoolManager:
        return self._make_pools(self._reach.require)

    def _make_pools(self, vet: Callable[[str, str], None]) -> urllib3.PoolManager:
        try:
            from deltacli.sharing.client import connections
        except ImportError as fault:
            raise faults.missing_extra() from fault
        lookup = self._lookup or connections.resolve
        return connections.make_pools(
            vet, connections=PARALLEL_DOWNLOADS, lookup=lookup, head_seconds=self.limits.head_seconds
        )

    def learn_reach(self) -> None:
        """Resolve the endpoint, so that URLs in its own range are accepted before it was connected to."""
        from deltacli.sharing.client import connections

        with suppress(OSError, UnicodeError):
            for address in (self._lookup or connections.resolve)(self.origin.host, self.origin.port):
                self._reach.note(self.origin.host, address)

    def _open(
        self, pools: urllib3.PoolManager, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        import urllib3

        sent = {"Accept-Encoding": "identity", "User-Agent": "deltacli", **headers}
        response = pools.request(
            method,
            url,
            body=body,
            headers=sent,
            preload_content=False,
            decode_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=self.limits.connect_seconds, read=self.limits.read_seconds),
        )
        return Reply(response, self.limits, self._now)

    def _repeated(self, send: Callable[[], Result], host: str) -> Result:
        """Return what `send` returns, repeated within the budget while the server is busy or the connection breaks."""
        try:
            import urllib3.exceptions
        except ImportError:
            return send()  # raises the error that names the extra
        broken: list[Exception] = []

        def cause_of(fault: Exception) -> str | None:
            if isinstance(fault, _AgainError):
                return fault.cause
            if isinstance(fault, faults.AnswerBroken):
                broken.append(fault)
                return "the connection broke" if len(broken) < BODY_ATTEMPTS else None
            if isinstance(fault, urllib3.exceptions.SSLError | urllib3.exceptions.LocationValueError):
                return None
            if host not in self._answered and is_unreachable(fault):
                return None
            return "no connection" if isinstance(fault, urllib3.exceptions.HTTPError) else None

        def answered() -> Result:
            found = send()
            self._answered.add(host)
            return found

        try:
            return self.retry.call(
                answered,
                host=host,
                errors=(_AgainError, faults.AnswerBroken, urllib3.exceptions.HTTPError),
                temporary_cause=cause_of,
                retry_after=lambda fault: fault.seconds if isinstance(fault, _AgainError) else 0.0,
            )
        except _AgainError as fault:
            fault.fault.facts |= describe_attempts(fault)
            raise fault.fault from fault
        except faults.AnswerBroken as fault:
            fault.facts |= describe_attempts(fault)
            raise
        except urllib3.exceptions.HTTPError as fault:
            raise _unreachable(host, fault) from fault

    def _require_done(self, reply: Reply, who: str) -> None:
        if reply.status == 200:
            return
        code, message = _error_of(reply, self.limits)
        fault = fault_of_status(reply.status, code, message, who)
        if reply.status in TEMPORARY_STATUSES:
            raise _AgainError(fault, f"status {reply.status}", self._asked_seconds(reply))
        raise fault

    def _asked_seconds(self, reply: Reply) -> float:
        return min(read_retry_after(reply.headers, now=lambda: self.clock() / 1_000), _LONGEST_ASKED_S)


def parse_json(body: bytes) -> Json:
    """Return a JSON document. Raises AnswerInvalid."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        raise faults.invalid_answer("it is not JSON", {"reason": fault}) from fault


def _error_of(reply: Reply, limits: faults.AnswerLimits) -> tuple[str, str]:
    """Return the error code and the message of an answer, also one of a token server; empty where it has none."""
    try:
        document = orjson.loads(reply.head(limits.error_bytes))
    except orjson.JSONDecodeError:
        return "", ""
    if not isinstance(document, dict):
        return "", ""
    given = (
        document.get("errorCode", document.get("error")),
        document.get("message", document.get("error_description")),
    )
    name, text = (faults.clean(mask_secrets(one)) if isinstance(one, str) else "" for one in given)
    return name, text


SINCE_LATER = "read from a later version, since which the table has a change data feed"
ENABLE_FEED = "ask the provider of the share to enable the change data feed of the table"


def fault_of_status(status: int, code: str, message: str, who: str) -> DeltacliError:
    """Return the error for an answer other than 200."""
    said = f": {message}" if message else ""
    facts = {"status": str(status)} | ({"error": code} if code else {})
    match status:
        case 401 | 403:
            return faults.AccessRefused(f"{who} refused access{said}", facts=facts)
        case 404:
            return faults.ShareAbsent(f"{who} has no such share, schema or table{said}", facts=facts)
        case _ if status >= 500:
            return faults.ServerUnavailable(f"{who} failed{said}", facts=facts)
        case _ if status in TEMPORARY_STATUSES:
            return faults.ServerUnavailable(f"{who} is too busy{said}", facts=facts)
    refused = faults.RequestRefused(f"{who} refused the request{said}", facts=facts)
    if re.search(r"\bhistory\b.* not (?:shared|enabled)\b", message):  # also that of the reference server
        refused.hint = "ask the provider of the share to share the history of the table"
    elif re.search(r"\bchange data feed\b.*\bversions?\b.*\d", message):  # it may be on since a later one
        refused.hint = SINCE_LATER
    elif re.search(r"\b(no|not|without|disabled)\b", message) and "change data feed" in message:
        refused.hint = ENABLE_FEED
    elif re.search(r"\btimestamp\b.* is after the (?:newest|latest) version\b", message):  # of both servers
        refused.hint = "read the newest version, which is older: without a timestamp"
    refused.status, refused.error_code = status, code
    return refused


def _unreachable(host: str, fault: Exception) -> DeltacliError:
    import urllib3.exceptions

    is_url = isinstance(fault, urllib3.exceptions.LocationValueError)  # its message has the URL, which gives access
    reason = "invalid URL" if is_url else faults.clean(getattr(fault, "reason", None) or fault)
    facts = {"host": faults.clean(host), "reason": reason.split(": ", 1)[-1]} | describe_attempts(fault)
    if isinstance(fault, urllib3.exceptions.ProtocolError):
        return faults.AnswerBroken(f"the answer of {faults.clean(host)} broke off", facts=facts)
    hint = "check the endpoint in the profile, and whether the server runs" if is_unreachable(fault) else None
    if isinstance(fault, urllib3.exceptions.ProxyError):
        hint = "check the variable HTTPS_PROXY, or add the host to NO_PROXY"
    elif isinstance(fault, urllib3.exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(fault):
        hint = CERTIFICATES_HINT
    return faults.ServerUnavailable(f"{faults.clean(host)} cannot be reached", facts=facts, hint=hint)


def open_profile(
    path: str | os.PathLike[str],
    *,
    retry: Retry | None = None,
    limits: faults.AnswerLimits = faults.DEFAULTS,
    clock: Clock = system_clock,
    note: Callable[[str], None] | None = None,
) -> Transport:
    """Return the connection of a profile file; nothing is sent yet. `note` gets warnings about the file.

    Raises UsageError for a profile that cannot be used.
    """
    profile = read_profile(Path(os.path.expanduser(path)))
    endpoint, origin, warnings = require_usable(profile, clock)
    if note is not None:
        for warning in warnings:
            note(f"note: {warning}")
    transport = Transport(endpoint, origin, retry=retry, limits=limits, clock=clock)
    transport.credentials = credentials_of(profile, transport.post_form, clock)
    return transport
