"""Reading who committed what: the commitInfo of a commit, without its file actions.

Spec: Commit Provenance Information.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

from deltacli.delta.commit_lines import Action, read_actions, split_lines
from deltacli.delta.log_path import LOG_DIRECTORY
from deltacli.delta.segment import LogFile
from deltacli.errors import CommitCorrupt
from deltacli.storage import Storage

_FIRST_READ = 8_192
_BLOCK = 4 << 20
_COMMIT_INFO = re.compile(rb'^[ \t]*\{[ \t]*"commitInfo"[ \t]*:')


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a commit says about itself. `problem` is a rule id where its first line can't be read."""

    commit_info: Action | None = None
    is_first: bool = False
    problem: str | None = None

    @property
    def in_commit_timestamp(self) -> int | None:
        """Epoch milliseconds, only where commitInfo is the first action and carries one. Spec: In-Commit Timestamps."""
        value = self.commit_info.get("inCommitTimestamp") if self.commit_info and self.is_first else None
        return value if type(value) is int else None


def read_provenance(storage: Storage, file: LogFile) -> Provenance:
    """Read the commitInfo of a commit: 8 KiB, more only while the first line is longer or another line must be
    searched for.
    """
    if file.size_bytes == 0:
        return Provenance(problem="commit.empty")
    path = f"{LOG_DIRECTORY}/{file.name}"
    if file.size_bytes <= _FIRST_READ:
        data = storage.read(path)
    else:
        data = storage.read_range(path, 0, _FIRST_READ)
    data, line, position = _first_line(storage, path, data, file.size_bytes)
    while not line.strip() and position < len(data):
        end = data.find(b"\n", position)
        line, position = (data[position:], len(data)) if end < 0 else (data[position:end], end + 1)
    try:
        first = read_actions(line, file.name)
    except CommitCorrupt as corrupt:
        return _read_spread(storage, file, corrupt)
    for kind, action in first:
        if kind == "commitInfo":
            return Provenance(action, is_first=True)
    return _search(storage, file, path, data, position)


def _search(storage: Storage, file: LogFile, path: str, data: bytes, position: int) -> Provenance:
    """Look for a commitInfo line after the first one; lines of other actions are passed over, not parsed."""
    rest = range(len(data), file.size_bytes, _BLOCK)
    blocks = chain([data[position:]], (storage.read_range(path, offset, _BLOCK) for offset in rest))
    line = next((line for line in split_lines(blocks) if _COMMIT_INFO.match(line)), None)
    if line is None:
        return Provenance()
    try:
        return Provenance(
            next((action for kind, action in read_actions(line, file.name) if kind == "commitInfo"), None)
        )
    except CommitCorrupt:
        return Provenance()


def _first_line(storage: Storage, path: str, data: bytes, size_bytes: int) -> tuple[bytes, bytes, int]:
    """Return what was read so far, its first line, and where the next one begins; reads on where the line is cut."""
    while (end := data.find(b"\n")) < 0 and len(data) < size_bytes:
        more = storage.read_range(path, len(data), max(_FIRST_READ, len(data)))
        if not more:
            break
        data += more
    return (data, data, len(data)) if end < 0 else (data, data[:end], end + 1)


def _read_spread(storage: Storage, file: LogFile, corrupt: CommitCorrupt) -> Provenance:
    """The first line is no action: a commit whose actions span several lines, or a broken one."""
    try:
        actions = (
            read_actions(storage.read(f"{LOG_DIRECTORY}/{file.name}"), file.name) if file.size_bytes < _BLOCK else []
        )
    except CommitCorrupt:
        actions = []
    for position, (kind, action) in enumerate(actions):
        if kind == "commitInfo":
            return Provenance(action, is_first=position == 0)
    return Provenance() if actions else Provenance(problem=corrupt.code)
