"""The content of an object as it is sent, and objects as seekable files."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

_BLOCK_BYTES = 1 << 20


class Body:
    """Bytes, or a part of a local file, which are read again each time the request is sent.

    Attributes:
        size: The number of bytes.
    """

    def __init__(self, content: bytes | str, offset: int = 0, size: int | None = None) -> None:
        """Make a body of bytes, or of the file at a local path.

        Args:
            content: The bytes, or the path.
            offset: Where the body begins in them.
            size: The number of bytes; None for all to the end.
        """
        self._content = content
        self._offset = offset
        content_bytes = len(content) if isinstance(content, bytes) else os.stat(content).st_size
        self.size = content_bytes - offset if size is None else size

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
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.digest()

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the body at its start."""
        if isinstance(self._content, bytes):
            yield io.BytesIO(self._content[self._offset : self._offset + self.size])
            return
        with open(self._content, "rb") as file:
            yield io.BufferedReader(_FilePart(file, self._offset, self.size))


class _Seekable(io.RawIOBase):
    """Bytes of a known size that are read from any position."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("a position before the start")
        self._position = base + offset
        return self._position


class _FilePart(_Seekable):
    """A number of bytes of a file from an offset on. It is seekable, because botocore reads a body twice to sign it."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        super().__init__(size)
        self._file = file
        self._offset = offset

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # collections.abc.Buffer: Python 3.12
        self._file.seek(self._offset + self._position)
        data = self._file.read(max(0, min(len(buffer), self._size - self._position)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class ObjectReader(_Seekable):
    """An object as a seekable file.

    Attributes:
        tag: Identifies the content that is read.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, tail: bytes, tag: str) -> None:
        """Make a file of an object.

        Args:
            read: Returns the bytes of a range: its offset, its length.
            size: The size of the object.
            tail: Bytes at the end of the object that are in memory already, such as the footer of a
                Parquet file.
            tag: Identifies the content.
        """
        super().__init__(size)
        self.tag = tag
        self._read = read
        self._tail = tail

    def readinto(self, buffer: Any) -> int:  # Any: collections.abc.Buffer comes with Python 3.12
        view = memoryview(buffer).cast("B")
        position_in_tail = self._position - (self._size - len(self._tail))
        if position_in_tail >= 0:
            data = self._tail[position_in_tail : position_in_tail + len(view)]
        else:
            data = self._read(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
