"""Read the provenance of a commit, its commitInfo, without reading its file actions.

Spec: Commit Provenance Information.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import NamedTuple

from deltacli.core.errors import CommitCorrupt
from deltacli.delta.log.actions import (
    MAX_LINE_BYTES,
    Action,
    is_nested_too_deeply,
    kinds_of,
    line_too_long,
    read_actions,
    split_lines,
)
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import READ_BLOCK_BYTES, stream_commit

_FIRST_READ = 8_192
_LAST_READ = 8_192
_COMMIT_INFO = re.compile(rb'^[ \t]*\{[ \t]*"commitInfo"[ \t]*:')
_BEGINS_LIKE_JSON = re.compile(rb'\s*(?:[{["0-9tfnNI-]|\Z)')


class Provenance(NamedTuple):
    """The provenance of a commit. `problem` is a rule id if an examined line cannot be read."""

    commit_info: Action | None = None
    is_first: bool = False
    problem: str | None = None

    @property
    def in_commit_timestamp(self) -> int | None:
        """Epoch milliseconds if commitInfo comes first and has a timestamp, else None. Spec: In-Commit Timestamps."""
        value = self.commit_info.get("inCommitTimestamp") if self.commit_info and self.is_first else None
        return value if type(value) is int else None


def read_provenance(storage: ReadStorage, file: LogFile, *, to_the_end: bool = False) -> Provenance:
    """Read the commitInfo of a commit.

    Reads 8 KiB, and more only if the first line is longer or another line has to be searched for. With `to_the_end`, a
    commit with a truncated last line also has a `problem`.
    """
    if file.size_bytes == 0:
        return Provenance(problem="commit.empty")
    path = f"{LOG_DIRECTORY}/{file.name}"
    data = storage.read(path) if file.size_bytes <= _FIRST_READ else storage.read_range(path, 0, _FIRST_READ)
    if not data:
        return Provenance(problem="commit.empty")
    provenance = _read_beginning(storage, file, path, data)
    if to_the_end and provenance.problem is None:
        return provenance._replace(problem=_find_torn_end(storage, file, data))
    return provenance


def _read_beginning(storage: ReadStorage, file: LogFile, path: str, data: bytes) -> Provenance:
    try:
        data, line, position = _read_first_line(storage, path, data, file)
    except CommitCorrupt as corrupt:
        return Provenance(problem=corrupt.code)
    while not line.strip() and position < len(data):
        end = data.find(b"\n", position)
        line, position = (data[position:], len(data)) if end < 0 else (data[position:end], end + 1)
    try:
        first = read_actions(line, file.name)
    except CommitCorrupt as corrupt:
        return _read_multiline_actions(storage, file, corrupt)
    for kind, action in first:
        if kind == "commitInfo":
            return _make_provenance(line, action, is_first=True)
    return _search_commit_info(storage, file, path, data, position)


def _find_torn_end(storage: ReadStorage, file: LogFile, read: bytes) -> str | None:
    """Return the rule id of the fault of a commit with a truncated last line; None if that line is complete.

    Reads at most the last 8 KiB, or the whole commit if they do not end with a line of JSON.
    """
    start = max(0, file.size_bytes - _LAST_READ)
    if len(read) < file.size_bytes:
        read = storage.read_range(f"{LOG_DIRECTORY}/{file.name}", start, _LAST_READ)
    data = read.rstrip()
    line = data[data.rfind(b"\n") + 1 :]
    if kinds_of(line) is not None or (start and len(line) == len(data) and line.endswith(b"}}")):
        return None
    try:
        for _ in stream_commit(storage, file):
            pass
    except CommitCorrupt as corrupt:
        return corrupt.code
    return None


def _search_commit_info(storage: ReadStorage, file: LogFile, path: str, data: bytes, position: int) -> Provenance:
    """Search for a commitInfo line after the first line. Lines of other actions are skipped without parsing."""
    rest = range(len(data), file.size_bytes, READ_BLOCK_BYTES)
    blocks = chain([data[position:]], (storage.read_range(path, offset, READ_BLOCK_BYTES) for offset in rest))
    try:
        line = next((line for line in split_lines(blocks, file.name) if _COMMIT_INFO.match(line)), None)
    except CommitCorrupt as corrupt:
        return Provenance(problem=corrupt.code)
    if line is None:
        return Provenance()
    try:
        commit_info = next((action for kind, action in read_actions(line, file.name) if kind == "commitInfo"), None)
    except CommitCorrupt:
        return Provenance()
    return _make_provenance(line, commit_info, is_first=False)


def _make_provenance(text: bytes, commit_info: Action | None, *, is_first: bool) -> Provenance:
    """Return the provenance in a commitInfo, or a problem if it is nested too deeply to be encoded as JSON."""
    if commit_info is not None and is_nested_too_deeply(text, commit_info):
        return Provenance(problem="commit.bad-json")
    return Provenance(commit_info, is_first=is_first)


def _read_first_line(storage: ReadStorage, path: str, data: bytes, file: LogFile) -> tuple[bytes, bytes, int]:
    """Return the bytes read so far, the first line, and the start of the next; read more if the line is truncated.

    Raises CommitCorrupt if the line is too long, or does not begin like an action.
    """
    while (end := data.find(b"\n")) < 0 and len(data) < file.size_bytes:
        if not _BEGINS_LIKE_JSON.match(data):
            read_actions(data[:1], file.name)  # raises if the bytes are not text
            raise CommitCorrupt(f"{file.name} line 1 is not JSON", file=file.name)
        if len(data) > MAX_LINE_BYTES:
            raise line_too_long(file.name, 1)
        length = min(max(_FIRST_READ, len(data)), MAX_LINE_BYTES + 1 - len(data))
        more = storage.read_range(path, len(data), length)
        if not more:
            break
        data += more
    return (data, data, len(data)) if end < 0 else (data, data[:end], end + 1)


def _read_multiline_actions(storage: ReadStorage, file: LogFile, corrupt: CommitCorrupt) -> Provenance:
    """Read a commit whose first line is not an action: its actions span several lines, or it is invalid."""
    data = storage.read(f"{LOG_DIRECTORY}/{file.name}") if file.size_bytes < READ_BLOCK_BYTES else b""
    try:
        actions = read_actions(data, file.name)
    except CommitCorrupt:
        actions = []
    for position, (kind, action) in enumerate(actions):
        if kind == "commitInfo":
            return _make_provenance(data, action, is_first=position == 0)
    return Provenance() if actions else Provenance(problem=corrupt.code)
