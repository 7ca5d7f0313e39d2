"""`deltacli optimize TABLE...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.tables import (
    CommitMetadataOption,
    DryRunOption,
    TablesArgument,
    YesOption,
    has_several_tables,
)
from deltacli.cli.options.values import (
    join_names,
    make_duration_parser,
    make_number_parser,
    make_share_parser,
    make_text_parser,
)
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import command, fill_table, quote_table
from deltacli.core.units import format_size, plural
from deltacli.delta.log.actions import parse_commit_metadata

if TYPE_CHECKING:
    from deltacli.changing.file_totals import FileTotals
    from deltacli.cli.running.changing import ChangePresentation
    from deltacli.operations.optimize.execute import OptimizeOutcome
    from deltacli.operations.optimize.plan import OptimizePlan

app = typer.Typer(add_completion=False)


@app.command(
    "optimize",
    cls=ClusterCommand,
    epilog=exit_codes(
        findings="with --check: there is something to do",
        unreadable=True,
        refused=True,
        partly="files that cannot be read are left; repair them first",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def optimize(
    context: typer.Context,
    tables: TablesArgument,
    *,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            parser=make_text_parser("--where"),
            help="Optimize only partitions that match: \"date >= '2026-01-01'\".",
        ),
    ] = None,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size", metavar="SIZE", help="Size of new files.  [default: delta.targetFileSize, else 128MiB]"
        ),
    ] = None,
    min_files: Annotated[
        int,
        typer.Option(
            "--min-files",
            metavar="N",
            parser=make_number_parser(at_least=2),
            help="Fewest files that are written as one; at least 2.  [default: 2]  [x>=2]",
        ),
    ] = 2,
    min_size: Annotated[
        str | None,
        typer.Option(
            "--min-size", metavar="SIZE", help="Size from which a file is left alone.  [default: half of the target]"
        ),
    ] = None,
    zorder: Annotated[
        list[str] | None,
        typer.Option(
            "--zorder", metavar="A,B,…", help="Sort the rows of each partition by a z-order of these columns."
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Sort new rows by the clustering columns of the table.")
    ] = False,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge",
            help="Rewrite every file with deleted rows, dropped columns, NaN beyond bounds or misread INT96, and no "
            "others.",
        ),
    ] = False,
    purge_ratio: Annotated[
        float,
        typer.Option(
            "--purge-ratio",
            metavar="N%",
            parser=make_share_parser("--purge-ratio"),
            help="Share of deleted rows above which a file of any size is rewritten.  [default: 5%]",
        ),
    ] = 0.05,
    max_bytes: Annotated[
        str | None, typer.Option("--max-bytes", metavar="SIZE", help="Rewrite at most this many bytes.")
    ] = None,
    time_budget_ms: Annotated[
        int | None,
        typer.Option(
            "--time-budget",
            metavar="DURATION",
            parser=make_duration_parser("--time-budget", "m"),
            help="Begin no commit after this time, such as 30m.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare all rows before and after the commits once more, from the files.")
    ] = False,
    temp_dir: Annotated[
        str | None,
        typer.Option(
            "--temp-dir",
            metavar="DIR",
            parser=make_text_parser("--temp-dir"),
            help="Directory for temporary files of sorted rows.  [default: that of the system]",
        ),
    ] = None,
    commit_metadata: CommitMetadataOption = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if there is something to do.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
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
    from deltacli.cli.running.changing import Mode, run_change

    run: CommandContext = context.obj
    if has_several_tables(tables):
        from deltacli.cli.running.many import run_on_tables
        from deltacli.cli.running.table_arguments import require_tables

        require_tables(tables)
    mode = Mode(dry_run, yes, check)

    order = join_names(zorder, "--zorder")
    added_keys = parse_commit_metadata(commit_metadata or [])

    def optimize_table(run: CommandContext, table: str) -> None:
        """Rewrite the files of one table."""
        change = run.open_table(table, writes=not mode.only_plans).prepare_optimize(
            where=where,
            target_size=target_size,
            min_files=min_files,
            min_size=min_size,
            zorder=order,
            cluster=cluster,
            purge=purge,
            purge_ratio=purge_ratio,
            max_bytes=max_bytes,
            time_budget_ms=time_budget_ms,
            verify=verify,
            temp_dir=temp_dir,
            commit_metadata=added_keys,
        )
        run_change(run, change, _make_presentation(table), mode)

    if has_several_tables(tables):
        run_on_tables(run, tables, optimize_table, mode)
    else:
        optimize_table(run, tables[0])


def _make_presentation(table: str) -> ChangePresentation[OptimizePlan, OptimizeOutcome]:
    """Return how an optimization is presented. If files cannot be read, their repair is suggested first."""
    from deltacli.cli.render.optimize import optimize_result
    from deltacli.cli.running.changing import ChangePresentation

    def suggest_repair(plan: OptimizePlan) -> str | None:
        if not plan.unreadable:
            return None
        return fill_table(plan.way_out or command("validate", level="data"), table)

    def suggest_history(outcome: OptimizeOutcome) -> str | None:
        return f"deltacli history {quote_table(table)} --limit 3" if outcome.versions else None

    return ChangePresentation(
        build_question=_build_question,
        build_plan_result=lambda plan, _: optimize_result(plan, None),
        build_outcome_result=lambda outcome: optimize_result(outcome.plan, outcome),
        suggest_after_change=suggest_history,
        list_consent_facts=_list_unreadable_files,
        suggest_before_change=suggest_repair,
        get_file_action=_get_file_action,
        count_changed_files=lambda outcome: (outcome.files_removed, outcome.bytes_removed),
    )


def _list_unreadable_files(plan: OptimizePlan) -> dict[str, str]:
    """Return the facts about files that cannot be read, and the command that should be run first."""
    if not plan.unreadable:
        return {}
    facts = {"unreadable": f"{plural(len(plan.unreadable), 'file')}, left alone"}
    if plan.way_out is not None:
        facts["first"] = plan.way_out
    return facts


def _get_file_action(plan: OptimizePlan) -> tuple[str, FileTotals]:
    from deltacli.changing.file_totals import FileTotals

    return _choose_verb(plan), FileTotals(plan.selection.files, plan.selection.size_bytes)


def _choose_verb(plan: OptimizePlan) -> str:
    if plan.rules.purge:
        return "purge"
    return "rewrite" if plan.order is None else "sort"


def _build_question(plan: OptimizePlan) -> str:
    selection = plan.selection
    condition = "" if plan.request.where is None else f" where {plan.request.where}"
    files = f"{plural(selection.files, 'file')} ({format_size(selection.size_bytes)})"
    new_files = f"{plural(selection.outputs, 'new file')} in {plural(len(plan.groups), 'commit')}"
    return f"{_choose_verb(plan)} {files} of {plan.table.uri}{condition}: {new_files}"
