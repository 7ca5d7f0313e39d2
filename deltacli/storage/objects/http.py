"""HTTP requests to stores, each sent once: their bodies, batches of them, answers in time, translation of faults.

urllib3 sends a request again when a connection breaks, unless it is told not to. A conditional PUT that is sent twice
finds its own first attempt and takes it for another writer's, so every retry is the caller's.

Spec: RFC 2046, multipart/mixed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from http.client import HTTPException, HTTPResponse
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar
from urllib.parse import SplitResult, urlsplit

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed, parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.core.release import VERSION
from deltacli.core.typing import Json
from deltacli.storage.base import CONNECT_SECONDS, MOST_CONNECTIONS
from deltacli.storage.retry import PASSING_STATUS, Call, HostTally, Retry, asked_by, tried
from deltacli.storage.secrets import StoreFault, without_secrets

Result = TypeVar("Result")

# -- contents of objects -----------------------------------------------------------------------------------------------

_BLOCK = 1 << 20


class Body:
    """Bytes, or a local file of which `size` bytes from `offset` are sent, read again each time."""

    def __init__(self, content: bytes | str, offset: int = 0, size: int | None = None) -> None:
        self._content, self._offset = content, offset
        whole = len(content) if isinstance(content, bytes) else os.stat(content).st_size
        self.size = whole - offset if size is None else size

    def part(self, offset: int, size: int) -> Body:
        """Return a part of the body; a shorter one at its end."""
        return Body(self._content, self._offset + offset, max(0, min(size, self.size - offset)))

    def read(self) -> bytes:
        with self.opened() as file:
            return file.read()

    def md5(self) -> bytes:
        """Return the digest that stores compare with what they received."""
        digest = hashlib.md5(usedforsecurity=False)
        with self.opened() as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.digest()

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the body at its start."""
        if isinstance(self._content, bytes):
            yield io.BytesIO(self._content[self._offset : self._offset + self.size])
            return
        with open(self._content, "rb") as file:
            yield io.BufferedReader(_Part(file, self._offset, self.size))


class _Seekable(io.RawIOBase):
    """Bytes of a known size that are read from any position."""

    def __init__(self, size: int) -> None:
        self._size, self._position = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("a position before the start")
        self._position = base + offset
        return self._position


class _Part(_Seekable):
    """A number of bytes of a file from an offset on. Seekable, because botocore reads a body twice to sign it."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        super().__init__(size)
        self._file, self._offset = file, offset

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # collections.abc.Buffer: Python 3.12
        self._file.seek(self._offset + self._position)
        data = self._file.read(max(0, min(len(buffer), self._size - self._position)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class ObjectReader(_Seekable):
    """An object as a seekable file, with its end in memory if it was read before."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, tail: bytes, tag: str) -> None:
        """`read` returns the bytes of a range: its offset, its length."""
        super().__init__(size)
        self._read, self._tail = read, tail
        self.tag = tag

    def readinto(self, buffer: Any) -> int:  # Any: collections.abc.Buffer comes with Python 3.12
        view = memoryview(buffer).cast("B")
        in_tail = self._position - (self._size - len(self._tail))
        if in_tail >= 0:
            data = self._tail[in_tail : in_tail + len(view)]
        else:
            data = self._read(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


# -- one HTTP request, sent once ---------------------------------------------------------------------------------------

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
    """A request that did not do what it was sent for.

    Attributes:
        status: The status of the answer; 0 where there is none.
        reason: The store's word for it.
        expired: How credentials that have expired are renewed; '' for any other fault.
        wait_seconds: How long the server asks to be left alone before the next request.
    """

    def __init__(self, fate: Fate, said: str, *, status: int = 0, reason: str = "", wait_seconds: float = 0.0) -> None:
        super().__init__(said)
        self.fate, self.status, self.reason, self.said, self.expired = fate, status, reason, said, ""
        self.wait_seconds = wait_seconds

    def unsent(self) -> HttpFault:
        """Return the same for a request without an effect, as if it had not been sent."""
        fault = HttpFault(
            Fate.UNSENT, self.said, status=self.status, reason=self.reason, wait_seconds=self.wait_seconds
        )
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
    seconds: float | None = None
    """Most seconds from the first byte of the answer's body to its last, each wait for bytes aside."""
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

    def error(self, said: str, reason: str = "") -> HttpFault:
        """Return the fault of an answer whose status is an error; `reason` is the store's word for it."""
        return HttpFault(Fate.ANSWERED, said, status=self.status, reason=reason, wait_seconds=asked_by(self.headers))

    def require_error(self) -> None:
        """Raise HttpFault where the status is not that of an error, such as one of a redirect."""
        if self.status < 400:
            seen = f"HTTP {self.status} {self.headers.get('location', '')[:80]}".rstrip()
            raise HttpFault(Fate.UNEXPECTED, seen)


class Transport:
    """Connections to one endpoint. `verify`: False, or a file of certificates. `tally` counts requests. `is_direct`: no
    proxy of the environment is used. `answer_seconds`: a limit of a whole answer, with its head. Thread-safe.
    """

    def __init__(
        self,
        endpoint: str,
        verify: bool | str = True,
        *,
        is_direct: bool = False,
        answer_seconds: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.tally: HostTally | None = None
        self._verify, self._is_direct, self._now, self._answer_seconds = verify, is_direct, now, answer_seconds
        self._lock = Lock()

    @property
    def host(self) -> str:
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
        read = found.read if request.seconds is None else self._within(request.seconds, found.read1)
        data = None if seen or (found.length_remaining or 0) > limit else read_up_to(limit, read)
        if data is None:
            found.close()
            seen = f"{seen or f'more than {limit:,} bytes'}, from {self.host}"
            if found.status >= 500 or found.status in (408, 429):  # known without the words of the store
                wait_seconds = asked_by(answer.headers)
                raise HttpFault(Fate.UNEXPECTED, seen, status=found.status, wait_seconds=wait_seconds)
            raise answer.unexpected(seen)
        found.release_conn()
        return data

    def _within(self, seconds: float, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """Return what reads the next bytes of a body. It raises AnswerTooSlow when the time is over."""
        until = self._now() + seconds

        def read_next(most: int) -> bytes:
            if self._now() > until:
                raise AnswerTooSlow("the body of the answer took too long")
            return read(most)

        return read_next

    @cached_property
    def _pool(self) -> Any:  # Any: a PoolManager or a ProxyManager
        with self._lock:
            import urllib3

            parts = urlsplit(self.endpoint)
            options: dict[str, Any] = {
                "maxsize": MOST_CONNECTIONS,
                "timeout": urllib3.Timeout(connect=CONNECT_SECONDS, read=_READ_SECONDS),
                "cert_reqs": "CERT_REQUIRED" if self._verify else "CERT_NONE",
                "ca_certs": self._verify if isinstance(self._verify, str) else None,
            }
            proxy = None if self._is_direct else proxy_of(parts)
            pool = urllib3.PoolManager(**options) if proxy is None else urllib3.ProxyManager(proxy, **options)
            if self._answer_seconds is not None:
                _limit_answers(pool, self._answer_seconds, self._now)
            return pool


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


def _limit_answers(manager: Any, seconds: float, now: Callable[[], float]) -> None:  # Any: as above
    """Let whole answers arrive in so many seconds."""
    answers = timed_answers(seconds, now)
    classes = {}
    for scheme, pool in manager.pool_classes_by_scheme.items():
        connection = type("Connection", (pool.ConnectionCls,), {"response_class": answers})
        classes[scheme] = type("Pool", (pool,), {"ConnectionCls": connection})
    manager.pool_classes_by_scheme = classes


def proxy_of(parts: SplitResult) -> str | None:
    """Return the proxy of the environment for a URL; None without one, or for an exempted host."""
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # 25 ms; Windows and macOS have settings of their own

    proxy = getproxies().get(parts.scheme)
    return proxy if proxy and not proxy_bypass(parts.netloc) else None


class AnswerTooSlow(TimeoutError):
    """An answer did not end in the time that it may take as a whole."""


def _is_too_slow(fault: BaseException) -> bool:
    """Return whether a fault of urllib3 comes from an answer that took all of its time."""
    seen: BaseException | None = fault
    while seen is not None:
        if isinstance(seen, AnswerTooSlow):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _broken(fault: Exception) -> HttpFault:
    """Return the fault of a request without a complete answer."""
    from urllib3 import exceptions

    cause = fault
    while isinstance(cause, exceptions.ProxyError) and isinstance(cause.original_error, Exception):
        cause = cause.original_error
    if isinstance(cause, exceptions.NewConnectionError):
        said = re.sub(r"\[Errno -?\d+\] ", "", str(cause).rpartition(": ")[2])
        return HttpFault(Fate.UNSENT, said_of(said), reason="unreachable")
    if isinstance(cause, exceptions.ConnectTimeoutError):
        return HttpFault(Fate.UNSENT, "no connection in time", reason="connect-timeout")
    if isinstance(cause, exceptions.LocationParseError | ValueError) and not isinstance(cause, UnicodeError):
        return HttpFault(Fate.UNSENT, said_of(str(cause)), reason="invalid-request")
    if isinstance(cause, exceptions.ReadTimeoutError | TimeoutError):
        return HttpFault(Fate.BROKEN, "no answer in time", reason=TOO_SLOW if _is_too_slow(fault) else "")
    if isinstance(cause, exceptions.SSLError):
        from ssl import SSLCertVerificationError

        first = cause.args[0] if cause.args else None
        is_unknown = isinstance(first, SSLCertVerificationError) and first.verify_code in _OF_UNKNOWN_AUTHORITIES
        return HttpFault(Fate.BROKEN, said_of(str(cause)), reason=UNTRUSTED if is_unknown else "tls")
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
        left = LARGEST_ANSWER
        while block := self._found.read(amount, decode_content=decode_content):
            left -= len(block)
            if left < 0:
                self._found.close()
                raise self._error(f"more than {LARGEST_ANSWER:,} bytes, from {self._host}")
            yield block

    def __getattr__(self, name: str) -> Any:  # Any: of urllib3
        return getattr(self._found, name)


# -- batches of deletions ----------------------------------------------------------------------------------------------

_BOUNDARY = "batch_deltacli"
_GIVEN_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)
_NUMBER = re.compile(rb"content-id:[^\r\n]*?(\d+)>?[ \t]*\r?\n", re.IGNORECASE)
_ANSWER = re.compile(rb"HTTP/[\d.]+ (\d{3})[^\r\n]*\r?\n(.*?)\r?\n\r?\n", re.DOTALL)

BATCH_CONTENT_TYPE = f"multipart/mixed; boundary={_BOUNDARY}"


class BatchPart(NamedTuple):
    """The deletion of one object: its path with its parameters, and headers."""

    target: str
    headers: Mapping[str, str] = {}


def batch_of(parts: Sequence[BatchPart]) -> bytes:
    """Return the body of a batch of deletions."""
    texts = [
        f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
        f"Content-ID: {number}\r\n\r\nDELETE {part.target} HTTP/1.1\r\n"
        + "".join(f"{name}: {text}\r\n" for name, text in part.headers.items())
        + "\r\n"
        for number, part in enumerate(parts)
    ]
    return ("".join(texts) + f"--{_BOUNDARY}--\r\n").encode("ascii")


def faults_of_batch(
    answer: Answer, keys: Sequence[str], deleted: int, fault_of: Callable[[Answer], HttpFault]
) -> dict[str, HttpFault | None]:
    """Return the fault of each key in a batch, None for the status `deleted`. Raises HttpFault for no batch."""
    return {
        keys[number]: None if part.status == deleted else fault_of(part)
        for number, part in _answers_of(answer).items()
        if number < len(keys)
    }


def _answers_of(answer: Answer) -> Mapping[int, Answer]:
    """Return the answers of a batch by the number of their request. Raises HttpFault for an answer that is none."""
    kind = answer.headers.get("content-type", "")
    found = _GIVEN_BOUNDARY.search(kind)
    if found is None or not kind.lower().startswith("multipart/mixed"):
        raise answer.unexpected("no answer of a batch")
    answers: dict[int, Answer] = {}
    for part in answer.data.split(b"--" + found[1].encode()):
        number, inner = _NUMBER.search(part), _ANSWER.search(part + b"\r\n\r\n")
        if number and inner:
            answers[int(number[1])] = Answer(int(inner[1]), _headers(inner[2]), part[inner.end() :].strip())
    return answers


def _headers(text: bytes) -> dict[str, str]:
    lines = text.decode("latin-1").splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


# -- translation of failed requests ------------------------------------------------------------------------------------

ANONYMOUS = "none (anonymous)"
"""The identity of requests without credentials."""
THROTTLED = frozenset(
    {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "RequestTimeout"}
)
"""Codes by which S3, with several statuses, says that it did nothing. No other cloud has them, so `passing` accepts
them from each.
"""

_NOT_TOGETHER = frozenset({"MissingContentMD5", "InvalidDigest", "BadDigest", "InvalidRequest", "MalformedXML"})
"""Codes by which gateways and copies of S3 refuse the digest or the form of a request with many objects."""


@dataclass(frozen=True)
class Dialect:
    """What a store calls things. `holder` is a bucket or a container."""

    store: str
    holder: str
    holder_missing: frozenset[str]
    """Codes that mean that the bucket or container does not exist."""
    exists: frozenset[str]
    """Codes of other statuses than 412 that mean that the name of a conditional creation is taken."""
    who: str
    """The command that shows the identity in use."""
    list_holders: str
    check_endpoint: str
    condition: str
    """What a conditional creation is sent with."""
    undone: frozenset[int] = frozenset()
    """Statuses besides 429 by which the store says that it did nothing of a conditional creation."""
    undone_reasons: frozenset[str] = frozenset()
    """Codes by which it says so, whatever the status."""
    disorder: str = ""
    """What is known to be listed out of order."""


class Sent(Enum):
    """The outcome of a conditional request to create an object."""

    EXISTS = auto()
    AGAIN = auto()
    """Nothing was done, and the request may be repeated."""
    REFUSED = auto()
    UNSUPPORTED = auto()
    UNKNOWN = auto()


def fate_of_create(fault: HttpFault, dialect: Dialect) -> Sent:
    """Return the outcome of a request that was sent once, from its fault."""
    match fault.fate:
        case Fate.UNSENT:
            return Sent.REFUSED
        case Fate.BROKEN | Fate.UNEXPECTED:
            return Sent.UNKNOWN
    if fault.status == 412 or fault.reason in dialect.exists:
        return Sent.EXISTS
    if fault.status == 408:
        return Sent.UNKNOWN  # S3 itself says 400 RequestTimeout: this is of something before it
    if fault.status == 429 or fault.status in dialect.undone or fault.reason in dialect.undone_reasons:
        return Sent.AGAIN
    if fault.status == 501:
        return Sent.UNSUPPORTED
    return Sent.UNKNOWN if fault.status >= 500 or fault.status in (0, 409) else Sent.REFUSED


TOO_SLOW = "too-slow"
"""The reason of a fault where bytes of an answer arrived in all of its time, and not its end."""
UNTRUSTED = "tls-untrusted"
"""The reason of a fault where an unknown authority signed the certificate of a server."""
_OF_UNKNOWN_AUTHORITIES = (18, 19, 20, 21)
"""Codes of OpenSSL: self-signed, also above, and without the certificate of the authority."""
CERTIFICATES_HINT = "export SSL_CERT_FILE=CERTIFICATES.pem, with that of the authority that signed the server's"


def passing_cause(fault: Exception) -> str | None:
    """Return the cause of a temporary fault; None for a permanent one.

    An unknown host and a refused connection are permanent: the endpoint is wrong, or down. An answer that took all of
    its time and did not end is permanent, too, because the next one may take as long.
    """
    if not isinstance(fault, HttpFault):
        return None
    if fault.status in PASSING_STATUS or fault.reason in THROTTLED:
        return f"HTTP {fault.status} {fault.reason}".rstrip()
    if fault.reason == TOO_SLOW:
        return None
    if fault.fate is Fate.BROKEN:
        return fault.said if fault.reason not in ("tls", UNTRUSTED) or "EOF" in fault.said else None
    return fault.said if fault.reason == "connect-timeout" else None


def repeat_call(
    retry: Retry,
    send: Callable[[], Result],
    *,
    host: str,
    max_attempts: int | None = None,
) -> Result:
    """Return what `send` returns, repeated after temporary faults within the budget of the run.

    A server that asks to be left alone for some time is, as long as the budget permits. Raises HttpFault.
    """
    return retry.call(
        send,
        host=host,
        faults=(HttpFault,),
        passing=passing_cause,
        max_attempts=max_attempts,
        asked=lambda fault: fault.wait_seconds if isinstance(fault, HttpFault) else 0.0,
    )


def refuses_together(fault: HttpFault) -> bool:
    """Return True where a store does not take our request to delete several objects: single ones may work."""
    return fault.fate is Fate.ANSWERED and (fault.status in (405, 411, 501) or fault.reason in _NOT_TOGETHER)


def translate_fault(
    fault: HttpFault, place: str, what: str, dialect: Dialect, endpoint: str, identity: str
) -> StorageFailed:
    """Return the error of deltacli, without secrets, for a fault; `what` could not be done to `place`."""
    said = StoreFault.of(fault)
    error = _judge(fault, place, what, dialect, endpoint, identity)
    error.facts |= tried(fault)
    error.__cause__ = said
    return error


def refused(failed: str, facts: Mapping[str, str], identity: str, expired: str, who: str) -> PermissionRefused:
    """Return the error for credentials that do not suffice: how expired ones are renewed ('': they have not), or which
    command shows `who` they are of.
    """
    why = "the credentials have expired" if expired else "access is denied"
    return PermissionRefused(why, preamble=f"{failed}: ", facts={**facts, "credentials": identity}, hint=expired or who)


def _judge(fault: HttpFault, place: str, what: str, dialect: Dialect, endpoint: str, identity: str) -> StorageFailed:
    failed, holder = f"{place} cannot be {what}", place.split("/")[2]
    facts = {"store says": str(StoreFault.of(fault)).partition(": ")[2], "endpoint": endpoint}
    if fault.reason in dialect.holder_missing:
        return StorageFailed(
            f"{dialect.holder} {holder} not found",
            code="storage.bucket-missing",
            facts=facts,
            hint=dialect.list_holders,
        )
    if fault.status == 404:
        return FileMissing(f"{place} does not exist")
    if fault.expired or fault.status in (401, 403):
        who = f"omit {parameter('storage_options.anon', 'true')}" if identity == ANONYMOUS else dialect.who
        return refused(failed, facts, identity, fault.expired, who)
    if fault.fate is Fate.UNEXPECTED:
        return StorageFailed(
            f"the answer is not a valid answer of {dialect.store}",
            preamble=f"{failed}: ",
            code="storage.unexpected-answer",
            facts={"seen": fault.said, "expected": f"{dialect.store} instead of a proxy or login page", **facts},
            hint=f"{dialect.check_endpoint}, or {parameter('storage_options.endpoint_url', 'URL')}",
        )
    if fault.reason in ("unreachable", "invalid-request"):
        return StorageFailed(
            "the endpoint is unreachable",
            preamble=f"{failed}: ",
            code="storage.unreachable",
            facts=facts,
            hint=f"{dialect.check_endpoint}, or {parameter('storage_options.endpoint_url', 'URL')}",
        )
    if fault.reason == "BlobArchived":
        facts["next"] = "move the object to another access tier, with az storage blob set-tier"
        return StorageFailed(failed, code="storage.archived", facts=facts)
    return StorageFailed(failed, facts=facts)


class HasIdentity(Protocol):
    @property
    def identity(self) -> str: ...


class HttpCalls:
    """What all calls of a bucket or a container have in common. It has batches until the store refuses one."""

    dialect: Dialect
    credentials: HasIdentity
    uploads = None
    max_attempts = None

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._has_batches = True

    @property
    def endpoint(self) -> str:
        return self._transport.host

    @property
    def identity(self) -> str:
        return self.credentials.identity

    def can_delete_together(self, _key: str, /) -> bool:
        return self._has_batches

    def translated(self, fault: HttpFault, place: str, what: str) -> StorageFailed:
        return translate_fault(fault, place, what, self.dialect, self.endpoint, self.identity)


# -- answers within a time limit ---------------------------------------------------------------------------------------

_MOST_TRAILERS, _LONGEST_TRAILER = 100, 65_536
"""As the standard library limits headers."""


class _TimedRaw(io.RawIOBase):
    """What comes from a socket, within a time limit until `end_limit`."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, seconds: float, now: Callable[[], float]) -> None:
        self._raw, self._socket, self._now = raw, connected, now
        self._usual = connected.gettimeout()
        self._until: float | None = now() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # Any: as in io
        if self._until is not None:
            left = self._until - self._now()
            if left <= 0:
                raise AnswerTooSlow("the answer took too long")
            self._socket.settimeout(left if self._usual is None else min(left, self._usual))
        return self._raw.readinto(buffer)

    @property
    def is_over(self) -> bool:
        return self._until is not None and self._until <= self._now()

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        self._until = self._now() + seconds
        try:
            yield
        finally:
            self.end_limit()

    def end_limit(self) -> None:
        """Leave what follows to the timeout of the socket."""
        self._until = None
        if self._socket.gettimeout() != self._usual:
            self._socket.settimeout(self._usual)

    def close(self) -> None:
        with suppress(OSError):
            self.end_limit()
        self._raw.close()
        super().close()


def timed_answers(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a class of answers that arrive as a whole in so many seconds by a clock, or raise TimeoutError."""

    class Timed(HTTPResponse):
        def __init__(self, connected: socket.socket, *arguments: Any, **named: Any) -> None:  # Any: as there
            super().__init__(connected, *arguments, **named)
            self._timed = _TimedRaw(self.fp.detach(), connected, seconds, now)
            self.fp = io.BufferedReader(self._timed)

        def _read_status(self) -> Any:  # Any: as there
            if self._timed.is_over:  # interim answers come without a pause
                raise AnswerTooSlow("the head of the answer took too long")
            return super()._read_status()  # type: ignore[misc]  # of the standard library

    return Timed


def timed_heads(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a class of answers whose head, each size of a chunk, and trailers arrive in so many seconds each."""
    base: Any = timed_answers(seconds, now)  # Any: mypy takes no class from a call as a base

    class Timed(base):  # type: ignore[misc]
        def begin(self) -> None:
            super().begin()
            self._timed.end_limit()

        def _read_next_chunk_size(self) -> Any:  # Any: as there
            with self._timed.limited(seconds):
                return super()._read_next_chunk_size()

        def _read_and_discard_trailer(self) -> None:
            with self._timed.limited(seconds):
                for _ in range(_MOST_TRAILERS):
                    line = self.fp.readline(_LONGEST_TRAILER + 1)
                    if len(line) > _LONGEST_TRAILER:
                        raise HTTPException("a trailer of the answer is too long")
                    if line in (b"", b"\n", b"\r\n"):
                        return
            raise HTTPException("the answer has too many trailers")

    return Timed
