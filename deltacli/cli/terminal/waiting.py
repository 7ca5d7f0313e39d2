"""Wait for a terminal, a pipe or a process without missing a signal.

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
    with _signal_pipe() as wakeup:
        while not line.endswith(b"\n"):
            _wait(wakeup, reads=[descriptor])
            block = os.read(descriptor, _BLOCK)
            if not block:
                break
            line += block
    return line


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a pipe, however slowly it is read. Raises BrokenPipeError."""
    remaining = memoryview(data)
    with _signal_pipe() as wakeup:
        # A pipe that is ready may accept less than a large block, and a blocking write would wait for the rest.
        os.set_blocking(descriptor, False)
        try:
            while remaining:
                _wait(wakeup, writes=[descriptor])
                with contextlib.suppress(BlockingIOError):
                    remaining = remaining[os.write(descriptor, remaining) :]
        finally:
            os.set_blocking(descriptor, True)


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process ends and return its exit code."""
    with _signal_pipe(signal.SIGCHLD) as wakeup:
        if wakeup is None:
            return process.wait()
        while (code := process.poll()) is None:
            _wait(wakeup)
        return code


def _wait(wakeup: int | None, *, reads: list[int] | None = None, writes: list[int] | None = None) -> None:
    """Return when a descriptor is ready. Signal handlers run here and may raise.

    Args:
        wakeup: The pipe that signals write to; None outside the main thread.
        reads: Descriptors from which something is to be read.
        writes: Descriptors to which something is to be written. Without any descriptor, a signal ends the wait.
    """
    readable = reads or []
    writable = writes or []
    watched = readable if wakeup is None else [*readable, wakeup]
    ready, _, _ = select.select(watched, writable, [])
    while wakeup is not None and ready == [wakeup]:
        os.read(wakeup, _BLOCK)
        if not readable and not writable:
            return
        ready, _, _ = select.select(watched, writable, [])


@contextlib.contextmanager
def _signal_pipe(*additional: signal.Signals) -> Iterator[int | None]:
    """Yield the end of a pipe that becomes readable with each signal; None outside the main thread.

    Args:
        additional: Signals that have no handler in this process, such as SIGCHLD. Python writes to the pipe only for
            signals with a handler, so each gets one that does nothing.
    """
    reading_end, writing_end = os.pipe()
    os.set_blocking(reading_end, False)
    os.set_blocking(writing_end, False)
    try:
        try:
            previous = signal.set_wakeup_fd(writing_end, warn_on_full_buffer=False)
        except ValueError:  # not the main thread
            yield None
            return
        handlers = {number: signal.signal(number, lambda *_: None) for number in additional}
        try:
            yield reading_end
        finally:
            for number, handler in handlers.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            signal.set_wakeup_fd(previous)
    finally:
        os.close(reading_end)
        os.close(writing_end)
