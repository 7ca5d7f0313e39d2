"""Connections before the guard sees a request: how many there may be, how long each may wait, how large a head may be.

What strangers send is counted while it arrives: uvicorn keeps a head until it is complete, and every request of a
pipeline until the one before it is answered.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deltacli.sharing.configuration.settings import Limits, Settings
from deltacli.sharing.protocol.wire_errors import WireError, malformed
from deltacli.sharing.server.guarding.refusals import require_framing, too_large, too_many_connections, too_slow

if TYPE_CHECKING:
    from deltacli.sharing.server.guarding.metrics import Metrics

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
        self._descriptors = _descriptors()
        self._open: dict[Counted, str | None] = {}
        self._of_address: dict[str, dict[Counted, None]] = {}
        self._waiting: dict[Counted, None] = {}
        self._logged_at = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self._open)

    @property
    def limits(self) -> Limits:
        """Return the limits at the moment."""
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
            _LOG.warning(
                "the limit of %d open files allows %d connections (limits.connections: %d)",
                self._descriptors,
                self.most,
                self.limits.connections,
            )
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


def _descriptors() -> int:
    """Return how many files this process may open, after raising that to what it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft
