"""A configured server as processes: workers, an audit log, metrics."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, TypeVar

from tests.support.waiting import children_of, in_time, wait_until

PREFIX = "/delta-sharing"
SHARES = """\
version: 1
authorization: {bearerToken: secret}
audit: {file: audit.log}
limits: {requestsPerSecond: 0, concurrentRequests: 0}
shares: [{name: s, schemas: [{name: d, tables: [{name: t, location: ./t, historyShared: true}]}]}]
"""
HEADERS = {"Authorization": "Bearer secret"}
_SERVING = re.compile(r", on 127\.0\.0\.1:(\d+)")
_ADMIN = re.compile(r"metrics at http://127\.0\.0\.1:(\d+)/")


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Server:
    """A running server, in whose directory `shares.yaml` shares the table `t` as `s.d.t`."""

    directory: Path
    process: subprocess.Popen[str]
    port: int
    admin_port: int

    @contextmanager
    def ask(self, method: str, path: str, body: bytes | None = None) -> Iterator[HTTPResponse]:
        """Send a request about the table and yield the answer, with its body unread."""
        connection = HTTPConnection("localhost", self.port, timeout=60)
        connection.request(method, f"{PREFIX}/shares/s/schemas/d/tables/t{path}", body, HEADERS)
        with closing(connection), connection.getresponse() as response:
            yield response

    def status(self, method: str = "GET", path: str = "/version", body: bytes | None = None) -> int:
        """Return the status of an answer."""
        with self.ask(method, path, body) as response:
            response.read()
            return response.status

    @contextmanager
    def answered_by(self, worker: int) -> Iterator[None]:
        """Stop the other workers meanwhile."""
        others = [other for other in self.workers() if other != worker]
        for other in others:
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGSTOP)
        try:
            wait_until(lambda: {state_of(other) for other in others} <= {"T", "Z"}, "the other workers stop")
            yield
        finally:
            for other in others:
                with suppress(ProcessLookupError):  # or the others would stay stopped, and their server with them
                    os.kill(other, signal.SIGCONT)

    def statuses(self, method: str = "GET", path: str = "/version", body: bytes | None = None) -> set[int]:
        """Return the statuses of the answers of every worker."""
        return set(self.of_each_worker(lambda: self.status(method, path, body)))

    def of_each_worker(self, ask: Callable[[], Answer]) -> list[Answer]:
        """Ask every worker."""
        found = []
        for worker in self.workers():
            with self.answered_by(worker):
                found.append(ask())
        return found

    def send(self, data: bytes) -> bytes:
        """Send bytes, and return all that is answered until the server closes the connection."""
        with socket.create_connection(("localhost", self.port), timeout=60) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def admin(self, path: str) -> str:
        """Return what the port for operators answers."""
        connection = HTTPConnection("127.0.0.1", self.admin_port, timeout=60)
        connection.request("GET", path)
        with closing(connection), connection.getresponse() as response:
            return response.read().decode()

    def readiness(self) -> list[str]:
        """Return what every worker answers to `/readyz`."""
        return self.of_each_worker(lambda: self.admin("/readyz"))

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        text = self.admin("/metrics")
        assert "deltacli_share_configuration_current" in text, text
        return sum(float(value) for value in re.findall(rf"^deltacli_share_{name}(?:{{.*}})? (\S+)$", text, re.M))

    def audited(self) -> list[dict[str, Any]]:  # Any: JSON values
        """Return the lines of the audit log, all of which are complete."""
        return [json.loads(line) for line in (self.directory / "audit.log").read_text().splitlines()]

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        return workers_of(self.process.pid)


def workers_of(server: int) -> list[int]:
    """Return the process ids of the workers of a server."""
    found = []
    for process in children_of(server):
        with suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def state_of(process: int) -> str:
    """Return the state of a process as in /proc: T for a stopped one, Z for one that has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@contextmanager
def serving(directory: Path, *options: str, **environment: str) -> Iterator[Server]:
    """Serve `shares.yaml` of a directory, which is written unless it is there."""
    config = directory / "shares.yaml"
    if not config.exists():
        config.write_text(SHARES)
    words = ["--config", str(config), "--port", "0", "--admin-port", "0", *options]
    command = [sys.executable, "-m", "deltacli", "share", "serve", *words]
    settings = {**os.environ, **environment}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings) as process:
        assert process.stderr is not None
        ports = []
        with in_time(process, "the lines with the ports of the server"):
            for pattern in (_SERVING, _ADMIN):
                while (found := pattern.search(line := process.stderr.readline())) is None:
                    assert line, process.wait()
                ports.append(int(found[1]))
        try:
            yield Server(directory, process, *ports)
        finally:
            process.terminate()
            with in_time(process, "the end of the server"):
                process.communicate()
