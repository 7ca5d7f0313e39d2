"""A result on a terminal: written directly if it fits on the screen, else through a pager (decision 0034)."""

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
"""Characters that only a shell understands: a pager whose command has one is run by it."""

_LESS_WITH_HEADER = 600
"""The first version of less that supports --header."""

_LESS_OPTIONS = "FRX"
"""Unless the user has chosen others: end if the text fits the screen, show colours, keep the text on the screen."""

_VERSION_TIMEOUT_SECONDS = 1.0
_COLOUR_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


def choose_pager(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> list[str] | None:
    """Return the command of the pager: `DELTACLI_PAGER`, then `PAGER`, else less.

    Returns:
        The words of the command; None for `cat`, for an empty variable, or if the program is not installed.
    """
    own_variable = Variable.PAGER.read(environment)
    chosen = environment.get("PAGER", "less") if own_variable is None else own_variable
    chosen = chosen.strip()
    if chosen in ("", "cat") or environment.get("TERM") == "dumb":
        return None
    if _SHELL_SYNTAX.search(chosen):
        return ["/bin/sh", "-c", chosen] if os.name == "posix" else None
    command = shlex.split(chosen)
    return command if which(command[0]) else None


def add_heading_option(command: list[str], lines: int) -> list[str]:
    """Return the command of a pager with the option to keep the first lines in view, if less supports it."""
    if not lines or os.path.basename(command[0]) != "less":
        return command
    if _read_version_of_less(command[0]) < _LESS_WITH_HEADER:
        return command
    return [*command, f"--header={lines}"]


def _read_version_of_less(less: str) -> int:
    """Return the version that less prints; 0 if it prints none, such as that of busybox."""
    try:
        completed = subprocess.run(
            [less, "--version"], capture_output=True, timeout=_VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.match(rb"less (\d+)", completed.stdout)
    return int(match[1]) if match else 0


class PagedStream:
    """A writable stream over a terminal's stdout.

    Up to `rows` lines are held back. If there are more, they and everything after them go to the pager; without a pager
    everything is written to the terminal at once.
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
        """Make the stream.

        Args:
            stdout: The terminal.
            rows: The lines that fit on the screen.
            width: The cells of a line; longer lines take several rows.
            pager: The command of the pager; None if there is none.
            escape: Escapes control characters for formats that do not (JSON, CSV).
        """
        self._stdout = stdout
        self._rows = rows
        self._width = width
        self._pager = pager
        self._escape = escape
        self._held_back: list[bytes] = []
        self._held_back_rows = 0
        self._heading_lines = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._is_waiting_for_pager = False
        self._interrupts: AbstractContextManager[None] = contextlib.nullcontext()

    def __enter__(self) -> PagedStream:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process is None:
            self._write_held_back()
            self._stdout.flush()
        else:
            self._end_pager(self._process, at_once=isinstance(error, Interrupted))

    def write(self, data: bytes | memoryview) -> int:
        """Write text of whole lines. Raises PagerQuitError if the user has left the pager."""
        close_live_line()
        text = bytes(data)
        if self._escape is not None:
            text = self._escape(text.decode("utf-8", "replace")).encode("utf-8", "backslashreplace")

        if self._process is not None:
            _feed(self._process, text)
        elif self._pager is None:
            self._stdout.write(text)
        else:
            self._hold_back(text)
            if self._held_back_rows > self._rows:
                self._start_pager(self._pager)
        return len(data)

    def keep_heading(self, lines: int) -> None:
        """Keep the next lines in view, if they are the first ones."""
        if not self._held_back and self._process is None:
            self._heading_lines = lines

    def flush(self) -> None:
        """Flush the terminal unless text is held back for the pager."""
        if self._process is None and self._pager is None:
            self._stdout.flush()

    def _hold_back(self, text: bytes) -> None:
        self._held_back.append(text)
        lines = _COLOUR_SEQUENCE.sub("", text.decode("utf-8", "replace")).split("\n")
        if not lines[-1]:
            lines.pop()  # the text ends with a line end
        for line in lines:
            rows_of_line = -(-count_cells(line) // self._width)
            self._held_back_rows += max(rows_of_line, 1)

    def _write_held_back(self) -> None:
        held_back = b"".join(self._held_back)
        self._held_back = []
        self._stdout.write(held_back)

    def _start_pager(self, command: list[str]) -> None:
        """Start the pager with what was held back. If it cannot be started, the terminal gets everything."""
        self._stdout.flush()
        environment = dict(os.environ)
        environment.setdefault("LESS", _LESS_OPTIONS)
        command = add_heading_option(command, self._heading_lines)
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        except OSError:
            self._pager = None
            self._write_held_back()
            return

        self._process = process
        # The terminal sends Ctrl-C to the pager and to this process. While the pager runs it means the pager.
        self._interrupts = leave_interrupts_to_pager(lambda: self._is_waiting_for_pager or process.poll() is None)
        self._interrupts.__enter__()
        held_back = b"".join(self._held_back)
        self._held_back = []
        _feed(process, held_back)

    def _end_pager(self, process: subprocess.Popen[bytes], *, at_once: bool) -> None:
        """Wait until the user leaves the pager; its exit code is ignored.

        Args:
            process: The pager.
            at_once: End the pager instead, because the run was interrupted.
        """
        assert process.stdin is not None
        try:
            if at_once:
                process.terminate()
            # A Ctrl-C that was meant for the pager may arrive here when the pager has just ended.
            self._is_waiting_for_pager = not at_once
            with contextlib.suppress(BrokenPipeError):  # the user left it before it had read everything
                process.stdin.close()
            wait_for_end(process)
        finally:
            self._interrupts.__exit__(None, None, None)


def _feed(process: subprocess.Popen[bytes], text: bytes) -> None:
    assert process.stdin is not None
    try:
        write_all(process.stdin.fileno(), text)
    except BrokenPipeError as error:
        raise PagerQuitError from error


def open_paged_stream(escaping: Escaping, *, is_paged: bool) -> PagedStream:
    """Return stdout, which is a terminal, as a stream.

    Args:
        escaping: How control characters are escaped.
        is_paged: Whether long results go through the pager. They do not where nobody can press keys.
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
