"""`deltacli stats TABLE...`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.changing.plan import Amount
from deltacli.cli.options.declared import Asked, DryRunOption, TablesArgument, YesOption, is_several
from deltacli.cli.running.run import Run
from deltacli.core.errors import quote_table
from deltacli.core.request_fields import option
from deltacli.core.units import plural
from deltacli.operations.change.stats import ComputeStats, StatsOutcome, StatsPlan, StatsRequest

if TYPE_CHECKING:
    from deltacli.cli.running.changing import Mode

EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True


@dataclass(frozen=True, eq=False, repr=False)
class StatsOptions:
    """What the command does with the plan."""

    check: bool = option("Read, and change nothing; exit 1 if statistics are missing or wrong.", default=False)
    dry_run: DryRunOption = False
    yes: YesOption = False


def stats(run: Run, tables: TablesArgument, *, asked: Asked[StatsRequest], how: StatsOptions) -> None:
    """Compute the statistics of files without rewriting them.

    \b
    Queries skip files by the minima, maxima and null counts in the log. Files that
    have none, as of tables that were converted or of writers that leave them out,
    get them here: the same files are added again with statistics, up to 22,000 per
    commit. Data files and rows stay the same.

    \b
    Examples:
      deltacli stats ./tbl --dry-run
      deltacli stats ./tbl --yes  # from footers
      deltacli stats ./tbl --read rows --yes  # also bounds that footers lack
      deltacli stats ./tbl --all --check  # exit 1 if some are missing or wrong
      deltacli stats ./tbl --where "day >= '2026-01-01'" --columns trip,ride.fare --yes
      deltacli stats './lake/**' --dry-run  # several tables

    \b
    Footers do not have exact bounds of every column: floats of most writers may
    hide NaN, long text may be truncated, and timestamps of type INT96 have none.
    --read rows computes these, too. Statistics that are there and right stay.
    A file that another writer touches meanwhile is left out. Appends go on; an
    UPDATE, DELETE or MERGE of Spark that runs over the same partitions may fail
    (ConcurrentAppendException) and has to run again.
    """
    from deltacli.cli.running.changing import Mode

    if is_several(tables):
        from deltacli.cli.running.many import require_tables, run_many

        require_tables(tables)
    mode, request = Mode(how.dry_run, how.yes, how.check), asked.request()
    if is_several(tables):
        run_many(run, tables, lambda run, table: _stats(run, table, request, mode), mode)
    else:
        _stats(run, tables[0], request, mode)


def _stats(run: Run, table: str, request: StatsRequest, mode: Mode) -> None:
    from deltacli.cli.render.stats import stats_result
    from deltacli.cli.running.changing import Wording, run_change

    def deed(plan: StatsPlan) -> tuple[str, Amount]:
        return "compute the statistics of", Amount(plan.files, plan.size_bytes)

    def achieved(outcome: StatsOutcome) -> tuple[int, int | None]:
        if outcome.committed == outcome.plan.files:
            return outcome.committed, outcome.plan.size_bytes
        return outcome.committed, None if outcome.committed else 0

    wording: Wording[StatsPlan, StatsOutcome] = Wording(
        question=lambda plan: (
            f"read the {plan.request.read} of {plural(plan.files, 'file')} of {plan.table.uri} and commit their "
            "statistics"
        ),
        planned=lambda plan, _: stats_result(plan, None),
        done=lambda outcome: stats_result(outcome.plan, outcome),
        following=lambda outcome: f"deltacli history {quote_table(table)} --limit 3" if outcome.versions else None,
        deed=deed,
        achieved=achieved,
    )
    change = ComputeStats(request, examines=mode.check)
    run_change(run, run.open_table(table, writes=not mode.only_plans), change, wording, mode)
