"""The note that a copy has of its source, `_delta_log/_deltacli_copy.json`: where it is, and the digest of its past.

The note is written as incomplete before the first file. Each commit is noted with its size, its time and its SHA-256,
so that a source with another past is recognized although its versions have the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.changing.recorded_fields import (
    validate_sha256,
    validate_size_bytes,
    validate_time_ms,
    validate_uri,
    validate_version,
)
from deltacli.core.errors import FileMissing, Unreadable
from deltacli.core.times import format_timestamp
from deltacli.delta.log.segment import LOG_DIRECTORY, commit_name
from deltacli.storage import ReadStorage

NOTE_PATH = f"{LOG_DIRECTORY}/_deltacli_copy.json"
_KIND = "deltacli.copy-note"


class CopiedCommit(NamedTuple):
    """A commit as it was in the source when it was copied."""

    version: int
    size_bytes: int
    modified_ms: int
    sha256: str


@dataclass(frozen=True)
class CopyNote:
    """What a copy has, and of which table. `is_complete` is False until the first run is through."""

    source: str
    table_id: str
    is_replica: bool
    is_complete: bool
    first_version: int
    last_version: int
    taken_ms: int
    commits: Mapping[int, CopiedCommit] = field(default_factory=dict)
    own_id: str | None = None
    """The id that the copy gets, None for a replica, which has that of its source."""
    is_relative: bool = False
    """Absolute paths into the source are relative in the copy."""
    failed_level: str | None = None
    """The level at which the last run found a difference: it is not to be forgotten at a lower one."""

    @property
    def past_sha256(self) -> str:
        """The digest of the commits, each with its name."""
        from hashlib import sha256

        lines = (f"{commit_name(one.version)}\t{one.sha256}\n" for _, one in sorted(self.commits.items()))
        return sha256("".join(lines).encode()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the file."""
        content = {
            "kind": _KIND,
            "schemaVersion": 1,
            "source": self.source,
            "tableId": self.table_id,
            "replica": self.is_replica,
            "complete": self.is_complete,
            "firstVersion": self.first_version,
            "lastVersion": self.last_version,
            "timestampMs": self.taken_ms,
            "timestamp": format_timestamp(self.taken_ms),
            "pastSha256": self.past_sha256,
            **({} if self.own_id is None else {"ownId": self.own_id}),
            **({"relativePaths": True} if self.is_relative else {}),
            **({} if self.failed_level is None else {"failedLevel": self.failed_level}),
            "commits": [list(one) for _, one in sorted(self.commits.items())],
        }
        return json.dumps(content, separators=(",", ":")).encode("ascii") + b"\n"


def read_note(storage: ReadStorage) -> CopyNote | None:
    """Return the note of a copy; None where there is none. Raises Unreadable (`copy.note-corrupt`)."""
    try:
        data = storage.read(NOTE_PATH)
    except FileMissing:
        return None
    try:
        found = json.loads(data)
        note = CopyNote(
            validate_uri(found["source"], "source"),
            str(found["tableId"]),
            found["replica"] is True,
            found["complete"] is True,
            validate_version(found["firstVersion"], "firstVersion"),
            validate_version(found["lastVersion"], "lastVersion"),
            validate_time_ms(found["timestampMs"], "timestampMs"),
            _commits(found["commits"]),
            found.get("ownId"),
            found.get("relativePaths") is True,
            found.get("failedLevel"),
        )
        if not (note.own_id is None or isinstance(note.own_id, str)):
            raise ValueError("ownId is not a text")
        if note.failed_level not in (None, "storage", "footers", "data"):
            raise ValueError("it names no level")
        if found["kind"] != _KIND or found["pastSha256"] != note.past_sha256:
            raise ValueError("its digest is another one")
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise Unreadable(
            "the note of the copy cannot be read",
            code="copy.note-corrupt",
            facts={"target": storage.uri, "file": NOTE_PATH, "reason": str(fault)[:200]},
        ) from fault
    return note


def _commits(rows: Sequence[Sequence[object]]) -> dict[int, CopiedCommit]:
    """Return the commits of a note by version. Raises ValueError and TypeError."""
    commits = {}
    for row in rows:
        number, size_bytes, modified_ms, sha256 = row
        version = validate_version(number, "version of a commit")
        commits[version] = CopiedCommit(
            version,
            validate_size_bytes(size_bytes, f"size of commit {version}"),
            validate_time_ms(modified_ms, f"time of commit {version}"),
            validate_sha256(sha256, f"digest of commit {version}"),
        )
    return commits
