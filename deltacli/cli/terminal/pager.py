"""A result on a terminal: written directly if it fits on the screen, else through a pager."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import BinaryIO

from deltacli.cli.options.configuration import Variable
from deltacli.cli.terminal import term

_SHELL = re.compile(r"[|&;<>()$`\\\"'*?\[#~=%]")
_LESS_WITH_HEADER = 600
"""The first version of less that supports --header."""
_PATIENCE_SECONDS = 1.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def choose_pager(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> list[str] | None:
    """Return the pager: `DELTACLI_PAGER`, then `PAGER`, else less; None for `cat`, "" or one not installed."""
    own = Variable.PAGER.read(environment)
    wanted = (environment.get("PAGER", "less") if own is None else own).strip()
    if wanted in ("", "cat") or environment.get("TERM") == "dumb":
        return None
    if _SHELL.search(wanted):
        return ["/bin/sh", "-c", wanted] if os.name == "posix" else None
    command = shlex.split(wanted)
    return command if which(command[0]) else None


def with_heading(command: list[str], lines: int) -> list[str]:
    """Return the command of a pager with the option to keep the first lines in view, if less supports it."""
    if not lines or os.path.basename(command[0]) != "less" or _version_of(command[0]) < _LESS_WITH_HEADER:
        return command
    return [*command, f"--header={lines}"]


def _version_of(less: str) -> int:
    """Return the version that less prints; 0 where it prints none, such as that of busybox."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([less, "--version"], capture_output=True, timeout=_PATIENCE_SECONDS, check=False)
        if match := re.match(rb"less (\d+)", done.stdout):
            return int(match[1])
    return 0


class Screen:
    """A writable stream over a terminal's stdout.

    Buffers up to `rows` lines, then passes them and the rest to the pager; without a pager everything is written to the
    terminal. `clean` escapes control characters for formats that do not (JSON, CSV).
    """

    def __init__(
        self,
        out: BinaryIO,
        *,
        rows: int,
        width: int,
        pager: list[str] | None,
        clean: Callable[[str], str] | None = None,
    ) -> None:
        self._out = out
        self._rows = rows
        self._width = width
        self._pager = pager
        self._clean = clean
        self._held: list[bytes] = []
        self._held_rows = 0
        self._heading = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._is_waiting = False

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, fault: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process is None:
            self._release()
            self._out.flush()
        else:
            self._end_pager(at_once=isinstance(fault, term.Interrupted))

    def write(self, data: bytes | memoryview) -> int:
        """Write text of whole lines. Raises PagerQuitError where the user has left the pager."""
        term.close_live_line()
        text = bytes(data)
        if self._clean is not None:
            text = self._clean(text.decode("utf-8", "replace")).encode("utf-8", "backslashreplace")
        if self._process is not None:
            self._feed(text)
        elif self._pager is None:
            self._out.write(text)
        else:
            self._held.append(text)
            lines = _COLOURS.sub("", text.decode("utf-8", "replace")).split("\n")
            rows = sum(max(-(-term.cells(line) // self._width), 1) for line in lines)
            self._held_rows += rows - 1 if not lines[-1] else rows
            if self._held_rows > self._rows:
                self._start(self._pager)
        return len(data)

    def keep_heading(self, lines: int) -> None:
        """Keep the next lines in view, if they are the first ones."""
        if not self._held and self._process is None:
            self._heading = lines

    def flush(self) -> None:
        """Flush the terminal unless text is buffered for the pager."""
        if self._process is None and self._pager is None:
            self._out.flush()

    def _start(self, command: list[str]) -> None:
        self._out.flush()
        environment = dict(os.environ)
        environment.setdefault("LESS", "FRX")
        try:
            self._process = subprocess.Popen(
                with_heading(command, self._heading), stdin=subprocess.PIPE, env=environment
            )
        except OSError:
            self._pager = None
            self._release()
            return
        process = self._process
        self._in_front = term.pager_in_front(lambda: self._is_waiting or process.poll() is None)
        self._in_front.__enter__()
        held, self._held = self._held, []
        self._feed(b"".join(held))

    def _release(self) -> None:
        held, self._held = self._held, []
        self._out.write(b"".join(held))

    def _feed(self, text: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            term.write_all(self._process.stdin.fileno(), text)
        except BrokenPipeError as quitted:
            raise term.PagerQuitError from quitted

    def _end_pager(self, *, at_once: bool) -> None:
        """Wait until the user leaves the pager; its exit code is ignored."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            if at_once:
                self._process.terminate()
            self._is_waiting = not at_once  # a Ctrl-C meant for the pager may be seen here when it has ended
            with contextlib.suppress(BrokenPipeError):  # the user left it before it had read everything
                self._process.stdin.close()
            term.wait_for_end(self._process)
        finally:
            self._in_front.__exit__(None, None, None)


def open_screen(cleaning: term.Cleaning, *, is_paged: bool) -> Screen:
    """Return stdout as a screen; paged where the user may press keys."""
    size = shutil.get_terminal_size((80, 24))
    wants_pager = is_paged and sys.stdin.isatty()
    return Screen(
        sys.stdout.buffer,
        rows=size.lines - 1,
        width=max(size.columns, 1),
        pager=choose_pager(os.environ) if wants_pager else None,
        clean=_CLEANERS[cleaning],
    )


_CLEANERS: Mapping[term.Cleaning, Callable[[str], str] | None] = {
    term.Cleaning.NONE: None,
    term.Cleaning.JSON: term.escaped_json,
    term.Cleaning.TEXT: lambda text: term.CONTROL.sub(
        lambda match: match[0] if match[0] == "\n" else match[0].encode("unicode_escape").decode("ascii"), text
    ),
}
