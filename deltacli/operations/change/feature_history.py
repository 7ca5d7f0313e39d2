"""The versions of a log that still use a feature, and their removal. Spec: Metadata Cleanup; Checkpoint Protection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.protocol.feature_drops import PROTECTION, VECTORS
from deltacli.delta.protocol.property_values import (
    CHECKPOINT_PROTECTION,
    log_retention_ms,
    parse_integer,
    truncation_retention_ms,
)
from deltacli.delta.schema.names import MODE
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.operations.log.expire import ExpiryRequest, execute_expiry, plan_expiry, require_done, require_not_refused
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.operations.validate.inspect_storage import list_log_whole
from deltacli.work.commits.reading import stream_commit

_MINUTE_MS = 60_000


def _has_vector(kind: str, action: Action) -> bool:
    if kind == "metaData":
        return _configured(action, "delta.enableDeletionVectors") == "true"
    return kind in ("add", "remove", "cdc") and action.get("deletionVector") is not None


def _is_mapped(kind: str, action: Action) -> bool:
    return kind == "metaData" and (_configured(action, MODE) or "none") != "none"


def _has_policy(kind: str, action: Action) -> bool:
    return kind == "metaData" and _configured(action, "delta.checkpointPolicy") == "v2"


def _has_type_changes(kind: str, action: Action) -> bool:
    return kind == "metaData" and TYPE_CHANGES_KEY in str(action.get("schemaString"))


def _configured(action: Action, key: str) -> str | None:
    configuration = action.get("configuration")
    value = configuration.get(key) if isinstance(configuration, Mapping) else None
    return None if value is None else str(value).lower()


_TRACES: Mapping[str, Callable[[str, Action], bool]] = {
    VECTORS: _has_vector,
    "columnMapping": _is_mapped,
    "v2Checkpoint": _has_policy,
    "typeWidening": _has_type_changes,
    "typeWidening-preview": _has_type_changes,
}
"""Feature -> whether an action of a commit uses it. Others leave no trace in older versions."""


def newest_trace(snapshot: Snapshot, name: str) -> int | None:
    """Return the newest version of the log that a client without a feature could not read right; None without one.

    Reads all commits. Raises StorageFailed and CommitCorrupt.
    """
    table = snapshot.table
    listing = list_log_whole(table.storage, table.progress).listing
    oldest: int = min(listing.reconstructable, default=snapshot.version)
    if name == PROTECTION:
        protected = parse_integer(snapshot.properties, CHECKPOINT_PROTECTION) or 0
        return protected - 1 if int(oldest) < protected else None
    is_trace = _TRACES.get(name)
    if is_trace is None:
        return None
    for version in sorted(listing.commits, reverse=True):
        actions = stream_commit(table.storage, listing.commits[version])
        if any(is_trace(kind, action) for kind, action in actions):
            return version
    of_checkpoint = read_snapshot(table, version=oldest) if oldest not in listing.commits else None
    if of_checkpoint is not None and is_trace("metaData", of_checkpoint.metadata.as_json()):
        return int(oldest)
    return None


def truncate_history(table: TableHandle, trace: int) -> int | None:
    """Delete the versions of the log up to a trace, where they are old enough and a later checkpoint exists.

    Return None if they are gone, else the time in epoch milliseconds at which it can go on. Raises Refused where a
    guard of the log objects, and PartlyDone.
    """
    snapshot = read_snapshot(table)
    own, retention = log_retention_ms(snapshot.properties), truncation_retention_ms(snapshot.properties)
    request = ExpiryRequest(retention_ms=retention, allow_retention_below_ms=max(own, retention))
    plan = plan_expiry(table, request, cut_ms=_MINUTE_MS)
    if plan.boundary is not None and plan.boundary > trace:
        require_not_refused(plan)
        require_done(execute_expiry(table, plan))
        return None
    listing = list_log_whole(table.storage, table.progress).listing
    first = min((one.version for one in listing.checkpoints if one.version > trace), default=snapshot.version)
    time = read_snapshot(table, version=first).time
    begun = table.clock() if time is None else time.timestamp_ms
    return (begun // _MINUTE_MS + 1) * _MINUTE_MS + retention


def has_checkpoint_after(table: TableHandle, version: int) -> bool:
    """Return True if the log can begin after a version."""
    listing = list_log_whole(table.storage, table.progress).listing
    return any(one.version > version for one in listing.checkpoints)
