"""A version as its checksum states it, read without its checkpoint and all but the last of its commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltacli.core.errors import CommitCorrupt, FileMissing, PathExternal, StorageFailed, Unreadable
from deltacli.core.made_once import cached_property
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.checksum import ChecksumState, require_checksum
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
from deltacli.delta.log.state import DomainMetadata, Metadata, SetTransaction, StateBuilder
from deltacli.delta.protocol.features import Protocol, require_readable
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.storage.base import ReadStorage, StoreOfVersions
from deltacli.table.find_log import list_log, taken_name
from deltacli.table.handle import TableHandle
from deltacli.work.commits.reading import Provenance, read_commit, read_provenance

_MOST_BYTES = 8 << 20
"""Of a checksum: larger ones list files, and take as long as a replay."""
_MOST_OF_COMMIT = 1 << 20
"""Of larger commits only the first line is read."""


@dataclass(frozen=True, eq=False)
class StatedVersion:
    """The state of a table at a version, without its file actions; `transactions` and `domains` are None where the
    checksum lacks them.
    """

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
    stamp = state.in_commit_timestamp
    time = file_times(listing.commits)[version] if stamp is None else CommitTime(stamp, TimestampSource.IN_COMMIT)
    return StatedVersion(table, version, time, state, listing.newest_version)


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
