"""The part of a log segment that a snapshot holds in memory.

`rebuild.py` reads a log segment once, and stores the result in `SegmentContents`. `file_actions.py` combines
it with the actions that are read on demand. Other packages use `Snapshot.file_actions` instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.core.lock_free_property import cached_property
from deltacli.delta.log.file_actions import FileBatch, ReconciledActions, SupersededFiles
from deltacli.table.replay import ReplayedCommits

if TYPE_CHECKING:
    from deltacli.work.checkpoints.parquet_files import CheckpointPiece


@dataclass(frozen=True, eq=False)
class SegmentContents:
    """The replayed commits of a log segment, and the plan for reading its checkpoint.

    Attributes:
        replayed: The reconciled commits after the checkpoint.
        json_actions: File actions in the lines of a JSON checkpoint (not in its sidecars) that no later
            commit supersedes. Empty for a Parquet checkpoint.
        narrow_json_actions: The same actions as a narrow batch: path, deletion vector id, size and number
            of records, without statistics.
        pieces: The row groups of the checkpoint that may contain file actions.
    """

    replayed: ReplayedCommits
    json_actions: ReconciledActions
    narrow_json_actions: FileBatch
    pieces: tuple[CheckpointPiece, ...]

    @property
    def has_json_actions(self) -> bool:
        """True if the lines of a JSON checkpoint contain live files or tombstones."""
        return bool(self.json_actions.adds or self.json_actions.removes)

    @cached_property
    def superseded_files(self) -> SupersededFiles:
        """The files that commits after the checkpoint add or remove. Their rows in the checkpoint are stale."""
        return self.replayed.superseded_files
