"""Fetching ahead: order, errors in their place, and an end of the thread whatever the caller does."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from deltacli.engine.read_ahead import ReadAhead


def test_items_come_in_order_and_a_few_ahead() -> None:
    made: list[int] = []

    def source() -> Iterator[int]:
        for item in range(100):
            made.append(item)
            yield item

    items = ReadAhead(source(), depth=2)
    first = next(items)
    in_flight = len(made)

    assert [0, *range(1, 100)] == [first, *items]
    assert in_flight <= 5
    assert "deltacli-ahead" not in {thread.name for thread in threading.enumerate()}


def test_an_error_of_the_source_is_raised_in_its_place() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    items = ReadAhead(source())

    assert 1 == next(items)
    with pytest.raises(KeyError, match="broken"):
        next(items)


def test_a_caller_that_stops_early_closes_the_source() -> None:
    closed = []

    def source() -> Iterator[int]:
        try:
            yield from range(1_000)
        finally:
            closed.append(True)

    items = ReadAhead(source())
    next(items)
    items.close()

    assert [True] == closed
    assert "deltacli-ahead" not in {thread.name for thread in threading.enumerate()}


def test_an_interruption_while_the_thread_starts_closes_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has got the object to close it."""
    closed = threading.Event()
    start = threading.Thread.start

    class Hit(BaseException):
        pass

    def source() -> Iterator[int]:
        try:
            yield from range(1_000)
        finally:
            closed.set()

    def start_and_interrupt(thread: threading.Thread) -> None:
        start(thread)
        raise Hit

    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    with pytest.raises(Hit):
        ReadAhead(source())

    assert closed.wait(30)


def test_a_thread_that_python_takes_for_dead_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a signal in the middle of a join, or of `is_alive`."""
    closed: list[bool] = []

    def source() -> Iterator[int]:
        try:
            yield from range(1_000)
        finally:
            sum(range(2_000_000))  # long enough to be missed by whoever does not wait
            closed.append(True)

    items = ReadAhead(source())
    next(items)
    monkeypatch.setattr(threading.Thread, "is_alive", lambda _: False)
    items.close()

    assert [True] == closed


def test_a_source_that_fails_and_whose_close_fails_ends_all_the_same() -> None:
    class Broken:
        def __iter__(self) -> Broken:
            return self

        def __next__(self) -> int:
            raise KeyError("first")

        def close(self) -> None:
            raise OSError("second")

    with pytest.raises(KeyError, match="first"):
        next(ReadAhead(Broken()))
