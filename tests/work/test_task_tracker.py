"""Pieces of work that are counted while they run."""

from __future__ import annotations

from concurrent.futures import CancelledError

import pytest

from deltacli.core.pools import TaskTracker


def test_a_piece_that_a_thread_has_taken_does_not_begin_when_all_have_landed() -> None:
    begun: list[int] = []
    tracker = TaskTracker(begun.append)
    tracker.run(1)

    tracker.wait_idle()

    with pytest.raises(CancelledError):
        tracker.run(2)
    assert [1] == begun
