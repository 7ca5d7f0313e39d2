"""A store that remembers what it was asked: storage calls are deterministic where milliseconds are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Barrier, Lock
from typing import Any, Self

from deltacli.storage import (
    Capabilities,
    Creation,
    Deletion,
    Draft,
    FileStat,
    PathKind,
    ShouldDescend,
    Storage,
    WalkEntry,
)
from deltacli.storage.versions import VersionedObjects

NEAR = Capabilities(has_cheap_requests=True, parallel_reads=1, atomic_create=True)
FAR = Capabilities(has_cheap_requests=False, parallel_reads=16, atomic_create=True)


class RecordedDraft:
    """A draft that reports its publication."""

    def __init__(self, inner: Draft, tell: Callable[[], None]) -> None:
        self._inner = inner
        self._tell = tell

    @property
    def local_path(self) -> str:
        return self._inner.local_path

    def publish(self, *, replace: bool = False) -> Creation:
        self._tell()
        return self._inner.publish(replace=replace)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._inner.__exit__(*exception)


class RecordingStorage:
    """Passes every call on and counts it; with `capabilities` it claims to be another kind of store.

    The first `meet` reads of commits, or of files that end with `meet_at`, wait for each other: whoever reads one after
    the other fails.
    """

    def __init__(
        self, inner: Storage, *, capabilities: Capabilities | None = None, meet: int = 0, meet_at: str = ".json"
    ) -> None:
        self._meet_at = meet_at
        self._meeting = Barrier(meet, timeout=60) if meet else None
        self._to_meet = meet
        self._inner = inner
        self._capabilities = capabilities or inner.capabilities
        self.calls: Counter[str] = Counter()
        self.paths: list[tuple[str, str]] = []
        self.bytes_read = 0
        self._lock = Lock()

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._inner.aliases

    @property
    def versions(self) -> VersionedObjects | None:
        return self._inner.versions

    def touched(self, *verbs: str) -> list[str]:
        """The paths that these verbs were called with, in order."""
        return [path for verb, path in self.paths if verb in verbs]

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        self._note("list_from", f"{directory}/{start}")
        return self._inner.list_from(directory, start)

    def list_directories(self, directory: str) -> list[str]:
        self._note("list_directories", directory)
        return self._inner.list_directories(directory)

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        self._note("walk", directory)
        return self._inner.walk(directory, enter)

    def read(self, path: str) -> bytes:
        self._note("read", path)
        self._meet(path)
        return self._counted(self._inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self._note("read_range", path)
        return self._counted(self._inner.read_range(path, offset, length))

    def open(self, path: str) -> Any:  # Any: as in the port
        self._note("open", path)
        self._meet(path)
        return self._inner.open(path)

    def tag(self, path: str, opened: Any) -> str:  # Any: as in the port
        return self._inner.tag(path, opened)

    def kind_of(self, path: str) -> PathKind:
        self._note("kind_of", path)
        return self._inner.kind_of(path)

    def stat(self, path: str) -> FileStat:
        self._note("stat", path)
        return self._inner.stat(path)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        """One call, but every path is noted."""
        with self._lock:
            self.calls["stat_many"] += 1
            self.paths += [("stat_many", path) for path in paths]
        return self._inner.stat_many(paths)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        self._note("put_if_absent", path)
        return self._inner.put_if_absent(path, data, modified_ms=modified_ms)

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self._note("put", path)
        self._inner.put(path, data, modified_ms=modified_ms)

    def draft(self, path: str) -> Draft:
        self._note("draft", path)
        return RecordedDraft(self._inner.draft(path), lambda: self._note("publish", path))

    def copy_within(self, source: str, target: str) -> Creation:
        self._note("copy_within", target)
        return self._inner.copy_within(source, target)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        self._note("delete_many", "")
        return self._inner.delete_many(paths)

    def remove_directory(self, path: str) -> Deletion:
        self._note("remove_directory", path)
        return self._inner.remove_directory(path)

    def _meet(self, path: str) -> None:
        if self._meeting is None or not path.endswith(self._meet_at):
            return
        with self._lock:
            waits, self._to_meet = self._to_meet > 0, self._to_meet - 1
        if waits:
            self._meeting.wait()

    def _note(self, verb: str, path: str) -> None:
        with self._lock:
            self.calls[verb] += 1
            self.paths.append((verb, path))

    def _counted(self, data: bytes) -> bytes:
        with self._lock:
            self.bytes_read += len(data)
        return data
