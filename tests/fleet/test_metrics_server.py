"""`fleet status --serve-metrics`: who may ask, what the answers are, and how the server ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import chain, repeat
from pathlib import Path
from socket import create_connection, socket
from threading import Thread

import pytest

from deltacli.core.errors import Refused, UsageError
from deltacli.fleet.reporting.monitoring import MetricsServer, parse_address
from tests.support.waiting import in_time, join


@contextmanager
def serving(server: MetricsServer) -> Iterator[MetricsServer]:
    """Answer requests in a thread."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        join(thread)


def get(server: MetricsServer, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, str, bytes]:
    connection = HTTPConnection("127.0.0.1", int(server.server_address[1]), timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type", ""), answer.read()
    connection.close()
    return found


def test_only_this_machine_gets_the_metrics_and_they_are_kept_for_a_while() -> None:
    made, now = list[int](), [0.0]

    def make() -> str:
        made.append(1)
        if len(made) == 2:
            raise UsageError("no journal")
        return "x 1\n# EOF\n"

    with serving(MetricsServer(("127.0.0.1", 0), make, ticks=lambda: now[0])) as server:
        first, kept = get(server), get(server, method="HEAD")
        others = [get(server, "/")[0], get(server, Host="evil.example")[0], get(server, method="POST")[0]]
        now[0] = 6.0
        failed = get(server)

    assert (200, "application/openmetrics-text; version=1.0.0; charset=utf-8", b"x 1\n# EOF\n") == first
    assert (200, b"", [404, 403, 501]) == (kept[0], kept[2], others)
    assert (500, b"no journal\n", 2) == (failed[0], failed[2], len(made))


def test_a_client_that_drips_or_holds_connections_ends_nothing_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.fleet.reporting.monitoring._Handler.timeout", 0.3)
    monkeypatch.setattr("deltacli.fleet.reporting.monitoring._MOST_CONNECTIONS", 2)
    with serving(MetricsServer(("127.0.0.1", 0), lambda: "x 1\n# EOF\n")) as server:
        place = ("127.0.0.1", int(server.server_address[1]))
        held = [create_connection(place, timeout=30) for _ in range(2)]
        refused = create_connection(place, timeout=30)
        one_too_many = refused.recv(1)
        ends = [_drip(connection) for connection in held]
        for connection in (*held, refused):
            connection.close()

    assert (b"", [True, True]) == (one_too_many, ends)


def _drip(connection: socket) -> bool:
    """Send a byte after the other until the server ends the connection, and return whether it has."""
    connection.settimeout(0.01)
    for byte in chain(b"GET /", repeat(ord("x"), 3_000)):
        try:
            connection.send(bytes([byte]))
            if connection.recv(1_000) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_addresses_that_others_can_reach_are_refused() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(Refused):
            MetricsServer((host, 0), lambda: "")

    assert [("127.0.0.1", 9105), ("::1", 9105), ("localhost", 0)] == [
        parse_address(text) for text in ("9105", "[::1]:9105", "localhost:0")
    ]
    for text in ("", "x", "localhost", "127.0.0.1:70000", "[::1:9", "127.0.0.1:-1"):
        with pytest.raises(UsageError):
            parse_address(text)


@pytest.mark.long
def test_the_server_ends_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text('[policies.p]\nvalidate = {}\n[groups.g]\npolicy = "p"\ntables = ["t"]\n')
    arguments = [sys.executable, "-m", "deltacli", "fleet", "status", "--serve-metrics", "0"]
    process = subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None

    with in_time(process, "the address of the server"):
        first = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, last = process.communicate(timeout=30)

    assert (143, True) == (process.returncode, first.startswith("metrics at http://127.0.0.1:"))
    assert "terminated; the server has stopped" in last
