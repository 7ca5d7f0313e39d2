"""Writers that commit distinct properties to one table as fast as they can, and a process that cares for its log."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from typing import Any

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, OutcomeUnknown
from deltacli.core.machine import system_clock
from deltacli.storage import open_storage

_DAY_MS = 86_400_000
_AHEAD_MS = 40 * _DAY_MS
"""The clock of the care is so far ahead that every commit but the newest ones has expired."""


@dataclass
class Told:
    """What a process reports: versions by key, keys whose outcome it could not find out, and its failures by code."""

    done: dict[str, int] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    cares: Counter[str] = field(default_factory=Counter)


def write(uri: str, number: int, count: Any, most: int, stop: Event, answers: Any) -> None:  # Any: of multiprocessing
    """Commit one property after the other until enough commits are made by all writers together."""
    told = Told()
    turn = 0
    while not stop.is_set():
        key, turn = f"load.w{number:02}.{turn:05}", turn + 1
        try:
            made = Table(open_storage(uri)).set_properties({key: "yes"})
            assert made.committed_version is not None
            told.done[key] = made.committed_version
            with count.get_lock():
                count.value += 1
                if count.value >= most:
                    stop.set()
        except OutcomeUnknown as fault:
            told.unknown.append(key)
            told.codes[fault.code] += 1
        except DeltacliError as fault:
            told.failed.append(key)
            told.codes[fault.code] += 1
    answers.put(told)


def care(uri: str, stop: Event, answers: Any) -> None:  # Any: of multiprocessing
    """Write checkpoints, expire the log and vacuum, one after the other, until the writers stop."""
    told = Told()
    clock = lambda: system_clock() + _AHEAD_MS  # noqa: E731
    while not stop.is_set():
        for name in ("checkpoint", "expire", "vacuum"):
            table = Table(open_storage(uri), clock=clock)
            try:
                match name:
                    case "checkpoint":
                        table.checkpoint()
                    case "expire":
                        outcome = table.expire_log().outcome
                        told.cares["files expired"] += outcome.deleted if outcome else 0
                    case _:
                        done = table.vacuum(max_delete="100%").outcome
                        told.done |= _versions(done, told.cares["vacuum"])
                told.cares[name] += 1
            except DeltacliError as fault:
                told.codes[f"{name}: {fault.code}"] += 1
            stop.wait(0.5)
    answers.put(told)


def _versions(outcome: Any, number: int) -> dict[str, int]:  # Any: the outcome of a vacuum, or None
    """The versions of the commits of a vacuum."""
    if outcome is None:
        return {}
    found = {"start": outcome.start_version, "end": outcome.end_version}
    return {f"vacuum {number} {name}": version for name, version in found.items() if version is not None}


@dataclass(frozen=True)
class Loaded:
    """What all writers and the care reported, and how many seconds they took."""

    writers: list[Told]
    care: Told
    seconds: float

    @property
    def done(self) -> dict[str, int]:
        return {key: version for told in self.writers for key, version in told.done.items()}

    @property
    def codes(self) -> Counter[str]:
        return sum((told.codes for told in self.writers), Counter[str]())


def load(uri: str, *, writers: int, commits: int, seconds: float) -> Loaded:
    """Run the writers and the care until there are enough commits or the time is over."""
    context = multiprocessing.get_context("spawn")
    stop, answers, count = context.Event(), context.Queue(), context.Value("i", 0)
    minder_answers = context.Queue()
    processes = [
        context.Process(target=write, args=(uri, number, count, commits, stop, answers), daemon=True)
        for number in range(writers)
    ]
    processes.append(context.Process(target=care, args=(uri, stop, minder_answers), daemon=True))
    began = time.monotonic()
    for process in processes:
        process.start()
    stop.wait(seconds)
    stop.set()
    told = [answers.get(timeout=300) for _ in range(writers)]
    minded = minder_answers.get(timeout=300)
    for process in processes:
        process.join(60)
    return Loaded(told, minded, time.monotonic() - began)
