"""Repair standard streams that are closed, unbuffered, or no longer readable at the other end."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def repair_standard_streams() -> None:
    """Open the null device for closed standard streams, and buffer stdout.

    A program may be started with closed descriptors, as in `deltacli history t >&-`. Without this function the first
    file that is opened gets the number of stdout, so the result would be written into a table. Writing to a closed
    stdout still fails, so that a lost result is an error. Output to a closed stderr is discarded.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            # The system assigns the lowest free number, which is this descriptor.
            os.open(os.devnull, flags)

    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    # `shutil.get_terminal_size` reads `sys.__stdout__`.
    sys.stdout = sys.__stdout__ = _add_buffer(sys.stdout)  # type: ignore[assignment,misc]


def _add_buffer(stream: TextIO) -> TextIO:
    """Return a stream whose writes are complete.

    With `python -u` stdout is unbuffered. A write to a raw stream may accept only a part of a block, without an error.
    """
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    encoding = stream.encoding
    errors = stream.errors
    raw_stream: io.RawIOBase = stream.detach()  # type: ignore[attr-defined]
    return io.TextIOWrapper(io.BufferedWriter(raw_stream), encoding=encoding, errors=errors)


def discard_output(stream: object, descriptor: int) -> None:
    """Redirect a stream to the null device, after its reader has exited.

    Python flushes stdout at exit. Without this function that would fail or hang.

    Args:
        stream: The stream, such as `sys.stdout`.
        descriptor: The number of the descriptor that the stream should have. A stream of a test has another number,
            or none, and is left alone.
    """
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return
    if number == descriptor:
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, descriptor)
        os.close(null_device)
