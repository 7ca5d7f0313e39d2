"""Detect code that runs as a finalizer of the garbage collector, where waiting for another thread can deadlock."""

from __future__ import annotations

import gc
from threading import get_ident

POLL_SECONDS = 0.1
"""Longest single wait for another thread.

Callers wait in a loop. Between two waits Python runs the handlers of signals: a signal that arrives just before a wait
does not interrupt the wait, and on Windows no signal does.
"""

_NO_THREAD = 0
_collecting_thread_id = _NO_THREAD


def is_collecting_garbage() -> bool:
    """Return True if the garbage collector, running in this thread, has called the caller.

    The collector closes generators that are part of a reference cycle and were not closed before. It runs in any
    thread, at any allocation, while that thread may hold any lock. The `finally` block of such a generator must not
    wait for another thread, because that thread may be waiting for the lock.
    """
    return _collecting_thread_id == get_ident()


def _note_phase(phase: str, _info: dict[str, int]) -> None:
    """Store the id of the collecting thread. Python calls this at the start and the end of each collection."""
    global _collecting_thread_id  # noqa: PLW0603
    _collecting_thread_id = get_ident() if phase == "start" else _NO_THREAD


# Registered at import: a collection that starts before the registration would not be detected.
gc.callbacks.append(_note_phase)
