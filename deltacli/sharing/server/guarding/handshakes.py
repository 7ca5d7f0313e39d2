"""TLS: connections are accepted here, so that they are counted and have a deadline before their handshake, too.

An event loop that accepts for itself makes no connection known before its handshake is complete. The handshake is left
to the loop: it is the one that keeps every byte that comes with its end.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from deltacli.sharing.server.guarding.connections import Connections, Counted, GuardedProtocol

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
