"""A store over a network on virtual time, in which another writer appends all the while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from threading import Lock, current_thread, main_thread
from typing import Any, TypeVar

from deltacli.api.table import Table
from deltacli.core.machine import Machine, fixed_clock
from deltacli.storage import Capabilities, Creation, Existed, FileStat
from tests.support.actions import add, commit_info, to_bytes
from tests.support.builder import commit_path
from tests.support.in_memory import MemoryStorage
from tests.support.reading import NOW_MS
from tests.support.storage import FAR

T = TypeVar("T")
_LATENCY = (0.020, 0.050)


class BusyStorage(MemoryStorage):
    """Every request takes 20 to 50 ms; those of other threads pass at the same time. `every` is the time between two
    commits of the other writer, in seconds, which begins at the first `put_if_absent`.
    """

    def __init__(self, files: MemoryStorage, *, every: float, first_version: int) -> None:
        super().__init__()
        self._files = files._files
        self.now = 1000.0
        self.reads = Counter[str]()
        """By path."""
        self._ready_at = 0.0
        """When the requests of other threads are answered."""
        self._random, self._draw = Random(7), Lock()
        self._every, self.version = every, first_version
        self._next_at: float | None = None
        self.machine = Machine(monotonic=lambda: self.now, sleep=self._wait, random_bytes=self._random.randbytes)

    @property
    def capabilities(self) -> Capabilities:
        return FAR

    @property
    def table(self) -> Table:
        return Table(self, clock=fixed_clock(NOW_MS), machine=self.machine)

    def _wait(self, seconds: float) -> None:
        self.now = max(self.now, self._ready_at) + seconds
        while self._next_at is not None and self._next_at <= self.now:
            lines = [commit_info("WRITE"), add(f"by-another-{self.version}", records=1, size=7)]
            while super().put_if_absent(commit_path(self.version), to_bytes(lines), modified_ms=NOW_MS) == Existed():
                self.version += 1
            self._next_at += self._every

    def _ask(self, act: Callable[[], T]) -> T:
        with self._draw:
            there, back = (self._random.uniform(*_LATENCY) / 2 for _ in range(2))
            if current_thread() is not main_thread():
                self._ready_at = max(self._ready_at, self.now + there + back)
                return act()
        self._wait(there)
        try:
            return act()
        finally:
            self._wait(back)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        if self._next_at is None:
            self._next_at = self.now
        return self._ask(lambda: super(BusyStorage, self).put_if_absent(path, data, modified_ms=modified_ms))

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        return iter(self._ask(lambda: list(super(BusyStorage, self).list_from(directory, start))))

    def read(self, path: str) -> bytes:
        self.reads[path] += 1
        return self._ask(lambda: super(BusyStorage, self).read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._ask(lambda: self._get(path)[0][offset : offset + length])

    def stat(self, path: str) -> FileStat:
        return self._ask(lambda: super(BusyStorage, self).stat(path))

    def open(self, path: str) -> Any:  # Any: a file, as in the port
        return self._ask(lambda: super(BusyStorage, self).open(path))
