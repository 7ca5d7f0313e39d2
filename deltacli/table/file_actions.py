"""Read the live files and tombstones of a version, from its commits and from its checkpoint.

A snapshot holds only a few narrow columns of the commits after the checkpoint in memory. All other
fields, such as statistics, and all actions of the checkpoint are read when a caller requests them,
and are read again for the next request. They are returned in batches, because a table may have more
files than fit in memory:

* Actions of commits are read from the commit files again (`reread_commits.py`).
* Actions of the checkpoint are read one row group at a time. A row group is called a piece here,
  because it is also the unit of work of a cluster. Rows that a newer commit replaced are filtered
  out while a piece is read.

Methods named `map_…` call a function for each batch in the threads that read the checkpoint, and
yield the results. This way the pieces are processed in parallel, and no batch has to wait in
memory.

The reader of checkpoints is imported by the methods that need it: a table without a checkpoint is
read faster without importing the Parquet reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from deltacli.delta.log import state
from deltacli.delta.log.file_actions import (
    FileBatch,
    FileCounts,
    SupersededFiles,
    TombstoneCounts,
    add_counts_of_batch,
)
from deltacli.delta.log.segment import LogSegment
from deltacli.table.handle import TableHandle
from deltacli.table.reread_commits import build_file_batch, reread_file_actions
from deltacli.table.segment_contents import SegmentContents
from deltacli.work.task import Task

if TYPE_CHECKING:
    import pyarrow

    from deltacli.work.checkpoints.parquet_files import CheckpointPiece

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class VersionWithFiles(Protocol):
    """The attributes of `Snapshot` that `FileActions` reads. Importing `Snapshot` would be an import cycle."""

    @property
    def table(self) -> TableHandle: ...
    @property
    def segment(self) -> LogSegment: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def physical_partition_columns(self) -> tuple[str, ...]: ...
    @property
    def contents(self) -> SegmentContents: ...


class PieceCounts(NamedTuple):
    """The number of live files and tombstones in the commits, or in one piece of the checkpoint.

    Attributes:
        piece: The piece. None for the commits.
        counts: The counts of live files and of tombstones.
    """

    piece: CheckpointPiece | None
    counts: tuple[FileCounts, TombstoneCounts]


class FileActions(NamedTuple):
    """The live files and tombstones of a version.

    Methods named `…narrow…` return narrow batches: path, deletion vector id, size and row count,
    but no statistics (see `ActionSchemas`). They are much faster than the other methods.

    Attributes:
        snapshot: The version.
    """

    snapshot: VersionWithFiles

    @property
    def table(self) -> TableHandle:
        """The table of the version."""
        return self.snapshot.table

    @property
    def changed_after_checkpoint(self) -> SupersededFiles:
        """The logical files that commits after the checkpoint add or remove. Their rows in the checkpoint are stale."""
        return self.snapshot.contents.superseded_files

    @property
    def pieces(self) -> tuple[CheckpointPiece, ...]:
        """The row groups of the checkpoint that may contain file actions."""
        return self.snapshot.contents.pieces

    @property
    def has_parsed_statistics(self) -> bool:
        """True if the checkpoint contains parsed statistics (`add.stats_parsed`)."""
        return any(piece.has_parsed_statistics for piece in self.pieces[:1])

    def map_actions(
        self, kind: str, function: Callable[[pyarrow.RecordBatch], Result], *, fields: Sequence[str] | None = None
    ) -> Iterator[Result]:
        """Call a function for each batch of live files or of tombstones, and yield the results.

        Batches of commits come first, then those of the checkpoint. The order is the same each
        time.

        Args:
            kind: "add" for live files, "remove" for tombstones.
            function: Receives a batch of actions with all their fields. It must be thread-safe.
            fields: Names of the fields that the function reads, such as `("path", "size")`. Other
                fields may be null in the batches. None reads all fields.

        Raises:
            CheckpointUnreadable: If a row group of the checkpoint cannot be read.
            CommitCorrupt: If a commit is damaged.
            Refused: `plan.other-past`, if a commit was replaced since the version was read.
        """
        for batch in self.read_commit_batches():
            rows = batch.adds if kind == "add" else batch.removes
            if rows is not None and rows.num_rows:
                yield function(rows)
        if not self.pieces:
            return
        # Imported on use: a table without a checkpoint does not need the Parquet reader.
        from deltacli.work.checkpoints.full_rows import read_full_actions

        read = partial(
            read_full_actions, self.table.stores, touched=self.changed_after_checkpoint, kind=kind, fields=fields
        )
        yield from self._map_pieces(read, _count_rows, function, in_parallel=True)

    def map_file_actions(self, function: Callable[[FileBatch], Result]) -> Iterator[Result]:
        """Call a function for each batch of file actions, first those of commits, and yield the results.

        Live files and tombstones are read in one pass, with all their fields. Tombstones whose
        retention has expired are included.

        Args:
            function: Receives a batch. It must be thread-safe.

        Raises:
            CheckpointUnreadable: If a row group of the checkpoint cannot be read.
            CommitCorrupt: If a commit is damaged.
            Refused: `plan.other-past`, if a commit was replaced since the version was read.
        """
        yield from map(function, self.read_commit_batches())
        yield from self.map_checkpoint_file_actions(function)

    def map_checkpoint_file_actions(self, function: Callable[[FileBatch], Result]) -> Iterator[Result]:
        """Call a function for each batch of file actions in the row groups of the checkpoint, and yield the results.

        Takes the same argument and raises the same errors as `map_file_actions`.
        """
        # Imported on use: a table without a checkpoint does not need the Parquet reader.
        from deltacli.work.checkpoints.full_rows import read_all_full_actions

        read = partial(read_all_full_actions, self.table.stores, touched=self.changed_after_checkpoint)
        yield from self._map_pieces(read, _count_rows_of_both, function, in_parallel=True)

    def read_commit_batches(self) -> Iterator[FileBatch]:
        """Yield the file actions of the commits, and of a checkpoint in JSON format, with all their fields.

        Raises:
            CommitCorrupt: If a commit is damaged.
            Refused: `plan.other-past`, if a commit was replaced since the version was read.
        """
        table = self.table
        yield from reread_file_actions(
            table.storage,
            table.engine,
            self.snapshot.segment.commits,
            self.snapshot.contents.replayed,
            partitions=self.snapshot.physical_partition_columns,
            progress=table.progress,
        )
        contents = self.snapshot.contents
        if contents.has_json_actions:
            yield build_file_batch([("checkpoint", contents.json_actions)])

    def read_narrow_batches(self) -> Iterator[FileBatch]:
        """Yield all live files and tombstones as narrow batches.

        The row counts of files in the checkpoint are null: reading them requires the statistics.
        """
        yield from self.read_narrow_commit_batches()
        yield from self.read_narrow_pieces(self.pieces, with_records=False)

    def read_narrow_commit_batches(self) -> Iterator[FileBatch]:
        """Yield the narrow batches of the commits and of a checkpoint in JSON format. They are in memory already."""
        contents = self.snapshot.contents
        yield from (FileBatch(adds=batch) for batch in contents.replayed.adds)
        yield from (FileBatch(removes=batch) for batch in contents.replayed.removes)
        if contents.has_json_actions:
            yield contents.narrow_json_actions

    def read_narrow_pieces(
        self, pieces: Sequence[CheckpointPiece], *, with_records: bool = True
    ) -> Iterator[FileBatch]:
        """Yield the narrow batches of pieces of the checkpoint, one piece after the other.

        Args:
            pieces: Elements of `pieces`.
            with_records: False to leave the row counts null, as in `map_narrow_adds`.
        """
        if not pieces:
            return
        # Imported on use: a table without a checkpoint does not need the Parquet reader.
        from deltacli.work.checkpoints.narrow_rows import read_narrow_actions

        read = partial(
            read_narrow_actions,
            self.table.stores,
            touched=self.changed_after_checkpoint,
            with_paths=True,
            with_records=with_records,
        )
        yield from self._map_pieces(read, _count_rows_of_both, _return_batch, in_parallel=False, pieces=pieces)

    def map_narrow_adds(
        self, function: Callable[[pyarrow.RecordBatch], Result], *, with_records: bool = True
    ) -> Iterator[Result]:
        """Call a function for each batch of live files in the checkpoint, and yield the results.

        The batches are narrow: they have the columns `path`, `dv_id` (the id of the deletion vector), `size`
        and `num_records`, but neither statistics nor partition values, so that reading them is fast. Live
        files in commits are not included. The order is the same each time.

        Args:
            function: Receives a narrow batch. It must be thread-safe, because several pieces are read at a time.
            with_records: False to leave the row counts null. Row counts are part of the statistics,
                which are most of the bytes of a checkpoint.

        Raises:
            CheckpointUnreadable: If a row group cannot be read.
        """
        # Imported on use: a table without a checkpoint does not need the Parquet reader.
        from deltacli.work.checkpoints.narrow_rows import read_narrow_actions

        def read(piece: CheckpointPiece) -> Iterator[pyarrow.RecordBatch]:
            batches = read_narrow_actions(
                self.table.stores,
                piece,
                touched=self.changed_after_checkpoint,
                with_paths=True,
                with_records=with_records,
                with_removes=False,
            )
            for batch in batches:
                if batch.adds is not None:
                    yield batch.adds

        pieces_with_adds = [piece for piece in self.pieces if piece.group.has_adds]
        yield from self._map_pieces(read, _count_rows, function, in_parallel=True, pieces=pieces_with_adds)

    def has_commits_after(self, cutoff_ms: int) -> bool:
        """Return True if a commit after the checkpoint was modified after `cutoff_ms` (epoch milliseconds)."""
        return max((commit.modified_ms for commit in self.snapshot.segment.commits), default=0) > cutoff_ms

    def count_pieces(self, *, now_ms: int | None = None, for_checkpoint: bool = False) -> Iterator[PieceCounts]:
        """Count live files and tombstones, first in the commits and then in each piece of the checkpoint.

        Args:
            now_ms: Current time in epoch milliseconds, which decides which tombstones have expired.
                None uses the clock of the table.
            for_checkpoint: True if the counts are those of a new checkpoint. A checkpoint keeps
                some tombstones that have expired according to their deletion timestamp.
        """
        now_ms = self.table.clock() if now_ms is None else now_ms
        cutoff_ms = now_ms - state.deleted_file_retention_ms(self.snapshot.properties)

        files = FileCounts()
        tombstones = TombstoneCounts()
        # The deletion timestamp may be missing, or be in seconds. A checkpoint keeps such
        # tombstones as long as there are recent commits.
        are_young = for_checkpoint and self.has_commits_after(cutoff_ms)
        for batch in self.read_narrow_commit_batches():
            files, tombstones = add_counts_of_batch(batch, cutoff_ms, files, tombstones, are_young=are_young)
        yield PieceCounts(None, (files, tombstones))

        if not self.pieces:
            return
        # Imported on use: a table without a checkpoint does not need the Parquet reader.
        from deltacli.work.checkpoints.narrow_rows import CountFileActions

        counts_of_pieces = self.run_on_pieces(CountFileActions(cutoff_ms), self.pieces, "counting files")
        for piece, counts in zip(self.pieces, counts_of_pieces, strict=True):
            yield PieceCounts(piece, counts)

    def run_on_pieces(
        self, task: Task[CheckpointPiece, Result], pieces: Sequence[CheckpointPiece], step_name: str
    ) -> Iterator[Result]:
        """Run a task for pieces of the checkpoint, and yield the results in the order of the pieces.

        In contrast to a function, a task may run on the executors of a cluster. The files that were
        changed after the checkpoint are available to it as the shared value `touched`.

        Args:
            task: The task.
            pieces: Elements of `pieces`.
            step_name: Name of the step under which rows are reported as progress.
        """
        table = self.table
        shared = {"touched": self.changed_after_checkpoint}
        results = table.engine.run_tasks(task, pieces, table.stores, shared=shared, weigh=_count_rows_of_piece)
        with table.progress.step(step_name, unit="rows", total=sum(map(_count_rows_of_piece, pieces))) as step:
            for piece, result in zip(pieces, results, strict=True):
                yield result
                step.advance(piece.group.rows)

    def _map_pieces(
        self,
        read: Callable[[CheckpointPiece], Iterator[Batch]],
        count_rows: Callable[[Batch], int],
        function: Callable[[Batch], Result],
        *,
        in_parallel: bool,
        pieces: Sequence[CheckpointPiece] | None = None,
    ) -> Iterator[Result]:
        """Read pieces of the checkpoint, call a function for each batch, and yield the results.

        Args:
            read: Reads a piece and yields its batches.
            count_rows: Returns the number of rows of a batch, for the progress report.
            function: Receives a batch.
            in_parallel: True to read several pieces at a time. The reading threads call `function`.
            pieces: Elements of `pieces`. None for all of them.
        """
        pieces = self.pieces if pieces is None else pieces
        total = sum(piece.group.rows for piece in pieces)
        with self.table.progress.step("reading the checkpoint", unit="rows", total=total) as step:

            def read_piece(piece: CheckpointPiece) -> Iterator[Result]:
                unreported = piece.group.rows
                for batch in read(piece):
                    yield function(batch)
                    step.advance(count_rows(batch))
                    unreported -= count_rows(batch)
                # Rows of other actions, and of files changed after the checkpoint, are in no batch.
                step.advance(unreported)

            if in_parallel:
                yield from self.table.engine.stream(read_piece, pieces)
                return
            for piece in pieces:
                yield from read_piece(piece)


def _return_batch(batch: Batch) -> Batch:
    return batch


def _count_rows_of_piece(piece: CheckpointPiece) -> int:
    return piece.group.rows


def _count_rows_of_both(batch: FileBatch) -> int:
    return sum(rows.num_rows for rows in (batch.adds, batch.removes) if rows is not None)


def _count_rows(batch: pyarrow.RecordBatch) -> int:
    rows: int = batch.num_rows
    return rows
