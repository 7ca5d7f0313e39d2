"""Deleting the versions of a log that need a feature, before the feature is dropped.

Versions are deleted once they are old enough, and a later checkpoint exists. Streaming queries that still need one of
them keep it.

Spec: Metadata Cleanup; Delta-Spark: ALTER TABLE … DROP FEATURE … TRUNCATE HISTORY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltacli.changing.change import carry_out, plan_change
from deltacli.core.errors import Refusal, Refused, command, parameter
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.protocol import feature_changes
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.types import MODE
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry
from deltacli.operations.streams.guard import guard_streams
from deltacli.operations.streams.protection import GuardedQuery, ProtectionRequest, QueryState, StreamProtection
from deltacli.operations.validate.inspect_storage import list_log_whole
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import stream_commit

_MINUTE_MS = 60_000
"""Versions are cut off at a minute, not at a day as by a cleanup."""


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
    feature_changes.VECTORS: _has_vector,
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
    if name == feature_changes.PROTECTION:
        protected = state.parse_integer(snapshot.properties, state.CHECKPOINT_PROTECTION) or 0
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


def truncate_history(table: TableHandle, name: str, trace: int, streams: ProtectionRequest) -> int | None:
    """Delete the versions of the log up to a trace, where they are old enough and a later checkpoint exists.

    Args:
        table: The table.
        name: The feature that is dropped.
        trace: The newest version that needs the feature.
        streams: The queries whose versions are kept.

    Returns:
        None if the versions are gone, else the time in epoch milliseconds at which it can go on.

    Raises:
        Refused: If a query needs one of the versions, or a guard of the log objects.
        PartlyDone: If the deletion was interrupted.
    """
    change = _expiry_of_history(read_snapshot(table), streams)
    plan = plan_change(change, table)
    if plan.boundary is not None and plan.boundary > trace:
        carry_out(change, table, plan=plan)
        return None
    refusals = find_needed_history(read_snapshot(table), name, trace, streams)
    if refusals:
        raise Refused.by(refusals)
    listing = list_log_whole(table.storage, table.progress).listing
    first = min((one.version for one in listing.checkpoints if one.version > trace), default=plan.newest_version)
    time = read_snapshot(table, version=first).time
    begun = table.clock() if time is None else time.timestamp_ms
    retention_ms = state.truncation_retention_ms(read_snapshot(table).properties)
    return (begun // _MINUTE_MS + 1) * _MINUTE_MS + retention_ms


def _expiry_of_history(snapshot: Snapshot, streams: ProtectionRequest) -> LogExpiry:
    """Return the deletion of versions that are older than the retention of a truncated history."""
    own = state.log_retention_ms(snapshot.properties)
    retention = state.truncation_retention_ms(snapshot.properties)
    request = ExpiryRequest(
        retention_ms=retention,
        allow_retention_below_ms=max(own, retention),
        protect_streams=streams.protect_streams,
        ignore_streams_older_ms=streams.ignore_streams_older_ms,
        allow_stream_loss=streams.allow_stream_loss,
    )
    return LogExpiry(request, proves=False, cut_ms=_MINUTE_MS)


def find_needed_history(snapshot: Snapshot, name: str, trace: int, streams: ProtectionRequest) -> list[Refusal]:
    """Return a refusal per query because of which versions up to a trace cannot be deleted now, although they are old.

    A query that is behind while the versions are still too young does not matter: it may have gone on until then.
    """
    if not streams.protect_streams:
        return []
    # A pattern that matches no checkpoint is an error at once, not a day later.
    guard = guard_streams(snapshot, StreamProtection.of(streams))
    regardless = _expiry_of_history(snapshot, ProtectionRequest()).plan(snapshot.table, snapshot)
    if regardless.boundary is None or regardless.boundary <= trace:
        return []
    refusals = list(guard.refusals("features drop"))
    for query in guard.queries:
        # The log begins at a checkpoint, which may be below the versions that the query needs.
        if query.versions is not None and query.state is QueryState.PROTECTED and _cuts_below(snapshot, query, trace):
            refusals.append(_refusal_for_query(query, name, trace, streams))
    return refusals


def _cuts_below(snapshot: Snapshot, query: GuardedQuery, trace: int) -> bool:
    """Return whether a log that has all that a query needs also has a version up to a trace."""
    assert query.versions is not None
    listing = list_log_whole(snapshot.table.storage, snapshot.table.progress).listing
    first = query.versions[0]
    begins = (
        checkpoint.version
        for checkpoint in listing.checkpoints
        if checkpoint.version <= first and checkpoint.version in listing.commits
    )
    return max(begins, default=0) <= trace


def _refusal_for_query(query: GuardedQuery, name: str, trace: int, streams: ProtectionRequest) -> Refusal:
    assert query.versions is not None
    override = parameter("features drop.allow_stream_loss", query.query or query.checkpoint)
    return Refusal(
        "features.needed-by-stream",
        f"versions up to {trace} need the feature {name} and have to be deleted, but query {query.name} needs the log "
        f"from version {query.versions[0]} on",
        override=override,
        hint=command_of_drop(name, truncates=True, streams=streams),
        facts={"if the query is abandoned": override},
    )


def command_of_drop(name: str, *, truncates: bool, streams: ProtectionRequest) -> str:
    """Return the command that continues a drop, with the same options."""
    if not truncates:
        return command("features drop", name)
    return command("features drop", name, truncate_history=True, **streams.options)
