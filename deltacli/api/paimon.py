"""The Python API for Paimon tables: the function `open_paimon` and the class `Paimon`."""

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
    from deltacli.operations.paimon.alter import AlterOutcome
    from deltacli.operations.paimon.facts import PaimonHistory, PaimonSnapshot
    from deltacli.operations.paimon.vacuum_schemas import (
        SchemaVacuumPlan,
        SchemaVacuumResult,
    )
    from deltacli.operations.schemas.described import DescribedSchema
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
    """Open a Paimon table. Files are read when a method is called, not before.

    Args:
        uri: The path or URI of the table, such as `s3://lake/warehouse/orders`. Error messages contain it unchanged.
        branch: The branch that methods read and change.
        storage_options: Options of the store, such as credentials. None reads them from the environment.
        retry_budget: The maximum time for retries of a request to the store. Zero disables retries.
        engine: Runs the parallel parts of operations. None uses threads of this process.
        clock: Returns the current time in epoch milliseconds.
        progress: The listener for the progress of operations.

    Raises:
        UsageError: If the scheme of the URI is not supported, or the extra for the scheme is not installed.
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
    """A branch of a Paimon table. Each operation is a method.

    Methods that change the table do not ask for confirmation. With `dry_run=True` they return the plan and change
    nothing.

    Attributes:
        is_paimon: True. It makes the hints of errors call `open_paimon` instead of `open_table`.
        branch: The branch that methods read and change.
    """

    is_paimon = True

    def __init__(self, storage: Storage, *, branch: str = MAIN_BRANCH, **parts: Any) -> None:  # Any: of a handle
        super().__init__(storage, **parts)
        self.branch = branch

    def __repr__(self) -> str:
        """Return the URI and the branch, without reading the table."""
        return f"Paimon({mask_secrets(self.storage.uri)!r}, branch={self.branch!r})"

    @api_method
    def history(self, *, limit: int = 0, with_manifests: bool = True) -> PaimonHistory:
        """Return the schemas and snapshots of the branch, newest first.

        Args:
            limit: The number of newest schemas and snapshots to return; 0 for all.
            with_manifests: Whether to read the manifests, to find the snapshots whose data files use a schema. If the
                manifests are Avro files and the package fastavro is missing, the result contains a note instead.

        Raises:
            NotATable: If the path is not a Paimon table.
        """
        from deltacli.operations.paimon.facts import read_paimon_history

        return read_paimon_history(
            self, self.branch, limit=require_count(limit, "limit"), with_manifests=with_manifests
        )

    @api_method
    def snapshot(
        self, *, schema_id: int | None = None, snapshot_id: int | None = None, tag: str | None = None
    ) -> PaimonSnapshot:
        """Return the newest schema and snapshot, or those that one of the parameters selects.

        Args:
            schema_id: The id of a schema.
            snapshot_id: The id of a snapshot.
            tag: The name of a tag.

        Raises:
            UsageError: If more than one parameter is passed.
            NotATable: If the path is not a Paimon table.
            Unreadable: If the schema, snapshot or tag does not exist.
        """
        from deltacli.operations.paimon.facts import Point, read_paimon_snapshot

        if [schema_id, snapshot_id, tag].count(None) < 2:
            raise UsageError("schema_id, snapshot_id and tag exclude each other")
        return read_paimon_snapshot(self, Point(self.branch, schema_id, snapshot_id, tag))

    @api_method
    def describe_schema(
        self, *, schema_id: int | None = None, snapshot_id: int | None = None, tag: str | None = None
    ) -> DescribedSchema:
        """Return a schema of the branch, for `diff_schemas` and `convert_schema` of `deltacli.api.schemas`.

        Args:
            schema_id: The id of a schema.
            snapshot_id: The id of a snapshot.
            tag: The name of a tag.

        Raises:
            DeltacliError: The errors of `snapshot`.
        """
        from deltacli.operations.schemas.described import describe_paimon

        return describe_paimon(self.snapshot(schema_id=schema_id, snapshot_id=snapshot_id, tag=tag))

    @api_method
    def explain(self, *, clients: Sequence[str] = ()) -> Explanation:
        """Return for each client whether it can read the newest snapshot and append to it.

        If a client cannot, the result contains the first schema that the client does not support.

        Args:
            clients: Names of clients with an optional version, such as `pypaimon` and `pypaimon=2.1.0`. An empty
                sequence selects all known clients.

        Raises:
            UsageError: If a client is unknown.
            NotATable: If the path is not a Paimon table.
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
        """Check all branches of the table against the rules of `deltacli validate`.

        Args:
            select: Glob patterns of rule ids to check, such as `paimon.*`. An empty sequence selects all rules.
            ignore: Glob patterns of rule ids to skip.
            profile: The Paimon implementation that must be able to read the table: `java`, `cpp` or `python`.
            max_findings: The maximum number of findings per rule; 0 for no maximum.
            with_manifests: Whether to read manifests.
            on_finding: Called with each finding as soon as it is found, in no particular order.

        Raises:
            UsageError: If a pattern matches no rule, or the profile is unknown.
            NotATable: If the path is not a Paimon table.
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
        """Apply changes to the schema, and create a new schema file with the result.

        Args:
            changes: The changes in the order in which they are applied: SchemaChange objects, or their JSON objects.
            allow_lossy: Whether to allow changes of types that stored values do not fit into, such as from BIGINT to
                INT. Readers return other values afterwards.
            with_options: Whether to remove dropped columns from table options that contain their names.
            min_paimon: The lowest major version of Paimon that reads the table. 2 allows changes that make the table
                unreadable for Paimon 1.x. None uses the table option `deltacli.min-paimon`.
            dry_run: Whether to return the plan without changing the table.

        Returns:
            The outcome; for a dry run the plan, including its refusal. `committed` is the id of the new schema, or None
            if the schema already was as requested.

        Raises:
            UsageError: If a column, a type or a kind of change is unknown.
            Refused: If a guard stops the change. Nothing is changed.
            ConflictLost: If another writer has created a schema in the meantime, and the changes now have another
                effect.
            StorageFailed: If the store fails.
            OutcomeUnknown: If it is unknown whether the schema was created.
            DeltacliError: The errors of `snapshot`.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        change = self.prepare_alter(changes, allow_lossy=allow_lossy, with_options=with_options, min_paimon=min_paimon)
        return plan_or_carry_out(change, dry_run=dry_run)

    @api_method
    def plan_alter(
        self,
        changes: Iterable[SchemaChange | JsonObject],
        *,
        allow_lossy: bool = False,
        with_options: bool = False,
        min_paimon: int | None = None,
    ) -> AlterOutcome:
        """Return the plan of `alter` without changing the table.

        Takes the same arguments and raises the same errors as `alter`, except that a refusal is part of the plan.
        """
        change = self.prepare_alter(changes, allow_lossy=allow_lossy, with_options=with_options, min_paimon=min_paimon)
        return change.plan()

    @api_method
    def execute_alter(self, plan: AlterOutcome) -> AlterOutcome:
        """Execute a plan that `plan_alter` returned for this table.

        If another writer has created a schema in the meantime, the change is planned again. It is executed if the new
        plan has the same effects.

        Raises:
            ConflictLost: If the new plan has other effects.
            DeltacliError: The errors of `alter`.
        """
        from deltacli.operations.paimon.alter import SchemaAlteration

        return self._prepare(SchemaAlteration(plan.request)).execute(plan)

    def prepare_alter(
        self,
        changes: Iterable[SchemaChange | JsonObject],
        *,
        allow_lossy: bool = False,
        with_options: bool = False,
        min_paimon: int | None = None,
    ) -> PreparedChange[AlterOutcome, AlterOutcome]:
        """Return `alter` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration

        request = AlterRequest(_parse_changes(changes), self.branch, allow_lossy, with_options, min_paimon)
        return self._prepare(SchemaAlteration(request))

    @api_method
    def widen_type(
        self,
        *changes: tuple[str, str],
        allow_lossy: bool = False,
        min_paimon: int | None = None,
        dry_run: bool = False,
    ) -> AlterOutcome:
        """Change the types of columns to wider types. Returns the same result and raises the same errors as `alter`.

        Args:
            changes: Pairs of a column and its new type, such as `("id", "BIGINT")`.
            allow_lossy: See `alter`.
            min_paimon: See `alter`.
            dry_run: Whether to return the plan without changing the table.
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

        A schema is deleted if it has been unused for longer than the retention.

        Data files and snapshots are not deleted.

        Args:
            retention_ms: The time in milliseconds for which a schema is kept after its last use. None uses the default
                of `SchemaVacuumRequest`.
            allow_retention_below_ms: The default retention, as a confirmation if `retention_ms` is shorter.
            keep_last: The number of newest schemas that are never deleted. None uses the default.
            dry_run: Whether to return the plan without deleting files.

        Returns:
            The plan and its outcome. After a dry run, the outcome is None, and the plan includes the refusals.

        Raises:
            Refused: If a guard stops the vacuum (`vacuum.*`, `paimon.*`), or the store is read-only. Nothing is
                deleted.
            PartlyDone: If some files could not be deleted.
            DeltacliError: The errors of `snapshot`.
        """
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuumResult

        change = self.prepare_vacuum(
            retention_ms=retention_ms, allow_retention_below_ms=allow_retention_below_ms, keep_last=keep_last
        )
        return SchemaVacuumResult(change.plan(), None) if dry_run else change.carry_out()

    @api_method
    def plan_vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        keep_last: int | None = None,
    ) -> SchemaVacuumPlan:
        """Return the plan of `vacuum` without deleting files.

        Takes the same arguments and raises the same errors as `vacuum`, except that refusals are part of the plan.
        """
        change = self.prepare_vacuum(
            retention_ms=retention_ms, allow_retention_below_ms=allow_retention_below_ms, keep_last=keep_last
        )
        return change.plan()

    @api_method
    def execute_vacuum(self, plan: SchemaVacuumPlan) -> SchemaVacuumResult:
        """Delete the files of a plan that `plan_vacuum` returned for this table.

        Before the deletion, it is checked again that the files are unused. Raises the same errors as `vacuum`.
        """
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum

        return self._prepare(SchemaVacuum(plan.request)).execute(plan)

    def prepare_vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        keep_last: int | None = None,
    ) -> PreparedChange[SchemaVacuumPlan, SchemaVacuumResult]:
        """Return `vacuum` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum, SchemaVacuumRequest

        request = SchemaVacuumRequest.of(self.branch, retention_ms, allow_retention_below_ms, keep_last)
        return self._prepare(SchemaVacuum(request))


def _parse_changes(changes: Iterable[SchemaChange | JsonObject]) -> tuple[SchemaChange, ...]:
    """Convert the changes that are JSON objects to SchemaChange objects.

    Raises:
        UsageError: If a change is neither a SchemaChange nor a valid JSON object. The message contains its number.
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
