"""The destination and the format of the result of a command."""

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
    """The options for the result.

    Attributes:
        format: The format of the result.
        file: The output file, or `-` for stdout. None: stdout.
        directory: The directory for rows as Parquet files. The result then lists the files that were written.
        terminal: The properties of stdout, such as its width, also if it is not a terminal.
        is_paged: Whether a result that is longer than the screen is shown in a pager.
        keeps_progress: Whether progress stays visible while the result is written to a pipe, because the user has
            requested it.
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
            content: The format of the content. None: the format of the result.
        """
        if self.terminal.is_terminal:
            from deltacli.cli.terminal.pager import open_paged_stream

            content_format = content or self.format
            is_paged = self.is_paged and content_format.is_paged
            return open_destination(None, open_paged_stream(content_format.escaping, is_paged=is_paged))
        # The program that reads the pipe may write to the same terminal, so the progress line would be in its way.
        if not self.keeps_progress and self.file in (None, "-") and _is_pipe(sys.stdout):
            close_live_line()
        return open_destination(self.file)


def _is_pipe(stream: Any) -> bool:  # Any: a standard stream or a test's replacement
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False
