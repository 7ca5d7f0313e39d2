"""A local file that a result is written to, such as `--output report.json`."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from deltacli.core.errors import StorageFailed, quote_table
from deltacli.storage.local_write import replace_file
from deltacli.storage.locked_drafts import LockedDraft, remove_abandoned_drafts
from deltacli.storage.os_errors import translate_os_error

# How much of the name of the output is in the name of its draft, in bytes. A name has at most 255.
_PREFIX_BYTES = 100


@contextlib.contextmanager
def replacement(output: str) -> Iterator[BinaryIO]:
    """Yield a file beside `output`, which replaces it at the end and gets its mode. After an error it is removed.

    The target must be a regular file or missing, because anything else would be replaced by a regular file.

    Raises:
        StorageFailed: If the output cannot be written (`output.unwritable`).
    """
    target = os.path.realpath(output)
    directory, name = os.path.split(target)
    prefix = f".{_shorten(name)}."
    try:
        # A rename would replace a read-only file without a question.
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        draft = LockedDraft(directory, prefix)
    except OSError as error:
        raise unwritable(output, error) from error

    draft_path = Path(draft.local_path)
    try:
        remove_abandoned_drafts(directory, prefix, draft.changed_ns)
        with draft_path.open("wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        with contextlib.suppress(FileNotFoundError):
            draft_path.chmod(stat.S_IMODE(os.stat(target).st_mode))
        replace_file(draft.local_path, target)
    except OSError as error:
        raise unwritable(output, error) from error
    finally:
        draft.close()


def _shorten(name: str) -> str:
    """Return the beginning of a name, without half a character at its end."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _PREFIX_BYTES else encoded[:_PREFIX_BYTES].decode(errors="ignore")


def unwritable(output: str, error: OSError) -> StorageFailed:
    """Return the error for an output that cannot be written, with the reason of the system."""
    try:
        full_path = os.path.realpath(output)
    except ValueError:  # no file can have such a name
        full_path = output
    failure = translate_os_error(error, output, full_path, "written")
    failure.code = "output.unwritable"

    directory = os.path.dirname(output)
    if error.errno == errno.ENOENT and directory and not os.path.lexists(directory):
        failure.hint = f"mkdir -p {quote_table(directory)}"
    return failure
