"""The files that a range of commits adds, removes or records as change data.

A commit with change data files has all of its changes there. Other commits count by their adds and removes, except
those that change no data. Spec: Read Change Data Feed from a Table; Add CDC File.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.commit_times import file_times
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.log.segment import LogFile, LogListing
from deltacli.delta.log.state import (
    Metadata,
    has_in_commit_timestamps,
    plain_action,
    read_metadata,
    read_protocol,
)
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.protocol_action import Protocol, require_readable
from deltacli.delta.protocol.read_property import is_true
from deltacli.delta.schema.types import parse_schema
from deltacli.operations.read.changes import with_partition_values
from deltacli.operations.table.find_log import list_log
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.wire_errors import unsupported
from deltacli.sharing.tables.checking import find_fault, spelled_alike
from deltacli.sharing.tables.shared_snapshot import NO_COLUMNS, SharedSnapshot
from deltacli.sharing.tables.snapshots import SharedSnapshots
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    import pyarrow

CHANGE_DATA = "delta.enableChangeDataFeed"
_ROWS_OF_MERGE = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True)
class CommitChanges:
    """One commit of a range. `metadata` and `protocol` are None unless the commit changes them. `files` are the changed
    files by action (`add`, `remove`, `cdc`), in the order of the log.
    """

    version: int
    time_ms: int
    files: tuple[tuple[str, pyarrow.RecordBatch], ...]
    metadata: Metadata | None = None
    raw_metadata: Action = field(default_factory=dict)
    protocol: Protocol | None = None
    raw_protocol: Action = field(default_factory=dict)

    @property
    def has_vectors(self) -> bool:
        """Return True if a file has a deletion vector."""
        vectors = (batch.column("deletionVector") for kind, batch in self.files if kind != "cdc")
        return any(column.null_count < len(column) for column in vectors)


@dataclass(frozen=True)
class Changes:
    """The commits of a range, and the snapshot at its beginning."""

    start: SharedSnapshot
    commits: tuple[CommitChanges, ...]

    @property
    def has_vectors(self) -> bool:
        """Return True if a file has a deletion vector."""
        return any(commit.has_vectors for commit in self.commits)


def read_changes(snapshots: SharedSnapshots, table: SharedTable, first: int, last: int, *, is_feed: bool) -> Changes:
    """Return the changes of the versions from `first` to `last`. `is_feed`: those of a change data feed, which must be
    on in all of them; otherwise the added and removed files.

    Raises WireError where the feed is off or the log lacks a commit, and what reading a commit raises.
    """
    storage = snapshots.handle(table).storage
    start = snapshots.state_at(table, first)
    listing = list_log(storage)
    absent = next((version for version in range(first, last + 1) if version not in listing.commits), None)
    if absent is not None:
        raise unsupported(f"the changes of version {absent} are no longer in the log of the table {table.full_name}")
    if is_feed:
        _require_feed(table, start.metadata, first)
    commits = tuple(_commits(snapshots, table, start, listing, last, is_feed=is_feed))
    return Changes(start, commits)


def _commits(
    snapshots: SharedSnapshots,
    table: SharedTable,
    start: SharedSnapshot,
    listing: LogListing,
    last: int,
    *,
    is_feed: bool,
) -> Iterator[CommitChanges]:
    handle, times = snapshots.handle(table), file_times(listing.commits)
    storage, config = handle.storage, start.config
    protocol, metadata = start.protocol, start.metadata
    for version in range(start.version, last + 1):
        file = listing.commits[version]
        found = _CommitContent()
        for kind, action in stream_commit(storage, file):
            found.take(kind, action)
        changed = found.changed_state(file)
        protocol, metadata = changed[0] or protocol, changed[1] or metadata
        require_readable(protocol, version)
        if is_feed:
            _require_feed(table, metadata, version)
        before, config = config, config if changed[1] is None else _configuration(protocol, metadata)
        names = tuple((before if version > start.version else config).partition_columns)
        found.found["remove"] = with_partition_values(handle, version, names, found.found["remove"])
        files = [
            (kind, spelled_alike(batch, before if kind == "remove" else config))
            for kind, batch in found.batches(file, is_feed=is_feed)
        ]
        for kind, batch in files:
            if fault := find_fault([batch], before if kind == "remove" else config, storage.uri):
                raise fault
        stamp = found.stamp if has_in_commit_timestamps(protocol, metadata) else None
        yield CommitChanges(
            version,
            times[version].timestamp_ms if stamp is None else stamp,
            tuple(files),
            changed[1],
            plain_action(found.metadata or {}),
            changed[0],
            plain_action(found.protocol or {}),
        )


def _configuration(protocol: Protocol, metadata: Metadata) -> TableConfiguration:
    schema = parse_schema(metadata.schema_string or NO_COLUMNS)
    return TableConfiguration(protocol=protocol, metadata=metadata, schema=schema)


def _require_feed(table: SharedTable, metadata: Metadata, version: int) -> None:
    if not is_true(metadata.configuration, CHANGE_DATA):
        raise unsupported(f"the table {table.full_name} has no change data feed at version {version}")


class _CommitContent:
    """The actions of one commit that concern recipients."""

    def __init__(self) -> None:
        self.found: dict[str, list[Action]] = {"add": [], "remove": [], "cdc": []}
        self.protocol: Action | None = None
        self.metadata: Action | None = None
        self.info: Action = {}

    def take(self, kind: str, action: Action) -> None:
        """Add an action."""
        if kind == "cdc" or (kind in self.found and action.get("dataChange") is not False):
            self.found[kind].append(action)
        elif kind == "protocol":
            self.protocol = action
        elif kind == "metaData":
            self.metadata = action
        elif kind == "commitInfo":
            self.info = action

    @property
    def stamp(self) -> int | None:
        """Return the in-commit timestamp."""
        value = self.info.get("inCommitTimestamp")
        return value if type(value) is int else None

    def changed_state(self, file: LogFile) -> tuple[Protocol | None, Metadata | None]:
        """Return the protocol and the metadata of the commit, None where it has none."""
        return (
            None if self.protocol is None else read_protocol(self.protocol, file.name),
            None if self.metadata is None else read_metadata(self.metadata, file.name),
        )

    def batches(self, file: LogFile, *, is_feed: bool) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
        """Yield the file actions of a change feed, or the adds and removes, in columns."""
        if not is_feed:
            kinds: tuple[str, ...] = ("add", "remove")
        elif self.found["cdc"]:
            kinds = ("cdc",)
        else:
            kinds = () if self._is_merge_without_changes else ("add", "remove")
        for kind in kinds:
            if self.found[kind]:
                yield kind, whole_actions(self.found[kind], _schema(kind), file.name)

    @property
    def _is_merge_without_changes(self) -> bool:
        """Return True for a MERGE that rewrote files but changed no row, which has no change data files."""
        metrics = self.info.get("operationMetrics")
        if self.info.get("operation") != "MERGE" or not isinstance(metrics, dict):
            return False
        return all(str(metrics.get(name)) == "0" for name in _ROWS_OF_MERGE)


def _schema(kind: str) -> Any:  # Any: pyarrow has no types
    """Return the fields of an action that clients get."""
    import pyarrow as pa

    schemas = action_schemas()
    if kind == "add":
        return schemas.add
    if kind == "remove":
        return schemas.remove
    return pa.schema([schemas.add.field(name) for name in ("path", "partitionValues", "size", "dataChange", "tags")])
