"""Where a result goes: stdout, or a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from deltacli.errors import StorageFailed


@contextlib.contextmanager
def open_sink(output: str | None) -> Iterator[BinaryIO]:
    """Yield the stream for the result.

    A file is written beside its name, synced and renamed; on any fault nothing is left of it.
    """
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
