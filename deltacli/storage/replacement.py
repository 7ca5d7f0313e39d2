"""A local file that a result is written to, which is created or replaced atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from deltacli.core.errors import StorageFailed
from deltacli.core.hints import quoted_table

_PREFIX_BYTES = 100


@contextlib.contextmanager
def replacement(output: str) -> Iterator[BinaryIO]:
    """Yield a file next to the target of `output`, which replaces it at the end and gets its mode.

    On a fault it is removed. Raises StorageFailed (`output.unwritable`). The target must be a regular file or missing,
    because anything else would be replaced by a regular file.
    """
    from deltacli.storage.drafts import LockedDraft, sweep

    target = os.path.realpath(output)
    directory, name = os.path.split(target)
    prefix = _draft_prefix(name)
    try:
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        draft = LockedDraft(directory, prefix)
    except OSError as fault:
        raise unwritable(output, fault) from fault
    temporary = Path(draft.place)
    try:
        sweep(directory, prefix, draft.changed_ns)
        with temporary.open("wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(os.stat(target).st_mode))
        temporary.replace(target)
    except OSError as fault:
        raise unwritable(output, fault) from fault
    finally:
        draft.close()


def _draft_prefix(name: str) -> str:
    """Return the start of the names of drafts, at most 102 bytes long: file systems limit a name to 255 bytes."""
    encoded = os.fsencode(name)
    kept = name if len(encoded) <= _PREFIX_BYTES else encoded[:_PREFIX_BYTES].decode(errors="ignore")
    return f".{kept}."


def unwritable(output: str, fault: OSError) -> StorageFailed:
    """Return the error for a file that cannot be written, with the reason of the system."""
    from deltacli.storage.disk_faults import disk_fault

    try:
        place = os.path.realpath(output)
    except ValueError:  # no file can have such a name
        place = output
    error = disk_fault(fault, output, place, "written")
    error.code = "output.unwritable"
    above = os.path.dirname(output)
    if fault.errno == errno.ENOENT and above and not os.path.lexists(above):
        error.hint = f"mkdir -p {quoted_table(above)}"
    return error
