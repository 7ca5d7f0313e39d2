"""Pieces of work in threads, counted while they run, so that whoever stops early knows when none does any more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from threading import Condition
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

POLL_SECONDS = 0.1
"""Seconds of a single wait. A signal that arrives just before the main thread falls asleep does not wake it; and on
Windows none does.
"""


class TaskTracker(Generic[Piece, Result]):
    """The pieces of a pool that are running.

    Joining threads is not enough: an interruption in the middle of `submit` hides a thread from its pool, and after one
    in the middle of a join, Python 3.11 and 3.12 take the thread for dead.
    """

    def __init__(self, work: Callable[[Piece], Result]) -> None:
        self._work = work
        self._changed = Condition()
        self._running = 0
        self._is_over = False

    def run(self, piece: Piece) -> Result:
        """Run one piece. Raises CancelledError after `land`: a thread may have taken it and not yet begun."""
        with self._changed:
            if self._is_over:
                raise CancelledError
            self._running += 1
        try:
            return self._work(piece)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait_idle(self) -> None:
        """Return when no piece is running; none begins any more."""
        with self._changed:
            self._is_over = True
            while self._running:
                self._changed.wait(POLL_SECONDS)
