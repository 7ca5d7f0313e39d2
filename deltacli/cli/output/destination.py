"""Open the destination of a result: stdout, the pager, or the file of `--output`.

A file is written under a temporary name and renamed at the end. So it is complete, or it does not exist. Files inside a
table are refused, because they could replace its data files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import find_enclosing_table
from deltacli.core.errors import UsageError

if TYPE_CHECKING:
    from deltacli.cli.terminal.pager import PagedStream

STDOUT = "-"
"""The value of `--output` for stdout."""

_DESCRIPTOR_PATHS = ("/dev/fd/", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/proc/")
"""Beginnings of paths that refer to open file descriptors."""
_LOG_DIRECTORY = "_delta_log"


@contextlib.contextmanager
def open_destination(output: str | None, screen: PagedStream | None = None) -> Iterator[BinaryIO]:
    """Open the stream for a result.

    A file is written under a temporary name, synced and renamed. If its path is a symbolic link, the target of the link
    is replaced.

    Args:
        output: The value of `--output`; None or `-` for stdout.
        screen: The stream to the terminal or pager, if stdout is a terminal.

    Raises:
        StorageFailed: If the file cannot be written.
    """
    if screen is not None:
        with screen:
            # Formats call only `write` and `flush`, which `PagedStream` implements.
            yield cast(BinaryIO, screen)
        return
    if output is None or output == STDOUT:
        yield sys.stdout.buffer
        # Flush now, so that a full disk is an error of the command. Python only prints a warning when it flushes at
        # exit.
        sys.stdout.buffer.flush()
        return

    # Only files need this import. Most results are written to stdout.
    from deltacli.storage.output_file import open_replacement, unwritable_error

    try:
        if _must_be_written_in_place(output):
            with open(output, "wb") as sink:
                yield sink
            return
    except OSError as error:
        raise unwritable_error(output, error) from error
    # If the run is interrupted, the message lists the files that were completed.
    invocation.record_output(output)
    with open_replacement(output) as sink:
        yield sink


def _must_be_written_in_place(output: str) -> bool:
    """Return True for pipes, devices and open file descriptors. Renaming a file to such a path would replace it."""
    try:
        mode = os.stat(output).st_mode
    except FileNotFoundError:
        return False
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return True
    return os.path.abspath(output).startswith(_DESCRIPTOR_PATHS)


def keep_heading(sink: BinaryIO, lines: int = 1) -> None:
    """Let the pager keep the heading of a table visible. Call this before the heading is written.

    Args:
        sink: The stream of the result. Only a `PagedStream` has headings.
        lines: The number of lines of the heading.
    """
    set_heading_lines = getattr(sink, "keep_heading", None)
    if set_heading_lines is not None:
        set_heading_lines(lines)


def is_followed_by_errors(sink: BinaryIO) -> bool:
    """Return True if stderr is the same terminal, pipe or file as the stream of the result.

    Then an error message appears below the result, and the result need not repeat its text.
    """
    is_stdout = sink is getattr(sys.stdout, "buffer", None) or hasattr(sink, "keep_heading")
    try:
        return is_stdout and os.path.sameopenfile(1, 2)
    except OSError:
        return False


def is_stdout_free(output: str | None, *files: str | None) -> bool:
    """Return True if at most one of the outputs of a command is written to stdout.

    Args:
        output: The value of `--output`; None or `-` for stdout.
        files: The values of other options for output files; `-` for stdout, None for no file.
    """
    return output not in (None, STDOUT) or STDOUT not in files


def require_file_outside_tables(output: str, option: str) -> None:
    """Check that an output file is not inside a table. Any file name there may be the name of a data file.

    Args:
        output: The path of the file, or `-` for stdout.
        option: The option, for the message.

    Raises:
        UsageError: If the path is empty or inside a table.
    """
    if not output:
        raise UsageError(f"{option} is empty")
    if output == STDOUT:
        return
    # Resolve symbolic links, because their target may be inside a table.
    directory = os.path.dirname(os.path.realpath(output))
    if _LOG_DIRECTORY in directory.split(os.sep):
        raise UsageError(f"{option} {output} is inside the log of a table, which the output would damage")
    table = find_enclosing_table(output)
    if table is not None:
        raise UsageError(
            f"{option} {output} is inside a table, where the output would be mixed with or replace data files",
            facts={"table": table},
            hint=f"pass a file outside the table to {option}",
        )


def find_output_directory(output: str | None) -> str | None:
    """Return the value of `--output` if it is a directory for Parquet files; None if it is a single file.

    A directory exists already, or ends with a slash, or is a URI of an object store.
    """
    if not output or output == STDOUT:
        return None
    is_directory = _is_uri(output) or output.endswith("/") or os.path.isdir(output)
    return output if is_directory else None


def require_output_directory(directory: str) -> None:
    """Check an output directory before the command runs.

    Raises:
        UsageError: If the directory is inside a table.
        StorageFailed: If its parent directory does not exist.
    """
    # The operation checks URIs, because it has to open the object store anyway.
    if _is_uri(directory):
        return
    path = directory.rstrip("/") or "/"
    require_file_outside_tables(path, "--output")
    require_parent_directory(path)


def require_parent_directory(output: str) -> None:
    """Check that the directory of an output file exists.

    Raises:
        StorageFailed: If it does not exist.
    """
    if output == STDOUT or os.path.isdir(os.path.dirname(os.path.realpath(output))):
        return
    from deltacli.storage.output_file import unwritable_error

    raise unwritable_error(output, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def _is_uri(output: str) -> bool:
    return "://" in output or output[:5].lower() == "file:"
