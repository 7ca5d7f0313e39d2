"""An object of a store as a seekable file."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


class ObjectReader(io.RawIOBase):
    """An object as a seekable file, with its end in memory if it was read before."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, tail: bytes, tag: str) -> None:
        """`read` returns the bytes of a range: its offset, its length."""
        self._read, self._size, self._tail = read, size, tail
        self.tag = tag
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

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:  # Any: collections.abc.Buffer comes with Python 3.12
        view = memoryview(buffer).cast("B")
        in_tail = self._position - (self._size - len(self._tail))
        if in_tail >= 0:
            data = self._tail[in_tail : in_tail + len(view)]
        else:
            data = self._read(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
