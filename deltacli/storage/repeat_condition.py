"""A condition under which a thread may send a request again.

A deletion is permitted for a limited time after the log was checked. Retries deep below it must not
run past that time, and they run in threads of pools. The condition belongs to the thread; who
starts threads hands it on:

    may_repeat = get_repeat_condition()

    def work(path):
        with repeat_only_while(may_repeat):
            ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local

_thread_state = local()


@contextmanager
def repeat_only_while(is_allowed: Callable[[], bool]) -> Iterator[None]:
    """Repeat failed calls of this thread only while a condition holds."""
    previous = getattr(_thread_state, "is_allowed", None)
    _thread_state.is_allowed = is_allowed
    try:
        yield
    finally:
        _thread_state.is_allowed = previous


def may_send() -> bool:
    """Return whether this thread may send another request."""
    is_allowed: Callable[[], bool] | None = getattr(_thread_state, "is_allowed", None)
    return is_allowed is None or is_allowed()


def get_repeat_condition() -> Callable[[], bool]:
    """Return the condition of this thread, for the threads that it starts."""
    is_allowed: Callable[[], bool] | None = getattr(_thread_state, "is_allowed", None)
    return is_allowed or (lambda: True)
