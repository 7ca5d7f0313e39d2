"""The content of upload requests (`Body`), and objects as seekable files (`ObjectReader`)."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

_BLOCK_BYTES = 1 << 20


class Body:
    """The content of an upload: bytes, or a section of a local file.

    A file is opened again for each attempt to send the request, so that its content is never in memory completely.

    Attributes:
        size: The number of bytes.
    """

    def __init__(self, content: bytes | str, offset: int = 0, size: int | None = None) -> None:
        """Create a body.

        Args:
            content: The bytes, or the path of a local file.
            offset: The offset of the first byte to send.
            size: The number of bytes to send; None for all bytes after the offset.
        """
        self._content = content
        self._offset = offset
        content_bytes = len(content) if isinstance(content, bytes) else os.stat(content).st_size
        self.size = content_bytes - offset if size is None else size

    def slice(self, offset: int, size: int) -> Body:
        """Return a section of the body. It has fewer than `size` bytes if the body ends before."""
        return Body(self._content, self._offset + offset, max(0, min(size, self.size - offset)))

    def read(self) -> bytes:
        """Return all bytes."""
        with self.open() as file:
            return file.read()

    def compute_md5(self) -> bytes:
        """Return the MD5 digest, which stores compare with the digest of the bytes that they received."""
        digest = hashlib.md5(usedforsecurity=False)
        with self.open() as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.digest()

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the body for reading from its first byte, for use in a `with` statement."""
        if isinstance(self._content, bytes):
            yield io.BytesIO(self._content[self._offset : self._offset + self.size])
            return
        with open(self._content, "rb") as file:
            yield io.BufferedReader(_FileSection(file, self._offset, self.size))


class _SeekableReader(io.RawIOBase):
    """Base class of read-only files with a known size and random access."""

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


class _FileSection(_SeekableReader):
    """A section of a local file. It must be seekable, because botocore reads a body twice in order to sign it."""

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


class ObjectReader(_SeekableReader):
    """An object of a store as a seekable file. Each read outside the tail sends a range request.

    Attributes:
        tag: Identifies the content of the object, for example its entity tag. The `read` function of the
            constructor must fail if the object no longer has this tag, so that a reader never gets bytes of two
            different contents.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, tail: bytes, tag: str) -> None:
        """Create a file.

        Args:
            read: Returns the bytes of a range. Its arguments are the offset and the length.
            size: The size of the object in bytes.
            tail: The last bytes of the object, which are in memory already. They usually include the footer of a
                Parquet file, which readers request first.
            tag: Identifies the content of the object.
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
