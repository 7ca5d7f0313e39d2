"""The destination of a result: stdout, or a file that is created atomically."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from deltacli.cli.terminal.pager import Screen


_OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/proc/")


def keep_heading(sink: BinaryIO, lines: int = 1) -> None:
    """Keep the heading of a table in view in a pager that supports it. Called before the heading is written."""
    if (keep := getattr(sink, "keep_heading", None)) is not None:
        keep(lines)


def errors_follow(sink: BinaryIO) -> bool:
    """Return whether stderr goes to where a result is written: the same terminal, pipe or file."""
    is_stdout = sink is getattr(sys.stdout, "buffer", None) or hasattr(sink, "keep_heading")
    try:
        return is_stdout and os.path.sameopenfile(1, 2)
    except OSError:
        return False


@contextlib.contextmanager
def open_sink(output: str | None, screen: Screen | None = None) -> Iterator[BinaryIO]:
    """Yield the stream for the result; `screen` is stdout where that is a terminal.

    A file is written under a temporary name, synced and renamed; on a fault it is removed. Links are followed.
    """
    if screen is not None:
        with screen:
            yield cast(BinaryIO, screen)  # results use only `write` of a stream's methods
        return
    if output is None or output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from deltacli.storage.replacement import replacement, unwritable

    try:
        if _is_written_in_place(output):
            with open(output, "wb") as sink:
                yield sink
            return
    except OSError as fault:
        raise unwritable(output, fault) from fault
    with replacement(output) as sink:
        yield sink


def _is_written_in_place(output: str) -> bool:
    """Return True for a pipe, a device, or another name of an open file, which must not be replaced."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(output).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return True
        return os.path.abspath(output).startswith(_OPEN_FILES)
    return False
