"""`deltacli copy SRC DST`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.tables import DryRunOption
from deltacli.cli.options.values import make_choice_parser, make_duration_parser, make_number_parser, make_text_parser
from deltacli.cli.render.copy import copy_result, planned_copy_result
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import EXIT_FINDINGS, quote_table

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.operations.copy.execute import CopyResult
    from deltacli.operations.copy.plan import CopyPlan

app = typer.Typer(add_completion=False)


class LevelChoice(StrEnum):
    """The parts of the copy that are compared with the source: the list of files, their footers, or every byte."""

    STORAGE = "storage"
    FOOTERS = "footers"
    DATA = "data"


@app.command(
    "copy",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="with --check: the target differs from the source",
        unreadable=True,
        refused=True,
        partly="an error or the time budget ended it; run it again",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def copy(
    context: typer.Context,
    src: Annotated[str, typer.Argument(metavar="SRC", help="Table to copy: a path or URI.")],
    dst: Annotated[str, typer.Argument(metavar="DST", help="Directory of the copy, new or a replica: a path or URI.")],
    *,
    versions: Annotated[
        str | None,
        typer.Option(
            "--versions",
            metavar="N-M",
            parser=make_text_parser("--versions"),
            help="Copy only these versions.  [default: all that can be rebuilt]",
        ),
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Copy only the newest version.")] = False,
    replica: Annotated[
        bool,
        typer.Option("--replica", help="Keep the table id and every commit; run again to bring the target up to date."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare the target with the source; copy nothing.")] = False,
    level: Annotated[
        LevelChoice,
        typer.Option(
            "--level",
            metavar="storage|footers|data",
            parser=make_choice_parser(LevelChoice),
            help="What to compare with the source.  [default: storage]",
        ),
    ] = LevelChoice.STORAGE,
    keep_external: Annotated[
        bool,
        typer.Option("--keep-external", help="Keep paths that lead out of the source, whose files are not copied."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            parser=make_number_parser(at_least=1),
            help="Files to copy at a time.  [default: by the stores]  [x>=1]",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="SIZE/s",
            parser=make_text_parser("--rate"),
            help="Bytes to copy per second, such as 50MiB/s.",
        ),
    ] = None,
    time_budget_ms: Annotated[
        int | None,
        typer.Option(
            "--time-budget",
            metavar="DURATION",
            parser=make_duration_parser("--time-budget", "m"),
            help="Begin no file after this time, such as 30m; run the same command to continue.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Copy a table to another place, and verify the copy.

    \b
    Copies the files that the versions need, then the commits in their order: at any
    time DST is either not yet a table or a readable one. The same command continues
    an interrupted run. The copy gets a table id of its own in one more commit; with
    --replica it keeps the id and every commit, and the same command brings it up to
    date. Sizes and the digest of the state are compared with the source, with
    --level data every byte.

    \b
    Examples:
      deltacli copy ./tbl /backups/tbl --dry-run
      deltacli copy ./tbl /backups/tbl
      deltacli copy ./tbl /backups/newest --newest
      deltacli copy s3://lake/events gs://safe/events --replica
      deltacli copy s3://lake/events gs://safe/events --check --level data
    """
    run: CommandContext = context.obj
    source = run.open_table(src)
    if check:
        comparison = source.copy(
            dst,
            check=True,
            versions=versions,
            newest=newest,
            replica=replica,
            level=level,
            keep_external=keep_external,
            threads=threads,
            rate=rate,
            time_budget_ms=time_budget_ms,
        )
        run.write(copy_result(comparison))
        if comparison.differences:
            raise Exit(EXIT_FINDINGS)
        return

    change = source.prepare_copy(
        run.open_other(dst, writes=not dry_run),
        versions=versions,
        newest=newest,
        replica=replica,
        level=level,
        keep_external=keep_external,
        threads=threads,
        rate=rate,
        time_budget_ms=time_budget_ms,
    )
    copy_table(run, dst, change, dry_run=dry_run)


def copy_table(run: CommandContext, dst: str, change: PreparedChange[CopyPlan, CopyResult], *, dry_run: bool) -> None:
    """Copy a table without asking, and write the result.

    Args:
        run: The run of the command.
        dst: The target as the user typed it.
        change: The copy.
        dry_run: Whether the plan is shown and nothing is copied.
    """
    presentation: ChangePresentation[CopyPlan, CopyResult] = ChangePresentation(
        build_question=None,
        build_plan_result=planned_copy_result,
        build_outcome_result=copy_result,
        suggest_after_change=lambda _: f"deltacli validate {quote_table(dst)} --level storage",
        can_be_resumed=True,
    )
    run_change(run, change, presentation, Mode(dry_run))
