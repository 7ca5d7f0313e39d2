"""A store that fails at one of its calls: before it is done, after it, or with its answer lost. Or the process dies.

`python -m tests.support.faulty TABLE CALL before|after OPTIONS` writes a checkpoint of a local table and kills its own
process at a call; with CALL 0 it prints how many calls there are.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from threading import Lock
from typing import Any, Self, TypeVar

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.storage import (
    Capabilities,
    Creation,
    Deletion,
    Draft,
    FileStat,
    PathKind,
    ShouldDescend,
    Storage,
    Unknown,
    WalkEntry,
)
from deltacli.storage.versions import ObjectVersion, VersionedObjects, VersionRetention

Answer = TypeVar("Answer")


class Fault(StrEnum):
    """The fault at the chosen call."""

    BEFORE = "fails before it is done"
    AFTER = "fails after it was done"
    LOST = "the answer of a creation that was done is lost"
    UNSENT = "a creation that was not done leaves no answer"
    DELAYED = "a creation leaves no answer and is done later, whatever was done meanwhile"
    DUPLICATED = "it is sent twice, and the second answer counts"
    KILLED_BEFORE = "the process is killed before it"
    KILLED_AFTER = "the process is killed after it"


class FaultyDraft:
    """A draft whose making and publishing are calls of their own."""

    def __init__(self, inner: Draft, store: FaultyStorage, path: str) -> None:
        self._inner, self._store, self._path = inner, store, path

    @property
    def local_path(self) -> str:
        return self._inner.local_path

    def publish(self, *, replace: bool = False) -> Creation:
        verb = "replace" if replace else "publish"
        return self._store.step(verb, self._path, lambda: self._inner.publish(replace=replace))

    def __enter__(self) -> Self:
        try:
            self._store.step("begin", self._path, self._inner.__enter__)
        except StorageFailed:
            self._inner.__exit__()  # what a `with` of the store itself would have done
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._inner.__exit__(*exception)


class FaultyVersions:
    """Versions each call of which is one of their store."""

    def __init__(self, inner: VersionedObjects, store: FaultyStorage) -> None:
        self._inner, self._store = inner, store

    def keeping(self) -> VersionRetention:
        return self._store.step("keeping", "", self._inner.keeping)

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        return iter(self._store.step("list_versions", prefix, lambda: [*self._inner.list(prefix)]))

    def read(self, version: ObjectVersion) -> bytes:
        return self._store.step("read_version", version.path, lambda: self._inner.read(version))

    def open(self, version: ObjectVersion) -> Any:  # Any: as in the port
        return self._store.step("open_version", version.path, lambda: self._inner.open(version))

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        def call() -> Creation:
            return self._inner.bring_back(version, instead_of=instead_of)

        return self._store.step("bring_back", version.path, call)


class FaultyStorage:
    """Passes every call on, but for call `at` (from 1): there it does what `fault` says. `calls` are those it saw.

    What is delayed is done before the call that is `delay` calls later, or when it is let `arrive`.
    """

    def __init__(self, inner: Storage, at: int = 0, fault: Fault = Fault.BEFORE, *, delay: int = 0) -> None:
        self._inner, self._at, self._fault = inner, at, fault
        self._delay = delay
        self._late: Callable[[], object] | None = None
        self._lock = Lock()
        self.calls: list[tuple[str, str]] = []

    def fail(self, at: int, fault: Fault) -> None:
        """Let a call fail, counted from those it has seen."""
        self._at, self._fault = len(self.calls) + at if at else 0, fault

    def arrive(self) -> None:
        """Let what is under way be done."""
        if self._late is not None:
            late, self._late = self._late, None
            late()

    def step(self, verb: str, path: str, call: Callable[[], Answer]) -> Answer:
        """Make a call, or not."""
        with self._lock:
            self.calls.append((verb, path))
            is_it = len(self.calls) == self._at
            is_time = len(self.calls) == self._at + self._delay
        if is_time:
            self.arrive()
        if not is_it:
            return call()
        match self._fault:
            case Fault.BEFORE:
                raise StorageFailed(f"{verb} of {path} failed")
            case Fault.UNSENT:
                return Unknown("nobody answered")  # type: ignore[return-value]
            case Fault.DELAYED:
                self._late = call
                return Unknown("nobody answered")  # type: ignore[return-value]
            case Fault.DUPLICATED:
                call()
            case Fault.KILLED_BEFORE:
                os.kill(os.getpid(), signal.SIGKILL)
        try:
            answer = call()
        except FileMissing:
            if self._fault not in (Fault.AFTER, Fault.KILLED_AFTER):
                raise
        match self._fault:
            case Fault.AFTER:
                raise StorageFailed(f"{verb} of {path} failed, but it was done")
            case Fault.LOST:
                return Unknown("the answer was lost")  # type: ignore[return-value]
            case Fault.KILLED_AFTER:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._inner.aliases

    @property
    def versions(self) -> VersionedObjects | None:
        inner = self._inner.versions
        return None if inner is None else FaultyVersions(inner, self)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        return iter(self.step("list_from", directory, lambda: list(self._inner.list_from(directory, start))))

    def list_directories(self, directory: str) -> list[str]:
        return self.step("list_directories", directory, lambda: self._inner.list_directories(directory))

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        return iter(self.step("walk", directory, lambda: list(self._inner.walk(directory, enter))))

    def read(self, path: str) -> bytes:
        return self.step("read", path, lambda: self._inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.step("read_range", path, lambda: self._inner.read_range(path, offset, length))

    def open(self, path: str) -> Any:  # Any: as in the port
        return self.step("open", path, lambda: self._inner.open(path))

    def tag(self, path: str, opened: Any) -> str:  # Any: as in the port
        return self.step("tag", path, lambda: self._inner.tag(path, opened))

    def kind_of(self, path: str) -> PathKind:
        return self.step("kind_of", path, lambda: self._inner.kind_of(path))

    def stat(self, path: str) -> FileStat:
        return self.step("stat", path, lambda: self._inner.stat(path))

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        return self.step("stat_many", "", lambda: self._inner.stat_many(paths))

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        return self.step("put_if_absent", path, lambda: self._inner.put_if_absent(path, data, modified_ms=modified_ms))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self.step("put", path, lambda: self._inner.put(path, data, modified_ms=modified_ms))

    def draft(self, path: str) -> Draft:
        return FaultyDraft(self._inner.draft(path), self, path)

    def copy_within(self, source: str, target: str) -> Creation:
        return self.step("copy_within", target, lambda: self._inner.copy_within(source, target))

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        return iter(self.step("delete_many", "", lambda: list(self._inner.delete_many(paths))))

    def remove_directory(self, path: str) -> Deletion:
        return self.step("remove_directory", path, lambda: self._inner.remove_directory(path))


def main(place: str, at: int, fault: str, options: str) -> None:
    """Write a checkpoint of a local table through a store that kills this process."""
    from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, plan_checkpoint, write_checkpoint
    from deltacli.storage import LocalStorage
    from tests.support.reading import open_at

    request = CheckpointRequest(**json.loads(options))
    storage = FaultyStorage(LocalStorage(place))
    plan = plan_checkpoint(open_at(storage), request)
    storage.calls.clear()
    storage.fail(at, Fault(fault))
    write_checkpoint(plan)
    sys.stdout.write(str(len(storage.calls)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
