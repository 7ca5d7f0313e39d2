"""Run work that must not be interrupted: a signal ends it only in an orderly way."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread

_PATIENCE = 0.1


class StopRequest:
    """Tells work in another thread to end early, because a signal has arrived.

    The first signal lets what was begun finish, and a second one ends it. With `at_once`, the first one ends it.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._asked = Event()
        self._ending = Event()
        self._at_once = at_once

    @property
    def is_ending(self) -> bool:
        """Return whether a signal has arrived, so that nothing new should begin."""
        return self._ending.is_set()

    def __call__(self) -> bool:
        """Return True once the work is to end as soon as possible."""
        return self._asked.is_set()

    def after_signals(self, number: int) -> None:
        """Take note that so many signals have arrived."""
        self._ending.set()
        if self._at_once or number > 1:
            self._asked.set()


def run_uninterrupted(work: Callable[[], None], stop: StopRequest) -> None:
    """Run a function in a thread of its own, and wait for it whatever happens.

    A signal to the main thread ends the run only after the work has ended, and what it did is recorded. However many
    signals arrive, no work is left behind. The first one is raised again.

    Args:
        work: The function.
        stop: Tells the work when to end early.
    """
    raised: list[BaseException] = []
    begun = Lock()  # the first thread to acquire it decides whether the work is done or dropped
    done = Event()  # `Thread.join` may consider a thread dead after a signal (Python 3.11 and 3.12)

    def run() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            work()
        except BaseException as fault:  # noqa: BLE001  (raised again in the waiting thread)
            raised.append(fault)
        finally:
            done.set()

    try:
        Thread(target=run, name="deltacli-delete").start()
        _await(done)
    except BaseException:  # a signal, or no more threads: work that has not started is dropped
        if not begun.acquire(blocking=False):
            _await_despite_signals(done, stop)
        raise
    if raised:
        raise raised[0]


def _await_despite_signals(done: Event, stop: StopRequest) -> None:
    signals = 1
    while not done.is_set():
        try:
            stop.after_signals(signals)
            _await(done)
        except BaseException:  # noqa: BLE001  (another signal; the first one is raised by the caller)
            signals += 1


def _await(done: Event) -> None:
    while not done.wait(_PATIENCE):  # the system may deliver a signal to another thread, so poll for it
        pass
