"""Write the result of a command to a local file, such as `--output report.json`.

The file is replaced atomically: readers see the old or the new content, and after an error the old
file is unchanged.
"""

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

# The name of the draft begins with the name of the output, cut off here. File systems allow 255
# bytes.
_MAX_PREFIX_BYTES = 100


@contextlib.contextmanager
def open_replacement(output: str) -> Iterator[BinaryIO]:
    """Open a temporary file for writing, which replaces a file at the end of the block.

    The new file has the permissions of the old one. If the block raises an error, the temporary file
    is removed.

    Args:
        output: The path of the file to replace. It must be a regular file, or not exist: a device or
            pipe would be replaced by a regular file.

    Raises:
        StorageFailed: If the output cannot be written (`output.unwritable`).
    """
    target = os.path.realpath(output)
    directory, name = os.path.split(target)
    prefix = f".{_shorten_name(name)}."
    try:
        # Renaming a file over a read-only file would succeed.
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        draft = LockedDraft(directory, prefix)
    except OSError as error:
        raise unwritable_error(output, error) from error

    draft_path = Path(draft.local_path)
    try:
        remove_abandoned_drafts(directory, prefix, draft.changed_ns)
        with draft_path.open("wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())

        # A new file has no old permissions to preserve.
        with contextlib.suppress(FileNotFoundError):
            draft_path.chmod(stat.S_IMODE(os.stat(target).st_mode))
        replace_file(draft.local_path, target)
    except OSError as error:
        raise unwritable_error(output, error) from error
    finally:
        draft.close()


def _shorten_name(name: str) -> str:
    """Return the first bytes of a file name. No character is cut in half."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _MAX_PREFIX_BYTES else encoded[:_MAX_PREFIX_BYTES].decode(errors="ignore")


def unwritable_error(output: str, error: OSError) -> StorageFailed:
    """Return the error for an output file that cannot be written.

    Args:
        output: The path of the file.
        error: The error of the system.
    """
    try:
        full_path = os.path.realpath(output)
    except ValueError:
        # The path contains NUL, so no such file can exist.
        full_path = output
    failure = translate_os_error(error, output, full_path, "written")
    failure.code = "output.unwritable"

    directory = os.path.dirname(output)
    if error.errno == errno.ENOENT and directory and not os.path.lexists(directory):
        failure.hint = f"mkdir -p {quote_table(directory)}"
    return failure
