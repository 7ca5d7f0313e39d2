"""Read the summary of a version from its version checksum file, without replaying the log.

`deltacli snapshot` shows the protocol, the metadata and a few totals. The checksum of the version, such as
`00000000000000000012.crc`, contains all of them, so for a large table one small file replaces reading a
checkpoint and its commits.

A checksum is not authoritative: a writer may have computed it wrongly. It is used only if the log has no
problems, the checksum is consistent in itself, and it agrees with the commit of its version, which is
read. In all other cases the caller has to replay the log.

The checksum of an older version is no help: commits may add files that are live already and remove files
that do not exist, so the totals of the next version cannot be computed from the commit alone.

Spec: Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltacli.core.errors import CommitCorrupt, FileMissing, PathExternal, StorageFailed, Unreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import (
    CommitTime,
    LogFile,
    LogListing,
    TimestampSource,
    blocked_commit_error,
    checksum_path,
    choose_segment,
    compute_file_times,
    format_time_as_json,
)
from deltacli.delta.log.state import DomainMetadata, Metadata, SetTransaction, StateBuilder, has_in_commit_timestamps
from deltacli.delta.protocol.features import Protocol, require_readable
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.storage.base import ReadStorage
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.table.checksum_state import ChecksumState, parse_checksum_state
from deltacli.table.find_log import find_blocked_commit_name, find_lost_versions, list_log
from deltacli.table.handle import TableHandle
from deltacli.work.commits.provenance import Provenance, read_provenance
from deltacli.work.commits.reading import read_commit

_MAX_CHECKSUM_BYTES = 8 << 20
"""Larger checksums contain the list of all files. Parsing it takes as long as a replay."""
_MAX_COMMIT_BYTES = 1 << 20
"""Of larger commits, only `commitInfo` is read."""


@dataclass(frozen=True, eq=False)
class VersionFromChecksum:
    """The summary of a version, without its files.

    Properties that `Snapshot` has, too, have the same names and values.

    Attributes:
        table: The handle of the table.
        version: The version number.
        time: The time of the commit.
        checksum: The parsed checksum.
        newest_version: The newest version of the table at the time when the log was listed.
        problems: Always empty: a log with problems is replayed.
    """

    table: TableHandle
    version: int
    time: CommitTime
    checksum: ChecksumState
    newest_version: int
    problems: tuple[str, ...] = ()

    @property
    def skipped_checkpoints(self) -> Mapping[str, str]:
        """The checkpoints that were skipped. Always empty, because no checkpoint is opened."""
        return {}

    @property
    def protocol(self) -> Protocol:
        """The reader version, the writer version and the table features."""
        return self.checksum.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata: name, schema as JSON, partition columns, properties."""
        return self.checksum.metadata

    @property
    def transactions(self) -> Sequence[SetTransaction] | None:
        """The newest `txn` version of each application; None if the checksum does not contain them."""
        return self.checksum.transactions

    @property
    def domains(self) -> Sequence[DomainMetadata] | None:
        """The domain metadata; None if the checksum does not contain it."""
        return self.checksum.domains

    @cached_property
    def schema(self) -> StructType:
        """The parsed schema of the table."""
        return parse_schema(self.metadata.schema_string or "")

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the JSON document `deltacli.snapshot` that the checksum contains.

        The envelope of the document, such as its version, is not included.
        """
        checksum = self.checksum
        files: dict[str, Any] = {"count": checksum.files, "sizeBytes": checksum.size_bytes}
        if checksum.vectors is not None and checksum.deleted_rows is not None:
            files["deletionVectors"] = {"count": checksum.vectors, "deletedRows": checksum.deleted_rows}
        if checksum.histogram is not None:
            files["sizeHistogram"] = dict(checksum.histogram)
        document = {
            "version": self.version,
            **format_time_as_json(self.time),
            "protocol": self.protocol.as_json(),
            "metadata": self.metadata.as_json(),
            "files": files,
        }
        if self.transactions is not None:
            document["transactions"] = [transaction.as_json() for transaction in self.transactions]
        if self.domains is not None:
            document["domains"] = [domain.as_json() for domain in self.domains]
        return document


class ReplayNeeded(NamedTuple):
    """The result if the checksum cannot be used: the reason why the log has to be replayed."""

    reason: str


def read_version_from_checksum(
    table: TableHandle, *, version: int | None = None, timestamp_ms: int | None = None
) -> VersionFromChecksum | ReplayNeeded:
    """Read the summary of a version from its checksum.

    This lists the log, and reads the checksum and the commit of the version. On a local disk it also reads
    the first commit.

    Args:
        table: The table.
        version: The version. None, without a timestamp, for the newest version.
        timestamp_ms: A timestamp in epoch milliseconds, instead of the version.

    Returns:
        The summary; or `ReplayNeeded` if the checksum is missing, invalid, contradicts the commit, or would
        hide a problem of the log.

    Raises:
        NotATable: If the directory has no log.
        VersionAbsent: If the version does not exist.
        LogIncomplete: If commits are missing that are required to rebuild the version.
    """
    storage = table.storage
    if is_shared_table(storage):
        return ReplayNeeded("a share has no version checksums")
    if timestamp_ms is not None:
        # Imported here because time travel loads the replay, which most calls do not need.
        from deltacli.table.time_travel import find_version_at

        version = find_version_at(table, timestamp_ms)

    listing = list_log(storage, progress=table.progress)
    if version is None and find_blocked_commit_name(storage, listing) is not None:
        raise blocked_commit_error(listing)
    segment = choose_segment(listing, version)

    # A replay reports problems of the log. A summary must not hide them.
    if segment.problems:
        return ReplayNeeded(f"the log has problems: {', '.join(segment.problems)}")
    if segment.version == listing.newest_version:
        # Newer versions may have been lost. Then this version is not really the newest.
        lost_versions = find_lost_versions(storage, listing, -1)
        if lost_versions is not None:
            return ReplayNeeded(lost_versions.message)
    if segment.version not in listing.checksums:
        return ReplayNeeded(f"version {segment.version} has no checksum file")

    try:
        summary = _read_and_check_checksum(table, listing, segment.version)
    except (Unreadable, FileMissing, PathExternal, StorageFailed) as error:
        # A replay does not read the checksum, so it may succeed.
        return ReplayNeeded(error.message)
    table.note_version(listing.newest_version)
    return summary


def _read_and_check_checksum(table: TableHandle, listing: LogListing, version: int) -> VersionFromChecksum:
    """Read the checksum of a version, and compare it with the commit of the version and the first commit.

    Raises:
        Unreadable: If the checksum is invalid or contradicts a commit, or if deltacli does not support a
            reader feature of the version.
        DeltacliError: If the store cannot read a file.
    """
    path = checksum_path(version)
    name = path.rpartition("/")[2]
    # Request one byte more than the limit, to detect larger files.
    data = table.storage.read_range(path, 0, _MAX_CHECKSUM_BYTES + 1)
    if len(data) > _MAX_CHECKSUM_BYTES:
        raise CommitCorrupt(f"{name} is larger than {_MAX_CHECKSUM_BYTES >> 20} MiB", file=name)
    state = parse_checksum_state(data, name)
    require_readable(state.protocol, version)

    # A replay is needed for catalog-managed tables, because the catalog may have newer commits, and for
    # tables without a schema, because it reports that problem.
    if state.protocol.is_catalog_managed or state.metadata.schema_string is None:
        raise CommitCorrupt(f"{name} is of a table that only a replay reads", file=name)
    parse_schema(state.metadata.schema_string)

    # The first commit contains the table id: a checksum of another table has a different one. On a remote
    # store this would take one more request.
    compared_versions = {version}
    if table.storage.capabilities.has_cheap_requests:
        compared_versions = {version, 0} & listing.commits.keys()
    for commit in [listing.commits[compared] for compared in compared_versions]:
        difference = next(_find_differences(table.storage, commit, state, version), None)
        if difference:
            raise CommitCorrupt(f"{name} has another {difference} than commit {commit.version}", file=name)

    time = _determine_time(table, listing, version, state)
    return VersionFromChecksum(table, version, time, state, listing.newest_version)


def _determine_time(table: TableHandle, listing: LogListing, version: int, state: ChecksumState) -> CommitTime:
    """Return the commit time of a version, as time travel uses it.

    That is its in-commit timestamp if the newest version enables these for the version, else the time of
    the commit file.
    """
    timestamp_ms = state.in_commit_timestamp
    if timestamp_ms is None:
        return compute_file_times(listing.commits)[version]

    if version == listing.newest_version:
        is_enabled = has_in_commit_timestamps(state.protocol, state.metadata)
    else:
        # Imported here because it loads the replay, which the newest version does not need.
        from deltacli.table.rebuild import find_enablement_version

        enablement_version = find_enablement_version(table, listing)
        is_enabled = enablement_version is not None and version >= enablement_version
    if is_enabled:
        return CommitTime(timestamp_ms, TimestampSource.IN_COMMIT)
    return compute_file_times(listing.commits)[version]


def _find_differences(storage: ReadStorage, commit: LogFile, state: ChecksumState, version: int) -> Iterator[str]:
    """Yield the name of each field in which a checksum and a commit disagree.

    Args:
        storage: The store of the table.
        commit: The commit of the version, or the first commit, of which only the table id is compared.
        state: The parsed checksum.
        version: The version of the checksum.

    Raises:
        Unreadable: If the commit cannot be read.
    """
    provenance, actions = _read_provenance_and_actions(storage, commit)
    builder = StateBuilder()
    builder.add_actions(actions, commit.name)
    if builder.metadata is not None and builder.metadata.id != state.metadata.id:
        yield "table id"
    if commit.version != version:
        return

    # A field that the checksum or the commit does not contain is not compared.
    if state.txn_id not in (None, (provenance.commit_info or {}).get("txnId")):
        yield "txnId"
    if state.in_commit_timestamp not in (None, provenance.in_commit_timestamp):
        yield "in-commit timestamp"
    if builder.protocol not in (None, state.protocol):
        yield "protocol"
    if builder.metadata not in (None, state.metadata):
        yield "metadata"
    if state.transactions is not None:
        versions = {transaction.app_id: transaction.version for transaction in state.transactions}
        if any(versions.get(transaction.app_id) != transaction.version for transaction in builder.live_transactions):
            yield "transaction"
    if state.domains is not None:
        domains = {domain.domain: domain for domain in state.domains}
        if any(domains.get(name) != domain for name, domain in builder.domains.items()):
            yield "domain"
    if _contradicts_totals_of_commit(state, commit, actions):
        yield "number of files or bytes"


def _contradicts_totals_of_commit(state: ChecksumState, commit: LogFile, actions: Sequence[tuple[str, Action]]) -> bool:
    """Return True if the number of files or bytes in a checksum contradicts the adds of its commit.

    A version has at least the files that its commit adds. The first commit of a table adds all of its
    files, so there the numbers must be equal.

    Args:
        state: The parsed checksum.
        commit: The commit of the version.
        actions: The actions of the commit; empty if the commit is larger than `_MAX_COMMIT_BYTES`.
    """
    sizes = {str(add.get("path")): add.get("size") for kind, add in actions if kind == "add"}
    added_files = len(sizes)
    added_bytes = sum(size for size in sizes.values() if type(size) is int)
    if added_files > state.files or added_bytes > state.size_bytes:
        return True
    has_all_files = commit.version == 0 and commit.size_bytes <= _MAX_COMMIT_BYTES
    return has_all_files and (added_files, added_bytes) != (state.files, state.size_bytes)


def _read_provenance_and_actions(
    storage: ReadStorage, commit: LogFile
) -> tuple[Provenance, Sequence[tuple[str, Action]]]:
    """Read a commit.

    Returns:
        The provenance of the commit; and its actions, which are empty for a large commit.

    Raises:
        Unreadable: If the commit is damaged.
    """
    if commit.size_bytes > _MAX_COMMIT_BYTES:
        # `commitInfo` is one of the first actions. On a local disk the rest of the commit is searched, too.
        provenance = read_provenance(storage, commit, to_the_end=storage.capabilities.has_cheap_requests)
        if provenance.problem is not None:
            raise CommitCorrupt(f"{commit.name} cannot be read", file=commit.name)
        return provenance, []

    actions = read_actions(read_commit(storage, commit), commit.name)
    commit_infos = [action for kind, action in actions if kind == "commitInfo"]
    is_first = bool(actions) and actions[0][0] == "commitInfo"
    return Provenance(commit_infos[-1] if commit_infos else None, is_first=is_first), actions
