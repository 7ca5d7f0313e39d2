"""Where the result of a command is written, and how."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO

from deltacli.cli.output.destination import open_destination
from deltacli.cli.output.formats import Format
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.stderr import close_live_line


@dataclass(frozen=True)
class ResultOptions:
    """The destination of a result, and its form.

    Attributes:
        format: The format.
        file: The file. None: stdout.
        directory: The directory that `--output` names: rows are written there as Parquet, and the result says what was
            written.
        terminal: The terminal, or what takes its place.
        is_paged: True if a result that is longer than the screen goes to a pager.
        keeps_progress: True if progress was asked for, and is shown although the result goes to a pipe.
    """

    format: Format
    terminal: Terminal
    file: str | None = None
    directory: str | None = None
    is_paged: bool = True
    keeps_progress: bool = False

    def open(self, content: Format | None = None) -> AbstractContextManager[BinaryIO]:
        """Open the destination: a file, a pipe, or a terminal with a pager.

        Args:
            content: The format of what is written, if it is another one.
        """
        if self.terminal.is_terminal:
            from deltacli.cli.terminal.pager import open_paged_stream

            shown = content or self.format
            return open_destination(None, open_paged_stream(shown.escaping, is_paged=self.is_paged and shown.is_paged))
        # The reader of the pipe may draw on the same terminal.
        if not self.keeps_progress and self.file in (None, "-") and _is_pipe(sys.stdout):
            close_live_line()
        return open_destination(self.file)


def _is_pipe(stream: Any) -> bool:  # Any: a standard stream or a test's replacement
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False
