"""A store that fails at one call: before it is made, or after it was, so that only the answer is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, TypeVar

from deltacli.errors import StorageFailed
from deltacli.storage import Capabilities, Creation, Deletion, Draft, FileStat, PathKind, Storage, Unknown

Answer = TypeVar("Answer")


class Fault(StrEnum):
    BEFORE = "the call is never made"
    AFTER = "the call is made, and its answer lost"


class Countdown:
    """Counts the calls of all stores that share it; the one of number `at` (from 0) fails."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.calls = 0

    def is_due(self) -> bool:
        self.calls += 1
        return self.at is not None and self.calls - 1 == self.at


class FaultyStorage:
    """Passes calls on, but one."""

    def __init__(self, inner: Storage, countdown: Countdown, fault: Fault = Fault.BEFORE) -> None:
        self._inner = inner
        self._countdown = countdown
        self._fault = fault

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        return iter(self._call(lambda: list(self._inner.list_from(directory, start)), f"list {directory}"))

    def list_directories(self, directory: str) -> list[str]:
        return self._call(lambda: self._inner.list_directories(directory), f"list {directory}")

    def read(self, path: str) -> bytes:
        return self._call(lambda: self._inner.read(path), f"read {path}")

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._call(lambda: self._inner.read_range(path, offset, length), f"read {path}")

    def open(self, path: str) -> Any:  # Any: as in the port
        return self._call(lambda: self._inner.open(path), f"open {path}")

    def tag(self, path: str, opened: Any) -> str:  # Any: as in the port
        return self._inner.tag(path, opened)

    def kind_of(self, path: str) -> PathKind:
        return self._call(lambda: self._inner.kind_of(path), f"look at {path}")

    def stat(self, path: str) -> FileStat:
        return self._call(lambda: self._inner.stat(path), f"look at {path}")

    def draft(self, path: str) -> Draft:
        return self._inner.draft(path)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        if not self._countdown.is_due():
            return self._inner.put_if_absent(path, data, modified_ms=modified_ms)
        if self._fault is Fault.AFTER:
            self._inner.put_if_absent(path, data, modified_ms=modified_ms)
        return Unknown("the answer was lost")

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self._call(lambda: self._inner.put(path, data, modified_ms=modified_ms), f"write {path}")

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        return iter(self._call(lambda: list(self._inner.delete_many(paths)), "delete"))

    def _call(self, call: Callable[[], Answer], what: str) -> Answer:
        if not self._countdown.is_due():
            return call()
        if self._fault is Fault.AFTER:
            call()
        raise StorageFailed(f"{what}: the network is down")
