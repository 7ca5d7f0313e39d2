"""Files in the memory of this process: for tests, and for tables that never touch a disk."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from deltacli.errors import FileMissing
from deltacli.storage.base import Capabilities, FileStat, PathKind


class MemoryStorage:
    """A dictionary of files. `modified_ms` of a file is what `write` was told."""

    def __init__(self, name: str = "table") -> None:
        self._uri = f"memory://{name}"
        self._files: dict[str, tuple[bytes, int]] = {}

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(cheap_listing=True, parallel_reads=False)

    def write(self, path: str, data: bytes, *, modified_ms: int = 0) -> None:
        """Put a file in place, whole, over whatever was there."""
        self._files[path] = (data, modified_ms)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = f"{directory}/" if directory else ""
        names = [path[len(prefix) :] for path in self._files if path.startswith(prefix)]
        if not names:
            raise FileMissing(f"{self._uri}/{directory} does not exist")
        for name in sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape")):
            if "/" not in name and name >= start:
                data, modified_ms = self._files[prefix + name]
                yield FileStat(name, len(data), modified_ms)

    def list_directories(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        rest = [path[len(prefix) :] for path in self._files if path.startswith(prefix)]
        if not rest:
            raise FileMissing(f"{self._uri}/{directory} does not exist")
        return sorted({name.split("/", 1)[0] for name in rest if "/" in name})

    def read(self, path: str) -> bytes:
        try:
            return self._files[path][0]
        except KeyError:
            raise FileMissing(f"{self._uri}/{path} does not exist") from None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read(path)[offset : offset + length]

    def open(self, path: str) -> Any:
        return io.BytesIO(self.read(path))

    def kind_of(self, path: str) -> PathKind:
        if path in self._files:
            return PathKind.FILE
        prefix = f"{path}/" if path else ""
        return PathKind.DIRECTORY if any(name.startswith(prefix) for name in self._files) else PathKind.MISSING
