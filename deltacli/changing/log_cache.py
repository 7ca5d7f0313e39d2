"""The commits and checkpoints of a remote table, read once while a commit is retried.

A commit that loses to other writers reads the newest version again. Nearly all files of that version are those of the
attempt before. Over a network, reading them each time takes longer than other writers need for their next commit, so
the change would never win.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple, cast

from deltacli.core.typing import BinaryFile
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind, parse_log_path
from deltacli.storage import FileStat, ReadStorage
from deltacli.table.handle import TableHandle

MAX_CACHED_BYTES = 128 << 20
"""The total size of cached files. What is beyond it is read each time, and in part if that is enough."""

MAX_CACHED_FILE_BYTES = 16 << 20
"""The size of the largest file that is cached."""

_SIDECARS = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
_IMMUTABLE_KINDS = (
    LogFileKind.COMMIT,
    LogFileKind.CLASSIC_CHECKPOINT,
    LogFileKind.MULTI_PART_CHECKPOINT,
    LogFileKind.UUID_CHECKPOINT,
)


def cache_log_files(table: TableHandle) -> TableHandle:
    """Return the same table on a store that caches its commits and checkpoints."""
    return table.replace_storage(cast("ReadStorage", _LogCache(table.storage)))


class _OpenedFile(NamedTuple):
    """A file that was opened, and read as a whole.

    Attributes:
        data: Its content.
        stored_tag: The tag that the store gave this content.
    """

    data: bytes
    stored_tag: str


class _LogCache:
    """A store that reads each commit and checkpoint once.

    A cached file is dropped when a listing shows another size or time under its name. The log may be replaced while a
    change runs, and its commits must not be judged by those of the old log. Everything else is passed on to the store:
    listings, the hint, the time of a single file.
    """

    def __init__(self, inner: ReadStorage) -> None:
        self._inner = inner
        self._free_bytes = MAX_CACHED_BYTES
        self._lock = Lock()
        self._read_files: dict[str, bytes] = {}
        self._opened_files: dict[str, _OpenedFile] = {}
        self._last_listed: dict[str, FileStat] = {}

    def __getattr__(self, name: str) -> Any:  # Any: a method of the store
        return getattr(self._inner, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files of a directory, and drop the cached ones that were replaced."""
        for stat in self._inner.list_from(directory, start):
            path = f"{directory}/{stat.name}"
            if self._was_replaced(path, stat):
                self._drop(path)
            self._last_listed[path] = stat
            yield stat

    def _was_replaced(self, path: str, stat: FileStat) -> bool:
        cached_data = self._read_files.get(path)
        if cached_data is None and path in self._opened_files:
            cached_data = self._opened_files[path].data
        if cached_data is None:
            return False
        # The first listing after the read has nothing to be compared with but the size.
        return len(cached_data) != stat.size_bytes or self._last_listed.get(path, stat) != stat

    def _drop(self, path: str) -> None:
        with self._lock:
            self._free_bytes += len(self._read_files.pop(path, b""))
            opened_file = self._opened_files.pop(path, None)
            if opened_file is not None:
                self._free_bytes += len(opened_file.data)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        cached_data = self._read_files.get(path)
        if cached_data is not None:
            return cached_data
        data = self._inner.read(path)
        if self._reserve(path, len(data)):
            self._read_files[path] = data
        return data

    def open(self, path: str) -> BinaryFile:
        """Open a file for random access. A small file is read as a whole, and served from memory."""
        opened_file = self._opened_files.get(path)
        if opened_file is None:
            file = self._inner.open(path)
            size_bytes = file.seek(0, io.SEEK_END)
            file.seek(0)
            if not self._reserve(path, size_bytes):
                return file
            with file:
                opened_file = _OpenedFile(file.read(size_bytes), self._inner.tag(path, file))
            self._opened_files[path] = opened_file
        return _CachedFile(opened_file)

    def tag(self, path: str, opened: Any) -> str:  # Any: a file, as in the port
        """Return the tag of the content that an open file has, which may be older than that in the store."""
        if isinstance(opened, _CachedFile):
            return opened.stored_tag
        return self._inner.tag(path, opened)

    def _reserve(self, path: str, size_bytes: int) -> bool:
        """Reserve space for a file. Return False if it is not to be cached."""
        if not _is_immutable(path) or size_bytes > MAX_CACHED_FILE_BYTES:
            return False
        with self._lock:
            has_room = size_bytes <= self._free_bytes
            if has_room:
                self._free_bytes -= size_bytes
        return has_room


class _CachedFile(io.BytesIO):
    """A cached file, opened for reading, with the tag of its content."""

    def __init__(self, file: _OpenedFile) -> None:
        super().__init__(file.data)
        self.stored_tag = file.stored_tag


def _is_immutable(path: str) -> bool:
    """Return True for files that writers create once: commits, checkpoints and sidecars, but not the hint."""
    directory, _, name = path.rpartition("/")
    if directory == _SIDECARS:
        return True
    return directory == LOG_DIRECTORY and parse_log_path(name).kind in _IMMUTABLE_KINDS
