"""`deltacli log backup TABLE DEST` and `deltacli log restore TABLE SRC`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import quote_table
from deltacli.core.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.log.log_backup import BackupPlan, BackupResult
    from deltacli.operations.log.log_restore import LogRestored, LogRestorePlan

app = typer.Typer(add_completion=False)


@app.command(
    "backup",
    cls=SharedOptionsCommand,
    epilog=exit_codes(unreadable=True, refused=True, partly=True, conflict=True, storage=True),
)
def log_backup(
    context: typer.Context,
    table: TableArgument,
    dest: Annotated[str, typer.Argument(metavar="DEST", help="Directory of the backup: a path or URI.")],
    *,
    full: Annotated[
        bool, typer.Option("--full", help="Compare every file by digest instead of by size and time.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Copy the log of a table, and keep the copy up to date.

    \b
    Copies everything below _delta_log: commits, checkpoints, sidecars and
    unrecognized files. A later run copies new and changed files; files deleted
    from the log are kept in the backup. Copies are read back, then listed with
    their SHA-256 and times in DEST/_delta_log_backup.ndjson. Works on tables
    that cannot be opened. Data files are not copied.

    \b
    Examples:
      deltacli log backup ./tbl /backups/tbl --dry-run
      deltacli log backup ./tbl /backups/tbl
      deltacli log backup s3://lake/events s3://safe/events --full
      deltacli log backup ./tbl /backups/tbl --json | jq .copied
    """
    from deltacli.cli.render.log_files import backup_result

    run: CommandContext = context.obj
    delta_table = run.open_table(table)
    destination = run.open_other(dest, writes=not dry_run)
    restore = f"deltacli log restore {quote_table(table)} {quote_table(dest)} --dry-run"
    presentation: ChangePresentation[BackupPlan, BackupResult] = ChangePresentation(
        build_question=None,
        build_plan_result=lambda plan, _: backup_result(plan.as_planned_result()),
        build_outcome_result=backup_result,
        suggest_after_change=lambda _: restore,
    )
    change = delta_table.prepare_backup_log(destination, full=full)
    run_change(run, change, presentation, Mode(dry_run))


@app.command(
    "restore",
    cls=SharedOptionsCommand,
    epilog=exit_codes(unreadable=True, refused=True, partly=True, conflict=True, storage=True),
)
def log_restore(
    context: typer.Context,
    table: TableArgument,
    src: Annotated[str, typer.Argument(metavar="SRC", help="Directory of the backup: a path or URI.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace files that differ from the backup, such as torn commits.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Restore files that a backup has and the log of a table lacks.

    \b
    Adds missing files and leaves all others unchanged; with --replace, files that
    differ are replaced, too. The backup is checked against its digests before
    anything is written. A backup of another table is refused, and one whose
    commits differ from those of the log. On a local disk files get their original
    times, so versions keep their timestamps.

    \b
    Examples:
      deltacli log restore ./tbl /backups/tbl --dry-run
      deltacli log restore ./tbl /backups/tbl --yes
      deltacli log restore ./tbl s3://safe/tbl --replace
    """
    from deltacli.cli.render.log_files import log_restore_result

    run: CommandContext = context.obj
    delta_table = run.open_table(table, writes=not dry_run)
    source = run.open_other(src)
    validate = f"deltacli validate {quote_table(table)}"
    presentation: ChangePresentation[LogRestorePlan, LogRestored] = ChangePresentation(
        build_question=_build_restore_question,
        build_plan_result=lambda plan, is_dry_run: log_restore_result(plan, dry_run=is_dry_run),
        build_outcome_result=lambda outcome: log_restore_result(outcome.plan, dry_run=False),
        suggest_after_change=lambda _: validate,
        suggest_if_nothing_to_do=lambda _: None if dry_run else validate,
    )
    change = delta_table.prepare_restore_log(source, replace=replace)
    run_change(run, change, presentation, Mode(dry_run, yes))


def _build_restore_question(plan: LogRestorePlan) -> str:
    """Return the question, such as `add 2 files (1.2 KiB) and replace 1 file (300 B) in the log of ./tbl`."""
    actions = []
    for verb, totals in (("add", plan.added), ("replace", plan.replaced)):
        if totals.files:
            actions.append(f"{verb} {plural(totals.files, 'file')} ({format_size(totals.size_bytes)})")
    return f"{' and '.join(actions)} in the log of {plan.table}"
