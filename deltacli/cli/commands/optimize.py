"""`deltacli optimize TABLE...`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.cli.options.declared import Asked, DryRunOption, TablesArgument, YesOption, is_several
from deltacli.cli.running.run import Run
from deltacli.core.errors import command, fill_hint, quote_table
from deltacli.core.request_fields import option
from deltacli.core.units import format_size, plural
from deltacli.operations.optimize.request import OptimizeRequest

if TYPE_CHECKING:
    from deltacli.changing.plan import Amount
    from deltacli.cli.running.changing import Mode
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


def optimize(run: Run, tables: TablesArgument, *, asked: Asked[OptimizeRequest], how: OptimizeOptions) -> None:
    """Compact small files, sort rows, and purge deleted rows. The rows stay the same.

    \b
    Small files of a partition become one file of about the target size, and so do
    files with many deleted rows. A file that is large enough is left alone, so a
    second run has nothing to do. Old files stay for older versions until vacuum
    deletes them.

    \b
    Examples:
      deltacli optimize ./tbl --dry-run
      deltacli optimize ./tbl --yes  # in cron
      deltacli optimize ./tbl --where "day >= '2026-01-01'" --target-size 256MiB
      deltacli optimize ./tbl --max-bytes 100GiB --time-budget 30m --yes
      deltacli optimize ./tbl --zorder trip --yes
      deltacli optimize s3://lake/events --cluster --temp-dir /scratch --yes
      deltacli optimize ./tbl --purge --yes  # then vacuum removes the rows
      deltacli optimize './lake/**' --dry-run  # several tables
      deltacli optimize ./tbl --check  # exit 1 if there is something to do

    \b
    New files are read back and compared with the old ones before they are
    committed, about 1 GiB per commit. Files that another writer touches meanwhile
    are left as they are. Appends go on; an UPDATE, DELETE or MERGE of Spark that runs
    over the same partitions may fail (ConcurrentAppendException), as beside Spark's
    own OPTIMIZE, and has to run again.

    \b
    --zorder sorts the rows of each partition, so that a query with conditions on
    the columns opens fewer files. A partition that is sorted already is left alone.
    --cluster sorts by the clustering columns of the table, what is new together with
    earlier runs of less than 100 GiB. Rows that do not fit in memory are sorted in
    --temp-dir. With --purge no deleted row and no dropped column is left in the
    files of the newest version.
    """
    from deltacli.cli.running.changing import Mode

    if is_several(tables):
        from deltacli.cli.running.many import require_tables, run_many

        require_tables(tables)
    mode, request = Mode(how.dry_run, how.yes, how.check), asked.request()
    if is_several(tables):
        run_many(run, tables, lambda run, table: _optimize(run, table, request, mode), mode)
    else:
        _optimize(run, tables[0], request, mode)


def _optimize(run: Run, table: str, request: OptimizeRequest, mode: Mode) -> None:
    from deltacli.cli.render.optimize import optimize_result
    from deltacli.cli.running.changing import Wording, run_change
    from deltacli.operations.optimize.execute import Optimize

    name = quote_table(table)
    wording: Wording[OptimizePlan, OptimizeOutcome] = Wording(
        question=_question,
        planned=lambda plan, _: optimize_result(plan, None),
        done=lambda outcome: optimize_result(outcome.plan, outcome),
        following=lambda outcome: f"deltacli history {name} --limit 3" if outcome.versions else None,
        facts=lambda plan: _unreadable(plan) if plan.unreadable else {},
        before=lambda plan: _before(plan, table) if plan.unreadable else None,
        deed=_deed,
        achieved=lambda outcome: (outcome.files_removed, outcome.bytes_removed),
    )
    run_change(run, run.open_table(table, writes=not mode.only_plans), Optimize(request), wording, mode)


def _before(plan: OptimizePlan, table: str) -> str:
    """Return what helps before files that cannot be read are rewritten, else what shows what is wrong with them."""
    return fill_hint(plan.way_out or command("validate", level="data"), table)


def _unreadable(plan: OptimizePlan) -> dict[str, str]:
    count = f"{plural(len(plan.unreadable), 'file')}, left alone"
    return {"unreadable": count, **({} if plan.way_out is None else {"first": plan.way_out})}


def _deed(plan: OptimizePlan) -> tuple[str, Amount]:
    from deltacli.changing.plan import Amount

    return _verb(plan), Amount(plan.selection.files, plan.selection.size_bytes)


def _verb(plan: OptimizePlan) -> str:
    return "purge" if plan.rules.purge else "rewrite" if plan.order is None else "sort"


def _question(plan: OptimizePlan) -> str:
    chosen = plan.selection
    which = "" if plan.request.where is None else f" where {plan.request.where}"
    return (
        f"{_verb(plan)} {plural(chosen.files, 'file')} ({format_size(chosen.size_bytes)}) of {plan.table.uri}{which}: "
        f"{plural(chosen.outputs, 'new file')} in {plural(len(plan.groups), 'commit')}"
    )
