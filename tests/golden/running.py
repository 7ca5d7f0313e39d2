"""Runs one command line in this process, in a directory of its own, and tells all that can be seen of it afterwards."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from unittest import mock

from deltacli.cli.app import run
from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.signals import has_raised_interruption
from deltacli.core.errors import ShellSyntax, use_hint_syntax
from deltacli.storage import Creation, Existed, local
from deltacli.storage.local_deletion import delete_local_file
from deltacli.storage.local_write import LocalDraft

NOW = "2026-02-10T12:00:00Z"
NOW_NS = 1_770_724_800 * 1_000_000_000
"""The same time."""
CTRL_C = "^C"
"""As an answer: an interruption at the question."""

_LEAVE = ("PATH", "HOME", "TMPDIR", "PYTHON", "LD_", "ARROW_")
_DEADLINE = 30.0


class Seen(NamedTuple):
    """What a run wrote, and its exit code."""

    code: int
    out: str
    err: str


class _Stream(io.TextIOWrapper):
    """Output that is kept, of a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._kept, self._is_terminal = io.BytesIO(), is_terminal
        super().__init__(self._kept, encoding="utf-8")

    def isatty(self) -> bool:
        return self._is_terminal

    def text(self) -> str:
        self.flush()
        return self._kept.getvalue().decode()


class _Keyboard:
    """A terminal at which somebody answers the question, or presses Ctrl-C in its place."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self._out, end = os.pipe()
        os.write(end, b"" if answer == CTRL_C else answer.encode() + b"\n")
        os.close(end)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._answer == CTRL_C:
            signal.raise_signal(signal.SIGINT)
        return self._out

    def close(self) -> None:
        os.close(self._out)


class _Interruption:
    """Ctrl-C right after the act of some number on the disk: a file that appears, is replaced or is deleted."""

    def __init__(self, act: int) -> None:
        self._left, self._lock = act, threading.Lock()

    def after(self, original: Callable[..., Any]) -> Callable[..., Any]:  # Any: any call
        def acting(*arguments: Any, **options: Any) -> Any:
            answer = original(*arguments, **options)
            with self._lock:
                self._left -= 1
                is_now = self._left == 0
            if is_now:
                self._strike()
            return answer

        return acting

    @staticmethod
    def _strike() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
            return
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        waiting = threading.Event()
        for _ in range(int(_DEADLINE * 1_000)):
            if has_raised_interruption():
                return
            waiting.wait(0.001)
        raise AssertionError("the main thread did not hear the signal")


def run_in(
    place: Path,
    words: Sequence[str],
    *,
    width: int | None = None,
    colour: bool = False,
    answer: str | None = None,
    interrupted_after: int = 0,
    now: str | None = NOW,
) -> Seen:
    """Run a command line in a directory. With `width` stdout is a terminal of so many columns; with `answer` stdin and
    stderr are one. The clock of the tables stands still: `--now` is added, unless `now` is None or the line has it.
    """
    out, err = _Stream(is_terminal=width is not None), _Stream(is_terminal=answer is not None or width is not None)
    with ExitStack() as stack:
        stack.enter_context(chdir(place))
        stack.enter_context(_environment(width or 80, colour=colour))
        nobody = stack.enter_context(open(os.devnull))
        keyboard = nobody if answer is None else stack.enter_context(closing(_Keyboard(answer)))
        for name, stream in (("stdin", keyboard), ("stdout", out), ("stderr", err)):
            stack.enter_context(mock.patch.object(sys, name, stream))
        stack.enter_context(_descriptors(are_one=width is not None))
        stack.enter_context(disk(interrupted_after))
        # Where a script runs this in its background, Ctrl-C is ignored, and the command line would leave it at that.
        stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        stack.enter_context(use_hint_syntax(ShellSyntax()))
        code = run(words if now is None or "--now" in words else [*words, "--now", now])
        said = Seen(code, out.text(), err.text())
        invocation.begin(())
    return said


@contextmanager
def _descriptors(*, are_one: bool) -> Iterator[None]:
    """Let the descriptors of stdout and stderr be one terminal or two pipes: nothing is written to them, but the
    command line looks at where they lead.
    """
    saved = [os.dup(1), os.dup(2)]
    with open(os.devnull, "wb") as one, TemporaryFile() as other:
        os.dup2(one.fileno(), 1)
        os.dup2((one if are_one else other).fileno(), 2)
        try:
            yield
        finally:
            for descriptor, number in zip(saved, (1, 2), strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)


@contextmanager
def disk(interrupted_after: int = 0) -> Iterator[None]:
    """Let the clock of the disk be that of the tables, and press Ctrl-C after the act of some number. Nothing is
    synced, which takes most of the time.
    """
    interruption = _Interruption(interrupted_after)
    with (
        mock.patch.object(LocalDraft, "publish", interruption.after(_published_now)),
        mock.patch.object(local, "delete_local_file", interruption.after(delete_local_file)),
        mock.patch.object(os, "fsync"),
    ):
        yield


_publish = LocalDraft.publish


def _published_now(draft: LocalDraft, *, replace: bool = False) -> Creation:
    is_by_clock = os.stat(draft.local_path).st_mtime_ns > NOW_NS
    outcome = _publish(draft, replace=replace)
    if is_by_clock and not isinstance(outcome, Existed):
        os.utime(draft._target, ns=(NOW_NS, NOW_NS))
    return outcome


@contextmanager
def _environment(width: int, *, colour: bool) -> Iterator[None]:
    """Let the environment be the same on every machine."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_LEAVE)}
    settings = {"COLUMNS": str(width), "LINES": "24", "TERM": "xterm", "LANG": "C.UTF-8"}
    settings |= {"DELTACLI_PROGRESS": "never", "DELTACLI_PAGER": ""}
    settings |= {} if colour else {"NO_COLOR": "1"}
    with mock.patch.dict(os.environ, kept | settings, clear=True):
        yield
