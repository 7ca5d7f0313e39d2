"""Signals: the first one ends the run in good order, a second one ends it at once (decision 0033).

The first signal becomes `Interrupted`, which is raised in the main thread and unwinds the run. Two places cannot take
an exception: code of Python's library that holds a lock, which would never be released, and destructors, where Python
discards exceptions. There the interruption is put off by a timer, `_retry_later`, until it can be raised.
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
"""Signal -> what the user reads. Some systems have no SIGHUP."""

_RETRY_SECONDS = 0.001
"""The delay after which an interruption that was put off is tried again: many times longer than a lock is held."""

_HAS_TIMER = hasattr(signal, "setitimer")
"""Whether the system has timers; Windows has none."""

before_leaving: list[Callable[[], None]] = []
"""Called before a second signal ends the process, each once and for two seconds at the most."""


class Interrupted(BaseException):
    """A signal asked the run to end. Raised in the main thread at its current instruction.

    Not an Exception, so that no handler of errors catches it. A command that changes a table catches it, stores what
    it did in `outcome`, and raises it again.

    Attributes:
        number: The number of the signal.
        outcome: What was changed before the end, for the message.
    """

    outcome = "nothing was changed"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """Return the exit code of shells for a process that a signal has ended."""
        return 128 + self.number

    @property
    def signal_name(self) -> str:
        """Return the name of the signal, such as `SIGINT`."""
        return signal.Signals(self.number).name

    @property
    def message(self) -> str:
        """Return what the user reads: the signal, and what was changed."""
        return f"{_DESCRIPTIONS[self.signal_name]}; {self.outcome}"

    def unwind(self) -> None:
        """Release the interrupted frames, which closes their generators and ends the tasks in flight."""
        error: BaseException | None = self
        while error is not None:
            if error.__traceback__ is not None:
                traceback.clear_frames(error.__traceback__)
            error = error.__context__


class PagerQuitError(Exception):
    """The user has left the pager: the run ends with success."""


class _RunState:
    """The signals received in this run.

    Attributes:
        first_signal: The number of the first signal; None as long as there was none.
        has_raised: Whether that signal has become an Interrupted, so that a late timer has nothing to do.
        is_retrying: Whether a lost interruption is being sent again, during which another would be lost, too.
        is_pager_running: Returns whether a pager is in front, which gets Ctrl-C instead of the run.
    """

    first_signal: int | None = None
    has_raised: bool = False
    is_retrying: bool = False
    is_pager_running: Callable[[], bool] | None = None


_run = _RunState()


@contextlib.contextmanager
def raise_on_signals() -> Iterator[None]:
    """Turn the first signal into Interrupted; a second one ends the process.

    Signals that the parent ignores (`nohup`, a background job of a script) stay ignored. Outside the main thread
    signals cannot be handled, and nothing is changed.
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
        pass  # not the main thread: the caller handles signals
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
    """Ignore Ctrl-C while a pager is in front, because it is meant for the pager.

    Args:
        is_running: Returns False once the pager has ended.
    """
    _run.is_pager_running = is_running
    try:
        yield
    finally:
        _run.is_pager_running = None


def is_interrupted() -> bool:
    """Return True once a signal asked this run to end."""
    return _run.first_signal is not None


def has_raised_interruption() -> bool:
    """Return True once the first signal has become an Interrupted in the main thread, or the run has ended."""
    return _run.has_raised


def _handle_signal(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT and _run.is_pager_running is not None and _run.is_pager_running():
        return
    if _run.first_signal is None:
        _run.first_signal = number
        line = get_live_line()
        if line is not None:
            line.stopping()
        _interrupt(number, frame)
    elif number in (signal.SIGINT, signal.SIGTERM):  # a terminal that closes sends SIGHUP more than once
        _leave_at_once(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise the interruption, or try again later where it would be lost or leave a lock held forever."""
    # On a busy machine the hook of destructors may still be running when its own timer ends.
    if _run.is_retrying or _is_locking(frame):
        _retry_later(number)
        return
    _run.has_raised = True
    raise Interrupted(number)


def _leave_at_once(number: int) -> NoReturn:
    """End the process without waiting for its threads.

    Before that, temporary files and the progress line are removed, and work elsewhere is asked to end. If that takes
    too long or stderr blocks, another signal ends the process by itself.
    """
    tempfiles.remove_all()
    signal.signal(number, signal.SIG_DFL)
    try:
        for abandon in before_leaving:
            abandon()
        line = get_live_line()
        if line is not None:
            line.leave()
    finally:
        # The normal end of Python would wait for every thread, and one of them may never return from a store.
        os._exit(128 + number)


def _raise_lost_interruption(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interruption again that Python has discarded in a destructor, after the destructor has ended."""
    if not isinstance(unraisable.exc_value, Interrupted):
        show_unraisable(unraisable)
        return
    _run.is_retrying = True
    try:
        _retry_later(unraisable.exc_value.number)
    finally:
        _run.is_retrying = False


def _retry_later(number: int) -> None:
    """Raise the interruption of a signal in this thread after a delay.

    A timer of the system is used where there is one: a thread cannot be started in a signal handler that may have
    interrupted the start of another thread. The timer goes on until the interruption is raised, because a call that
    blocks just as the first tick arrives would otherwise wait forever.
    """
    if not _HAS_TIMER:
        _run.first_signal = None
        timer = Timer(_RETRY_SECONDS, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()
        return

    _run.has_raised = False
    # The handler is never taken back: without it, a tick that comes late would end the process.
    if signal.getsignal(signal.SIGALRM) is not _handle_tick:
        signal.signal(signal.SIGALRM, _handle_tick)
    signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS, _RETRY_SECONDS)


def _handle_tick(_: int, frame: FrameType | None) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    # Another thread of the system may take a tick, and Python hears of it when all is over.
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
"""Modules of Python's library that take locks of other threads in Python code. An exception between the acquisition of
a lock and the `try` that releases it leaves the lock held, and a thread that needs it never ends.
"""

_STARTING_FUNCTIONS = ("start", "submit")
"""Functions of these modules in which a thread is being started, and waiting for it must not be interrupted."""

_WAITING_FUNCTIONS = ("Thread._wait_for_tstate_lock", "Thread.join", "StreamHandler.emit")
"""Functions of these modules that wait or write, and are made to be interrupted."""

_INDIVISIBLE_FUNCTIONS = ("__set_name__", "_execute_child", "_internal_poll", "_start_worker")
"""Functions that must run to their end, wherever they are.

`__set_name__`: Python 3.11 makes another exception of one that is raised in it. `_execute_child` and `_internal_poll`
are of `subprocess`: a process would be started whose number nobody knows, or the lock of its end would stay held.
`_start_worker` starts a worker of `share serve`.
"""


def _is_locking(frame: FrameType | None) -> bool:
    """Return True if code in the call stack may hold a lock that an exception would not release.

    That is the case if the innermost frame is in a module that takes locks and does not wait, if a thread is being
    started there, or if a function that must run to its end is anywhere in the stack.

    Args:
        frame: The innermost frame that was interrupted. Handlers of signals on the stack are looked through.
    """
    if not _HAS_TIMER:
        return False  # the interruption cannot be put off

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
        if function in _INDIVISIBLE_FUNCTIONS:
            return True
        current = current.f_back
    return False


def _is_waiting(frame: FrameType) -> bool:
    """Return True where Python's library waits, and expects to be interrupted."""
    function = frame.f_code.co_qualname
    # `Condition.wait` holds its lock until it has a waiter; from then on it has the variable `gotit`.
    is_waiting_for_condition = function == "Condition.wait" and "gotit" in frame.f_locals
    return is_waiting_for_condition or function in _WAITING_FUNCTIONS


def _skip_handlers(frame: FrameType | None) -> FrameType | None:
    """Return the frame that the oldest handler on the stack interrupted, or the frame itself without one.

    A tick may come while the last one is being handled. What counts is the code below both. The stack is searched
    instead of a flag that the handlers set: a tick may come before the first instruction of a handler.
    """
    interrupted = frame
    current = frame
    while current is not None:
        is_handler = current.f_code.co_name in (_handle_signal.__name__, _handle_tick.__name__)
        if is_handler and current.f_globals is globals():
            interrupted = current.f_back
        current = current.f_back
    return interrupted
