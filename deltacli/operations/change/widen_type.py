"""Widening the types of columns in one commit of metadata, and its consequences. Spec: Type Widening."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from deltacli.changing.base_version import build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import SingleCommitChange
from deltacli.changing.plan import TableHandleMixin
from deltacli.changing.request_checks import require_committable_change
from deltacli.changing.views import STALE_VIEW
from deltacli.core.errors import NOTHING_CHANGED, Refusal, Refused, command, suggest_parameters
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.delta.log.actions import require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest, EveryFile
from deltacli.delta.log.file_actions import FileCounts
from deltacli.delta.log.state import drop_null_fields, read_protocol
from deltacli.delta.protocol.clients import ClientAccess
from deltacli.delta.schema.widened_schema import read_exactly, write_exactly
from deltacli.delta.schema.widening import Caution, PartitionValues, PlannedChange, WideningPlan, plan_widening
from deltacli.table.handle import TableHandle
from deltacli.table.known_clients import find_affected_clients
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.table.version_traits import read_partition_values
from deltacli.work.rows.data_files import COLUMNS, ColumnsOfFiles, find_type_mismatches

if TYPE_CHECKING:
    import pyarrow as pa

_NEAR_FILES_A_PIECE, _FAR_FILES_A_PIECE = 16, 1
"""Opening a file takes several reads of a remote store, which is worth a piece of its own; a near one takes 1 ms."""

_OF_CONSENT = ("alter.protocol-upgrade-needed", "widen.protocol-upgrade-needed", "widen.not-enabled")
"""Refusals that an option overrides."""


@dataclass(frozen=True, slots=True)
class WidenRequest:
    """Columns with their new types, and what may be done for them.

    Attributes:
        changes: Pairs of a column path and its new type.
        enable: True to set `delta.enableTypeWidening` if it is not set.
        upgrade_protocol: True to add missing features. Clients that do not support them lose access.
        check_files: True to check the types in every data file first, and to refuse the change if one differs.
        commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
    """

    changes: tuple[tuple[str, str], ...] = ()
    enable: bool = False
    upgrade_protocol: bool = False
    check_files: bool = False
    commit_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WideningImpact:
    """Effects of a commit: live files that keep the older types, their bytes and rows (None: not all known)."""

    files: FileCounts
    partition_values: int | None
    """The number of distinct values of widened partition columns, which are read in the new type."""


@short_repr("read_version", "committed_version", "changes=plan.due", "refusals")
@dataclass(frozen=True, repr=False)
class WideningOutcome(SingleCommitChange, TableHandleMixin):
    """A planned or executed change. `committed_version` is None where nothing was committed."""

    request: WidenRequest
    plan: WideningPlan
    clients: tuple[ClientAccess, ...]
    impact: WideningImpact | None = None
    refused_files: tuple[Refusal, ...] = field(default=())

    @property
    def read_version(self) -> int:
        return self.base_version.version

    @property
    def is_noop(self) -> bool:
        return self.plan.is_noop

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return (*self.plan.all_refusals, *self.refused_files)

    def build_refusal(self) -> Refused | None:
        return refusal_error(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        yield from (f"{change.column} {change.from_type} -> {change.to_type}" for change in self.plan.due)
        yield from (f"feature {name}" for name in self.plan.added_features)
        yield from ["enables type widening"] if self.plan.enables_property else []
        yield from (caution.message for caution in self.plan.warnings)

    def as_json(self, *, dry_run: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.widen-type`."""
        plan = self.plan
        found: dict[str, Any] = {
            "readVersion": self.read_version,
            "changes": [change.as_json() for change in plan.changes],
            "refusals": [one.as_json("wayOut") for one in (*plan.refusals, *self.refused_files)],
            "warnings": [
                *({"code": caution.code, "message": caution.message} for caution in plan.warnings),
                *({"code": STALE_VIEW, "message": message} for message in self.base_version.warnings),
            ],
            "protocolBefore": plan.protocol_before,
            "protocolAfter": plan.protocol_after or plan.protocol_before,
            "enablesProperty": plan.enables_property,
            "committedVersion": self.committed_version,
            "clients": [client.as_json() for client in self.clients],
            "dryRun": dry_run,
        }
        if self.impact is not None:
            files = self.impact.files
            found["impact"] = {
                "files": files.count,
                "sizeBytes": files.size_bytes,
                "rows": files.rows,
                "partitionValues": self.impact.partition_values,
            }
        return found


@dataclass(frozen=True)
class Widening:
    """Wider types of columns, to be planned and committed. `with_impact` counts the live files, too."""

    kind: ClassVar[ChangeKind] = ChangeKind.CHANGE_METADATA

    request: WidenRequest
    with_impact: bool = False

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> WideningOutcome:
        """Plan the commit. A refusal is part of the plan.

        Raises UsageError for unknown columns and types, Refused where the table cannot be written, and what
        `read_snapshot` raises.
        """
        require_unreserved_keys(self.request.commit_metadata)
        snapshot = now or read_snapshot(table)
        values_of = cache(partial(read_partition_values, snapshot))
        plan = _plan(snapshot, self.request, values_of)
        refused: tuple[Refusal, ...] = ()
        if self.request.check_files and not plan.is_noop and not plan.all_refusals:
            refused = tuple(_file_refusals(snapshot, plan.due))
        if not (plan.is_noop or plan.all_refusals or refused):
            require_committable_change(snapshot, _request(plan, snapshot))
        counts = self.with_impact and now is None and not plan.is_noop
        impact = _impact(snapshot, plan, values_of) if counts else None
        return WideningOutcome(
            build_base_version(snapshot), self.request, plan, _clients(plan), impact, refused_files=refused
        )

    def outcome(self, plan: WideningOutcome) -> WideningOutcome:
        return plan

    def execute(self, execution: ChangeExecution[WideningOutcome, WideningOutcome]) -> None:
        """Commit the change. Raises UsageError, and what `ChangeExecution.commit_plan` raises."""

        def request(outcome: WideningOutcome) -> CommitRequest:
            assert outcome.base_version.snapshot is not None
            return _request(outcome.plan, outcome.base_version.snapshot)

        done = execution.commit_plan(request, options=CommitOptions(metadata=self.request.commit_metadata))
        version = done.version if isinstance(done, Committed) else None
        execution.outcome = replace(execution.plan, committed_version=version)


def refusal_error(refusals: Sequence[Refusal], *, preamble: str = NOTHING_CHANGED) -> Refused:
    """Return the error for refusals: the first one as the message, the others as facts. The hint names the options
    where they are all that is missing.
    """
    first, *others = refusals
    missing = [one.hint or "" for one in refusals if one.code in _OF_CONSENT]
    is_possible = len(missing) == len(refusals)
    facts = {} if is_possible or not first.hint else {"fix": first.hint}
    for number, other in enumerate(others, 2):
        way_out = "" if is_possible or not other.hint else f"; {other.hint}"
        facts[f"reason {number}"] = f"{other.message} [{other.code}]{way_out}"
    hint = suggest_parameters(*dict.fromkeys(missing)) if is_possible else ""
    return Refused.from_refusals([first], facts, hint, preamble=preamble)


def _plan(snapshot: Snapshot, request: WidenRequest, values_of: PartitionValues) -> WideningPlan:
    plan = plan_widening(
        replace(snapshot.config, raw_protocol=snapshot.raw_protocol),
        snapshot.raw_metadata,
        request.changes,
        commit_version=snapshot.version + 1,
        enable=request.enable,
        upgrade_protocol=request.upgrade_protocol,
        partition_values=values_of,
    )
    uri = snapshot.table.address
    changes = tuple(replace(change, refusals=addressed(change.refusals, uri)) for change in plan.changes)
    warnings = (*plan.warnings, *_of_readers(snapshot, plan))
    return replace(plan, changes=changes, refusals=addressed(plan.refusals, uri), warnings=warnings)


def _of_readers(snapshot: Snapshot, plan: WideningPlan) -> Iterator[Caution]:
    """Yield what streams and recipients of shares see of the wider types."""
    from deltacli.delta.evolution.draft import Draft
    from deltacli.delta.evolution.evolve import of_readers

    if plan.metadata_after is not None:
        protocol = plan.protocol_after or drop_null_fields(snapshot.raw_protocol)
        yield from of_readers(snapshot.config, Draft(plan.metadata_after, protocol, ()).config)


def addressed(refusals: Iterable[Refusal], uri: str) -> tuple[Refusal, ...]:
    """Return refusals whose commands name the table."""
    return tuple(one._replace(hint=(one.hint or "").replace("{table}", shlex.quote(uri))) for one in refusals)


def _request(plan: WideningPlan, snapshot: Snapshot) -> CommitRequest:
    """Return the commit with the operation of the reference implementation."""
    metadata = plan.metadata_after
    assert metadata is not None
    schema = read_exactly(str(metadata["schemaString"]))
    columns = [_described(change, schema) for change in plan.due]
    one = len(columns) == 1
    partitions = {name.lower() for name in snapshot.metadata.partition_columns}
    changes_partitions = any(change.place.column.name.lower() in partitions for change in plan.due)
    return CommitRequest(
        "CHANGE COLUMN" if one else "CHANGE COLUMNS",
        # Written here, so that numbers of the schema, such as ids, do not become texts.
        {"column": write_exactly(columns[0])} if one else {"columns": write_exactly(columns)},
        protocol=plan.protocol_after,
        metadata=metadata,
        reads=EveryFile() if changes_partitions else None,
        contains_own_version=plan.table_version is not None,
    )


def _described(change: PlannedChange, schema: Json) -> dict[str, Json]:
    found = schema
    for step in change.place.field_address:
        found = found[step]
    name = ".".join(each.name for each in change.place.fields)
    return {"column": name, "type": found["type"], "nullable": found["nullable"], "metadata": found.get("metadata", {})}


def _clients(plan: WideningPlan) -> tuple[ClientAccess, ...]:
    """Return the effects of the change on known clients: of the features that it adds, and of its warnings."""
    added = () if plan.protocol_after is None else plan.added_features
    before = read_protocol(plan.protocol_before, "protocol").supported_features
    return find_affected_clients(added, [caution.code for caution in plan.warnings], used=True, before=before)


def _impact(
    snapshot: Snapshot, plan: WideningPlan, values_of: Callable[[str], frozenset[str | None]]
) -> WideningImpact:
    files, _ = snapshot.counts()
    names = {snapshot.config.physical_name(change.place.column) for change in plan.due}
    partitions = [name for name in snapshot.config.partition_columns if name in names]
    values = [len(values_of(name)) for name in partitions]
    return WideningImpact(files, sum(values) if partitions else None)


def _file_refusals(snapshot: Snapshot, changes: Sequence[PlannedChange]) -> Iterable[Refusal]:
    """Return files that store a changed column in a type that is neither the current one nor a narrower one."""
    table = snapshot.table
    columns = {change.place.column.name: change.place.column for change in changes}
    shared = {COLUMNS: ColumnsOfFiles(snapshot.config, tuple(columns.values()))}
    reads = table.storage.capabilities.parallel_reads
    each = _FAR_FILES_A_PIECE if reads > 1 else _NEAR_FILES_A_PIECE
    of_batches = snapshot.file_actions.map_actions("add", _paths, fields=["path"])
    paths = (path for batch in of_batches for path in batch)
    pieces = iter(lambda: tuple(islice(paths, each)), ())
    listed = command("validate", table=table.address, level="footers", select=["data.type-*"]) or "validate"
    way_out = f"{listed} lists all such files: rewrite them with an engine, or restore the version before them"
    with table.progress.step("checking data files", unit="files") as step:
        for found in table.engine.run_tasks(
            find_type_mismatches, pieces, table.stores, shared=shared, weigh=len, at_once=reads if reads > 1 else None
        ):
            step.advance(len(found))
            for message in found:
                if message is not None:
                    yield Refusal("widen.file-type", message, way_out)


def _paths(adds: pa.RecordBatch) -> list[str]:
    paths: list[str] = adds.column("path").to_pylist()
    return paths
