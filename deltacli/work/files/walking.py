"""Walk the directories of a table, and collect the listed files in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from deltacli.storage import ReadStorage, WalkEntry

METADATA_DIRECTORIES = ("metadata", "schema", "snapshot", "manifest")
"""Directories whose files indicate a table; other directories do so by their name."""

_FILES_A_BATCH = 131_072


class ListedFiles(NamedTuple):
    """Files of a listing, in columns.

    Attributes:
        paths: Their paths below the table: a list while they are collected, else a binary array.
        sizes: Their bytes (int64); None where they would need a call per file.
        modified_ms: Their times (int64, epoch milliseconds); None as for `sizes`.
        is_plain: True for files from a walk of every directory: no path has an empty segment, and none indicates
            another table.
        archived: The paths of files with an archive class (see `FileStat`), each with that class.
    """

    paths: list[str] | pa.Array
    sizes: pa.Array | None
    modified_ms: pa.Array | None
    is_plain: bool = False
    archived: tuple[tuple[str, str], ...] = ()


class DirectoryWalk:
    """Iterates over the entries of one directory, without those below it.

    Attributes:
        directories: The names of its subdirectories, after the iteration.
        special: The names of entries that are neither files nor directories.
        empty_modified_ms: The time of the directory, if it is empty.
    """

    def __init__(self, storage: ReadStorage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
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


def batch_listed_files(entries: Iterable[WalkEntry]) -> Iterator[ListedFiles]:
    """Yield the files of a walk in columns, many at a time."""
    held = _FileCollector()
    for entry in entries:
        held.take(entry)
        if len(held) >= _FILES_A_BATCH:
            yield held.flush()
    if len(held):
        yield held.flush()


class _FileCollector:
    """Collects files of several directories into columns."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._sizes: list[int] | None = []
        self._times: list[int] | None = []
        self._is_plain = True
        self._archived: list[tuple[str, str]] = []

    def __len__(self) -> int:
        return len(self._paths)

    def take(self, walked: WalkEntry) -> None:
        prefix = f"{walked.directory}/" if walked.directory else ""
        if walked.sizes is not None or walked.directory.rpartition("/")[2] in METADATA_DIRECTORIES:
            self._is_plain = False
        self._paths += [prefix + name for name in walked.names] if prefix else walked.names
        self._archived += [(prefix + name, archive_class) for name, archive_class in walked.archived]
        if walked.sizes is None or walked.modified_ms is None:
            self._sizes = self._times = None
        elif self._sizes is not None and self._times is not None:
            self._sizes += walked.sizes
            self._times += walked.modified_ms

    def flush(self) -> ListedFiles:
        """Return the collected files, and begin anew."""
        sizes = None if self._sizes is None else pa.array(self._sizes, pa.int64())
        times = None if self._times is None else pa.array(self._times, pa.int64())
        listed = ListedFiles(self._paths, sizes, times, self._is_plain, tuple(self._archived))
        self._paths = []
        self._sizes = []
        self._times = []
        self._is_plain = True
        self._archived = []
        return listed
