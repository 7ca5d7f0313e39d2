"""Deletions that a signal does not interrupt: they are done and noted, or they have not begun and never do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

from deltacli.cli.terminal.signals import Interrupted
from deltacli.work.files import uninterrupted as uninterrupted_module
from deltacli.work.files.uninterrupted import StopRequest, run_uninterrupted
from tests.support.waiting import wait_until


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set once the main thread has started the other one."""
    event = Event()

    class Started(Thread):
        def start(self) -> None:
            super().start()
            event.set()

    monkeypatch.setattr(uninterrupted_module, "Thread", Started)
    return event


def test_an_interruption_never_overtakes_the_deletions(started: Event) -> None:
    heard = Event()
    done: list[str] = []

    def on_signal(number: int, _frame: object) -> None:
        heard.set()
        raise Interrupted(number)

    def work() -> None:
        assert started.wait(30)
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard.wait(30)
        done.append("noted")

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        with pytest.raises(Interrupted):
            run_uninterrupted(work, StopRequest())
        assert ["noted"] == done
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("fault", [Interrupted(signal.SIGTERM), RuntimeError("can't start new thread")], ids=repr)
def test_pending_work_never_starts_after_the_run_ends(fault: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of the thread is interrupted, or fails; the thread may come to life all the same."""
    late: list[Callable[[], None]] = []
    done: list[str] = []

    class Stillborn(Thread):
        def __init__(self, target: Callable[[], None], name: str) -> None:
            super().__init__(target=target, name=name)
            late.append(target)

        def start(self) -> None:
            raise fault

    def end() -> None:
        with pytest.raises(type(fault)):
            run_uninterrupted(lambda: done.append("noted"), StopRequest())

    monkeypatch.setattr(uninterrupted_module, "Thread", Stillborn)
    ending = Thread(target=end, daemon=True)
    ending.start()
    ending.join(30)

    assert not ending.is_alive()
    late[0]()
    assert [] == done


heard = Event()


def _signal() -> None:
    """Send a signal, and return once it was handled."""
    heard.clear()
    os.kill(os.getpid(), signal.SIGTERM)
    assert heard.wait(30)


@pytest.fixture
def raising() -> Iterator[None]:
    """A handler that raises for every signal, as the one of Python does."""

    def on_signal(number: int, _frame: object) -> None:
        heard.set()
        raise Interrupted(number)

    before = signal.signal(signal.SIGTERM, on_signal)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("raising")
@pytest.mark.parametrize("at_once, signals", [(True, 1), (False, 2), (False, 4)])
def test_work_that_is_told_to_stop_is_waited_for(started: Event, at_once: bool, signals: int) -> None:
    counted, seen = list[int](), list[bool]()

    class Counting(StopRequest):
        def after_signals(self, number: int) -> None:
            super().after_signals(number)
            counted.append(number)

    stop = Counting(at_once=at_once)

    def work() -> None:
        assert started.wait(30)
        for number in range(1, signals + 1):
            seen.append(stop())
            _signal()
            wait_until(lambda number=number: number in counted, "the main thread is ready for another signal")  # type: ignore[misc]
        wait_until(stop, "the work is told to stop")
        seen.append(stop())

    with pytest.raises(Interrupted):
        run_uninterrupted(work, stop)

    assert [False, True] == [seen[0], seen[-1]]
