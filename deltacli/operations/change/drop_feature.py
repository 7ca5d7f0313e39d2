"""Dropping a feature of a table: what uses it goes first, then the protocol that lists it.

No data file is written.

A feature that older versions need is dropped behind new checkpoints: clients without it read the newest version from
the last one, and older versions are protected.

Spec: Metadata Cleanup; Checkpoint Protection; Deletion Vectors; Type Widening; Row Tracking; Delta-Spark: ROW TRACKING
UNBACKFILL; Delta-Spark: ALTER TABLE … DROP FEATURE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import BaseVersion, build_base_version
from deltacli.changing.change import execute_change
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.execution import ChangeExecution, UnfinishedGoal
from deltacli.changing.outcome import CompleteOutcome
from deltacli.changing.plan import PlanWithoutRefusals, TableHandleMixin
from deltacli.changing.request_checks import require_committable_change
from deltacli.core.errors import Refused, UsageError, command, parameter
from deltacli.core.ranges import format_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_duration, format_timestamp
from deltacli.core.typing import Json, RecordBatch
from deltacli.core.units import format_size, plural
from deltacli.delta.evolution.draft import fields_within, uses_mapping
from deltacli.delta.log import state
from deltacli.delta.log.actions import FIELDS, NO_METADATA, Action, require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, FilesAt, NextVersion, encode_line, encoded_files
from deltacli.delta.log.row_ids import DOMAIN, ENABLED, MATERIALIZED_NAMES, SUSPENDED
from deltacli.delta.protocol import feature_changes
from deltacli.delta.protocol.clients import ClientAccess
from deltacli.delta.protocol.property_changes import plan_unset
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.widened_schema import read_exactly, write_exactly
from deltacli.operations.change.remove_mapping import files_to_rename, metadata_without_mapping, remove_mapping
from deltacli.operations.change.truncate_history import (
    command_of_drop,
    find_first_kept_version,
    find_needed_history,
    guard_history,
    newest_trace,
    truncate_history,
)
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.streams.protection import ProtectionRequest
from deltacli.operations.validate.inspect_storage import list_log_whole
from deltacli.table.ambiguous_files import require_engine_agreement
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.known_clients import find_regaining_clients
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.table.version_traits import find_version_traits
from deltacli.work.facts.vector_facts import find_vector_file
from deltacli.work.rewrite.outdated_columns import CONFIG, find_older_types
from deltacli.work.rows.data_files import DataFile

if TYPE_CHECKING:
    from deltacli.operations.optimize.execute import OptimizeOutcome
    from deltacli.operations.optimize.plan import Find, OptimizePlan

# -- what still uses the feature ---------------------------------------------------------------------------------------

_FILES_PER_PIECE = 32
_OF_TOMBSTONES = ("path", "deletionVector", "deletionTimestamp")
OPERATION = "ROW TRACKING UNBACKFILL"
PROPERTIES = (ENABLED, SUSPENDED, *MATERIALIZED_NAMES)
_IDS = ("baseRowId", "defaultRowCommitVersion")


def files_with_vectors(snapshot: Snapshot) -> int:
    """Return how many live files have deleted rows in vectors."""

    def counted(adds: pa.RecordBatch) -> int:
        vectors = adds.column("deletionVector")
        return int(len(vectors) - vectors.null_count)

    return sum(snapshot.file_actions.map_actions("add", counted, fields=["deletionVector"]))


def file_with_older_type(snapshot: Snapshot) -> str | None:
    """Return a live file that does not have the types of the table. Reads the footers of all."""

    def files(adds: pa.RecordBatch) -> list[DataFile]:
        pairs = zip(adds.column("path").to_pylist(), adds.column("size").to_pylist(), strict=True)
        return [DataFile(path, size) for path, size in pairs]

    table = snapshot.table
    every = [file for part in snapshot.file_actions.map_actions("add", files, fields=["path", "size"]) for file in part]
    pieces = [every[begin : begin + _FILES_PER_PIECE] for begin in range(0, len(every), _FILES_PER_PIECE)]
    answers = table.engine.run_tasks(
        find_older_types, pieces, table.stores, shared={CONFIG: snapshot.config}, weigh=len
    )
    found = [is_older for part in answers for is_older in part]
    return next((file.path for file, is_older in zip(every, found, strict=True) if is_older), None)


def vector_files(snapshot: Snapshot) -> list[str]:
    """Return the files of vectors within the table that unexpired tombstones name and no tombstone of their own covers:
    older versions need them as long as the files of rows.
    """
    files = snapshot.table.files()
    cutoff_ms = snapshot.table.clock() - state.deleted_file_retention_ms(snapshot.properties)

    def of_batch(removes: pa.RecordBatch, known: set[str]) -> list[str]:
        found = []
        columns = (removes.column(name).to_pylist() for name in _OF_TOMBSTONES)
        for path, vector, removed_ms in zip(*columns, strict=True):
            known.add(path)
            if (removed_ms or 0) <= cutoff_ms:
                continue
            if vector is not None and vector.get("storageType") == "u":
                place = find_vector_file(files, {key: value for key, value in vector.items() if value is not None})
                found += [] if place is None else [place]
        return found

    known: set[str] = set()
    read = partial(of_batch, known=known)
    named = [
        path for found in snapshot.file_actions.map_actions("remove", read, fields=_OF_TOMBSTONES) for path in found
    ]
    return [path for path in dict.fromkeys(named) if path not in known]


def files_with_ids(snapshot: Snapshot) -> list[str]:
    """Return the paths of live files whose rows have ids."""

    def found(adds: RecordBatch) -> list[str]:
        paths: list[str] = pc.filter(adds.column("path"), _has_ids(adds)).to_pylist()
        return paths

    batches = snapshot.file_actions.map_actions("add", found, fields=["path", *_IDS])
    return [path for paths in batches for path in paths]


def _has_ids(adds: RecordBatch) -> object:
    return pc.or_(*(pc.is_valid(adds.column(name)) for name in _IDS))


def adds_without_ids(snapshot: Snapshot) -> Callable[[NextVersion], Iterable[bytes]]:
    """Return the body of a commit that adds these files again without ids."""

    def plain(adds: RecordBatch) -> RecordBatch:
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


# -- dropping a feature of a table -------------------------------------------------------------------------------------

_DROP = "DROP FEATURE"
_BARRIERS = 3
"""Checkpoints before a drop: a reader that lists the log while the feature goes finds one behind which it is gone."""


@short_repr("name", "version", "commits=versions", "steps", "is_made")
@dataclass(repr=False)
class FeatureDrop(CompleteOutcome, TableHandleMixin, PlanWithoutRefusals):
    """A drop of a feature, planned or made. `steps` are sentences; `versions` those that were committed."""

    base_version: BaseVersion
    name: str
    removal: feature_changes.Removal
    protocol_before: Mapping[str, Any]
    protocol_after: Mapping[str, Any]
    steps: list[str]
    truncates: bool = False
    streams: ProtectionRequest = field(default_factory=ProtectionRequest)
    """The queries whose versions of the log are kept."""
    trace: int | None = None
    """The newest version that needs the feature, up to which versions are deleted; None if none is."""
    clients: tuple[ClientAccess, ...] = ()
    """Those that read or write the table again afterwards."""
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    is_made: bool = False

    @property
    def version(self) -> int:
        return self.base_version.version

    @property
    def is_noop(self) -> bool:
        """Return False: a feature that is not there cannot be dropped."""
        return False

    def find_first_version_left(self) -> int | None:
        """Return the version at which the log begins afterwards, or a lower limit; None if nothing is deleted."""
        snapshot = self.base_version.snapshot
        if snapshot is None or self.trace is None:
            return None
        return find_first_kept_version(snapshot, self.trace)

    def find_changed_metadata(self) -> Action | None:
        """Return the metaData action that is committed because of the columns or properties; None if they stay."""
        snapshot = self.base_version.snapshot
        if snapshot is None:
            return None
        if self.name == feature_changes.MAPPING and uses_mapping(snapshot.config):
            return metadata_without_mapping(snapshot)
        unset = [key for key in self.removal.unset if key in snapshot.properties]
        if not unset:
            return None
        return plan_unset(
            replace(snapshot.config, raw_metadata=snapshot.raw_metadata),
            state.plain_metadata(snapshot.raw_metadata),
            unset,
        ).metadata

    def effects(self) -> Iterator[str]:
        yield from self.steps

    def describe_progress(self) -> str:
        if not self.versions:
            return "versions of the log were deleted"
        one = len(self.versions) == 1
        return f"version{'' if one else 's'} {format_ranges(self.versions)} {'was' if one else 'were'} committed"

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.features` of a drop."""
        return {
            "version": self.version,
            "dropped": self.name,
            "truncateHistory": self.truncates,
            "steps": list(self.steps),
            "protocolBefore": dict(self.protocol_before),
            "protocolAfter": dict(self.protocol_after),
            "clients": [client.as_json() for client in self.clients],
            **self.base_version.warnings_json,
            "committedVersions": list(self.versions),
            "committedVersion": self.versions[-1] if self.is_made else None,
            "dryRun": not (self.is_made or self.versions),
        }


def plan_drop(
    table: TableHandle,
    name: str,
    *,
    truncate_history: bool = False,
    streams: ProtectionRequest | None = None,
    commit_metadata: Mapping[str, str] = NO_METADATA,
    now: Snapshot | None = None,
) -> FeatureDrop:
    """Plan to drop a feature of the newest version, or of one that was rebuilt already. `truncate_history` deletes the
    versions that need it instead of protecting their checkpoints, and not those that a query of `streams` needs.

    Raises UsageError, Refused where it cannot be dropped, something uses it or a query needs its versions, and what
    `read_snapshot` raises.
    """
    require_unreserved_keys(commit_metadata)
    streams = streams or ProtectionRequest()
    if streams.options and not truncate_history:
        option = parameter(f"features drop.{next(iter(streams.options))}")
        truncation = parameter("features drop.truncate_history")
        raise UsageError(f"{option} needs {truncation}: nothing else of a drop deletes what a query needs")
    streams.require_patterns()
    snapshot = now or read_snapshot(table)
    if (managed := managed_store(table.storage)) is not None:
        managed.require_droppable(name)
    removal = _required(snapshot, name, truncates=truncate_history)
    rewrites = name in (feature_changes.VECTORS, feature_changes.MAPPING) or removal.rewrites_types(name)
    require_committable_change(
        snapshot, CommitRequest(_DROP), ChangeKind.ADD_FILES if rewrites else ChangeKind.CHANGE_METADATA
    )
    commits_files_again = rewrites or name == feature_changes.ROW_IDS
    if commits_files_again or truncate_history or removal.protects_history:
        require_engine_agreement(snapshot, "dropping the feature", rewrites_files=rewrites)
    if managed is not None and commits_files_again:
        managed.require_permission("DATA_REORGANIZATION", "commit files again", asks=False)
    if managed is not None and truncate_history:
        managed.require_permission("METADATA_CLEANUP", "clean the log", asks=False)
    before = state.drop_null_fields(snapshot.raw_protocol)
    after = feature_changes.without_feature(before, name, protected=removal.protects_history and not truncate_history)
    guard = guard_history(snapshot, streams)
    trace = newest_trace(snapshot, name) if truncate_history else None
    if trace is not None and guard is not None:
        refusals = find_needed_history(snapshot, guard, name, trace)
        if refusals:
            raise Refused.from_refusals(refusals)
    steps = list(_steps(snapshot, name, removal, truncates=truncate_history, trace=trace))
    left = replace(snapshot.config, protocol=state.read_protocol(after, "the protocol"), raw_protocol=after)
    clients = find_regaining_clients(snapshot.config, left, find_version_traits(snapshot))
    base_version = build_base_version(snapshot)
    if trace is not None and not streams.protect_streams:
        base_version.warnings.append(
            "streaming queries that still need the deleted versions of the log cannot continue; keep what they need "
            f"with {parameter('features drop.protect_streams')}"
        )
    return FeatureDrop(
        base_version,
        name,
        removal,
        protocol_before=before,
        protocol_after=after,
        steps=steps,
        truncates=truncate_history,
        streams=streams,
        trace=trace,
        clients=clients,
        commit_metadata=commit_metadata,
    )


def _steps(
    snapshot: Snapshot, name: str, removal: feature_changes.Removal, *, truncates: bool, trace: int | None
) -> Iterator[str]:
    yield from _preparations(snapshot, name, removal)
    if truncates:
        if trace is not None:
            age = format_duration(state.truncation_retention_ms(snapshot.properties))
            yield f"delete the versions of the log up to {trace} or later, once they are {age} old"
        yield f"drop {name} from the protocol"
        return
    if removal.protects_history:
        yield f"write {_BARRIERS} checkpoints, each after an empty commit"
    yield f"drop {name} from the protocol"
    if removal.protects_history:
        yield "write a checkpoint, and protect older ones"


def _preparations(snapshot: Snapshot, name: str, removal: feature_changes.Removal) -> Iterator[str]:
    for key in removal.unset:
        if key in snapshot.properties:
            yield f"unset {key}"
    if removal.rewrites_types(name) and (columns := feature_changes.widened_columns(snapshot.config)):
        yield f"rewrite the files with older types of {', '.join(columns[:5])}"
        yield "remove the type changes from the schema"
    if name == feature_changes.VECTORS:
        if files := files_with_vectors(snapshot):
            yield f"rewrite {plural(files, 'file')} with deletion vectors"
        if tombstones := len(vector_files(snapshot)):
            yield f"record {plural(tombstones, 'file')} of vectors as removed, for vacuum"
    if name == feature_changes.MAPPING and (renamed := files_to_rename(snapshot)) is not None:
        count, size_bytes = renamed
        if count:
            yield f"rewrite {plural(count, 'file')} ({format_size(size_bytes)}) with the names of the columns"
        yield "remove the column mapping from the schema"
    if name == feature_changes.ROW_IDS:
        if snapshot.properties.get(SUSPENDED) != "true":
            yield f"set {ENABLED} to false and {SUSPENDED} to true"
        if files := len(files_with_ids(snapshot)):
            yield f"take the row ids of {plural(files, 'file')} out of the log"


@dataclass(frozen=True)
class DropFeature:
    """A drop of a feature, to be planned and committed; a step that is done already is not done again."""

    kind: ClassVar[ChangeKind] = ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.EXPIRE_LOG_FILES

    name: str
    truncate_history: bool = False
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    streams: ProtectionRequest = field(default_factory=ProtectionRequest)

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> FeatureDrop:
        return plan_drop(
            table,
            self.name,
            truncate_history=self.truncate_history,
            streams=self.streams,
            commit_metadata=self.commit_metadata,
            now=now,
        )

    def outcome(self, plan: FeatureDrop) -> FeatureDrop:
        return plan

    def execute(self, execution: ChangeExecution[FeatureDrop, FeatureDrop]) -> None:
        """Make what uses the feature go, then the feature. After a question, what is done first is to plan again: most
        commits are made from the newest version, whatever was planned on.

        Raises what `plan_drop`, `ChangeExecution.commit_step` and `optimize` raise; PartlyDone once something was
        committed: running it again continues.
        """
        execution.recheck_clock()
        execution.recheck_table()
        if not execution.accepts_any_plan and (plan := self.plan(execution.table)).version != execution.plan.version:
            execution.outcome = execution.accept_new_plan(plan)
        drop = command_of_drop(
            execution.outcome.name, truncates=execution.outcome.truncates, streams=execution.outcome.streams
        )
        execution.unfinished_goal = UnfinishedGoal(f"{self.name} is not dropped yet", drop)
        _Drop(execution).run()
        execution.outcome.is_made = True


class _Drop:
    def __init__(self, execution: ChangeExecution[FeatureDrop, FeatureDrop]) -> None:
        self._execution, self._plan, self._table = execution, execution.outcome, execution.table
        self._commit_metadata = execution.outcome.commit_metadata

    def run(self) -> None:
        plan = self._plan
        self._commit(self._unset)
        if plan.name == feature_changes.VECTORS:
            for _ in range(2):  # writers that began before the property was unset can still add vectors
                self._purge()
            self._commit(self._tombstones)
        if plan.removal.rewrites_types(plan.name) and feature_changes.widened_columns(
            read_snapshot(self._table).config
        ):
            self._purge(find_older_types)
            self._commit(self._without_type_changes)
        if (
            plan.name == feature_changes.MAPPING
            and (version := remove_mapping(self._execution, self._commit_metadata)) is not None
        ):
            plan.versions.append(version)
        if plan.name == feature_changes.ROW_IDS:
            self._commit(self._suspended)
            self._commit(self._without_row_ids)
        if plan.truncates:
            self._truncate()
            self._commit(self._dropped)
            return
        if plan.removal.protects_history:
            for _ in range(_BARRIERS):
                self._commit_and_checkpoint()
        self._commit(self._dropped)
        if plan.removal.protects_history:
            self._checkpoint()

    def _truncate(self) -> None:
        """Delete the versions that need the feature. Raises Refused where they are too young."""
        name = self._plan.name
        if (trace := newest_trace(read_snapshot(self._table), name)) is None:
            return
        listing = list_log_whole(self._table.storage, self._table.progress).listing
        if not any(one.version > trace for one in listing.checkpoints):
            self._commit_and_checkpoint()
        again_ms = truncate_history(self._table, name, trace, self._plan.streams)
        self._execution.has_begun = self._execution.has_begun or again_ms is None
        left = newest_trace(read_snapshot(self._table), name) if again_ms is None else trace
        if left is not None:
            when = "after that" if again_ms is None else f"from {format_timestamp(again_ms)}"
            raise Refused(
                f"versions up to {left} need the feature {name}; they can be deleted {when}",
                code="features.wait",
                facts={} if again_ms is None else {"again": format_timestamp(again_ms)},
                hint=command_of_drop(name, truncates=True, streams=self._plan.streams),
            )

    def _commit_and_checkpoint(self) -> None:
        self._commit(lambda _: CommitRequest("Empty Commit"))
        self._checkpoint()

    def _commit(self, make: Callable[[Snapshot], CommitRequest | None]) -> None:
        done = self._execution.commit_step(make, options=CommitOptions(metadata=self._commit_metadata))
        if isinstance(done, Committed):
            self._plan.versions.append(done.version)

    def _checkpoint(self) -> None:
        from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, plan_checkpoint, write_checkpoint

        layout = "classic" if self._plan.name == "v2Checkpoint" else None
        write_checkpoint(plan_checkpoint(self._table, CheckpointRequest(layout=layout)))

    def _removal(self, snapshot: Snapshot) -> feature_changes.Removal:
        return _required(snapshot, self._plan.name, truncates=self._plan.truncates)

    def _unset(self, snapshot: Snapshot) -> CommitRequest | None:
        removal = self._removal(snapshot)
        keys = [key for key in removal.unset if key in snapshot.properties]
        if not keys:
            return None
        config = replace(snapshot.config, raw_metadata=snapshot.raw_metadata)
        planned = plan_unset(config, state.plain_metadata(snapshot.raw_metadata), keys)
        parameters = {"properties": keys, "ifExists": True}
        return CommitRequest("UNSET TBLPROPERTIES", parameters, metadata=planned.metadata)

    def _purge(self, find: Find | None = None) -> None:
        from deltacli.operations.optimize.execute import Optimize

        request = OptimizeRequest(purge=True, commit_metadata=self._commit_metadata)
        executions: list[ChangeExecution[OptimizePlan, OptimizeOutcome]] = []
        try:
            execute_change(Optimize(request, find), self._table, on_start=executions.append)
        finally:
            self._plan.versions += [version for execution in executions for version in execution.outcome.versions]
            self._execution.has_begun = bool(self._plan.versions)

    def _without_type_changes(self, snapshot: Snapshot) -> CommitRequest | None:
        """Remove what the schema says of older types. Raises Refused while a file has one."""
        columns = feature_changes.widened_columns(snapshot.config)
        if not columns:
            return None
        if (path := file_with_older_type(snapshot)) is not None:
            raise Refused(
                f"{path} still has an older type, or cannot be read",
                code="features.in-use",
                hint=command("features drop", self._plan.name),
            )
        metadata = state.plain_metadata(snapshot.raw_metadata)
        root = read_exactly(str(metadata["schemaString"]))
        for one in fields_within(root):
            (one.get("metadata") or {}).pop(TYPE_CHANGES_KEY, None)
        return CommitRequest(
            _DROP,
            {"featureName": self._plan.name, "columns": columns},
            metadata=metadata | {"schemaString": write_exactly(root)},
            reads=EveryFile(),
        )

    def _suspended(self, snapshot: Snapshot) -> CommitRequest | None:
        """Stop writers from giving ids to new rows."""
        metadata = state.plain_metadata(snapshot.raw_metadata)
        configuration = metadata.get("configuration") or {}
        wanted = {**configuration, ENABLED: "false", SUSPENDED: "true"}
        if wanted == configuration:
            return None
        changed = {key: wanted[key] for key in (ENABLED, SUSPENDED)}
        return CommitRequest(
            "SET TBLPROPERTIES", {"properties": changed}, metadata=metadata | {"configuration": wanted}
        )

    def _without_row_ids(self, snapshot: Snapshot) -> CommitRequest | None:
        paths = files_with_ids(snapshot)
        if not paths:
            return None
        return CommitRequest(OPERATION, {"batchId": "0"}, body=adds_without_ids(snapshot), reads=FilesAt(paths))

    def _tombstones(self, snapshot: Snapshot) -> CommitRequest | None:
        """Record the files of vectors that older versions need: a vacuum without vectors would not know them."""
        files = vector_files(snapshot)
        if not files:
            return None
        now_ms = self._table.clock()

        def body(_: NextVersion) -> Iterator[bytes]:
            for path in files:
                remove = {"path": path, "deletionTimestamp": now_ms, "dataChange": False}
                yield encode_line({"remove": remove})

        return CommitRequest(
            "Deletion Vector Tombstones", operation_metrics={"dvTombstonesWithinRetentionPeriod": len(files)}, body=body
        )

    def _dropped(self, snapshot: Snapshot) -> CommitRequest:
        name, removal = self._plan.name, self._removal(snapshot)
        again = command("features drop", name)
        if name == feature_changes.VECTORS and (files := files_with_vectors(snapshot)):
            raise Refused(f"{plural(files, 'file')} got deletion vectors meanwhile", code="features.in-use", hint=again)
        if removal.rewrites_types(name) and (columns := feature_changes.widened_columns(snapshot.config)):
            raise Refused(f"the type of {columns[0]} was changed meanwhile", code="features.in-use", hint=again)
        if (left := [key for key in removal.unset if key in snapshot.properties]) or _has_v2_checkpoint(snapshot, name):
            what = f"{left[0]} is set again" if left else "the newest checkpoint has the form of the feature"
            raise Refused(f"{name} came into use meanwhile: {what}", code="features.in-use", hint=again)
        if name == feature_changes.MAPPING and uses_mapping(snapshot.config):
            raise Refused("column mapping was enabled meanwhile", code="features.in-use", hint=again)
        protects = removal.protects_history and not self._plan.truncates
        protocol = feature_changes.without_feature(
            state.drop_null_fields(snapshot.raw_protocol), name, protected=protects
        )
        metadata = state.plain_metadata(snapshot.raw_metadata)
        properties = feature_changes.properties_of_drop(
            metadata.get("configuration") or {}, removal, snapshot.version + 1, protected=protects
        )
        changed = properties != (metadata.get("configuration") or {})
        return CommitRequest(
            _DROP,
            {"featureName": name, "truncateHistory": self._plan.truncates},
            protocol=protocol,
            metadata=metadata | {"configuration": properties} if changed else None,
            domains=domain_removed(snapshot) if name == feature_changes.ROW_IDS else (),
            body=adds_without_ids(snapshot)
            if name == feature_changes.ROW_IDS
            else None,  # files of writers that began before
            reads=EveryFile() if name in (feature_changes.VECTORS, feature_changes.ROW_IDS) else None,
            drops=(name,),
            contains_own_version=protects,
        )


def _required(snapshot: Snapshot, name: str, *, truncates: bool) -> feature_changes.Removal:
    """Return how a feature is dropped. Raises Refused where something that stays uses it."""
    removal = feature_changes.require_droppable(snapshot.config, name)
    if name in feature_changes.WIDENINGS and snapshot.config.features.issuperset(feature_changes.WIDENINGS):
        removal = feature_changes.Removal()  # the other name stays, and with it everything that uses the feature
    if truncates and not removal.protects_history:
        raise Refused(
            f"older versions do not need the feature {name}, so their history is not deleted",
            code="features.history-not-needed",
            hint=command("features drop", name),
        )
    if name == feature_changes.PROTECTION and not truncates:
        raise Refused(
            f"the feature {name} can only be dropped together with the history that it protects",
            code="features.needs-truncation",
            hint=command("features drop", name, truncate_history=True),
        )
    domains = [domain.domain for domain in snapshot.domains]
    left = list(feature_changes.uses_left(snapshot.config, name, domains))
    if left:
        raise Refused(
            f"the feature {name} cannot be dropped: {'; '.join(left)}",
            code="features.in-use",
            facts={"fix": _FIXES[name]} if name in _FIXES else {},
        )
    return removal


_FIXES = {
    "checkConstraints": "drop the constraints first",
    "domainMetadata": "remove the domains with the applications that own them",
}


def _has_v2_checkpoint(snapshot: Snapshot, name: str) -> bool:
    return name == "v2Checkpoint" and snapshot.checkpoint_layout == "v2"
