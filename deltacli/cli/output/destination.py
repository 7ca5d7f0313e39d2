"""Open the destination of a result: stdout, the pager of a terminal, or a file that is complete or absent."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import table_around
from deltacli.core.errors import UsageError

if TYPE_CHECKING:
    from deltacli.cli.terminal.pager import PagedStream

STDOUT = "-"
"""The name of stdout as a file."""

_NAMES_OF_OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/proc/")
_LOG_DIRECTORY = "_delta_log"


@contextlib.contextmanager
def open_destination(output: str | None, screen: PagedStream | None = None) -> Iterator[BinaryIO]:
    """Yield the stream for a result.

    A file is written under a temporary name, synced and renamed, so that it is complete or absent. Links are followed.

    Args:
        output: The value of `--output`; None or `-` for stdout.
        screen: Stdout, if that is a terminal.
    """
    if screen is not None:
        with screen:
            # A result uses `write` and `flush` of a stream only, which the screen has.
            yield cast(BinaryIO, screen)
        return
    if output is None or output == STDOUT:
        yield sys.stdout.buffer
        # A full disk is an error of the command; at the end of Python it would be a message only.
        sys.stdout.buffer.flush()
        return

    # Storage is needed for a file only; most results go to stdout.
    from deltacli.storage.output_file import open_replacement, unwritable_error

    try:
        if _must_be_written_in_place(output):
            with open(output, "wb") as sink:
                yield sink
            return
    except OSError as error:
        raise unwritable_error(output, error) from error
    # An interruption names the files that were written completely.
    invocation.writes(output)
    with open_replacement(output) as sink:
        yield sink


def _must_be_written_in_place(output: str) -> bool:
    """Return True for a pipe, a device, or another name of an open file, which a rename would replace."""
    try:
        mode = os.stat(output).st_mode
    except FileNotFoundError:
        return False
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return True
    return os.path.abspath(output).startswith(_NAMES_OF_OPEN_FILES)


def keep_heading(sink: BinaryIO, lines: int = 1) -> None:
    """Keep the heading of a table in view in a pager that supports it. Called before the heading is written."""
    keep = getattr(sink, "keep_heading", None)
    if keep is not None:
        keep(lines)


def is_followed_by_errors(sink: BinaryIO) -> bool:
    """Return True if stderr goes to where a result is written: the same terminal, pipe or file."""
    is_stdout = sink is getattr(sys.stdout, "buffer", None) or hasattr(sink, "keep_heading")
    try:
        return is_stdout and os.path.sameopenfile(1, 2)
    except OSError:
        return False


def is_stdout_free(output: str | None, *files: str | None) -> bool:
    """Return True unless the result would be mixed with another file of the command on stdout.

    Args:
        output: The value of `--output`.
        files: The values of options for other files, which may be `-`, too.
    """
    return output not in (None, STDOUT) or STDOUT not in files


def require_file_outside_tables(output: str, option: str) -> None:
    """Raise UsageError for a file inside a table, where any name may be that of a data file."""
    if not output:
        raise UsageError(f"{option} is empty")
    if output == STDOUT:
        return
    # A link may lead into a table, so the real path counts.
    directory = os.path.dirname(os.path.realpath(output))
    if _LOG_DIRECTORY in directory.split(os.sep):
        raise UsageError(f"{option} {output} is inside the log of a table, which the output would damage")
    table = table_around(output)
    if table is not None:
        raise UsageError(
            f"{option} {output} is inside a table, where the output would be mixed with or replace data files",
            facts={"table": table},
            hint=f"pass a file outside the table to {option}",
        )


def find_output_directory(output: str | None) -> str | None:
    """Return the directory of Parquet files that `--output` names (existing, `…/`, or a URI); None for a file."""
    if not output or output == STDOUT:
        return None
    is_directory = _is_uri(output) or output.endswith("/") or os.path.isdir(output)
    return output if is_directory else None


def require_output_directory(directory: str) -> None:
    """Raise UsageError for an output directory inside a table, StorageFailed if its parent does not exist."""
    if _is_uri(directory):
        return  # the operation checks it, which opens its storage
    path = directory.rstrip("/") or "/"
    require_file_outside_tables(path, "--output")
    require_parent_directory(path)


def require_parent_directory(output: str) -> None:
    """Raise StorageFailed if the directory of a file does not exist."""
    if output == STDOUT or os.path.isdir(os.path.dirname(os.path.realpath(output))):
        return
    from deltacli.storage.output_file import unwritable_error

    raise unwritable_error(output, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def _is_uri(output: str) -> bool:
    return "://" in output or output[:5].lower() == "file:"
