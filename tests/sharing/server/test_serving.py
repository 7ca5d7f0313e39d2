"""`deltacli share serve` as a process: what it prints, signals, workers, ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.sharing.configured import state_of, workers_of
from tests.support.actions import add, birth
from tests.support.builder import TableBuilder
from tests.support.waiting import in_time, wait_until

FILES = 40_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of so many files that an answer does not fit into the buffers of a connection."""
    files = (add(f"part-{number:05d}.parquet", size=1) for number in range(FILES))
    return TableBuilder().commit(*birth(), *files).write(tmp_path_factory.mktemp("lake") / "big")


@contextmanager
def running(table: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A server of a table, ready to answer, and the file of its profile."""
    profile = table.parent / "try.share"
    command = [sys.executable, "-m", "deltacli", "share", "serve", str(table), "--profile", str(profile), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        with in_time(process, "the server is ready"):
            while not process.stderr.readline().startswith("next: "):
                assert process.poll() is None
        try:
            yield process, profile
        finally:
            process.kill()


@contextmanager
def ask(profile: Path, method: str, rest: str, body: bytes | None = None) -> Iterator[HTTPResponse]:
    """Send a request about the table and yield the answer, with its body unread."""
    document = json.loads(profile.read_text())
    url = urlsplit(document["endpoint"])
    connection = HTTPConnection(url.hostname or "", url.port, timeout=60)
    headers = {"Authorization": f"Bearer {document['bearerToken']}"}
    connection.request(method, f"{url.path}/shares/local/schemas/default/tables/big{rest}", body, headers)
    with closing(connection), connection.getresponse() as response:
        yield response


def version_status(profile: Path) -> int:
    """Ask for the version of the table and return the status."""
    with ask(profile, "GET", "/version") as response:
        return response.status


@pytest.mark.long
def test_a_signal_lets_running_answers_finish(table: Path) -> None:
    with running(table) as (process, profile), ask(profile, "POST", "/query", b"{}") as answer:
        begin = answer.read(1_000)

        process.send_signal(signal.SIGTERM)
        rest = answer.read()
        code = process.wait(30)

    assert FILES + 2 == (begin + rest).count(b"\n")
    assert 128 + signal.SIGTERM == code


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the workers in /proc")
def test_a_killed_worker_is_replaced(table: Path) -> None:
    with running(table, "--workers", "2") as (process, profile):
        before = version_status(profile)
        first = set(workers_of(process.pid))
        os.kill(min(first), signal.SIGKILL)
        wait_until(lambda: len(set(workers_of(process.pid)) - {min(first)}) >= 2, "a worker instead of the killed one")

        after = [version_status(profile) for _ in range(4)]

        process.send_signal(signal.SIGINT)
        assert 128 + signal.SIGINT == process.wait(30)
    assert (200, [200] * 4) == (before, after)


STOPPED_AT_A_START = """
import multiprocessing.process, os, signal, sys

start, started = multiprocessing.process.BaseProcess.start, []

def start_and_stop(process):
    start(process)
    print(process.pid, flush=True)
    started.append(process)
    if len(started) == 1:
        os.kill(os.getpid(), signal.SIGTERM)

multiprocessing.process.BaseProcess.start = start_and_stop
from deltacli.cli.app import run
code = run(sys.argv[1:])
os._exit(code)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for the worker in /proc")
def test_a_server_that_is_stopped_while_a_worker_is_started_waits_for_it(tmp_path: Path) -> None:
    table = TableBuilder().commits(1).write(tmp_path / "tbl")
    command = [sys.executable, "-c", STOPPED_AT_A_START, "share", "serve", str(table), "--workers", "2"]

    with (tmp_path / "out").open("wb") as out:  # a pipe would be waited for until the worker has ended
        code = subprocess.run(command, stdout=out, stderr=out, timeout=60, check=False).returncode
    workers = [int(line) for line in (tmp_path / "out").read_text().splitlines() if line.isdigit()]

    assert (128 + signal.SIGTERM, {"Z"}) == (code, {*map(state_of, workers)})


@pytest.mark.long
def test_the_profile_is_readable_by_its_owner_only(table: Path) -> None:
    profile = table.parent / "try.share"
    profile.write_text("old")
    profile.chmod(0o644)

    with running(table) as (_, written):
        mode = stat.S_IMODE(written.stat().st_mode)
        document = json.loads(written.read_text())

    assert 0o600 == mode
    assert {"shareCredentialsVersion", "endpoint", "bearerToken"} == set(document)
    assert document["endpoint"].startswith("http://127.0.0.1:")


@pytest.mark.quartered
@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["{table}", "--port", "{taken}"], 2, "is in use"),
        (["{table}", "--port", "70000"], 2, "is not a port"),
        (["{table}", "--workers", "0"], 2, "is less than 1"),
        (["{table}/none"], 3, "no such directory"),
        (["{table}/_delta_log"], 3, "no Delta table"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is_printed(
    table: Path, arguments: list[str], code: int, message: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [word.format(table=table, taken=taken.getsockname()[1]) for word in arguments]

        command = [sys.executable, "-m", "deltacli", "share", "serve", *words]
        found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert (code, "") == (found.returncode, found.stdout)
    assert message in found.stderr
