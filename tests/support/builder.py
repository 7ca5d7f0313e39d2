"""Delta tables for tests: real files from a fluent description, and the model's word on what every version must be."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.actions import Line, add, birth, commit_info, remove, to_bytes
from tests.support.checkpoints import CheckpointFiles, CheckpointKind, Shape, write_checkpoint
from tests.support.in_memory import MemoryStorage
from tests.support.model import State

LOG = "_delta_log"
HINT = f"{LOG}/_last_checkpoint"
EPOCH_MS = 1_700_000_000_000
"""The modification time of commit 0; each later commit is a second younger."""


@dataclass(frozen=True)
class StoredFile:
    """The bytes of a file and when it was written."""

    data: bytes
    modified_ms: int = EPOCH_MS


Files = dict[str, StoredFile]
"""Path below the table -> file."""

Damage = Callable[[Files], None]
"""A damage of a table's files (see `damage`)."""


def commit_path(version: int) -> str:
    """Where a commit lies below the table."""
    return f"{LOG}/{version:020d}.json"


class TableBuilder:
    """Describes a table commit by commit; `write` or `in_memory` makes it real.

    What is damaged afterwards is noticed: a commit or a checkpoint whose bytes are no longer those that were built
    counts as unusable in `reconstructable`.
    """

    def __init__(self) -> None:
        self.files: Files = {}
        self.states: list[State] = []
        self._intact: dict[str, bytes] = {}
        self._checkpoints: list[CheckpointFiles] = []

    def __repr__(self) -> str:
        """The files of the table, for the report of a failing property."""
        shown = (
            f"{path}: {file.data!r}" if path.endswith(".json") else f"{path}: {len(file.data)} bytes"
            for path, file in self.files.items()
        )
        return f"<table of {', '.join(shown)}>"

    @property
    def newest(self) -> int:
        """The version of the last commit described."""
        return len(self.states) - 1

    def commit(self, *lines: Line, raw: bytes | None = None, modified_ms: int | None = None) -> TableBuilder:
        """One more commit. `raw` are its bytes where the usual ones will not do; the model believes `lines`."""
        version = len(self.states)
        self.states.append((self.states[-1] if self.states else State()).after(lines))
        data = to_bytes(lines) if raw is None else raw
        self.files[commit_path(version)] = StoredFile(
            data, EPOCH_MS + 1_000 * version if modified_ms is None else modified_ms
        )
        self._intact[commit_path(version)] = data
        return self

    def commits(self, count: int) -> TableBuilder:
        """Plain commits: each adds a file of 100 bytes and 10 records, every third removes an older one."""
        for _ in range(count):
            version = len(self.states)
            lines = [commit_info("WRITE", timestamp=EPOCH_MS + 1_000 * version, engineInfo="builder")]
            lines += birth() if version == 0 else []
            lines.append(add(f"part-{version:05d}.parquet", size=100, records=10))
            if version % 3 == 2:
                lines.append(remove(f"part-{version - 2:05d}.parquet", deleted_ms=EPOCH_MS + 1_000 * version))
            self.commit(*lines)
        return self

    def checkpoint(
        self,
        version: int | None = None,
        kind: CheckpointKind = CheckpointKind.CLASSIC,
        *,
        shape: Shape | None = None,
        actions: Sequence[Line] | None = None,
        tag: str = "",
    ) -> TableBuilder:
        """A checkpoint of a described version, by default the newest: the model's state, or `actions` in its place."""
        chosen = self.newest if version is None else version
        content = self.states[chosen].actions() if actions is None else actions
        built = write_checkpoint(chosen, content, kind, shape or Shape(), tag=tag)
        for name, data in built.all.items():
            self.files[f"{LOG}/{name}"] = StoredFile(data)
            self._intact[f"{LOG}/{name}"] = data
        self._checkpoints = [older for older in self._checkpoints if not older.top.keys() & built.top.keys()] + [built]
        return self

    def hint(self, version: int, *, checksum: str | None = None, **fields: object) -> TableBuilder:
        """A `_last_checkpoint`; `checksum` is `right`, `wrong` or absent."""
        content: dict[str, Any] = {"version": version, "size": 1, **fields}  # Any: JSON values
        if checksum is not None:
            pairs = ",".join(f'"{name}"={json.dumps(content[name])}' for name in sorted(content))
            content["checksum"] = hashlib.md5(
                (pairs if checksum == "right" else f"{pairs}?").encode(), usedforsecurity=False
            ).hexdigest()
        return self.file(HINT, json.dumps(content).encode())

    def file(self, path: str, data: bytes, *, modified_ms: int = EPOCH_MS) -> TableBuilder:
        """Any other file below the table."""
        self.files[path] = StoredFile(data, modified_ms)
        return self

    def damaged(self, *corruptions: Damage) -> TableBuilder:
        """Let something go wrong with what was described so far."""
        for damage in corruptions:
            damage(self.files)
        return self

    def write(self, directory: Path) -> Path:
        """Put the table into a directory of this machine and return it."""
        (directory / LOG).mkdir(parents=True, exist_ok=True)
        for path, file in self.files.items():
            place = directory / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.data)
            os.utime(place, ns=(file.modified_ms * 1_000_000,) * 2)
        return directory

    def in_memory(self) -> MemoryStorage:
        """Put the table into the memory of this process."""
        storage = MemoryStorage()
        for path, file in self.files.items():
            storage.write(path, file.data, modified_ms=file.modified_ms)
        return storage

    def reconstructable(self) -> set[int]:
        """The versions that an intact start and intact commits after it rebuild, if they say all that they must."""
        starts = {
            built.version for built in self._checkpoints if all(self._is_intact(f"{LOG}/{name}") for name in built.all)
        }
        found: set[int] = set()
        for start in {-1, *starts}:
            version = start
            while True:
                if version >= 0 and self.states[version].is_readable:
                    found.add(version)
                version += 1
                if version > self.newest or not self._is_intact(commit_path(version)):
                    break
        return found

    def listed(self) -> int:
        """The newest version that a name in the log speaks of; -1 where none does."""
        commits = [version for version in range(len(self.states)) if commit_path(version) in self.files]
        complete = [
            b.version
            for b in self._checkpoints
            if all(f"{LOG}/{n}" in self.files and self.files[f"{LOG}/{n}"].data for n in b.top)
        ]
        return max([*commits, *complete], default=-1)

    def commits_present(self) -> list[int]:
        """Versions whose commit file exists, ascending."""
        return [version for version in range(len(self.states)) if commit_path(version) in self.files]

    def _is_intact(self, path: str) -> bool:
        return path in self.files and bool(self.files[path].data) and self.files[path].data == self._intact[path]
