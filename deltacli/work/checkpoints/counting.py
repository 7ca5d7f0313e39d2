"""Count the live files and tombstones of a checkpoint, one row group at a time."""

from __future__ import annotations

from deltacli.delta.log.counts import FileCounts, TombstoneCounts, count_batch
from deltacli.work.checkpoints.reading import CheckpointPiece, read_narrow
from deltacli.work.task import TaskContext


class CountPiece:
    """Counts the file actions of a row group that newer commits have not decided (shared `touched`).

    Tombstones with a time before `cutoff_ms` (epoch milliseconds) count as expired.
    """

    unit_seconds = 4e-7

    def __init__(self, cutoff_ms: int) -> None:
        self.cutoff_ms = cutoff_ms

    def __call__(self, piece: CheckpointPiece, context: TaskContext) -> tuple[FileCounts, TombstoneCounts]:
        """Return the counts. Raises CheckpointUnreadable."""
        files, tombstones = FileCounts(), TombstoneCounts()
        for batch in read_narrow(context.stores, piece, context.shared("touched"), with_paths=False):
            files, tombstones = count_batch(batch, self.cutoff_ms, files, tombstones)
        return files, tombstones
