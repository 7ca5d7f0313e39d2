"""What the stubs of clouds have in common: a server thread on loopback with a log of requests and faults on demand."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, NamedTuple

from tests.support.waiting import join


class Asked(NamedTuple):
    """A request; the names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Said(NamedTuple):
    """An answer. `is_cut`: the connection closes before it, or within its body where it has one."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}
    is_cut: bool = False


Fault = Callable[["CloudServer", Asked], Said]


class CloudServer:
    """`requests` are those that came, in order; `fail` chooses the answers of the next ones. `now_ms`: the time of what
    is written, None for that of the clock.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Asked] = []
        self._noting = Lock()
        self._faults: list[tuple[str, str, Fault]] = []
        self._at: tuple[int, Fault] | None = None
        self._late: list[tuple[int, Asked]] = []
        self.now_ms: int | None = None
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.cloud = self
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        join(self._thread)
        self._server.server_close()

    def asked(self, method: str, part: str = "") -> int:
        """How many requests there were of a method whose target holds `part`."""
        return sum(request.method == method and part in request.target for request in self.requests)

    def fail(self, method: str, part: str, *faults: Fault) -> None:
        """Answer the next requests of a method, whose target holds `part`, by these faults, one each."""
        self._faults += [(method, part, fault) for fault in faults]

    def fail_at(self, number: int, fault: Fault) -> None:
        """Answer one request by a fault, counted from 0 over those to come."""
        self._at = len(self.requests) + number, fault

    def forget(self) -> None:
        """Forget requests and faults."""
        self.settle()
        self.requests.clear()
        self._faults.clear()
        self._at = None

    def postpone(self, asked: Asked, requests: int) -> None:
        """Do what is asked before the request that comes after so many others, or in `settle`."""
        with self._noting:
            self._late.append((len(self.requests) + requests, asked))

    def settle(self) -> None:
        """Do what was postponed."""
        with self._noting:
            late, self._late = self._late, []
        for _, asked in late:
            self.answer(asked)

    def fault_of(self, asked: Asked, method: str = "") -> Said | None:
        """The answer of the next fault for a request; None without one."""
        with self._noting:
            found = next(
                (entry for entry in self._faults if entry[0] == (method or asked.method) and entry[1] in asked.target),
                None,
            )
            if found is None:
                return None
            self._faults.remove(found)
        return found[2](self, asked)

    def hear(self, asked: Asked) -> Said:
        """Note a request and answer it."""
        with self._noting:
            self.requests.append(asked)
            at, fault = self._at or (0, None)
            is_it = fault is not None and len(self.requests) - 1 == at
            due = [entry for entry in self._late if entry[0] < len(self.requests)]
            self._late = [entry for entry in self._late if entry not in due]
        for _, late in due:
            self.answer(late)
        if fault is not None and is_it:
            return fault(self, asked)
        return self.fault_of(asked) or self.answer(asked)

    def answer(self, asked: Asked) -> Said:
        """What the store says, and does."""
        raise NotImplementedError

    def written_at(self, modified_ms: int | None = None) -> datetime:
        """The time of an object that is written."""
        chosen = self.now_ms if modified_ms is None else modified_ms
        return datetime.now(UTC) if chosen is None else datetime.fromtimestamp(chosen / 1000, UTC)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    cloud: CloudServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that break are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        said = self.server.cloud.hear(Asked(self.command, self.path, headers, self.rfile.read(length)))
        if said.is_cut and not said.body:
            self._cut()
            return
        self.send_response(said.status)
        for name, value in said.headers.items():
            if name != "Content-Length":
                self.send_header(name, value)
        if said.status not in (204, 304):
            self.send_header("Content-Length", said.headers.get("Content-Length", str(len(said.body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said.body[: len(said.body) // 2] if said.is_cut else said.body)
        if said.is_cut:
            self._cut()

    def _cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


for _method in ("HEAD", "PUT", "POST", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler.do_GET)


def loses_reply(server: CloudServer, asked: Asked) -> Said:
    """A fault that does what was asked, and then the connection breaks."""
    server.answer(asked)
    return Said(0, is_cut=True)


def breaks(server: CloudServer, asked: Asked) -> Said:
    """A fault that breaks the connection without doing anything."""
    return Said(0, is_cut=True)


def half_a_body(server: CloudServer, asked: Asked) -> Said:
    """A fault that breaks the connection in the middle of the answer."""
    return server.answer(asked)._replace(is_cut=True)


def answers(said: Said) -> Fault:
    """A fault that answers without doing anything."""
    return lambda *_: said


def done_but(said: Said) -> Fault:
    """A fault that does what was asked and answers something else."""

    def fault(server: CloudServer, asked: Asked) -> Said:
        server.answer(asked)
        return said

    return fault


def lands_late(requests: int) -> Fault:
    """A fault that breaks the connection, and does what was asked only after so many further requests."""

    def fault(server: CloudServer, asked: Asked) -> Said:
        server.postpone(asked, requests)
        return Said(0, is_cut=True)

    return fault


def arrives_twice(server: CloudServer, asked: Asked) -> Said:
    """A fault that does what was asked twice, as after a repetition on the way, and gives the second answer."""
    server.answer(asked)
    return server.answer(asked)
