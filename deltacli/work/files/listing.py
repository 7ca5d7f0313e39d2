"""List the files of a table: one directory, as a task, or a walk of them all, in the same columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.data_files import decode
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.storage import FileStat, ReadStorage, WalkEntry, leads_outside
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow


class PlacedDirectory(NamedTuple):
    """A directory by its path below the table, and its resolved place, which several paths may have through links."""

    path: str
    place: str


class InnerDirectory(NamedTuple):
    """A directory in another one; `is_outside` is set by tasks only, where a link leads outside the table."""

    name: str
    place: str
    is_outside: bool = False


class PlacedListing(NamedTuple):
    """The files and the directories in a directory."""

    files: tuple[FileStat, ...]
    directories: tuple[InnerDirectory, ...]


def list_placed(piece: PlacedDirectory, context: TaskContext) -> PlacedListing:
    """Return what is in a directory. Raises FileMissing and PermissionRefused."""
    storage = context.storage
    below = f"{piece.path}/" if piece.path else ""
    files = tuple(storage.list_from(piece.path))
    directories = (
        inner
        if inner.name == LOG_DIRECTORY
        else inner._replace(is_outside=leads_outside(storage, f"{below}{inner.name}"))
        for inner in inner_directories(storage, piece)
    )
    return PlacedListing(files, tuple(directories))


def inner_directories(storage: ReadStorage, directory: PlacedDirectory) -> Iterator[InnerDirectory]:
    """Yield the directories in a directory, links to directories included."""
    is_local = _is_local(storage)
    for name in storage.list_directories(directory.path):
        place = f"{directory.place}/{name}"
        yield InnerDirectory(name, _resolved(place) if is_local else place)


def real_place(storage: ReadStorage) -> str:
    """Return the resolved place of the table."""
    if not _is_local(storage):
        return ""
    import os

    return os.path.realpath(decode(storage.uri[len("file://") :]))


def _is_local(storage: ReadStorage) -> bool:
    return storage.uri.startswith("file:")


def _resolved(path: str) -> str:
    import os

    return os.path.realpath(path) if os.path.islink(path) else path


TELLING = ("metadata", "schema", "snapshot", "manifest")
"""Directories whose files indicate a table; other directories do so by their name."""

_FILES_A_BATCH = 131_072


class ListedFiles(NamedTuple):
    """Files of a listing: paths below the table, sizes (bytes) and times (epoch milliseconds) as int64 arrays, which
    are None where they would need a call per file. Paths are a list while they are collected, else a binary array.
    """

    paths: list[str] | pyarrow.Array
    sizes: pyarrow.Array | None
    modified_ms: pyarrow.Array | None
    is_plain: bool = False
    """From a walk of every directory: no path has an empty segment, and none indicates another table."""


class DirectoryWalk:
    """The entries of one directory, without those below it. After it was iterated over, `directories` are the names of
    its subdirectories, `special` those of entries that are neither files nor directories; `empty_modified_ms` is the
    time of an empty directory.
    """

    def __init__(self, storage: ReadStorage, directory: str) -> None:
        self._storage, self._directory = storage, directory
        self.directories: list[str] = []
        self.special: list[str] = []
        self.empty_modified_ms: int | None = None

    def __iter__(self) -> Iterator[WalkEntry]:
        """Raises FileMissing where there is no such directory."""
        for entry in self._storage.walk(self._directory, self._enter):
            self.special += entry.special
            if entry.is_empty:
                self.empty_modified_ms = entry.directory_modified_ms
            yield entry

    def _enter(self, _: str, names: Sequence[str]) -> Iterable[str]:
        self.directories += names
        return ()


def in_batches(entries: Iterable[WalkEntry]) -> Iterator[ListedFiles]:
    """Yield the files of a walk in columns, many at a time."""
    held = _Held()
    for entry in entries:
        held.take(entry)
        if len(held) >= _FILES_A_BATCH:
            yield held.flush()
    if len(held):
        yield held.flush()


class _Held:
    """Collects files of several directories into columns."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._sizes: list[int] | None = []
        self._times: list[int] | None = []
        self._is_plain = True

    def __len__(self) -> int:
        return len(self._paths)

    def take(self, walked: WalkEntry) -> None:
        prefix = f"{walked.directory}/" if walked.directory else ""
        if walked.sizes is not None or walked.directory.rpartition("/")[2] in TELLING:
            self._is_plain = False
        self._paths += [prefix + name for name in walked.names] if prefix else walked.names
        if walked.sizes is None or walked.modified_ms is None:
            self._sizes = self._times = None
        elif self._sizes is not None and self._times is not None:
            self._sizes += walked.sizes
            self._times += walked.modified_ms

    def flush(self) -> ListedFiles:
        import pyarrow as pa

        found = ListedFiles(
            self._paths,
            None if self._sizes is None else pa.array(self._sizes, pa.int64()),
            None if self._times is None else pa.array(self._times, pa.int64()),
            self._is_plain,
        )
        self._paths, self._sizes, self._times, self._is_plain = [], [], [], True
        return found
