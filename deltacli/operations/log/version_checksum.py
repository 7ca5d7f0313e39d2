"""`log crc`: write the checksum file of a version, or compare an existing one. Before one is written, the state is
compared with the one rebuilt from the oldest start of the log.

Spec: Version Checksum File.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from deltacli.changing.basis import basis_of
from deltacli.changing.derived import require_derivable, require_unchanged
from deltacli.delta.log.action_fields import wrong_type
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.log.segment import CheckpointInstance, LogListing
from deltacli.delta.log.state import has_in_commit_timestamps, read_metadata, read_protocol
from deltacli.delta.protocol.property_values import TRANSACTION_RETENTION
from deltacli.delta.rules.log.configuration_differences import metadata_differences, protocol_differences
from deltacli.errors import CommitCorrupt, FileMissing, Refused, StorageFailed, Unreadable
from deltacli.hints import command
from deltacli.operations.table.checksum_guard import MAX_BYTES
from deltacli.operations.table.find_log import Log, list_log
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot, rebuild
from deltacli.operations.table.version import Snapshot
from deltacli.short_repr import short_repr
from deltacli.storage import Created, Existed, Unknown
from deltacli.work.commits.provenance import read_provenance

_COUNTS = ("numFiles", "tableSizeBytes", "numDeletionVectorsOpt", "numDeletedRecordsOpt")
_ANOTHER = "checkpoint.unreadable"


def _other_state(table: TableHandle, snapshot: Snapshot) -> Snapshot | None:
    """Return the same version, rebuilt from the oldest possible start; None where that is the start of `snapshot`, or
    cannot be read.

    `validate` compares with this state.
    """
    if snapshot.segment.checkpoint is None:
        return None
    listing = list_log(table.storage, progress=table.progress)
    oldest = _oldest_start(listing, snapshot.version)
    if oldest == snapshot.segment.checkpoint:
        return None
    unusable = {found: _ANOTHER for found in listing.checkpoints if found != oldest}
    try:
        found = rebuild(table, Log(listing), snapshot.version, unusable=unusable)
    except Unreadable:
        return None
    return found if found.segment.checkpoint == oldest else None


def _oldest_start(listing: LogListing, version: int) -> CheckpointInstance | None:
    """Return the oldest checkpoint from which all commits up to a version exist; None: version 0 exists."""
    first = next((first for first, last in listing.commit_runs if first <= version <= last), version + 1)
    if first == 0:
        return None
    return min((found for found in listing.checkpoints if first - 1 <= found.version <= version), default=None)


def _require_same_state(
    snapshot: Snapshot, computed: Mapping[str, Any], other: Snapshot, expected: Mapping[str, Any]
) -> None:
    """Raise Refused (`crc.not-proven`), naming the fields, where the checksums of two states of one version differ."""
    differing = list(_differences(snapshot, computed, other, expected))
    if not differing:
        return
    ours, theirs = _start(snapshot), _start(other)
    raise Refused(
        f"no checksum was written: version {snapshot.version} differs between {ours} and {theirs}",
        code="crc.not-proven",
        facts={name: f"{found} from {ours}, {wanted} from {theirs}" for name, found, wanted in differing[:5]},
        hint=command("validate", select=["checkpoint.*"]),
    )


def _start(snapshot: Snapshot) -> str:
    checkpoint = snapshot.segment.checkpoint
    return "the commits" if checkpoint is None else f"checkpoint {checkpoint.version}"


def _differences(
    snapshot: Snapshot, computed: Mapping[str, Any], other: Snapshot, expected: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Yield the differences that `validate` would report; it ignores spellings and transactions that may have
    expired.
    """
    for name in _COUNTS:
        if computed.get(name) != expected.get(name):
            yield name, computed.get(name), expected.get(name)
    for name in protocol_differences(snapshot.protocol, other.protocol):
        yield f"protocol.{name}", _part(computed, "protocol", name), _part(expected, "protocol", name)
    for name in metadata_differences(snapshot.metadata, other.metadata):
        yield f"metadata.{name}", _part(computed, "metadata", name), _part(expected, "metadata", name)
    ours = {found.app_id: found.version for found in snapshot.transactions}
    theirs = {found.app_id: found.version for found in other.transactions}
    may_expire = TRANSACTION_RETENTION in other.properties
    for app_id in sorted(ours.keys() & theirs.keys() if may_expire else ours.keys() | theirs.keys()):
        if ours.get(app_id) != theirs.get(app_id):
            yield f"transaction {app_id}", ours.get(app_id), theirs.get(app_id)
    domains, wanted = ({d.domain: d.configuration for d in state.domains} for state in (snapshot, other))
    for domain in sorted(domains.keys() | wanted.keys()):
        if domains.get(domain) != wanted.get(domain):
            yield f"domain {domain}", _cut(domains.get(domain)), _cut(wanted.get(domain))


def _part(checksum: Mapping[str, Any], action: str, name: str) -> str:
    return _cut(checksum[action].get(name.partition(".")[0]))


def _cut(value: object) -> str:
    return str(value)[:80]


class ChecksumStatus(StrEnum):
    """The outcome for the checksum file of a version."""

    WRITTEN = "written"
    MISSING = "missing"
    """It would be written."""
    AGREES = "agrees"
    DIFFERS = "differs"
    UNREADABLE = "unreadable"


@short_repr("version", "status", "fields", "differences")
@dataclass(frozen=True, slots=True)
class ChecksumReport:
    """One checksum file; `differences` are (field, value in the file, value in the log)."""

    version: int
    path: str
    status: ChecksumStatus
    fields: tuple[str, ...]
    """The fields that were computed."""
    differences: tuple[tuple[str, object, object], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.log-crc`, without the envelope."""
        return {
            "version": self.version,
            "path": self.path,
            "status": self.status.value,
            "fields": list(self.fields),
            "differences": [{"field": name, "file": ours, "log": theirs} for name, ours, theirs in self.differences],
        }


def checksum_path(version: int) -> str:
    """Return the path relative to the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def check_or_write_checksum(table: TableHandle, version: int | None, *, dry_run: bool = False) -> ChecksumReport:
    """Compare the checksum file of a version with its state, or write it where there is none; an existing one is never
    changed.

    Raises Refused where the version has no commit file or needs an unknown writer feature, or where
    the log contradicts itself (`crc.not-proven`, `crc.ict`); StorageFailed and NoAtomicCreate; and what
    `read_snapshot` raises.
    """
    snapshot = read_snapshot(table, version=version)
    version = snapshot.version
    path = checksum_path(version)
    computed = compute_checksum(snapshot)
    fields = tuple(sorted(computed))
    try:
        return _compared(version, path, fields, table.storage.read_range(path, 0, MAX_BYTES), computed)
    except FileMissing:
        pass
    require_derivable(snapshot)
    if version not in snapshot.listing.commits:
        raise Refused(
            f"version {version} has no commit file; a checksum is written only for an existing commit",
            code="crc.without-commit",
            hint=command("validate"),
        )
    _require_provable(table, snapshot, computed)
    if dry_run:
        return ChecksumReport(version, path, ChecksumStatus.MISSING, fields)
    data = _encode(computed)
    require_unchanged(basis_of(snapshot))
    match table.storage.put_if_absent(path, data):
        case Created():
            return ChecksumReport(version, path, ChecksumStatus.WRITTEN, fields)
        case Existed():  # another writer was faster: compare its file
            pass
        case Unknown(cause):
            if table.storage.read_range(path, 0, MAX_BYTES) != data:
                raise StorageFailed(f"{path} may not have been written", facts={"why": cause})
            return ChecksumReport(version, path, ChecksumStatus.WRITTEN, fields)
    return _compared(version, path, fields, table.storage.read_range(path, 0, MAX_BYTES), computed)


def proven_checksum(table: TableHandle, version: int) -> bytes:
    """Return the checksum file that a version should have. Raises what `check_or_write_checksum` raises."""
    snapshot = read_snapshot(table, version=version)
    require_derivable(snapshot)
    computed = compute_checksum(snapshot)
    _require_provable(table, snapshot, computed)
    return _encode(computed)


def _require_provable(table: TableHandle, snapshot: Snapshot, computed: Mapping[str, Any]) -> None:
    """Raise Refused where `validate` would report the checksum of this state."""
    is_stamped = "inCommitTimestampOpt" in computed
    if not is_stamped and has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        raise Refused(
            f"commit {snapshot.version} has no in-commit timestamp, which its checksum needs",
            code="crc.ict",
            hint=command("validate", select=["ict.*"]),
        )
    other = _other_state(table, snapshot)
    if other is not None:
        _require_same_state(snapshot, computed, other, compute_checksum(other))


def _encode(computed: dict[str, Any]) -> bytes:
    """Return the bytes of a checksum file. Raises CommitCorrupt for a value that such a file cannot represent."""
    for field, value in computed.items():
        if (odd := next(_beyond_64_bits(value), None)) is not None:
            raise wrong_type(field, str(odd), "the state")
    try:
        return orjson.dumps(computed)
    except TypeError as fault:  # a lone surrogate
        raise wrong_type("a text", str(fault), "the state") from fault


def _beyond_64_bits(value: object) -> Iterator[int]:
    """Yield the integers in a value that exceed 64 bits."""
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _beyond_64_bits(item)


def compute_checksum(snapshot: Snapshot) -> dict[str, Any]:
    """Return every field that can be computed exactly from a state."""
    files, _ = snapshot.counts()
    found: dict[str, Any] = {
        "tableSizeBytes": files.size_bytes,
        "numFiles": files.count,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [
            {"appId": txn.app_id, "version": txn.version}
            | ({} if txn.last_updated is None else {"lastUpdated": txn.last_updated})
            for txn in snapshot.transactions
        ],
        "domainMetadata": [
            {"domain": domain.domain, "configuration": domain.configuration, "removed": False}
            for domain in snapshot.domains
        ],
        "metadata": snapshot.metadata.as_json(),
        "protocol": snapshot.protocol.as_json(),
    }
    if "deletionVectors" in snapshot.protocol.supported_features:
        found |= {"numDeletedRecordsOpt": files.deleted_rows, "numDeletionVectorsOpt": files.deletion_vectors}
    commit = snapshot.listing.commits.get(snapshot.version)
    provenance = read_provenance(snapshot.table.storage, commit) if commit is not None else None
    info = (provenance.commit_info if provenance else None) or {}
    if isinstance(info.get("txnId"), str):
        found["txnId"] = info["txnId"]
    stamped = provenance.in_commit_timestamp if provenance else None
    if stamped is not None and has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        found["inCommitTimestampOpt"] = stamped
    return found


def _compared(
    version: int, path: str, fields: tuple[str, ...], data: bytes, computed: Mapping[str, Any]
) -> ChecksumReport:
    try:
        found = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return ChecksumReport(version, path, ChecksumStatus.UNREADABLE, fields)
    theirs, ours = _comparable(found), _comparable(computed)
    differences = tuple(
        (name, _for_a_document(found[name]), computed[name])
        for name in computed
        if name in theirs and (type(theirs[name]) is not type(ours[name]) or theirs[name] != ours[name])
    )
    status = ChecksumStatus.DIFFERS if differences else ChecksumStatus.AGREES
    return ChecksumReport(version, path, status, fields, differences)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _for_a_document(value: object) -> object:
    """Return a value unchanged, or a description where JSON cannot represent it."""
    try:
        orjson.dumps(value)
    except TypeError:
        try:
            json.dumps(value)
        except RecursionError:
            return "a value nested too deeply to be shown"
    return value


def _comparable(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a checksum normalized so that equivalent values are equal; a field of a wrong type is
    unchanged and therefore differs.
    """
    found: dict[str, object] = {}
    for name, value in document.items():
        if value is not None:
            found[name] = _READ[name](value) if name in _READ else value
    return found


def _action(read: Callable[[Any, str], object]) -> Callable[[object], object]:
    def parse(value: object) -> object:
        try:
            return read(value, "") if isinstance(value, dict) else value
        except CommitCorrupt:
            return value

    return parse


def _rows(key: str) -> Callable[[object], object]:
    """Return a function that sorts rows by a field and drops their null fields."""

    def parse(value: object) -> object:
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            return value
        return sorted((_plain(row, key) for row in value), key=lambda row: str(row.get(key)))

    return parse


def _plain(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if value is not None}
    return kept | {"removed": bool(kept.get("removed"))} if key == "domain" else kept


_READ: Mapping[str, Callable[[object], object]] = {
    "metadata": _action(read_metadata),
    "protocol": _action(read_protocol),
    "setTransactions": _rows("appId"),
    "domainMetadata": _rows("domain"),
}
