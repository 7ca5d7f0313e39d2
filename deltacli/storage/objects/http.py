"""One HTTP request, sent once.

urllib3 sends a request again when a connection breaks, unless it is told not to. A conditional PUT that is sent twice
finds its own first attempt and takes it for another writer's, so every retry is the caller's.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, urlsplit

from deltacli.core.cached import cached_property
from deltacli.core.release import VERSION
from deltacli.core.typing import Json
from deltacli.storage.base import CONNECT_SECONDS, PARALLEL_READS
from deltacli.storage.objects.contents import Body
from deltacli.storage.secrets import without_secrets
from deltacli.storage.tally import Call, HostTally

LARGEST_ANSWER = 1 << 20
"""Bytes of an answer without objects and lists: properties, an error, a token."""
LARGEST_LIST = 16 << 20
"""Bytes of a page of 1,000 names of 1,024 bytes, each byte escaped by six, with their properties."""
LARGEST_UNDECLARED = 128 << 20
"""Bytes of an object that is sent without its length."""
_MOST_AT_ONCE = 128 << 20
"""Bytes that memory is taken for before they arrive."""
_READ_SECONDS = 60.0
_LONGEST_SAID = 200

_CALLS = {"GET": Call.GET, "HEAD": Call.HEAD, "DELETE": Call.DELETE}


class Fate(Enum):
    """What is known about a request that failed."""

    ANSWERED = auto()
    """The store answered with an error."""
    UNSENT = auto()
    """No connection was made, so nothing was done."""
    BROKEN = auto()
    """The connection broke or timed out. The request may have been executed."""
    UNEXPECTED = auto()
    """An answer that is not one of the store. The request may have been executed."""


class HttpFault(Exception):
    """A request that did not do what it was sent for. `status` is 0 where there is no answer; `reason` is the store's
    word for it; `expired` says how credentials that have expired are renewed, '' for any other fault.
    """

    def __init__(self, fate: Fate, said: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(said)
        self.fate, self.status, self.reason, self.said, self.expired = fate, status, reason, said, ""

    def unsent(self) -> HttpFault:
        """Return the same for a request without an effect, as if it had not been sent."""
        fault = HttpFault(Fate.UNSENT, self.said, status=self.status, reason=self.reason)
        fault.__notes__ = getattr(self, "__notes__", [])
        return fault

    def __str__(self) -> str:
        status = f"HTTP {self.status}" if self.status else ""
        return " ".join(part for part in (status, self.reason, self.said) if part)


@dataclass(frozen=True)
class Request:
    """A request. `url` is percent-encoded; `body` is read again each time it is sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    call: Call | None = None
    """What the request is counted as, where its method does not say it."""
    limit: int = LARGEST_ANSWER
    """Most bytes of the answer. One that is longer is not read."""
    reads_object: bool = False
    """The answer has bytes of an object, as they are stored: the range that `limit` is the length of, or, with status
    200, as many as it declares.
    """

    @property
    def counted_as(self) -> Call:
        return self.call or _CALLS.get(self.method, Call.PUT)


@dataclass(frozen=True)
class Answer:
    """An answer of any status. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    def fields(self) -> dict[str, Json]:
        """Return the JSON object of the answer. Raises HttpFault for anything else."""
        try:
            found = json.loads(self.data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self.unexpected("no JSON object")
        return found

    def unexpected(self, seen: str) -> HttpFault:
        """Return the fault of an answer that the store does not give."""
        kind = self.headers.get("content-type", "")[:80]
        said = ", ".join(part for part in (f"HTTP {self.status}", kind, seen) if part)
        return HttpFault(Fate.UNEXPECTED, said)


class Transport:
    """Connections to one endpoint. `verify`: False, or a file of certificates. `tally` counts requests. Thread-safe."""

    def __init__(self, endpoint: str, verify: bool | str = True) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.tally: HostTally | None = None
        self._verify = verify
        self._lock = Lock()

    @property
    def host(self) -> str:
        """Return host and port."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]

    def send(self, request: Request) -> Answer:
        """Send a request exactly once. Raises HttpFault where no complete answer arrives."""
        from urllib3.exceptions import HTTPError

        pool = self._pool
        headers = {"User-Agent": f"deltacli/{VERSION}", "Accept-Encoding": "identity", **request.headers}
        if request.body is not None:
            headers["Content-Length"] = str(request.body.size)
        elif request.method in ("POST", "PUT"):
            headers["Content-Length"] = "0"
        try:
            if self.tally is not None:
                self.tally.sent(request.counted_as, request.body.size if request.body else 0)
            with nullcontext() if request.body is None else request.body.opened() as content:
                found = pool.request(
                    request.method, request.url, headers=headers, body=content, retries=False, redirect=False,
                    decode_content=False, preload_content=False,
                )  # fmt: skip
                answer = Answer(found.status, {name.lower(): value for name, value in found.headers.items()}, b"")
                data = self._read(found, request, answer)
        except (HTTPError, OSError, ValueError) as fault:
            raise _broken(fault) from fault
        if self.tally is not None:
            self.tally.received(len(data))
        return replace(answer, data=data)

    def _read(self, found: Any, request: Request, answer: Answer) -> bytes:  # Any: a response of urllib3
        """Return the body of an answer. Raises HttpFault, without reading more, for one that is too long, or that is
        compressed, which was not asked for: of an object, the bytes are those that are stored, and it shows its end.
        """
        is_object, limit = request.reads_object and found.status < 300, request.limit
        if is_object and found.length_remaining is None and "transfer-encoding" not in answer.headers:
            found.close()
            raise HttpFault(Fate.BROKEN, f"an object without its length, from {self.host}")
        if found.status >= 300:
            limit = LARGEST_ANSWER
        elif is_object and found.status == 200:
            limit = LARGEST_UNDECLARED if found.length_remaining is None else found.length_remaining
        encoding = answer.headers.get("content-encoding", "identity")
        seen = "" if is_object or encoding == "identity" else f"compressed ({said_of(encoding)[:20]})"
        data = None if seen or (found.length_remaining or 0) > limit else read_up_to(limit, found.read)
        if data is None:
            found.close()
            seen = f"{seen or f'more than {limit:,} bytes'}, from {self.host}"
            if found.status >= 500 or found.status in (408, 429):  # known without the words of the store
                raise HttpFault(Fate.UNEXPECTED, seen, status=found.status)
            raise answer.unexpected(seen)
        found.release_conn()
        return data

    @cached_property
    def _pool(self) -> Any:  # Any: a PoolManager or a ProxyManager
        with self._lock:
            return _make_pool(self.endpoint, self._verify)


def read_up_to(limit: int, read: Callable[[int], bytes]) -> bytes | None:
    """Return all bytes of a body; None, with no more of them in memory than `limit` and one, where it has more."""
    blocks, left = list[bytes](), limit + 1
    while left and (block := read(min(left, _MOST_AT_ONCE))):
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks) if left else None


def answers_within(url: str, seconds: float, headers: Mapping[str, str]) -> bool:
    """Return whether a server answers a request, with any status, in this time. Proxies are not used."""
    import urllib3

    try:
        with urllib3.PoolManager() as pool:
            pool.request(
                "GET", url, headers=dict(headers), timeout=seconds, retries=False, redirect=False, preload_content=False
            ).close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError):
        return False
    return True


def said_of(text: str) -> str:
    """Return a message on one line of limited length, without secrets, which could be cut and so not found later."""
    return " ".join(without_secrets(text).split())[:_LONGEST_SAID]


def _make_pool(endpoint: str, verify: bool | str) -> Any:  # Any: a PoolManager or a ProxyManager
    import urllib3

    parts = urlsplit(endpoint)
    options: dict[str, Any] = {
        "maxsize": 2 * PARALLEL_READS,
        "timeout": urllib3.Timeout(connect=CONNECT_SECONDS, read=_READ_SECONDS),
        "cert_reqs": "CERT_REQUIRED" if verify else "CERT_NONE",
        "ca_certs": verify if isinstance(verify, str) else None,
    }
    proxy = proxy_of(parts)
    return urllib3.PoolManager(**options) if proxy is None else urllib3.ProxyManager(proxy, **options)


def proxy_of(parts: SplitResult) -> str | None:
    """Return the proxy of the environment for a URL; None without one, or for an exempted host."""
    proxy = urllib.request.getproxies().get(parts.scheme)
    return proxy if proxy and not urllib.request.proxy_bypass(parts.netloc) else None


def _broken(fault: Exception) -> HttpFault:
    """Return the fault of a request without a complete answer."""
    from urllib3 import exceptions

    cause = fault
    while isinstance(cause, exceptions.ProxyError) and isinstance(cause.original_error, Exception):
        cause = cause.original_error
    if isinstance(cause, exceptions.NewConnectionError):
        return HttpFault(Fate.UNSENT, said_of(str(cause).rpartition(": ")[2]), reason="unreachable")
    if isinstance(cause, exceptions.ConnectTimeoutError):
        return HttpFault(Fate.UNSENT, "no connection in time", reason="connect-timeout")
    if isinstance(cause, exceptions.LocationParseError | ValueError) and not isinstance(cause, UnicodeError):
        return HttpFault(Fate.UNSENT, said_of(str(cause)), reason="invalid-request")
    if isinstance(cause, exceptions.ReadTimeoutError | TimeoutError):
        return HttpFault(Fate.BROKEN, "no answer in time")
    if isinstance(cause, exceptions.SSLError):
        return HttpFault(Fate.BROKEN, said_of(str(cause)), reason="tls")
    return HttpFault(Fate.BROKEN, "connection closed without a complete answer")


def bounded_session() -> Any:  # Any: a session of requests, an import of 100 ms
    """Return a session of requests that reads no more of an answer, decoded, than one with a token has."""
    import requests
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def build_response(self, req: Any, resp: Any) -> Any:  # Any: of requests
            """Return a response whose body is counted while it is read."""
            answer = super().build_response(req, resp)
            answer.raw = _Counted(resp, requests.exceptions.ContentDecodingError, urlsplit(req.url).netloc)
            return answer

    session = requests.Session()
    session.mount("https://", Adapter())
    session.mount("http://", Adapter())
    return session


class _Counted:
    """A response of urllib3. `error` is raised where it is too long."""

    def __init__(self, found: Any, error: type[Exception], host: str) -> None:  # Any: of urllib3
        self._found, self._error, self._host = found, error, host

    def stream(self, amount: int, decode_content: bool = True) -> Iterator[bytes]:
        """Yield the body in blocks."""
        left = LARGEST_ANSWER
        while block := self._found.read(amount, decode_content=decode_content):
            left -= len(block)
            if left < 0:
                self._found.close()
                raise self._error(f"more than {LARGEST_ANSWER:,} bytes, from {self._host}")
            yield block

    def __getattr__(self, name: str) -> Any:  # Any: of urllib3
        return getattr(self._found, name)
