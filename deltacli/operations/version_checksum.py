"""`log crc`: the checksum file of a version, written where it is missing, compared where it is there.

Spec: Version Checksum File.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from deltacli.delta.log_path import LOG_DIRECTORY
from deltacli.delta.protocol import require_writable
from deltacli.delta.state import has_in_commit_timestamps, read_metadata, read_protocol
from deltacli.errors import CommitCorrupt, FileMissing, Refused, StorageFailed
from deltacli.operations.table import Table
from deltacli.operations.version import Snapshot
from deltacli.storage import Created, Existed, Unknown
from deltacli.work.provenance import read_provenance

_MAX_BYTES = 256 << 20


class ChecksumStatus(StrEnum):
    """What became of the checksum file of a version."""

    WRITTEN = "written"
    MISSING = "missing"
    """It would be written."""
    AGREES = "agrees"
    DIFFERS = "differs"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class ChecksumReport:
    """One checksum file; `differences` are (field, in the file, in the log)."""

    version: int
    path: str
    status: ChecksumStatus
    fields: tuple[str, ...]
    """The fields that were computed."""
    differences: tuple[tuple[str, object, object], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The document `deltacli.log-crc`, without the envelope."""
        return {
            "version": self.version,
            "path": self.path,
            "status": self.status.value,
            "fields": list(self.fields),
            "differences": [{"field": name, "file": ours, "log": theirs} for name, ours, theirs in self.differences],
        }


def checksum_path(version: int) -> str:
    """Below the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def check_or_write_checksum(table: Table, version: int | None, *, dry_run: bool = False) -> ChecksumReport:
    """Compare the checksum file of a version with its state, or write it where there is none; an existing one is never
    touched.

    Raises Refused where the version has no commit file, or asks a writer for what deltacli does not know; StorageFailed
    and NoAtomicCreate; and what `Table.snapshot` raises.
    """
    snapshot = table.snapshot(version=version)
    version = snapshot.version
    path = checksum_path(version)
    computed = compute_checksum(snapshot)
    fields = tuple(sorted(computed))
    try:
        return _compared(version, path, fields, table.storage.read_range(path, 0, _MAX_BYTES), computed)
    except FileMissing:
        pass
    require_writable(snapshot.protocol, version)
    if version not in snapshot.listing.commits:
        raise Refused(
            f"version {version} has no commit file: a checksum is written after its commit, never without",
            code="crc.without-commit",
            hint="deltacli validate {table}",
        )
    if dry_run:
        return ChecksumReport(version, path, ChecksumStatus.MISSING, fields)
    match table.storage.put_if_absent(path, orjson.dumps(computed)):
        case Created():
            return ChecksumReport(version, path, ChecksumStatus.WRITTEN, fields)
        case Existed():  # another writer was faster: what counts is what it says
            pass
        case Unknown(cause):
            if table.storage.read_range(path, 0, _MAX_BYTES) != orjson.dumps(computed):
                raise StorageFailed(f"{path} may not have been written", facts={"why": cause})
            return ChecksumReport(version, path, ChecksumStatus.WRITTEN, fields)
    return _compared(version, path, fields, table.storage.read_range(path, 0, _MAX_BYTES), computed)


def compute_checksum(snapshot: Snapshot) -> dict[str, Any]:
    """Every field that can be computed exactly from a state."""
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
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("no object")
        theirs, ours = _comparable(found), _comparable(computed)
    except (ValueError, RecursionError, CommitCorrupt):
        return ChecksumReport(version, path, ChecksumStatus.UNREADABLE, fields)
    differences = tuple(
        (name, found.get(name), computed.get(name))
        for name in computed
        if name in theirs and theirs[name] != ours[name]
    )
    status = ChecksumStatus.DIFFERS if differences else ChecksumStatus.AGREES
    return ChecksumReport(version, path, status, fields, differences)


def _comparable(document: Mapping[str, Any]) -> dict[str, object]:
    """The fields of a checksum as values that are equal where they mean the same."""
    found: dict[str, object] = {name: value for name, value in document.items() if value is not None}
    if "metadata" in found:
        found["metadata"] = read_metadata(document["metadata"], "")
    if "protocol" in found:
        found["protocol"] = read_protocol(document["protocol"], "")
    for name, key in (("setTransactions", "appId"), ("domainMetadata", "domain")):
        if isinstance(found.get(name), list):
            found[name] = sorted((_plain(item, name) for item in document[name]), key=lambda item: str(item.get(key)))
    return found


def _plain(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if value is not None}
    return kept | {"removed": bool(kept.get("removed"))} if name == "domainMetadata" else kept
