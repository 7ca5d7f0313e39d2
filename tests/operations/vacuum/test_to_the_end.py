"""Deletions that a signal does not interrupt: they are done and noted, or they have not begun and never do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Event, Thread, main_thread

import pytest

from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.operations.vacuum import deleting
from tests.support.frames import callers


def test_an_interruption_never_overtakes_the_deletions() -> None:
    heard = Event()
    done: list[str] = []

    def on_signal(number: int, _frame: object) -> None:
        heard.set()
        raise Interrupted(number)

    def work() -> None:
        while "start" in callers(main_thread()):
            pass  # the main thread is not yet waiting
        os.kill(os.getpid(), signal.SIGTERM)
        heard.wait()
        done.append("noted")

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        with pytest.raises(Interrupted):
            deleting.to_the_end(work)
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
            deleting.to_the_end(lambda: done.append("noted"))

    monkeypatch.setattr(deleting, "Thread", Stillborn)
    ending = Thread(target=end, daemon=True)
    ending.start()
    ending.join(30)

    assert not ending.is_alive()
    late[0]()
    assert [] == done
