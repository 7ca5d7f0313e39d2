"""Files of a log that a change reads again behind each commit of another writer; of a remote store they are kept."""

from __future__ import annotations

import io
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind, parse_log_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltacli.core.typing import BinaryFile
    from deltacli.storage import FileStat, ReadStorage
    from deltacli.table.handle import TableHandle

MOST_BYTES = 128 << 20
"""Maximum size of the files that are remembered; those beyond it are read each time."""
_SIDECARS = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
_IMMUTABLE = (
    LogFileKind.COMMIT,
    LogFileKind.CLASSIC_CHECKPOINT,
    LogFileKind.MULTI_PART_CHECKPOINT,
    LogFileKind.UUID_CHECKPOINT,
)


def with_memory(table: TableHandle) -> TableHandle:
    """Return the same table on a store that remembers commits and checkpoints."""
    return table.over(cast("ReadStorage", _LogMemory(table.storage)))


class _LogMemory:
    """A store whose commits and checkpoints are read once, whole, until a listing shows another file under the name.
    What it has not read is as in the store: listings, hints, and the time of a file.
    """

    def __init__(self, inner: ReadStorage) -> None:
        self._inner, self._left, self._lock = inner, MOST_BYTES, Lock()
        self._read: dict[str, bytes] = {}
        self._tags: dict[str, str] = {}
        self._listed: dict[str, FileStat] = {}

    def __getattr__(self, name: str) -> Any:  # Any: a method of the store
        return getattr(self._inner, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files of a directory, and forget those that are others by now."""
        for found in self._inner.list_from(directory, start):
            path = f"{directory}/{found.name}"
            data = self._read.get(path)
            if data is not None and (len(data) != found.size_bytes or self._listed.get(path, found) != found):
                self._forget(path)
            self._listed[path] = found
            yield found

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        if (known := self._read.get(path)) is not None:
            return known
        data = self._inner.read(path)
        self._keep(path, data)
        return data

    def open(self, path: str) -> BinaryFile:
        """Open the file for random access."""
        if path not in self._tags:
            opened = self._inner.open(path)
            size = opened.seek(0, io.SEEK_END)
            opened.seek(0)
            if not _is_immutable(path) or size > self._left:
                return opened
            with opened:
                tag = self._inner.tag(path, opened)
                self._keep(path, opened.read(size))
            if path not in self._read:
                return self._inner.open(path)
            self._tags[path] = tag
        return io.BytesIO(self._read[path])

    def tag(self, path: str, opened: Any) -> str:  # Any: a file, as in the port
        """Return an identifier of the content of an opened file."""
        return self._tags.get(path) or self._inner.tag(path, opened)

    def _forget(self, path: str) -> None:
        with self._lock:
            self._left += len(self._read.pop(path, b""))
            self._tags.pop(path, None)

    def _keep(self, path: str, data: bytes) -> None:
        if _is_immutable(path):
            with self._lock:
                if path not in self._read and len(data) <= self._left:
                    self._left -= len(data)
                    self._read[path] = data


def _is_immutable(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return directory == _SIDECARS or (directory == LOG_DIRECTORY and parse_log_path(name).kind in _IMMUTABLE)
