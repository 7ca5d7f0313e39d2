"""Processes that all create the same files at the same time, and one that looks on."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier, Event
from types import TracebackType
from typing import Any

from deltacli.errors import FileMissing
from deltacli.storage import Storage, open_storage


def payload(racer: int, number: int) -> bytes:
    """What a racer writes in a round: 100 KB that show whose they are wherever they are cut."""
    return f"{racer:03d}.{number:05d};".encode() * 10_000


def half_seen(storage: Storage, directory: str) -> list[str]:
    """Read the newest files that are there and return those that are not one racer's whole payload."""
    try:
        names = [stat.name for stat in storage.list_from(directory, "0")]  # what is unfinished begins with a dot
    except FileMissing:
        return []
    found = []
    for name in names[-3:]:
        data = storage.read(f"{directory}/{name}")
        racer = int(data[:3] or -1)
        if data != payload(racer, int(name)):
            found.append(name)
    return found


@dataclass(frozen=True)
class RaceResult:
    """Per round the outcomes by racer, the names that were seen half, and how often somebody looked."""

    outcomes: list[list[str]]
    halves: list[str]
    looks: int


class Race:
    """Processes that are started once and run all rounds, each round behind a barrier."""

    def __init__(self, uri: str, *, racers: int, rounds: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._rounds = rounds
        self._together = context.Barrier(racers, timeout=120)
        self._done = context.Event()
        self._answers: Any = context.SimpleQueue()  # Any: what comes out of it
        self._seen: Any = context.SimpleQueue()
        self._racers = [
            context.Process(target=_race, args=(uri, racer, rounds, self._together, self._answers), daemon=True)
            for racer in range(racers)
        ]
        self._watcher = context.Process(target=_watch, args=(uri, self._done, self._seen), daemon=True)

    def __enter__(self) -> Race:
        for process in (*self._racers, self._watcher):
            process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._racers, self._watcher):
            if kind is not None:
                process.terminate()
            process.join()
            process.close()

    def run(self) -> RaceResult:
        """Return what became of it."""
        by_racer = dict(self._answers.get() for _ in self._racers)
        self._done.set()
        halves, looks = self._seen.get()
        outcomes = [[by_racer[racer][number] for racer in range(len(self._racers))] for number in range(self._rounds)]
        return RaceResult(outcomes, halves, looks)


def _race(uri: str, racer: int, rounds: int, together: Barrier, answers: Any) -> None:
    outcomes: list[str] = []
    try:
        storage = open_storage(uri)
        for number in range(rounds):
            data = payload(racer, number)
            together.wait()
            outcomes.append(type(storage.put_if_absent(f"race/{number:03d}", data)).__name__)
    except Exception as fault:  # noqa: BLE001  (it would only be seen in another process's stderr)
        together.abort()
        outcomes += [repr(fault)] * (rounds - len(outcomes))
    answers.put((racer, outcomes))


def _watch(uri: str, done: Event, answers: Any) -> None:
    halves, looks = [], 0
    try:
        storage = open_storage(uri)
        while not done.is_set():
            halves += half_seen(storage, "race")
            looks += 1
    except Exception as fault:  # noqa: BLE001
        halves.append(repr(fault))
    answers.put((halves, looks))
