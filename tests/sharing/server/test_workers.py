"""What becomes of workers that end."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import pytest

from deltacli.core import tempfiles
from deltacli.core.errors import StorageFailed
from deltacli.sharing.server.serving import METRICS, LogChoice, Sockets, _Workers, serve_by_workers


def never_made(begun: Connection, end: Connection) -> NoReturn:
    """A service that takes for ever to be made."""
    begun.send_bytes(b"begun")
    end.recv_bytes()
    raise AssertionError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_that_is_still_starting(number: signal.Signals) -> None:
    pipe = get_context("spawn").Pipe
    (begun, beginning), (ending, end) = pipe(duplex=False), pipe(duplex=False)
    with socket.socket() as bound:
        pool = _Workers(lambda: partial(never_made, beginning, ending), Sockets(bound), 1, LogChoice())
        worker = pool._start_worker(pool.following())
        try:
            assert begun.poll(60)
            os.kill(worker.pid or 0, number)
            worker.join(30)
            code = worker.exitcode
        finally:
            worker.kill()

    end.close()
    assert 128 + number == code


@dataclass
class Process:
    """A worker that ends when the test says so."""

    sentinel: int
    pid: int = 1
    exitcode: int = 7

    def join(self) -> None:
        """It has ended."""


class NothingHappens(Exception):
    """Every worker runs for ever."""


@dataclass
class Pool(_Workers):
    """Workers without processes: each of them lives for some seconds, those beyond for ever."""

    lives: tuple[float, ...] = ()
    starts: list[float] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.clock, self.wait = lambda: self.now, self._pass_time

    def _start_worker(self, _: object) -> Any:  # Any: stands for a process
        process: Any = Process(len(self.starts))
        self.running.append(process)
        self.began[process.sentinel] = self.now
        self.starts.append(self.now)
        return process

    def _pass_time(self, sentinels: Sequence[int], pause: float | None) -> list[int]:
        ends = {self.starts[one] + self.lives[one]: one for one in sentinels if one < len(self.lives)}
        first = min(ends, default=None)
        if pause is not None and (first is None or self.now + pause < first):
            self.now += pause
            return []
        if first is None:
            raise NothingHappens
        self.now = first
        return [ends[first]]


def pool_of(*lives: float) -> Pool:
    with socket.socket() as closed:
        return Pool(lambda: never, Sockets(closed), 2, LogChoice(), lives=lives)


def never() -> NoReturn:
    """A service that no test here makes."""
    raise AssertionError


@pytest.fixture
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(METRICS, str(tmp_path))


@pytest.mark.usefixtures("metrics")
def test_a_worker_at_work_is_never_ended_because_others_cannot_start() -> None:
    pool = pool_of(10_000, 100, *[0.5] * 20)

    with pytest.raises(NothingHappens):
        pool.run()

    pauses = [later - earlier for earlier, later in zip(pool.starts[2:], pool.starts[3:], strict=False)]
    assert [1.5, 2.5, 4.5, 8.5, 16.5, 32.5, 60.5, 60.5] == pauses[:8]
    assert 2 == len(pool.running)


@pytest.mark.usefixtures("metrics")
def test_a_worker_that_was_at_work_is_replaced_at_once() -> None:
    pool = pool_of(100, 200)

    with pytest.raises(NothingHappens):
        pool.run()

    assert [0, 0, 100, 200] == pool.starts


@pytest.mark.usefixtures("metrics")
def test_a_server_whose_workers_all_end_at_their_start_gives_up() -> None:
    pool = pool_of(*(0.5 + number / 100 for number in range(40)))

    with pytest.raises(StorageFailed, match="end as soon as they start"):
        pool.run()

    assert len(pool.starts) < 10


def test_a_second_signal_removes_the_directory_of_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the process without the end of any `with`."""
    places: list[Path] = []

    def run(_: _Workers) -> None:
        places.append(Path(os.environ[METRICS]))
        tempfiles.remove_all()
        assert not places[0].exists()
        places[0].mkdir()

    monkeypatch.setattr(_Workers, "run", run)
    with socket.socket() as bound:
        serve_by_workers(lambda: pytest.fail("made"), Sockets(bound), 2, LogChoice())

    assert [False] == [place.exists() for place in places]
