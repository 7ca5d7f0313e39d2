"""A version as its checksum states it, read without its checkpoint and all but the last of its commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltacli.core.errors import CommitCorrupt, FileMissing, PathExternal, StorageFailed, Unreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import JsonObject
from deltacli.delta.log.actions import Action, missing, read_actions, shown, wrong_type
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
from deltacli.delta.log.state import (
    HISTOGRAM_LISTS,
    REQUIRED_OF_CHECKSUM,
    TRANSACTION_RETENTION,
    DomainMetadata,
    Metadata,
    SetTransaction,
    StateBuilder,
    fault_of_histogram,
    has_in_commit_timestamps,
    histogram_of,
    numbers_of,
    read_checksum,
    rows_of,
)
from deltacli.delta.protocol.features import Protocol, require_readable
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.storage.base import ReadStorage
from deltacli.storage.optional_interfaces import StoreOfVersions
from deltacli.table.find_log import find_lost_versions, list_log, taken_name
from deltacli.table.handle import TableHandle
from deltacli.work.commits.reading import Provenance, read_commit, read_provenance

_SHOWN = 40


class ChecksumState(NamedTuple):
    """The state of a version as its checksum gives it; None where it has no such field."""

    protocol: Protocol
    metadata: Metadata
    files: int
    size_bytes: int
    vectors: int | None
    deleted_rows: int | None
    histogram: Mapping[str, list[int]] | None
    """Three lists of numbers, one for each bin, by their names in the protocol."""
    transactions: tuple[SetTransaction, ...] | None
    """None also where transactions expire: the log has those that had expired when the checksum was written."""
    domains: tuple[DomainMetadata, ...] | None
    txn_id: str | None
    in_commit_timestamp: int | None


def require_checksum(data: bytes, name: str) -> ChecksumState:
    """Return the state that a checksum gives. Raises CommitCorrupt unless each field that is read has a value that a
    state can have, and they agree with each other.
    """
    value = read_checksum(data)
    if value is None:
        raise CommitCorrupt(f"{name} is not a single JSON object", file=name)
    for field, kind in REQUIRED_OF_CHECKSUM.items():
        if value.get(field) is None:
            raise missing(field, name)
        if type(value[field]) is not kind:
            raise wrong_type(field, shown(value[field]), name)
    for field, kind in (("txnId", str), ("inCommitTimestampOpt", int)):
        if value.get(field) is not None and type(value[field]) is not kind:
            raise wrong_type(field, shown(value[field]), name)
    for field, reason in _faults_of_numbers(value):
        raise CommitCorrupt(f"{name}: {field} {reason}", file=name)
    _, histogram = histogram_of(value)
    state = StateBuilder()
    state.take(_actions_of(value, name), name)
    assert state.protocol is not None
    assert state.metadata is not None
    may_expire = TRANSACTION_RETENTION in state.metadata.configuration
    found = ChecksumState(
        protocol=state.protocol,
        metadata=state.metadata,
        files=value["numFiles"],
        size_bytes=value["tableSizeBytes"],
        vectors=value.get("numDeletionVectorsOpt"),
        deleted_rows=value.get("numDeletedRecordsOpt"),
        histogram=None if histogram is None else {part: numbers_of(histogram, part) or [] for part in HISTOGRAM_LISTS},
        transactions=None if may_expire or value.get("setTransactions") is None else state.live_transactions,
        domains=None if value.get("domainMetadata") is None else state.live_domains,
        txn_id=value.get("txnId"),
        in_commit_timestamp=value.get("inCommitTimestampOpt"),
    )
    if (found.in_commit_timestamp is not None) is not has_in_commit_timestamps(found.protocol, found.metadata):
        has = "no" if found.in_commit_timestamp is None else "an"
        raise CommitCorrupt(f"{name} has {has} in-commit timestamp, unlike its table", file=name)
    return found


def _actions_of(value: JsonObject, name: str) -> Iterator[tuple[str, Action]]:
    yield "protocol", value["protocol"]
    yield "metaData", value["metadata"]
    for field, kind in (("setTransactions", "txn"), ("domainMetadata", "domainMetadata")):
        rows = rows_of([] if value.get(field) is None else value[field])
        if rows is None:
            raise wrong_type(field, shown(value[field]), name)
        yield from ((kind, row) for row in rows)


def _faults_of_numbers(value: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the fields with numbers that no state has, each with what is wrong."""
    files, size_bytes = value["numFiles"], value["tableSizeBytes"]
    for field, least, most in (
        ("numMetadata", 1, 1),
        ("numProtocol", 1, 1),
        ("numFiles", 0, 2**63 - 1),
        ("tableSizeBytes", 0, 2**63 - 1 if files else 0),
        ("numDeletionVectorsOpt", 0, files),
        ("numDeletedRecordsOpt", 0, 2**63 - 1),
    ):
        number = value.get(field)
        if number is not None and (type(number) is not int or not least <= number <= most):
            yield field, f"is {shown(number)[:_SHOWN]}"
    listed = value.get("allFiles")
    if listed is not None and (not isinstance(listed, list) or len(listed) != files):
        yield "allFiles", "has another number of files than numFiles"
    name, histogram = histogram_of(value)
    if histogram is not None:
        boundaries, counts, sizes = (numbers_of(histogram, part) for part in HISTOGRAM_LISTS)
        if fault := fault_of_histogram(boundaries, counts, sizes):
            yield name, fault
        elif (sum(counts or ()), sum(sizes or ())) != (files, size_bytes) or min([*(counts or ()), *(sizes or ())]) < 0:
            yield name, "does not add up to numFiles and tableSizeBytes"


# -- the version -------------------------------------------------------------------------------------------------------

_MOST_BYTES = 8 << 20
"""Of a checksum: larger ones list files, and take as long as a replay."""
_MOST_OF_COMMIT = 1 << 20
"""Of larger commits only the first line is read."""


@dataclass(frozen=True, eq=False)
class StatedVersion:
    """The state of a version without file actions. `transactions`, `domains`: None where the checksum lacks them."""

    table: TableHandle
    version: int
    time: CommitTime
    checksum: ChecksumState
    newest_version: int
    problems: tuple[str, ...] = ()
    """None: a log with problems is replayed."""

    @property
    def set_aside(self) -> Mapping[str, str]:
        """Return an empty mapping: no checkpoint was opened."""
        return {}

    @property
    def protocol(self) -> Protocol:
        return self.checksum.protocol

    @property
    def metadata(self) -> Metadata:
        return self.checksum.metadata

    @property
    def transactions(self) -> Sequence[SetTransaction] | None:
        return self.checksum.transactions

    @property
    def domains(self) -> Sequence[DomainMetadata] | None:
        return self.checksum.domains

    @cached_property
    def schema(self) -> StructType:
        return parse_schema(self.metadata.schema_string or "")

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.snapshot` without the envelope, and without what the checksum lacks."""
        checksum = self.checksum
        files: dict[str, Any] = {"count": checksum.files, "sizeBytes": checksum.size_bytes}
        if checksum.vectors is not None and checksum.deleted_rows is not None:
            files["deletionVectors"] = {"count": checksum.vectors, "deletedRows": checksum.deleted_rows}
        if checksum.histogram is not None:
            files["sizeHistogram"] = dict(checksum.histogram)
        lists = (("transactions", self.transactions), ("domains", self.domains))
        return {
            "version": self.version,
            **time_as_json(self.time),
            "protocol": self.protocol.as_json(),
            "metadata": self.metadata.as_json(),
            "files": files,
            **{name: [one.as_json() for one in listed] for name, listed in lists if listed is not None},
        }


class Unstated(NamedTuple):
    """Why a version has to be replayed."""

    reason: str


def read_stated_version(
    table: TableHandle, *, version: int | None = None, timestamp_ms: int | None = None
) -> StatedVersion | Unstated:
    """Return a version, the one at a time, or the newest one, as its checksum states it; where that is missing, is
    invalid, contradicts the last commit, or would hide a problem of the log, why. Takes a listing, the checksum and the
    commit of the version, on a disk also the first commit.

    Raises NotATable, VersionAbsent and LogIncomplete as a replay does. A checksum is of one version: the numbers of a
    later one cannot be told from its commits alone, since a file that they add or remove may have been live or not.
    """
    storage = table.storage
    if isinstance(storage, StoreOfVersions):
        return Unstated("a share has no version checksums")
    if timestamp_ms is not None:
        from deltacli.table.rebuild import version_at

        version = version_at(table, timestamp_ms)
    listing = list_log(storage, progress=table.progress)
    if version is None and taken_name(storage, listing) is not None:
        raise not_a_file(listing)
    segment = choose_segment(listing, version)
    if segment.problems:
        return Unstated(f"the log has problems: {', '.join(segment.problems)}")
    if segment.version == listing.newest_version and (lost := find_lost_versions(storage, listing, -1)) is not None:
        return Unstated(lost[2])
    if segment.version not in listing.checksums:
        return Unstated(f"version {segment.version} has no checksum file")
    try:
        found = _read(table, listing, segment.version)
    except (Unreadable, FileMissing, PathExternal, StorageFailed) as fault:
        return Unstated(fault.message)
    table.note_version(listing.newest_version)
    return found


def _read(table: TableHandle, listing: LogListing, version: int) -> StatedVersion:
    """Read a version. Raises Unreadable, and what the store raises."""
    path = checksum_path(version)
    name = path.rpartition("/")[2]
    data = table.storage.read_range(path, 0, _MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise CommitCorrupt(f"{name} is larger than {_MOST_BYTES >> 20} MiB", file=name)
    state = require_checksum(data, name)
    require_readable(state.protocol, version)
    if state.protocol.is_catalog_managed or state.metadata.schema_string is None:
        raise CommitCorrupt(f"{name} is of a table that only a replay reads", file=name)
    parse_schema(state.metadata.schema_string)
    looked_at = {version, 0} & listing.commits.keys() if table.storage.capabilities.cheap_listing else {version}
    for commit in map(listing.commits.__getitem__, looked_at):
        if differing := next(_differences(table.storage, commit, state, version), None):
            raise CommitCorrupt(f"{name} has another {differing} than commit {commit.version}", file=name)
    return StatedVersion(table, version, _commit_time(table, listing, version, state), state, listing.newest_version)


def _commit_time(table: TableHandle, listing: LogListing, version: int, state: ChecksumState) -> CommitTime:
    """Return the time that selects a version: its in-commit timestamp if it counts by the newest version."""
    stamp = state.in_commit_timestamp
    if stamp is not None:
        if version == listing.newest_version:
            counts = has_in_commit_timestamps(state.protocol, state.metadata)
        else:
            from deltacli.table.rebuild import first_stamped_version

            first_stamped = first_stamped_version(table, listing)
            counts = first_stamped is not None and version >= first_stamped
        if counts:
            return CommitTime(stamp, TimestampSource.IN_COMMIT)
    return file_times(listing.commits)[version]


def _differences(storage: ReadStorage, commit: LogFile, state: ChecksumState, version: int) -> Iterator[str]:
    """Yield what a checksum has otherwise than a commit: than that of its version all of it, than the first one the id,
    by which the checksum of another table is told. Raises Unreadable where the commit cannot be read.
    """
    provenance, actions = _read_commit(storage, commit)
    small = StateBuilder()
    small.take(actions, commit.name)
    if small.metadata is not None and small.metadata.id != state.metadata.id:
        yield "table id"
    if commit.version != version:
        return
    if state.txn_id not in (None, (provenance.commit_info or {}).get("txnId")):
        yield "txnId"
    if state.in_commit_timestamp not in (None, provenance.in_commit_timestamp):
        yield "in-commit timestamp"
    if small.protocol not in (None, state.protocol):
        yield "protocol"
    if small.metadata not in (None, state.metadata):
        yield "metadata"
    if state.transactions is not None:
        known = {one.app_id: one.version for one in state.transactions}
        if any(known.get(one.app_id) != one.version for one in small.live_transactions):
            yield "transaction"
    if state.domains is not None:
        domains = {one.domain: one for one in state.domains}
        if any(domains.get(name) != one for name, one in small.domains.items()):
            yield "domain"
    sizes = {str(add.get("path")): add.get("size") for kind, add in actions if kind == "add"}
    added = len(sizes), sum(size for size in sizes.values() if type(size) is int)
    stated = state.files, state.size_bytes
    is_whole = version == 0 and commit.size_bytes <= _MOST_OF_COMMIT
    if any(least > number for least, number in zip(added, stated, strict=True)) or (is_whole and added != stated):
        yield "number of files or bytes"


def _read_commit(storage: ReadStorage, commit: LogFile) -> tuple[Provenance, Sequence[tuple[str, Action]]]:
    """Return the provenance of a commit, and its actions if it is small. Raises Unreadable."""
    if commit.size_bytes > _MOST_OF_COMMIT:
        provenance = read_provenance(storage, commit, to_the_end=storage.capabilities.cheap_listing)
        if provenance.problem is not None:
            raise CommitCorrupt(f"{commit.name} cannot be read", file=commit.name)
        return provenance, []
    actions = read_actions(read_commit(storage, commit), commit.name)
    info = next((action for kind, action in reversed(actions) if kind == "commitInfo"), None)
    return Provenance(info, is_first=bool(actions) and actions[0][0] == "commitInfo"), actions
