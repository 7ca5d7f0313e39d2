"""`alter` and `widen-type` of a Paimon table: plan the next version of its schema, and create it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from deltacli.changing.acts import Act
from deltacli.changing.basis import OTHER_PAST, Basis
from deltacli.changing.texts import require_text
from deltacli.changing.views import STALE_VIEW, views_of_paimon
from deltacli.core.errors import NOTHING_CHANGED, Refused
from deltacli.core.hints import command
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.operations.paimon.commit_schema import (
    CommittedSchema,
    Newest,
    NothingToCommit,
    UsedIds,
    commit_schema,
    read_newest,
)
from deltacli.operations.paimon.table_files import read_newest_if_possible, require_branch, require_paimon
from deltacli.paimon.evolution.evolve import EvolutionSettings, evolve
from deltacli.paimon.evolution.requests import AddColumn, SchemaChange, change_json
from deltacli.paimon.schema import Schema
from deltacli.paimon.schema_changes import Change, ChangeKind, changes_between, meaning_for_old_rows, sentence
from deltacli.paimon.table_paths import MAIN_BRANCH
from deltacli.paimon.types import walk_fields
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE, SchemaFileView
from deltacli.rules.paimon.fallbacks import BranchFault, faults_of_branches
from deltacli.rules.paimon.fields import BLANK_NAME, DEFAULT_VALUE, DIRECTIVE, HIGHEST_ID, ID_DUPLICATE, ID_RANGE
from deltacli.storage.base import require_writable
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """Changes to make in one version of the schema, in this order.

    `allow_lossy`: accept changes after which stored values are read back changed. `with_options`: remove dropped
    columns from the options that name them.
    """

    changes: tuple[SchemaChange, ...]
    branch: str = MAIN_BRANCH
    allow_lossy: bool = False
    with_options: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a text that is not Unicode."""
        for change in self.changes:
            require_text(change_json(change), None)


@short_repr("table", "changes", "committed", "refusal=refusal.code", "is_noop")
@dataclass(frozen=True, slots=True, repr=False)
class AlterOutcome:
    """A planned or executed change. `after` is None where it is refused, and equal to `before` in all that matters
    where there is nothing to do. `committed` is the id of the version that was created.
    """

    basis: Basis
    request: AlterRequest
    before: Schema
    after: Schema | None
    changes: tuple[Change, ...] = ()
    refusal: Refused | None = None
    committed: int | None = None
    others: Mapping[str, Schema | None] = field(default_factory=dict)
    """The newest schemas of the other branches; None where one cannot be read."""
    has_snapshots: bool = False

    @property
    def table(self) -> str:
        """The URI of the table."""
        return self.basis.table.uri

    @property
    def is_noop(self) -> bool:
        """True where the schema is already as requested."""
        return self.refusal is None and not self.changes

    def objection(self) -> Refused | None:
        """Return the error of a refused change, None without one."""
        return None if self.refusal is None else _as_unchanged(self.refusal)

    def effects(self) -> Iterator[str]:
        """Yield what changes, and what to do besides."""
        yield from (sentence(change) for change in self.changes if change.kind is not ChangeKind.HIGHEST_FIELD_ID)
        yield from (message for _, message in self.warnings)

    def so_far(self) -> str:
        """Return what was created."""
        return f"schema {self.committed} was created"

    def require_complete(self) -> None:
        """Do nothing: one version is created or not."""

    @property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """What to do besides, as code and sentence."""
        if self.is_noop or self.after is None:
            return ()
        found = [_branch_warning(fault) for fault in self._branch_faults(self.after)]
        for change in self.changes if self.has_snapshots else ():
            if (meaning := meaning_for_old_rows(change)) is not None:
                found.append(("old-rows", f"{sentence(change)}: {meaning}"))
        found += [(STALE_VIEW, message) for message in views_of_paimon(self.before.options)]
        return (*found, ("schema-copy", catalog_warning(self.before.options)))

    def _branch_faults(self, after: Schema) -> Iterator[BranchFault]:
        branch = self.request.branch
        for fault in faults_of_branches({**self.others, branch: after}):
            if branch in (fault.branch, fault.other):
                yield fault

    def as_json(self, *, dry_run: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.alter`."""
        refusals = [] if self.refusal is None else [{"code": self.refusal.code, "message": self.refusal.message}]
        return {
            "branch": self.request.branch,
            "readSchema": self.before.id,
            "requested": [change_json(change) for change in self.request.changes],
            "changes": [change.as_json() for change in self.changes],
            "refusals": refusals,
            "warnings": [{"code": code, "message": message} for code, message in self.warnings],
            "schemaBefore": self.before.as_json(),
            "schemaAfter": None if self.after is None or self.is_noop else self.after.as_json(),
            "committedSchema": self.committed,
            "dryRun": dry_run,
        }


def _branch_warning(fault: BranchFault) -> tuple[str, str]:
    if fault.is_missing:
        return "fallback-branch", f"{fault.reason}: Paimon refuses to change the table"
    return "branches-differ", f"{fault.reason}: every scan fails until both are changed alike"


def catalog_warning(options: Mapping[str, str]) -> str:
    """Return the warning that a catalog may have a copy of the schema."""
    named = sorted(key for key in options if key.startswith("metastore."))
    reason = f"; the option {named[0]} shows that this table is in one" if named else ""
    return (
        "a Hive, JDBC or REST catalog can have a copy of the schema, which this change does not reach: alter a table "
        f"of such a catalog there{reason}"
    )


@dataclass(frozen=True)
class SchemaAlteration:
    """Changes of a schema, to be planned and made in its next version."""

    act: ClassVar[Act] = Act.COMMIT

    request: AlterRequest

    def plan(self, table: TableHandle, _now: object = None) -> AlterOutcome:
        """Return the next version of the schema without creating it. A refusal is part of the plan.

        Raises UsageError for unknown columns, NotATable, Unreadable, and NoAtomicCreate where the store is read-only.
        """
        storage, branch = table.storage, self.request.branch
        require_paimon(storage)
        branches = require_branch(storage, branch)
        require_writable(storage)
        others = {other: read_newest_if_possible(storage, table.engine, other) for other in branches if other != branch}
        return self._plan(table, read_newest(storage, branch), UsedIds(storage, table.engine, branch), others)

    def outcome(self, plan: AlterOutcome) -> AlterOutcome:
        """Return the plan: nothing is created yet."""
        return replace(plan, after=plan.before) if plan.is_noop else plan

    def execute(self, gate: Gate[AlterOutcome, AlterOutcome]) -> None:
        """Create the next version of the schema, judged on the newest one, and again whenever another writer was first.

        Raises Refused, with nothing changed, and what `plan`, `Gate.again` and `commit_schema` raise.
        """
        agreed, table = gate.plan, gate.table
        used = UsedIds(table.storage, table.engine, self.request.branch)

        def make(newest: Newest) -> Schema | None:
            if not gate.may_plan_again or newest.schema.id < agreed.before.id:
                _require_same(agreed, newest)
            is_same = newest.schema == agreed.before and newest.has_snapshots == agreed.has_snapshots
            is_agreed = is_same and gate.plan is agreed
            plan = agreed if is_agreed else gate.again(self._plan(table, newest, used, agreed.others))
            return None if plan.is_noop else plan.after

        done = commit_schema(table.writable(), self.request.branch, make, machine=table.machine)
        match done:
            case NothingToCommit(before):
                gate.outcome = replace(gate.plan, before=before.schema, after=before.schema)
            case CommittedSchema(before, schema):
                changes = _changes(before, schema)
                gate.outcome = replace(
                    gate.plan, before=before.schema, after=schema, changes=changes, committed=schema.id
                )

    def _plan(
        self, table: TableHandle, newest: Newest, used: UsedIds, others: Mapping[str, Schema | None]
    ) -> AlterOutcome:
        basis = Basis(table, newest.schema.id, table.clock())
        try:
            after = _next_schema(self.request, newest, used, basis.now_ms)
        except Refused as refusal:
            return AlterOutcome(basis, self.request, newest.schema, None, refusal=refusal)
        changes = _changes(newest, after)
        return AlterOutcome(
            basis,
            self.request,
            newest.schema,
            after,
            changes,
            others=others,
            has_snapshots=newest.has_snapshots,
        )


def _require_same(agreed: AlterOutcome, newest: Newest) -> None:
    """Raise Refused where the schema that a plan was made from is gone or another one."""
    before = agreed.before
    if newest.schema.id < before.id or (newest.schema.id == before.id and newest.schema != before):
        raise Refused(
            f"schema {before.id}, on which this was planned, was replaced",
            said_first=NOTHING_CHANGED,
            code=OTHER_PAST,
            facts={"newest": f"schema {newest.schema.id}"},
            hint=command("history", limit=5),
        )


def _as_unchanged(refusal: Refused) -> Refused:
    """Return a refusal of the changes with a message that says what became of the table."""
    if type(refusal) is not Refused:
        return refusal
    unchanged = copy(refusal)
    unchanged.said_first = NOTHING_CHANGED
    return unchanged


def _next_schema(request: AlterRequest, newest: Newest, used: UsedIds, now_ms: int) -> Schema:
    """Return the next schema. Raises Refused for what Paimon refuses or what would lose data, and UsageError."""
    greatest = used.greatest(newest) if any(isinstance(change, AddColumn) for change in request.changes) else -1
    settings = EvolutionSettings(newest.has_snapshots, greatest, request.allow_lossy, request.with_options)
    after = evolve(newest.schema, request.changes, settings, time_ms=now_ms)
    require_text(after.as_json(), newest.schema.as_json())
    fault = next(_faults_of_new(after, newest.schema), None)
    if fault is not None:
        place = {} if fault.place.key is None else {"at": fault.place.key}
        code = _CODES.get(fault.rule)
        raise Refused(
            fault.message if code else f"the new schema is not valid: {fault.message}",
            code=code or fault.rule.id,
            facts=place | {"rule": fault.rule.checks},
        )
    return after


_CODES = {BLANK_NAME: "alter.name", DEFAULT_VALUE: "alter.default", DIRECTIVE: "alter.directive"}
"""Refusals by a rule that have a code of their own."""


def _changes(newest: Newest, after: Schema) -> tuple[Change, ...]:
    """Return what differs between the newest schema and the next one."""
    return changes_between(newest.schema, after, has_snapshots=newest.has_snapshots)


_UNNOTICED = (HIGHEST_ID, DEFAULT_VALUE, DIRECTIVE)
"""Errors that Paimon does not look for, so that a table can have them and still be altered."""

_UNNOTICED_IDS = (ID_DUPLICATE, ID_RANGE)
"""The same, but no field gets a new name while old files are read into the wrong column."""


def _faults_of_new(schema: Schema, before: Schema) -> Iterator[Finding]:
    """Yield the errors of a new schema, without those that the schema before has and that Paimon does not notice."""
    tolerated = _UNNOTICED if _names(schema) - _names(before) else (*_UNNOTICED, *_UNNOTICED_IDS)
    known = {_key(finding) for finding in _errors(before)}
    for finding in _errors(schema):
        if finding.rule not in tolerated or _key(finding) not in known:
            yield finding


def _names(schema: Schema) -> set[tuple[str, ...]]:
    return {path for path, _ in walk_fields(schema.fields)}


def _errors(schema: Schema) -> Iterator[Finding]:
    view = SchemaFileView(schema.id, schema)
    for check in PAIMON_CATALOGUE.checks_of(SchemaFileView):
        for finding in check.run(view):
            if finding.severity is Severity.ERROR:
                yield finding


def _key(finding: Finding) -> tuple[str, str | None, str]:
    return finding.rule.id, finding.place.key, finding.message
