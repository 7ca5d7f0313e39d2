"""Several processes that answer on one socket: they share keys, the audit log and metrics, and one that dies is
replaced.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from deltacli.clock import system_clock
from deltacli.sharing.server.launching import Sockets
from deltacli.sharing.signing.keys import ServerKeys

SOCKETS = "DELTACLI_SHARE_SOCKETS"
"""Set for workers: the descriptors of the sockets."""

KEY_FILE = "DELTACLI_SHARE_KEY_FILE"
"""Set for workers where the configuration names no key file."""

_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_QUICK_SECONDS = 1.0
"""A worker that lives shorter than this is replaced only after a pause."""


@dataclass
class Workers:
    """The processes. `command` starts a worker, which finds the sockets in its environment."""

    count: int
    command: Sequence[str]
    sockets: Sockets
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep
    _running: dict[int, float] = field(default_factory=dict, init=False)
    _is_ending: bool = field(default=False, init=False)

    def run(self) -> None:
        """Run workers until a signal, then wait until they have finished their answers."""
        handlers = {number: signal.signal(number, self._pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._pass_on)
        try:
            with _shared_files() as environment:
                for _ in range(self.count):
                    self._start(environment)
                self._replace(environment)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._end()

    def _start(self, environment: Mapping[str, str]) -> None:
        """Start a worker, in a process group of its own: Ctrl-C reaches this process, which passes it on once."""
        descriptors = [bound.fileno() for bound in (self.sockets.main, self.sockets.admin) if bound is not None]
        settings = {**environment, SOCKETS: ",".join(map(str, descriptors))}
        process = subprocess.Popen(self.command, env={**os.environ, **settings}, pass_fds=descriptors, process_group=0)
        self._running[process.pid] = time.monotonic()

    def _replace(self, environment: Mapping[str, str]) -> None:
        """Wait for the end of workers, and replace them until the server ends."""
        while self._running:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            began = self._running.pop(pid, None)
            if began is None or self._is_ending:
                continue
            self.say(f"worker {pid} ended with {os.waitstatus_to_exitcode(status)}; another one replaces it")
            if time.monotonic() - began < _QUICK_SECONDS:
                self.pause(_QUICK_SECONDS)
            if not self._is_ending:
                self._start(environment)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """Send a signal to all workers; any but SIGHUP ends the server."""
        self._is_ending = self._is_ending or number != signal.SIGHUP
        for pid in list(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if number == signal.SIGINT else number)

    def _end(self) -> None:
        """End the workers that are left, after a fault of this process only."""
        for pid in list(self._running):
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)


@contextlib.contextmanager
def _shared_files() -> Iterator[dict[str, str]]:
    """Yield the environment of workers: a key that all of them have, and a directory for their metrics."""
    with tempfile.TemporaryDirectory(prefix="deltacli-share-") as place:
        key_file = Path(place) / f"key-{secrets.token_hex(4)}"
        ServerKeys.read_or_create(key_file, now_ms=system_clock())
        metrics = Path(place) / "metrics"
        metrics.mkdir()
        yield {KEY_FILE: str(key_file), _METRICS: str(metrics)}
