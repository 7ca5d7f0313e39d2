"""`deltacli properties TABLE`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.consent import require_consent
from deltacli.cli.interrupts import Interrupted
from deltacli.cli.options import DryRunOption, OutputFormat, Run, TableArgument, YesOption
from deltacli.cli.shell import quoted_table
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.operations.table import Table

EXIT_CODES = (0, 2, 3, 4, 6, 7, 8, 70)


class Change(StrEnum):
    SET = "set"
    UNSET = "unset"


def properties(
    run: Run,
    table: TableArgument,
    change: Annotated[
        Change | None,
        typer.Argument(metavar="[set|unset]", help="What to do; without it they are shown.", show_default=False),
    ] = None,
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="[K=V|K]...", help="Properties to set, keys to unset.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also set delta. keys that no engine is known to know.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Show the properties of a table, set some or unset some.

    \b
    A change is one commit that touches nothing else. Values are checked, and
    written so that every engine reads them alike (30 days becomes interval 30
    days). What the protocol does not support, what only an engine can do right
    and what would make the table illegal is refused. Keys without delta. are
    free.

    \b
    Examples:
      deltacli properties ./tbl
      deltacli properties ./tbl set delta.checkpointInterval=20 --dry-run
      deltacli properties ./tbl set delta.appendOnly=true owner=ops --yes
      deltacli properties ./tbl unset owner --yes
    """
    from deltacli.operations.table import Table

    opened = Table(run.open(table), clock=run.clock, progress=run.progress)
    if change is None:
        if force or dry_run or yes:
            raise UsageError("nothing is to be changed: --force, --dry-run and --yes go with set or unset")
        from deltacli.cli.render.settings import write_properties
        from deltacli.operations.table_properties import show_properties

        snapshot = opened.snapshot()
        with run.sink() as sink:
            write_properties(sink, run, opened.uri, snapshot.version, show_properties(snapshot))
        return
    _change(run, opened, table, change, items or [], force=force, dry_run=dry_run, yes=yes)


def _change(
    run: Run, opened: Table, table: str, change: Change, items: list[str], *, force: bool, dry_run: bool, yes: bool
) -> None:
    from deltacli.cli.render.settings import write_change
    from deltacli.delta.property_changes import pairs_of
    from deltacli.operations.table_properties import PropertyEdits, change_properties, plan_properties

    if not items:
        raise UsageError(f"{change}: no property is named", hint="deltacli properties --help")
    if change is Change.UNSET:
        if force:
            raise UsageError("--force goes with set: every key that is there can be named to unset")
        edits = PropertyEdits(drop=tuple(items))
    else:
        edits = PropertyEdits(put=pairs_of(items), force=force)
    plan = plan_properties(opened, edits)
    for caution in plan.plan.cautions:
        run.note(f"note: {caution}")
    if dry_run or not plan.plan.changes:
        write_change(run, plan, is_done=False)
        if dry_run and plan.plan.changes and run.terminal.is_terminal and run.format is OutputFormat.TABLE:
            run.note("next: the same command without --dry-run")
        return
    count = len(plan.plan.changes)
    what = f"{change} {count} {'property' if count == 1 else 'properties'} of {plan.table}"
    require_consent(run, what, yes=yes, show_plan=lambda: write_change(run, plan, is_done=False))
    try:
        outcome = change_properties(opened, edits)
    except Interrupted as interruption:
        interruption.outcome = "; ".join(getattr(interruption, "__notes__", [])) or interruption.outcome
        raise
    write_change(run, outcome, is_done=True)
    if run.terminal.is_terminal and run.format is OutputFormat.TABLE:
        run.note(f"next: deltacli history {quoted_table(table)} --limit 1")
