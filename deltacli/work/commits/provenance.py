"""Read the provenance of a commit, its commitInfo, without reading its file actions.

`history` reads the commitInfo of thousands of commits. Most writers put it into the first line, so 8 KiB of a commit
are usually enough:

    {"commitInfo":{"timestamp":1700000000000,"operation":"WRITE",…}}     read, and the search ends here
    {"add":{"path":"…"}}                                                 millions of lines that are not read

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
from deltacli.delta.log.segment import LogFile
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import READ_BLOCK_BYTES, commit_location, stream_commit

_FIRST_READ = 8_192
_LAST_READ = 8_192
_COMMIT_INFO = re.compile(rb'^[ \t]*\{[ \t]*"commitInfo"[ \t]*:')
_BEGINS_LIKE_JSON = re.compile(rb'\s*(?:[{["0-9tfnNI-]|\Z)')


class Provenance(NamedTuple):
    """The provenance of a commit.

    Attributes:
        commit_info: The commitInfo; None if the commit has none, or none that can be read.
        is_first: Whether it is the first action of the commit.
        problem: The id of a rule of `validate`, if an examined line cannot be read.
    """

    commit_info: Action | None = None
    is_first: bool = False
    problem: str | None = None

    @property
    def in_commit_timestamp(self) -> int | None:
        """Epoch milliseconds if commitInfo comes first and has a timestamp, else None. Spec: In-Commit Timestamps."""
        if self.commit_info is None or not self.is_first:
            return None
        value = self.commit_info.get("inCommitTimestamp")
        return value if type(value) is int else None


def read_provenance(storage: ReadStorage, file: LogFile, *, to_the_end: bool = False) -> Provenance:
    """Read the commitInfo of a commit.

    Reads 8 KiB, and more only if the first line is longer or another line has to be searched for.

    Args:
        storage: The store of the table.
        file: The commit.
        to_the_end: Look at the end of the commit, too. A commit with a truncated last line has a `problem` then.

    Returns:
        The provenance. A damaged commit is not an error: the damage is its `problem`.
    """
    if file.size_bytes == 0:
        return Provenance(problem="commit.empty")

    path = commit_location(file)
    is_read_at_once = file.size_bytes <= _FIRST_READ
    beginning = storage.read(path) if is_read_at_once else storage.read_range(path, 0, _FIRST_READ)
    if not beginning:
        return Provenance(problem="commit.empty")

    provenance = _read_beginning(storage, file, beginning)
    if to_the_end and provenance.problem is None:
        return provenance._replace(problem=_find_torn_end(storage, file, beginning))
    return provenance


class _FirstLine(NamedTuple):
    """The bytes of a commit that have been read, the first line of them, and the offset of the line after it."""

    data: bytes
    line: bytes
    next_offset: int


def _read_beginning(storage: ReadStorage, file: LogFile, beginning: bytes) -> Provenance:
    """Return the provenance of a commit, given its first bytes."""
    try:
        data, line, offset = _read_first_line(storage, file, beginning)
    except CommitCorrupt as corrupt:
        return Provenance(problem=corrupt.code)

    # Empty lines before the first action are no actions.
    while not line.strip() and offset < len(data):
        end = data.find(b"\n", offset)
        if end < 0:
            line = data[offset:]
            offset = len(data)
        else:
            line = data[offset:end]
            offset = end + 1

    try:
        actions = read_actions(line, file.name)
    except CommitCorrupt as corrupt:
        return _read_multiline_actions(storage, file, corrupt)
    for kind, action in actions:
        if kind == "commitInfo":
            return _make_provenance(line, action, is_first=True)
    return _search_commit_info(storage, file, data, offset)


def _read_first_line(storage: ReadStorage, file: LogFile, data: bytes) -> _FirstLine:
    """Return the first line of a commit, given its first bytes. Read more, twice as much each time, if it is longer.

    Raises:
        CommitCorrupt: If the line is too long, or does not begin like an action. A file without line ends that is no
            commit at all would otherwise be read up to the limit.
    """
    while (end := data.find(b"\n")) < 0 and len(data) < file.size_bytes:
        if not _BEGINS_LIKE_JSON.match(data):
            read_actions(data[:1], file.name)  # raises if the bytes are not text
            raise CommitCorrupt(f"{file.name} line 1 is not JSON", file=file.name)
        if len(data) > MAX_LINE_BYTES:
            raise line_too_long(file.name, 1)
        length = min(max(_FIRST_READ, len(data)), MAX_LINE_BYTES + 1 - len(data))
        more = storage.read_range(commit_location(file), len(data), length)
        if not more:
            break
        data += more

    if end < 0:
        return _FirstLine(data, data, len(data))
    return _FirstLine(data, data[:end], end + 1)


def _read_multiline_actions(storage: ReadStorage, file: LogFile, corrupt: CommitCorrupt) -> Provenance:
    """Read a commit whose first line is not an action: its actions span several lines, or it is invalid."""
    is_small = file.size_bytes < READ_BLOCK_BYTES
    data = storage.read(commit_location(file)) if is_small else b""
    try:
        actions = read_actions(data, file.name)
    except CommitCorrupt:
        actions = []
    for position, (kind, action) in enumerate(actions):
        if kind == "commitInfo":
            return _make_provenance(data, action, is_first=position == 0)
    return Provenance() if actions else Provenance(problem=corrupt.code)


def _search_commit_info(storage: ReadStorage, file: LogFile, data: bytes, offset: int) -> Provenance:
    """Search for a commitInfo line after the first line. Lines of other actions are skipped without parsing.

    Args:
        storage: The store of the table.
        file: The commit.
        data: The bytes at its beginning that have been read.
        offset: Where in these bytes the search begins.
    """
    path = commit_location(file)
    unread_offsets = range(len(data), file.size_bytes, READ_BLOCK_BYTES)
    unread_blocks = (storage.read_range(path, start, READ_BLOCK_BYTES) for start in unread_offsets)
    lines = split_lines(chain([data[offset:]], unread_blocks), file.name)
    try:
        line = next((line for line in lines if _COMMIT_INFO.match(line)), None)
    except CommitCorrupt as corrupt:
        return Provenance(problem=corrupt.code)
    if line is None:
        return Provenance()

    try:
        actions = read_actions(line, file.name)
    except CommitCorrupt:
        return Provenance()
    commit_info = next((action for kind, action in actions if kind == "commitInfo"), None)
    return _make_provenance(line, commit_info, is_first=False)


def _make_provenance(text: bytes, commit_info: Action | None, *, is_first: bool) -> Provenance:
    """Return the provenance in a commitInfo, or a problem if it is nested too deeply to be encoded as JSON."""
    if commit_info is not None and is_nested_too_deeply(text, commit_info):
        return Provenance(problem="commit.bad-json")
    return Provenance(commit_info, is_first=is_first)


def _find_torn_end(storage: ReadStorage, file: LogFile, beginning: bytes) -> str | None:
    """Return the rule that a commit with a truncated last line violates; None if that line is complete.

    Reads at most the last 8 KiB, or the whole commit if they do not end with a line of JSON.
    """
    start = max(0, file.size_bytes - _LAST_READ)
    is_read = len(beginning) >= file.size_bytes
    ending = beginning if is_read else storage.read_range(commit_location(file), start, _LAST_READ)
    data = ending.rstrip()
    line = data[data.rfind(b"\n") + 1 :]

    is_complete = kinds_of(line) is not None
    # A line that begins before the last 8 KiB cannot be parsed, but all actions end with two braces.
    is_end_of_long_line = start > 0 and len(line) == len(data) and line.endswith(b"}}")
    if is_complete or is_end_of_long_line:
        return None

    try:
        for _ in stream_commit(storage, file):
            pass
    except CommitCorrupt as corrupt:
        return corrupt.code
    return None
