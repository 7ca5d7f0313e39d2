"""HTTP requests to stores. Each one is sent exactly once.

By default urllib3 repeats a request when the connection breaks. A conditional PUT that is repeated may find the object
of its own first attempt, and then fails as if another writer had created it. So the retries of urllib3 are disabled,
and callers decide which requests are repeated: `http_calls.repeat_call` and `conditional.create_object`.

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

# Timeout for the next bytes of a response.
_READ_SECONDS = 60.0

# The kind of request for the statistics, by HTTP method. All others count as PUT.
_CALLS_BY_METHOD = {"GET": Call.GET, "HEAD": Call.HEAD, "DELETE": Call.DELETE}


@dataclass(frozen=True)
class Request:
    """An HTTP request.

    Attributes:
        method: The HTTP method.
        url: The URL, percent-encoded.
        headers: Additional headers.
        body: The content.
        call: The kind of request for the statistics; None to derive it from the method.
        limit: The maximum size of the response in bytes. A longer response is an error.
        seconds: The maximum time for receiving the body; None for no limit except the socket timeout.
        reads_object: True if the response contains bytes of an object. Then `limit` is the length of the requested
            range. If the store sends the complete object instead (status 200), the limit is the declared length.
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
        """Return the kind of request for the statistics, which estimate the costs."""
        return self.call or _CALLS_BY_METHOD.get(self.method, Call.PUT)


@dataclass(frozen=True)
class HttpResponse:
    """A response with any status.

    Attributes:
        status: The HTTP status.
        headers: The headers, with names in lower case.
        data: The body.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes

    def fields(self) -> dict[str, Json]:
        """Parse the body as a JSON object.

        Raises:
            HttpError: If the body is not a JSON object.
        """
        try:
            document = json.loads(self.data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self.unexpected("no JSON object")
        return document

    def unexpected(self, seen: str) -> HttpError:
        """Return the error for a response that does not come from the store.

        Args:
            seen: What is wrong with the response, for the error message.
        """
        content_type = self.headers.get("content-type", "")[:80]
        message = ", ".join(part for part in (f"HTTP {self.status}", content_type, seen) if part)
        return HttpError(RequestOutcome.UNEXPECTED, message)

    def error(self, message: str, reason: str = "") -> HttpError:
        """Return the error for a response with an error status.

        Args:
            message: The message of the store.
            reason: The error code of the store.
        """
        return HttpError(
            RequestOutcome.ANSWERED,
            message,
            status=self.status,
            reason=reason,
            wait_seconds=read_retry_after(self.headers),
        )

    def require_error(self) -> None:
        """Raise HttpError if the status is not an error status, for example a redirect to a login page."""
        if self.status < 400:
            seen = f"HTTP {self.status} {self.headers.get('location', '')[:80]}".rstrip()
            raise HttpError(RequestOutcome.UNEXPECTED, seen)


class Transport:
    """The connections to one endpoint. Thread-safe.

    Attributes:
        endpoint: The URL that requests are sent to, without a slash at its end.
        tally: Counts the requests for the statistics; None to count nothing.
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
        """Create a transport. It connects when the first request is sent.

        Args:
            endpoint: The URL that requests are sent to.
            verify: Whether to verify TLS certificates, or the path of a file of trusted certificates.
            is_direct: True to ignore the proxies of the environment.
            answer_seconds: The maximum time for a complete response, including its headers; None for no limit.
            now: Returns the time in seconds.
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
        """The host and port of the endpoint, without user name and password."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]

    def send(self, request: Request) -> HttpResponse:
        """Send a request exactly once.

        Raises:
            HttpError: If no complete response arrives. A response with an error status is returned.
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
        """Read the body of a response.

        The body is never decompressed. An object may be stored compressed, and its bytes are returned as they are
        stored, so that sizes and ranges agree with the listing.

        Raises:
            HttpError: If the body is too long, or if it is compressed although it is not an object.
        """
        is_object = request.reads_object and raw.status < 300
        if is_object and raw.length_remaining is None and "transfer-encoding" not in response.headers:
            # Such a body ends with the connection, so a broken connection would be indistinguishable from its end.
            raw.close()
            raise HttpError(RequestOutcome.BROKEN, f"an object without its length, from {self.host}")

        limit = self._compute_limit(raw, request, is_object=is_object)
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
            # The status is sufficient to repeat the request. The message of the store is not needed.
            wait_seconds = read_retry_after(response.headers)
            raise HttpError(RequestOutcome.UNEXPECTED, seen, status=raw.status, wait_seconds=wait_seconds)
        raise response.unexpected(seen)

    def _compute_limit(self, raw: Any, request: Request, *, is_object: bool) -> int:  # Any: a response of urllib3
        """Return the maximum size of the body in bytes."""
        if raw.status >= 300:
            return MAX_RESPONSE_BYTES
        if is_object and raw.status == 200:
            # The store ignored the range and sends the complete object.
            return MAX_UNSIZED_OBJECT_BYTES if raw.length_remaining is None else int(raw.length_remaining)
        return request.limit

    def _read_within(self, seconds: float, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """Wrap a read function, so that it raises AnswerTooSlow after a time limit."""
        deadline = self._now() + seconds

        def read_next(most: int) -> bytes:
            if self._now() > deadline:
                raise AnswerTooSlow("the body of the answer took too long")
            return read(most)

        return read_next

    @cached_property
    def _pool(self) -> Any:  # Any: a PoolManager or a ProxyManager
        """The connection pool, which is created on first use, because importing urllib3 takes time."""
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
    """Return whether a server sends a response with any status within a time limit. Proxies are not used."""
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
    """Limit the time for complete responses, with connection classes that use the timed response class."""
    response_class = make_timed_response_class(seconds, now)
    pool_classes = {}
    for scheme, pool_class in manager.pool_classes_by_scheme.items():
        connection = type("Connection", (pool_class.ConnectionCls,), {"response_class": response_class})
        pool_classes[scheme] = type("Pool", (pool_class,), {"ConnectionCls": connection})
    manager.pool_classes_by_scheme = pool_classes
