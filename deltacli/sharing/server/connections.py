"""Connections before the guard sees a request: how many, how long, TLS, refusals, and what is measured.

With several workers, the variable PROMETHEUS_MULTIPROC_DIR names a directory in which all of them count; it must be set
before this module is imported.

What strangers send is counted while it arrives: uvicorn keeps a head until it is complete, and every request of a
pipeline until the one before it is answered.

An event loop that accepts for itself makes no connection known before its handshake is complete. The handshake is left
to the loop: it is the one that keeps every byte that comes with its end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import Any

import httptools
import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deltacli.core.open_files import raise_open_file_limit
from deltacli.core.times import format_timestamp
from deltacli.core.units import format_size
from deltacli.sharing.configuration.recipients import TokenState
from deltacli.sharing.configuration.settings import Limits, Settings
from deltacli.sharing.protocol.parameters import ErrorCode, WireError, malformed

# -- what operators measure --------------------------------------------------------------------------------------------

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SHARED = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """All measurements of one server. Labels have bounded values: routes, status codes, names of recipients."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Answered requests.", ("route", "code", "recipient"))
        self.seconds = self._histogram("request_seconds", "the last byte of the answer")
        self.first_byte_seconds = self._histogram("first_byte_seconds", "the first byte of the answer")
        self.sent_bytes = self._counter("sent_bytes", "Bytes of answers.", ("route",))
        self.broken = self._counter("broken_answers", "Answers that ended before they were complete.", ("route",))
        self.refused = self._counter("refused_requests", "Requests that were refused, by status.", ("code",))
        self.files_listed = self._counter("files_listed", "Files of tables that were considered for an answer.")
        self.files_pruned = self._counter("files_pruned", "Files that predicate hints excluded.")
        self.cache_hits = self._counter("snapshot_cache_hits", "Snapshots that were in the cache.")
        self.cache_misses = self._counter("snapshot_cache_misses", "Snapshots that had to be read.")
        self.audit_failures = self._counter("audit_failures", "Requests that could not be recorded.")
        self.credentials = self._counter("credentials", "Credentials for directories.", ("cloud", "outcome"))
        self.reloads = self._counter("reloads", "Reloads of the configuration or the recipients.", ("outcome",))
        self.cache_bytes = self._gauge("snapshot_cache_bytes", "Size of the snapshot cache.", mode="livesum")
        self.running = self._gauge("running_requests", "Requests that are being answered.", mode="livesum")
        self.connections = self._gauge("connections", "Open connections.", mode="livesum")
        self.closed_connections = self._counter(
            "closed_connections", "Connections that were closed or refused because of a limit.", ("reason",)
        )
        self.configuration_is_current = self._gauge(
            "configuration_current", "1 if the last reload succeeded, 0 if an older configuration is in use.", "livemin"
        )
        self.configuration_is_current.set(1)
        self._cache_seen = 0, 0

    def text(self) -> bytes:
        """Return the measurements of all workers."""
        if _SHARED not in os.environ:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

    def count_reload(self, *, is_good: bool) -> None:
        """Count a reload; after a bad one an older configuration is in use."""
        self.reloads.labels("done" if is_good else "refused").inc()
        self.configuration_is_current.set(1 if is_good else 0)

    def count_files(self, returned: int, considered: int) -> None:
        """Count the files of an answer."""
        self.files_listed.inc(considered)
        self.files_pruned.inc(max(considered - returned, 0))

    def note_cache(self, hits: int, misses: int, size_bytes: int) -> None:
        """Note how the cache of snapshots was used since the server began."""
        self.cache_hits.inc(hits - self._cache_seen[0])
        self.cache_misses.inc(misses - self._cache_seen[1])
        self._cache_seen = hits, misses
        self.cache_bytes.set(size_bytes)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a request while it is answered."""
        self.running.inc()
        try:
            yield
        finally:
            self.running.dec()

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"deltacli_share_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, end: str) -> Histogram:
        text = f"Time from the first byte of a request to {end}."
        return Histogram(f"deltacli_share_{name}", text, ("route",), buckets=_SECONDS, registry=self.registry)

    def _gauge(self, name: str, text: str, mode: str) -> Gauge:
        return Gauge(f"deltacli_share_{name}", text, registry=self.registry, multiprocess_mode=mode)  # type: ignore[arg-type]  # one of its words


# -- answers to requests that are refused before the application sees them ---------------------------------------------

_CLOSE = {"Connection": "close"}
_CHALLENGE = 'Bearer realm="delta-sharing"'


def token_missing() -> WireError:
    """Return the answer to a request without a bearer token."""
    message = "the request has no bearer token (expected: the header Authorization: Bearer TOKEN)"
    return WireError(401, ErrorCode.UNAUTHENTICATED, message, headers={"WWW-Authenticate": _CHALLENGE})


def token_refused(state: TokenState | None = None, at_ms: int | None = None) -> WireError:
    """Return the answer to a token that is unknown, or not valid at the moment; the latter is told to its owner only,
    because only the owner can present it.
    """
    match state:
        case TokenState.EXPIRED:
            reason = f"expired at {format_timestamp(at_ms or 0)}"
        case TokenState.NOT_YET_VALID:
            reason = f"is not valid before {format_timestamp(at_ms or 0)}"
        case _:
            reason = "is not valid"
    challenge = f'{_CHALLENGE}, error="invalid_token"'
    message = f"the bearer token {reason}; ask the provider for a new profile"
    return WireError(401, ErrorCode.UNAUTHENTICATED, message, headers={"WWW-Authenticate": challenge})


def url_revoked() -> WireError:
    """Return the answer to a signed URL whose recipient lost access since."""
    return WireError(403, ErrorCode.FORBIDDEN, "the URL was revoked; repeat the query to get another one")


def too_many(what: str, retry_after_seconds: int) -> WireError:
    """Return the answer to a recipient that asks too often, or too much at once."""
    headers = {"Retry-After": str(max(retry_after_seconds, 1))}
    return WireError(429, ErrorCode.TOO_MANY, f"too many requests: {what}", headers=headers)


def too_large(what: str, most_bytes: int) -> WireError:
    """Return the answer to a head or a body that is too large. The rest of it is not read: the connection is closed."""
    message = f"the {what} of the request is larger than {format_size(most_bytes)}"
    return WireError(431 if what == "head" else 413, ErrorCode.TOO_LARGE, message, headers={"Connection": "close"})


def too_slow(what: str, seconds: int) -> WireError:
    """Return the answer to a head or a body that does not arrive."""
    message = f"the {what} of the request did not arrive within {seconds} seconds"
    return WireError(408, ErrorCode.TIMEOUT, message, headers={"Connection": "close"})


def too_many_connections() -> WireError:
    """Return the answer to a connection for which there is no room."""
    headers = {"Retry-After": "1", "Connection": "close"}
    return WireError(503, ErrorCode.UNAVAILABLE, "too many connections are open", headers=headers)


def encoding_refused(name: str) -> WireError:
    """Return the answer to a compressed body."""
    message = f"the Content-Encoding {name[:40]!r} is not accepted; send the body as it is"
    return WireError(415, ErrorCode.MEDIA_TYPE, message, headers={"Accept-Encoding": "identity"})


def require_framing(headers: Iterable[tuple[bytes, bytes]], http_version: str) -> None:
    """Raise WireError for a head that proxies and servers understand differently: without exactly one Host, or with
    another coding of the body than chunks.
    """
    found = list(headers)
    hosts = sum(name == b"host" for name, _ in found)
    if hosts > 1 or (not hosts and http_version == "1.1"):
        raise WireError(400, ErrorCode.MALFORMED, f"the request has {hosts} Host headers (expected: 1)", headers=_CLOSE)
    for name, value in found:
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            message = f"the Transfer-Encoding {value.decode('latin-1')[:40]!r} is not supported (expected: chunked)"
            raise WireError(501, ErrorCode.UNSUPPORTED, message, headers=_CLOSE)


def host_refused() -> WireError:
    """Return the answer to a request for another host, such as one by a page of a foreign web site."""
    return WireError(421, ErrorCode.INVALID, "the Host header does not name this server")


def not_recorded() -> WireError:
    """Return the answer to a request that cannot be recorded, and so is not served."""
    message = "the server cannot record requests at the moment, so it does not answer them"
    return WireError(503, ErrorCode.UNAVAILABLE, message, headers={"Retry-After": "60"})


# -- connections before the guard sees a request -----------------------------------------------------------------------

_LOG = logging.getLogger("deltacli.share")

_PART = 256
"""Most bytes that the parser gets at a time, of a head not more than a line: it begins a request for each head in them,
at once.
"""

_SWEEP_SECONDS = 1.0
_LINGER_SECONDS = 2.0
_MOST_DISCARDED = 1 << 20
"""After a refusal: for so long and so many bytes the client may go on, so that it gets to read the answer."""

_LOG_SECONDS = 60.0
_MOST_DESCRIPTORS = 65_536


class Connections:
    """The open connections of one port in one process. `settings` returns those of the moment, `clock` seconds.

    Where there are too many, the one that has waited longest for a head makes room for the next: whoever only holds
    connections loses them first. If all are being answered, the next is refused.
    """

    def __init__(
        self,
        settings: Callable[[], Settings] = Settings,
        *,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self.clock = clock
        self._descriptors = raise_open_file_limit(_MOST_DESCRIPTORS)
        self._open: dict[Counted, str | None] = {}
        self._of_address: dict[str, dict[Counted, None]] = {}
        self._waiting: dict[Counted, None] = {}
        self._logged_at = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self._open)

    @property
    def limits(self) -> Limits:
        return self._settings().limits

    @property
    def most(self) -> int:
        """Return how many connections may be open: half of the files that this process may open, or less."""
        return min(self.limits.connections, max(self._descriptors // 2, 1))

    def enter(self, connection: Counted, peer: object) -> bool:
        """Count a connection, which waits from now on. Return False where there is no room."""
        address = None if self._settings().behind_proxy else _address_of(peer)
        most = self.limits.connections_per_address
        if address is not None and most and len(self._of_address.get(address, ())) >= most:
            waiting = [other for other in self._of_address[address] if other in self._waiting]
            if not self._make_room(min(waiting, key=lambda other: other.deadline, default=None), "address"):
                return False
        if len(self._open) >= self.most and not self._make_room(next(iter(self._waiting), None), "all"):
            return False
        self._open[connection] = address
        if address is not None:
            self._of_address.setdefault(address, {})[connection] = None
        self._waiting[connection] = None
        return True

    def leave(self, connection: Counted) -> None:
        """Forget a connection that has ended."""
        self._waiting.pop(connection, None)
        address = self._open.pop(connection, None)
        if address is not None:
            others = self._of_address[address]
            del others[connection]
            if not others:
                del self._of_address[address]

    def note_waiting(self, connection: Counted, *, waits: bool) -> None:
        """Note whether a connection waits for its client, and so may make room for another one."""
        self._waiting.pop(connection, None)
        if waits and connection in self._open:
            self._waiting[connection] = None

    def count(self, reason: str) -> None:
        """Count a connection that was closed because of a limit."""
        if self._metrics is not None:
            self._metrics.closed_connections.labels(reason).inc()

    def sweep(self) -> None:
        """End what has waited too long."""
        now = self.clock()
        for connection in tuple(self._open):
            connection.look(now)
        if self._metrics is not None:
            self._metrics.connections.set(len(self._open))

    async def run(self) -> None:
        """Sweep until cancelled."""
        if self.most < self.limits.connections:
            message = "the limit of %d open files allows %d connections (limits.connections: %d)"
            _LOG.warning(message, self._descriptors, self.most, self.limits.connections)
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self.sweep()

    def _make_room(self, idle: Counted | None, reason: str) -> bool:
        self.count(reason)
        now = self.clock()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            what = "limits.connections" if reason == "all" else "limits.connectionsPerAddress"
            _LOG.warning("too many connections (%s): %d are open, idle ones are closed", what, len(self._open))
        if idle is None:
            return False
        self.leave(idle)
        idle.abort()
        return True


class Counted:
    """A connection, with a moment at which something is done about it."""

    bounds: Connections
    deadline = 0.0
    _then: Callable[[], None] | None = None

    def abort(self) -> None:
        """End the connection, whatever was not sent."""
        raise NotImplementedError

    def look(self, now: float) -> None:
        """Do what is due."""
        if self._then is not None and now >= self.deadline:
            self._then()

    def _after(self, seconds: float, then: Callable[[], None] | None, *, waits: bool = True) -> None:
        """Do something unless another call comes in between. `waits`: it is the client's turn."""
        self.deadline, self._then = self.bounds.clock() + seconds, then
        self.bounds.note_waiting(self, waits=waits)


class GuardedProtocol(HttpToolsProtocol, Counted):
    """A connection on which heads, the framing of bodies, and pipelines have limits."""

    def __init__(self, connections: Connections, **options: Any) -> None:  # Any: of uvicorn
        super().__init__(**options)
        self.bounds = connections
        self.on_secured: Callable[[], None] | None = None
        self._head_bytes = 0  # and what else is neither a whole head nor content: extensions of chunks, trailers
        self._is_in_body = False
        self._left_over = 0
        self._unread = b""
        self._discarded: int | None = None
        self._is_closing = False
        self._unread_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head, unless there are too many connections."""
        super().connection_made(transport)
        self.flow = self._flow = _Flow(transport)
        if self.on_secured is not None:
            self.on_secured()
        if not self.bounds.enter(self, transport.get_extra_info("peername")):
            self._discarded = 0
            transport.write(_encoded(too_many_connections()))
            transport.close()
            return
        self._after(self.bounds.limits.head_seconds, self._end_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.bounds.leave(self)
        self._unread, self._then = b"", None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, as far as it is the turn of the client."""
        self._unset_keepalive_if_required()
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > _MOST_DISCARDED:
                self.abort()
            return
        self._unread += data
        self._parse()

    def _parse(self) -> None:
        """Feed the parser, but not with further requests while one is being answered."""
        data, position = self._unread, 0
        while position < len(data) and self._discarded is None and not self.transport.is_closing():
            if self._is_answering and not self._is_in_body:
                break
            line_end = 0 if self._is_in_body else data.find(b"\n", position, position + _PART) + 1
            part = data[position : line_end or position + _PART]
            position += len(part)
            if not self._head_bytes and not self._is_answering and not self._is_in_body:
                self._after(self.bounds.limits.head_seconds, self._end_slow)
            self._head_bytes += len(part)
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade as upgrade:  # not offered, so it goes on as it was
                position -= len(part) - (upgrade.args[0] or len(part))
            except httptools.HttpParserError as fault:
                why = fault.__context__
                self._refuse(why if isinstance(why, WireError) else malformed("the request is not valid HTTP/1.1"))
            if self._head_bytes > self.bounds.limits.header_bytes + _PART:
                self._refuse(too_large("head", self.bounds.limits.header_bytes))
        is_refused = self._discarded is not None or self.transport.is_closing()
        self._unread = b"" if is_refused else data[position:]
        self._flow.hold(bool(self._unread))

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. What comes after a body is no header: nothing here waits for it."""
        if not self._is_in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer; from here on the guard has limits. Raises WireError, which `_parse` sends."""
        require_framing(self.headers, self.parser.get_http_version())
        self._head_bytes, self._is_in_body = 0, True
        self._after(0, None, waits=False)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; one that nobody reads any more has the limit of all bodies."""
        self._head_bytes = 0
        if self.cycle.response_complete:
            self._left_over += len(body)
            if self._left_over > self.bounds.limits.body_bytes:
                self.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the next bytes begin a head."""
        self._head_bytes, self._is_in_body = 0, False
        super().on_message_complete()
        if self.cycle.response_complete:
            self._await_head()

    def on_response_complete(self) -> None:
        """Go on with what the client sent meanwhile."""
        super().on_response_complete()
        self._unset_keepalive_if_required()
        if self.transport.is_closing() or self._is_answering:
            return
        self._left_over = 0
        if self._is_in_body:
            self._after(self.bounds.limits.body_seconds, self.abort)
        else:
            self._await_head()
        self._parse()

    def _await_head(self) -> None:
        self._after(self.bounds.limits.idle_seconds, self.transport.close)

    def pause_writing(self) -> None:
        """Note since when the client does not read."""
        self._unread_since = self.bounds.clock()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        self._unread_since = None
        super().resume_writing()

    def look(self, now: float) -> None:
        """Do what is due. A client that does not read its answer, or the rest before the end, loses the connection. The
        guard cuts and records such an answer just before.
        """
        most = self.bounds.limits.stream_idle_seconds + _LINGER_SECONDS
        if self._unread_since is not None and now - self._unread_since > most:
            self.bounds.count("unread")
            self.abort()
            return
        if self.transport.is_closing() and not self._is_closing:
            self._is_closing = True
            self._after(self.bounds.limits.stream_idle_seconds, self.abort, waits=False)
        super().look(now)

    def abort(self) -> None:
        """End the connection, whatever was not sent."""
        self._discarded = 0
        self.transport.abort()

    def send_400_response(self, _message: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(malformed("the request is not valid HTTP/1.1"))

    def _end_silent(self) -> None:
        self.bounds.count("silent")
        self.abort()

    def _end_slow(self) -> None:
        self.bounds.count("head")
        self._refuse(too_slow("head", self.bounds.limits.head_seconds))

    def _refuse(self, error: WireError) -> None:
        """Send an error, and close soon: a client that is still sending would lose it otherwise."""
        if self._discarded is not None:
            return
        self._discarded = 0
        if self._is_answering:
            if self.cycle.response_started or self.pipeline:
                self.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(_encoded(error))
        with suppress(OSError, NotImplementedError):
            if self.transport.can_write_eof():
                self.transport.write_eof()
        self._after(_LINGER_SECONDS, self.abort)


class _Flow(FlowControl):
    """Reading stays paused while there are bytes that nobody has parsed."""

    _is_held = False

    def hold(self, is_held: bool) -> None:
        if is_held != self._is_held:
            self._is_held = is_held
            (self.pause_reading if is_held else self.resume_reading)()

    def resume_reading(self) -> None:
        if not self._is_held:
            super().resume_reading()


def _encoded(error: WireError) -> bytes:
    body = error.body()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **error.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers | {"Connection": "close"}).items())
    return f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n{lines}\r\n".encode() + body


def _address_of(peer: object) -> str | None:
    """Return what connections are counted by: an IPv4 address, or the /64 network of one subscriber with IPv6. None for
    loopback, where a proxy may stand for all clients.
    """
    try:
        address = ip_address(str(peer[0]).partition("%")[0])  # type: ignore[index]  # not an IP socket: see below
    except (ValueError, TypeError, IndexError):
        return None
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return None
    return str(address) if address.version == 4 else str(ip_network((address, 64), strict=False))


# -- TLS ---------------------------------------------------------------------------------------------------------------

_ACCEPTED_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_GRACE_SECONDS = 5.0


class TlsServer(uvicorn.Server):
    """A server whose configuration has `ssl`."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        context = self.config.ssl
        if context is None:
            raise ValueError("there is no certificate")
        await self.lifespan.startup()
        listeners = [TlsListener(bound, context, self._connections, self._protocol) for bound in sockets or []]
        self.servers = listeners  # type: ignore[assignment]  # they have what it calls
        self.started = True

    def _protocol(self) -> GuardedProtocol:
        made = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn itself calls it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        assert isinstance(made, GuardedProtocol)
        return made


class TlsListener:
    """Accepts connections at a socket. `make` returns the protocol of one, which begins after the handshake."""

    def __init__(
        self,
        bound: socket.socket,
        context: ssl.SSLContext,
        connections: Connections,
        make: Callable[[], GuardedProtocol],
    ) -> None:
        self._bound, self._context, self._connections, self._make = bound, context, connections, make
        self._loop = asyncio.get_running_loop()
        self._running: dict[asyncio.Task[None], _Handshake] = {}
        self._is_closed = False
        bound.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and end those that have not completed their handshake."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._bound)
        for handshake in tuple(self._running.values()):
            handshake.abort()

    async def wait_closed(self) -> None:
        """Wait until no handshake runs."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._bound, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file may be opened: it would be tried without end
                self._loop.remove_reader(self._bound)
                self._loop.call_later(_RETRY_SECONDS, self._listen)
                return
            accepted.setblocking(False)
            handshake = _Handshake(self._connections, accepted)
            if self._connections.enter(handshake, peer):
                task = self._loop.create_task(handshake.run(self._context, self._make))
                self._running[task] = handshake
                task.add_done_callback(self._running.pop)
            else:
                accepted.close()


class _Handshake(Counted):
    """A connection until its handshake is complete, counted like the others."""

    def __init__(self, connections: Connections, accepted: socket.socket) -> None:
        self.bounds = connections
        self._seconds = connections.limits.head_seconds
        self.deadline, self._then = connections.clock() + self._seconds, self._end_silent
        self._accepted = accepted
        self._is_over = False

    async def run(self, context: ssl.SSLContext, make: Callable[[], GuardedProtocol]) -> None:
        protocol = make()
        protocol.on_secured = self._leave
        limit = self._seconds + _GRACE_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, self._accepted, ssl=context, ssl_handshake_timeout=limit
            )
        except OSError:  # of the client: the loop has closed the connection
            pass
        finally:
            self._leave()

    def abort(self) -> None:
        """End the connection: the loop notices, and closes it."""
        if not self._is_over:
            with suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)

    def _leave(self) -> None:
        self._is_over = True
        self.bounds.leave(self)

    def _end_silent(self) -> None:
        self._then = None
        self.bounds.count("silent")
        self.abort()
