"""`deltacli log expire TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.confirmation import now_is_ahead, require_confirmation, require_now_is_not_ahead
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again, again_without, keep_retention, quoted_table
from deltacli.errors import Refused
from deltacli.operations.log.expire import (
    ExpiryPlan,
    ExpiryRequest,
    execute_expiry,
    plan_expiry,
    require_done,
    require_not_refused,
    with_proof,
)
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.log.expire_deleting import ExpiryOutcome

EXIT_CODES = (0, 2, 3, 4, 5, 7, 70)
RUNS_ON_CLUSTER = True


def expire(
    run: Run,
    table: TableArgument,
    *,
    request: ExpiryRequest,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
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
    plan = plan_expiry(opened, request)
    for note in plan.notes:
        run.note(f"note: {note}")
    if dry_run or not yes:  # otherwise verified right before the deletion
        plan = with_proof(opened, plan)
    if dry_run or not plan.files:
        _show(run, plan, None, dry_run=dry_run)
        _require_not_refused(plan)
        _say_what_next(run, table, plan)
        return
    _expire(run, table, opened, plan, yes=yes)


def _expire(run: Run, table: str, opened: Table, plan: ExpiryPlan, *, yes: bool) -> None:
    """Ask, delete, and write what was deleted."""
    from deltacli.operations.log.expire_deleting import ExpiryOutcome

    if not plan.refusals:
        what = f"delete {plural(len(plan.files), 'file')} ({format_size(plan.size_bytes)}) of the log of {plan.table}"
        require_confirmation(run, what, yes=yes, show_plan=lambda: _show(run, plan, None, dry_run=True))
    _require_not_refused(plan)
    require_now_is_not_ahead(run)
    outcome = ExpiryOutcome()
    try:
        execute_expiry(opened, plan, outcome)
    except Interrupted as interruption:
        interruption.outcome = f"{plural(outcome.deleted, 'file')} deleted; run the same command to continue"
        raise
    _show(run, plan, outcome, dry_run=False)
    require_done(outcome, again=again(invocation.arguments))
    run.say_next(f"deltacli validate {quoted_table(table)}")


def _require_not_refused(plan: ExpiryPlan) -> None:
    try:
        require_not_refused(plan)
    except Refused as refused:
        first = plan.refusals[0]
        if first.code == "expire.retention" and first.override:
            keep_retention(refused, invocation.arguments, first.override, "if no older version is needed")
        raise


def _show(run: Run, plan: ExpiryPlan, outcome: ExpiryOutcome | None, *, dry_run: bool) -> None:
    from deltacli.cli.render.log_files import expiry_result

    run.write(expiry_result(plan, outcome, dry_run=dry_run))


def _say_what_next(run: Run, table: str, plan: ExpiryPlan) -> None:
    if not run.format.is_for_eyes:
        return
    name = quoted_table(table)
    if plan.offered_checkpoint is not None:
        run.say_next(f"deltacli checkpoint {name} --version {plan.offered_checkpoint}", also_in_pipe=True)
    elif plan.files and not plan.refusals and not now_is_ahead(run):
        run.say_next(again_without(invocation.arguments, "--dry-run"))
