"""`alter` and `widen-type` of a Paimon table: the next version of its schema. Nothing else creates schema files.

A schema file is created atomically under a name that does not exist. Paimon's own writers look whether the name exists
and then rename a temporary file, which replaces a file that was created in between. So after creating ours, we wait for
the temporary files that are there for the same name, and read ours back. A writer that comes later sees that the name
exists. Where ours was replaced after somebody had made a version from it, that version is created once more on top:
pypaimon remembers each version that it wrote, and if one was replaced, makes the next from what it remembers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import ClassVar, assert_never

from deltacli.changing.base_commit_errors import BASE_COMMIT_REPLACED
from deltacli.changing.base_version import BaseVersion
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit_sender import MAX_REQUESTS_PER_VERSION
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import CompleteOutcome
from deltacli.changing.plan import TableUriMixin
from deltacli.changing.request_checks import require_encodable_text
from deltacli.changing.views import STALE_VIEW, find_stale_paimon_views
from deltacli.core import errors
from deltacli.core.machine import MACHINE, Machine
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.engine.base import Engine
from deltacli.operations.paimon.new_schemas import require_engine_support, require_valid_schema
from deltacli.operations.paimon.table_files import (
    list_schemas,
    read_limited,
    read_newest_if_possible,
    read_schemas,
    require_branch,
    require_paimon,
)
from deltacli.paimon import snapshots
from deltacli.paimon.data_evolution import MISSED_ROWS, describe_missed_rows
from deltacli.paimon.engines import require_paimon_version
from deltacli.paimon.evolution.evolve import EvolutionSettings, evolve
from deltacli.paimon.evolution.requests import AddColumn, SchemaChange, change_json
from deltacli.paimon.schema import MAX_SCHEMA_BYTES, Schema, read_schema
from deltacli.paimon.schema_changes import (
    Change,
    changes_between,
    find_options_of_other_columns,
    meaning_for_old_rows,
    sentence,
)
from deltacli.paimon.schema_changes import (
    ChangeKind as SchemaChangeKind,
)
from deltacli.rules.paimon.branches import BranchFault, faults_of_branches
from deltacli.storage import Created, Existed, ReadStorage, Storage, Unknown
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.handle import TableHandle

# -- commit of a schema ------------------------------------------------------------------------------------------------

MAX_ATTEMPTS = 200
"""Maximum number of versions to try. With the pauses between them this takes about ten seconds."""

_FIRST_PAUSE = 0.005  # writers of Paimon retry at once, so longer pauses would let them win
_LONGEST_PAUSE = 0.1
_MAX_READ = 5
"""Maximum number of attempts to read the newest schema, which can be deleted after it was listed."""

_OURS = re.compile(r"[0-9a-f]{32}(\.[0-9a-f]+)?\.tmp")
"""The end of the names of our own temporary files, which never replace a file. Those of Paimon have dashes."""

_PATIENCE_SECONDS = 2.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest schema of a branch, and whether the branch has snapshots."""

    schema: Schema
    ids: tuple[int, ...]
    has_snapshots: bool


@dataclass(frozen=True, slots=True)
class CommittedSchema:
    """A version that is in the table. `lost` is the number of attempts that other writers won."""

    before: Newest
    schema: Schema
    lost: int


@dataclass(frozen=True, slots=True)
class NothingToCommit:
    """The newest schema is as requested: no version was created."""

    before: Newest


Make = Callable[[Newest], Schema | None]
"""Makes the next schema from the newest one; None where there is nothing to do. May be called several times."""


def read_newest(storage: ReadStorage, branch: str) -> Newest:
    """Return the newest schema of a branch. Raises Unreadable, and Refused where its id is not that of its name."""
    for _ in range(_MAX_READ):
        ids = list_schemas(storage, branch).ids
        if not ids:
            raise errors.NotATable("the table has no schema", code="paimon.schema-missing", facts={"branch": branch})
        path = snapshots.schema_path(ids[-1], branch)
        try:
            schema = read_schema(read_limited(storage, path, MAX_SCHEMA_BYTES))
        except errors.FileMissing:
            continue  # deleted since it was listed
        except errors.Unreadable as fault:
            fault.facts = {"file": path} | fault.facts
            raise
        if schema.id != ids[-1]:
            raise errors.Refused(
                f"{path} has the id {schema.id}: the next version would get a wrong name",
                code="paimon.id-differs",
                hint=errors.command("validate", select=[errors.DoubleQuoted("paimon.id-differs")]),
            )
        return Newest(schema, ids, _has_snapshots(storage, branch))
    raise errors.ConflictLost(
        "the newest schema was deleted each time before it could be read", facts={"branch": branch}
    )


class UsedIds:
    """The ids that fields have in the schemas of a branch. Each schema is read once; unreadable ones are left out."""

    def __init__(self, storage: ReadStorage, engine: Engine, branch: str) -> None:
        self._storage, self._engine, self._branch = storage, engine, branch
        self._seen: set[int] = set()
        self._greatest = -1

    def greatest(self, newest: Newest) -> int:
        """Return the greatest id, -1 without any."""
        ids = [number for number in newest.ids if number not in self._seen and number != newest.schema.id]
        schemas = read_schemas(self._storage, self._engine, ids, self._branch).values()
        found = [schema.greatest_id for schema in schemas if isinstance(schema, Schema)]
        self._greatest = max(self._greatest, newest.schema.greatest_id, *found)
        self._seen.update(ids)
        return self._greatest


def _has_snapshots(storage: ReadStorage, branch: str) -> bool:
    directory = f"{snapshots.branch_root(branch)}{snapshots.SNAPSHOT_DIRECTORY}"
    try:
        names = (stat.name for stat in storage.list_from(directory, snapshots.SNAPSHOT_PREFIX))
        return any(snapshots.number_of(name, snapshots.SNAPSHOT_PREFIX) is not None for name in names)
    except errors.FileMissing:
        return False


def commit_schema(
    storage: Storage, branch: str, make: Make, *, max_attempts: int = MAX_ATTEMPTS, machine: Machine = MACHINE
) -> CommittedSchema | NothingToCommit:
    """Make a schema from the newest one and create it as the next one, from the new newest one again whenever another
    writer was first.

    Raises what `make` raises, Unreadable, NoAtomicCreate and StorageFailed, with nothing changed; ConflictLost after
    `max_attempts`, with nothing changed; OutcomeUnknown where the file was sent and cannot be read back.
    """
    require_writable(storage)
    ours: list[tuple[Newest, Schema]] = []
    """Versions that were created and then replaced by another writer."""
    for attempt in range(max_attempts):
        if attempt:
            _pause(machine, attempt)
        newest = read_newest(storage, branch)
        before = next((before for before, made in ours if _has_them(before, made, newest.schema)), None)
        schema = _on_top_of(newest.schema) if before else make(newest)
        if schema is None:
            return NothingToCommit(newest)
        try:
            if not _create(storage, branch, schema, machine):
                continue
            if _is_kept(storage, branch, schema, machine):
                return CommittedSchema(before or newest, schema, attempt)
        except BaseException as stop:
            if not isinstance(stop, Exception):
                stop.add_note(_note(storage, branch, schema))
            raise
        if before is None:
            ours.append((newest, schema))
    raise errors.ConflictLost(
        "other writers created every version that was tried",
        preamble=errors.NOTHING_CHANGED,
        facts={"versions tried": str(max_attempts)},
        hint=errors.command("history", limit=10),
    )


def _pause(machine: Machine, repetition: int) -> None:
    machine.sleep_up_to(min(_LONGEST_PAUSE, _FIRST_PAUSE * repetition))


def _on_top_of(schema: Schema) -> Schema:
    """Return the next version, with the same fields. The highest id grows, because other writers count on from it."""
    return replace(schema, id=schema.id + 1, highest_field_id=schema.highest_field_id + 1)


def _create(storage: Storage, branch: str, schema: Schema, machine: Machine) -> bool:
    """Create a schema file and return whether it is ours; returns only certain outcomes."""
    path, data = snapshots.schema_path(schema.id, branch), schema.encode()
    cause: str | None = None
    """Why the outcome is unknown. From then on the file may exist or appear later, with these bytes."""
    fault: errors.StorageFailed | None = None
    for asked in range(MAX_REQUESTS_PER_VERSION):
        if asked:
            _pause(machine, asked)
        try:
            answer = storage.put_if_absent(path, data)
        except errors.StorageFailed as failed:
            if cause is None:
                raise  # an error here means that nothing was written
            fault = failed
            continue
        match answer:
            case Created():
                return True
            case Existed():  # by another writer, or a proxy sent ours twice
                pass
            case Unknown(why):
                cause = why
            case other:
                assert_never(other)
        try:
            return storage.read(path) == data
        except errors.FileMissing as failed:  # it is sent again: it may never have arrived
            fault = failed
        except errors.StorageFailed as failed:
            cause, fault = cause or "the file exists and cannot be read", failed
    raise _unknown(path, cause, fault)


def _is_kept(storage: ReadStorage, branch: str, schema: Schema, machine: Machine) -> bool:
    """Return whether a version that was created is still there, once no other writer can replace it any more."""
    path = snapshots.schema_path(schema.id, branch)
    try:
        waiting = _rivals(storage, branch, schema.id)
        for _ in range(round(_PATIENCE_SECONDS / _POLL_SECONDS)):
            if not waiting:
                break
            machine.sleep(_POLL_SECONDS)
            waiting &= _rivals(storage, branch, schema.id)
        return read_schema(storage.read(path)).encode() == schema.encode()
    except (errors.FileMissing, errors.Unreadable):
        return False
    except errors.StorageFailed as fault:
        raise _unknown(path, "the file was created, and could not be read back", fault) from fault


def _rivals(storage: ReadStorage, branch: str, schema_id: int) -> set[str]:
    """Return the temporary files of writers that are about to create the same schema file."""
    prefix = f".{snapshots.SCHEMA_PREFIX}{schema_id}."
    names = (
        stat.name for stat in storage.list_from(f"{snapshots.branch_root(branch)}{snapshots.SCHEMA_DIRECTORY}", prefix)
    )
    found = set()
    for name in names:
        if not name.startswith(prefix):
            break
        if name.endswith(".tmp") and _OURS.fullmatch(name.removeprefix(prefix)) is None:
            found.add(name)
    return found


def _has_them(before: Newest, made: Schema, newest: Schema) -> bool:
    """Return whether a newer schema was made from the one that we made, although our file was replaced."""
    if newest.id <= made.id:
        return False
    present = list(changes_between(before.schema, newest))
    skipped = (SchemaChangeKind.HIGHEST_FIELD_ID, SchemaChangeKind.POSITION)
    return all(change in present for change in changes_between(before.schema, made) if change.kind not in skipped)


def _note(storage: ReadStorage, branch: str, schema: Schema) -> str:
    """Return the outcome of a creation that was in flight when the run was interrupted; looks once."""
    path = snapshots.schema_path(schema.id, branch)
    try:
        is_ours = storage.read(path) == schema.encode()
    except errors.DeltacliError:
        return f"{path} may have been created"
    return f"{path} was created" if is_ours else "nothing was changed"


def _unknown(path: str, cause: str | None, fault: errors.StorageFailed | None) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(
        f"{path} was sent, but it is not known whether it is in the table",
        code="paimon.outcome-unknown",
        facts={
            "file": path,
            "why": cause or "no answer",
            **({} if fault is None else {"looking for it": fault.message}),
            "to check": "the change was made if the history of the table shows it",
        },
        hint=errors.command("history", limit=5),
    )


# -- the change --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """Changes to make in one version of the schema, in this order.

    Attributes:
        changes: The changes.
        branch: The branch whose schema is changed.
        allow_lossy: True to accept changes after which stored values are read back changed.
        with_options: True to remove dropped columns from the options that name them.
        min_paimon: The oldest major version of Paimon among the engines of the table, 1 or 2. With None the option
            `deltacli.min-paimon` of the table says it, and without that it is 1.
    """

    changes: tuple[SchemaChange, ...]
    branch: str = snapshots.MAIN_BRANCH
    allow_lossy: bool = False
    with_options: bool = False
    min_paimon: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a text that is not Unicode, and for an unknown version of Paimon."""
        require_paimon_version(self.min_paimon, "alter.min_paimon")
        for change in self.changes:
            require_encodable_text(change_json(change), None)


@short_repr("table", "changes", "committed", "refusal=refusal.code", "is_noop")
@dataclass(frozen=True, slots=True, repr=False)
class AlterOutcome(CompleteOutcome, TableUriMixin):
    """A planned or executed change. `after` is None where it is refused, and equal to `before` in all that matters
    where there is nothing to do. `committed` is the id of the version that was created.
    """

    base_version: BaseVersion
    request: AlterRequest
    before: Schema
    after: Schema | None
    changes: tuple[Change, ...] = ()
    refusal: errors.Refused | None = None
    committed: int | None = None
    others: Mapping[str, Schema | None] = field(default_factory=dict)
    """The newest schemas of the other branches; None where one cannot be read."""
    has_snapshots: bool = False

    @property
    def is_noop(self) -> bool:
        return self.refusal is None and not self.changes

    def build_refusal(self) -> errors.Refused | None:
        return None if self.refusal is None else _as_unchanged(self.refusal)

    def effects(self) -> Iterator[str]:
        yield from (sentence(change) for change in self.changes if change.kind is not SchemaChangeKind.HIGHEST_FIELD_ID)
        yield from (message for _, message in self.warnings)

    def describe_progress(self) -> str:
        return f"schema {self.committed} was created"

    @property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """What to do besides, as code and sentence."""
        if self.is_noop or self.after is None:
            return ()
        found = [_branch_warning(fault) for fault in self._branch_faults(self.after)]
        changes = (*self.changes, *find_options_of_other_columns(self.before, self.after))
        for change in changes if self.has_snapshots else ():
            if (meaning := meaning_for_old_rows(change, self.before, self.after)) is not None:
                found.append(("old-rows", f"{sentence(change)}: {meaning}"))
            missed = describe_missed_rows(change, self.after.options, min_paimon=self.request.min_paimon)
            if missed is not None:
                found.append((MISSED_ROWS, f"{sentence(change)}: {missed}"))
        found += [(STALE_VIEW, message) for message in find_stale_paimon_views(self.before.options)]
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

    kind: ClassVar[ChangeKind] = ChangeKind.CHANGE_METADATA

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
        return replace(plan, after=plan.before) if plan.is_noop else plan

    def execute(self, execution: ChangeExecution[AlterOutcome, AlterOutcome]) -> None:
        """Create the next version of the schema, judged on the newest one, and again whenever another writer was first.

        Raises Refused, with nothing changed, and what `plan`, `ChangeExecution.accept_new_plan` and `commit_schema`
        raise.
        """
        agreed, table = execution.plan, execution.table
        used = UsedIds(table.storage, table.engine, self.request.branch)

        def make(newest: Newest) -> Schema | None:
            if not execution.accepts_any_plan or newest.schema.id < agreed.before.id:
                _require_same(agreed, newest)
            is_same = newest.schema == agreed.before and newest.has_snapshots == agreed.has_snapshots
            is_agreed = is_same and execution.plan is agreed
            plan = agreed if is_agreed else execution.accept_new_plan(self._plan(table, newest, used, agreed.others))
            return None if plan.is_noop else plan.after

        done = commit_schema(table.writable(), self.request.branch, make, machine=table.machine)
        match done:
            case NothingToCommit(before):
                execution.outcome = replace(execution.plan, before=before.schema, after=before.schema)
            case CommittedSchema(before, schema):
                changes = _changes(before, schema)
                execution.outcome = replace(
                    execution.plan, before=before.schema, after=schema, changes=changes, committed=schema.id
                )

    def _plan(
        self, table: TableHandle, newest: Newest, used: UsedIds, others: Mapping[str, Schema | None]
    ) -> AlterOutcome:
        base_version = BaseVersion(table, newest.schema.id, table.clock())
        try:
            after = _next_schema(self.request, newest, used, base_version.now_ms)
        except errors.Refused as refusal:
            return AlterOutcome(base_version, self.request, newest.schema, None, refusal=refusal)
        changes = _changes(newest, after)
        return AlterOutcome(
            base_version, self.request, newest.schema, after, changes, others=others, has_snapshots=newest.has_snapshots
        )


def _require_same(agreed: AlterOutcome, newest: Newest) -> None:
    """Raise Refused where the schema that a plan was made from is gone or another one."""
    before = agreed.before
    if newest.schema.id < before.id or (newest.schema.id == before.id and newest.schema != before):
        raise errors.Refused(
            f"schema {before.id}, on which this was planned, was replaced",
            preamble=errors.NOTHING_CHANGED,
            code=BASE_COMMIT_REPLACED,
            facts={"newest": f"schema {newest.schema.id}"},
            hint=errors.command("history", limit=5),
        )


def _as_unchanged(refusal: errors.Refused) -> errors.Refused:
    """Return a refusal of the changes with a message that says what became of the table."""
    if type(refusal) is not errors.Refused:
        return refusal
    unchanged = copy(refusal)
    unchanged.preamble = errors.NOTHING_CHANGED
    return unchanged


def _next_schema(request: AlterRequest, newest: Newest, used: UsedIds, now_ms: int) -> Schema:
    """Return the next schema. Raises Refused for what Paimon refuses or what would lose data, and UsageError."""
    greatest = used.greatest(newest) if any(isinstance(change, AddColumn) for change in request.changes) else -1
    settings = EvolutionSettings(newest.has_snapshots, greatest, request.allow_lossy, request.with_options)
    after = evolve(newest.schema, request.changes, settings, time_ms=now_ms)
    require_encodable_text(after.as_json(), newest.schema.as_json())
    require_valid_schema(after, newest.schema)
    require_engine_support(after, newest.schema, min_paimon=request.min_paimon, operation="alter")
    return after


def _changes(newest: Newest, after: Schema) -> tuple[Change, ...]:
    return changes_between(newest.schema, after, has_snapshots=newest.has_snapshots)
