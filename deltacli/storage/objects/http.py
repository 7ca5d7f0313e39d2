"""HTTP requests to stores, each sent exactly once.

urllib3 sends a request again when a connection breaks, unless it is told not to. A conditional PUT
that is sent twice finds its own first attempt and takes it for another writer's. Every repetition
is therefore the decision of the caller (`http_calls.repeat_call`, `conditional.create_object`).

See docs/decisions/0099-own-requests-for-gcs-and-azure.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from deltacli.core.lock_free_property import cached_property
from deltacli.core.release import VERSION
from deltacli.core.typing import Json
from deltacli.storage.base import CONNECT_SECONDS, MOST_CONNECTIONS
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.bounded_reading import MAX_RESPONSE_BYTES, MAX_UNSIZED_OBJECT_BYTES, read_up_to
from deltacli.storage.objects.http_errors import (
    AnswerTooSlow,
    HttpError,
    RequestOutcome,
    convert_urllib3_error,
    shorten_message,
)
from deltacli.storage.objects.proxies import find_proxy
from deltacli.storage.objects.timed_responses import make_timed_response_class
from deltacli.storage.retry_after import read_retry_after
from deltacli.storage.tally import Call, HostTally

# Longest wait for the next bytes of an answer.
_READ_SECONDS = 60.0

# What requests are counted as, by their method. Any other is a PUT.
_CALLS = {"GET": Call.GET, "HEAD": Call.HEAD, "DELETE": Call.DELETE}


@dataclass(frozen=True)
class Request:
    """A request.

    Attributes:
        method: The HTTP method.
        url: The URL, percent-encoded.
        headers: Headers besides those that every request has.
        body: The content, which is read again each time the request is sent.
        call: What the request is counted as, if its method does not say it.
        limit: Most bytes of the answer. A longer one is not read.
        seconds: Most seconds from the first byte of the answer's body to its last, each wait for
            bytes aside.
        reads_object: Whether the answer has bytes of an object, as they are stored. These are the
            range whose length is `limit`, or, with status 200, as many as the answer declares.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    call: Call | None = None
    limit: int = MAX_RESPONSE_BYTES
    seconds: float | None = None
    reads_object: bool = False

    @property
    def counted_as(self) -> Call:
        """Return the kind of call that the store charges."""
        return self.call or _CALLS.get(self.method, Call.PUT)


@dataclass(frozen=True)
class HttpResponse:
    """An answer of any status.

    Attributes:
        status: The HTTP status.
        headers: The headers, with names in lower case.
        data: The body.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes

    def fields(self) -> dict[str, Json]:
        """Return the JSON object of the answer. Raises HttpError for anything else."""
        try:
            document = json.loads(self.data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self.unexpected("no JSON object")
        return document

    def unexpected(self, seen: str) -> HttpError:
        """Return the error for an answer that the store does not give; `seen` says what is wrong with it."""
        content_type = self.headers.get("content-type", "")[:80]
        message = ", ".join(part for part in (f"HTTP {self.status}", content_type, seen) if part)
        return HttpError(RequestOutcome.UNEXPECTED, message)

    def error(self, message: str, reason: str = "") -> HttpError:
        """Return the error for an answer whose status is an error; `reason` is the store's code for it."""
        return HttpError(
            RequestOutcome.ANSWERED,
            message,
            status=self.status,
            reason=reason,
            wait_seconds=read_retry_after(self.headers),
        )

    def require_error(self) -> None:
        """Raise HttpError if the status is not that of an error, such as one of a redirect."""
        if self.status < 400:
            seen = f"HTTP {self.status} {self.headers.get('location', '')[:80]}".rstrip()
            raise HttpError(RequestOutcome.UNEXPECTED, seen)


class Transport:
    """The connections to one endpoint. Thread-safe.

    Attributes:
        endpoint: The URL that requests are sent to, without a path.
        tally: Counts the requests, if it is set.
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
        """Make a transport. Nothing is connected before the first request.

        Args:
            endpoint: The URL that requests are sent to.
            verify: Whether certificates are verified, or a file of certificates to verify them
                with.
            is_direct: Whether proxies of the environment are ignored.
            answer_seconds: A limit of a whole answer, with its head; None for no limit.
            now: Returns seconds.
        """
        self.endpoint = endpoint.rstrip("/")
        self.tally: HostTally | None = None
        self._verify = verify
        self._is_direct = is_direct
        self._answer_seconds = answer_seconds
        self._now = now
        self._lock = Lock()

    @property
    def host(self) -> str:
        """Return host and port of the endpoint, without a user and a password in its URL."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]

    def send(self, request: Request) -> HttpResponse:
        """Send a request exactly once.

        Raises:
            HttpError: If no complete answer arrives. An answer with the status of an error is returned.
        """
        from urllib3.exceptions import HTTPError

        pool = self._pool
        headers = {"User-Agent": f"deltacli/{VERSION}", "Accept-Encoding": "identity", **request.headers}
        if request.body is not None:
            headers["Content-Length"] = str(request.body.size)
        elif request.method in ("POST", "PUT"):
            headers["Content-Length"] = "0"

        try:
            if self.tally is not None:
                self.tally.count_sent(request.counted_as, request.body.size if request.body else 0)
            with nullcontext() if request.body is None else request.body.open() as content:
                raw = pool.request(
                    request.method,
                    request.url,
                    headers=headers,
                    body=content,
                    retries=False,
                    redirect=False,
                    decode_content=False,
                    preload_content=False,
                )
                response = HttpResponse(raw.status, {name.lower(): value for name, value in raw.headers.items()}, b"")
                data = self._read(raw, request, response)
        except (HTTPError, OSError, ValueError) as error:
            raise convert_urllib3_error(error) from error

        if self.tally is not None:
            self.tally.count_received(len(data))
        return replace(response, data=data)

    def _read(self, raw: Any, request: Request, response: HttpResponse) -> bytes:  # Any: a response of urllib3
        """Return the body of an answer.

        Raises:
            HttpError: Without reading more, for an answer that is too long, or that is compressed,
                which was not asked for. An object may be stored compressed; its bytes are taken as
                they are.
        """
        is_object = request.reads_object and raw.status < 300
        if is_object and raw.length_remaining is None and "transfer-encoding" not in response.headers:
            # The end of such an answer is the end of the connection, which may have broken.
            raw.close()
            raise HttpError(RequestOutcome.BROKEN, f"an object without its length, from {self.host}")

        limit = self._limit_of(raw, request, is_object=is_object)
        encoding = response.headers.get("content-encoding", "identity")
        problem = ""
        if not is_object and encoding != "identity":
            problem = f"compressed ({shorten_message(encoding)[:20]})"
        elif (raw.length_remaining or 0) <= limit:
            read = raw.read if request.seconds is None else self._read_within(request.seconds, raw.read1)
            data = read_up_to(limit, read)
            if data is not None:
                raw.release_conn()
                return data

        raw.close()
        seen = f"{problem or f'more than {limit:,} bytes'}, from {self.host}"
        if raw.status >= 500 or raw.status in (408, 429):
            # The status says enough to repeat the request, without the words of the store.
            wait_seconds = read_retry_after(response.headers)
            raise HttpError(RequestOutcome.UNEXPECTED, seen, status=raw.status, wait_seconds=wait_seconds)
        raise response.unexpected(seen)

    def _limit_of(self, raw: Any, request: Request, *, is_object: bool) -> int:  # Any: a response of urllib3
        """Return the largest number of bytes that an answer may have."""
        if raw.status >= 300:
            return MAX_RESPONSE_BYTES
        if is_object and raw.status == 200:
            # The whole object instead of a range.
            return MAX_UNSIZED_OBJECT_BYTES if raw.length_remaining is None else int(raw.length_remaining)
        return request.limit

    def _read_within(self, seconds: float, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """Return a function that reads the next bytes of a body, and raises AnswerTooSlow when the time is over."""
        until = self._now() + seconds

        def read_next(most: int) -> bytes:
            if self._now() > until:
                raise AnswerTooSlow("the body of the answer took too long")
            return read(most)

        return read_next

    @cached_property
    def _pool(self) -> Any:  # Any: a PoolManager or a ProxyManager
        """Return the connections, which are made on first use."""
        with self._lock:
            import urllib3

            parts = urlsplit(self.endpoint)
            options: dict[str, Any] = {
                "maxsize": MOST_CONNECTIONS,
                "timeout": urllib3.Timeout(connect=CONNECT_SECONDS, read=_READ_SECONDS),
                "cert_reqs": "CERT_REQUIRED" if self._verify else "CERT_NONE",
            }
            if isinstance(self._verify, str):
                options["ca_certs"] = self._verify
            proxy = None if self._is_direct else find_proxy(parts)
            pool = urllib3.PoolManager(**options) if proxy is None else urllib3.ProxyManager(proxy, **options)
            if self._answer_seconds is not None:
                _limit_answers(pool, self._answer_seconds, self._now)
            return pool


def is_reachable(url: str, seconds: float, headers: Mapping[str, str]) -> bool:
    """Return whether a server answers a request, with any status, in this time. Proxies are not used."""
    import urllib3

    try:
        with urllib3.PoolManager() as pool:
            response = pool.request(
                "GET", url, headers=dict(headers), timeout=seconds, retries=False, redirect=False, preload_content=False
            )
            response.close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError):
        return False
    return True


def _limit_answers(manager: Any, seconds: float, now: Callable[[], float]) -> None:  # Any: of urllib3
    """Let every whole answer arrive in so many seconds, by classes of connections for it."""
    response_class = make_timed_response_class(seconds, now)
    pool_classes = {}
    for scheme, pool_class in manager.pool_classes_by_scheme.items():
        connection = type("Connection", (pool_class.ConnectionCls,), {"response_class": response_class})
        pool_classes[scheme] = type("Pool", (pool_class,), {"ConnectionCls": connection})
    manager.pool_classes_by_scheme = pool_classes
