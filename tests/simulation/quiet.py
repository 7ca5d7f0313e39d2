"""A schedule in which nobody else acts, and a store that tells its watchers: for pasts of tables and for tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from deltacli.storage.outcomes import Creation, Deletion
from tests.simulation.promises import Tree
from tests.support.builder import Files, StoredFile
from tests.support.in_memory import MemoryStorage

START_MS = 1_780_000_000_000


class Watcher(Protocol):
    """Is told of each change of a directory."""

    def changed(
        self, tree: Tree, path: str, before: StoredFile | None, after: StoredFile | None, actor: str
    ) -> None: ...


class Quiet:
    """A schedule of one actor; its time moves when it is told to."""

    def __init__(self, seed: int = 0, now_ms: int = START_MS) -> None:
        self.random = random.Random(seed)
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1_000

    def sleep(self, seconds: float) -> None:
        self.time_ms += int(seconds * 1_000)

    def step(self, call: str) -> None:
        """Nobody else has a turn."""


class QuietTree(MemoryStorage):
    """A directory as a store of one actor, which stamps files with the time and tells its watchers of each change."""

    def __init__(self, schedule: Quiet, files: Files | None = None, actor: str = "writer") -> None:
        super().__init__()
        self.name, self.actor = "table", actor
        self.files: Files = {}
        self.watchers: list[Watcher] = []
        self.time = schedule
        for path, file in (files or {}).items():
            self.write(path, file.data, modified_ms=file.modified_ms)

    def write(self, path: str, data: bytes, *, modified_ms: int = 0) -> None:
        super().write(path, data, modified_ms=modified_ms)
        self._tell(path, StoredFile(data, modified_ms))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self.write(path, data, modified_ms=self.time.now_ms() if modified_ms is None else modified_ms)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        stamp = self.time.now_ms() if modified_ms is None else modified_ms
        found = super().put_if_absent(path, data, modified_ms=stamp)
        if path not in self.files:
            self._tell(path, StoredFile(data, stamp))
        return found

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path, outcome in super().delete_many(paths):
            self._tell(path, None)
            yield path, outcome

    def by(self, actor: str, change: Callable[[QuietTree], object]) -> None:
        """Change something as somebody else."""
        before, self.actor = self.actor, actor
        change(self)
        self.actor = before

    def _tell(self, path: str, after: StoredFile | None) -> None:
        before = self.files.pop(path, None)
        if after is not None:
            self.files[path] = after
        for watcher in self.watchers:
            watcher.changed(self, path, before, after, self.actor)
