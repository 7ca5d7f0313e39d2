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

MOST_BYTES, MOST_OF_A_FILE = 128 << 20, 16 << 20
"""Maximum size of the files that are remembered, and of one; what is beyond it is read each time, in part."""
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
        self._opened: dict[str, tuple[bytes, str]] = {}
        """Those that were opened, with the tag that each had then."""
        self._listed: dict[str, FileStat] = {}

    def __getattr__(self, name: str) -> Any:  # Any: a method of the store
        return getattr(self._inner, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files of a directory, and forget those that are others by now."""
        for found in self._inner.list_from(directory, start):
            path = f"{directory}/{found.name}"
            data = self._read.get(path) or self._opened.get(path, (None, ""))[0]
            if data is not None and (len(data) != found.size_bytes or self._listed.get(path, found) != found):
                with self._lock:
                    self._left += len(self._read.pop(path, b"")) + len(self._opened.pop(path, (b"", ""))[0])
            self._listed[path] = found
            yield found

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        if (known := self._read.get(path)) is not None:
            return known
        data = self._inner.read(path)
        if self._has_room(path, len(data)):
            self._read[path] = data
        return data

    def open(self, path: str) -> BinaryFile:
        """Open the file for random access."""
        if (known := self._opened.get(path)) is None:
            opened = self._inner.open(path)
            size = opened.seek(0, io.SEEK_END)
            opened.seek(0)
            if not self._has_room(path, size):
                return opened
            with opened:
                known = self._opened[path] = opened.read(size), self._inner.tag(path, opened)
        return _Opened(*known)

    def tag(self, path: str, opened: Any) -> str:  # Any: a file, as in the port
        """Return an identifier of the content of an opened file."""
        return opened.stored_tag if isinstance(opened, _Opened) else self._inner.tag(path, opened)

    def _has_room(self, path: str, size: int) -> bool:
        if not _is_immutable(path) or size > MOST_OF_A_FILE:
            return False
        with self._lock:
            self._left -= size if (has_room := size <= self._left) else 0
        return has_room


class _Opened(io.BytesIO):
    """A remembered file, with the tag of this content."""

    def __init__(self, data: bytes, stored_tag: str) -> None:
        super().__init__(data)
        self.stored_tag = stored_tag


def _is_immutable(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return directory == _SIDECARS or (directory == LOG_DIRECTORY and parse_log_path(name).kind in _IMMUTABLE)
