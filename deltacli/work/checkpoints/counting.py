"""Count the live files and tombstones of a checkpoint, one row group at a time."""

from __future__ import annotations

from deltacli.delta.log.counts import FileCounts, TombstoneCounts, count_adds, count_removes
from deltacli.work.checkpoints.reading import CheckpointPiece, FileBatch, read_narrow
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


def rows_of_piece(piece: CheckpointPiece) -> int:
    """Return the number of rows of a row group, including those of other actions."""
    return piece.group.rows


def count_batch(
    batch: FileBatch, cutoff_ms: int, files: FileCounts, tombstones: TombstoneCounts
) -> tuple[FileCounts, TombstoneCounts]:
    """Return the counts with those of one more batch."""
    if batch.adds is not None:
        files += count_adds(batch.adds)
    if batch.removes is not None:
        tombstones += count_removes(batch.removes, cutoff_ms)
    return files, tombstones
