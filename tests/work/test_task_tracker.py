"""Pieces of work that are counted while they run."""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Event

import pytest

from deltacli.core.pools import TaskTracker, ThreadPool


def test_a_piece_that_a_thread_has_taken_does_not_begin_when_all_have_landed() -> None:
    begun: list[int] = []
    tracker = TaskTracker(begun.append)
    tracker.run(1)

    tracker.wait_idle()

    with pytest.raises(CancelledError):
        tracker.run(2)
    assert [1] == begun


def test_an_exception_ends_a_pool_without_the_tasks_that_wait() -> None:
    """As a signal does between two calls of `submit`."""
    begun, dropped = Event(), Event()

    def work() -> None:
        begun.set()
        dropped.wait(30)

    with suppress(KeyboardInterrupt), ThreadPool(1) as pool:
        first, second = pool.submit(work), pool.submit(work)
        second.add_done_callback(lambda _: dropped.set())
        assert begun.wait(30)
        raise KeyboardInterrupt

    assert (False, True) == (first.cancelled(), second.cancelled())
