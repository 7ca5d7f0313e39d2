"""Write long results through a pager such as less, like git does (decision 0034).

The first lines of a result are buffered. If the result ends before the screen is full, it is written directly to
the terminal. Otherwise, the pager is started and receives the buffered lines and all others.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import BinaryIO

from deltacli.cli.options.configuration import Variable
from deltacli.cli.terminal.characters import ESCAPE_FUNCTIONS, Escaping, count_cells
from deltacli.cli.terminal.signals import Interrupted, PagerQuitError, leave_interrupts_to_pager
from deltacli.cli.terminal.stderr import close_live_line
from deltacli.cli.terminal.waiting import wait_for_end, write_all

_SHELL_SYNTAX = re.compile(r"[|&;<>()$`\\\"'*?\[#~=%]")
"""Characters with a meaning for shells. If the command of the pager contains one, a shell runs it."""

_LESS_WITH_HEADER = 600
"""The first version of less that supports --header."""

_LESS_OPTIONS = "FRX"
"""Default of the environment variable `LESS`: quit if the text fits on one screen (F), show colours (R), and do not
clear the screen at the end (X).
"""

_VERSION_TIMEOUT_SECONDS = 1.0
_COLOUR_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


def choose_pager(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> list[str] | None:
    """Return the command of the pager from `DELTACLI_PAGER` or `PAGER`. The default is less.

    Args:
        environment: The environment variables.
        which: A function that searches a program in the directories of `PATH`.

    Returns:
        The words of the command. None if the variable is empty or `cat`, or if the program is not installed.
    """
    command_line = Variable.PAGER.read(environment)
    if command_line is None:
        command_line = environment.get("PAGER", "less")
    command_line = command_line.strip()
    if command_line in ("", "cat") or environment.get("TERM") == "dumb":
        return None

    if _SHELL_SYNTAX.search(command_line):
        return ["/bin/sh", "-c", command_line] if os.name == "posix" else None
    words = shlex.split(command_line)
    return words if which(words[0]) else None


def add_heading_option(command: list[str], lines: int) -> list[str]:
    """Return the command of a pager, with the option to keep the first lines of the text visible while scrolling.

    Only less 600 and later has this option. Other pagers get no option.
    """
    if not lines or os.path.basename(command[0]) != "less":
        return command
    if _read_version_of_less(command[0]) < _LESS_WITH_HEADER:
        return command
    return [*command, f"--header={lines}"]


def _read_version_of_less(less: str) -> int:
    """Return the version that `less --version` prints; 0 for the less of busybox, which prints no version."""
    try:
        completed = subprocess.run(
            [less, "--version"], capture_output=True, timeout=_VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.match(rb"less (\d+)", completed.stdout)
    return int(match[1]) if match else 0


class PagedStream:
    """A writable stream to a terminal or to a pager. It is a context manager.

    Text is buffered until it fills the screen. Then the pager is started, and receives the buffered text and all
    later text. If the stream is closed earlier, the text is written to the terminal. Without a pager, text is not
    buffered.
    """

    def __init__(
        self,
        stdout: BinaryIO,
        *,
        rows: int,
        width: int,
        pager: list[str] | None,
        escape: Callable[[str], str] | None = None,
    ) -> None:
        """Create a stream.

        Args:
            stdout: The terminal.
            rows: The number of screen rows that a text may fill without starting the pager.
            width: The width of the screen in cells. A longer line fills several rows.
            pager: The command of the pager; None to write to the terminal directly.
            escape: A function that escapes control characters; None if the format of the result escapes them.
        """
        self._stdout = stdout
        self._rows = rows
        self._width = width
        self._pager = pager
        self._escape = escape
        self._buffer: list[bytes] = []
        self._buffered_rows = 0
        self._heading_lines = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._is_waiting_for_pager = False
        self._ignored_interrupts: AbstractContextManager[None] = contextlib.nullcontext()

    def __enter__(self) -> PagedStream:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process is None:
            self._stdout.write(self._take_buffer())
            self._stdout.flush()
        else:
            self._end_pager(self._process, terminate=isinstance(error, Interrupted))

    def write(self, data: bytes | memoryview) -> int:
        """Write complete lines.

        Raises:
            PagerQuitError: If the user has quit the pager.
        """
        close_live_line()
        text = bytes(data)
        if self._escape is not None:
            text = self._escape(text.decode("utf-8", "replace")).encode("utf-8", "backslashreplace")

        if self._process is not None:
            _write_to_pager(self._process, text)
        elif self._pager is None:
            self._stdout.write(text)
        else:
            self._append_to_buffer(text)
            if self._buffered_rows > self._rows:
                self._start_pager(self._pager)
        return len(data)

    def keep_heading(self, lines: int) -> None:
        """Let the pager keep the next lines visible while the user scrolls. Ignored unless they are the first lines."""
        if not self._buffer and self._process is None:
            self._heading_lines = lines

    def flush(self) -> None:
        """Flush the terminal. Buffered text remains in the buffer."""
        if self._process is None and self._pager is None:
            self._stdout.flush()

    def _append_to_buffer(self, text: bytes) -> None:
        """Append lines to the buffer, and count the screen rows that they fill."""
        self._buffer.append(text)
        lines = _COLOUR_SEQUENCE.sub("", text.decode("utf-8", "replace")).split("\n")
        ends_with_newline = not lines[-1]
        if ends_with_newline:
            lines.pop()
        for line in lines:
            rows_of_line = -(-count_cells(line) // self._width)
            self._buffered_rows += max(rows_of_line, 1)

    def _take_buffer(self) -> bytes:
        """Return the buffered text, and clear the buffer."""
        text = b"".join(self._buffer)
        self._buffer = []
        return text

    def _start_pager(self, command: list[str]) -> None:
        """Start the pager with the buffered text. If it cannot be started, write to the terminal from now on."""
        self._stdout.flush()
        environment = dict(os.environ)
        environment.setdefault("LESS", _LESS_OPTIONS)
        command = add_heading_option(command, self._heading_lines)
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        except OSError:
            self._pager = None
            self._stdout.write(self._take_buffer())
            return

        self._process = process
        # The terminal sends Ctrl-C to both processes. While the pager is running, only the pager handles it.
        self._ignored_interrupts = leave_interrupts_to_pager(
            lambda: self._is_waiting_for_pager or process.poll() is None
        )
        self._ignored_interrupts.__enter__()
        _write_to_pager(process, self._take_buffer())

    def _end_pager(self, process: subprocess.Popen[bytes], *, terminate: bool) -> None:
        """Wait until the user quits the pager. The exit code of the pager is ignored.

        Args:
            process: The pager.
            terminate: Whether to terminate the pager, because a signal interrupted the run.
        """
        assert process.stdin is not None
        try:
            if terminate:
                process.terminate()
            # The user may press Ctrl-C in the pager just before quitting. This process may handle it after the
            # pager has ended, and must ignore it.
            self._is_waiting_for_pager = not terminate
            # The pipe is broken if the user quit the pager before it read the whole text.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            wait_for_end(process)
        finally:
            self._ignored_interrupts.__exit__(None, None, None)


def _write_to_pager(process: subprocess.Popen[bytes], text: bytes) -> None:
    assert process.stdin is not None
    try:
        write_all(process.stdin.fileno(), text)
    except BrokenPipeError as error:
        raise PagerQuitError from error


def open_paged_stream(escaping: Escaping, *, is_paged: bool) -> PagedStream:
    """Return a stream for a result on stdout, which must be a terminal.

    Args:
        escaping: The way to escape control characters.
        is_paged: Whether to show long results in a pager. If stdin is not a terminal, no pager is used: the user
            could not press keys to scroll.
    """
    size = shutil.get_terminal_size((80, 24))
    wants_pager = is_paged and sys.stdin.isatty()
    return PagedStream(
        sys.stdout.buffer,
        rows=size.lines - 1,
        width=max(size.columns, 1),
        pager=choose_pager(os.environ) if wants_pager else None,
        escape=ESCAPE_FUNCTIONS[escaping],
    )
