"""Files that the server returns itself: of a local disk, never through a link, or of a store."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from email.utils import formatdate
from typing import Protocol

from deltacli.errors import FileMissing
from deltacli.sharing.protocol.wire_errors import ErrorCode, WireError
from deltacli.storage import Storage

_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class OpenFile(Protocol):
    """A file that is being returned."""

    @property
    def size_bytes(self) -> int:
        """Return its size."""

    @property
    def modified_ms(self) -> int:
        """Return when it was last written, in epoch milliseconds."""

    @property
    def tag(self) -> str:
        """Return the validator of its content, in quotes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return at most `length` bytes."""

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True)
class DiskFile:
    """An open file of a local disk."""

    descriptor: int
    size_bytes: int
    modified_ns: int

    @property
    def modified_ms(self) -> int:
        """Return when it was last written, in epoch milliseconds."""
        return self.modified_ns // 1_000_000

    @property
    def tag(self) -> str:
        """Return the validator of its content, in quotes."""
        return f'"{self.modified_ns:x}-{self.size_bytes:x}"'

    def read(self, offset: int, length: int) -> bytes:
        """Return at most `length` bytes."""
        return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)


@dataclass(frozen=True)
class StoredFile:
    """A file of a store that cannot sign URLs, or must not."""

    storage: Storage
    path: str
    size_bytes: int
    modified_ms: int

    @property
    def tag(self) -> str:
        """Return the validator of its content, in quotes. Files of tables are never overwritten."""
        return f'"{self.modified_ms:x}-{self.size_bytes:x}"'

    def read(self, offset: int, length: int) -> bytes:
        """Return at most `length` bytes."""
        return self.storage.read_range(self.path, offset, length)

    def close(self) -> None:
        """Do nothing: each range is a request of its own."""


def http_date(file: OpenFile) -> str:
    """Return when a file was last written, as in HTTP."""
    return formatdate(file.modified_ms // 1_000, usegmt=True)


def open_stored(storage: Storage, path: str) -> StoredFile:
    """Open a file of a store. Raises WireError, and StorageFailed."""
    _require_plain(path)
    try:
        found = storage.stat(path)
    except FileMissing:
        raise no_file() from None
    return StoredFile(storage, path, found.size_bytes, found.modified_ms)


def open_below(root: str, path: str) -> DiskFile:
    """Open a regular file below a directory, one name after the other, without following links. Raises WireError."""
    names = _require_plain(path)
    try:
        above = os.open(root, _DIRECTORY & ~getattr(os, "O_NOFOLLOW", 0))
        for name in names[:-1]:
            try:
                below = os.open(name, _DIRECTORY, dir_fd=above)
            finally:
                os.close(above)
            above = below
        try:
            descriptor = os.open(names[-1], _FILE, dir_fd=above)
        finally:
            os.close(above)
    except OSError:
        raise no_file() from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise no_file()
    return DiskFile(descriptor, status.st_size, status.st_mtime_ns)


def no_file() -> WireError:
    """Return the answer where a signed URL leads to nothing."""
    return WireError(404, ErrorCode.MISSING, "the file does not exist; query the table again")


def _require_plain(path: str) -> list[str]:
    names = path.split("/")
    if not all(name not in ("", ".", "..") and "\0" not in name for name in names):
        raise no_file()
    return names
