"""`deltacli clone SRC DST`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.changing.clone_notes import NOTES_DIRECTORY
from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import find_chosen_version
from deltacli.cli.options.tables import DryRunOption, TimestampOption, VersionOption, YesOption
from deltacli.cli.render.clone import make_clone_result
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import UsageError, quote_table
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.operations.clone import ClonePlan

app = typer.Typer(add_completion=False)


@app.command(
    "clone",
    cls=SharedOptionsCommand,
    epilog=exit_codes(unreadable=True, refused=True, partly=True, conflict=True, storage=True, unknown=True),
)
def clone(
    context: typer.Context,
    src: Annotated[str, typer.Argument(metavar="SRC", help="Table to clone: a path or URI.")],
    dst: Annotated[
        str, typer.Argument(metavar="DST", help="Directory of the clone, absent or empty, or a table without rows.")
    ],
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    unprotected: Annotated[
        bool,
        typer.Option(
            "--unprotected", help="Do not note the clone in the source, whose vacuum may then delete its files."
        ),
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Copy the files, too: the same as copy --newest.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Create a table that shares the data files of another one.

    \b
    One commit names the files of a version by their absolute paths; no data is
    copied. What is written to the clone stays there. The source gets a note in
    _delta_log/_deltacli_clones, and its vacuum keeps what the clone needs. The
    vacuum of another tool ignores the note. Not every client reads absolute
    paths: the plan names those that do not. With --deep the files are copied.

    \b
    Examples:
      deltacli clone ./tbl ./try --dry-run
      deltacli clone ./tbl ./try --yes
      deltacli clone s3://lake/events s3://lake/events-test --version 42
    """
    run: CommandContext = context.obj
    if deep:
        clone_options = {"--version": version, "--timestamp": timestamp, "--unprotected": unprotected or None}
        for option, value in clone_options.items():
            if value is not None:
                raise UsageError(f"{option} cannot be used with --deep", hint="deltacli copy --help")
        from deltacli.cli.commands.elsewhere.copy import copy_table

        source = run.open_table(src)
        copy_change = source.prepare_copy(run.open_other(dst, writes=not dry_run), newest=True)
        copy_table(run, dst, copy_change, dry_run=dry_run)
        return

    source = run.open_table(src, writes=not dry_run and not unprotected).bind_to_directory()
    target = run.open_table(dst, writes=not dry_run)
    snapshot = source.snapshot(version=find_chosen_version(source, version, timestamp))
    read_clone = f"deltacli read {quote_table(dst)} --limit 10 --allow-external {quote_table(src)}"
    presentation: ChangePresentation[ClonePlan, ClonePlan] = ChangePresentation(
        build_question=_build_question,
        build_plan_result=lambda plan, _: make_clone_result(plan),
        build_outcome_result=make_clone_result,
        suggest_after_change=lambda _: read_clone,
        list_notes=_list_notes,
        override_options={"clone.source-not-writable": "--unprotected"},
    )
    clone_change = source.prepare_clone(target, snapshot, unprotected=unprotected)
    run_change(run, clone_change, presentation, Mode(dry_run, yes))


def _build_question(plan: ClonePlan) -> str:
    files = plural(plan.files.files, "file")
    question = f"clone version {plan.version} of {plan.source.table.uri}, {files}, to {plan.target}"
    if plan.note is None:
        return question
    # A clone of a clone needs files of several tables. All of them get a note.
    tables = " and of ".join(["the source", *plan.owners.uris])
    return f"{question}, and note that in {NOTES_DIRECTORY} of {tables}"


def _list_notes(plan: ClonePlan) -> list[str]:
    """Return the notes on vacuum, which may delete files that the clone needs, and the warnings of the plan."""
    if plan.note is None:
        note = (
            f"a vacuum of the source keeps the files of the clone only with --protect-from {quote_table(plan.target)}"
        )
    else:
        note = f"only the vacuum of deltacli reads {NOTES_DIRECTORY}; other tools may delete files that the clone needs"
    return [note, *plan.warnings]
