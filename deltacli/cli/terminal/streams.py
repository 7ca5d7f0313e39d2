"""Standard streams that are closed (`>&-`) or unbuffered (`python -u`): replaced before any file is opened."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def mend_standard_streams() -> None:
    """Open the null device for closed descriptors 0 to 2, so that no table file gets their number, and buffer stdout.

    A closed stdout still fails on writes, so that a lost result is an error. A closed stderr discards its output.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = _buffered(sys.stdout)  # type: ignore[assignment,misc]  # the width is asked of the second


def _buffered(stream: TextIO) -> TextIO:
    """Return a stream whose writes are complete. An unbuffered one may take a part of a block without an error: when a
    signal arrives, or the reader of the pipe leaves.
    """
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    encoding, errors = stream.encoding, stream.errors
    return io.TextIOWrapper(io.BufferedWriter(stream.detach()), encoding=encoding, errors=errors)  # type: ignore[attr-defined]


def give_up(stream: object, descriptor: int) -> None:
    """Redirect a stream that cannot be written any more, so that flushing it at exit neither fails nor hangs."""
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return  # a test's stream, which is not flushed at exit
    if number == descriptor:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
