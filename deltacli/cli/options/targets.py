"""Checks of the file that a result is written to: outside of tables, in an existing directory."""

from __future__ import annotations

import errno
import os

from deltacli.cli.options.configuration import table_around
from deltacli.errors import UsageError


def require_target(output: str, option: str) -> None:
    """Raise UsageError for a file inside a table, where any name may be that of a data file."""
    if not output:
        raise UsageError(f"{option} is empty")
    if output == "-":
        return
    directory = os.path.dirname(os.path.realpath(output))
    if "_delta_log" in directory.split(os.sep):
        raise UsageError(f"{option} {output} is inside the log of a table, which the output would damage")
    if (table := table_around(output)) is None:
        return
    raise UsageError(
        f"{option} {output} is inside a table, where the output would be mixed with or replace data files",
        facts={"table": table},
        hint=f"pass a file outside the table to {option}",
    )


def has_stdout(output: str | None, *files: str | None) -> bool:
    """Return True if the result is written to stdout or to a file of its own: not if one of the other files of a
    command is stdout, with which it would be mixed.
    """
    return output not in (None, "-") or "-" not in files


def directory_of(output: str | None) -> str | None:
    """Return the directory of Parquet files that `--output` names: an existing one, one with a slash at the end, or a
    URI; None for a file.
    """
    if not output or output == "-":
        return None
    is_uri = "://" in output or output[:5].lower() == "file:"
    return output if is_uri or output.endswith("/") or os.path.isdir(output) else None


def require_empty_target(directory: str) -> None:
    """Raise UsageError for an output directory inside a table, StorageFailed where its parent does not exist."""
    if "://" in directory or directory[:5].lower() == "file:":
        return  # the operation checks it
    require_target(directory.rstrip("/") or "/", "--output")
    require_directory(directory.rstrip("/") or "/")


def require_directory(output: str) -> None:
    """Raise StorageFailed where the directory for a result does not exist, before the command changes anything."""
    if output != "-" and not os.path.isdir(os.path.dirname(os.path.realpath(output))):
        from deltacli.storage.replacement import unwritable

        raise unwritable(output, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
