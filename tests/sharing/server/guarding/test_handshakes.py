"""Connections in their TLS handshake, over sockets and on both event loops; with a clock of the test."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.server.serving import Certificate, _server, _tls_options
from tests.sharing.server.guarding.test_connections import LIMITS, REQUEST, Port
from tests.support.certificates import certify
from tests.support.waiting import wait_in_loop

Test = Callable[["Place"], Awaitable[None]]
Run = Callable[[Test], None]


@dataclass(frozen=True)
class Place:
    """A port with TLS, where two connections may be open."""

    port: Port
    close: Callable[[], object]
    address: tuple[str, int]
    trust: ssl.SSLContext

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect, and say nothing."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def ask(self, *, by: int = 1 << 16) -> bytes:
        """Return the first bytes of an answer. The request is sent with the end of the handshake, and all in parts of
        so many bytes.
        """
        coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
        secured = self.trust.wrap_bio(coming, going, server_hostname="127.0.0.1")
        async with self.connect() as (reader, writer):

            async def exchange() -> None:
                data = going.read()
                for start in range(0, len(data), by):
                    writer.write(data[start : start + by])
                    await writer.drain()
                    await asyncio.sleep(0)
                received = await reader.read(by)
                assert received, "the server closed the connection"
                coming.write(received)

            while True:
                try:
                    secured.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await exchange()
            secured.write(REQUEST)
            while True:
                try:
                    return secured.read(15)
                except ssl.SSLWantReadError:
                    await exchange()


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a test beside a server, which has forgotten all connections at the end."""
    trust = ssl.create_default_context(cafile=certify(tmp_path))
    certificate = Certificate((tmp_path / "server.pem").read_bytes(), (tmp_path / "server.key").read_bytes(), None)

    async def serve(test: Test) -> None:
        port = Port(Settings(limits=replace(LIMITS, connections=2)))

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await port.application(scope, receive, send)

        with _tls_options(certificate) as options:
            server = _server(application, port.connections, options)
        server.lifespan = server.config.lifespan_class(server.config)
        with socket.create_server(("127.0.0.1", 0)) as bound:
            await server.startup([bound])
            (listener,) = server.servers
            async with asyncio.timeout(30):  # an event loop by itself would close them after 60 seconds
                await test(Place(port, listener.close, bound.getsockname(), trust))
            listener.close()
            await listener.wait_closed()
        await wait_in_loop(lambda: not len(port.connections), "all connections are forgotten")

    def started(test: Test) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(serve(test))

    return started


@pytest.mark.parametrize("by", [1 << 16, 1])
def test_a_request_that_comes_with_the_end_of_a_handshake_is_answered(run: Run, by: int) -> None:
    async def ask(place: Place) -> None:
        for _ in range(10 if by > 1 else 1):
            place.port.let_answer()
            assert b"HTTP/1.1 200 OK" == await place.ask(by=by)

    run(ask)


def test_a_tls_handshake_is_counted_and_has_a_deadline(run: Run) -> None:
    async def crowd(place: Place) -> None:
        async with place.connect() as (first, _), place.connect() as (second, writer):
            writer.write(b"\x16\x03\x01")
            place.port.let_answer()
            assert b"HTTP/1.1 200 OK" == await place.ask()
            assert b"" == await first.read()  # made room
            place.port.pass_time(21)
            assert b"" == await second.read()

    run(crowd)


def test_what_is_not_tls_is_closed_and_forgotten(run: Run) -> None:
    async def speak(place: Place) -> None:
        async with place.connect() as (reader, writer):
            writer.write(REQUEST)
            await reader.read()
        await wait_in_loop(lambda: not len(place.port.connections), "the connection is forgotten")

    run(speak)


def test_a_handshake_ends_with_the_server(run: Run) -> None:
    async def hold(place: Place) -> None:
        async with place.connect() as (reader, _):
            await wait_in_loop(lambda: len(place.port.connections), "the connection is counted")
            place.close()
            assert b"" == await reader.read()

    run(hold)
