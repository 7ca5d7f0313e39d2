"""`deltacli undelete TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.changing import Mode, Wording, run_change
from deltacli.cli.options.common_options import DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import quoted_table
from deltacli.core.errors import PartlyDone
from deltacli.core.units import format_size, plural
from deltacli.operations.recover.request import UndeleteRequest

if TYPE_CHECKING:
    from deltacli.operations.recover.execute import UndeleteResult
    from deltacli.operations.recover.plan import UndeletePlan

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
    from deltacli.cli.render.undelete import UndeleteScreen
    from deltacli.operations.recover.execute import Undelete
    from deltacli.operations.recover.plan import STILL_MISSING, UndeletePlan
    from deltacli.operations.recover.sources import Journal

    def following(result: UndeleteResult) -> str:
        if result.plan.is_of_the_past:
            return f"deltacli restore {quoted_table(table)} --version {result.plan.version} --dry-run"
        return f"deltacli validate {quoted_table(table)} --level storage"

    wording = Wording(
        question=_question,
        planned=lambda plan, is_plan: UndeleteScreen(plan, None if is_plan else Journal(), is_plan),
        done=lambda result: UndeleteScreen(*result, dry_run=False),
        following=following,
    )
    opened = run.open_table(table, writes=not dry_run)
    try:
        plan = run_change(run, opened, Undelete(request), wording, Mode(dry_run, yes))
    except PartlyDone as partly:
        if partly.code == STILL_MISSING:
            partly.facts.clear()  # the plan was shown
        raise
    # older versions may lack files
    if isinstance(plan, UndeletePlan) and plan.is_noop and not plan.missing.files and not plan.is_of_the_past:
        run.say_next(f"deltacli reach {quoted_table(table)}")


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
