"""The snapshot: the state of a table at one version.

`rebuild.py` creates snapshots. Protocol, metadata, transactions and domains are loaded. The rest is read
on demand: live files and tombstones (`file_actions.py`), rows (`scan.py`), and the commit time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Unreadable, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.delta.data_files import repeat_empty_vector_id, unique_id_column
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.log.disputed_readings import DECISIONS
from deltacli.delta.log.file_actions import (
    FileCounts,
    TombstoneCounts,
    compute_file_keys,
    decode_file_keys,
)
from deltacli.delta.log.segment import (
    CheckpointInstance,
    CommitTime,
    LogListing,
    LogSegment,
    TimestampSource,
    compute_file_times,
)
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import NO_COLUMNS, PHYSICAL_NAME, StructType, parse_schema
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import api_method, iterate_naming_table
from deltacli.table.file_actions import FileActions
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.segment_contents import SegmentContents
from deltacli.work.commits.provenance import Provenance, read_provenance

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.output import WrittenDirectory
    from deltacli.table.scan import Scan


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a table at one version.

    Attributes:
        table: The handle of the table.
        version: The version number.
        protocol: The reader version, the writer version and the table features.
        metadata: The metadata: name, schema as JSON, partition columns, properties.
        transactions: The newest `txn` version of each application.
        domains: The domain metadata, such as `delta.clustering`.
        segment: The checkpoint and the commits that the version was rebuilt from.
        checkpoint_layout: `classic`, `multi-part` or `v2`; None without a checkpoint. A V2 checkpoint is
            `v2` even if its file name is that of a classic checkpoint.
        sidecars: The number of sidecar files of the checkpoint.
        raw_protocol: The protocol action with all its fields. Changes preserve unknown fields.
        raw_metadata: The metaData action with all its fields. Changes preserve unknown fields.
        contents: The replayed commits and the row groups of the checkpoint. Internal: `file_actions` reads
            them.
        _log: The listing that the version was rebuilt from.
        _problems: Ids of `validate` rules that the log violates although the version could be rebuilt.
        _unusable: Checkpoints that were skipped, each with the id of the rule that it violates.
        _older_metadata: Reads the metadata of this and all older versions.
        _find_enablement_version: Returns the first version whose commit time is its in-commit timestamp;
            None if in-commit timestamps are not enabled.
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
    contents: SegmentContents = field(repr=False)
    _log: ListedLog = field(repr=False)
    _problems: frozenset[str] = field(repr=False)
    _unusable: Mapping[CheckpointInstance, str] = field(repr=False)
    _older_metadata: Callable[[], state.OlderMetadata] | None = field(default=None, repr=False)
    _find_enablement_version: Callable[[], int | None] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Snapshot({mask_secrets(self.table.uri)!r}, version={self.version})"

    @property
    def name(self) -> str | None:
        """The path, URI or catalog name that the caller passed to open the table."""
        return self.table.name

    @property
    def time(self) -> CommitTime | None:
        """The time of the commit; None if the commit file does not exist any more.

        Computed on first use, which may list the log again: without in-commit timestamps, the time depends on
        the modification times of all older commits.
        """
        return self._timed_commit.time

    @property
    def problems(self) -> tuple[str, ...]:
        """Ids of the `validate` rules that the log violates although the version could be rebuilt, sorted."""
        violated_rules = set(self._problems)
        if self._timed_commit.violated_rule is not None:
            violated_rules.add(self._timed_commit.violated_rule)
        return tuple(sorted(violated_rules))

    @property
    def disputed(self) -> tuple[str, ...]:
        """The ids in `problems` of damage that engines interpret differently, such as `commit.duplicate-metadata`.

        If a commit contains two metaData actions, for example, Spark uses the last one and delta-rs the first
        one. Unlike `problems`, this property makes no request.
        """
        return tuple(problem for problem in sorted(self._problems) if problem in DECISIONS)

    def add_problem(self, rule: str) -> Snapshot:
        """Return a copy of the snapshot whose `problems` contain one more rule of `validate`."""
        return replace(self, _problems=self._problems | {rule})

    def remove_problem(self, rule: str) -> Snapshot:
        """Return a copy of the snapshot whose `problems` do not contain a rule of `validate`."""
        return replace(self, _problems=self._problems - {rule})

    @property
    def decisions(self) -> list[str]:
        """One line per rule in `disputed`: the rule id, and how deltacli interprets the log."""
        return [f"{problem}: {DECISIONS[problem]}" for problem in self.disputed]

    @cached_property
    def _timed_commit(self) -> _TimedCommit:
        return _determine_time(self)

    @property
    def newest_version(self) -> int:
        """The newest version of the table at the time when the log was listed."""
        return self._log.listing.newest_version

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties (`metaData.configuration`)."""
        return self.metadata.configuration

    @cached_property
    def schema(self) -> StructType:
        """The parsed schema of the table; empty if `metaData` has no schemaString.

        Raises:
            Unreadable: `schema.bad-json`, if the schema is invalid.
        """
        return parse_schema(self.metadata.schema_string or NO_COLUMNS)

    @cached_property
    def config(self) -> state.TableConfiguration:
        """The protocol, metadata and schema as one object.

        Raises:
            Unreadable: `schema.bad-json`, if the schema is invalid.
        """
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
        """Return the rows of this version as an iterable of Arrow record batches.

        Nothing is read until the scan is iterated. Iterating raises DataUnreadable if a data file is missing
        or damaged.

        Args:
            columns: Names of top-level columns, in the order of the result. None for all columns.
            where: A condition in SQL, such as `day >= '2026-01-01'`. None for all rows.
            row_ids: True to append the columns `_row_id` and `_row_commit_version`. `where` may use them.
            limit: The maximum number of rows. None for all rows.

        Raises:
            UsageError: If a column does not exist or the condition is invalid.
            Refused: If row tracking is not enabled (`rowtracking.not-enabled`).
            Unreadable: If the type of a column is not supported.
        """
        # Reading rows imports the readers of Parquet and of predicates. Commands that read only the log start
        # faster without them.
        from deltacli.table.scan import Scan
        from deltacli.table.scan_requests import ScanRequest

        request = ScanRequest(columns=columns, where=where, row_ids=row_ids, limit=limit)
        return Scan(self, request)

    def files(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the live files as record batches with the fields of `add` actions, in no particular order."""
        return iterate_naming_table(self.file_actions.map_actions("add", _return_batch), self.name)

    def tombstones(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the tombstones as record batches with the fields of `remove` actions, in no particular order.

        Tombstones that are older than the retention are included.
        """
        return iterate_naming_table(self.file_actions.map_actions("remove", _return_batch), self.name)

    @property
    def file_actions(self) -> FileActions:
        """The live files and tombstones, read in batches on demand."""
        return FileActions(self)

    @property
    def paths_with_contradictory_counts(self) -> frozenset[bytes]:
        """The encoded canonical paths of live files whose adds disagree on the number of records."""
        return frozenset(_encode_path(path) for path in self.contents.replayed.contradicted_paths)

    @property
    def has_contradictory_counts(self) -> bool:
        """True if two add actions of one live file disagree on the number of records."""
        return bool(self.contents.replayed.contradicted_paths)

    def find_files_with_other_vectors(self, adds: pyarrow.RecordBatch) -> pyarrow.Array | None:
        """Find live files whose path a newer commit adds or removes with a different deletion vector.

        The rows of such a data file may be in the table twice, because the commit that changed the
        deletion vector did not remove the old logical file:

            version 1   add a.parquet                              live
            version 2   add a.parquet with deletion vector v1      live, too: `remove a.parquet` is missing

        Args:
            adds: A batch of live files of this version.

        Returns:
            A mask of the batch that is true for such files; None if there are none.
        """
        replayed = self.contents.replayed
        vectors = adds.column("deletionVector")
        has_vectors = vectors.null_count < len(vectors)
        # Most tables have no deletion vectors, so that none can differ.
        may_differ = (
            replayed.paths_with_other_vectors
            or replayed.paths_with_vectors
            or (replayed.superseded_keys and has_vectors)
        )
        if not may_differ:
            return None

        # Suspects are files with a deletion vector, and files whose path occurs with one in a commit.
        # Keys are computed for suspects only, because that is slow for millions of files.
        paths = compute_file_keys(adds.column("path"), repeat_empty_vector_id(adds.num_rows))
        paths_in_commits = [
            _encode_path(path) for path in (*replayed.paths_with_other_vectors, *replayed.paths_with_vectors)
        ]
        is_in_commits = pc.is_in(paths, value_set=pa.array(paths_in_commits, pa.binary()))
        is_suspect = pc.or_(pc.is_valid(vectors), is_in_commits)
        suspect_rows = pc.indices_nonzero(is_suspect)
        suspect_paths = decode_file_keys(pc.take(paths, suspect_rows))
        suspect_vector_ids = unique_id_column(pc.take(vectors, suspect_rows))
        suspect_keys = decode_file_keys(
            compute_file_keys(pc.take(adds.column("path"), suspect_rows), suspect_vector_ids)
        )

        # Compare each suspect with the newer commits.
        rows_with_other_vector = [
            row
            for row, path, key in zip(suspect_rows, suspect_paths, suspect_keys, strict=True)
            if self._has_other_vector(path, key)
        ]
        if not rows_with_other_vector:
            return None

        # Convert the row numbers to a mask.
        all_rows = pa.array(range(adds.num_rows), suspect_rows.type)
        return pc.is_in(all_rows, value_set=pa.array(rows_with_other_vector, suspect_rows.type))

    def _has_other_vector(self, path: str, key: str) -> bool:
        """Return True if a newer commit contains the path of a live file with a different deletion vector.

        Args:
            path: The canonical path of the file.
            key: The key of the file: its path and the id of its deletion vector, or only its path.
        """
        replayed = self.contents.replayed
        if path in replayed.paths_with_other_vectors:
            return True
        # The add is in one of the commits, and the replay has compared it with the newer commits.
        if key in replayed.superseded_keys:
            return False
        # The add is in the checkpoint, so every commit is newer. A path without a deletion vector is its
        # own key.
        is_without_vector_in_commits = path != key and path in replayed.superseded_keys
        return path in replayed.paths_with_vectors or is_without_vector_in_commits

    @property
    def physical_partition_columns(self) -> tuple[str, ...]:
        """The physical names of the partition columns, which are the keys of `partitionValues` in actions."""
        try:
            fields = {field.name: field for field in self.schema.fields}
        except Unreadable:
            # The schema contains the column mapping. If it is invalid, assume that there is none.
            fields = {}
        names = []
        for name in self.metadata.partition_columns:
            physical_name = fields[name].metadata.get(PHYSICAL_NAME) if name in fields else None
            names.append(physical_name if isinstance(physical_name, str) else name)
        return tuple(names)

    @property
    def listing(self) -> LogListing:
        """The commits, checkpoints, checksums and compactions in the log at the time when it was listed."""
        return self._log.listing

    @property
    def listed_at(self) -> float:
        """The time when the log was listed, in seconds of the monotonic clock of this process."""
        return self._log.listed_at

    @api_method
    def counts(self, *, now_ms: int | None = None) -> tuple[FileCounts, TombstoneCounts]:
        """Count live files and tombstones, and sum their bytes and rows.

        Args:
            now_ms: The current time in epoch milliseconds. Tombstones that are older than the retention of
                the table at this time are counted as expired. None to use the clock of the table.
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
        """Write the list of live files, of tombstones or of both to a directory of Parquet files.

        The first column is `type` (`add` or `remove`), followed by the fields of the actions.

        Args:
            directory: A new or empty directory outside of all tables: a path, or the URI of a store that
                supports atomic creation.
            files: True to write the live files.
            tombstones: True to write the tombstones.

        Raises:
            UsageError: If both `files` and `tombstones` are False.
            DeltacliError: The same errors as `Scan.write_parquet`.
        """
        if not (files or tombstones):
            raise UsageError("neither files nor tombstones are to be written")
        # Imported here because only few commands write a directory.
        from deltacli.table.output import write_actions
        from deltacli.work.outputs.action_outputs import ActionColumns

        kinds = []
        if files:
            kinds.append("add")
        if tombstones:
            kinds.append("remove")
        return write_actions(self.file_actions, directory, ActionColumns(tuple(kinds)), None)

    @property
    def skipped_checkpoints(self) -> Mapping[str, str]:
        """The first file name of each checkpoint that was skipped, with the id of the rule that it violates."""
        return {checkpoint.files[0].name: rule for checkpoint, rule in self._unusable.items()}

    @property
    def set_aside(self) -> Mapping[str, str]:
        """The former name of `skipped_checkpoints`, for callers of older releases."""
        return self.skipped_checkpoints

    @property
    def log(self) -> ListedLog:
        """The listing that the version was rebuilt from, with the problems of `_last_checkpoint`."""
        return self._log

    @property
    def unusable(self) -> Mapping[CheckpointInstance, str]:
        """The checkpoints that were skipped, each with the id of the rule that it violates."""
        return self._unusable


def _encode_path(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _return_batch(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    return batch


class _TimedCommit(NamedTuple):
    """The time of the commit of a version.

    Attributes:
        time: The time; None if the commit file does not exist any more.
        violated_rule: `ict.missing` if the commit should have an in-commit timestamp and has none, else None.
    """

    time: CommitTime | None
    violated_rule: str | None = None


def _determine_time(snapshot: Snapshot) -> _TimedCommit:
    """Return the commit time of a version.

    The time is the in-commit timestamp, or the modification time of the commit file for versions before
    in-commit timestamps were enabled. The newest version of the table records when they were enabled, as
    for time travel (`time_travel.py`).
    """
    storage = snapshot.table.storage
    listing = snapshot._log.listing
    # The commit of an old version may have expired while its checkpoint still exists.
    file = listing.commits.get(snapshot.version)
    if file is None:
        return _TimedCommit(None)

    uses_in_commit_timestamp = state.has_in_commit_timestamps(snapshot.protocol, snapshot.metadata)
    is_newest = snapshot.version >= listing.newest_version
    if uses_in_commit_timestamp and not is_newest and snapshot._find_enablement_version is not None:
        enablement_version = snapshot._find_enablement_version()
        uses_in_commit_timestamp = enablement_version is not None and snapshot.version >= enablement_version
    if uses_in_commit_timestamp:
        provenance = _read_own_provenance(snapshot)
        if provenance.in_commit_timestamp is not None:
            return _TimedCommit(CommitTime(provenance.in_commit_timestamp, TimestampSource.IN_COMMIT))

    # Delta adjusts file times so that they increase from the first commit on, so all commits are needed.
    # The commit of this version may have been deleted since the first listing; keep its known time.
    commits = listing.commits
    if listing.start_version:
        commits = {**list_log(storage, progress=snapshot.table.progress).commits, snapshot.version: file}
    violated_rule = "ict.missing" if uses_in_commit_timestamp else None
    return _TimedCommit(compute_file_times(commits)[snapshot.version], violated_rule)


def _read_own_provenance(snapshot: Snapshot) -> Provenance:
    """Return the provenance of the commit of a version, without a request if the commit was replayed."""
    if snapshot.segment.commits:
        replayed = snapshot.contents.replayed
        return Provenance(replayed.newest_commit_info, is_first=replayed.commit_info_is_first)
    # The version was rebuilt from a checkpoint of the same version.
    commit = snapshot._log.listing.commits[snapshot.version]
    return read_provenance(snapshot.table.storage, commit)
