"""`deltacli vacuum --schemas`: plan, ask, delete the schema files of a Paimon table that nothing needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.cli.confirmation import require_confirmation, require_now_is_not_ahead
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again, again_with, again_without, quoted_table
from deltacli.errors import DeltacliError, PaimonTable, Refused
from deltacli.units import format_size, parse_duration, plural

if TYPE_CHECKING:
    from deltacli.operations.paimon.vacuum_schemas import SchemaVacuumOutcome, SchemaVacuumPlan, SchemaVacuumRequest
    from deltacli.storage import Storage


class SchemaVacuumOptions(NamedTuple):
    """The options as on the command line; None means not given."""

    schemas: bool
    branch: str | None
    retention: str | None
    allow_below: str | None
    keep_last: int | None
    files: bool
    dry_run: bool
    yes: bool

    def request(self) -> SchemaVacuumRequest:
        """Return the request for a plan. Raises UsageError for an invalid duration."""
        from deltacli.operations.paimon.vacuum_schemas import (
            DEFAULT_KEEP_LAST,
            DEFAULT_RETENTION_MS,
            SchemaVacuumRequest,
        )

        below = self.allow_below
        return SchemaVacuumRequest(
            self.branch or "main",
            DEFAULT_RETENTION_MS if self.retention is None else parse_duration(self.retention, "--retention"),
            None if below is None else parse_duration(below, "--allow-retention-below"),
            DEFAULT_KEEP_LAST if self.keep_last is None else self.keep_last,
        )


def vacuum_schemas(run: Run, table: str, storage: Storage, options: SchemaVacuumOptions) -> None:
    """Delete schema files that nothing needs. Raises PaimonTable without `--schemas`, and Refused."""
    from deltacli.operations.paimon.vacuum_schemas import plan_schema_vacuum

    if not options.schemas:
        raise _of_data(storage)
    request = options.request()
    plan = plan_schema_vacuum(storage, run.engine, request, now_ms=run.clock(), progress=run.progress_of(storage))
    if options.dry_run:
        _show(run, plan, None, options, dry_run=True)
        _require_allowed(plan)
        if plan.candidates:
            run.say_next(again_without(invocation.arguments, "--dry-run"))
        return
    if plan.refusals:
        _show(run, plan, None, options, dry_run=True)
        _require_allowed(plan)
    if not plan.candidates:
        _show(run, plan, None, options, dry_run=False)
        return
    files, size = plan.amount
    what = f"delete {plural(files, 'schema file')} ({format_size(size)}) of {plan.table}"
    require_confirmation(run, what, yes=options.yes, show_plan=lambda: _show(run, plan, None, options, dry_run=True))
    _delete(run, table, storage, plan, options)


def _delete(run: Run, table: str, storage: Storage, plan: SchemaVacuumPlan, options: SchemaVacuumOptions) -> None:
    from deltacli.operations.paimon.vacuum_schemas import (
        SchemaVacuumOutcome,
        execute_schema_vacuum,
        require_all_deleted,
    )

    require_now_is_not_ahead(run)
    outcome = SchemaVacuumOutcome()
    try:
        execute_schema_vacuum(storage, run.engine, plan, outcome, progress=run.progress_of(storage))
    except Interrupted as interruption:
        interruption.outcome = f"{outcome.deleted.files:,} of {plural(plan.amount.files, 'schema file')} deleted"
        raise
    except DeltacliError:
        if outcome.deleted.files:
            _show(run, plan, outcome, options, dry_run=False)
        raise
    _show(run, plan, outcome, options, dry_run=False)
    require_all_deleted(outcome, again=again(invocation.arguments))
    run.say_next(f"deltacli history {quoted_table(table)}")


def _show(
    run: Run,
    plan: SchemaVacuumPlan,
    outcome: SchemaVacuumOutcome | None,
    options: SchemaVacuumOptions,
    *,
    dry_run: bool,
) -> None:
    from deltacli.cli.render.paimon.vacuum import SchemaVacuumResult

    run.write(SchemaVacuumResult(plan, outcome, dry_run, options.files))


def _require_allowed(plan: SchemaVacuumPlan) -> None:
    """Raise the first refusal of a plan with the command that overrides it."""
    from deltacli.operations.paimon.vacuum_schemas import require_allowed

    try:
        require_allowed(plan)
    except Refused as refused:
        if override := plan.refusals[0].override:
            option, _, value = override.partition(" ")
            refused.hint = again_with(invocation.arguments, option, value or None)
        raise


def _of_data(storage: Storage) -> PaimonTable:
    return PaimonTable(
        "this is a Paimon table: vacuum deletes its schema files only, with --schemas",
        facts={"path": storage.uri},
        hint="deltacli vacuum {table} --schemas --dry-run",
    )
