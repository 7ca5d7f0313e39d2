"""`deltacli log backup TABLE DEST` and `deltacli log restore TABLE SRC`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import DryRunOption, TableArgument, YesOption, argument
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again_without, quoted_table
from deltacli.request_fields import Option
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.log.log_restore import RestorePlan

EXIT_CODES = {"backup": (0, 2, 3, 4, 6, 7, 70), "restore": (0, 2, 3, 4, 5, 6, 7, 70)}

DestinationArgument = Annotated[str, argument("Directory of the backup: a path or URI.", "DEST")]


def backup(
    run: Run,
    table: TableArgument,
    dest: DestinationArgument,
    full: Annotated[bool, Option("Compare every file by digest instead of by size and time.")] = False,
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
    from deltacli.operations.log.log_backup import execute_backup, plan_backup, planned_backup
    from deltacli.operations.log.log_copy import Journal

    storage, destination, engine = run.open(table), run.open_other(dest, writes=not dry_run), run.engine
    plan = plan_backup(storage, destination, engine, full=full, progress=run.progress)
    if dry_run:
        run.write(backup_result(planned_backup(plan, clock=run.clock)))
        run.say_next(again_without(invocation.arguments, "--dry-run"))
        return
    journal = Journal()
    try:
        result = execute_backup(
            plan, storage, destination, engine, clock=run.clock, progress=run.progress, journal=journal
        )
    except Interrupted as interruption:
        interruption.outcome = f"{plural(journal.written, 'file')} copied; run the same command to continue"
        raise
    run.write(backup_result(result))
    run.say_next(f"deltacli log restore {quoted_table(table)} {quoted_table(dest)} --dry-run")


SourceArgument = Annotated[str, argument("Directory of the backup: a path or URI.", "SRC")]


def restore(
    run: Run,
    table: TableArgument,
    src: SourceArgument,
    replace: Annotated[bool, Option("Replace files that differ from the backup, such as torn commits.")] = False,
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
    from deltacli.cli.render.log_files import restore_result
    from deltacli.operations.log.log_copy import Journal
    from deltacli.operations.log.log_restore import plan_restore
    from deltacli.operations.log.log_restore_execute import execute_restore

    storage, source, engine = run.open(table, writes=not dry_run), run.open_other(src), run.engine
    plan = plan_restore(storage, source, engine, replace=replace, progress=run.progress)

    def show(*, as_done: bool) -> None:
        run.write(restore_result(plan, dry_run=not as_done))

    if dry_run or not plan.writes:
        show(as_done=not dry_run)
        _say_what_next(run, table, plan, was_done=not dry_run)
        return
    require_confirmation(run, _what(plan), yes=yes, show_plan=lambda: show(as_done=False))
    journal = Journal()
    try:
        execute_restore(plan, storage, source, engine, progress=run.progress, journal=journal)
    except Interrupted as interruption:
        interruption.outcome = f"{plural(journal.written, 'file')} restored; run the same command to continue"
        raise
    show(as_done=True)
    _say_what_next(run, table, plan, was_done=True)


def _what(plan: RestorePlan) -> str:
    from deltacli.operations.log.log_restore import Action

    added, replaced = plan.amount(Action.ADD), plan.amount(Action.REPLACE)
    parts = [
        f"{verb} {plural(amount.files, 'file')} ({format_size(amount.size_bytes)})"
        for verb, amount in (("add", added), ("replace", replaced))
        if amount.files
    ]
    return f"{' and '.join(parts)} in the log of {plan.table}"


def _say_what_next(run: Run, table: str, plan: RestorePlan, *, was_done: bool) -> None:
    """Name the command that validates the result."""
    if was_done:
        run.say_next(f"deltacli validate {quoted_table(table)}")
    elif plan.writes:
        run.say_next(again_without(invocation.arguments, "--dry-run"))
