"""Files in the memory of this process: a store without faults and without waiting."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

from deltacli.core.errors import FileMissing
from deltacli.storage.base import Capabilities, Draft, FileStat, PathKind, ShouldDescend, WalkEntry
from deltacli.storage.outcomes import Created, Creation, Deleted, Deletion, Existed, Missing


class MemoryStorage:
    """A dictionary of files. `modified_ms` of a file is the value passed to `write`."""

    def __init__(self, name: str = "table") -> None:
        self._uri = f"memory://{name}"
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = Lock()

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(has_cheap_requests=True, parallel_reads=1, atomic_create=True)

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    @property
    def versions(self) -> None:
        return None

    def write(self, path: str, data: bytes, *, modified_ms: int = 0) -> None:
        """Write a file, replacing an existing one."""
        with self._lock:
            self._files[path] = (data, modified_ms)

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self.write(path, data, modified_ms=modified_ms or 0)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        with self._lock:
            if path in self._files:
                return Existed()
            self._files[path] = (data, modified_ms or 0)
            return Created()

    def draft(self, path: str) -> Draft:
        from deltacli.storage.scratch_draft import ScratchDraft

        def content(place: str) -> bytes:
            with open(place, "rb") as file:
                return file.read()

        return ScratchDraft(
            lambda place: self.put_if_absent(path, content(place)), lambda place: self.put(path, content(place))
        )

    def copy_within(self, source: str, target: str) -> Creation:
        data, modified_ms = self._get(source)
        return self.put_if_absent(target, data, modified_ms=modified_ms)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            with self._lock:
                file = self._files.pop(path, None)
            yield path, Missing() if file is None else Deleted()

    def remove_directory(self, path: str) -> Deletion:  # noqa: ARG002  (of the port)
        return Missing()

    def stat(self, path: str) -> FileStat:
        data, modified_ms = self._get(path)
        return FileStat(path.rsplit("/", 1)[-1], len(data), modified_ms)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        with self._lock:
            files = [self._files.get(path) for path in paths]
        return [-1 if file is None else len(file[0]) for file in files], [
            -1 if file is None else file[1] for file in files
        ]

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = f"{directory}/" if directory else ""
        with self._lock:
            files = {path[len(prefix) :]: file for path, file in self._files.items() if path.startswith(prefix)}
        if not files:
            raise FileMissing(f"{self._uri}/{directory} does not exist")
        for name in sorted(files, key=lambda name: name.encode("utf-8", "surrogateescape")):
            if "/" not in name and name >= start:
                data, modified_ms = files[name]
                yield FileStat(name, len(data), modified_ms)

    def list_directories(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        with self._lock:
            rest = [path[len(prefix) :] for path in self._files if path.startswith(prefix)]
        if not rest:
            raise FileMissing(f"{self._uri}/{directory} does not exist")
        return sorted({name.split("/", 1)[0] for name in rest if "/" in name})

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        prefix = f"{directory}/" if directory else ""
        files: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        below: dict[str, set[str]] = defaultdict(set)
        with self._lock:
            for path, (data, modified_ms) in self._files.items():
                if path.startswith(prefix):
                    parent, _, name = path.rpartition("/")
                    files[parent].append((name, len(data), modified_ms))
        if not files:
            raise FileMissing(f"{self._uri}/{directory} does not exist")
        for path in files:
            while path != directory:
                parent, _, name = path.rpartition("/")
                below[parent].add(name)
                path = parent
        waiting = [directory]
        while waiting:
            path = waiting.pop()
            own = [file for file in files[path] if file[0]]
            if files[path]:
                names, sizes, times = (list(column) for column in zip(*own, strict=True)) if own else ([], [], [])
                yield WalkEntry(path, names, sizes, times, [""] * (len(files[path]) - len(own)))
            waiting += [f"{path}/{name}" if path else name for name in enter(path, sorted(below[path]))]

    def read(self, path: str) -> bytes:
        return self._get(path)[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read(path)[offset : offset + length]

    def open(self, path: str) -> Any:
        return io.BytesIO(self.read(path))

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
        data, modified_ms = self._get(path)
        return f"{len(data)}-{modified_ms}-{hash(data)}"

    def kind_of(self, path: str) -> PathKind:
        prefix = f"{path}/" if path else ""
        with self._lock:
            if path in self._files:
                return PathKind.FILE
            return PathKind.DIRECTORY if any(name.startswith(prefix) for name in self._files) else PathKind.MISSING

    def _get(self, path: str) -> tuple[bytes, int]:
        try:
            return self._files[path]
        except KeyError:
            raise FileMissing(f"{self._uri}/{path} does not exist") from None
