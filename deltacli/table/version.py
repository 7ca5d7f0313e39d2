"""The state of a table at one version: small actions as values, file actions as streams.

`rebuild.py` makes snapshots. A snapshot holds what every command needs, and reads the rest when it is
asked for: file actions (`file_actions.py`), rows (`scan.py`), the time of the commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import api_method, iterate_naming_table
from deltacli.table.file_actions import FileActions
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.replay import ReplayedCommits
from deltacli.work.commits.reading import Provenance, read_provenance

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.output import WrittenDirectory
    from deltacli.table.scan import Scan
    from deltacli.work.checkpoints.reading import CheckpointPiece


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a table at one version.

    Attributes:
        table: The table, as it was opened.
        version: The version whose state this is.
        protocol: The reader and writer versions, and the features.
        metadata: The metadata: name, schema as JSON, partition columns, properties.
        transactions: The newest version that each application has written.
        domains: The metadata of domains, such as that of clustering.
        segment: The checkpoint and the commits that this was rebuilt from.
        checkpoint_layout: `classic`, `multi-part` or `v2` (by content), None without a checkpoint.
        sidecars: The number of sidecar files of the checkpoint.
        raw_protocol: The protocol action as in the commit, with unrecognized fields, which changes preserve.
        raw_metadata: The metaData action as in the commit, with unrecognized fields, which changes preserve.
        _log: The listing that this was rebuilt from.
        _replayed: What the commits after the checkpoint lead to.
        _problems: The rules of `validate` for what was worked around.
        _narrow_inline: The file actions of `_inline` in narrow columns.
        _inline: File actions in a JSON checkpoint itself, without those decided by later commits.
        _pieces: The row groups of the checkpoint that may contain file actions.
        _unusable: Checkpoints that were not used, with the rule that each breaks.
        _older_metadata: Reads the metadata of the versions up to this one.
        _find_enablement_version: Returns the first version whose time is its in-commit timestamp, by the
            newest version; None if there is none.
    """

    table: TableHandle
    version: int
    protocol: Protocol
    metadata: state.Metadata
    transactions: tuple[state.SetTransaction, ...]
    domains: tuple[state.DomainMetadata, ...]
    segment: LogSegment
    checkpoint_layout: str | None
    sidecars: int
    raw_protocol: Action = field(repr=False)
    raw_metadata: Action = field(repr=False)
    _log: ListedLog = field(repr=False)
    _replayed: ReplayedCommits = field(repr=False)
    _problems: frozenset[str] = field(repr=False)
    _narrow_inline: FileBatch = field(repr=False)
    _inline: Survivors = field(repr=False)
    _pieces: tuple[CheckpointPiece, ...] = field(repr=False)
    _unusable: Mapping[CheckpointInstance, str] = field(repr=False)
    _older_metadata: Callable[[], state.OlderMetadata] | None = field(default=None, repr=False)
    _find_enablement_version: Callable[[], int | None] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Snapshot({mask_secrets(self.table.uri)!r}, version={self.version})"

    @property
    def name(self) -> str | None:
        """The table as the caller wrote it."""
        return self.table.name

    @property
    def time(self) -> CommitTime | None:
        """When the version was committed; None if its commit file is missing.

        Determined on first use: without in-commit timestamps it depends on the times of all older commits, so a
        listing from the hint on has to be completed.
        """
        return self._time_and_problem[0]

    @property
    def problems(self) -> tuple[str, ...]:
        """Rule ids of the problems that were worked around."""
        time_problem = self._time_and_problem[1]
        problems = self._problems if time_problem is None else self._problems | {time_problem}
        return tuple(sorted(problems))

    @property
    def disputed(self) -> tuple[str, ...]:
        """Rule ids of those problems that engines read differently. Unlike `problems` it needs no time of a commit."""
        return tuple(problem for problem in sorted(self._problems) if problem in DECISIONS)

    @property
    def decisions(self) -> list[str]:
        """The decisions that were made about these problems, in words, with the rule of each."""
        return [f"{problem}: {DECISIONS[problem]}" for problem in self.disputed]

    @cached_property
    def _time_and_problem(self) -> tuple[CommitTime | None, str | None]:
        return _determine_time(self)

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
        """The table schema, parsed; empty if the metaData has none. Raises Unreadable (`schema.bad-json`)."""
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
        from deltacli.table.scan import Scan
        from deltacli.table.scan_requests import ScanRequest

        request = ScanRequest(columns=columns, where=where, row_ids=row_ids, limit=limit)
        return Scan(self, request)

    def files(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the live files as batches of the add action's own fields, in no particular order."""
        return iterate_naming_table(self.file_actions.map_actions("add", _return_batch), self.name)

    def tombstones(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the removes of this state, expired ones included, as batches of the action's own fields, unordered."""
        return iterate_naming_table(self.file_actions.map_actions("remove", _return_batch), self.name)

    @property
    def file_actions(self) -> FileActions:
        """The live files and tombstones, in parts that plans read."""
        return FileActions(self)

    @property
    def paths_with_contradictory_counts(self) -> frozenset[bytes]:
        """The keys of paths whose newest add has another number of records than an older one of the log."""
        return frozenset(_encode_path(path) for path in self._replayed.contradicted_paths)

    @property
    def has_contradictory_counts(self) -> bool:
        """True if two adds of one live file disagree on its number of records."""
        return bool(self._replayed.contradicted_paths)

    def find_files_with_other_vectors(self, adds: pyarrow.RecordBatch) -> pyarrow.Array | None:
        """Find live files that a newer commit added or removed under another deletion vector than they have.

        Such a file may be in the table twice: the remove of the older add is missing.

        Args:
            adds: A batch of live files of this version.

        Returns:
            A mask of the batch; None if no such file is known.
        """
        import pyarrow

        replayed = self._replayed
        vectors = adds.column("deletionVector")
        has_vectors = vectors.null_count < len(vectors)
        # Without vectors on one side there is no other vector. Most tables end here.
        if not (
            replayed.paths_with_other_vectors or replayed.paths_with_vectors or (replayed.decided_keys and has_vectors)
        ):
            return None

        # The keys of few suspects are computed instead of those of all files.
        paths = key_column(adds.column("path"), no_vector_ids(adds.num_rows))
        noted_paths = [
            _encode_path(path) for path in (*replayed.paths_with_other_vectors, *replayed.paths_with_vectors)
        ]
        is_noted = pc.is_in(paths, value_set=pyarrow.array(noted_paths, pyarrow.binary()))
        suspects = pc.indices_nonzero(pc.or_(pc.is_valid(vectors), is_noted))
        suspect_paths = texts_of(pc.take(paths, suspects))
        suspect_ids = unique_id_column(pc.take(vectors, suspects))
        suspect_keys = texts_of(key_column(pc.take(adds.column("path"), suspects), suspect_ids))

        rows = [
            row
            for row, path, key in zip(suspects, suspect_paths, suspect_keys, strict=True)
            if self._has_other_vector(path, key)
        ]
        if not rows:
            return None
        all_rows = pyarrow.array(range(adds.num_rows), suspects.type)
        return pc.is_in(all_rows, value_set=pyarrow.array(rows, suspects.type))

    def _has_other_vector(self, path: str, key: str) -> bool:
        """Return True if a newer commit names the path of a live file under another vector than its key has.

        Args:
            path: The canonical path of the file.
            key: The path and the vector of the file; the path alone if it has no vector.
        """
        replayed = self._replayed
        if path in replayed.paths_with_other_vectors:
            return True
        # A live file that no commit has decided is of the checkpoint, and older than all commits.
        if key in replayed.decided_keys:
            return False
        return path in replayed.paths_with_vectors or (path != key and path in replayed.decided_keys)

    @cached_property
    def _touched(self) -> TouchedFiles:
        return self._replayed.touched

    @property
    def physical_partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns in partition values."""
        try:
            fields = {field.name: field for field in self.schema.fields}
        except Unreadable:
            fields = {}  # without a schema, nothing tells physical names
        names = []
        for name in self.metadata.partition_columns:
            physical_name = fields[name].metadata.get(PHYSICAL_NAME) if name in fields else None
            names.append(physical_name if isinstance(physical_name, str) else name)
        return tuple(names)

    @property
    def listing(self) -> LogListing:
        """The versioned files of the log when it was listed."""
        return self._log.listing

    @property
    def listed_at(self) -> float:
        """When the log was listed, by the monotonic clock of this process."""
        return self._log.listed_at

    @api_method
    def counts(self, *, now_ms: int | None = None) -> tuple[FileCounts, TombstoneCounts]:
        """Count live files and tombstones.

        Args:
            now_ms: The time in epoch milliseconds at which a tombstone that is older than the table's retention is
                expired. None: the table's clock.
        """
        files = FileCounts()
        tombstones = TombstoneCounts()
        for _, (files_of_piece, tombstones_of_piece) in self.file_actions.count_pieces(now_ms=now_ms):
            files += files_of_piece
            tombstones += tombstones_of_piece
        return files, tombstones

    def write_files(
        self, directory: str | os.PathLike[str], *, files: bool = True, tombstones: bool = False
    ) -> WrittenDirectory:
        """Write the live files, the tombstones or both as Parquet files to a directory, as `Scan.write_parquet` does.

        The columns are `type` (`add` or `remove`), and then the actions' own fields.

        Args:
            directory: A path, or a URI of a store that can create atomically.
            files: True to write the live files.
            tombstones: True to write the tombstones.

        Raises:
            UsageError: Unless one of them is wanted.
        """
        if not (files or tombstones):
            raise UsageError("neither files nor tombstones are to be written")
        from deltacli.table.output import write_actions
        from deltacli.work.outputs import ActionColumns

        kinds = []
        if files:
            kinds.append("add")
        if tombstones:
            kinds.append("remove")
        return write_actions(self.file_actions, directory, ActionColumns(tuple(kinds)), None)

    @property
    def set_aside(self) -> Mapping[str, str]:
        """The names of unusable checkpoint files, with the rule that each breaks."""
        return {checkpoint.files[0].name: rule for checkpoint, rule in self._unusable.items()}

    @property
    def log(self) -> ListedLog:
        """The log as it was found, with the problem of its hint."""
        return self._log

    @property
    def unusable(self) -> Mapping[CheckpointInstance, str]:
        """Unusable checkpoints, with the rule that each breaks."""
        return self._unusable


def _encode_path(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _return_batch(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    return batch


def _determine_time(snapshot: Snapshot) -> tuple[CommitTime | None, str | None]:
    """Return when a version was committed, and the rule that is broken if that cannot be told as it should be.

    The time is the in-commit timestamp where these count, else that of the file. The newest version
    decides whether they count, because it decides which version a time selects (`time_travel.py`).

    Returns:
        The time, None if the commit file is missing; and `ict.missing` if the commit should have an
        in-commit timestamp and has none.
    """
    storage = snapshot.table.storage
    listing = snapshot._log.listing
    # A checkpoint of a version whose commit has expired has no time of its own.
    file = listing.commits.get(snapshot.version)
    if file is None:
        return None, None

    is_stamped = state.has_in_commit_timestamps(snapshot.protocol, snapshot.metadata)
    if is_stamped and snapshot.version < listing.newest_version and snapshot._find_enablement_version is not None:
        enablement_version = snapshot._find_enablement_version()
        is_stamped = enablement_version is not None and snapshot.version >= enablement_version
    if is_stamped:
        provenance = _read_own_provenance(snapshot)
        if provenance.in_commit_timestamp is not None:
            return CommitTime(provenance.in_commit_timestamp, TimestampSource.IN_COMMIT), None

    commits = listing.commits
    if listing.start_version:
        # Times of files are made increasing from the first commit on. The version itself may be gone by now.
        commits = {**list_log(storage, progress=snapshot.table.progress).commits, snapshot.version: file}
    return file_times(commits)[snapshot.version], "ict.missing" if is_stamped else None


def _read_own_provenance(snapshot: Snapshot) -> Provenance:
    """Return the provenance of the commit of a version, from what was replayed if its commit was."""
    if snapshot.segment.commits:
        replayed = snapshot._replayed
        return Provenance(replayed.newest_commit_info, is_first=replayed.commit_info_is_first)
    commit = snapshot._log.listing.commits[snapshot.version]
    return read_provenance(snapshot.table.storage, commit)
