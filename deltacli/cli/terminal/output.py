"""The destination of a result: stdout, or a file outside of tables that is created atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from deltacli.cli.options.configuration import table_around
from deltacli.core.errors import UsageError

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
