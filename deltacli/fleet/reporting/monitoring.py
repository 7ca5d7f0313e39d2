"""The status of a fleet as metrics in the OpenMetrics text format: for the file of `fleet status --metrics`, which
node_exporter reads, and over HTTP for a Prometheus on the same machine (`--serve-metrics`).

The signature is an HMAC-SHA256 over the timestamp, a full stop and the content, so that a receiver can reject old and
altered requests.
"""

from __future__ import annotations

import hmac
import os
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RD
from socketserver import TCPServer
from threading import BoundedSemaphore, Lock, Timer
from typing import Any
from urllib.parse import urlsplit

from deltacli.core.errors import DeltacliError, Refused, UsageError, parameter
from deltacli.core.hosts import is_loopback
from deltacli.core.release import VERSION
from deltacli.fleet.policy_file.model import Webhook
from deltacli.fleet.status import FleetStatus, State, TableStatus
from deltacli.storage.retry import TEMPORARY_STATUSES
from deltacli.storage.retry_after import parse_retry_after

# -- the status of a fleet as metrics in the OpenMetrics text format ---------------------------------------------------

_PREFIX = "deltacli_fleet"
_TABLE_NUMBERS: Mapping[str, tuple[str, str]] = {
    "logBytes": ("log_bytes", "Bytes of the log of a table."),
    "logFiles": ("log_files", "Files of the log of a table."),
    "commitsBehind": ("commits_behind", "Commits since the newest checkpoint of a table."),
    "liveFiles": ("live_files", "Data files of a table."),
    "liveBytes": ("live_bytes", "Bytes of the data files of a table."),
    "rows": ("rows", "Rows of a table, where all statistics have them."),
    "smallFiles": ("small_files", "Data files of a table below 16 MiB."),
    "tombstones": ("tombstones", "Tombstones in the newest checkpoint of a table."),
    "findings": ("findings", "Findings of the last validation of a table, of any severity."),
    "errors": ("errors", "Errors that the last validation of a table found."),
    "copyLag": ("copy_lag_versions", "Versions that the replica of a table lacks."),
    "streamLagMs": ("stream_lag_milliseconds", "Age of the oldest commit that a protected query has not delivered."),
    "deadStreams": ("dead_streams", "Protected queries of a table that cannot continue."),
}

Sample = tuple[Mapping[str, str], float]


def fleet_metrics(status: FleetStatus) -> str:
    """Return all metrics. Times are seconds since the epoch."""
    parts = [*_of_run(status), *_of_tables(status.tables), "# EOF\n"]
    return "".join(parts)


def _of_run(status: FleetStatus) -> Iterator[str]:
    yield _gauge("tables", "Tables that the journal has.", [({}, len(status.tables))])
    yield _gauge("alerts", "Tables with an alert.", [({}, status.alerted)])
    yield _gauge("status", "Exit code of fleet status.", [({}, status.exit_code)])
    newest = status.newest
    if newest is not None:
        yield _gauge("run_started_seconds", "Start of the newest run.", [({}, newest.started_ms / 1_000)])
        if newest.finished_ms is not None:
            yield _gauge("run_finished_seconds", "End of the newest run.", [({}, newest.finished_ms / 1_000)])


def _of_tables(tables: Iterable[TableStatus]) -> Iterator[str]:
    tables = list(tables)
    yield _gauge("table_alerts", "Alerts of a table.", [(_labels(table), len(table.alerts)) for table in tables])
    steps = [(table, step) for table in tables for step in table.steps.values()]
    yield _gauge(
        "step_exit_code",
        "Exit code of the last step of a kind.",
        [({**_labels(table), "step": step.kind}, step.exit_code) for table, step in steps],
    )
    yield _gauge(
        "step_succeeded_seconds",
        "Time of the last step of a kind that succeeded.",
        [
            ({**_labels(table), "step": step.kind}, step.succeeded_ms / 1_000)
            for table, step in steps
            if step.succeeded_ms is not None
        ],
    )
    judged = [(table, one) for table in tables for one in table.judgements if one.state is not State.UNKNOWN]
    yield _gauge(
        "threshold_exceeded",
        "1 where a threshold of a policy is exceeded, else 0; unknown ones are missing.",
        [({**_labels(table), "threshold": one.threshold}, one.state is State.EXCEEDED) for table, one in judged],
    )
    for series, (name, text) in _TABLE_NUMBERS.items():
        samples = [(_labels(table), table.numbers[series]) for table in tables if series in table.numbers]
        yield _gauge(name, text, samples)
    yield _gauge(
        "copy_lag_seconds",
        "Time since the replica of a table was up to date, 0 where it lacks no version.",
        [(_labels(table), table.numbers["copyLagMs"] / 1_000) for table in tables if "copyLagMs" in table.numbers],
    )


def _labels(table: TableStatus) -> dict[str, str]:
    return {"table": table.shown_name, "group": table.group}


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> str:
    lines = [f"{_PREFIX}_{name}{_written(labels)} {_number(value)}\n" for labels, value in samples]
    if not lines:
        return ""
    return f"# TYPE {_PREFIX}_{name} gauge\n# HELP {_PREFIX}_{name} {text}\n{''.join(lines)}"


def _written(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text.encode("utf-8", "replace").decode()


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


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
    if (host.startswith("[") != host.endswith("]")) or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
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


# -- the webhook of a policy file --------------------------------------------------------------------------------------

_ATTEMPT_SECONDS = 10.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_MOST_ANSWER_BYTES = 65_536
_FAULT = "fleet.webhook"


def read_secret(webhook: Webhook, environment: Mapping[str, str]) -> bytes | None:
    """Return the secret, None where the policy file names none. Raises UsageError where it is missing or empty."""
    if webhook.secret_env is not None:
        place, secret = (
            f"the environment variable {webhook.secret_env}",
            environment.get(webhook.secret_env, "").encode(),
        )
    elif webhook.secret_file is not None:
        place = f"the file {webhook.secret_file}"
        try:
            secret = Path(webhook.secret_file).read_bytes()
        except OSError as fault:
            reason = (fault.strerror or str(fault)).lower()
            raise UsageError(f"the secret of the webhook cannot be read: {place}: {reason}", code=_FAULT) from fault
    else:
        return None
    if not secret.strip():
        raise UsageError(f"the secret of the webhook is missing: {place} is empty or not set", code=_FAULT)
    return secret.rstrip(b"\r\n")


def signature(secret: bytes, timestamp: int, content: bytes) -> str:
    """Return the value of `X-Deltacli-Signature`. `timestamp` is in seconds."""
    return f"sha256={hmac.new(secret, f'{timestamp}.'.encode() + content, sha256).hexdigest()}"


@dataclass(frozen=True)
class Sender:
    """Sends summaries. `clock` returns milliseconds since the epoch, `ticks` seconds."""

    webhook: Webhook
    secret: bytes | None
    clock: Callable[[], int]
    ticks: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def send(self, content: bytes, run: str) -> str | None:
        """Send a summary until it is accepted, and return why it was not; None where it was.

        Redirects are not followed, because the request is signed for one receiver.
        """
        deadline = self.ticks() + self.webhook.retry_budget / 1_000
        wait = _FIRST_PAUSE
        while True:
            left = max(deadline - self.ticks(), 1.0)
            reason, is_temporary, retry_after = self._attempt(content, run, min(left, _ATTEMPT_SECONDS))
            if reason is None or not is_temporary:
                return reason
            wait = max(wait, retry_after)
            if self.ticks() + wait >= deadline:
                return reason
            self.pause(wait)
            wait = min(2 * wait, _LONGEST_PAUSE)

    def _attempt(self, content: bytes, run: str, seconds: float) -> tuple[str | None, bool, float]:
        """Return why the request failed, whether it can be repeated, and after how many seconds."""
        parts = urlsplit(self.webhook.url)
        target = parts._replace(scheme="", netloc="").geturl() or "/"
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port, seconds)
        try:
            connection.connect()
            if parts.scheme == "http" and not is_loopback(str(connection.sock.getpeername()[0])):
                return f"{parts.hostname} is not on loopback", False, 0
            connection.request("POST", target, content, self._headers(content, run))
            answer = connection.getresponse()
            answer.read(_MOST_ANSWER_BYTES)
        except ssl.SSLCertVerificationError as fault:
            return f"the certificate of {parts.hostname} is not valid: {fault.verify_message.rstrip('.')}", False, 0
        except (OSError, HTTPException) as fault:
            return f"{parts.hostname} does not answer: {str(fault).lower() or type(fault).__name__}", True, 0
        finally:
            connection.close()
        if 200 <= answer.status < 300:
            return None, False, 0
        if 300 <= answer.status < 400:
            return f"{parts.hostname} answered {answer.status}, and redirects are not followed", False, 0
        seconds = parse_retry_after(answer.getheader("Retry-After", ""), self.clock() / 1_000)
        return f"{parts.hostname} answered {answer.status}", answer.status in TEMPORARY_STATUSES, seconds

    @staticmethod
    def _connection(scheme: str, host: str, port: int | None, seconds: float) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=seconds)
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return HTTPSConnection(host, port, timeout=seconds, context=context)

    def _headers(self, content: bytes, run: str) -> dict[str, str]:
        timestamp = self.clock() // 1_000
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"deltacli/{VERSION}",
            "X-Deltacli-Run": run,
            "X-Deltacli-Timestamp": str(timestamp),
        }
        if self.secret is not None:
            headers["X-Deltacli-Signature"] = signature(self.secret, timestamp, content)
        return headers


def make_sender(webhook: Webhook | None, clock: Callable[[], int]) -> Sender | None:
    """Return the sender of a policy file, None where it has no webhook. Raises UsageError."""
    return None if webhook is None else Sender(webhook, read_secret(webhook, os.environ), clock)
