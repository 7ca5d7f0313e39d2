"""What still uses a feature that is dropped, and its removal: files of the newest version, row ids, older versions of
the log. No data file is written.

Spec: Metadata Cleanup; Checkpoint Protection; Deletion Vectors; Type Widening; Row Tracking; Delta-Spark: ROW TRACKING
UNBACKFILL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.changing.change import carry_out, plan_change
from deltacli.core.typing import RecordBatch
from deltacli.delta.log.action_fields import FIELDS
from deltacli.delta.log.body_lines import encoded_files
from deltacli.delta.log.commit_content import Slot
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.row_ids import DOMAIN, ENABLED, MATERIALIZED_NAMES, SUSPENDED
from deltacli.delta.protocol.feature_drops import PROTECTION, VECTORS
from deltacli.delta.protocol.property_values import (
    CHECKPOINT_PROTECTION,
    deleted_file_retention_ms,
    log_retention_ms,
    parse_integer,
    truncation_retention_ms,
)
from deltacli.delta.schema.names import MODE
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.operations.log.expire import ExpiryRequest
from deltacli.operations.log.expire_execute import LogExpiry
from deltacli.operations.validate.inspect_storage import list_log_whole
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import stream_commit
from deltacli.work.vector_facts import file_of_vector

if TYPE_CHECKING:
    import pyarrow

_MINUTE_MS = 60_000
_FILES_PER_PIECE = 32
_OF_TOMBSTONES = ("path", "deletionVector", "deletionTimestamp")
OPERATION = "ROW TRACKING UNBACKFILL"
PROPERTIES = (ENABLED, SUSPENDED, *MATERIALIZED_NAMES)
_IDS = ("baseRowId", "defaultRowCommitVersion")


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
    change = LogExpiry(request, proves=False, cut_ms=_MINUTE_MS)
    plan = plan_change(change, table)
    if plan.boundary is not None and plan.boundary > trace:
        carry_out(change, table, plan=plan)
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


def files_with_vectors(snapshot: Snapshot) -> int:
    """Return how many live files have deleted rows in vectors."""

    def counted(adds: pyarrow.RecordBatch) -> int:
        vectors = adds.column("deletionVector")
        return int(len(vectors) - vectors.null_count)

    return sum(snapshot.file_actions.map_actions("add", counted, fields=["deletionVector"]))


def file_with_older_type(snapshot: Snapshot) -> str | None:
    """Return a live file that does not have the types of the table. Reads the footers of all."""
    from deltacli.work.rewrite.outdated_columns import CONFIG, find_older_types
    from deltacli.work.rows.data_files import DataFile

    def files(adds: pyarrow.RecordBatch) -> list[DataFile]:
        pairs = zip(adds.column("path").to_pylist(), adds.column("size").to_pylist(), strict=True)
        return [DataFile(path, size) for path, size in pairs]

    table = snapshot.table
    every = [file for part in snapshot.file_actions.map_actions("add", files, fields=["path", "size"]) for file in part]
    pieces = [every[begin : begin + _FILES_PER_PIECE] for begin in range(0, len(every), _FILES_PER_PIECE)]
    answers = table.engine.spread(find_older_types, pieces, table.stores, shared={CONFIG: snapshot.config}, weigh=len)
    found = [is_older for part in answers for is_older in part]
    return next((file.path for file, is_older in zip(every, found, strict=True) if is_older), None)


def vector_files(snapshot: Snapshot) -> list[str]:
    """Return the files of vectors within the table that unexpired tombstones name and no tombstone of their own covers:
    older versions need them as long as the files of rows.
    """
    files = snapshot.table.files()
    cutoff_ms = snapshot.table.clock() - deleted_file_retention_ms(snapshot.properties)

    def of_batch(removes: pyarrow.RecordBatch, known: set[str]) -> list[str]:
        found = []
        columns = (removes.column(name).to_pylist() for name in _OF_TOMBSTONES)
        for path, vector, removed_ms in zip(*columns, strict=True):
            known.add(path)
            if (removed_ms or 0) <= cutoff_ms:
                continue
            if vector is not None and vector.get("storageType") == "u":
                place = file_of_vector(files, {key: value for key, value in vector.items() if value is not None})
                found += [] if place is None else [place]
        return found

    known: set[str] = set()
    read = partial(of_batch, known=known)
    named = [
        path for found in snapshot.file_actions.map_actions("remove", read, fields=_OF_TOMBSTONES) for path in found
    ]
    return [path for path in dict.fromkeys(named) if path not in known]


def suspended(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table whose writers give no ids to new rows any more."""
    return {**configuration, ENABLED: "false", SUSPENDED: "true"}


def files_with_ids(snapshot: Snapshot) -> list[str]:
    """Return the paths of live files whose rows have ids."""

    def found(adds: RecordBatch) -> list[str]:
        paths: list[str] = pc.filter(adds.column("path"), _has_ids(adds)).to_pylist()
        return paths

    batches = snapshot.file_actions.map_actions("add", found, fields=["path", *_IDS])
    return [path for paths in batches for path in paths]


def _has_ids(adds: RecordBatch) -> object:
    return pc.or_(*(pc.is_valid(adds.column(name)) for name in _IDS))


def adds_without_ids(snapshot: Snapshot) -> Callable[[Slot], Iterable[bytes]]:
    """Return the body of a commit that adds these files again without ids."""

    def plain(adds: RecordBatch) -> RecordBatch:
        import pyarrow as pa

        rows = pc.filter(adds, _has_ids(adds))
        columns = {name: rows.column(name) for name in FIELDS["add"] if name not in _IDS}
        columns["dataChange"] = pa.repeat(False, rows.num_rows)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def batches() -> Iterator[tuple[str, RecordBatch]]:
        for rows in snapshot.file_actions.map_actions("add", plain):
            if rows.num_rows:
                yield "add", rows

    return lambda slot: encoded_files(batches, slot)


def domain_removed(snapshot: Snapshot) -> tuple[Action, ...]:
    """Return the action that removes the high-water mark of ids, if there is one."""
    known = [one for one in snapshot.domains if one.domain == DOMAIN]
    return tuple({"domain": DOMAIN, "configuration": one.configuration, "removed": True} for one in known)
