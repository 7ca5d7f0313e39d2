"""A sharing server on loopback, in threads of this process, and a place to plant faults between it and the client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deltacli.sharing.client.addresses import parse_address
from deltacli.sharing.client.faults import DEFAULTS, AnswerLimits
from deltacli.sharing.client.share_storage import ShareStorage, open_address
from deltacli.sharing.client.table_requests import BOTH_FORMATS, Query
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.parameters import ResponseFormat
from deltacli.storage.retry import Retry
from tests.sharing.asgi import Reply, call
from tests.sharing.served import PREFIX, TOKEN, Served
from tests.support.waiting import join

_HOP_BY_HOP = ("content-length", "transfer-encoding", "connection", "server")


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_for_file(self) -> bool:
        return "/_files/" in self.target

    @property
    def json(self) -> Any:  # Any: JSON values
        return json.loads(self.body or b"{}")


@dataclass(frozen=True)
class Sent:
    """An answer. `cut_at`: the connection is closed after so many bytes of the body. `length` is the content-length
    where it is not that of the body; -1: none, and no chunks.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut_at: int | None = None
    length: int | None = None

    @property
    def lines(self) -> list[Any]:  # Any: JSON values
        return [json.loads(line) for line in self.body.split(b"\n") if line]

    def with_lines(self, lines: Sequence[Any]) -> Sent:  # Any: JSON values
        return replace(self, body=b"".join(json.dumps(line).encode() + b"\n" for line in lines))


Plant = Callable[[Asked, Callable[[], Sent]], Sent | None]
"""Gets a request and a function that returns the true answer; returns what to send, None to drop the connection."""


@dataclass
class Proxy:
    """The server as the client sees it. `plant` changes answers; `asked` are the requests so far."""

    url: str
    profile: Path
    served: Served
    plant: Plant | None = None
    asked: list[Asked] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    now_s: float = 0.0

    def address(self, name: str = "t") -> str:
        return f"{self.profile}#Sales.Main.{name}"

    def store(
        self,
        name: str = "t",
        *,
        formats: tuple[ResponseFormat, ...] = BOTH_FORMATS,
        limits: AnswerLimits = DEFAULTS,
        budget_s: float = 60.0,
        **query: Any,  # Any: fields of a query
    ) -> ShareStorage:
        """Open a shared table by a client that waits without time passing."""
        address = parse_address(self.address(name))
        assert address is not None
        retry = Retry(budget_s, clock=lambda: self.now_s, pause=self._pause)
        opened = open_address(address, retry=retry, limits=limits, clock=lambda: self.served.now_ms)
        return ShareStorage(opened.address, opened.requests, Query(formats=formats, **query))

    def _pause(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now_s += seconds

    def answer(self, asked: Asked) -> Sent | None:
        self.asked.append(asked)

        truly = partial(self.true_answer, asked)
        return truly() if self.plant is None else self.plant(asked, truly)

    def true_answer(self, asked: Asked) -> Sent:
        """The true answer to a request."""
        reply = self._reply(asked)
        return Sent(reply.status, reply.headers, reply.body)

    def _reply(self, asked: Asked) -> Reply:
        return call(self.served.app, asked.method, asked.target, body=asked.body, headers=asked.headers)


@contextmanager
def proxied(tmp_path: Path, *tables: SharedTable, **options: Any) -> Iterator[Proxy]:  # Any: settings
    """Serve tables on loopback until the block ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    url = f"http://127.0.0.1:{server.server_port}{PREFIX}"
    profile = tmp_path / "p.share"
    profile.write_text(json.dumps({"shareCredentialsVersion": 1, "endpoint": url, "bearerToken": TOKEN}))
    profile.chmod(0o600)
    served = Served(tables, options={"public_url": url, "page_size": 10_000, **options})
    proxy = Proxy(url, profile, served)
    server.proxy = proxy  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        join(thread)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:  # Any: a socket, its peer
        """Clients may leave in the middle of an answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the client's acknowledgement of its headers

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        asked = Asked(
            self.command,
            self.path,
            {name.lower(): value for name, value in self.headers.items() if name.lower() != "host"},
            self.rfile.read(length),
        )
        sent = self.server.proxy.answer(asked)  # type: ignore[attr-defined]
        if sent is None:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response_only(sent.status)
        for name, value in sent.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if sent.length != -1:
            self.send_header("Content-Length", str(len(sent.body) if sent.length is None else sent.length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent.body if sent.cut_at is None else sent.body[: sent.cut_at])
        if sent.cut_at is not None or sent.length is not None:
            self.close_connection = True

    do_GET = do_POST = do_HEAD = _answer  # noqa: N815  (names of the library)

    def log_message(self, *_: object) -> None:
        pass
