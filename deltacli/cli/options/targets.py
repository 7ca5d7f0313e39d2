"""Where a result may be written: not into a table, and only where there is a directory for it."""

from __future__ import annotations

import errno
import os

from deltacli.cli.options.configuration import table_around
from deltacli.errors import UsageError


def require_target(output: str, option: str) -> None:
    """Raise UsageError where a result must not be written: in a table any name may be that of a data file."""
    if not output:
        raise UsageError(f"{option} is an empty name")
    if output == "-":
        return
    directory = os.path.dirname(os.path.realpath(output))
    if "_delta_log" in directory.split(os.sep):
        raise UsageError(f"{option} {output} is inside the log of a table, which a result would damage")
    if (table := table_around(output)) is None:
        return
    raise UsageError(
        f"{option} {output} is inside a table, whose files a result would mix with or replace",
        facts={"table": table},
        hint=f"name a file outside of the table after {option}",
    )


def require_directory(output: str) -> None:
    """Raise StorageFailed where there is no directory for a result, before anything is done that it would tell of."""
    if output != "-" and not os.path.isdir(os.path.dirname(os.path.realpath(output))):
        from deltacli.storage.replacement import unwritable

        raise unwritable(output, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
