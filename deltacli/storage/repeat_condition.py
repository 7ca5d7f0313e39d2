"""A condition that stops retries.

Before files are deleted, the log is checked. The result is only valid for a limited time, after which
no file may be deleted, not even by a retry of an earlier request. The retry loop is many calls below
the code that knows the time limit, and runs in threads of a pool. The condition is therefore stored
per thread. Code that starts threads must pass it on:

    is_allowed = get_repeat_condition()

    def work(path):
        with repeat_only_while(is_allowed):
            ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local

_thread_state = local()


@contextmanager
def repeat_only_while(is_allowed: Callable[[], bool]) -> Iterator[None]:
    """Allow retries in this thread only while a condition is true.

    Args:
        is_allowed: Called before each retry inside the block.
    """
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
    """Return the condition of this thread, to pass it to other threads. Without a condition, it is always true."""
    is_allowed: Callable[[], bool] | None = getattr(_thread_state, "is_allowed", None)
    return is_allowed or (lambda: True)
