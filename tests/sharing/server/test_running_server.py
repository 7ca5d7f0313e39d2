"""What happens to running answers when the server is disturbed: a reload, a killed worker, a full audit log."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path

import pytest

from tests.sharing.configured import HEADERS, PREFIX, SHARES, Server, serving
from tests.support.actions import add, birth
from tests.support.builder import TableBuilder
from tests.support.certificates import certify
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the workers in /proc"),
]

FILES = 40_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers, and a table whose answers do not fit into the buffers of a connection."""
    directory = tmp_path_factory.mktemp("shared")
    files = (add(f"part-{number:05d}.parquet", size=1) for number in range(FILES))
    TableBuilder().commit(*birth(), *files).write(directory / "t")
    with serving(directory, "--workers", "2") as running:
        wait_until(lambda: len(running.workers()) == 2, "two workers")
        yield running


def _until_idle(server: Server) -> None:
    """Wait until all requests are finished: they are counted after their last byte."""
    wait_until(lambda: server.metric("running_requests") == 0, "all requests are finished")


def _until_refused(server: Server) -> None:
    """Wait until every worker has read the configuration, which is bad."""
    wait_until(lambda: all("configuration" in text for text in server.readiness()), "the configuration is refused")


def _begin(server: Server, stack: ExitStack, count: int) -> list[HTTPResponse]:
    """Begin to read so many answers."""
    answers = [stack.enter_context(server.ask("POST", "/query", b"{}")) for _ in range(count)]
    for answer in answers:
        assert (200, b'{"protocol"') == (answer.status, answer.read(11))
    return answers


def _finish(answer: HTTPResponse) -> int | None:
    """Read the rest of an answer, and return how many lines it has; None where it was broken off."""
    try:
        return answer.read().count(b"\n")
    except (IncompleteRead, ConnectionError):
        return None


def _ids_of_requests(server: Server) -> set[str]:
    return {line["request"] for line in server.audited() if line["event"] == "request"}


def test_a_reload_finishes_running_answers_with_what_they_began_with(server: Server) -> None:
    config = server.directory / "shares.yaml"
    with ExitStack() as stack:
        answers = _begin(server, stack, 4)

        config.write_text(SHARES.replace("name: t,", "name: renamed,"))
        wait_until(lambda: server.statuses() == {404}, "no worker shares the table")
        config.write_text("version: [")
        wait_until(
            lambda: all("configuration" in text for text in server.readiness()),
            "every worker refuses the configuration",
        )
        during = server.statuses()
        config.write_text(SHARES)
        wait_until(lambda: server.statuses() == {200}, "every worker shares the table")
        lines = {_finish(answer) for answer in answers}

    assert {404} == during
    assert {FILES + 2} == lines


def test_a_killed_worker_breaks_only_its_own_answers(server: Server) -> None:
    before = set(server.workers())
    with ExitStack() as stack:
        answers = []
        for worker in before:
            with server.answered_by(worker):
                answers += _begin(server, stack, 8)

        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: len(set(server.workers()) - {min(before)}) == 2, "a worker instead of the killed one")
        after = {server.status() for _ in range(8)}
        lines = [_finish(answer) for answer in answers]

    _until_idle(server)
    assert {200} == after
    assert [FILES + 2] * 8 + [None] * 8 == sorted(lines, key=lambda count: count is None)
    assert {answer.headers["x-request-id"] for answer in answers} <= _ids_of_requests(server)


def test_a_worker_that_begins_while_the_configuration_is_bad_serves_what_the_others_serve(server: Server) -> None:
    config = server.directory / "shares.yaml"
    config.write_text(SHARES.replace("authorization: {bearerToken: secret}\n", ""))
    wait_until(
        lambda: all("configuration" in text for text in server.readiness()), "every worker refuses the configuration"
    )
    before = set(server.workers())

    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(set(server.workers()) - {min(before)}) == 2, "a worker instead of the killed one")
    with_token = server.statuses()
    without = set(server.of_each_worker(lambda: server.send(_WITHOUT_TOKEN)[9:12]))
    wait_until(
        lambda: all("configuration" in text for text in server.readiness()), "every worker refuses the configuration"
    )  # the new one reads the file, too
    config.write_text(SHARES)
    wait_until(
        lambda: not any("configuration" in text for text in server.readiness()),
        "every worker has taken the configuration",
    )

    assert ({200}, {b"401"}) == (with_token, without)


_WITHOUT_TOKEN = b"GET /delta-sharing/shares HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_a_full_audit_log_refuses_requests_and_finishes_running_answers(server: Server) -> None:
    server.statuses()
    with ExitStack() as stack:
        answers = _begin(server, stack, 4)
        for worker in server.workers():  # a disk that takes 10 more bytes
            size = (server.directory / "audit.log").stat().st_size
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))

        during = {status for request in _REQUESTS for status in server.statuses(*request)}
        is_ready = not all("audit" in text for text in server.readiness())
        lines = {_finish(answer) for answer in answers}
        _until_idle(server)
        recorded = len(server.audited())
        for worker in server.workers():
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after = {server.status() for _ in range(8)}

    assert ({503}, False, {FILES + 2}) == (during, is_ready, lines)
    assert {200} == after
    assert recorded < len(server.audited())
    assert {answer.headers["x-request-id"] for answer in answers} <= _ids_of_requests(server)


_REQUESTS = (
    ("GET", "/version"),
    ("GET", "/metadata"),
    ("POST", "/query", b"{}"),
    ("GET", "/changes?startingVersion=0"),
    ("GET", "/none"),
)


def test_metrics_of_all_workers_are_added_up(server: Server) -> None:
    _until_idle(server)
    before = server.metric("requests_total")

    for _ in range(20):
        server.status()
    _until_idle(server)

    counts = {server.metric("requests_total") - before for _ in range(6)}
    assert {20.0} == counts


def test_what_is_not_http_is_answered_in_json(server: Server) -> None:
    requests = (b"GET / HTTP/1.1\r\nno header\r\n\r\n", b"\x00\x01\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

    answers = [server.send(request) for request in requests]

    for answer in answers:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert "MALFORMED_REQUEST" == json.loads(body)["errorCode"]


def test_a_head_without_end_is_refused_while_it_arrives(server: Server) -> None:
    answer = server.send(b"GET / HTTP/1.1\r\n" + b"a: x\r\n" * 30_000)

    assert answer.startswith(b"HTTP/1.1 431 ")


def test_silent_tls_connections_make_room_and_have_a_deadline(tmp_path: Path) -> None:
    trust = ssl.create_default_context(cafile=certify(tmp_path))
    tls = "ssl: {certificateFile: server.pem, certificateKeyFile: server.key}\n"
    limits = SHARES.replace("requestsPerSecond: 0", "requestsPerSecond: 0, connections: 10, headSeconds: 2")
    (tmp_path / "shares.yaml").write_text(tls + limits)
    TableBuilder().commit(*birth()).write(tmp_path / "t")

    with serving(tmp_path) as server, ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        silent = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(30)]
        connection = HTTPSConnection(*address, timeout=60, context=trust)
        connection.request("GET", f"{PREFIX}/shares", headers=HEADERS)
        with closing(connection), connection.getresponse() as response:
            status = response.status
        ends = {one.recv(1) for one in silent}
        wait_until(lambda: server.metric("connections") == 0, "all connections are closed")
        closed = server.metric("closed_connections_total")

    assert (200, {b""}) == (status, ends)
    assert closed >= 30


def test_every_worker_knows_the_queries_that_are_answered_later(tmp_path: Path) -> None:
    (tmp_path / "shares.yaml").write_text(SHARES + "asyncQueries: {directory: queries, afterMs: 0}\n")
    TableBuilder().commit(*birth(), add("a", size=1)).write(tmp_path / "t")

    def ask(server: Server, path: str, body: bytes) -> bytes:
        headers = {**HEADERS, "delta-sharing-capabilities": "responseformat=parquet;asyncquery=true"}
        connection = HTTPConnection("localhost", server.port, timeout=60)
        connection.request("POST", f"{PREFIX}/shares/s/schemas/d/tables/t{path}", body, headers)
        with closing(connection), connection.getresponse() as response:
            assert 200 == response.status
            return response.read()

    with serving(tmp_path, "--workers", "2") as server:
        wait_until(lambda: len(server.workers()) == 2, "two workers")
        found = server.of_each_worker(lambda: ask(server, "/query", b'{"idempotencyKey":"k"}'))
        assert 2 == len(found)
        (query_id,) = {json.loads(one)["queryStatus"]["queryId"] for one in found}
        path = f"/queries/{query_id}"
        wait_until(lambda: b"queryStatus" not in ask(server, path, b""), "the query is done")
        assert [True, True] == [b'"protocol"' in one for one in server.of_each_worker(lambda: ask(server, path, b""))]
