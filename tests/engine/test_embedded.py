"""The engine of one process: order kept, few in flight, the first error ends it."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from threading import Barrier, Event, Lock, Thread, current_thread
from typing import Any

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from tests.support.waiting import join


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_results_come_in_the_order_of_the_pieces(threads: int, count: int) -> None:
    assert [piece * piece for piece in range(count)] == list(EmbeddedEngine(threads).run(lambda x: x * x, range(count)))


def test_pieces_run_at_the_same_time() -> None:
    """
    Two pieces that wait for each other.
    """
    meeting = Barrier(2, timeout=30)

    names = set(EmbeddedEngine(2).run(lambda _: meeting.wait() is None or current_thread().name, range(2)))

    assert 2 == len(names)


def test_pieces_that_wait_for_a_store_run_in_more_threads_than_processors() -> None:
    meeting = Barrier(8, timeout=30)

    results = EmbeddedEngine(1).run(lambda piece: (meeting.wait(), piece)[1], range(16), at_once=8)

    assert list(range(16)) == list(results)


@pytest.mark.parametrize("threads", [1, 3])
def test_few_pieces_are_taken_ahead(threads: int) -> None:
    taken = []

    def pieces() -> object:
        for piece in range(1_000):
            taken.append(piece)
            yield piece

    results = EmbeddedEngine(threads).run(lambda x: x, pieces())  # type: ignore[arg-type, var-annotated]
    next(results)
    results.close()  # type: ignore[attr-defined]

    assert len(taken) <= 2 * threads + 2


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_piece_that_fails_ends_the_run(threads: int) -> None:
    done = []
    lock = Lock()

    def work(piece: int) -> int:
        if piece == 5:
            raise ValueError(piece)
        with lock:
            done.append(piece)
        return piece

    with pytest.raises(ValueError, match="5"):
        list(EmbeddedEngine(threads).run(work, range(1_000)))

    assert {0, 1, 2, 3, 4} <= set(done)
    assert len(done) < 100


def test_an_interruption_waits_for_pieces_in_flight_and_starts_no_other() -> None:
    """
    Raised by a signal while the pieces are still being handed out, where a thread of the pool is easily forgotten.
    """

    class Hit(BaseException):
        pass

    def interrupt(_number: int, _frame: object) -> None:
        raise Hit

    begun, ended = [], []

    def work(piece: int) -> int:
        begun.append(piece)
        if piece == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
            sum(range(2_000_000))  # long enough to be missed by whoever does not wait
        ended.append(piece)
        return piece

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Hit):
            list(EmbeddedEngine(2).run(work, range(1_000)))
        at_once = list(ended)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert 0 in at_once
    assert sorted(begun) == sorted(at_once)
    assert len(begun) < 1_000


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_stream_contains_what_every_piece_yields_in_any_order(threads: int) -> None:
    def work(piece: int) -> Iterator[tuple[int, int]]:
        yield from ((piece, item) for item in range(piece))

    streams = [list(EmbeddedEngine(threads).stream(work, range(8))) for _ in range(2)]

    assert {(piece, item) for piece in range(8) for item in range(piece)} == set(streams[0])
    assert streams[0] == streams[1]
    assert sorted(streams[0], key=lambda found: found[0]) == [(p, i) for p in range(8) for i in range(p)]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_stream_is_raised_and_what_was_begun_is_closed(threads: int) -> None:
    begun, closed = [], []

    def work(piece: int) -> Iterator[int]:
        begun.append(piece)
        try:
            yield piece
            if piece == 4:
                raise ValueError(piece)
            yield piece
        finally:
            closed.append(piece)

    with pytest.raises(ValueError, match="4"):
        list(EmbeddedEngine(threads).stream(work, range(100)))

    assert sorted(begun) == sorted(closed)
    assert len(begun) <= 4 + threads


def test_a_forgotten_run_does_not_hold_up_the_garbage_collector() -> None:
    """The collector runs in any thread, which may hold a lock that the running piece needs."""
    begun, release = Event(), Event()

    def work(number: int) -> int:
        if number:
            begun.set()
            release.wait(30)
        return number

    forgotten: list[Any] = [EmbeddedEngine(2).run(work, range(4))]
    forgotten.append(forgotten)
    assert 0 == next(forgotten[0])
    assert begun.wait(30)
    del forgotten
    collecting = Thread(target=gc.collect)
    collecting.start()
    collecting.join(10)
    held_up = collecting.is_alive()
    release.set()
    join(collecting)

    assert not held_up
