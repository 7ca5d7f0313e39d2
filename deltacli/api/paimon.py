"""The Python API for Paimon tables: a table with every operation as a method."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltacli.api.care import Changes
from deltacli.core.errors import UsageError
from deltacli.core.machine import Clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import JsonObject
from deltacli.engine.base import Engine
from deltacli.paimon.snapshots import MAIN_BRANCH
from deltacli.storage import Storage, open_storage
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.secrets import without_secrets
from deltacli.table.api_arguments import require_count, require_path_text, wrong_argument
from deltacli.table.api_errors import api_method, name_table

if TYPE_CHECKING:
    from deltacli.operations.explain import Explanation
    from deltacli.operations.paimon.alter import AlterOutcome, SchemaAlteration
    from deltacli.operations.paimon.facts import PaimonHistory, PaimonSnapshot
    from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum, SchemaVacuumPlan, SchemaVacuumResult
    from deltacli.operations.validate.validate import Validation
    from deltacli.paimon.evolution.requests import SchemaChange


def open_paimon(
    uri: str | os.PathLike[str],
    *,
    branch: str = MAIN_BRANCH,
    storage_options: Mapping[str, str] | None = None,
    retry_budget: timedelta = RETRY_BUDGET,
    engine: Engine | None = None,
    clock: Clock = system_clock,
    progress: Progress = SILENT,
) -> Paimon:
    """Return the Paimon table at a path or URI, without reading anything yet. The arguments are those of `open_table`.

    Raises UsageError for an unsupported scheme, and an extra that is not installed.
    """
    from deltacli.api.table import retry_of

    name = require_path_text(uri)
    shown = without_secrets(name)
    try:
        storage = open_storage(name, options=storage_options, retry=retry_of(name, retry_budget))
    except UsageError as fault:
        name_table(fault, shown)
        raise
    return Paimon(storage, branch=branch, engine=engine, clock=clock, progress=progress, name=shown)


class Paimon(Changes):
    """A Paimon table: a handle with every operation as a method, on one of its branches."""

    is_paimon = True
    """Hints open it as one."""

    def __init__(self, storage: Storage, *, branch: str = MAIN_BRANCH, **parts: Any) -> None:  # Any: of a handle
        super().__init__(storage, **parts)
        self.branch = branch

    def __repr__(self) -> str:
        """Return the path and the branch; reads nothing."""
        return f"Paimon({without_secrets(self.storage.uri)!r}, branch={self.branch!r})"

    @api_method
    def history(self, *, limit: int = 0, with_manifests: bool = True) -> PaimonHistory:
        """Return the newest `limit` schemas and snapshots (0: all), newest first. The manifests name the users of
        schemas; where they are Avro and fastavro is missing, the result has a note and no users. Raises NotATable.
        """
        from deltacli.operations.paimon.facts import read_paimon_history

        most = require_count(limit, "limit")
        return read_paimon_history(self, self.branch, limit=most, with_manifests=with_manifests)

    @api_method
    def snapshot(
        self, *, schema_id: int | None = None, snapshot_id: int | None = None, tag: str | None = None
    ) -> PaimonSnapshot:
        """Return the newest schema and snapshot, or those of a point. Raises UsageError for more than one, NotATable,
        and Unreadable where the point does not exist.
        """
        from deltacli.operations.paimon.facts import Point, read_paimon_snapshot

        if sum(one is not None for one in (schema_id, snapshot_id, tag)) > 1:
            raise UsageError("schema_id, snapshot_id and tag exclude each other")
        return read_paimon_snapshot(self, Point(self.branch, schema_id, snapshot_id, tag))

    @api_method
    def explain(self, *, clients: Sequence[str] = ()) -> Explanation:
        """Return which clients read the newest snapshot and append to it, and what stops the others since which schema;
        `clients` are names (`pypaimon`, `pypaimon=2.1.0`; default: all that are known).

        Raises UsageError for unknown clients, NotATable, and Unreadable for the newest schema or snapshot.
        """
        from deltacli.operations.explain import ExplainRequest
        from deltacli.operations.paimon.facts import explain_paimon

        return explain_paimon(self, ExplainRequest(clients=clients), self.branch)

    @api_method
    def validate(
        self,
        *,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        profile: str = "java",
        max_findings: int = 0,
        with_manifests: bool = True,
    ) -> Validation:
        """Check all branches; `profile` is the reader that has to accept the table: java, cpp or python.

        Raises NotATable, StorageFailed, and UsageError for an unknown rule or profile.
        """
        from deltacli.operations.paimon.validate import validate_paimon_table
        from deltacli.operations.validate.findings import ValidateRequest
        from deltacli.rules.paimon.catalogue import Profile

        if profile not in set(Profile):
            raise UsageError(f"unknown profile {profile!r}", facts={"expected": ", ".join(Profile)})
        request = ValidateRequest(select=select, ignore=ignore, max_findings=max_findings)
        return validate_paimon_table(self, request, profile=Profile(profile), with_manifests=with_manifests)

    @api_method
    def alter(
        self,
        changes: Iterable[SchemaChange | JsonObject],
        *,
        allow_lossy: bool = False,
        with_options: bool = False,
        min_paimon: int | None = None,
        dry_run: bool = False,
    ) -> AlterOutcome:
        """Create one version of the schema with all changes, which are SchemaChange values or their JSON objects.

        `allow_lossy` accepts changes after which stored values are read back changed; `with_options` removes dropped
        columns from the options that name them. `min_paimon=2` states that no engine of the table is older than Paimon
        2, and permits what makes it unreadable for Paimon 1.x; without it the table's option `deltacli.min-paimon`
        decides. `dry_run` only plans; a refusal is then part of the result. Of the result, `committed` is the id of the
        new version, None where there was nothing to do.

        Raises UsageError for unknown columns, types and changes; Refused, with nothing changed; ConflictLost,
        StorageFailed, OutcomeUnknown; and what `snapshot` raises.
        """
        alteration = self._alteration(changes, allow_lossy, with_options, min_paimon)
        return self._made(alteration, dry_run=dry_run)

    @api_method
    def plan_alter(
        self,
        changes: Iterable[SchemaChange | JsonObject],
        *,
        allow_lossy: bool = False,
        with_options: bool = False,
        min_paimon: int | None = None,
    ) -> AlterOutcome:
        """Return what `alter` with the same parameters would do; a refusal is in the plan. Raises as it does."""
        return self._plan(self._alteration(changes, allow_lossy, with_options, min_paimon))

    @api_method
    def execute_alter(self, plan: AlterOutcome) -> AlterOutcome:
        """Create the version of a plan of this table. If another writer was first, it is made again, and created if its
        changes are the same; else ConflictLost is raised. Raises as `alter` does.
        """
        from deltacli.operations.paimon.alter import SchemaAlteration

        return self._execute(SchemaAlteration(plan.request), plan)

    def _alteration(
        self,
        changes: Iterable[SchemaChange | JsonObject],
        allow_lossy: bool,
        with_options: bool,
        min_paimon: int | None,
    ) -> SchemaAlteration:
        from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration

        request = AlterRequest(_as_changes(changes), self.branch, allow_lossy, with_options, min_paimon)
        return SchemaAlteration(request)

    @api_method
    def widen_type(
        self,
        *changes: tuple[str, str],
        allow_lossy: bool = False,
        min_paimon: int | None = None,
        dry_run: bool = False,
    ) -> AlterOutcome:
        """Give columns, as (column, type), wider types in one version of the schema. Raises what `alter` raises."""
        from deltacli.paimon.evolution.requests import widening

        requested = widening([word for change in changes for word in change])
        return self.alter(requested, allow_lossy=allow_lossy, min_paimon=min_paimon, dry_run=dry_run)

    @api_method
    def vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
    ) -> SchemaVacuumResult:
        """Delete, at once, the schema files of the branch that nothing needs; `dry_run=True` returns the plan.

        A schema is deleted that nothing has needed since the retention began. Data files and snapshots are not touched.

        The defaults are those of `SchemaVacuumRequest`; a shorter `retention_ms` needs `allow_retention_below_ms` with
        its default. The last `keep_last` schemas are kept. `dry_run` only plans: the outcome is None, and refusals are
        in the plan.

        Raises Refused, with nothing deleted, where a guard objects (`vacuum.*`, `paimon.*`), among them NoAtomicCreate
        for a store that is read-only; PartlyDone where files could not be deleted; and what `snapshot` raises.
        """
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuumResult

        change = self._vacuum(retention_ms, allow_retention_below_ms, keep_last)
        return SchemaVacuumResult(self._plan(change), None) if dry_run else self._carry_out(change)

    @api_method
    def plan_vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        keep_last: int | None = None,
    ) -> SchemaVacuumPlan:
        """Return what `vacuum` with the same parameters would do; refusals are in the plan. Raises as it does."""
        return self._plan(self._vacuum(retention_ms, allow_retention_below_ms, keep_last))

    @api_method
    def execute_vacuum(self, plan: SchemaVacuumPlan) -> SchemaVacuumResult:
        """Delete what a plan of this table says, if nothing needs it by now. Raises as `vacuum` does."""
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum

        return self._execute(SchemaVacuum(plan.request), plan)

    def _vacuum(self, retention_ms: int | None, below_ms: int | None, keep_last: int | None) -> SchemaVacuum:
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum, SchemaVacuumRequest

        return SchemaVacuum(SchemaVacuumRequest.of(self.branch, retention_ms, below_ms, keep_last))


def _as_changes(changes: Iterable[SchemaChange | JsonObject]) -> tuple[SchemaChange, ...]:
    """Return changes, those that are JSON objects as values. Raises UsageError."""
    from deltacli.paimon.evolution.requests import SchemaChange, change_of

    found = []
    for number, change in enumerate(changes, 1):
        if not isinstance(change, Mapping | SchemaChange):
            raise wrong_argument(change, f"change {number}", "a SchemaChange or its JSON object")
        found.append(change_of(number, change) if isinstance(change, Mapping) else change)
    return tuple(found)
