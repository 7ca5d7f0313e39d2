"""Processes that all create the same files at the same time, and one that looks on."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier, Event
from types import TracebackType
from typing import Any

from deltacli.core.errors import FileMissing
from deltacli.storage import Storage, open_storage
from tests.support.waiting import SECONDS, answer_of


def payload(racer: int, number: int) -> bytes:
    """What a racer writes in a round: 100 KB that show whose they are wherever they are cut."""
    return f"{racer:03d}.{number:05d};".encode() * 10_000


class Onlooker:
    """Reads the newest file whenever it looks. `halves` are the names of those that were not one racer's payload."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage, self._directory = storage, directory
        self._newest = "0"  # what is unfinished begins with a dot, which is lower
        self.halves: list[str] = []
        self.looks = 0

    def look(self) -> None:
        """Look once."""
        try:
            names = [stat.name for stat in self._storage.list_from(self._directory, self._newest)]
        except FileMissing:
            return
        if names:
            self._newest = names[-1]
            data = self._storage.read(f"{self._directory}/{self._newest}")
            if data != payload(int(data[:3] or -1), int(self._newest)):
                self.halves.append(self._newest)
            self.looks += 1


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
        self._begun = context.Barrier(racers + 1, timeout=120)
        self._done = context.Event()
        self._queues: list[Any] = [context.SimpleQueue() for _ in range(racers + 1)]  # Any: what comes out of them
        self._racers = [
            context.Process(target=_race, args=(uri, racer, rounds, (self._begun, self._together), queue), daemon=True)
            for racer, queue in enumerate(self._queues[:-1])
        ]
        watched = (uri, self._begun, self._done, self._queues[-1])
        self._watcher = context.Process(target=_watch, args=watched, daemon=True)

    def __enter__(self) -> Race:
        for process in (*self._racers, self._watcher):
            process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._racers, self._watcher):
            if kind is not None:
                process.kill()
            process.join(SECONDS)
            process.close()

    def run(self) -> RaceResult:
        """Return what became of it."""
        by_racer = [answer_of(racer, queue) for racer, queue in zip(self._racers, self._queues, strict=False)]
        self._done.set()
        halves, looks = answer_of(self._watcher, self._queues[-1])
        outcomes = [[told[number] for told in by_racer] for number in range(self._rounds)]
        return RaceResult(outcomes, halves, looks)


def _race(uri: str, racer: int, rounds: int, barriers: tuple[Barrier, Barrier], answers: Any) -> None:
    outcomes: list[str] = []
    begun, together = barriers
    try:
        storage = open_storage(uri)
        begun.wait()
        for number in range(rounds):
            data = payload(racer, number)
            together.wait()
            outcomes.append(type(storage.put_if_absent(f"race/{number:03d}", data)).__name__)
    except Exception as fault:  # noqa: BLE001  (it would only be seen in another process's stderr)
        begun.abort()
        together.abort()
        outcomes += [repr(fault)] * (rounds - len(outcomes))
    answers.put(outcomes)


def _watch(uri: str, begun: Barrier, done: Event, seen: Any) -> None:
    onlooker = Onlooker(open_storage(uri), "race")
    try:
        begun.wait()
        while not done.is_set():
            onlooker.look()
    except Exception as fault:  # noqa: BLE001
        onlooker.halves.append(repr(fault))
    seen.put((onlooker.halves, onlooker.looks))
