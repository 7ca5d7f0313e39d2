"""Pieces of work that are counted while they run."""

from __future__ import annotations

from concurrent.futures import CancelledError

import pytest

from deltacli.work.flights import Flights


def test_a_piece_that_a_thread_has_taken_does_not_begin_when_all_have_landed() -> None:
    begun: list[int] = []
    flights = Flights(begun.append)
    flights.fly(1)

    flights.land()

    with pytest.raises(CancelledError):
        flights.fly(2)
    assert [1] == begun
