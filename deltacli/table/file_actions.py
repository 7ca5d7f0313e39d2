"""Read the live files and tombstones of a version: those of commits, and those of checkpoints.

A version holds only the narrow columns of the commits after its checkpoint. Everything else is read when
it is asked for, in batches, and read again when it is asked for again:

* rows of the commits from the commits themselves (`reread_commits.py`),
* rows of the checkpoint from its row groups, called pieces here. Rows of files that newer commits have
  decided are left out while a piece is read.

Methods that take a function call it in the threads that read, so that pieces are processed in parallel
and no batch waits for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from deltacli.delta.log import state
from deltacli.delta.log.file_actions import FileBatch, FileCounts, Survivors, TombstoneCounts, TouchedFiles, count_batch
from deltacli.delta.log.segment import LogSegment
from deltacli.table.handle import TableHandle
from deltacli.table.replay import ReplayedCommits
from deltacli.table.reread_commits import build_file_batch, reread_file_actions
from deltacli.work.task import Task

if TYPE_CHECKING:
    import pyarrow

    from deltacli.work.checkpoints.parquet_files import CheckpointPiece

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class VersionWithFiles(Protocol):
    """The version whose file actions are read: `Snapshot`, which cannot be imported here because it uses this."""

    @property
    def table(self) -> TableHandle: ...
    @property
    def segment(self) -> LogSegment: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def physical_partition_columns(self) -> tuple[str, ...]: ...
    @property
    def _replayed(self) -> ReplayedCommits: ...
    @property
    def _inline(self) -> Survivors: ...
    @property
    def _narrow_inline(self) -> FileBatch: ...
    @property
    def _pieces(self) -> tuple[CheckpointPiece, ...]: ...
    @property
    def _touched(self) -> TouchedFiles: ...


class FileActions(NamedTuple):
    """The live files and tombstones of a version: batches of commits, and pieces of its checkpoint."""

    snapshot: VersionWithFiles

    @property
    def table(self) -> TableHandle:
        """The table of the version."""
        return self.snapshot.table

    @property
    def touched(self) -> TouchedFiles:
        """The files that commits after the checkpoint have decided."""
        return self.snapshot._touched

    @property
    def pieces(self) -> tuple[CheckpointPiece, ...]:
        """The row groups of the checkpoint that may contain file actions."""
        return self.snapshot._pieces

    @property
    def has_parsed_statistics(self) -> bool:
        """True if the checkpoint that the version was rebuilt from has `stats_parsed`."""
        return any(piece.has_parsed_statistics for piece in self.pieces[:1])

    def map_actions(
        self, kind: str, work: Callable[[pyarrow.RecordBatch], Result], *, fields: Sequence[str] | None = None
    ) -> Iterator[Result]:
        """Yield the result of a function for each batch of live files or of tombstones.

        Args:
            kind: "add" for live files, "remove" for tombstones.
            work: The function. It must be thread-safe, because the reading threads call it.
            fields: The fields that the function needs; others are not read and may be null. None for all.
        """
        for batch in self.read_commit_batches():
            rows = batch.adds if kind == "add" else batch.removes
            if rows is not None and rows.num_rows:
                yield work(rows)
        if not self.pieces:
            return
        from deltacli.work.checkpoints.full_rows import read_full_actions

        read = partial(read_full_actions, self.table.stores, touched=self.touched, kind=kind, fields=fields)
        yield from self._map_pieces(read, _count_rows, work, several_at_once=True)

    def map_file_actions(
        self,
        work: Callable[[FileBatch], Result],
        work_on_commits: Callable[[FileBatch], Result] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of a function for each batch of file actions, with all their own fields.

        Live files and tombstones, expired ones included, are read in one pass.

        Args:
            work: The function. It must be thread-safe, because the reading threads call it.
            work_on_commits: Another function for the batches of commits. None for the same.
        """
        from deltacli.work.checkpoints.full_rows import read_all_full_actions

        yield from map(work_on_commits or work, self.read_commit_batches())
        read = partial(read_all_full_actions, self.table.stores, touched=self.touched)
        yield from self._map_pieces(read, _count_rows_of_both, work, several_at_once=True)

    def read_commit_batches(self) -> Iterator[FileBatch]:
        """Yield the file actions of the commits, and of the lines of a JSON checkpoint, with all their own fields.

        Raises:
            CommitCorrupt: If a commit is damaged.
            Refused: `plan.other-past`, if a commit was replaced since the version was read.
        """
        table = self.table
        yield from reread_file_actions(
            table.storage,
            table.engine,
            self.snapshot.segment.commits,
            self.snapshot._replayed,
            partitions=self.snapshot.physical_partition_columns,
            progress=table.progress,
        )
        if self._has_inline_actions:
            yield build_file_batch([("checkpoint", self.snapshot._inline)])

    def read_narrow_batches(self) -> Iterator[FileBatch]:
        """Yield live files and tombstones as narrow batches with their paths (see `ActionSchemas`).

        The numbers of rows of a checkpoint's files are not read and are null.
        """
        yield from self.read_narrow_commit_batches()
        yield from self.read_narrow_pieces(self.pieces, with_records=False)

    def read_narrow_commit_batches(self) -> Iterator[FileBatch]:
        """Yield the narrow batches of the commits, which are in memory, and of the lines of a JSON checkpoint."""
        yield from (FileBatch(adds=batch) for batch in self.snapshot._replayed.adds)
        yield from (FileBatch(removes=batch) for batch in self.snapshot._replayed.removes)
        if self._has_inline_actions:
            yield self.snapshot._narrow_inline

    @property
    def _has_inline_actions(self) -> bool:
        return bool(self.snapshot._inline.adds or self.snapshot._inline.removes)

    def read_narrow_pieces(
        self, pieces: Sequence[CheckpointPiece], *, with_records: bool = True
    ) -> Iterator[FileBatch]:
        """Yield the narrow batches of some pieces of the checkpoint, one piece after the other.

        Args:
            pieces: Pieces of this version.
            with_records: False leaves out the numbers of rows, as in `map_narrow_adds`.
        """
        if not pieces:
            return
        from deltacli.work.checkpoints.narrow_rows import read_narrow_actions

        read = partial(
            read_narrow_actions, self.table.stores, touched=self.touched, with_paths=True, with_records=with_records
        )
        yield from self._map_pieces(read, _count_rows_of_both, _return_batch, several_at_once=False, pieces=pieces)

    def map_narrow_adds(
        self, work: Callable[[pyarrow.RecordBatch], Result], *, with_records: bool = True
    ) -> Iterator[Result]:
        """Yield the result of a function for each narrow batch of live files of the checkpoint.

        Args:
            work: Receives a batch with paths and ids of deletion vectors. It must be thread-safe, as in `map_actions`.
            with_records: False leaves out the numbers of rows, for which the statistics have to be read: most of the
                bytes of a checkpoint.

        Yields:
            The results, in the same order each time.
        """
        from deltacli.work.checkpoints.narrow_rows import read_narrow_actions

        def read(piece: CheckpointPiece) -> Iterator[pyarrow.RecordBatch]:
            batches = read_narrow_actions(
                self.table.stores,
                piece,
                touched=self.touched,
                with_paths=True,
                with_records=with_records,
                with_removes=False,
            )
            for batch in batches:
                if batch.adds is not None:
                    yield batch.adds

        pieces_with_adds = [piece for piece in self.pieces if piece.group.has_adds]
        yield from self._map_pieces(read, _count_rows, work, several_at_once=True, pieces=pieces_with_adds)

    def has_commits_after(self, cutoff_ms: int) -> bool:
        """Return True if a commit after the checkpoint is newer than a time, in epoch milliseconds."""
        return max((commit.modified_ms for commit in self.snapshot.segment.commits), default=0) > cutoff_ms

    def count_pieces(
        self, *, now_ms: int | None = None, as_checkpoint: bool = False
    ) -> Iterator[tuple[CheckpointPiece | None, tuple[FileCounts, TombstoneCounts]]]:
        """Yield the counts of the commits, with None, and then those of each piece of the checkpoint.

        Args:
            now_ms: The time at which tombstones are judged, in epoch milliseconds. None: the table's clock.
            as_checkpoint: True if tombstones that a checkpoint keeps do not count as expired.
        """
        now_ms = self.table.clock() if now_ms is None else now_ms
        cutoff_ms = now_ms - state.deleted_file_retention_ms(self.snapshot.properties)

        files = FileCounts()
        tombstones = TombstoneCounts()
        # A checkpoint keeps tombstones of young commits whose own time is no time in milliseconds.
        are_young = as_checkpoint and self.has_commits_after(cutoff_ms)
        for batch in self.read_narrow_commit_batches():
            files, tombstones = count_batch(batch, cutoff_ms, files, tombstones, are_young=are_young)
        yield None, (files, tombstones)

        if not self.pieces:
            return
        from deltacli.work.checkpoints.narrow_rows import CountFileActions

        counts = self.spread_pieces(CountFileActions(cutoff_ms), self.pieces, "counting files")
        yield from zip(self.pieces, counts, strict=True)

    def spread_pieces(
        self, task: Task[CheckpointPiece, Result], pieces: Sequence[CheckpointPiece], what: str
    ) -> Iterator[Result]:
        """Yield the result of a task for each of some pieces, in their order.

        Unlike a function, a task may run on the executors of a cluster. It finds the files that newer
        commits have decided as the shared value `touched`.

        Args:
            task: The task.
            pieces: Pieces of this version.
            what: The name of the step that reports their rows as progress.
        """
        table = self.table
        shared = {"touched": self.touched}
        results = table.engine.run_tasks(task, pieces, table.stores, shared=shared, weigh=_count_rows_of_piece)
        with table.progress.step(what, unit="rows", total=sum(map(_count_rows_of_piece, pieces))) as step:
            for piece, result in zip(pieces, results, strict=True):
                yield result
                step.advance(piece.group.rows)

    def _map_pieces(
        self,
        read: Callable[[CheckpointPiece], Iterator[Batch]],
        count_rows: Callable[[Batch], int],
        work: Callable[[Batch], Result],
        *,
        several_at_once: bool,
        pieces: Sequence[CheckpointPiece] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of a function for the batches of pieces, and report the rows of each as progress.

        Args:
            read: Returns the batches of a piece.
            count_rows: Returns the number of rows of a batch.
            work: The function.
            several_at_once: True to read in several threads, in which the function is called.
            pieces: The pieces. None for all.
        """
        pieces = self.pieces if pieces is None else pieces
        total = sum(piece.group.rows for piece in pieces)
        with self.table.progress.step("reading the checkpoint", unit="rows", total=total) as step:

            def read_piece(piece: CheckpointPiece) -> Iterator[Result]:
                unreported = piece.group.rows
                for batch in read(piece):
                    yield work(batch)
                    step.advance(count_rows(batch))
                    unreported -= count_rows(batch)
                step.advance(unreported)  # rows of other actions, and those decided by newer commits

            if several_at_once:
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
