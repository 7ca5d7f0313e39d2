"""A cache for the log files of a remote table, used while a commit is retried.

A commit that loses to another writer reads the newest version again. Nearly all files of that version were read for the
previous attempt already. Reading them again over a network takes longer than other writers need for their next commit,
so the retry would lose every time.
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
"""Maximum total size of the cached files. Further files are read from the store each time."""

MAX_CACHED_FILE_BYTES = 16 << 20
"""Maximum size of a cached file. Readers of a larger checkpoint often need only some of its columns."""

_SIDECARS = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
_IMMUTABLE_KINDS = (
    LogFileKind.COMMIT,
    LogFileKind.CLASSIC_CHECKPOINT,
    LogFileKind.MULTI_PART_CHECKPOINT,
    LogFileKind.UUID_CHECKPOINT,
)


def cache_log_files(table: TableHandle) -> TableHandle:
    """Return a handle of the same table that reads each commit and checkpoint from the store only once."""
    # `_CachingStorage` has all methods of `ReadStorage`, but some only through `__getattr__`, which mypy does not see.
    return table.replace_storage(cast("ReadStorage", _CachingStorage(table.storage)))


class _CachedContent(NamedTuple):
    """The content of a cached file.

    Attributes:
        data: The content.
        tag: The tag of the content (`ReadStorage.tag`). None if the file was read by `read`, which needs no tag.
    """

    data: bytes
    tag: str | None


class _CachingStorage:
    """A store that reads each commit, checkpoint and sidecar only once.

    If a listing shows that a cached file has another size or time than before, the file is read again: somebody may
    replace the whole log while a change is running.

    Calls other than `list_from`, `read`, `open` and `tag` are forwarded to the wrapped store.
    """

    def __init__(self, storage: ReadStorage) -> None:
        self._storage = storage
        self._free_bytes = MAX_CACHED_BYTES
        self._lock = Lock()
        self._content_by_path: dict[str, _CachedContent] = {}
        self._last_listed: dict[str, FileStat] = {}

    def __getattr__(self, name: str) -> Any:  # Any: an attribute of the store
        # Forwards every other attribute, because stores have more than the methods of `Storage`: a local directory that
        # is held open, credentials of a catalog, the catalog itself. Callers test for these attributes.
        return getattr(self._storage, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files in a directory, and remove those from the cache that were replaced."""
        for stat in self._storage.list_from(directory, start):
            path = f"{directory}/{stat.name}"
            if self._was_replaced(path, stat):
                self._remove(path)
            self._last_listed[path] = stat
            yield stat

    def _was_replaced(self, path: str, stat: FileStat) -> bool:
        """Return True if a file is cached, and a listing shows that it has another size or time than before."""
        content = self._content_by_path.get(path)
        if content is None:
            return False
        # A file that was cached before its first listing can only be compared by size.
        previous_stat = self._last_listed.get(path, stat)
        return len(content.data) != stat.size_bytes or previous_stat != stat

    def read(self, path: str) -> bytes:
        """Return the content of a file, from the cache if possible."""
        content = self._content_by_path.get(path)
        if content is not None:
            return content.data
        data = self._storage.read(path)
        if _can_be_cached(path, len(data)):
            self._add(path, _CachedContent(data, tag=None))
        return data

    def open(self, path: str) -> BinaryFile:
        """Open a file for random access.

        The content of a file that can be cached is read at once. The returned file then reads from memory.
        """
        content = self._content_by_path.get(path)
        if content is not None and content.tag is not None:
            return _CachedFile(content.data, content.tag)

        # The store returns a tag only for an open file, so a file that was cached by `read` is read once more.
        self._remove(path)
        file = self._storage.open(path)
        size_bytes = file.seek(0, io.SEEK_END)
        file.seek(0)
        if not _can_be_cached(path, size_bytes) or size_bytes > self._free_bytes:
            return file
        with file:
            data = file.read(size_bytes)
            tag = self._storage.tag(path, file)
        self._add(path, _CachedContent(data, tag))
        return _CachedFile(data, tag)

    def tag(self, path: str, opened: Any) -> str:  # Any: an open file, as in `ReadStorage`
        """Return the tag of the content that an open file reads. The file in the store may have been replaced since."""
        if isinstance(opened, _CachedFile):
            return opened.tag
        return self._storage.tag(path, opened)

    def _add(self, path: str, content: _CachedContent) -> None:
        """Add the content of a file to the cache, if there is space for it."""
        with self._lock:
            # Another thread may have read the same file at the same time.
            replaced_content = self._content_by_path.pop(path, None)
            if replaced_content is not None:
                self._free_bytes += len(replaced_content.data)
            if len(content.data) <= self._free_bytes:
                self._free_bytes -= len(content.data)
                self._content_by_path[path] = content

    def _remove(self, path: str) -> None:
        """Remove a file from the cache, if it is cached."""
        with self._lock:
            content = self._content_by_path.pop(path, None)
            if content is not None:
                self._free_bytes += len(content.data)


class _CachedFile(io.BytesIO):
    """An open file whose content is in memory, with the tag of the content."""

    def __init__(self, data: bytes, tag: str) -> None:
        super().__init__(data)
        self.tag = tag


def _can_be_cached(path: str, size_bytes: int) -> bool:
    """Return True for files that never change, and that are not too large."""
    return _is_immutable(path) and size_bytes <= MAX_CACHED_FILE_BYTES


def _is_immutable(path: str) -> bool:
    """Return True for commits, checkpoints and sidecars, which writers never change; False for `_last_checkpoint`."""
    directory, _, name = path.rpartition("/")
    if directory == _SIDECARS:
        return True
    return directory == LOG_DIRECTORY and parse_log_path(name).kind in _IMMUTABLE_KINDS
