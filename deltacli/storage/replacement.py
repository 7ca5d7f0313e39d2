"""A local file that a result is written to: it appears whole or not at all, in place of what was there."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from deltacli import leftovers
from deltacli.errors import StorageFailed


@contextlib.contextmanager
def replacement(output: str) -> Iterator[BinaryIO]:
    """Yield a file beside the one that `output` leads to, which takes its place, and its mode, at the end.

    On any fault nothing is left of it. Raises StorageFailed (`output.unwritable`). What is no regular file must not
    come here: it would be replaced by one.
    """
    from uuid import uuid4

    target = os.path.realpath(output)
    directory, name = os.path.split(target)
    temporary = Path(directory, f".{name[:100]}.{uuid4().hex}.tmp")
    try:
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as fault:
        raise unwritable(output, fault) from fault
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
        raise unwritable(output, fault) from fault
    finally:
        temporary.unlink(missing_ok=True)
        leftovers.forget(temporary)


def unwritable(output: str, fault: OSError) -> StorageFailed:
    """The error of a file that can't be written, in the words of the system."""
    return StorageFailed(
        f"{output} can't be written: {(fault.strerror or str(fault)).lower()}", code="output.unwritable"
    )
