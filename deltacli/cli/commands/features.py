"""`deltacli features TABLE`."""

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
    ADD = "add"


def features(
    run: Run,
    table: TableArgument,
    change: Annotated[
        Change | None,
        typer.Argument(metavar="[add]", help="What to do; without it they are shown.", show_default=False),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Features to add.", show_default=False),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Show the table features of a table, or add some to its protocol.

    \b
    Adding is one commit with a new protocol, which no later commit takes back:
    clients that do not know the features lose access. Features that they need
    come with them. Supported is not active: most are switched on by a property.

    \b
    Examples:
      deltacli features ./tbl
      deltacli features ./tbl add deletionVectors --dry-run
      deltacli features ./tbl add v2Checkpoint rowTracking --yes
    """
    from deltacli.operations.table import Table

    opened = Table(run.open(table), clock=run.clock, progress=run.progress)
    if change is None:
        if dry_run or yes:
            raise UsageError("nothing is to be changed: --dry-run and --yes go with add")
        from deltacli.cli.render.settings import write_features
        from deltacli.operations.table_features import list_features

        snapshot = opened.snapshot()
        with run.sink() as sink:
            write_features(sink, run, opened.uri, snapshot.version, snapshot.protocol, list_features(snapshot))
        return
    _add(run, opened, table, names or [], dry_run=dry_run, yes=yes)


def _add(run: Run, opened: Table, table: str, names: list[str], *, dry_run: bool, yes: bool) -> None:
    from deltacli.cli.render.settings import write_change
    from deltacli.operations.table_features import add_features, plan_addition

    if not names:
        raise UsageError("add: no feature is named", hint="deltacli features --help")
    plan = plan_addition(opened, names)
    if dry_run or not plan.plan.added:
        write_change(run, plan, is_done=False)
        if dry_run and plan.plan.added and run.terminal.is_terminal and run.format is OutputFormat.TABLE:
            run.note("next: the same command without --dry-run")
        return
    listed = ", ".join(one.name for one in plan.plan.added)
    what = f"add {listed} to the protocol of {plan.table} for good"
    require_consent(run, what, yes=yes, show_plan=lambda: write_change(run, plan, is_done=False))
    try:
        outcome = add_features(opened, names)
    except Interrupted as interruption:
        interruption.outcome = "; ".join(getattr(interruption, "__notes__", [])) or interruption.outcome
        raise
    write_change(run, outcome, is_done=True)
    if run.terminal.is_terminal and run.format is OutputFormat.TABLE:
        run.note(f"next: deltacli history {quoted_table(table)} --limit 1")
