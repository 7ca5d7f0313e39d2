"""Tell whether the current thread is collecting garbage, where waiting for other threads can block for ever."""

from __future__ import annotations

import gc
from threading import get_ident

POLL_SECONDS = 0.1
"""Longest single wait for another thread.

Waits are repeated in a loop: a signal that arrives just before a wait begins does not interrupt it, and on Windows no
signal does.
"""

_NO_THREAD = 0
_collecting_thread_id = _NO_THREAD


def is_collecting_garbage() -> bool:
    """Return True if the caller runs as a finalizer, called by the garbage collector in this thread.

    A generator that nobody closes can be part of a reference cycle. The collector closes it: in any thread, in the
    middle of any call, while that thread holds any lock. Code that runs then must not wait for other threads, because
    they may wait for that lock.
    """
    return _collecting_thread_id == get_ident()


def _note_phase(phase: str, _info: dict[str, int]) -> None:
    """Remember which thread collects garbage. `gc.callbacks` calls this at the start and the end of each collection."""
    global _collecting_thread_id  # noqa: PLW0603
    _collecting_thread_id = get_ident() if phase == "start" else _NO_THREAD


# At import: a collection that began before a later registration would not be noticed.
gc.callbacks.append(_note_phase)
