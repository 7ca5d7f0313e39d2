"""Run a change of a setting in one commit: plan, confirmation, result and next command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import telling_commit
from deltacli.cli.terminal.shell import again_without, quoted_table

if TYPE_CHECKING:
    from deltacli.operations.change.table_features import FeaturesOutcome
    from deltacli.operations.change.table_properties import PropertiesOutcome

    Outcome = FeaturesOutcome | PropertiesOutcome


def show_plan(run: Run, plan: Outcome, *, has_next: bool) -> None:
    """Write a plan that is not executed; with `has_next` name the command that executes it."""
    from deltacli.cli.render.properties_and_features import write_change

    write_change(run, plan, is_done=False)
    if has_next:
        run.say_next(again_without(invocation.arguments, "--dry-run"))


def carry_out(run: Run, table: str, what: str, plan: Outcome, change: Callable[[], Outcome], *, yes: bool) -> None:
    """Ask, commit, and write what was done. Raises Refused without confirmation, and what `change` raises."""
    from deltacli.cli.render.properties_and_features import write_change

    require_confirmation(run, what, yes=yes, show_plan=lambda: write_change(run, plan, is_done=False))
    with telling_commit():
        outcome = change()
    write_change(run, outcome, is_done=True)
    run.say_next(f"deltacli history {quoted_table(table)} --limit 1")
