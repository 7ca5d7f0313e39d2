"""Several processes that answer at one address. One that ends is replaced; a signal ends all after their answers.

Each process has a cache of its own. They share the socket and the key, so a URL or a token of one is good for all.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from deltacli.errors import StorageFailed
from deltacli.sharing.server.logs import NAME, log_to_stderr
from deltacli.sharing.server.serving import SHUTDOWN_SECONDS, Service, Sockets, run_service

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

_log = logging.getLogger(NAME)
_SOON_SECONDS = 5.0
_MOST_SOON = 5
"""So many processes may end right after their start before the server gives up."""

METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""Names the directory in which all processes count."""

MakeService = Callable[[], Service]
"""Makes the service in the process that runs it; it is sent there, so it has to be picklable."""


@dataclass(frozen=True)
class LogChoice:
    """How the log is written: `level` is one of `logging`."""

    as_json: bool = False
    level: int = logging.INFO


def serve(make: MakeService, sockets: Sockets, workers: int, log: LogChoice) -> None:
    """Answer requests, in this process or in several others, until a signal. Raises StorageFailed where they cannot
    start.
    """
    log_to_stderr(as_json=log.as_json, level=log.level)
    if workers == 1:
        run_service(make(), sockets)
        return
    with tempfile.TemporaryDirectory(prefix="deltacli-share-") as metrics:
        os.environ[METRICS] = metrics  # workers inherit it
        pool = _Workers(make, sockets, workers, log)
        hang_up = signal.signal(signal.SIGHUP, lambda *_: _signal(pool.running, signal.SIGHUP))
        try:
            pool.run()
        finally:
            pool.end()
            signal.signal(signal.SIGHUP, hang_up)
            del os.environ[METRICS]


def _work(make: MakeService, sockets: Sockets, log: LogChoice) -> None:
    """Run one worker. A signal during startup ends the process immediately; later, the server shuts down cleanly."""
    is_serving = False

    async def begin() -> None:
        nonlocal is_serving
        is_serving = True  # by now the server handles signals; after its shutdown it raises them again

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: None if is_serving else os._exit(128 + number))
    log_to_stderr(as_json=log.as_json, level=log.level)
    service = make()
    run_service(replace(service, background=(*service.background, begin)), sockets)


@dataclass
class _Workers:
    """The running processes."""

    make: MakeService
    sockets: Sockets
    count: int
    log: LogChoice
    running: list[SpawnProcess] = field(default_factory=list)
    ended_soon: int = 0

    def run(self) -> None:
        """Start the processes and replace those that end."""
        began = {self._start().sentinel: time.monotonic() for _ in range(self.count)}
        while True:
            for sentinel in wait(list(began)):
                process = next(found for found in self.running if found.sentinel == sentinel)
                process.join()
                self.running.remove(process)
                self._count_end(process, time.monotonic() - began.pop(process.sentinel))
                began[self._start().sentinel] = time.monotonic()

    def _start(self) -> SpawnProcess:
        process = get_context("spawn").Process(target=_work, args=(self.make, self.sockets, self.log))
        process.start()
        self.running.append(process)
        return process

    def _count_end(self, process: SpawnProcess, seconds: float) -> None:
        """Log the end of a process. Raises StorageFailed where they end as soon as they start."""
        from prometheus_client.multiprocess import mark_process_dead

        _log.error("worker %s ended with %s; another one is started", process.pid, process.exitcode)
        mark_process_dead(process.pid, os.environ[METRICS])  # type: ignore[no-untyped-call]  # its cache, its requests
        self.ended_soon = self.ended_soon + 1 if seconds < _SOON_SECONDS else 0
        if self.ended_soon > _MOST_SOON:
            raise StorageFailed(
                "the workers of the server end as soon as they start",
                code="share.workers",
                facts={"exit code": str(process.exitcode)},
                hint="start it with --workers 1 to see why",
            )

    def end(self) -> None:
        """Let the processes finish their answers, and end those that take too long."""
        _signal(self.running, signal.SIGTERM)
        deadline = time.monotonic() + SHUTDOWN_SECONDS + 5
        for process in self.running:
            process.join(max(0.0, deadline - time.monotonic()))
        _signal(self.running, signal.SIGKILL)


def _signal(processes: Sequence[SpawnProcess], number: int) -> None:
    for process in processes:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)
