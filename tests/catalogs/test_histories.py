"""Histories of several writers with faults before and after each request: no commit is lost or doubled, and none is
reported before its copy is durable.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import Any

import pytest

from deltacli.changing.commit import Committed, commit
from deltacli.changing.commit_options import CommitOptions
from deltacli.core.errors import DeltacliError, FileMissing, OutcomeUnknown, StorageFailed
from deltacli.storage import Created, Creation, Unknown
from deltacli.storage.base import FileStat
from deltacli.table.rebuild import read_snapshot
from tests.support.actions import Line
from tests.support.builder import commit_path
from tests.support.catalog_state import Body, CatalogState, Fault, KilledError, MemoryCatalog, ServerTable
from tests.support.effort import is_soaking
from tests.support.in_memory import MemoryStorage
from tests.support.managed_tables import ManagedTable, adding, paths_of, quiet_machine

HISTORIES = 2_000 if is_soaking() else 320
PARTS = 8
WRITERS, COMMITS = 16, 200 if is_soaking() else 4


class Watchful(CatalogState):
    """A server that looks, whenever a version is reported, whether each one up to it is published as it was staged."""

    def __init__(self, release: str) -> None:
        super().__init__(release)
        self.early: list[int] = []
        self.ratified: dict[int, str] = {}

    def _update(self, name: Any, body: bytes) -> Body:
        before = self.tables[name]
        answer = super()._update(name, body)
        after = self.tables[name]
        for row in after.rows:
            assert self.ratified.setdefault(row.version, row.file_name) == row.file_name
        left = {row.version for row in after.unpublished}
        self.early += [row.version for row in before.unpublished if row.version not in left and not _is_out(after, row)]
        return answer


def _is_out(table: ServerTable, row: Any) -> bool:
    assert table.store is not None
    try:
        published = table.store.read(commit_path(row.version))
    except FileMissing:
        return False
    return published == table.store.read(f"_delta_log/_staged_commits/{row.file_name}")


class FaultyStore(MemoryStorage):
    """The same files as another store, with faults before and after each call that commits and publishes."""

    def __init__(self, files: MemoryStorage, decide: Callable[[str], Fault | None]) -> None:
        super().__init__()
        self._files, self._lock, self._decide = files._files, files._lock, decide

    def _called(self, what: str, run: Callable[[], Any], lost: Callable[[], Any]) -> Any:
        fault = self._decide(what)
        if fault is Fault.KILLED_BEFORE:
            raise KilledError
        if fault is Fault.BEFORE:
            raise StorageFailed("the store does not answer")
        done = run()
        if fault is Fault.KILLED_AFTER:
            raise KilledError
        return done if fault is None else lost()

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        def put() -> Creation:
            return MemoryStorage.put_if_absent(self, path, data, modified_ms=modified_ms)

        return self._called("put", put, lambda: Unknown("the answer was lost"))  # type: ignore[no-any-return]

    def copy_within(self, source: str, target: str) -> Creation:
        def copy() -> Creation:
            data, modified_ms = self._get(source)
            return MemoryStorage.put_if_absent(self, target, data, modified_ms=modified_ms)

        return self._called("copy", copy, lambda: Unknown("the answer was lost"))  # type: ignore[no-any-return]

    def stat(self, path: str) -> FileStat:
        return self._called("stat", lambda: MemoryStorage.stat(self, path), _lost)  # type: ignore[no-any-return]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        data = self._called("read", lambda: MemoryStorage.read_range(self, path, offset, length), _lost)
        assert isinstance(data, bytes)
        return data


def _lost() -> Any:
    raise StorageFailed("the answer was lost")


@dataclass
class History:
    """One history by its seed: writers that begin while others are in the middle of a request."""

    seed: int
    outcomes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        release = self.random.choice(["0.5", "0.6", "main"])
        self.table = ManagedTable([0], release=release)
        self.state = Watchful(release)
        self.state.tables = self.table.state.tables
        self.table.state = self.state
        self.table.now.store = self.table.store
        # the last one: a catalog that hardly ever answers proposals
        self.rate, self.kills = self.random.choice([(0.02, True), (0.1, True), (0.25, True), (0.9, False)])
        self.left = self.random.randint(2, 6)

    def decide(self, what: str) -> Fault | None:
        if self.random.random() >= (self.rate if self.kills or what == "ratify" else 0.05):
            return None
        faults = [Fault.BEFORE, Fault.AFTER, *([Fault.KILLED_BEFORE, Fault.KILLED_AFTER] if self.kills else [])]
        if what == "ratify" and not self.kills:
            faults = [Fault.BEFORE, Fault.UNKNOWN]
        elif what == "ratify":
            faults += [Fault.UNKNOWN, Fault.UNKNOWN_DONE, Fault.LATE, Fault.LATE, Fault.THROTTLED, Fault.LOCKED]
        return self.random.choice(faults)

    def interrupt(self, _: str) -> None:
        """Let another writer run, or a publisher, while a request is on its way."""
        if self.left and self.random.random() < 0.25:
            self.write()

    def write(self) -> None:
        """Run one writer to its end, or one publisher."""
        self.left -= 1
        path = f"w{len(self.outcomes)}.parquet"
        self.outcomes[path] = "killed"
        catalog = MemoryCatalog(self.state, self.decide)
        catalog.before = self.interrupt
        self.table._opened = FaultyStore(self.table.memory, self.decide)
        try:
            opened = self.table.open(catalog, machine=quiet_machine(seed=len(self.outcomes)))[0]
            self.table._opened = self.table.now.store
            if self.random.random() < 0.2:
                self.outcomes[path] = "none"
                opened.publish_catalog()
            else:
                commit(opened.bind_to_directory(), adding(path))
                self.outcomes[path] = "committed"
        except KilledError:
            pass
        except OutcomeUnknown:
            self.outcomes[path] = "unknown"
        except DeltacliError as fault:
            self.outcomes[path] = "none" if self.outcomes[path] == "killed" else self.outcomes[path]
            self.last = fault
        finally:
            self.table._opened = self.table.now.store

    def run(self) -> None:
        while self.left:
            self.write()

    def judge(self) -> None:
        """Read the table with all that was ratified, publish it, and read it by path."""
        snapshot = read_snapshot(self.table.open()[0])
        found = paths_of(snapshot)
        for path, outcome in self.outcomes.items():
            times = found.count(path)
            allowed = {"committed": (1,), "none": (0,)}.get(outcome, (0, 1))
            assert times in allowed, (self.seed, path, outcome, found)
        assert len(found) == len({*found})
        assert self.state.early == [], self.seed
        assert snapshot.version == max(self.state.ratified, default=0) == len(self.state.ratified)
        self.table.open()[0].publish_catalog()
        lines = [line for version in range(1, snapshot.version + 1) for line in self.table.lines(version)]
        assert sorted(_paths(lines)) == sorted(path for path in found if path.startswith("w"))


_KILLS = [None, None, Fault.KILLED_BEFORE, Fault.KILLED_AFTER]


def _paths(lines: list[Line]) -> list[str]:
    return [line["add"]["path"] for line in lines if "add" in line]


@pytest.mark.parametrize("part", range(PARTS))
def test_no_history_loses_or_doubles_a_commit(part: int) -> None:
    ends = set[str]()
    for seed in range(part, HISTORIES, PARTS):
        history = History(seed)
        history.run()
        history.judge()
        ends.update(history.outcomes.values())
    assert ends == {"committed", "none", "unknown", "killed"}


class SortedStore(MemoryStorage):
    """Files that are listed from a name on without a look at all of them."""

    def __init__(self) -> None:
        super().__init__()
        self._sorted: dict[str, list[str]] = {}
        # Held while a file is created and its name is added: another publisher must not be told that a file exists
        # before listings contain it.
        self._names_lock = Lock()

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        with self._names_lock:
            creation = super().put_if_absent(path, data, modified_ms=modified_ms)
            if creation == Created():
                self._add_name(path)
        return creation

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        with self._names_lock:
            super().put(path, data, modified_ms=modified_ms)
            self._add_name(path)

    def _add_name(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        insort(self._sorted.setdefault(directory, []), name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        with self._names_lock:
            names = self._sorted.get(directory, [])
            listed_names = names[bisect_left(names, start) :]
        return iter([MemoryStorage.stat(self, f"{directory}/{name}") for name in listed_names])


def test_writers_and_publishers_that_are_killed_make_each_version_once() -> None:
    table = ManagedTable([0], store=SortedStore())
    state = Watchful("0.6")
    state.tables, table.state = table.state.tables, state
    table.now.store = table.store
    done, failed, news = list[int](), list[BaseException](), Condition()

    def write(writer: int) -> None:
        opened = table.open(machine=quiet_machine(seed=writer))[0].bind_to_directory()
        made: Committed | None = None
        for number in range(COMMITS):
            found = commit(
                opened, adding(f"{writer}-{number}.parquet"), after=made, options=CommitOptions(max_attempts=100_000)
            )
            assert isinstance(found, Committed)
            made = found
            with news:
                done.append(made.version)
                news.notify_all()

    def publish(publisher: int) -> None:
        chosen, seen = random.Random(publisher), -1
        while seen < WRITERS * COMMITS and not failed:
            catalog = table.catalog(decide=lambda _: chosen.choice(_KILLS))
            with suppress(KilledError, DeltacliError):
                table.open(catalog)[0].publish_catalog()
            with news:
                while not failed and len(done) <= seen:
                    news.wait()
                seen = len(done)

    def guarded(run: Callable[[int], None], number: int) -> None:
        try:
            run(number)
        except BaseException as fault:
            with news:
                failed.append(fault)
                news.notify_all()
            raise

    with ThreadPoolExecutor(WRITERS + 3) as pool:
        runs = [pool.submit(guarded, write, writer) for writer in range(WRITERS)]
        runs += [pool.submit(guarded, publish, publisher) for publisher in range(3)]
        for one in runs:
            one.result()
    assert sorted(done) == list(range(1, WRITERS * COMMITS + 1))
    assert state.early == []
    wanted = [f"{writer}-{number}.parquet" for writer in range(WRITERS) for number in range(COMMITS)]
    assert paths_of(read_snapshot(table.open()[0])) == sorted([*wanted, "part-00000.parquet"])
    assert len(state.ratified) == WRITERS * COMMITS
