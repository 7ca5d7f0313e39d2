"""`fleet status --serve-metrics`: the metrics over HTTP, for a Prometheus on the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RD
from socketserver import TCPServer
from threading import BoundedSemaphore, Lock, Timer
from typing import Any
from urllib.parse import urlsplit

from deltacli.errors import DeltacliError, Refused, UsageError
from deltacli.hints import parameter
from deltacli.loopback import is_loopback

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_KEPT_SECONDS = 5.0
_REQUEST_SECONDS = 10.0
"""For the head of a request, and for sending the answer."""
_MOST_CONNECTIONS = 32

Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type and content."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `PORT`, `HOST:PORT` or `[IPV6]:PORT`; without a host, 127.0.0.1. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if (host.startswith("[") != host.endswith("]")) or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"{_option(text)} is not an address (expected: PORT, HOST:PORT or [IPV6]:PORT)")
    return host.strip("[]") or "127.0.0.1", int(port)


def _option(value: str | None = None) -> str:
    return parameter("fleet status.serve_metrics", value)


class MetricsServer(ThreadingHTTPServer):
    """Answers `GET /metrics`. `make` returns the metrics; what it raises is the answer to the request.

    Raises Refused for an address that other machines can reach, unless `is_remote`, and UsageError where the address
    cannot be used. Metrics are kept for 5 seconds, so that requests do not read the journal again and again.
    """

    daemon_threads = False  # closing the server waits for running answers
    request_queue_size = 16

    def __init__(
        self,
        address: tuple[str, int],
        make: Callable[[], str],
        *,
        is_remote: bool = False,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        host, port = address
        self.is_local = is_loopback(host)
        if not self.is_local and not is_remote:
            raise Refused(
                f"other machines can reach {host}, and the metrics have no authentication",
                code="fleet.metrics-address",
                hint=f"add {_option(f'127.0.0.1:{port}')}, or {parameter('fleet status.allow_remote')}",
            )
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self._make, self._ticks = make, ticks
        self._lock = Lock()
        self._free = BoundedSemaphore(_MOST_CONNECTIONS)  # each has a thread, for which the end of the server waits
        self._kept: tuple[float, Answer] | None = None
        try:
            super().__init__((host, port), _Handler)
        except OSError as fault:
            reason = (fault.strerror or str(fault)).lower()
            raise UsageError(f"{_option()} cannot use {host}:{port}: {reason}", code="fleet.metrics-address") from fault

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # that of HTTPServer asks a name server for the name of the host

    def process_request(self, request: Any, client_address: Any) -> None:  # Any: as there
        """Answer in a thread of its own, or not at all where too many connections are open."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # Any: as there
        """Answer, and make room for another connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    @property
    def url(self) -> str:
        """Return the address of the metrics."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}/metrics" if ":" in str(host) else f"http://{host!s}:{port}/metrics"

    def answer(self) -> Answer:
        """Return the metrics, or why there are none."""
        with self._lock:
            if self._kept is None or self._ticks() - self._kept[0] > _KEPT_SECONDS:
                self._kept = self._ticks(), self._made()
            return self._kept[1]

    def _made(self) -> Answer:
        try:
            return HTTPStatus.OK, OPENMETRICS, self._make().encode()
        except DeltacliError as fault:
            return HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, f"{fault.message}\n".encode(errors="replace")


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    server_version = "deltacli"
    sys_version = ""
    timeout = _REQUEST_SECONDS

    def setup(self) -> None:
        """Begin to wait for a request: all of its head, not only the next byte, has a time limit."""
        super().setup()
        self._deadline = Timer(self.timeout, self._end)
        self._deadline.start()

    def finish(self) -> None:
        """End the connection."""
        self._deadline.cancel()
        super().finish()

    def _end(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(SHUT_RD)

    def do_GET(self) -> None:
        self._deadline.cancel()
        self._send(*self._answer())

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> Answer:
        # a page in a browser can reach loopback by a name of its own, and is kept out by the name that it asks for
        if self.server.is_local and not is_loopback(urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""):
            return HTTPStatus.FORBIDDEN, _TEXT, b"the Host header does not name this machine\n"
        if urlsplit(self.path).path != "/metrics":
            return HTTPStatus.NOT_FOUND, _TEXT, b"only /metrics is here\n"
        return self.server.answer()

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: requests come every few seconds."""
