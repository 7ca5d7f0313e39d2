"""A read-only store whose files are elsewhere: in other stores, or versions that a store keeps of them."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from deltacli.errors import FileMissing
from deltacli.storage import Capabilities, FileStat, PathKind, ShouldDescend, WalkEntry
from deltacli.storage.base import no_atomic_create
from deltacli.storage.read_only import ReadOnlyFiles


class Reader(Protocol):
    """Reads what a store calls by a name of its own: a path, a version."""

    def read(self, name: Any, /) -> bytes:
        """Return the whole content."""

    def read_range(self, name: Any, offset: int, length: int, /) -> bytes:
        """Return up to `length` bytes from `offset`."""

    def open(self, name: Any, /) -> Any:
        """Open the content for random access."""


class MappedFile(NamedTuple):
    """Where a file is, by what name its reader finds it, and what a listing says of it."""

    reader: Reader
    name: Any
    size_bytes: int
    modified_ms: int


class FileMap(ReadOnlyFiles):
    """The files of a mapping, by path, as a store."""

    def __init__(self, uri: str, files: Mapping[str, MappedFile], parallel_reads: int) -> None:
        self.uri = uri
        self.capabilities = Capabilities(cheap_listing=False, parallel_reads=parallel_reads, atomic_create=False)
        self._files = files
        self._below: dict[str, dict[str, None]] = defaultdict(dict)
        """Directory -> the names of directories in it."""
        self._in: dict[str, list[str]] = defaultdict(list)
        """Directory -> the names of files in it."""
        for path in files:
            directory, _, name = path.rpartition("/")
            self._in[directory].append(name)
            while directory and directory.rpartition("/")[2] not in self._below[directory.rpartition("/")[0]]:
                above, _, name = directory.rpartition("/")
                self._below[above][name] = None
                directory = above

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        if directory not in self._in and directory not in self._below:
            raise self._missing(directory)
        for name in sorted(self._in.get(directory, ()), key=_bytes_of):
            if name >= start:
                yield self.stat(f"{directory}/{name}" if directory else name)

    def list_directories(self, directory: str) -> list[str]:
        if directory not in self._in and directory not in self._below:
            raise self._missing(directory)
        return sorted(self._below.get(directory, ()))

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        waiting = [directory]
        while waiting:
            path = waiting.pop()
            below = f"{path}/" if path else ""
            if names := self._in.get(path):
                found = [self._files[below + name] for name in names]
                yield WalkEntry(
                    path, names, [file.size_bytes for file in found], [file.modified_ms for file in found], []
                )
            waiting += [below + name for name in enter(path, sorted(self._below.get(path, ())))]

    def read(self, path: str) -> bytes:
        file = self._file(path)
        return file.reader.read(file.name)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        file = self._file(path)
        return file.reader.read_range(file.name, offset, length)

    def open(self, path: str) -> Any:
        file = self._file(path)
        return file.reader.open(file.name)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
        file = self._file(path)
        return f"{file.size_bytes}-{file.modified_ms}-{file.name}"

    def kind_of(self, path: str) -> PathKind:
        if path in self._files:
            return PathKind.FILE
        return PathKind.DIRECTORY if path in self._in or path in self._below else PathKind.MISSING

    def stat(self, path: str) -> FileStat:
        file = self._file(path)
        return FileStat(path.rpartition("/")[2], file.size_bytes, file.modified_ms)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        found = [self._files.get(path) for path in paths]
        return (
            [-1 if file is None else file.size_bytes for file in found],
            [-1 if file is None else file.modified_ms for file in found],
        )

    def _file(self, path: str) -> MappedFile:
        file = self._files.get(path)
        if file is None:
            raise self._missing(path)
        return file

    def _missing(self, path: str) -> FileMissing:
        return FileMissing(f"{self.uri}/{path} does not exist")

    def _refuse(self) -> NoReturn:
        raise no_atomic_create(self.uri, "these files are in other stores")


def _bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def range_of(opened: Any, offset: int, length: int) -> bytes:
    """Return a range of an open file."""
    with opened as file:
        file.seek(offset, io.SEEK_SET)
        return bytes(file.read(length))
