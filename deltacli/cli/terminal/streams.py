"""Standard streams that are closed (`>&-`) or unbuffered (`python -u`): repaired before anything else opens a file."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def mend_standard_streams() -> None:
    """Occupy descriptors 0 to 2 where they are closed, so that no table file gets their number, and buffer stdout.

    A closed stdout stays one that can't be written: a result for it is an error, not lost in silence. A closed stderr
    swallows.
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
    """Point a stream that can't be written any more at nothing, so that flushing it at exit neither fails nor hangs."""
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return  # a stream of a test: nothing is flushed at exit
    if number == descriptor:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
