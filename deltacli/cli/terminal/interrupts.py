"""Signals: the first one ends the run gracefully, a second one at once.

Python only marks a signal; its handler runs between two instructions of the interpreter. A signal that arrives just
before a blocking system call would wait for that call to return. Here the call is always `select`, on the descriptor
and on a pipe that every signal writes to, so a signal at any moment ends the wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from deltacli.cli.terminal.term import live_line
from deltacli.core import tempfiles

if TYPE_CHECKING:
    import subprocess

# -- signals -----------------------------------------------------------------------------------------------------------

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
        from deltacli.cli.terminal.term import on_unraisable

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


# -- waiting for a terminal or a pager without losing a signal ---------------------------------------------------------

_BLOCK = 4096
"""Bytes per read: the longest line that a terminal delivers at once."""


def read_line(descriptor: int) -> bytes:
    """Return the input up to the end of the line, b"" at the end of the input."""
    line = b""
    with _woken_by_signals() as woken:
        while not line.endswith(b"\n"):
            _wait(woken, reads=[descriptor])
            block = os.read(descriptor, _BLOCK)
            if not block:
                break
            line += block
    return line


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a pipe, however slowly it is read. Raises BrokenPipeError."""
    rest = memoryview(data)
    with _woken_by_signals() as woken:
        os.set_blocking(descriptor, False)  # a ready pipe accepts less than a large block
        try:
            while rest:
                _wait(woken, writes=[descriptor])
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(descriptor, rest) :]
        finally:
            os.set_blocking(descriptor, True)


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process ends and return its exit code."""
    with _woken_by_signals(signal.SIGCHLD) as woken:
        if woken is None:
            return process.wait()
        while (code := process.poll()) is None:
            _wait(woken)
        return code


def _wait(woken: int | None, *, reads: list[int] | None = None, writes: list[int] | None = None) -> None:
    """Return when a descriptor is ready. Signal handlers run here and may raise."""
    readable, writable = reads or [], writes or []
    watched = readable if woken is None else [*readable, woken]
    ready, _, _ = select.select(watched, writable, [])
    while woken is not None and ready == [woken]:
        os.read(woken, _BLOCK)
        if not readable and not writable:
            return
        ready, _, _ = select.select(watched, writable, [])


@contextlib.contextmanager
def _woken_by_signals(*also: signal.Signals) -> Iterator[int | None]:
    """Yield the end of a pipe that becomes readable with each signal; `also` are signals without a handler so far.

    None outside the main thread, where no signal is handled.
    """
    end, start = os.pipe()
    os.set_blocking(end, False)
    os.set_blocking(start, False)
    try:
        try:
            before = signal.set_wakeup_fd(start, warn_on_full_buffer=False)
        except ValueError:  # not the main thread
            yield None
            return
        handlers = {number: signal.signal(number, lambda *_: None) for number in also}
        try:
            yield end
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            signal.set_wakeup_fd(before)
    finally:
        os.close(end)
        os.close(start)
