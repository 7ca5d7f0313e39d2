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

from deltacli.errors import DeltacliError, StorageFailed
from deltacli.hints import Spelling, parameter, spelled, spelling
from deltacli.sharing.server.logs import NAME, log_to_stderr
from deltacli.sharing.server.serving import SHUTDOWN_SECONDS, Service, Sockets, run_service

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

_log = logging.getLogger(NAME)
_SOON_SECONDS = 5.0
_MOST_SOON = 5
"""So many processes may end right after their start before the server gives up, unless one of them is at work."""
_LONGEST_PAUSE = 60.0

METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""Names the directory in which all processes count."""

MakeService = Callable[[], Service]
"""Makes the service in the process that runs it; it is sent there, so it has to be picklable."""


@dataclass(frozen=True)
class LogChoice:
    """How the log is written: `level` is one of `logging`."""

    as_json: bool = False
    level: int = logging.INFO


def serve(make: MakeService, sockets: Sockets, log: LogChoice) -> None:
    """Answer requests in this process until a signal."""
    log_to_stderr(as_json=log.as_json, level=log.level)
    run_service(make(), sockets)


def serve_by_workers(following: Callable[[], MakeService], sockets: Sockets, workers: int, log: LogChoice) -> None:
    """Answer requests in several other processes until a signal. `following` returns the service of the next one.
    Raises StorageFailed where none can start.
    """
    log_to_stderr(as_json=log.as_json, level=log.level)
    with tempfile.TemporaryDirectory(prefix="deltacli-share-") as metrics:
        os.environ[METRICS] = metrics  # workers inherit it
        pool = _Workers(following, sockets, workers, log)
        hang_up = signal.signal(signal.SIGHUP, lambda *_: _signal(pool.running, signal.SIGHUP))
        try:
            pool.run()
        finally:
            pool.end()
            signal.signal(signal.SIGHUP, hang_up)
            del os.environ[METRICS]


def _begin(chosen: Spelling, make: MakeService, sockets: Sockets, log: LogChoice) -> None:
    with spelled(chosen):
        _work(make, sockets, log)


def _work(make: MakeService, sockets: Sockets, log: LogChoice) -> None:
    """Run one worker. A signal during startup ends the process immediately; later, the server shuts down cleanly."""
    is_serving = False

    async def begin() -> None:
        nonlocal is_serving
        is_serving = True  # by now the server handles signals; after its shutdown it raises them again

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: None if is_serving else os._exit(128 + number))
    log_to_stderr(as_json=log.as_json, level=log.level)
    try:
        service = make()
        run_service(replace(service, background=(*service.background, begin)), sockets)
    except DeltacliError as fault:
        _log.error("the worker cannot start: %s", fault)
        raise SystemExit(fault.exit_code) from None


@dataclass
class _Workers:
    """The running processes."""

    following: Callable[[], MakeService]
    sockets: Sockets
    count: int
    log: LogChoice
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[list[int], float | None], Sequence[object]] = wait
    running: list[SpawnProcess] = field(default_factory=list)
    began: dict[int, float] = field(default_factory=dict)
    ended_soon: int = 0
    next_start: float = 0.0

    def run(self) -> None:
        """Start the processes and replace those that end: the next one later, where one ended as soon as it started."""
        while True:
            now = self.clock()
            while len(self.running) < self.count and now >= self.next_start:
                self._start()
            pause = None if len(self.running) == self.count else max(self.next_start - now, 0.0)
            for sentinel in self.wait([process.sentinel for process in self.running], pause):
                process = next(found for found in self.running if found.sentinel == sentinel)
                process.join()
                self.running.remove(process)
                self._count_end(process, self.clock() - self.began.pop(process.sentinel))

    def _start(self) -> SpawnProcess:
        process = get_context("spawn").Process(
            target=_begin, args=(spelling(), self.following(), self.sockets, self.log)
        )
        process.start()
        self.running.append(process)
        self.began[process.sentinel] = self.clock()
        return process

    def _count_end(self, process: SpawnProcess, seconds: float) -> None:
        """Log the end of a process. Raises StorageFailed where they end as soon as they start, and none is at work."""
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(process.pid, os.environ[METRICS])  # type: ignore[no-untyped-call]  # its cache, its requests
        self.ended_soon = self.ended_soon + 1 if seconds < _SOON_SECONDS else 0
        pause = min(2.0 ** (self.ended_soon - 1), _LONGEST_PAUSE) if self.ended_soon else 0.0
        now = self.clock()
        self.next_start = now + pause
        when = f"in {pause:.0f} s" if pause else "now"
        _log.error("worker %s ended with %s; another one is started %s", process.pid, process.exitcode, when)
        is_at_work = any(now - begun >= _SOON_SECONDS for begun in self.began.values())
        if self.ended_soon > _MOST_SOON and not is_at_work:
            raise StorageFailed(
                "the workers of the server end as soon as they start",
                code="share.workers",
                facts={"exit code": str(process.exitcode)},
                hint=f"start it with {parameter('share serve.workers', 1)} to see why",
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
