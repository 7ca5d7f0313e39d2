"""Handle SIGINT, SIGTERM and SIGHUP (decision 0033).

The first signal raises `Interrupted` in the main thread, at the instruction that is currently executed. The
exception unwinds the run, so that cleanup code runs. A second signal ends the process immediately.

In two places the exception must not be raised:

* in functions of the standard library that hold a lock. The lock would never be released, and another
  thread would wait for it forever;
* in destructors (`__del__`), because Python discards exceptions there.

In both cases, a timer raises the exception again after a millisecond (`_retry_later`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from threading import Timer
from types import FrameType
from typing import Any, NoReturn

from deltacli.cli.terminal.library_messages import show_unraisable
from deltacli.cli.terminal.stderr import get_live_line
from deltacli.core import tempfiles

_DESCRIPTIONS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
"""The beginning of the message for each handled signal. Windows has no SIGHUP."""

_RETRY_SECONDS = 0.001
"""Delay before an interruption is raised again. The standard library holds its locks for a much shorter time."""

_HAS_TIMER = hasattr(signal, "setitimer")
"""Whether the operating system has interval timers. Windows has none."""

before_exit: list[Callable[[], None]] = []
"""Functions to call before a second signal ends the process. Each of them returns within two seconds."""


class Interrupted(BaseException):
    """The process received a signal that ends the run. Raised in the main thread.

    Like KeyboardInterrupt, it is not an Exception, so that `except Exception` does not catch it. A command that
    changes a table catches it, sets `outcome`, and raises it again.

    Attributes:
        number: The number of the signal, such as 2 for SIGINT.
        outcome: A description of the changes that were made before the signal, for the message.
    """

    outcome = "nothing was changed"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """Return the exit code that shells report for a process that was ended by this signal."""
        return 128 + self.number

    @property
    def signal_name(self) -> str:
        """Return the name of the signal, such as `SIGINT`."""
        return signal.Signals(self.number).name

    @property
    def message(self) -> str:
        """Return the message for the user: `interrupted; nothing was changed`."""
        return f"{_DESCRIPTIONS[self.signal_name]}; {self.outcome}"

    def unwind(self) -> None:
        """Clear the frames of the traceback. This closes their generators, which cancel the running tasks."""
        error: BaseException | None = self
        while error is not None:
            if error.__traceback__ is not None:
                traceback.clear_frames(error.__traceback__)
            error = error.__context__


class PagerQuitError(Exception):
    """The user quit the pager before the whole result was written. The run ends with exit code 0."""


class _RunState:
    """The state of signal handling in the current run.

    Attributes:
        first_signal: The number of the first signal; None if no signal was received.
        has_raised: Whether `Interrupted` was raised for that signal, or the run has ended. Timer signals that
            arrive later are ignored.
        is_retrying: Whether `_raise_lost_interruption` is running. Python would discard an exception in it, too.
        is_pager_running: A function that returns True while the pager is in the foreground. Ctrl-C is a command
            of the pager then.
    """

    first_signal: int | None = None
    has_raised: bool = False
    is_retrying: bool = False
    is_pager_running: Callable[[], bool] | None = None


_run = _RunState()


@contextlib.contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise `Interrupted` on the first signal, and end the process on the second one, while the context is open.

    A signal that the parent process ignores stays ignored: `nohup` ignores SIGHUP, for example. In another thread
    than the main thread, Python does not allow signal handlers, and this function changes nothing.
    """
    _run.first_signal = None
    _run.has_raised = False
    previous_handlers: dict[int, Any] = {}  # Any: a function, a number, or None
    previous_hook = sys.unraisablehook
    try:
        for name in _DESCRIPTIONS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                previous_handlers[number] = signal.signal(number, _handle_signal)
        sys.unraisablehook = _raise_lost_interruption
    except ValueError:
        pass  # This is not the main thread. The program that calls deltacli handles signals.
    try:
        yield
    finally:
        sys.unraisablehook = previous_hook
        _run.has_raised = True
        if _HAS_TIMER:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def leave_interrupts_to_pager(is_running: Callable[[], bool]) -> Iterator[None]:
    """Ignore Ctrl-C while the pager is running. It stops a search in less, for example.

    Args:
        is_running: A function that returns False after the pager has ended.
    """
    _run.is_pager_running = is_running
    try:
        yield
    finally:
        _run.is_pager_running = None


def is_interrupted() -> bool:
    """Return True if a signal was received in this run."""
    return _run.first_signal is not None


def has_raised_interruption() -> bool:
    """Return True if `Interrupted` was raised in the main thread, or if the run has ended."""
    return _run.has_raised


def _handle_signal(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT and _run.is_pager_running is not None and _run.is_pager_running():
        return
    if _run.first_signal is None:
        _run.first_signal = number
        line = get_live_line()
        if line is not None:
            line.show_interruption()
        _interrupt(number, frame)
    elif number in (signal.SIGINT, signal.SIGTERM):
        # SIGHUP is excluded: a terminal that is closed sends it more than once.
        _exit_immediately(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise `Interrupted`, or start a timer if the interrupted code must not be left by an exception.

    Args:
        number: The number of the signal.
        frame: The frame that the signal interrupted.
    """
    # On a busy machine, the timer may expire before the hook that started it has returned.
    if _run.is_retrying or _may_hold_lock(frame):
        _retry_later(number)
        return
    _run.has_raised = True
    raise Interrupted(number)


def _exit_immediately(number: int) -> NoReturn:
    """End the process without waiting for its threads.

    Temporary files and the progress bar are removed first, and the jobs of this run on a cluster are cancelled.
    If that takes too long, or if stderr blocks, a third signal ends the process by its default action.
    """
    tempfiles.remove_all()
    signal.signal(number, signal.SIG_DFL)
    try:
        for cancel in before_exit:
            cancel()
        line = get_live_line()
        if line is not None:
            line.try_close()
    finally:
        # `sys.exit` would wait for all threads, and one of them may be blocked in a request to a store.
        os._exit(128 + number)


def _raise_lost_interruption(unraisable: sys.UnraisableHookArgs) -> None:
    """Start a timer if `Interrupted` was raised in a destructor, where Python discards exceptions.

    This function is `sys.unraisablehook`, which Python calls for each discarded exception.
    """
    if not isinstance(unraisable.exc_value, Interrupted):
        show_unraisable(unraisable)
        return
    _run.is_retrying = True
    try:
        _retry_later(unraisable.exc_value.number)
    finally:
        _run.is_retrying = False


def _retry_later(number: int) -> None:
    """Raise `Interrupted` in the main thread after `_RETRY_SECONDS`.

    An interval timer of the operating system is used, not a thread: the signal may have interrupted the start of
    another thread, which holds a lock. The timer repeats until `Interrupted` is raised. A single timer signal
    could arrive just before a blocking system call, and the call would wait forever.
    """
    if not _HAS_TIMER:
        _run.first_signal = None
        timer = Timer(_RETRY_SECONDS, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()
        return

    _run.has_raised = False
    # The handler is never removed. The default action for SIGALRM would end the process if a signal arrives late.
    if signal.getsignal(signal.SIGALRM) is not _handle_tick:
        signal.signal(signal.SIGALRM, _handle_tick)
    signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS, _RETRY_SECONDS)


def _handle_tick(_: int, frame: FrameType | None) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    # The operating system may deliver the signal to another thread. Then Python calls this handler later, perhaps
    # after the run has ended.
    is_late = _run.has_raised or _run.first_signal is None
    if not is_late:
        assert _run.first_signal is not None
        _interrupt(_run.first_signal, frame)


_LOCKING_MODULES = frozenset(
    {
        "_frozen_importlib",
        "concurrent.futures._base",
        "concurrent.futures.thread",
        "importlib._bootstrap",
        "logging",
        "queue",
        "threading",
    }
)
"""Modules of the standard library that acquire locks in Python code.

An exception between the acquisition of a lock and the `try` that releases it leaves the lock acquired. A thread that
waits for the lock would never end.
"""

_STARTING_FUNCTIONS = ("start", "submit")
"""Functions of these modules that start a thread, and must not be interrupted while they wait for its start."""

_WAITING_FUNCTIONS = ("Thread._wait_for_tstate_lock", "Thread.join", "StreamHandler.emit")
"""Functions of these modules that wait or write without a lock, so that they can be interrupted."""

_UNINTERRUPTIBLE_FUNCTIONS = ("__set_name__", "_execute_child", "_internal_poll", "_start_worker")
"""Functions of any module that must not be interrupted.

* `__set_name__`: Python 3.11 replaces an exception that it raises by a RuntimeError.
* `_execute_child` of `subprocess`: the child process would run, but its process id would be lost.
* `_internal_poll` of `subprocess`: the lock of the child's exit status would stay acquired.
* `_start_worker` of `share serve`: the worker would run, but the server could not stop it.
"""


def _may_hold_lock(frame: FrameType | None) -> bool:
    """Return True if the interrupted code may hold a lock that an exception would not release.

    There are three cases: the innermost frame is in a module of `_LOCKING_MODULES` and does not wait; a function of
    these modules starts a thread; or the call stack contains one of `_UNINTERRUPTIBLE_FUNCTIONS`.

    Args:
        frame: The innermost frame. If it belongs to a signal handler, the frames below the handler are examined.
    """
    # Without a timer, the interruption cannot be postponed.
    if not _HAS_TIMER:
        return False

    innermost = _skip_handlers(frame)
    is_in_library = True
    current = innermost
    while current is not None:
        function = current.f_code.co_name
        is_in_library = is_in_library and current.f_globals.get("__name__") in _LOCKING_MODULES
        if is_in_library and current is innermost and not _is_waiting(current):
            return True
        if is_in_library and function in _STARTING_FUNCTIONS:
            return True
        if function in _UNINTERRUPTIBLE_FUNCTIONS:
            return True
        current = current.f_back
    return False


def _is_waiting(frame: FrameType) -> bool:
    """Return True if a function of the standard library waits without holding a lock."""
    function = frame.f_code.co_qualname
    # `Condition.wait` releases its lock shortly before it assigns the local variable `gotit`.
    is_waiting_for_condition = function == "Condition.wait" and "gotit" in frame.f_locals
    return is_waiting_for_condition or function in _WAITING_FUNCTIONS


def _skip_handlers(frame: FrameType | None) -> FrameType | None:
    """Return the frame that was interrupted by the outermost signal handler, or the frame itself.

    A timer signal may arrive while the handler of the previous signal runs, so the stack may contain several
    handlers. A flag that handlers set would not be sufficient: a signal may arrive before the first instruction of a
    handler.
    """
    interrupted = frame
    current = frame
    while current is not None:
        is_handler = current.f_code.co_name in (_handle_signal.__name__, _handle_tick.__name__)
        if is_handler and current.f_globals is globals():
            interrupted = current.f_back
        current = current.f_back
    return interrupted
