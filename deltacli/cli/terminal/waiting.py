"""Wait for a terminal, a pipe or a child process such that signals always end the wait.

When a signal arrives, Python only sets a flag, and runs the handler before the next instruction. If the signal
arrives between that check and a blocking `read`, the handler runs only after `read` returns: Ctrl-C has no effect.

So the functions of this module block in `select` only. It waits for the file descriptor and for a pipe to which
Python writes a byte per signal (`signal.set_wakeup_fd`), so that a signal always ends the wait.
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
"""Bytes per read. Terminals deliver lines of at most 4,096 bytes."""


def read_line(descriptor: int) -> bytes:
    """Read a line from a file descriptor.

    Returns:
        The line with its line end. At the end of the input, the line may have no line end, or may be empty.
    """
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
    """Write all bytes to a pipe, even if the other process reads slowly.

    Raises:
        BrokenPipeError: If the other process has closed the pipe.
    """
    remaining = memoryview(data)
    with _signal_pipe() as wakeup:
        # A blocking write of more bytes than fit into the pipe would wait, and could not be interrupted.
        os.set_blocking(descriptor, False)
        try:
            while remaining:
                _wait(wakeup, writes=[descriptor])
                with contextlib.suppress(BlockingIOError):
                    remaining = remaining[os.write(descriptor, remaining) :]
        finally:
            os.set_blocking(descriptor, True)


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait until a child process ends, and return its exit code."""
    with _signal_pipe(signal.SIGCHLD) as wakeup:
        if wakeup is None:
            return process.wait()
        while (code := process.poll()) is None:
            _wait(wakeup)
        return code


def _wait(wakeup: int | None, *, reads: list[int] | None = None, writes: list[int] | None = None) -> None:
    """Wait until a file descriptor is ready. Without descriptors, wait for a signal.

    Signal handlers run during the wait, and may raise exceptions.

    Args:
        wakeup: The reading end of the pipe from `_signal_pipe`; None in other threads than the main thread.
        reads: Descriptors to read from.
        writes: Descriptors to write to.
    """
    reads = reads or []
    writes = writes or []
    watched = reads if wakeup is None else [*reads, wakeup]
    ready, _, _ = select.select(watched, writes, [])

    # If only a signal arrived, its handler has run and did not raise. Continue to wait.
    while wakeup is not None and ready == [wakeup]:
        os.read(wakeup, _BLOCK)
        if not reads and not writes:
            return
        ready, _, _ = select.select(watched, writes, [])


@contextlib.contextmanager
def _signal_pipe(*additional: signal.Signals) -> Iterator[int | None]:
    """Create a pipe that becomes readable when a signal arrives.

    Args:
        additional: Signals without a handler, such as SIGCHLD, that shall end a wait, too. Python writes to the pipe
            only if a signal has a handler, so an empty handler is installed for each of them.

    Yields:
        The reading end of the pipe; None in other threads than the main thread, which receive no signals.
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
