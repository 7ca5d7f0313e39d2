"""`deltacli optimize TABLE`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import DryRunOption, TableArgument, YesOption
from deltacli.cli.options.request_options import Asked
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again_without, quoted_table
from deltacli.errors import EXIT_FINDINGS, DeltacliError
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.request_fields import option
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.optimize.execute import OptimizeOutcome
    from deltacli.operations.optimize.plan import OptimizePlan

EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True


@dataclass(frozen=True, eq=False, repr=False)
class OptimizeOptions:
    """What the command does with the plan."""

    check: bool = option("Change nothing; exit 1 if there is something to do.", default=False)
    dry_run: DryRunOption = False
    yes: YesOption = False


def optimize(run: Run, table: TableArgument, *, asked: Asked[OptimizeRequest], how: OptimizeOptions) -> None:
    """Compact small files, sort rows, and purge deleted rows. The rows stay the same.

    \b
    Small files of a partition become one file of about the target size, and so do
    files with many deleted rows. A file that is large enough is left alone, so a
    second run has nothing to do. New files are read back and compared with the old
    ones before they are committed, about 1 GiB per commit. Writers are not
    disturbed: files that one of them touches meanwhile are left as they are. The
    old files stay for older versions until vacuum deletes them.

    \b
    --zorder sorts the rows of each partition, so that a query with conditions on
    the columns opens fewer files. A partition that is sorted already is left alone.
    --cluster sorts by the clustering columns of the table, what is new together with
    earlier runs of less than 100 GiB. Rows that do not fit in memory are sorted in
    --temp-dir. With --purge no deleted row and no dropped column is left in the
    files of the newest version.

    \b
    Examples:
      deltacli optimize ./tbl --dry-run
      deltacli optimize ./tbl --yes  # in cron
      deltacli optimize ./tbl --where "day >= '2026-01-01'" --target-size 256MiB
      deltacli optimize ./tbl --max-bytes 100GiB --time-budget 30m --yes
      deltacli optimize ./tbl --zorder trip --yes
      deltacli optimize s3://lake/events --cluster --temp-dir /scratch --yes
      deltacli optimize ./tbl --purge --yes  # then vacuum removes the rows
      deltacli optimize ./tbl --check  # exit 1 if there is something to do
    """
    from deltacli.operations.optimize.execute import OptimizeOutcome, require_complete
    from deltacli.operations.optimize.planning import plan_optimize

    opened = run.open_table(table, writes=not (how.dry_run or how.check))
    plan = plan_optimize(opened, asked.request())
    if how.dry_run or how.check or plan.is_noop:
        _show(run, plan)
        if how.check and not plan.is_noop:
            raise typer.Exit(EXIT_FINDINGS)
        if plan.damaged:
            run.say_next(f"deltacli repair {quoted_table(table)} --dry-run", also_in_pipe=True)
        elif not plan.is_noop:
            run.say_next(again_without(invocation.arguments, "--dry-run"))
        if not (how.dry_run or how.check):
            require_complete(OptimizeOutcome(plan))
        return
    facts: dict[str, str] = {}
    if plan.damaged:
        facts["unreadable"] = f"{plural(len(plan.damaged), 'file')}, left alone"
        facts["repair first"] = f"deltacli repair {quoted_table(table)} --dry-run"
    require_confirmation(run, _question(plan), yes=how.yes, show_plan=lambda: _show(run, plan), facts=facts)
    _execute(run, table, plan)


def _execute(run: Run, table: str, plan: OptimizePlan) -> None:
    from deltacli.operations.optimize.execute import OptimizeOutcome, execute_optimize, require_complete

    outcome = OptimizeOutcome(plan)
    try:
        execute_optimize(plan, outcome)
    except Interrupted as interruption:
        notes = getattr(interruption, "__notes__", None)
        left = outcome.left_behind
        may_stay = [f"{plural(len(left), 'new file')} may be in no version (vacuum deletes them then)"] if left else []
        then = "run the same command to continue"
        interruption.outcome = "; ".join([outcome.summary, *(notes or ()), *may_stay, then])
        raise
    except DeltacliError:
        if outcome.versions:
            _show(run, plan, outcome)
        raise
    _show(run, plan, outcome)
    require_complete(outcome)
    if outcome.versions:
        run.say_next(f"deltacli history {quoted_table(table)} --limit 3")


def _show(run: Run, plan: OptimizePlan, outcome: OptimizeOutcome | None = None) -> None:
    from deltacli.cli.render.optimize import optimize_result

    run.write(optimize_result(plan, outcome))


def _question(plan: OptimizePlan) -> str:
    chosen = plan.selection
    verb = "purge" if plan.rules.purge else "rewrite" if plan.order is None else "sort"
    which = "" if plan.request.where is None else f" where {plan.request.where}"
    return (
        f"{verb} {plural(chosen.files, 'file')} ({format_size(chosen.size_bytes)}) of {plan.table.uri}{which}: "
        f"{plural(chosen.outputs, 'new file')} in {plural(len(plan.groups), 'commit')}"
    )
