"""The cheap facts of a table: one listing of its log and its checkpoint hint, no commit and no checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.delta.checkpoint.last_checkpoint_content import Hint
from deltacli.delta.log.segment import choose_segment, read_listing
from deltacli.errors import CommitCorrupt
from deltacli.operations.table.find_log import find_hint, list_log_files
from deltacli.typing import Json
from deltacli.units import format_timestamp

if TYPE_CHECKING:
    from deltacli.storage import Storage


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of a log, as far as its listing shows it. Sizes are bytes; versions are -1 where there is none."""

    version: int
    committed_ms: int
    """Modification time of the newest commit, or of the checkpoint where the commit is missing."""
    log_files: int
    log_bytes: int
    checkpoint: int
    """Version of the newest complete checkpoint."""
    checkpoint_ms: int
    checkpoint_bytes: int
    commits_behind: int
    bytes_behind: int
    hint: int
    """Version in `_last_checkpoint`; -1 where the file is missing or invalid."""
    behind_since_ms: int
    """Modification time of the oldest commit that the checkpoint does not contain; 0 where there is none."""
    expirable_files: int
    expirable_bytes: int
    """Versioned files before the newest checkpoint that is older than the cutoff."""

    def as_json(self) -> dict[str, Json]:
        """Return the facts for documents. What does not exist is left out."""
        found: dict[str, Json] = {
            "version": self.version,
            "committedMs": self.committed_ms,
            "committed": format_timestamp(self.committed_ms),
            "logFiles": self.log_files,
            "logBytes": self.log_bytes,
            "commitsBehind": self.commits_behind,
            "bytesBehind": self.bytes_behind,
            "expirableFiles": self.expirable_files,
            "expirableBytes": self.expirable_bytes,
        }
        if self.behind_since_ms:
            found["behindSinceMs"] = self.behind_since_ms
        if self.checkpoint >= 0:
            found |= {"checkpointVersion": self.checkpoint, "checkpointMs": self.checkpoint_ms}
        return found if self.hint < 0 else found | {"hintVersion": self.hint}


def read_facts(store: Storage, at: str, cutoff_ms: int) -> TableFacts:
    """Return the facts of the table in a directory of a store: two calls, and one more per 1,000 files of its log.

    Raises NotATable, LogIncomplete and CommitCorrupt where the listing shows that the newest version cannot be rebuilt,
    and StorageFailed.
    """
    files = list_log_files(store, at)
    listing = read_listing(files)
    segment = choose_segment(listing)
    for file in segment.commits:
        if not file.size_bytes:
            raise CommitCorrupt(f"commit {file.version} is empty", code="commit.empty", facts={"file": file.name})
    start = segment.checkpoint
    newest = listing.commits.get(segment.version) or (start.files[0] if start else files[-1])
    boundary = max(
        (found.version for found in listing.checkpoints if max(one.modified_ms for one in found.files) <= cutoff_ms),
        default=-1,
    )
    hint = find_hint(store, at)
    expirable = [file for file in files if 0 <= file.version < boundary]
    return TableFacts(
        version=segment.version,
        committed_ms=newest.modified_ms,
        log_files=len(files),
        log_bytes=sum(file.size_bytes for file in files),
        checkpoint=start.version if start else -1,
        checkpoint_ms=max(file.modified_ms for file in start.files) if start else 0,
        checkpoint_bytes=sum(file.size_bytes for file in start.files) if start else 0,
        commits_behind=len(segment.commits),
        bytes_behind=sum(file.size_bytes for file in segment.commits),
        behind_since_ms=segment.commits[0].modified_ms if segment.commits else 0,
        hint=hint.version if isinstance(hint, Hint) else -1,
        expirable_files=len(expirable),
        expirable_bytes=sum(file.size_bytes for file in expirable),
    )
