"""`deltacli log expire TABLE`."""

from __future__ import annotations

from deltacli.cli.invocation import invocation
from deltacli.cli.options.declared import DryRunOption, TableArgument, YesOption
from deltacli.cli.running.changing import Mode, Wording, run_change
from deltacli.cli.running.run import Run
from deltacli.cli.terminal.suggested_commands import suggest_own_retention
from deltacli.core.errors import PartlyDone, Refused, quote_table
from deltacli.core.units import format_size, plural
from deltacli.operations.log.expire import ExpiryOutcome, ExpiryPlan, ExpiryRequest, LogExpiry

EXIT_CODES = (0, 2, 3, 4, 5, 7, 70)
RUNS_ON_CLUSTER = True


def log_expire(
    run: Run, table: TableArgument, *, request: ExpiryRequest, dry_run: DryRunOption = False, yes: YesOption = False
) -> None:
    """Delete log files that no kept version needs.

    \b
    The kept log begins at the newest checkpoint before the cutoff, which is now
    minus the retention, rounded down to midnight UTC. Older commits, checkpoints,
    checksums, compactions and staged commits are deleted, and sidecars that no
    remaining checkpoint references. Before the first deletion every kept version
    is verified to be rebuilt unchanged. Files are deleted oldest first, so after
    a crash the log begins later but has no gap. Time travel to deleted versions
    and their change feeds end.

    \b
    Examples:
      deltacli log expire ./tbl --dry-run
      deltacli log expire ./tbl --yes  # in cron
      deltacli log expire ./tbl --retention 60d --keep-version 3,9-11
    """
    opened = run.open_table(table, writes=not dry_run)
    change = LogExpiry(request, proves=dry_run or not yes)  # otherwise verified right before the deletion
    run_change(run, opened, change, _wording(run, table), Mode(dry_run, yes))


def _keep_retention(refused: Refused | PartlyDone) -> None:
    if isinstance(refused, Refused) and refused.code == "expire.retention" and refused.override:
        suggest_own_retention(refused, invocation.arguments, refused.override, "if no older version is needed")


def _wording(run: Run, table: str) -> Wording[ExpiryPlan, ExpiryOutcome]:
    from deltacli.cli.render.log_files import expiry_result

    name = quote_table(table)
    return Wording(
        question=lambda plan: (
            f"delete {plural(len(plan.files), 'file')} ({format_size(plan.size_bytes)}) of the log of {plan.table}"
        ),
        planned=lambda plan, dry_run: expiry_result(plan, None, dry_run=dry_run),
        done=lambda outcome: expiry_result(outcome.plan, outcome, dry_run=False),
        following=lambda _: f"deltacli validate {name}",
        notes=lambda plan: plan.notes,
        before=lambda plan: (
            f"deltacli checkpoint {name} --version {plan.offered_checkpoint}"
            if plan.offered_checkpoint is not None and run.format.is_for_people
            else None
        ),
        deletes_by_age=True,
        repeats=True,
        refused=_keep_retention,
    )
