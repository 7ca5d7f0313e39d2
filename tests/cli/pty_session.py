"""The command line in a real terminal that a test reads, types into and interrupts; nothing here sleeps."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from tests.cli.support import ROOT, start_with

DEADLINE = 30.0
"""Seconds until a test that waits for something fails; nothing takes that long."""

_OWN_TERMINAL = 'exec 9<>"$0" 9>&- && exec "$@"'
"""For sh: the terminal that a session's first process opens is its own, so that Ctrl-C reaches it. No code of ours may
run between fork and exec: a lock of another thread would never be released there.
"""

_OURS = ("DELTACLI_", "LESS", "PAGER", "NO_COLOR", "COLUMNS", "LINES")


def read_some(descriptor: int) -> bytes:
    """Return what can be read there, b"" at the end. Fails at the deadline."""
    ready, _, _ = select.select([descriptor], [], [], DEADLINE)
    assert ready, "nothing came"
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux: the last process of the terminal is gone
        return b""


class Gate:
    """Where reads of a gated table wait (see tests/support/gated.py)."""

    def __init__(self, at: str) -> None:
        self._bell, self._ring = os.pipe()
        self._key, self._turn = os.pipe()
        self.passed = (self._ring, self._key)
        self.environment = {"GATE_AT": at, "GATE_BELL": str(self._ring), "GATE_KEY": str(self._key)}

    def wait_for(self, arrivals: int) -> None:
        """Return when so many reads have arrived."""
        while arrivals > 0:
            arrivals -= len(read_some(self._bell))

    def open(self, times: int = 1_000) -> None:
        """Let so many reads pass."""
        os.write(self._turn, b"." * times)

    def close(self) -> None:
        for descriptor in (self._bell, self._ring, self._key, self._turn):
            os.close(descriptor)


class Session:
    """A run with a terminal of its own as stdin, stdout and stderr, where not said otherwise."""

    def __init__(
        self,
        *arguments: str | Path,
        size: tuple[int, int] = (80, 24),
        gate: Gate | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        environment: Mapping[str, str] | None = None,
        is_fork: bool = True,
    ) -> None:
        """With `is_fork` the process may be one that waits for a fork, which gets no signals that are sent to it."""
        self._parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        settings = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        settings |= {
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm",
            **(environment or {}),
            **(gate.environment if gate else {}),
        }
        words = [sys.executable, "-m", "tests.support.gated" if gate else "deltacli"]
        if is_fork and not gate:
            words = start_with(settings)
        if "-m" in words:
            words = ["sh", "-c", _OWN_TERMINAL, os.ttyname(child), *words]
        else:
            settings["OWN_TERMINAL"] = ""
        self.process = subprocess.Popen(
            [*words, *map(str, arguments)],
            stdin=child if stdin is None else stdin,
            stdout=child if stdout is None else stdout,
            stderr=child if stderr is None else stderr,
            env=settings,
            pass_fds=gate.passed if gate else (),
            start_new_session=True,
        )
        os.close(child)
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        os.close(self._parent)

    def read_until(self, text: str) -> str:
        """Read the screen until it has shown a text; everything shown so far."""
        deadline = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            block = read_some(self._parent)
            assert block, f"the end came before {text!r}: {self.seen!r}"
            self.seen += self._decoder.decode(block)
        return self.seen

    def finish(self) -> tuple[int, str]:
        """Read to the end; the exit code and everything shown."""
        while block := read_some(self._parent):
            self.seen += self._decoder.decode(block)
        return self.process.wait(DEADLINE), self.seen.replace("\r\n", "\n")

    def type(self, keys: str) -> None:
        os.write(self._parent, keys.encode())

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


@contextlib.contextmanager
def gate(at: str) -> Iterator[Gate]:
    made = Gate(at)
    try:
        yield made
    finally:
        made.close()
