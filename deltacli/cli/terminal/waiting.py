"""Waiting for a terminal or a pager without losing a signal.

Python only marks a signal; its handler runs between two instructions of the interpreter. A signal that arrives just
before a blocking system call would wait for that call to return. Here the call is always `select`, on the descriptor
and on a pipe that every signal writes to, so a signal at any moment ends the wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_BLOCK = 4096
"""Bytes per read: the longest line that a terminal delivers at once."""


def read_line(descriptor: int) -> bytes:
    """Return the input up to the end of the line, b"" at the end of the input."""
    line = b""
    with _woken_by_signals() as woken:
        while not line.endswith(b"\n"):
            _wait(woken, reads=[descriptor])
            block = os.read(descriptor, _BLOCK)
            if not block:
                break
            line += block
    return line


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a pipe, however slowly it is read. Raises BrokenPipeError."""
    rest = memoryview(data)
    with _woken_by_signals() as woken:
        os.set_blocking(descriptor, False)  # a ready pipe accepts less than a large block
        try:
            while rest:
                _wait(woken, writes=[descriptor])
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(descriptor, rest) :]
        finally:
            os.set_blocking(descriptor, True)


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process ends and return its exit code."""
    with _woken_by_signals(signal.SIGCHLD) as woken:
        if woken is None:
            return process.wait()
        while (code := process.poll()) is None:
            _wait(woken)
        return code


def _wait(woken: int | None, *, reads: list[int] | None = None, writes: list[int] | None = None) -> None:
    """Return when a descriptor is ready. Signal handlers run here and may raise."""
    readable, writable = reads or [], writes or []
    watched = readable if woken is None else [*readable, woken]
    ready, _, _ = select.select(watched, writable, [])
    while woken is not None and ready == [woken]:
        os.read(woken, _BLOCK)
        if not readable and not writable:
            return
        ready, _, _ = select.select(watched, writable, [])


@contextlib.contextmanager
def _woken_by_signals(*also: signal.Signals) -> Iterator[int | None]:
    """Yield the end of a pipe that becomes readable with each signal; `also` are signals without a handler so far.

    None outside the main thread, where no signal is handled.
    """
    end, start = os.pipe()
    os.set_blocking(end, False)
    os.set_blocking(start, False)
    try:
        try:
            before = signal.set_wakeup_fd(start, warn_on_full_buffer=False)
        except ValueError:  # not the main thread
            yield None
            return
        handlers = {number: signal.signal(number, lambda *_: None) for number in also}
        try:
            yield end
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            signal.set_wakeup_fd(before)
    finally:
        os.close(end)
        os.close(start)
