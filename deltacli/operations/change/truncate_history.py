"""Deleting the versions of a log that need a feature, before the feature is dropped.

Versions are deleted once they are old enough, and a later checkpoint exists. Streaming queries that still need one of
them keep it.

Spec: Metadata Cleanup; Delta-Spark: ALTER TABLE … DROP FEATURE … TRUNCATE HISTORY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltacli.changing.change import execute_change, plan_change
from deltacli.core.errors import Refusal, Refused, command, parameter, suggest_parameters
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.protocol import feature_changes
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.types import MODE
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry, plan_expiry
from deltacli.operations.streams.guard import StreamGuard, guard_streams
from deltacli.operations.streams.protection import GuardedQuery, ProtectionRequest, QueryState, StreamProtection
from deltacli.operations.validate.inspect_storage import WholeLog, list_log_whole
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
        protected = state.parse_integer_property(snapshot.properties, state.CHECKPOINT_PROTECTION) or 0
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
        Refused: If a query needs one of the versions or cannot be protected, or a guard of the log objects.
        PartlyDone: If the deletion was interrupted.
    """
    change = LogExpiry(_request_expiry(read_snapshot(table), streams), proves=False, cut_ms=_MINUTE_MS)
    plan = plan_change(change, table)
    if plan.boundary is not None and plan.boundary > trace:
        execute_change(change, table, plan=plan)
        return None

    # Read again after the plan: a query that has gone on meanwhile would be ahead of an older version.
    newest = read_snapshot(table)
    guard = guard_history(newest, streams)
    refusals = [] if guard is None else find_needed_history(newest, guard, name, trace)
    if refusals:
        raise Refused.from_refusals(refusals)

    listing = list_log_whole(table.storage, table.progress).listing
    first = min((one.version for one in listing.checkpoints if one.version > trace), default=newest.version)
    time = (newest if first == newest.version else read_snapshot(table, version=first)).time
    begun = table.clock() if time is None else time.timestamp_ms
    return (begun // _MINUTE_MS + 1) * _MINUTE_MS + state.truncation_retention_ms(newest.properties)


def _request_expiry(snapshot: Snapshot, streams: ProtectionRequest) -> ExpiryRequest:
    """Return the request to delete versions that are older than the retention of a truncated history."""
    own = state.log_retention_ms(snapshot.properties)
    retention = state.truncation_retention_ms(snapshot.properties)
    return ExpiryRequest(
        retention_ms=retention,
        allow_retention_below_ms=max(own, retention),
        protect_streams=streams.protect_streams,
        ignore_streams_older_ms=streams.ignore_streams_older_ms,
        allow_stream_loss=streams.allow_stream_loss,
    )


def guard_history(snapshot: Snapshot, streams: ProtectionRequest) -> StreamGuard | None:
    """Return what the queries to protect need of a table; None where none is to be protected.

    Raises:
        Refused: If a pattern matches no checkpoint, also where no version has to be deleted.
    """
    return guard_streams(snapshot, StreamProtection.of(streams)) if streams.protect_streams else None


def find_needed_history(snapshot: Snapshot, guard: StreamGuard, name: str, trace: int) -> list[Refusal]:
    """Return a refusal per query because of which the versions up to a trace cannot be deleted.

    A query that cannot continue is refused at once, because waiting does not help it. One that is behind is refused
    only if the versions are old enough to be deleted now: until they are, it may go on.
    """
    refusals = list(guard.refusals("features drop"))
    log = list_log_whole(snapshot.table.storage, snapshot.table.progress)
    boundary = _find_boundary(snapshot, log)
    if boundary is None or boundary <= trace:
        return refusals

    # As in `log expire`: Spark rebuilds a version from a checkpoint only if its commit is there, too.
    versions = {checkpoint.version for checkpoint in log.listing.checkpoints}
    begins = sorted(versions & log.listing.commits.keys())
    first_without = min(begin for begin in begins if begin > trace)
    for query in guard.queries:
        if query.versions is None or query.state is not QueryState.PROTECTED:
            continue
        # Without a checkpoint below what the query needs, nothing of the log can be deleted.
        begin = max((begin for begin in begins if begin <= query.versions[0]), default=None)
        if begin is None or begin <= trace:
            refusals.append(_refuse_for_query(query, query.versions[0], name, trace, first_without))
    return refusals


def find_first_kept_version(snapshot: Snapshot, trace: int) -> int:
    """Return the version at which the log begins after all versions up to a trace were deleted, or a lower limit of it.

    It is a limit while the versions are too young, because the log is cut at the newest checkpoint that is old enough.
    """
    log = list_log_whole(snapshot.table.storage, snapshot.table.progress)
    return max(_find_boundary(snapshot, log) or 0, trace + 1)


def _find_boundary(snapshot: Snapshot, log: WholeLog) -> int | None:
    """Return the version at which the log would begin if no query was protected; None if nothing is old enough."""
    request = _request_expiry(snapshot, ProtectionRequest())
    return plan_expiry(snapshot.table, request, cut_ms=_MINUTE_MS, snapshot=snapshot, whole=log).boundary


def _refuse_for_query(query: GuardedQuery, needed: int, name: str, trace: int, first_without: int) -> Refusal:
    """Return the refusal for a query that needs the log from a version on, while it must begin at `first_without`."""
    override = parameter("features drop.allow_stream_loss", query.query or query.checkpoint)
    return Refusal(
        "features.needed-by-stream",
        f"versions up to {trace} need the feature {name} and have to be deleted, but query {query.name} needs the log "
        f"from version {needed} on",
        override=override,
        hint=suggest_parameters(override, also=" if the query is abandoned"),
        facts={
            "wait until": f"the query needs no version below {first_without}",
            "if the query is abandoned": override,
        },
    )


def command_of_drop(name: str, *, truncates: bool, streams: ProtectionRequest) -> str:
    """Return the command that continues a drop, with the same options."""
    if not truncates:
        return command("features drop", name)
    return command("features drop", name, truncate_history=True, **streams.options)
