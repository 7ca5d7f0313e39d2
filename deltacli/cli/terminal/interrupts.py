"""Signals: the first one ends the run gracefully, a second one at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from deltacli.cli.terminal.term import live_line
from deltacli.core import tempfiles

_MEANING = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
"""Signal -> what the user reads. SIGHUP is unknown to some systems."""


_A_LITTLE_LATER = 0.05


class Interrupted(BaseException):
    """A signal asked the run to end; raised in the main thread at its current instruction.

    Not an Exception, so that no handler of faults catches it. A command that changes a table catches it, stores what
    it did in `outcome`, and raises it again.
    """

    outcome = "nothing was changed"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number

    @property
    def signal_name(self) -> str:
        return signal.Signals(self.number).name

    @property
    def message(self) -> str:
        """Return one line that says what happened."""
        return f"{_MEANING[self.signal_name]}; {self.outcome}"

    def unwind(self) -> None:
        """Release the interrupted frames, which closes their generators and ends the tasks in flight."""
        import traceback

        fault: BaseException | None = self
        while fault is not None:
            if fault.__traceback__ is not None:
                traceback.clear_frames(fault.__traceback__)
            fault = fault.__context__


class _State:
    """The signals received in this run."""

    first: int | None = None
    pager_is_running: Callable[[], bool] | None = None
    is_sending_again: bool = False


_state = _State()

before_leaving: list[Callable[[], None]] = []
"""Called before a second signal ends the process, each once and for two seconds at the most."""


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Turn the first signal into Interrupted; a second one ends the process. Signals that the parent ignores (`nohup`,
    a background job of a script) stay ignored.
    """
    _state.first = None
    before: dict[int, Any] = {}  # Any: the previous handler
    hook = sys.unraisablehook
    try:
        for name in _MEANING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _on_signal)
        sys.unraisablehook = _on_unraisable
    except ValueError:
        pass  # not the main thread: the caller handles signals
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def pager_in_front(is_running: Callable[[], bool]) -> Iterator[None]:
    """Leave Ctrl-C to the pager until it has ended."""
    _state.pager_is_running = is_running
    try:
        yield
    finally:
        _state.pager_is_running = None


def is_interrupted() -> bool:
    """Return True once a signal asked this run to end."""
    return _state.first is not None


def _on_signal(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGINT and _state.pager_is_running is not None and _state.pager_is_running():
        return
    if _state.is_sending_again:  # on a busy machine the hook may still be running
        _send_again(number)
        return
    if _state.first is None:
        _state.first = number
        if (line := live_line()) is not None:
            line.stopping()
        raise Interrupted(number)
    if number in (signal.SIGINT, signal.SIGTERM):  # a terminal that closes sends SIGHUP more than once
        _leave_at_once(number)


def _leave_at_once(number: int) -> NoReturn:
    """End the process without waiting for threads, after removing temporary files and the progress line, and asking
    for the end of what runs elsewhere. Where that takes too long or stderr blocks, another signal ends it.
    """
    tempfiles.remove_all()
    signal.signal(number, signal.SIG_DFL)
    try:
        for act in before_leaving:
            act()
        if (line := live_line()) is not None:
            line.leave()
    finally:
        os._exit(128 + number)


def _on_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interruption again that was lost in a destructor, after the destructor has ended."""
    if not isinstance(unraisable.exc_value, Interrupted):
        from deltacli.cli.terminal.library_logs import on_unraisable

        on_unraisable(unraisable)
        return
    _state.first = None
    _state.is_sending_again = True
    try:
        _send_again(unraisable.exc_value.number)
    finally:
        _state.is_sending_again = False


def _send_again(number: int) -> None:
    """Raise a signal's interruption in this thread after a delay. Uses a timer of the system where available, because a
    thread cannot be started in a signal handler that may have interrupted the start of another.
    """
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda _, frame: _on_signal(number, frame))
        signal.setitimer(signal.ITIMER_REAL, _A_LITTLE_LATER)
        return
    from threading import Timer

    again = Timer(_A_LITTLE_LATER, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()
