"""A store to whose every call something happens, as drawn: a fault, a commit of another writer, what was late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from deltacli.core.errors import StorageFailed
from deltacli.storage import Creation, Draft, FileStat, Unknown
from tests.support.actions import Line, to_bytes
from tests.support.builder import commit_path
from tests.support.committing import Rivals, commits
from tests.support.in_memory import MemoryStorage


class Fateful(Rivals):
    """`rival` returns the lines of another writer's commit for a version. What happens is drawn from these lists."""

    CALLS: tuple[str, ...] = ("well", "well", "rival", "down", "arrival")
    CREATIONS: tuple[str, ...] = ("done", "lost", "unsent", "late", "twice", "late and done", "beaten", "raised")

    def __init__(
        self, inner: MemoryStorage, draw: Callable[[list[str]], str], rival: Callable[[int], list[Line]]
    ) -> None:
        super().__init__(inner)
        self._store, self._draw, self._make_rival = inner, draw, rival
        self._late: list[tuple[str, bytes]] = []
        self.rivals = 0

    def arrive(self) -> None:
        """Let everything that is under way be done."""
        for path, data in self._late:
            self._store.put_if_absent(path, data)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        self._fate()
        return self._store.list_from(directory, start)

    def read(self, path: str) -> bytes:
        self._fate()
        return self._store.read(path)

    def draft(self, path: str) -> Draft:
        return MemoryStorage.draft(self, path)  # type: ignore[arg-type]  # it publishes by `put_if_absent`

    def put_if_absent(self, path: str, data: bytes, **_: Any) -> Creation:  # Any: as in the port
        match self._draw([*self.CREATIONS]):
            case "lost":
                self._store.put_if_absent(path, data)
                return Unknown("lost")
            case "unsent":
                return Unknown("unsent")
            case "late":
                self._late.append((path, data))
                return Unknown("late")
            case "twice":
                self._store.put_if_absent(path, data)
            case "late and done":
                self._late.append((path, data))
            case "beaten":
                self._rival()
            case "raised":
                raise StorageFailed("nothing was sent")
        return self._store.put_if_absent(path, data)

    def _fate(self) -> None:
        match self._draw([*self.CALLS]):
            case "rival":
                self._rival()
            case "down":
                raise StorageFailed("the network is down")
            case "arrival" if self._late:
                self._store.put_if_absent(*self._late.pop(0))

    def _rival(self) -> None:
        version = len(commits(self._store))
        self.rivals += 1
        self._store.put_if_absent(commit_path(version), to_bytes(self._make_rival(version)))
