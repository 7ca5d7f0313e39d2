"""A log as a copy elsewhere has to have it: files of the table that it names by absolute paths are named by relative
ones, so that the copy does not lead back to the source.

Spec: Add File and Remove File; Add CDC File; Deletion Vector Descriptor Schema.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa

from deltacli.core.errors import FileMissing
from deltacli.core.typing import BinaryFile
from deltacli.delta.data_files import encode_z85
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import HINT_NAME, LOG_DIRECTORY, LogFileKind, make_log_file
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import decode_path_bytes, encode
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.storage import ReadStorage
from deltacli.storage.base import FileStat

_VECTOR = re.compile(r"(?:(.*)/)?deletion_vector_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.bin", re.DOTALL)
_ABSOLUTE = re.compile(rb'"(?:path|pathOrInlineDv)"\s*:\s*"(?:[A-Za-z][A-Za-z0-9+.-]*:|\\?/)')
"""In a line that may name a file by an absolute path."""
_OF_FILES = ("add", "remove", "cdc")


class RelativeLog:
    """The store of a table whose commits name the files of the table by relative paths. It has no checkpoints, no
    checksums and no hint, which would have the paths of the `real` store. Paths that lead elsewhere stay as they are.
    """

    def __init__(self, real: ReadStorage) -> None:
        self.real = real
        self._keys = PathKeys((real.uri, *real.aliases))
        self._sizes: dict[FileStat, int] = {}
        self._last: tuple[str, bytes] = ("", b"")

    def __getattr__(self, name: str) -> Any:  # Any: what the store has
        return getattr(self.real, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files of a directory; of the log its commits, with the sizes that they have here."""
        for one in self.real.list_from(directory, start):
            if directory != LOG_DIRECTORY:
                yield one
            elif _is_commit(one.name):
                yield self._sized(one, f"{LOG_DIRECTORY}/{one.name}")

    def stat(self, path: str) -> FileStat:
        """Return a file, a commit with the size that it has here."""
        found = self.real.stat(path)
        return self._sized(found, path) if _is_commit_path(path) else found

    def read(self, path: str) -> bytes:
        """Return the bytes of a file, those of a commit with relative paths."""
        if path == f"{LOG_DIRECTORY}/{HINT_NAME}":
            raise FileMissing(path)
        data = self.real.read(path)
        if not _is_commit_path(path) or _ABSOLUTE.search(data) is None:
            return data
        return b"".join(self._line(line) for line in data.splitlines(keepends=True))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return bytes of a file; of a commit of which more may be read, the last one is kept."""
        if not _is_commit_path(path):
            return self.real.read_range(path, offset, length)
        name, data = self._last
        if not offset or name != path:
            data = self.read(path)
            self._last = path, data
        return data[offset : offset + length]

    def open(self, path: str) -> BinaryFile:
        return io.BytesIO(self.read(path)) if _is_commit_path(path) else self.real.open(path)

    def _sized(self, found: FileStat, path: str) -> FileStat:
        if found not in self._sizes:
            self._sizes[found] = len(self.read(path)) if found.size_bytes else 0
        return found._replace(size_bytes=self._sizes[found])

    def _line(self, line: bytes) -> bytes:
        if _ABSOLUTE.search(line) is None:
            return line
        try:
            action = json.loads(line)
        except (ValueError, RecursionError):
            return line  # readers report it
        found = [action[kind] for kind in _OF_FILES if isinstance(action, dict) and isinstance(action.get(kind), dict)]
        if not sum(map(self._make_relative, found)):
            return line
        end = line[len(line.rstrip(b"\r\n")) :]
        return json.dumps(action, separators=(",", ":")).encode() + end

    def _make_relative(self, file: Action) -> bool:
        """Make the paths of an action relative where they lead into the table, and return whether one did."""
        before = json.dumps(file)
        path, vector = file.get("path"), file.get("deletionVector")
        if isinstance(path, str) and (below := self._below(path)) is not None:
            file["path"] = encode(below)
        if isinstance(vector, dict) and vector.get("storageType") == "p":
            below = self._below(vector.get("pathOrInlineDv"))
            match = None if below is None else _VECTOR.fullmatch(below)
            if match is not None:
                text = f"{match[1] or ''}{encode_z85(UUID(match[2]).bytes)}"
                vector.update(storageType="u", pathOrInlineDv=text)
        return before != json.dumps(file)

    def _below(self, path: object) -> str | None:
        """Return the path in the table that an absolute path leads to; None for one that leads elsewhere."""
        paths = pa.array([path if isinstance(path, str) else ""], pa.string())
        if not are_absolute(paths)[0].as_py():
            return None
        key = self._keys.compute_keys(paths).keys[0].as_py()
        return None if key is None else decode_path_bytes(key)


def _is_commit(name: str) -> bool:
    return make_log_file(name, 0, 0).path.kind is LogFileKind.COMMIT


def _is_commit_path(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return directory == LOG_DIRECTORY and _is_commit(name)
