"""Where a result goes: stdout, or a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
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

    A file is written beside its name, synced and renamed; on any fault nothing is left of it.
    """
    if screen is not None:
        with screen:
            yield cast(BinaryIO, screen)  # of a stream's methods, results use only `write`
        return
    if output is None or output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    import tempfile

    target = Path(output)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as fault:
        raise StorageFailed(
            f"{output} can't be written: {(fault.strerror or str(fault)).lower()}", code="output.unwritable"
        ) from fault
    leftovers.remember(Path(temporary))
    try:
        with os.fdopen(descriptor, "wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except OSError as fault:
        raise StorageFailed(
            f"{output} can't be written: {(fault.strerror or str(fault)).lower()}", code="output.unwritable"
        ) from fault
    finally:
        Path(temporary).unlink(missing_ok=True)
        leftovers.forget(Path(temporary))
