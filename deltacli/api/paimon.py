"""`open_paimon`, and `Paimon`: a Paimon table with every operation as a method."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltacli.api.changeable_table import ChangeableTable
from deltacli.core.errors import UsageError
from deltacli.core.machine import Clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import JsonObject
from deltacli.engine.base import Engine
from deltacli.paimon.snapshots import MAIN_BRANCH
from deltacli.storage import Storage, open_storage
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_arguments import require_count, require_path_text, wrong_argument
from deltacli.table.api_errors import api_method, name_table

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.operations.explain import Explanation
    from deltacli.operations.paimon.alter import AlterOutcome, AlterRequest
    from deltacli.operations.paimon.facts import PaimonHistory, PaimonSnapshot
    from deltacli.operations.paimon.vacuum_schemas import (
        SchemaVacuumPlan,
        SchemaVacuumRequest,
        SchemaVacuumResult,
    )
    from deltacli.operations.validate.validate import Validation
    from deltacli.paimon.evolution.requests import SchemaChange
    from deltacli.rules.framework.base import Finding


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
    """Return the Paimon table at a path or URI. Nothing is read before a method is called.

    Args:
        uri: The table. Hints of errors name it as it is given here.
        branch: The branch that methods read and change.
        storage_options: Options of the store, such as credentials. None: the environment has them.
        retry_budget: How long a request to a store is retried. Zero: never.
        engine: Runs the units of work of operations. None: threads of this process.
        clock: Returns the time in epoch milliseconds.
        progress: Receives the progress of operations.

    Raises:
        UsageError: If a scheme is not supported, or an extra is not installed.
    """
    from deltacli.api.table import retry_policy

    name = require_path_text(uri)
    shown_name = mask_secrets(name)
    try:
        storage = open_storage(name, options=storage_options, retry=retry_policy(name, retry_budget))
    except UsageError as error:
        name_table(error, shown_name)
        raise
    return Paimon(storage, branch=branch, engine=engine, clock=clock, progress=progress, name=shown_name)


class Paimon(ChangeableTable):
    """One branch of a Paimon table, with every operation as a method.

    Methods that change the table act at once and never ask. With `dry_run=True` they change nothing.

    Attributes:
        is_paimon: True. Hints of errors open the table by `open_paimon`.
        branch: The branch that methods read and change.
    """

    is_paimon = True

    def __init__(self, storage: Storage, *, branch: str = MAIN_BRANCH, **parts: Any) -> None:  # Any: of a handle
        super().__init__(storage, **parts)
        self.branch = branch

    def __repr__(self) -> str:
        """Return the path and the branch. Nothing is read."""
        return f"Paimon({mask_secrets(self.storage.uri)!r}, branch={self.branch!r})"

    @api_method
    def history(self, *, limit: int = 0, with_manifests: bool = True) -> PaimonHistory:
        """Return schemas and snapshots, newest first.

        Args:
            limit: The number of them, the newest. 0: all of them.
            with_manifests: True to read manifests, which name the users of schemas. Where they are Avro and fastavro
                is missing, the result has a note, and no users.

        Raises:
            NotATable: If there is no table.
        """
        from deltacli.operations.paimon.facts import read_paimon_history

        return read_paimon_history(
            self, self.branch, limit=require_count(limit, "limit"), with_manifests=with_manifests
        )

    @api_method
    def snapshot(
        self, *, schema_id: int | None = None, snapshot_id: int | None = None, tag: str | None = None
    ) -> PaimonSnapshot:
        """Return the newest schema and snapshot, or those of a point. At most one point is given.

        Args:
            schema_id: The id of a schema.
            snapshot_id: The id of a snapshot.
            tag: The name of a tag.

        Raises:
            UsageError: If more than one point is given.
            NotATable: If there is no table.
            Unreadable: If the point does not exist.
        """
        from deltacli.operations.paimon.facts import Point, read_paimon_snapshot

        if [schema_id, snapshot_id, tag].count(None) < 2:
            raise UsageError("schema_id, snapshot_id and tag exclude each other")
        return read_paimon_snapshot(self, Point(self.branch, schema_id, snapshot_id, tag))

    @api_method
    def explain(self, *, clients: Sequence[str] = ()) -> Explanation:
        """Return which clients read the newest snapshot and append to it, and since which schema the others cannot.

        Args:
            clients: Names of clients, each with a version or without: `pypaimon`, `pypaimon=2.1.0`. Empty: all that
                are known.

        Raises:
            UsageError: If a client is unknown.
            NotATable: If there is no table.
            Unreadable: If the newest schema or snapshot cannot be read.
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
        on_finding: Callable[[Finding], None] | None = None,
    ) -> Validation:
        """Check all branches of the table.

        Args:
            select: Globs over the ids of rules. Empty: all rules.
            ignore: Globs over the ids of rules to skip.
            profile: The reader that has to accept the table: `java`, `cpp` or `python`.
            max_findings: The largest number of findings per rule. 0: all of them.
            with_manifests: True to read manifests, too.
            on_finding: Receives each finding when it is made, in no particular order.

        Raises:
            UsageError: If a rule or the profile is unknown.
            NotATable: If there is no table.
            StorageFailed: If the store fails.
        """
        from deltacli.operations.paimon.validate import validate_paimon_table
        from deltacli.operations.validate.findings import ValidateRequest
        from deltacli.rules.paimon.catalogue import Profile

        if profile not in set(Profile):
            raise UsageError(f"unknown profile {profile!r}", facts={"expected": ", ".join(Profile)})
        request = ValidateRequest(select=select, ignore=ignore, max_findings=max_findings)
        return validate_paimon_table(
            self, request, profile=Profile(profile), with_manifests=with_manifests, on_finding=on_finding
        )

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
        """Create one version of the schema with all changes.

        Args:
            changes: The changes, in their order: SchemaChange values, or their JSON objects.
            allow_lossy: True to accept changes after which stored values are read back changed.
            with_options: True to remove dropped columns from the options that name them.
            min_paimon: The oldest major version of Paimon among the engines of the table. 2 permits what makes the
                table unreadable for Paimon 1.x. None: the table's option `deltacli.min-paimon` says it.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome, or the plan with its refusal. `committed` is the id of the new version, None where there was
            nothing to do.

        Raises:
            UsageError: If columns, types or changes are unknown.
            Refused: If a guard objects. Nothing is changed.
            ConflictLost: If another writer was first, and the change would now do something else.
            StorageFailed: If the store fails.
            OutcomeUnknown: If nobody knows whether the version was created.
            DeltacliError: Whatever `snapshot` raises.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        request = self._alter_request(changes, allow_lossy, with_options, min_paimon)
        return plan_or_carry_out(self.prepare_alter(request), dry_run=dry_run)

    @api_method
    def plan_alter(
        self,
        changes: Iterable[SchemaChange | JsonObject],
        *,
        allow_lossy: bool = False,
        with_options: bool = False,
        min_paimon: int | None = None,
    ) -> AlterOutcome:
        """Return what `alter` with the same arguments would do; a refusal is in the plan. Raises as it does."""
        request = self._alter_request(changes, allow_lossy, with_options, min_paimon)
        return self.prepare_alter(request).plan()

    @api_method
    def execute_alter(self, plan: AlterOutcome) -> AlterOutcome:
        """Create the version of a plan of this table.

        If another writer was first, the change is planned again, and made if its changes are the same.

        Raises:
            ConflictLost: If the new plan has other changes.
            DeltacliError: Whatever `alter` raises.
        """
        return self.prepare_alter(plan.request).execute(plan)

    def prepare_alter(self, request: AlterRequest) -> PreparedChange[AlterOutcome, AlterOutcome]:
        """Return the change of `alter` and `widen_type`, not planned yet."""
        from deltacli.operations.paimon.alter import SchemaAlteration

        return self._prepare(SchemaAlteration(request))

    def _alter_request(
        self,
        changes: Iterable[SchemaChange | JsonObject],
        allow_lossy: bool,
        with_options: bool,
        min_paimon: int | None,
    ) -> AlterRequest:
        """Return the request of `alter` for the branch of this table."""
        from deltacli.operations.paimon.alter import AlterRequest

        return AlterRequest(_parse_changes(changes), self.branch, allow_lossy, with_options, min_paimon)

    @api_method
    def widen_type(
        self,
        *changes: tuple[str, str],
        allow_lossy: bool = False,
        min_paimon: int | None = None,
        dry_run: bool = False,
    ) -> AlterOutcome:
        """Give columns wider types in one version of the schema. Returns and raises what `alter` does.

        Args:
            changes: Pairs of a column and its new type.
            allow_lossy: True to accept changes after which stored values are read back changed.
            min_paimon: The oldest major version of Paimon among the engines of the table, as for `alter`.
            dry_run: True to plan only, and change nothing.
        """
        from deltacli.paimon.evolution.requests import widening

        words = [word for change in changes for word in change]
        return self.alter(widening(words), allow_lossy=allow_lossy, min_paimon=min_paimon, dry_run=dry_run)

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

        A schema is deleted if nothing has needed it since the retention began. Data files and snapshots are not
        touched.

        Args:
            retention_ms: How long a schema is kept after it was needed, in milliseconds. None: the default of
                `SchemaVacuumRequest`.
            allow_retention_below_ms: The default retention, to allow a shorter one.
            keep_last: The number of newest schemas that are kept in any case. None: the default.
            dry_run: True to plan only, and change nothing.

        Returns:
            The plan with its outcome. The outcome is None after a dry run, whose refusals are in the plan.

        Raises:
            Refused: If a guard objects (`vacuum.*`, `paimon.*`), or the store is read-only. Nothing is deleted.
            PartlyDone: If files could not be deleted.
            DeltacliError: Whatever `snapshot` raises.
        """
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuumRequest, SchemaVacuumResult

        request = SchemaVacuumRequest.of(self.branch, retention_ms, allow_retention_below_ms, keep_last)
        change = self.prepare_vacuum(request)
        return SchemaVacuumResult(change.plan(), None) if dry_run else change.carry_out()

    @api_method
    def plan_vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        keep_last: int | None = None,
    ) -> SchemaVacuumPlan:
        """Return what `vacuum` with the same arguments would do; refusals are in the plan. Raises as it does."""
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuumRequest

        request = SchemaVacuumRequest.of(self.branch, retention_ms, allow_retention_below_ms, keep_last)
        return self.prepare_vacuum(request).plan()

    @api_method
    def execute_vacuum(self, plan: SchemaVacuumPlan) -> SchemaVacuumResult:
        """Delete what a plan of this table says, if nothing needs it by now. Raises as `vacuum` does."""
        return self.prepare_vacuum(plan.request).execute(plan)

    def prepare_vacuum(self, request: SchemaVacuumRequest) -> PreparedChange[SchemaVacuumPlan, SchemaVacuumResult]:
        """Return the change of `vacuum`, not planned yet."""
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum

        return self._prepare(SchemaVacuum(request))


def _parse_changes(changes: Iterable[SchemaChange | JsonObject]) -> tuple[SchemaChange, ...]:
    """Return changes as values. Those that are JSON objects are parsed.

    Raises:
        UsageError: If one is neither, with its number.
    """
    from deltacli.paimon.evolution.requests import SchemaChange, change_of

    parsed = []
    for number, change in enumerate(changes, 1):
        if isinstance(change, SchemaChange):
            parsed.append(change)
        elif isinstance(change, Mapping):
            parsed.append(change_of(number, change))
        else:
            raise wrong_argument(change, f"change {number}", "a SchemaChange or its JSON object")
    return tuple(parsed)
