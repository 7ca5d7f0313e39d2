"""`deltacli undelete TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.tables import AcceptCommitsOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.values import join_versions, make_text_parser, parse_whole_number
from deltacli.cli.render.undelete import UndeleteScreen, make_planned_screen, sizes_of
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import PartlyDone, Refused, quote_table
from deltacli.core.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.operations.recover.plan import UndeletePlan
    from deltacli.operations.recover.undelete import UndeleteResult

app = typer.Typer(add_completion=False)


@app.command(
    "undelete",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        unreadable=True,
        refused=True,
        partly="some files are in no source; name more with --from",
        conflict=True,
        storage=True,
    ),
)
def undelete(
    context: typer.Context,
    table: TableArgument,
    *,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="versions|DIRECTORY|URI",
            parser=make_text_parser("--from"),
            help="Where to look for the files: versions that the store keeps, or a copy of the table. Repeatable.  "
            "[default: versions]",
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            metavar="N",
            parser=parse_whole_number,
            help="Version whose files are needed.  [default: the newest]",
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="P", help="Bring back only data files below this directory of the table."),
    ] = None,
    accept_commits: AcceptCommitsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Bring deleted files of a table back.

    \b
    Finds the files that the newest version and its log need and that are gone:
    data files, deletion vectors, commits, checkpoints. They come from what the
    store keeps of deleted objects, or with --from from a backup, a copy, a clone
    or a quarantine. Each is verified (size, footer and rows, checksum) before it
    is put in place, and no file that exists is replaced, unless it is a data file
    of another size than the log records or a commit that is cut off. Works where _delta_log is gone. A commit
    of which the store has several contents is reported and never chosen.

    \b
    Examples:
      deltacli undelete s3://lake/events --dry-run
      deltacli undelete s3://lake/events --yes
      deltacli undelete ./tbl --from /backups/tbl
      deltacli undelete s3://lake/events --prefix date=2026-01-01
    """
    run: CommandContext = context.obj
    accepted_versions = join_versions(accept_commits, "--accept-commits")
    change = run.open_table(table, writes=not dry_run).prepare_undelete(
        sources=tuple(sources or ()),
        version=version,
        prefix=prefix,
        accept_commits=accepted_versions,
    )
    undelete_files(run, table, change, Mode(dry_run, yes))


def undelete_files(
    run: CommandContext, table: str, change: PreparedChange[UndeletePlan, UndeleteResult], mode: Mode
) -> None:
    """Plan which files are brought back, ask, bring them back, and write the result.

    Args:
        run: The run of the command.
        table: The table as the user typed it.
        change: The recovery of the files.
        mode: How far the command goes with its plan.
    """

    def suggest_check(result: UndeleteResult) -> str:
        if result.plan.is_of_the_past:
            return f"deltacli restore {quote_table(table)} --version {result.plan.version} --dry-run"
        return f"deltacli validate {quote_table(table)} --level storage"

    def suggest_older_versions(plan: UndeletePlan) -> str | None:
        # Nothing is missing from the newest version. Older versions may lack files.
        is_complete = not plan.missing.files and not plan.is_of_the_past
        return f"deltacli reach {quote_table(table)}" if is_complete else None

    presentation = ChangePresentation(
        build_question=_build_question,
        build_plan_result=make_planned_screen,
        build_outcome_result=lambda result: UndeleteScreen(*result, dry_run=False),
        suggest_after_change=suggest_check,
        suggest_if_nothing_to_do=suggest_older_versions,
        complete_error=_remove_repeated_facts,
    )
    run_change(run, change, presentation, mode)


def _remove_repeated_facts(error: Refused | PartlyDone) -> None:
    """Remove the facts of an error that the plan on the screen has shown."""
    if error.code == "undelete.still-missing":
        error.facts.clear()


def _build_question(plan: UndeletePlan) -> str:
    """Return the question, which names the first of the files that would be replaced."""
    files = f"{plural(plan.found.files, 'file')} ({format_size(plan.found.size_bytes)})"
    question = f"put {files} back in {plan.table}"
    if plan.is_new:
        question += ", which does not exist and would be created"

    replaced_files = plan.replaced.num_rows
    if replaced_files:
        (first_file,) = plan.replaced.slice(0, 1).to_pylist()
        example = f"{first_file['path']}: {sizes_of(first_file)}"
        if replaced_files > 1:
            example = f"first {example}"
        question += f", and replace {plural(replaced_files, 'file')} of another size ({example})"
    if plan.is_log_first:
        question += ", and then the data files that its log names"
    return question
