"""Comparison of a state with the one rebuilt from the oldest start of the log, before a checksum is written.

Spec: Version Checksum File; State Validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.delta.log.segment import CheckpointInstance, LogListing
from deltacli.delta.protocol.retention import TRANSACTION_RETENTION
from deltacli.delta.rules.log.configuration_differences import metadata_differences, protocol_differences
from deltacli.errors import Refused, Unreadable
from deltacli.hints import command
from deltacli.operations.table.find_log import Log, list_log
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import rebuild
from deltacli.operations.table.version import Snapshot

_COUNTS = ("numFiles", "tableSizeBytes", "numDeletionVectorsOpt", "numDeletedRecordsOpt")
_ANOTHER = "checkpoint.unreadable"


def other_state(table: TableHandle, snapshot: Snapshot) -> Snapshot | None:
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


def require_same_state(
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
