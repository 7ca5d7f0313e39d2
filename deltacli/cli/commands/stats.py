"""`deltacli stats TABLE...`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.changing.file_totals import FileTotals
from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.tables import (
    CommitMetadataOption,
    DryRunOption,
    TablesArgument,
    YesOption,
    has_several_tables,
)
from deltacli.cli.options.values import join_names, make_choice_parser, make_text_parser
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import quote_table
from deltacli.core.units import plural
from deltacli.delta.log.actions import parse_commit_metadata

if TYPE_CHECKING:
    from deltacli.cli.running.changing import ChangePresentation
    from deltacli.operations.change.stats import StatsOutcome, StatsPlan

app = typer.Typer(add_completion=False)


class ReadChoice(StrEnum):
    """The source of statistics."""

    FOOTERS = "footers"
    ROWS = "rows"


@app.command(
    "stats",
    cls=ClusterCommand,
    epilog=exit_codes(
        findings="with --check: statistics are missing or wrong",
        unreadable=True,
        refused=True,
        partly="files that cannot be read have none; repair them first",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def stats(
    context: typer.Context,
    tables: TablesArgument,
    *,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            parser=make_text_parser("--where"),
            help="Only files of partitions that match: \"date >= '2026-01-01'\".",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="A,B,…",
            help="Only statistics of these columns.  [default: those of the table's properties]",
        ),
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only files that lack statistics of a column.  [default]")
    ] = False,
    all: Annotated[bool, typer.Option("--all", help="All files: wrong statistics are replaced, too.")] = False,
    read: Annotated[
        ReadChoice,
        typer.Option(
            "--read",
            metavar="footers|rows",
            parser=make_choice_parser(ReadChoice),
            help="What to read: footers, which do not have all bounds, or all rows.  [default: footers]",
        ),
    ] = ReadChoice.FOOTERS,
    commit_metadata: CommitMetadataOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read, and change nothing; exit 1 if statistics are missing or wrong.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
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
    from deltacli.cli.running.changing import Mode, run_change

    run: CommandContext = context.obj
    if has_several_tables(tables):
        from deltacli.cli.running.many import run_on_tables
        from deltacli.cli.running.table_arguments import require_tables

        require_tables(tables)
    mode = Mode(dry_run, yes, check)

    chosen_columns = join_names(columns, "--columns")
    added_keys = parse_commit_metadata(commit_metadata or [])

    def compute_statistics(run: CommandContext, table: str) -> None:
        change = run.open_table(table, writes=not mode.only_plans).prepare_stats(
            where=where,
            columns=chosen_columns,
            missing=missing,
            all=all,
            read=read,
            commit_metadata=added_keys,
            examines=mode.check,
        )
        run_change(run, change, _make_presentation(table), mode)

    if has_several_tables(tables):
        run_on_tables(run, tables, compute_statistics, mode)
    else:
        compute_statistics(run, tables[0])


def _make_presentation(table: str) -> ChangePresentation[StatsPlan, StatsOutcome]:
    """Return how a computation of statistics is presented."""
    from deltacli.cli.render.stats import stats_result
    from deltacli.cli.running.changing import ChangePresentation

    def suggest_history(outcome: StatsOutcome) -> str | None:
        return f"deltacli history {quote_table(table)} --limit 3" if outcome.versions else None

    return ChangePresentation(
        build_question=_build_question,
        build_plan_result=lambda plan, _: stats_result(plan, None),
        build_outcome_result=lambda outcome: stats_result(outcome.plan, outcome),
        suggest_after_change=suggest_history,
        get_file_action=_get_file_action,
        count_changed_files=_count_committed_files,
    )


def _build_question(plan: StatsPlan) -> str:
    files = plural(plan.files, "file")
    return f"read the {plan.request.read} of {files} of {plan.table.uri} and commit their statistics"


def _get_file_action(plan: StatsPlan) -> tuple[str, FileTotals]:
    return "compute the statistics of", FileTotals(plan.files, plan.size_bytes)


def _count_committed_files(outcome: StatsOutcome) -> tuple[int, int | None]:
    """Return the number of files whose statistics were committed, and their size; None if only some were."""
    if outcome.committed == outcome.plan.files:
        return outcome.committed, outcome.plan.size_bytes
    return outcome.committed, None if outcome.committed else 0
