"""`deltacli convert PATH`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.given import get_used_options
from deltacli.cli.options.tables import DryRunOption, YesOption
from deltacli.cli.options.values import make_text_parser
from deltacli.cli.output.sections import format_file_totals
from deltacli.cli.render.convert import make_convert_result
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import UsageError, quote_table

if TYPE_CHECKING:
    from deltacli.operations.change.convert import ConvertPlan

app = typer.Typer(add_completion=False)

_REQUEST_OPTIONS = ("partition", "schema", "like", "exclude", "time_zone", "accept_unknowable")
"""Parameters that affect how the table is created from its files."""


@app.command(
    "convert",
    cls=SharedOptionsCommand,
    epilog=exit_codes(unreadable=True, refused=True, partly=True, conflict=True, storage=True, unknown=True),
)
def convert(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="PATH", help="Directory of Parquet files: a path or URI.")],
    *,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            metavar="'COL TYPE, …'",
            help="Partition columns with their types, as 'day date, country string'.  [default: inferred]",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            parser=make_text_parser("--schema"),
            help="Take the columns from this file: a schemaString, or a document of schema show or snapshot.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="FILE",
            parser=make_text_parser("--like"),
            help="Take columns, partitions and column mapping from this JSON document of snapshot.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="GLOB",
            parser=make_text_parser("--exclude"),
            help="Leave out files whose path matches. Repeatable.",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            parser=make_text_parser("--time-zone"),
            help="Zone of the times in directories that have none, for partition columns of type timestamp.",
        ),
    ] = None,
    accept_unknowable: Annotated[
        bool,
        typer.Option(
            "--accept-unknowable", help="Convert a Delta table that has lost its log, although removed rows come back."
        ),
    ] = False,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="COPY",
            parser=make_text_parser("--from"),
            help="Bring the lost log of a table back from this copy: the same as undelete --from. Repeatable.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Turn Parquet files into a Delta table, in place and in one commit.

    \b
    No file is moved or rewritten. Directories such as day=2026-01-01 are partition
    columns. Values that Hive and Spark spell otherwise than Delta, such as 01 for an
    integer, are listed with the text that is written. The schema is that of all
    files together: what one file has and others do not is null there. Files that
    disagree are listed by file and column, and nothing is committed. Statistics
    come from the footers. The directory is listed again before the commit; if a
    file arrived meanwhile, nothing is committed. Names that begin with _ or . are
    left out.

    \b
    A Delta table that has lost its log is recognized by its files. If there is a
    copy of the table, take the log from there with --from: without it, removed
    rows come back.

    \b
    Examples:
      deltacli convert ./events --dry-run
      deltacli convert ./events --partition 'day date, country string' --dry-run
      deltacli convert ./hours --partition 'at timestamp' --time-zone UTC --dry-run
      deltacli convert ./events --exclude '*.csv' --yes
      deltacli convert ./lost --from /backups/events --dry-run
      deltacli convert ./lost --like snapshot.json --accept-unknowable --dry-run
    """
    from deltacli.cli.running.changing import ChangePresentation, Mode, run_change

    run: CommandContext = context.obj
    if sources:
        request_options = get_used_options(context, *_REQUEST_OPTIONS)
        if request_options:
            raise UsageError(f"{request_options[0]} cannot be used with --from, which takes all of it from the log")
        from deltacli.cli.commands.undelete import undelete_files

        lost_table = run.open_table(table, writes=not dry_run)
        undelete_files(run, table, lost_table.prepare_undelete(sources=sources), Mode(dry_run, yes))
        return

    new_table = run.open_table(table, writes=not dry_run)
    uri = new_table.uri

    def build_question(plan: ConvertPlan) -> str:
        return f"make a Delta table of {format_file_totals(plan.amount.files, plan.amount.size_bytes)} in {uri}"

    presentation: ChangePresentation[ConvertPlan, ConvertPlan] = ChangePresentation(
        build_question=build_question,
        build_plan_result=lambda plan, is_plan: make_convert_result(uri, plan, dry_run=is_plan),
        build_outcome_result=lambda plan: make_convert_result(uri, plan, dry_run=False),
        suggest_after_change=lambda _: f"deltacli validate {quote_table(table)} --level footers",
        override_options={"convert.lost-log": "--accept-unknowable"},
    )
    change = new_table.prepare_convert(
        partition=partition,
        schema=schema,
        like=like,
        exclude=tuple(exclude or ()),
        time_zone=time_zone,
        accept_unknowable=accept_unknowable,
    )
    run_change(run, change, presentation, Mode(dry_run, yes))
