"""Tables of one process do not wait for each other: no lock and no semaphore of the process is held over a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import count
from threading import Event, Thread

import pytest

from deltacli.api.table import Table
from deltacli.storage import Storage
from tests.support.effort import InTurn
from tests.support.in_memory import MemoryStorage
from tests.support.optimizing import Ids
from tests.support.reading import open_at
from tests.support.storage import FAR, RecordingStorage
from tests.support.waiting import SECONDS, join, wait_until

BLOCKED = 3
"""Tables whose stores do not answer: more than may be sorted at once in all of the memory."""
MOST_CALLS = 16
PATIENCE = 10.0


class Waiting(RecordingStorage):
    """A store that does not answer its call number `at` before `go_on`."""

    def __init__(self, inner: Storage, at: int) -> None:
        super().__init__(inner, capabilities=FAR)
        self._numbers, self._at = count(), at
        self.arrived, self.go_on = Event(), Event()

    def _note(self, verb: str, path: str) -> None:
        super()._note(verb, path)
        if next(self._numbers) == self._at:
            self.arrived.set()
            assert self.go_on.wait(SECONDS)


@cache
def content() -> MemoryStorage:
    """Return a table whose time of a version needs a second listing: the first one begins at a checkpoint."""
    storage = Ids().append("a", "b", rows=50).append("c").append("d", p="1").builder.in_memory()
    open_at(storage).checkpoint()
    return storage


def made() -> Storage:
    """Return a copy of the table, which takes nothing of the time of building it."""
    storage = MemoryStorage()
    storage._files.update(content()._files)
    return storage


def time(table: Table) -> object:
    return table.snapshot().time


def is_waiting(store: Waiting, thread: Thread) -> bool:
    """Return whether the store has got the call, or the thread has ended without it."""
    return store.arrived.is_set() or not thread.is_alive()


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "time": time,
    "history": lambda table: table.history(),
    "read": lambda table: table.snapshot().scan().to_arrow(),
    "changes": lambda table: list(table.changes(from_version=1)),
    "validate": lambda table: table.validate(level="data"),
    "doctor": lambda table: table.doctor(),
    "reach": lambda table: table.reach(),
    "vacuum": lambda table: table.vacuum(dry_run=True),
    "restore": lambda table: table.restore(version=1),
    "checkpoint": lambda table: table.checkpoint(),
    "z-order": lambda table: table.optimize(zorder=["id"]),
}


@pytest.mark.halved
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_table_whose_store_does_not_answer_delays_no_other_table(name: str, in_turn: InTurn) -> None:
    """
    At calls from the first to the last one of the operation.
    """
    operate = OPERATIONS[name]
    recording = RecordingStorage(made(), capabilities=FAR)
    operate(open_at(recording))
    calls = sum(recording.calls.values())
    assert calls > 1

    for at in in_turn(range(0, calls, -(-calls // MOST_CALLS))):
        what = f"{name}, call {at}"
        stores = [Waiting(made(), at) for _ in range(BLOCKED)]
        threads = [Thread(target=operate, args=[open_at(store)], daemon=True) for store in stores]
        for thread in threads:
            thread.start()
        try:
            for pair in zip(stores, threads, strict=True):
                wait_until(partial(is_waiting, *pair), what, PATIENCE)
            other = Thread(target=operate, args=[open_at(made())], daemon=True, name=what)
            other.start()
            join(other, PATIENCE)
        finally:
            for store in stores:
                store.go_on.set()
            for thread in threads:
                join(thread)
