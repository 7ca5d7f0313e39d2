"""Read a version as its checksum states it, without its checkpoint and all but the last of its commits.

`snapshot` of a large table needs only a few numbers, and the checksum has them. It is one file that some
writer wrote, so it is believed only if nothing speaks against it: the log has no problems, the checksum
is consistent in itself, and the last commit, which is read, says the same. Otherwise the version is
replayed.

A checksum is of one version. The numbers of a later version cannot be told from its commits alone, since
a file that they add or remove may have been live or not.

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
    checksum_path,
    choose_segment,
    file_times,
    not_a_file,
    time_as_json,
)
from deltacli.delta.log.state import DomainMetadata, Metadata, SetTransaction, StateBuilder, has_in_commit_timestamps
from deltacli.delta.protocol.features import Protocol, require_readable
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.storage.base import ReadStorage
from deltacli.storage.optional_interfaces import SharedTableStore
from deltacli.table.checksum_state import ChecksumState, require_checksum
from deltacli.table.find_log import find_blocked_commit_name, find_lost_versions, list_log
from deltacli.table.handle import TableHandle
from deltacli.work.commits.reading import Provenance, read_commit, read_provenance

_MOST_CHECKSUM_BYTES = 8 << 20
"""Larger checksums list files, and take as long as a replay."""
_MOST_COMMIT_BYTES = 1 << 20
"""Of larger commits only the first line is read."""


@dataclass(frozen=True, eq=False)
class StatedVersion:
    """The state of a version without file actions.

    Attributes:
        table: The table.
        version: The version.
        time: When it was committed.
        checksum: What its checksum states.
        newest_version: The newest version of the log when it was listed.
        problems: None, because a log with problems is replayed.
    """

    table: TableHandle
    version: int
    time: CommitTime
    checksum: ChecksumState
    newest_version: int
    problems: tuple[str, ...] = ()

    @property
    def set_aside(self) -> Mapping[str, str]:
        """An empty mapping: no checkpoint was opened."""
        return {}

    @property
    def protocol(self) -> Protocol:
        """The protocol of the version."""
        return self.checksum.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata of the version."""
        return self.checksum.metadata

    @property
    def transactions(self) -> Sequence[SetTransaction] | None:
        """The newest version of each application; None if the checksum lacks them."""
        return self.checksum.transactions

    @property
    def domains(self) -> Sequence[DomainMetadata] | None:
        """The metadata of domains; None if the checksum lacks them."""
        return self.checksum.domains

    @cached_property
    def schema(self) -> StructType:
        """The schema of the version."""
        return parse_schema(self.metadata.schema_string or "")

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.snapshot` without the envelope, and without what the checksum lacks."""
        checksum = self.checksum
        files: dict[str, Any] = {"count": checksum.files, "sizeBytes": checksum.size_bytes}
        if checksum.vectors is not None and checksum.deleted_rows is not None:
            files["deletionVectors"] = {"count": checksum.vectors, "deletedRows": checksum.deleted_rows}
        if checksum.histogram is not None:
            files["sizeHistogram"] = dict(checksum.histogram)
        document = {
            "version": self.version,
            **time_as_json(self.time),
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
    """The reason why a version has to be replayed."""

    reason: str


def read_stated_version(
    table: TableHandle, *, version: int | None = None, timestamp_ms: int | None = None
) -> StatedVersion | ReplayNeeded:
    """Return a version as its checksum states it, or why it has to be replayed.

    It is replayed if the checksum is missing, is invalid, contradicts the last commit, or would hide a
    problem of the log. This takes a listing, the checksum and the commit of the version, on a disk also
    the first commit.

    Args:
        table: The table.
        version: The version.
        timestamp_ms: A time in epoch milliseconds instead of the version. None of both: the newest version.

    Raises:
        NotATable: If there is no log.
        VersionAbsent: If the version does not exist.
        LogIncomplete: If commits are missing that the version needs.
    """
    storage = table.storage
    if isinstance(storage, SharedTableStore):
        return ReplayNeeded("a share has no version checksums")
    if timestamp_ms is not None:
        from deltacli.table.time_travel import find_version_at  # which a version does not need

        version = find_version_at(table, timestamp_ms)

    listing = list_log(storage, progress=table.progress)
    if version is None and find_blocked_commit_name(storage, listing) is not None:
        raise not_a_file(listing)
    segment = choose_segment(listing, version)
    # A replay works around problems and reports them; this must not hide them.
    if segment.problems:
        return ReplayNeeded(f"the log has problems: {', '.join(segment.problems)}")
    # Newer versions that were lost would make this one look like the newest.
    if segment.version == listing.newest_version:
        lost = find_lost_versions(storage, listing, -1)
        if lost is not None:
            return ReplayNeeded(lost.message)
    if segment.version not in listing.checksums:
        return ReplayNeeded(f"version {segment.version} has no checksum file")
    try:
        stated = _read_checked_version(table, listing, segment.version)
    except (Unreadable, FileMissing, PathExternal, StorageFailed) as fault:
        # The replay decides whether this is an error: it does not need the checksum.
        return ReplayNeeded(fault.message)
    table.note_version(listing.newest_version)
    return stated


def _read_checked_version(table: TableHandle, listing: LogListing, version: int) -> StatedVersion:
    """Read a version and compare it with commits.

    Raises:
        Unreadable: If the checksum cannot be believed, or no reader may read the version.
        DeltacliError: What the store raises.
    """
    path = checksum_path(version)
    name = path.rpartition("/")[2]
    data = table.storage.read_range(path, 0, _MOST_CHECKSUM_BYTES + 1)
    # The byte too many tells that there is more.
    if len(data) > _MOST_CHECKSUM_BYTES:
        raise CommitCorrupt(f"{name} is larger than {_MOST_CHECKSUM_BYTES >> 20} MiB", file=name)
    state = require_checksum(data, name)
    require_readable(state.protocol, version)
    # The catalog may have newer commits, and the schema that is missing has to be reported.
    if state.protocol.is_catalog_managed or state.metadata.schema_string is None:
        raise CommitCorrupt(f"{name} is of a table that only a replay reads", file=name)
    parse_schema(state.metadata.schema_string)

    # The first commit has the id of the table. On a remote store it would be one more request.
    compared_versions = {version}
    if table.storage.capabilities.cheap_listing:
        compared_versions = {version, 0} & listing.commits.keys()
    for commit in [listing.commits[compared] for compared in compared_versions]:
        difference = next(_find_differences(table.storage, commit, state, version), None)
        if difference:
            raise CommitCorrupt(f"{name} has another {difference} than commit {commit.version}", file=name)
    time = _determine_time(table, listing, version, state)
    return StatedVersion(table, version, time, state, listing.newest_version)


def _determine_time(table: TableHandle, listing: LogListing, version: int, state: ChecksumState) -> CommitTime:
    """Return the time that selects a version: its in-commit timestamp if it counts by the newest version."""
    timestamp_ms = state.in_commit_timestamp
    if timestamp_ms is None:
        return file_times(listing.commits)[version]
    if version == listing.newest_version:
        counts = has_in_commit_timestamps(state.protocol, state.metadata)
    else:
        from deltacli.table.rebuild import find_enablement_version  # which the newest version does not need

        enablement_version = find_enablement_version(table, listing)
        counts = enablement_version is not None and version >= enablement_version
    if counts:
        return CommitTime(timestamp_ms, TimestampSource.IN_COMMIT)
    return file_times(listing.commits)[version]


def _find_differences(storage: ReadStorage, commit: LogFile, state: ChecksumState, version: int) -> Iterator[str]:
    """Yield what a checksum has otherwise than a commit.

    Args:
        storage: The store of the table.
        commit: The commit of the version, which is compared as far as it goes, or the first one, of which
            only the id of the table is compared: by it the checksum of another table is told.
        state: What the checksum states.
        version: The version of the checksum.

    Raises:
        Unreadable: If the commit cannot be read.
    """
    provenance, actions = _read_provenance_and_actions(storage, commit)
    builder = StateBuilder()
    builder.take(actions, commit.name)
    if builder.metadata is not None and builder.metadata.id != state.metadata.id:
        yield "table id"
    if commit.version != version:
        return

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
    if _has_other_totals(state, commit, actions):
        yield "number of files or bytes"


def _has_other_totals(state: ChecksumState, commit: LogFile, actions: Sequence[tuple[str, Action]]) -> bool:
    """Return True if a checksum counts fewer files or bytes than its commit adds.

    The first commit of a table adds all of its files, so there the totals must be equal.

    Args:
        state: What the checksum states.
        commit: The commit of the version.
        actions: Its actions; empty if it is large.
    """
    sizes = {str(add.get("path")): add.get("size") for kind, add in actions if kind == "add"}
    added_files = len(sizes)
    added_bytes = sum(size for size in sizes.values() if type(size) is int)
    if added_files > state.files or added_bytes > state.size_bytes:
        return True
    has_all_files = commit.version == 0 and commit.size_bytes <= _MOST_COMMIT_BYTES
    return has_all_files and (added_files, added_bytes) != (state.files, state.size_bytes)


def _read_provenance_and_actions(
    storage: ReadStorage, commit: LogFile
) -> tuple[Provenance, Sequence[tuple[str, Action]]]:
    """Return the provenance of a commit, and its actions if it is small. Raises Unreadable."""
    # `commitInfo` is in the first line, or nearly. On a disk the whole commit is looked through for it.
    if commit.size_bytes > _MOST_COMMIT_BYTES:
        provenance = read_provenance(storage, commit, to_the_end=storage.capabilities.cheap_listing)
        if provenance.problem is not None:
            raise CommitCorrupt(f"{commit.name} cannot be read", file=commit.name)
        return provenance, []
    actions = read_actions(read_commit(storage, commit), commit.name)
    commit_infos = [action for kind, action in actions if kind == "commitInfo"]
    is_first = bool(actions) and actions[0][0] == "commitInfo"
    return Provenance(commit_infos[-1] if commit_infos else None, is_first=is_first), actions
