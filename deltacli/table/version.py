"""The state of a table at one version: small actions as values, file actions as streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow.compute as pc

from deltacli.core.errors import Unreadable, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.delta.data_files import no_vector_ids, unique_id_column
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.log.disputed_readings import DECISIONS
from deltacli.delta.log.file_actions import (
    FileBatch,
    FileCounts,
    Survivors,
    TombstoneCounts,
    TouchedFiles,
    count_batch,
    key_column,
    texts_of,
)
from deltacli.delta.log.segment import (
    CheckpointInstance,
    CommitTime,
    LogListing,
    LogSegment,
    TimestampSource,
    file_times,
)
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import NO_COLUMNS, PHYSICAL_NAME, StructType, parse_schema
from deltacli.storage.secrets import without_secrets
from deltacli.table.api_errors import api_method, iterate_naming_table
from deltacli.table.find_log import Log, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.replay import LogTail, replay_batches, whole_batch
from deltacli.work.commits.reading import Provenance, read_provenance
from deltacli.work.task import Task

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.output import WrittenDirectory
    from deltacli.table.scan import Scan
    from deltacli.work.checkpoints.reading import CheckpointPiece


Batch = TypeVar("Batch")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a table at one version."""

    table: TableHandle
    """The table, as it was opened."""
    version: int
    """The version whose state this is."""
    protocol: Protocol
    """The reader and writer versions, and the features."""
    metadata: state.Metadata
    """The metadata: name, schema as JSON, partition columns, properties."""
    transactions: tuple[state.SetTransaction, ...]
    """The newest version that each application has written."""
    domains: tuple[state.DomainMetadata, ...]
    """The metadata of domains, such as that of clustering."""
    segment: LogSegment
    """The checkpoint and the commits that this was rebuilt from."""
    checkpoint_layout: str | None
    """`classic`, `multi-part` or `v2` (by content), None without a checkpoint."""
    sidecars: int
    """The number of sidecar files of the checkpoint."""
    raw_protocol: Action = field(repr=False)
    """The protocol action as in the commit, with unrecognized fields, which changes preserve."""
    raw_metadata: Action = field(repr=False)
    """The metaData action as in the commit, with unrecognized fields, which changes preserve."""
    _log: Log = field(repr=False)
    _tail: LogTail = field(repr=False)
    _problems: frozenset[str] = field(repr=False)
    _narrow_inline: FileBatch = field(repr=False)
    _inline: Survivors = field(repr=False)
    """File actions in a JSON checkpoint itself, without those decided by later commits."""
    _pieces: tuple[CheckpointPiece, ...] = field(repr=False)
    _unusable: Mapping[CheckpointInstance, str] = field(repr=False)
    _older_metadata: Callable[[], state.OlderMetadata] | None = field(default=None, repr=False)
    """Reads the metadata of the versions up to this one."""
    _first_stamped: Callable[[], int | None] | None = field(default=None, repr=False)
    """Returns the first version whose time is its in-commit timestamp, by the newest version; None if none is."""

    def __repr__(self) -> str:
        return f"Snapshot({without_secrets(self.table.uri)!r}, version={self.version})"

    @property
    def name(self) -> str | None:
        """The table as the caller wrote it."""
        return self.table.name

    @property
    def time(self) -> CommitTime | None:
        """When the version was committed; None where its commit file is missing.

        Determined on first use: without in-commit timestamps it depends on the times of all older commits, so a
        listing from the hint on has to be completed.
        """
        return self._time_and_problem[0]

    @property
    def problems(self) -> tuple[str, ...]:
        """Rule ids of the problems that were worked around."""
        time_problem = self._time_and_problem[1]
        return tuple(sorted(self._problems | ({time_problem} if time_problem else set())))

    @property
    def disputed(self) -> tuple[str, ...]:
        """Rule ids of those problems that engines read differently. Unlike `problems` it needs no time of a commit."""
        return tuple(problem for problem in sorted(self._problems) if problem in DECISIONS)

    @property
    def decisions(self) -> list[str]:
        """What was decided about these problems, in words, with the rule of each."""
        return [f"{problem}: {DECISIONS[problem]}" for problem in self.disputed]

    @cached_property
    def _time_and_problem(self) -> tuple[CommitTime | None, str | None]:
        return _commit_time(self)

    @property
    def newest_version(self) -> int:
        """The newest version of the log when it was listed."""
        return self._log.listing.newest_version

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties (`metaData.configuration`)."""
        return self.metadata.configuration

    @cached_property
    def schema(self) -> StructType:
        """The table schema, parsed; empty where the metaData has none. Raises Unreadable (`schema.bad-json`)."""
        return parse_schema(self.metadata.schema_string or NO_COLUMNS)

    @cached_property
    def config(self) -> state.TableConfiguration:
        """Protocol, metadata and schema together. Raises Unreadable (`schema.bad-json`)."""
        return state.TableConfiguration(
            protocol=self.protocol, metadata=self.metadata, schema=self.schema, older_metadata=self._older_metadata
        )

    @api_method
    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        row_ids: bool = False,
        limit: int | None = None,
    ) -> Scan:
        """Return the rows of this version as an iterable of Arrow batches in the table's exact schema.

        Iterating raises DataUnreadable for a missing or damaged file.

        Args:
            columns: Names of top-level columns, in the order wanted. None: all columns.
            where: A condition in SQL that the rows have to meet. None: all rows.
            row_ids: True to add the columns `_row_id` and `_row_commit_version` behind the others. `where` may use
                them.
            limit: The largest number of rows. None: all rows.

        Raises:
            UsageError: If columns or the condition are invalid.
            Refused: If the version has no row ids (`rowtracking.not-enabled`).
            Unreadable: If the type of a column is not supported.
        """
        from deltacli.table.scan import Scan, ScanRequest

        request = ScanRequest(columns=columns, where=where, row_ids=row_ids, limit=limit)
        return Scan(self, request)

    def files(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the live files as batches of the add action's own fields, in no particular order."""
        return iterate_naming_table(self.file_actions.map_actions("add", _same), self.name)

    def tombstones(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the removes of this state, expired ones included, as batches of the action's own fields, unordered."""
        return iterate_naming_table(self.file_actions.map_actions("remove", _same), self.name)

    @property
    def file_actions(self) -> FileActions:
        """The live files and tombstones, in parts that plans read."""
        return FileActions(self)

    @property
    def contradicted(self) -> frozenset[bytes]:
        """The keys of paths whose newest add has another number of records than an older one of the log."""
        return frozenset(path.encode("utf-8", "surrogateescape") for path in self._tail.contradicted)

    @property
    def has_doubtful_records(self) -> bool:
        """Return True if two adds of one live file disagree on its number of records."""
        return bool(self._tail.contradicted)

    def of_other_vectors(self, adds: pyarrow.RecordBatch) -> pyarrow.Array | None:
        """Return which live files a newer commit added or removed under another vector than they have, so that they
        may be in the table twice; None where none is known.
        """
        import pyarrow

        tail, vectors = self._tail, adds.column("deletionVector")
        doubted, decided = tail.of_other_vectors, tail.seen
        if not (doubted or tail.with_vectors or (decided and vectors.null_count < len(vectors))):
            return None
        paths = key_column(adds.column("path"), no_vector_ids(adds.num_rows))
        named = [path.encode("utf-8", "surrogateescape") for path in (*doubted, *tail.with_vectors)]
        suspects = pc.indices_nonzero(
            pc.or_(pc.is_valid(vectors), pc.is_in(paths, value_set=pyarrow.array(named, pyarrow.binary())))
        )
        keys = key_column(pc.take(adds.column("path"), suspects), unique_id_column(pc.take(vectors, suspects)))
        found = [
            place
            for place, path, key in zip(suspects, texts_of(pc.take(paths, suspects)), texts_of(keys), strict=True)
            # What is live and was not decided by commits is of the checkpoint, and older than all of them.
            if path in doubted
            or (key not in decided and (path in tail.with_vectors or (path != key and path in decided)))
        ]
        every = pyarrow.array(range(adds.num_rows), suspects.type)
        return pc.is_in(every, value_set=pyarrow.array(found, suspects.type)) if found else None

    @cached_property
    def _touched(self) -> TouchedFiles:
        return self._tail.touched

    @property
    def physical_partitions(self) -> tuple[str, ...]:
        """Return the names of the partition columns in partition values."""
        try:
            fields = {field.name: field for field in self.schema.fields}
        except Unreadable:
            fields = {}
        found = []
        for name in self.metadata.partition_columns:
            physical = fields[name].metadata.get(PHYSICAL_NAME) if name in fields else None
            found.append(physical if isinstance(physical, str) else name)
        return tuple(found)

    @property
    def listing(self) -> LogListing:
        return self._log.listing

    @property
    def listed_at(self) -> float:
        """Return when the log was listed, by the monotonic clock of this process."""
        return self._log.listed_at

    @api_method
    def counts(self, *, now_ms: int | None = None) -> tuple[FileCounts, TombstoneCounts]:
        """Count live files and tombstones; a tombstone is expired if it is older than the table's retention at `now_ms`
        (default: the table's clock).
        """
        files, tombstones = FileCounts(), TombstoneCounts()
        for _, counted in self.file_actions.counts_of_pieces(now_ms=now_ms):
            files, tombstones = files + counted[0], tombstones + counted[1]
        return files, tombstones

    def write_files(
        self, directory: str | os.PathLike[str], *, files: bool = True, tombstones: bool = False
    ) -> WrittenDirectory:
        """Write the live files, the tombstones or both as Parquet files to a directory, as `Scan.write_parquet` does:
        `type` (`add` or `remove`), then the actions' own fields. Raises UsageError unless one of them is wanted.
        """
        if not (files or tombstones):
            raise UsageError("neither files nor tombstones are to be written")
        from deltacli.table.output import write_actions
        from deltacli.work.outputs import ActionColumns

        kinds = (*(("add",) if files else ()), *(("remove",) if tombstones else ()))
        return write_actions(self.file_actions, directory, ActionColumns(kinds), None)

    @property
    def set_aside(self) -> Mapping[str, str]:
        """Return unusable checkpoint files -> the rule that each breaks."""
        return {instance.files[0].name: rule for instance, rule in self._unusable.items()}

    @property
    def log(self) -> Log:
        """The log as it was found, with the problem of its hint."""
        return self._log

    @property
    def unusable(self) -> Mapping[CheckpointInstance, str]:
        """Unusable checkpoints -> the rule that each breaks."""
        return self._unusable


class FileActions(NamedTuple):
    """The live files and tombstones of a version as plans read them: batches of commits, row groups of checkpoints."""

    snapshot: Snapshot

    @property
    def table(self) -> TableHandle:
        return self.snapshot.table

    @property
    def touched(self) -> TouchedFiles:
        """The files that commits after the checkpoint have decided."""
        return self.snapshot._touched

    @property
    def pieces(self) -> tuple[CheckpointPiece, ...]:
        """Return the row groups of the checkpoint that may contain file actions."""
        return self.snapshot._pieces

    @property
    def has_parsed_statistics(self) -> bool:
        """Return True if the checkpoint that this was rebuilt from has `stats_parsed`."""
        return any(piece.has_parsed_statistics for piece in self.pieces[:1])

    def map_actions(
        self, kind: str, work: Callable[[pyarrow.RecordBatch], Result], *, fields: Sequence[str] | None = None
    ) -> Iterator[Result]:
        """Yield the result of `work` for each batch of live files (`kind` "add") or tombstones ("remove"); with
        `fields`, other fields are not read and may be null.

        Batches of a checkpoint are processed by the reading threads, so `work` must be thread-safe.
        """
        table = self.table
        for batch in self.batches_of_commits():
            rows = batch.adds if kind == "add" else batch.removes
            if rows is not None and rows.num_rows:
                yield work(rows)
        if not self.pieces:
            return
        from deltacli.work.checkpoints.reading import read_whole

        read = partial(read_whole, table.stores, touched=self.touched, kind=kind, fields=fields)
        yield from self._of_pieces(read, _rows_of_columns, work, several_at_once=True)

    def map_file_actions(
        self, work: Callable[[FileBatch], Result], of_commits: Callable[[FileBatch], Result] | None = None
    ) -> Iterator[Result]:
        """Yield the result of `work` (`of_commits` for those of the commits) for each batch of live files or
        tombstones, including expired ones, with all their own fields, in one pass. It must be thread-safe, as in
        `map_actions`.
        """
        from deltacli.work.checkpoints.reading import read_both

        table = self.table
        yield from map(of_commits or work, self.batches_of_commits())
        read = partial(read_both, table.stores, touched=self.touched)
        yield from self._of_pieces(read, _rows_of_batch, work, several_at_once=True)

    def batches_of_commits(self) -> Iterator[FileBatch]:
        """Yield the file actions of the commits, and of the lines of a JSON checkpoint, with all their own fields."""
        table = self.table
        yield from replay_batches(
            table.storage,
            table.engine,
            self.snapshot.segment.commits,
            self.snapshot._tail,
            partitions=self.snapshot.physical_partitions,
            progress=table.progress,
        )
        if self.snapshot._inline.adds or self.snapshot._inline.removes:
            yield whole_batch([("checkpoint", self.snapshot._inline)])

    def commits_are_young(self, cutoff_ms: int) -> bool:
        """Return whether the newest commit after the checkpoint that this was rebuilt from is newer than the cutoff."""
        return max((one.modified_ms for one in self.snapshot.segment.commits), default=0) > cutoff_ms

    def counts_of_pieces(
        self, *, now_ms: int | None = None, as_checkpoint: bool = False
    ) -> Iterator[tuple[CheckpointPiece | None, tuple[FileCounts, TombstoneCounts]]]:
        """Yield the counts of each row group of the checkpoint; before them, with None, those of the commits. With
        `as_checkpoint`, tombstones that a checkpoint keeps are not expired.
        """
        cutoff = (self.table.clock() if now_ms is None else now_ms) - state.deleted_file_retention_ms(
            self.snapshot.properties
        )
        files, tombstones = FileCounts(), TombstoneCounts()
        are_young = as_checkpoint and self.commits_are_young(cutoff)
        for batch in self.tail_batches():
            files, tombstones = count_batch(batch, cutoff, files, tombstones, are_young=are_young)
        yield None, (files, tombstones)
        if not self.pieces:
            return
        from deltacli.work.checkpoints.reading import CountPiece

        counts = self.spread_pieces(CountPiece(cutoff), self.pieces, "counting files")
        yield from zip(self.pieces, counts, strict=True)

    def spread_pieces(
        self, task: Task[CheckpointPiece, Result], pieces: Sequence[CheckpointPiece], what: str
    ) -> Iterator[Result]:
        """Yield the result of a task for each of these row groups, in their order, and report their rows as progress of
        the step `what`. The task finds the files decided by newer commits as the shared `touched`.
        """
        table = self.table
        results = table.engine.spread(
            task, pieces, table.stores, shared={"touched": self.touched}, weigh=_rows_of_piece
        )
        with table.progress.step(what, unit="rows", total=sum(map(_rows_of_piece, pieces))) as step:
            for piece, result in zip(pieces, results, strict=True):
                yield result
                step.advance(piece.group.rows)

    def narrow(self) -> Iterator[FileBatch]:
        """Yield live files and tombstones as narrow batches with their paths (see `ActionSchemas`). The numbers of rows
        of a checkpoint's files are not read and are null.
        """
        yield from self.tail_batches()
        yield from self.narrow_pieces(self.pieces, with_records=False)

    def map_narrow_adds(
        self, work: Callable[[pyarrow.RecordBatch], Result], *, with_records: bool = True
    ) -> Iterator[Result]:
        """Yield the result of `work` for each narrow batch of live files of the checkpoint.

        Args:
            work: Receives a batch with paths and ids of deletion vectors. It must be thread-safe, as in `map_actions`.
            with_records: False leaves out the numbers of rows, for which the statistics have to be read: most of the
                bytes of a checkpoint.

        Yields:
            The results, in the same order each time.
        """
        from deltacli.work.checkpoints.reading import read_narrow

        def read(piece: CheckpointPiece) -> Iterator[pyarrow.RecordBatch]:
            for batch in read_narrow(
                self.table.stores,
                piece,
                touched=self.touched,
                with_paths=True,
                with_records=with_records,
                with_removes=False,
            ):
                if batch.adds is not None:
                    yield batch.adds

        with_adds = [piece for piece in self.pieces if piece.group.has_adds]
        yield from self._of_pieces(read, _rows_of_columns, work, several_at_once=True, pieces=with_adds)

    def narrow_pieces(self, pieces: Sequence[CheckpointPiece], *, with_records: bool = True) -> Iterator[FileBatch]:
        """Yield those of some row groups of the checkpoint."""
        if not pieces:
            return
        from deltacli.work.checkpoints.reading import read_narrow

        stores, touched = self.table.stores, self.touched
        read = partial(read_narrow, stores, touched=touched, with_paths=True, with_records=with_records)
        yield from self._of_pieces(read, _rows_of_batch, _same, several_at_once=False, pieces=pieces)

    def tail_batches(self) -> Iterator[FileBatch]:
        """Yield the narrow batches of the commits, and of the lines of a JSON checkpoint."""
        yield from (FileBatch(adds=batch) for batch in self.snapshot._tail.adds)
        yield from (FileBatch(removes=batch) for batch in self.snapshot._tail.removes)
        if self.snapshot._inline.adds or self.snapshot._inline.removes:
            yield self.snapshot._narrow_inline

    def _of_pieces(
        self,
        read: Callable[[CheckpointPiece], Iterator[Batch]],
        rows_of: Callable[[Batch], int],
        work: Callable[[Batch], Result],
        *,
        several_at_once: bool,
        pieces: Sequence[CheckpointPiece] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of `work` for the batches of row groups, and report the rows of each as progress."""
        pieces = self.pieces if pieces is None else pieces
        total = sum(piece.group.rows for piece in pieces)
        with self.table.progress.step("reading the checkpoint", unit="rows", total=total) as step:

            def tell(piece: CheckpointPiece) -> Iterator[Result]:
                left = piece.group.rows
                for batch in read(piece):
                    yield work(batch)
                    step.advance(rows_of(batch))
                    left -= rows_of(batch)
                step.advance(left)  # rows of other actions, and those decided by newer commits

            if several_at_once:
                yield from self.table.engine.stream(tell, pieces)
            else:
                for piece in pieces:
                    yield from tell(piece)


def _same(batch: Batch) -> Batch:
    return batch


def _rows_of_piece(piece: CheckpointPiece) -> int:
    return piece.group.rows


def _rows_of_batch(batch: FileBatch) -> int:
    return sum(rows.num_rows for rows in (batch.adds, batch.removes) if rows is not None)


def _rows_of_columns(batch: pyarrow.RecordBatch) -> int:
    rows: int = batch.num_rows
    return rows


def _commit_time(snapshot: Snapshot) -> tuple[CommitTime | None, str | None]:
    """Return when the version was committed: its in-commit timestamp if enabled, else its file's time.

    The newest version decides whether in-commit timestamps count, because it decides which version a time selects.
    """
    storage, listing, tail = snapshot.table.storage, snapshot._log.listing, snapshot._tail
    file = listing.commits.get(snapshot.version)
    if file is None:
        return None, None
    is_stamped = state.has_in_commit_timestamps(snapshot.protocol, snapshot.metadata)
    if is_stamped and snapshot.version < listing.newest_version and snapshot._first_stamped is not None:
        first_stamped = snapshot._first_stamped()
        is_stamped = first_stamped is not None and snapshot.version >= first_stamped
    if is_stamped:
        if snapshot.segment.commits:
            provenance = Provenance(tail.newest_commit_info, is_first=tail.commit_info_is_first)
        else:
            provenance = read_provenance(storage, file)
        if provenance.in_commit_timestamp is not None:
            return CommitTime(provenance.in_commit_timestamp, TimestampSource.IN_COMMIT), None
    commits = listing.commits
    if listing.start_version:  # the version itself may be gone by now
        commits = {**list_log(storage, progress=snapshot.table.progress).commits, snapshot.version: file}
    return file_times(commits)[snapshot.version], "ict.missing" if is_stamped else None
