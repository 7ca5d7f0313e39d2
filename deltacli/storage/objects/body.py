"""The body of a request: bytes, or a local file, in whole or in part."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

_BLOCK = 1 << 20


class Body:
    """Bytes, or a local file of which `size` bytes from `offset` are sent, read again each time."""

    def __init__(self, content: bytes | str, offset: int = 0, size: int | None = None) -> None:
        self._content, self._offset = content, offset
        whole = len(content) if isinstance(content, bytes) else os.stat(content).st_size
        self.size = whole - offset if size is None else size

    def part(self, offset: int, size: int) -> Body:
        """Return a part of the body; a shorter one at its end."""
        return Body(self._content, self._offset + offset, max(0, min(size, self.size - offset)))

    def read(self) -> bytes:
        """Return all bytes."""
        with self.opened() as file:
            return file.read()

    def md5(self) -> bytes:
        """Return the digest that stores compare with what they received."""
        digest = hashlib.md5(usedforsecurity=False)
        with self.opened() as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.digest()

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the body at its start."""
        if isinstance(self._content, bytes):
            yield io.BytesIO(self._content[self._offset : self._offset + self.size])
            return
        with open(self._content, "rb") as file:
            yield io.BufferedReader(_Part(file, self._offset, self.size))


class _Part(io.RawIOBase):
    """A number of bytes of a file from an offset on. Seekable, because botocore reads a body twice to sign it."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file, self._offset, self._size = file, offset, size
        self._place = 0
        file.seek(offset)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = origin + offset
        self._file.seek(self._offset + self._place)
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # collections.abc.Buffer: Python 3.12
        data = self._file.read(max(0, min(len(buffer), self._size - self._place)))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)
