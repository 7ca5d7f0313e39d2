"""`deltacli undelete TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again_without, quoted_table
from deltacli.errors import Refused
from deltacli.operations.recover.request import UndeleteRequest
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.recover.plan import UndeletePlan
    from deltacli.operations.recover.sources import Journal

EXIT_CODES = (0, 2, 3, 4, 5, 6, 7, 70)


def undelete(
    run: Run,
    table: TableArgument,
    *,
    request: UndeleteRequest,
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
    from deltacli.operations.recover.undelete import plan_undelete

    opened = run.open_table(table, writes=not dry_run)
    plan = plan_undelete(opened, request)
    if dry_run or plan.refusals or not plan.found.files:
        _show_only(run, table, plan, dry_run=dry_run)
        return
    require_confirmation(run, _question(plan), yes=yes, show_plan=lambda: _show(run, plan, None, dry_run=True))
    _execute(run, table, opened, plan, yes=yes)


def _question(plan: UndeletePlan) -> str:
    """Return what is to be agreed to, with its numbers."""
    from deltacli.cli.render.undelete import sizes_of

    shown, replaced = plan.found, plan.replaced
    what = f"put {plural(shown.files, 'file')} ({format_size(shown.size_bytes)}) back in {plan.table}"
    if plan.is_new:
        what += ", which does not exist and would be created"
    if replaced.num_rows:
        (row,) = replaced.slice(0, 1).to_pylist()
        first = f"{'first ' if replaced.num_rows > 1 else ''}{row['path']}: {sizes_of(row)}"
        what += f", and replace {plural(replaced.num_rows, 'file')} of another size ({first})"
    return f"{what}, and then the data files that its log names" if plan.is_log_first else what


def _show_only(run: Run, name: str, plan: UndeletePlan, *, dry_run: bool) -> None:
    """Show a plan that is not executed. Raises Refused where a guard objects."""
    from deltacli.operations.recover.execute import refused, require_complete
    from deltacli.operations.recover.sources import Journal

    is_planned = dry_run or bool(plan.refusals)
    _show(run, plan, None if is_planned else Journal(), dry_run=is_planned)
    if plan.refusals:
        raise refused(plan)
    if not dry_run:
        require_complete(plan, is_shown=True)
    elif plan.found.files:
        run.say_next(again_without(invocation.arguments, "--dry-run"))
    if not plan.found.files and not plan.missing.files and not plan.is_of_the_past:  # older versions may lack some
        run.say_next(f"deltacli reach {quoted_table(name)}")


def _execute(run: Run, name: str, table: Table, plan: UndeletePlan, *, yes: bool) -> None:
    from deltacli.operations.recover.execute import execute_undelete, require_complete
    from deltacli.operations.recover.sources import Journal

    journal = Journal()

    def agreed(rest: UndeletePlan) -> bool:
        """Ask about the data files that the log names, which could not be read before."""
        try:
            require_confirmation(run, _question(rest), yes=yes, show_plan=lambda: _show(run, rest, None, dry_run=True))
        except Refused:
            return False
        return True

    try:
        plan = execute_undelete(table, plan, journal, agreed=agreed)
    except Interrupted as interruption:
        interruption.outcome = f"{plural(journal.files, 'file')} put back; run the same command to continue"
        raise
    _show(run, plan, journal, dry_run=False)
    require_complete(plan, is_shown=True)
    following = f"restore {quoted_table(name)} --version {plan.version} --dry-run"
    if not plan.is_of_the_past:
        following = f"validate {quoted_table(name)} --level storage"
    run.say_next(f"deltacli {following}")


def _show(run: Run, plan: UndeletePlan, restored: Journal | None, *, dry_run: bool) -> None:
    from deltacli.cli.render.undelete import UndeleteScreen

    run.write(UndeleteScreen(plan, restored, dry_run))
