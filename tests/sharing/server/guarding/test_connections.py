"""What strangers may send and hold before a request is authenticated: no sockets, and a clock of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from deltacli.sharing.configuration.settings import Limits, Settings
from deltacli.sharing.server.connections import Connections, GuardedProtocol

Message = MutableMapping[str, Any]  # Any: ASGI
STRANGER = ("203.0.113.7", 40_000)
LIMITS = Limits(
    header_bytes=4_096, body_bytes=4_096, head_seconds=20, body_seconds=10, idle_seconds=75, stream_idle_seconds=60
)
REQUEST = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport(asyncio.Transport):
    """The side of a connection that the server sees."""

    def __init__(self, peer: object) -> None:
        super().__init__()
        self.peer = peer
        self.written = b""
        self.state = "open"
        self.reads = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # Any: as there
        return self.peer if name in ("peername", "sockname") else default

    def write(self, data: Any) -> None:  # Any: as there
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.state = "ends"

    def is_closing(self) -> bool:
        return self.state in ("closed", "aborted")

    def close(self) -> None:
        self.state = "aborted" if self.state == "aborted" else "closed"

    def abort(self) -> None:
        self.state = "aborted"

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


@dataclass
class Port:
    """A port whose application answers each request when the test says so."""

    settings: Settings = field(default_factory=lambda: Settings(limits=LIMITS))
    now: float = 1_000.0
    begun: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connections = Connections(lambda: self.settings, clock=lambda: self.now)
        self._config = uvicorn.Config(self.application, interface="asgi3", ws="none", lifespan="off", log_config=None)
        self._config.load()
        self._may_answer = asyncio.Semaphore(0)

    async def application(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Answer one request."""
        self.begun += 1
        self.headers = scope["headers"]
        if scope["method"] == "POST":
            while (await receive()).get("more_body"):
                pass
        await self._may_answer.acquire()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def protocol(self, **options: Any) -> GuardedProtocol:  # Any: of uvicorn
        given = {"config": self._config, "server_state": ServerState(), "app_state": {}, **options}
        return GuardedProtocol(self.connections, **given)

    def connect(self, peer: object = STRANGER) -> Connection:
        connection = Connection(self.protocol(), Transport(peer))
        connection.protocol.connection_made(connection.transport)
        return connection

    def let_answer(self) -> None:
        """Let the application answer one request, also one that comes later."""
        self._may_answer.release()

    async def answer(self, count: int = 1) -> None:
        """Let the application answer so many requests."""
        for _ in range(count):
            self.let_answer()
            await settle()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.connections.sweep()


@dataclass
class Connection:
    protocol: GuardedProtocol
    transport: Transport

    async def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        await settle()

    @property
    def state(self) -> str:
        return self.transport.state

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.transport.written.split(b"HTTP/1.1 ")[1:]]


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


ENDLESS = {
    "header lines": (b"GET / HTTP/1.1\r\n", b"a: x\r\n"),
    "one header": (b"GET / HTTP/1.1\r\na: ", b"x"),
    "the name of a header": (b"GET / HTTP/1.1\r\n", b"x"),
    "the URL": (b"GET /", b"x"),
    "lines before the request": (b"", b"\r\n"),
    "extensions of a chunk": (CHUNKED + b"1;", b"a=b;"),
    "trailers": (CHUNKED + b"0\r\n", b"a: x\r\n"),
    "one trailer": (CHUNKED + b"0\r\na: ", b"x"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_refused_while_it_arrives(what: str) -> None:
    begin, endless = ENDLESS[what]

    async def attack() -> Connection:
        connection = Port().connect()
        await connection.send(begin)
        await connection.send((endless * 65_536)[:65_536])
        return connection

    connection = asyncio.run(attack())

    assert ([431], "ends") == (connection.statuses, connection.state)
    assert b"" == connection.protocol._unread


AMBIGUOUS = {
    "no Host": (b"GET /a HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "two equal Hosts in HTTP/1.0": (b"GET /a HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", 400),
    "a compressed body": (b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\nplain", 501),
    "two codings": (
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    "chunks twice": (b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501),
    "an unknown coding": (b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    "a coding in HTTP/1.0": (b"POST /a HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    "the second request of a connection": (REQUEST + b"GET /a HTTP/1.1\r\n\r\n", 400),
}


@pytest.mark.parametrize("what", AMBIGUOUS)
@pytest.mark.parametrize("size", [1, 1_000])
def test_a_head_that_others_understand_differently_is_refused_and_the_connection_ends(what: str, size: int) -> None:
    data, status = AMBIGUOUS[what]
    before = data.startswith(REQUEST) and data != REQUEST

    async def attack() -> tuple[Port, Connection]:
        port = Port()
        connection = port.connect()
        for start in range(0, len(data), size):
            await connection.send(data[start : start + size])
        await port.answer(2)
        return port, connection

    port, connection = asyncio.run(attack())

    refusals = [found for found in connection.statuses if found >= 400]
    assert (int(before), "ends") == (port.begun, connection.state)
    assert len(refusals) == 1
    assert refusals[0] in ({status, 400} if status == 501 else {status})


def test_a_request_of_http_1_0_needs_no_host() -> None:
    async def ask() -> list[int]:
        port = Port()
        connection = port.connect()
        await connection.send(b"GET /a HTTP/1.0\r\n\r\n")
        await port.answer()
        return connection.statuses

    assert [200] == asyncio.run(ask())


def test_a_head_as_large_as_allowed_is_accepted_however_it_is_cut() -> None:
    head = b"GET /a HTTP/1.1\r\nHost: x\r\n" + b"a: x\r\n" * 600 + b"\r\n"

    async def ask(size: int) -> list[int]:
        port = Port()
        connection = port.connect()
        for start in range(0, len(head), size):
            await connection.send(head[start : start + size])
        await port.answer()
        return connection.statuses

    assert 3_600 < len(head) < LIMITS.header_bytes
    assert [[200]] * 3 == [asyncio.run(ask(size)) for size in (1_000, 7, len(head))]


def test_a_refused_client_may_go_on_for_a_while_to_read_the_answer() -> None:
    async def attack() -> tuple[str, str, str]:
        port = Port()
        patient, stubborn = port.connect(), port.connect()
        for connection in (patient, stubborn):
            await connection.send(b"x" * 65_536)
        for _ in range(17):
            await stubborn.send(b"x" * 65_536)
        before = patient.state
        port.pass_time(3)
        return before, patient.state, stubborn.state

    assert ("ends", "aborted", "aborted") == asyncio.run(attack())


def test_trailers_are_not_headers() -> None:
    async def ask() -> list[tuple[bytes, bytes]]:
        port = Port()
        await port.connect().send(CHUNKED + b"0\r\nAuthorization: Bearer x\r\n\r\n")
        return port.headers

    assert [b"host", b"transfer-encoding"] == [name for name, _ in asyncio.run(ask())]


def test_requests_of_a_pipeline_wait_unparsed_and_are_answered_in_turn() -> None:
    async def attack() -> None:
        port = Port()
        connection = port.connect()
        await connection.send(REQUEST * 5_000)
        assert (1, False) == (port.begun, connection.transport.reads)
        connection.protocol.flow.resume_reading()  # as an answer that waits for its client to leave
        assert not connection.transport.reads

        await port.answer(3)
        assert (4, [200] * 3, False) == (port.begun, connection.statuses, connection.transport.reads)
        await port.answer(5_000)
        assert ([200] * 5_000, True) == (connection.statuses, connection.transport.reads)

    asyncio.run(attack())


def test_an_upgrade_that_is_not_offered_goes_on_as_it_was() -> None:
    async def ask() -> list[int]:
        port = Port()
        connection = port.connect()
        await connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + REQUEST)
        await port.answer(2)
        return connection.statuses

    assert [200, 200] == asyncio.run(ask())


@dataclass(frozen=True)
class Wait:
    """What a client sends, what is due after some seconds, and how the connection ends then."""

    data: bytes
    seconds: float
    state: str
    status: list[int]
    is_answered: bool = False


WAITS = {
    "nothing": Wait(b"", 20, "aborted", []),
    "a part of a head": Wait(b"GET /", 20, "ends", [408]),
    "an empty line": Wait(b"\r\n", 20, "ends", [408]),
    "nothing after an answer": Wait(REQUEST, 75, "closed", [200], is_answered=True),
    "a part of the next head": Wait(REQUEST + b"GET /", 20, "ends", [200, 408], is_answered=True),
    "a body that nobody reads": Wait(CHUNKED.replace(b"POST", b"GET"), 10, "aborted", [200], is_answered=True),
}


@pytest.mark.parametrize("what", WAITS)
def test_a_connection_that_waits_has_a_deadline(what: str) -> None:
    case = WAITS[what]

    async def wait() -> tuple[str, str, list[int]]:
        port = Port()
        connection = port.connect()
        if case.data:
            await connection.send(case.data)
        await port.answer(int(case.is_answered))
        port.pass_time(case.seconds - 1)
        before = connection.state
        port.pass_time(2)
        return before, connection.state, connection.statuses

    assert ("open", case.state, case.status) == asyncio.run(wait())


def test_dripping_does_not_put_off_the_deadline_of_a_head() -> None:
    async def drip() -> list[list[int]]:
        port = Port()
        first, second = port.connect(), port.connect()
        await second.send(REQUEST)
        await port.answer()
        for byte in b"GET /dripping-without-end":
            for connection in (first, second):
                await connection.send(bytes([byte]))
            port.pass_time(1)
        return [first.statuses, second.statuses]

    assert [[408], [200, 408]] == asyncio.run(drip())


def test_an_answer_that_is_being_made_has_no_deadline_here() -> None:
    async def wait() -> str:
        port = Port()
        connection = port.connect()
        await connection.send(REQUEST)
        port.pass_time(3_000)
        return connection.state

    assert "open" == asyncio.run(wait())


@pytest.mark.parametrize("is_closed", [False, True], ids=["while it is answered", "after the end"])
def test_a_client_that_does_not_read_loses_the_connection(is_closed: bool) -> None:
    async def wait() -> tuple[str, str]:
        port = Port()
        connection = port.connect()
        await connection.send(REQUEST)
        if is_closed:
            connection.transport.close()
        else:
            connection.protocol.pause_writing()
        port.pass_time(59)
        before = connection.state
        port.pass_time(62)
        connection.protocol.connection_lost(None)
        return before, connection.state

    assert ("closed" if is_closed else "open", "aborted") == asyncio.run(wait())


def test_the_rest_of_a_body_that_nobody_reads_has_the_limit_of_bodies() -> None:
    async def attack() -> tuple[str, str]:
        port = Port()
        connection = port.connect()
        await connection.send(CHUNKED.replace(b"POST", b"GET"))
        await port.answer()
        await connection.send(b"1000\r\n" + b"x" * 4_096 + b"\r\n")
        before = connection.state
        await connection.send(b"1000\r\n" + b"x" * 4_096 + b"\r\n")
        return before, connection.state

    assert ("open", "aborted") == asyncio.run(attack())


def test_the_connection_that_has_waited_longest_makes_room() -> None:
    async def crowd() -> None:
        port = Port(Settings(limits=replace(LIMITS, connections=3)))
        busy, old, idle = port.connect(), port.connect(), port.connect()
        await idle.send(REQUEST)
        await port.answer()
        await busy.send(REQUEST)
        await old.send(b"GET /")
        newer = [port.connect(), port.connect()]
        assert ["open", "aborted", "aborted", "open", "open"] == [one.state for one in (busy, old, idle, *newer)]

        for connection in newer:
            await connection.send(REQUEST)
        refused = port.connect()
        assert ([503], "closed", 3) == (refused.statuses, refused.state, len(port.connections))
        newer[0].protocol.connection_lost(None)
        assert "open" == port.connect().state

    asyncio.run(crowd())


@pytest.mark.parametrize(
    "first, second, is_behind_proxy, is_limited",
    [
        ("203.0.113.7", "203.0.113.7", False, True),
        ("203.0.113.7", "203.0.113.8", False, False),
        ("203.0.113.7", "::ffff:203.0.113.7", False, True),
        ("2001:db8::1", "2001:db8::ffff:2", False, True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False, False),
        ("203.0.113.7", "203.0.113.7", True, False),
        ("127.0.0.1", "127.0.0.1", False, False),
        ("::1", "::1", False, False),
    ],
)
def test_connections_of_an_address_are_limited(
    first: str, second: str, is_behind_proxy: bool, is_limited: bool
) -> None:
    async def crowd() -> str:
        limits = replace(LIMITS, connections_per_address=2)
        port = Port(Settings(limits=limits, behind_proxy=is_behind_proxy))
        for _ in range(2):
            await port.connect((first, 1)).send(REQUEST)
        return port.connect((second, 1)).state

    assert ("closed" if is_limited else "open") == asyncio.run(crowd())


def test_half_of_the_files_that_may_be_open_are_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))

    assert 128 == Connections(lambda: Settings(limits=LIMITS)).most
