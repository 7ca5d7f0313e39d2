"""`alter` of a Delta table: changes of columns and metadata in one commit, and their consequences.

Spec: Change Metadata; Column Mapping; Protocol Evolution.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import SingleCommitChange
from deltacli.changing.plan import TableHandleMixin
from deltacli.changing.preflight import find_new_errors
from deltacli.changing.request_checks import require_committable_request, require_encodable_text
from deltacli.changing.views import STALE_VIEW
from deltacli.core.errors import Refusal, Refused, Unreadable, UsageError, command
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.delta.clustering.clustering_columns import DOMAIN, clustering_action, read_clustering_columns
from deltacli.delta.data_files import unique_id
from deltacli.delta.evolution import requests
from deltacli.delta.evolution.draft import Draft, Effect, Settings, names_of
from deltacli.delta.evolution.evolve import UPGRADE_NEEDED, Evolution, evolve, logical_names
from deltacli.delta.evolution.requests import Change
from deltacli.delta.log.actions import ROWS_CHECKED, require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest, EveryFile
from deltacli.delta.log.state import drop_null_fields, plain_metadata
from deltacli.delta.protocol.clients import ClientAccess, find_table_traits
from deltacli.delta.sql.stored import StoredKind
from deltacli.operations.change.widen_type import addressed, refusal_error
from deltacli.rules.framework.views import FilesView
from deltacli.table.constraints import (
    CHECKED_ADD_FIELDS,
    ConstraintCheck,
    ConstraintViolations,
    RowConstraint,
    find_constraints,
)
from deltacli.table.handle import TableHandle
from deltacli.table.known_clients import find_affected_clients
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.table.version_traits import read_partition_values

# -- the rows of a new constraint --------------------------------------------------------------------------------------

_FIELDS = (*CHECKED_ADD_FIELDS, "partitionValues")


def new_demands_of(evolution: Evolution) -> list[RowConstraint]:
    """Return what the changes demand of rows that were written before."""
    columns, constraints = set(), set()
    for effect in evolution.due:
        match effect.change:
            case requests.SetNotNull():
                columns.add(".".join(names_of(evolution.after.finder.find(str(effect.column)))))
            case requests.AddConstraint(name, _):
                constraints.add(name.strip().lower())
    if not columns and not constraints:
        return []
    return [one for one in find_constraints(evolution.after.config) if _is_of(one, columns, constraints)]


def _is_of(demand: RowConstraint, columns: set[str], constraints: set[str]) -> bool:
    if isinstance(demand.owner, str):
        return demand.owner in columns
    return demand.owner.kind is StoredKind.CONSTRAINT and demand.owner.name in constraints


def asks_about_rows(evolution: Evolution) -> bool:
    """Return True if the commit depends on what all files have: rows that keep new demands, statistics of columns."""
    clusters = any(isinstance(effect.change, requests.SetClustering) and effect.after for effect in evolution.due)
    return clusters or bool(new_demands_of(evolution))


class RowsInQuestion:
    """Checks the live files of a table, each once: after the commit of another writer only its files are new."""

    def __init__(self) -> None:
        self._asked: tuple[list[RowConstraint], object] = ([], None)
        self._checked: set[int] = set()

    def checked(self, snapshot: Snapshot, evolution: Evolution) -> Evolution:
        """Return the evolution with the reasons that rows give against it. Raises StorageFailed."""
        if evolution.refusals or evolution.is_noop or not asks_about_rows(evolution):
            return evolution
        without = _WithoutStatistics(evolution)
        demands = new_demands_of(evolution)
        # By another schema a name can stand for another column: one that was dropped and added again.
        asked = (demands, evolution.before.metadata["schemaString"])
        if asked != self._asked:
            self._asked, self._checked = asked, set()
        table = snapshot.table
        check = ConstraintCheck(table, evolution.after.config, demands)
        with table.progress.step("checking rows", unit="files") as step:
            for adds in snapshot.file_actions.map_actions("add", lambda adds: adds, fields=_FIELDS):
                fresh = self._fresh(adds)
                if fresh.num_rows:
                    without.take(fresh)
                    check.check_files(fresh)
                step.advance(adds.num_rows)
        refusals = (*without.refusals(), *_refusals(check))
        if refusals:
            self._checked = set()
        return replace(evolution, refusals=refusals)

    def _fresh(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return the files that were not checked, and remember them. A new vector may have replaced another one."""
        paths, vectors = adds.column("path").to_pylist(), adds.column("deletionVector").to_pylist()
        keys = [hash((path, vector and unique_id(vector))) for path, vector in zip(paths, vectors, strict=True)]
        mask = [key not in self._checked for key in keys]
        self._checked.update(keys)
        return adds if all(mask) else pc.filter(adds, pa.array(mask, pa.bool_()))


class _WithoutStatistics:
    """Counts files without statistics of the columns that the table is to be clustered by, which all must have."""

    def __init__(self, evolution: Evolution) -> None:
        before, after = evolution.before.clustering, evolution.after.clustering
        self._config = evolution.after.config
        self._clustering = str(clustering_action(after)["configuration"]) if after != before and after else None
        self._files: list[str] = []

    def take(self, adds: pa.RecordBatch) -> None:
        if self._clustering is None:
            return
        from deltacli.rules.protocol.clustering import clustering_columns_without_statistics

        versions = [0] * adds.num_rows
        view = FilesView(adds, self._config, versions, versions, clustering=self._clustering)
        self._files += [str(one.place.key) for one in clustering_columns_without_statistics(view)]

    def refusals(self) -> Iterator[Refusal]:
        if self._files:
            files = plural(len(set(self._files)), "file")
            message = f"{files} have no statistics of a clustering column, first {self._files[0]}"
            way_out = command("optimize", zorder="COLUMN") or "rewrite them first"
            yield Refusal("alter.clustering-statistics", message, way_out)


def _refusals(check: ConstraintCheck) -> Iterator[Refusal]:
    for demand, found in check.violations.items():
        if found.files:
            yield _violated(demand, found)
        if found.unchecked_files:
            files = plural(len(found.unchecked_files), "file")
            message = f"{files} may violate {demand}, first {found.unchecked_files[0]}: {found.reason}"
            yield Refusal("alter.rows-unknown", message, "let an engine make the change, which checks the rows")


def _violated(demand: RowConstraint, found: ConstraintViolations) -> Refusal:
    noun = "null" if isinstance(demand.owner, str) else "row"
    rows = f"{noun}s" if found.rows is None else plural(found.rows, noun)
    verb = "violates" if found.rows == 1 else "violate"
    example = "" if found.first is None else f": {found.first}"
    files = plural(len(found.files), "file")
    message = f"{rows} in {files} {verb} {demand}, first in {found.files[0]}{example}"
    return Refusal("alter.rows-violate", message, "change or delete these rows first")


# -- `alter` of a Delta table ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlterationRequest:
    """Changes of columns and of what describes a table, to make in one commit.

    Attributes:
        changes: The changes, in their order: JSON objects, or values of the classes of
            `deltacli.delta.evolution.requests`.
        enable: True to set `delta.enableTypeWidening` if a change of a type needs it.
        upgrade_protocol: True to add missing features. Clients that do not support them lose access.
        commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
        dry_run: True to plan only, and change nothing.
    """

    changes: Iterable[Change | JsonObject]
    enable: bool = False
    upgrade_protocol: bool = False
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a value that is not a change, for a text that is not Unicode, and without a change."""
        object.__setattr__(self, "changes", requests.as_changes(self.changes))
        for change in self.in_order:
            require_encodable_text(requests.change_json(change), None)

    @property
    def in_order(self) -> tuple[Change, ...]:
        return cast("tuple[Change, ...]", self.changes)


@short_repr("read_version", "committed_version", "changes=request.changes", "refusals", "is_noop")
@dataclass(frozen=True, repr=False)
class AlterationOutcome(SingleCommitChange, TableHandleMixin):
    """A planned or executed change. `committed_version` is None where nothing was committed."""

    request: AlterationRequest
    evolution: Evolution

    @property
    def read_version(self) -> int:
        return self.base_version.version

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.evolution.refusals

    @property
    def is_noop(self) -> bool:
        return self.evolution.is_noop

    def build_refusal(self) -> Refused | None:
        return refusal_error(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        before, after = self.evolution.before.config, self.evolution.after.config
        for effect in self.evolution.due:
            words = (requests.KIND_OF[type(effect.change)], effect.subject, effect.before, effect.after)
            yield " ".join(word for word in words if word is not None)
        yield from (f"feature {name}" for name in sorted(after.features - before.features))
        yield from (caution.message for caution in self.evolution.cautions)

    @property
    def clients(self) -> tuple[ClientAccess, ...]:
        """The effects of features that are added, and of the changes, on known clients."""
        before, after = self.evolution.before.config, self.evolution.after.config
        added = sorted(after.features - before.features)
        if any(isinstance(effect.change, requests.SetMapping) for effect in self.evolution.due):
            added = ["columnMapping"]  # the versions that imply it imply others, which nothing uses
        cautions = [caution.code for caution in self.evolution.cautions]
        return find_affected_clients(added, cautions, used=True, before=find_table_traits(before))

    def as_json(self, *, dry_run: bool | None = None) -> dict[str, Json]:
        """Return the content of the document `deltacli.alter` of a Delta table."""
        evolution = self.evolution
        is_changed = not (evolution.is_noop or evolution.refusals)
        return {
            "readVersion": self.read_version,
            "requested": [requests.change_json(change) for change in self.request.in_order],
            "changes": [_effect_json(effect) for effect in evolution.due],
            "refusals": [one.as_json("wayOut") for one in evolution.refusals],
            "warnings": [
                *({"code": caution.code, "message": caution.message} for caution in evolution.cautions),
                *({"code": STALE_VIEW, "message": message} for message in self.base_version.warnings),
            ],
            "protocolBefore": evolution.before.protocol,
            "protocolAfter": evolution.after.protocol,
            "clients": [client.as_json() for client in self.clients],
            "schemaBefore": _schema_json(evolution.before),
            "schemaAfter": _schema_json(evolution.after) if is_changed else None,
            "committedVersion": self.committed_version,
            "dryRun": self.request.dry_run if dry_run is None else dry_run,
        }


def _effect_json(effect: Effect) -> dict[str, Json]:
    found: dict[str, Json] = {**requests.change_json(effect.change), "subject": effect.subject}
    return found | {key: value for key, value in (("from", effect.before), ("to", effect.after)) if value is not None}


def _schema_json(draft: Draft) -> Json:
    found: Json = json.loads(str(draft.metadata["schemaString"]))  # also half a surrogate pair
    return found


@dataclass(frozen=True)
class Alteration:
    """Changes of columns and metadata, to be planned and committed."""

    kind: ClassVar[ChangeKind] = ChangeKind.CHANGE_METADATA

    request: AlterationRequest
    _rows: RowsInQuestion = field(default_factory=RowsInQuestion)
    """What is known of rows that were read for a plan before."""

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> AlterationOutcome:
        """Plan the commit. A refusal is part of the plan.

        Raises UsageError for unknown columns, types and positions, Refused where the table cannot be written, and what
        `read_snapshot` raises.
        """
        require_unreserved_keys(self.request.commit_metadata)
        snapshot = now or read_snapshot(table)
        evolution = self._rows.checked(snapshot, _evolved(snapshot, self.request))
        if not (evolution.is_noop or evolution.refusals):
            require_committable_request(snapshot, _commit_request(evolution))
        return AlterationOutcome(build_base_version(snapshot), self.request, evolution)

    def outcome(self, plan: AlterationOutcome) -> AlterationOutcome:
        return plan

    def execute(self, execution: ChangeExecution[AlterationOutcome, AlterationOutcome]) -> None:
        """Commit the changes. Raises UsageError, and what `ChangeExecution.commit_plan` raises."""
        metadata = self.request.commit_metadata
        done = execution.commit_plan(
            lambda plan: _commit_request(plan.evolution), options=CommitOptions(metadata=metadata)
        )
        version = done.version if isinstance(done, Committed) else None
        execution.outcome = replace(execution.plan, committed_version=version)


def _evolved(snapshot: Snapshot, request: AlterationRequest) -> Evolution:
    before = draft_of(snapshot)
    settings = Settings(
        snapshot.version + 1,
        snapshot.table.machine.new_uuid,
        request.enable,
        request.upgrade_protocol,
        partial(read_partition_values, snapshot),
    )
    evolution = evolve(before, request.in_order, settings)
    if not evolution.is_noop and all(one.code == UPGRADE_NEEDED for one in evolution.refusals):
        broken = tuple(find_new_errors(snapshot.version, evolution.before.config, evolution.after.config))
        evolution = replace(evolution, refusals=broken or evolution.refusals)  # an option cannot override a rule
    return replace(evolution, refusals=addressed(evolution.refusals, snapshot.table.address))


def draft_of(snapshot: Snapshot) -> Draft:
    """Return a version as a table to be changed. Raises Unreadable for one without a schema."""
    metadata = plain_metadata(snapshot.raw_metadata)
    if not isinstance(metadata.get("schemaString"), str):
        raise Unreadable("the table has no schema to change", code="schema.bad-json", hint=command("validate"))
    return Draft(metadata, drop_null_fields(snapshot.raw_protocol), _clustering_columns(snapshot))


def _clustering_columns(snapshot: Snapshot) -> tuple[tuple[str, ...], ...]:
    domain = next((domain for domain in snapshot.domains if domain.domain == DOMAIN), None)
    return () if domain is None else tuple(read_clustering_columns(domain.configuration) or ())


def _commit_request(evolution: Evolution) -> CommitRequest:
    """Return the commit with the operation of the reference implementation."""
    before, after = evolution.before, evolution.after
    operation, parameters = _operation(evolution)
    partitions = {name.lower() for name in before.metadata.get("partitionColumns") or []}
    widens = [effect for effect in evolution.due if isinstance(effect.change, requests.ChangeType)]
    reads_partitions = any(effect.subject.strip("`").lower() in partitions for effect in widens)
    return CommitRequest(
        operation,
        parameters,
        protocol=None if after.protocol == before.protocol else after.protocol,
        metadata=None if after.metadata == before.metadata else after.metadata,
        domains=() if after.clustering == before.clustering else (clustering_action(after.clustering),),
        tags={ROWS_CHECKED: "true"} if asks_about_rows(evolution) else {},
        reads=EveryFile() if reads_partitions or asks_about_rows(evolution) else None,
        contains_own_version=bool(widens) and '"tableVersion"' in str(after.metadata["schemaString"]),
    )


def _operation(evolution: Evolution) -> tuple[str, Mapping[str, object]]:
    due = evolution.due
    if len(due) == 1 and (single := _SINGLE.get(type(due[0].change))) is not None:
        return single[0], single[1](evolution, due[0])
    described = [_described(evolution.after, effect) for effect in due]
    kinds = {type(effect.change) for effect in due}
    if kinds == {requests.AddColumn}:
        return "ADD COLUMNS", {"columns": described}
    if kinds == {requests.DropColumn}:
        return "DROP COLUMNS", {"columns": [effect.column for effect in due]}
    if kinds.isdisjoint(_NOT_IN_PLACE) and all(effect.column is not None for effect in due):
        return ("CHANGE COLUMNS", {"columns": described}) if len(due) > 1 else ("CHANGE COLUMN", described[0])
    return "ALTER TABLE", {"changes": [requests.change_json(effect.change) for effect in due]}


_NOT_IN_PLACE = frozenset({requests.AddColumn, requests.DropColumn, requests.RenameColumn})
"""Changes of columns that are not a change of a field where it is."""

_Parameters = Callable[[Evolution, Effect], Mapping[str, object]]

_SINGLE: Mapping[type[Change], tuple[str, _Parameters]] = {
    requests.RenameColumn: (
        "RENAME COLUMN",
        lambda _, effect: {"oldColumnPath": effect.subject, "newColumnPath": effect.column},
    ),
    requests.SetMapping: ("SET TBLPROPERTIES", lambda _, effect: {"properties": {effect.subject: effect.after}}),
    requests.SetTableComment: ("SET TBLPROPERTIES", lambda _, effect: {"properties": {"comment": effect.after or ""}}),
    requests.SetTableName: ("UPDATE TABLE METADATA", lambda _, effect: {"name": effect.after}),
    requests.AddConstraint: ("ADD CONSTRAINT", lambda _, effect: {"name": effect.name, "expr": effect.after}),
    requests.DropConstraint: (
        "DROP CONSTRAINT",
        lambda _, effect: {"name": effect.name, "expr": effect.before, "existed": "true"},
    ),
    requests.SetClustering: (
        "CLUSTER BY",
        lambda evolution, _: {
            "oldClusteringColumns": logical_names(evolution.before),
            "newClusteringColumns": logical_names(evolution.after),
        },
    ),
}
"""Operations of commits of one change, and their parameters, as the reference implementation has them."""


def _described(after: Draft, effect: Effect) -> dict[str, Any]:
    """Return a field as in the history of the table; only the path of one that is not there any more."""
    if effect.column is None or isinstance(effect.change, requests.DropColumn):
        return {"column": {"name": effect.column}}
    try:
        place = after.finder.find(effect.column)
    except UsageError:  # a later change of the same commit renamed or dropped it
        return {"column": {"name": effect.column}}
    field: Any = _schema_json(after)
    for step in place.field_address:
        field = field[step]
    kind = field["type"] if isinstance(field["type"], str) else field["type"]["type"]
    column = {
        "name": effect.column,
        "type": kind,
        "nullable": field["nullable"],
        "metadata": field.get("metadata") or {},
    }
    moves = isinstance(effect.change, requests.AddColumn | requests.MoveColumn) and effect.position is not None
    return {"column": column} | ({"position": _in_capitals(str(effect.position))} if moves else {})


def _in_capitals(position: str) -> str:
    word, space, name = position.partition(" ")
    return f"{word.upper()}{space}{name}"
