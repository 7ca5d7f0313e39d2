"""Where a result goes: stdout, or a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from deltacli import leftovers
from deltacli.errors import StorageFailed

if TYPE_CHECKING:
    from deltacli.cli.pager import Screen


class PagerQuitError(Exception):
    """The user has seen enough and left the pager: the run ends, and all is well."""


@contextlib.contextmanager
def open_sink(output: str | None, screen: Screen | None = None) -> Iterator[BinaryIO]:
    """Yield the stream for the result; `screen` is stdout where that is a terminal.

    A file is written beside its name, synced and renamed; on any fault nothing is left of it. Links are followed.
    """
    if screen is not None:
        with screen:
            yield cast(BinaryIO, screen)  # of a stream's methods, results use only `write`
        return
    if output is None or output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if _is_written_in_place(output):
            with open(output, "wb") as sink:
                yield sink
            return
    except OSError as fault:
        raise _unwritable(output, fault) from fault
    with _replacement(output, os.path.realpath(output)) as sink:
        yield sink


def _is_written_in_place(output: str) -> bool:
    """True for a pipe, a device, or another name of an open file: replacing it would take it from its users."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(output).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or os.path.abspath(output).startswith(("/dev/", "/proc/"))
    return False


@contextlib.contextmanager
def _replacement(output: str, target: str) -> Iterator[BinaryIO]:
    """Yield a file beside the target that takes its place, and its mode, at the end."""
    from uuid import uuid4

    directory, name = os.path.split(target)
    temporary = Path(directory, f".{name[:100]}.{uuid4().hex}.tmp")
    try:
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as fault:
        raise _unwritable(output, fault) from fault
    leftovers.remember(temporary)
    try:
        with os.fdopen(descriptor, "wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(os.stat(target).st_mode))
        temporary.replace(target)
    except OSError as fault:
        raise _unwritable(output, fault) from fault
    finally:
        temporary.unlink(missing_ok=True)
        leftovers.forget(temporary)


def _unwritable(output: str, fault: OSError) -> StorageFailed:
    return StorageFailed(
        f"{output} can't be written: {(fault.strerror or str(fault)).lower()}", code="output.unwritable"
    )
