"""Run a change of a Paimon table's schema: plan, confirmation, result and next command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import telling_commit
from deltacli.cli.terminal.shell import again_with, again_without, quoted_table
from deltacli.errors import EXIT_FINDINGS, Refused

if TYPE_CHECKING:
    from deltacli.operations.paimon.alter import AlterOutcome, AlterRequest
    from deltacli.paimon.schema_changes import Change
    from deltacli.storage import Storage

_MOST_IN_QUESTION = 5
_OVERRIDES = {"alter.lossy": "--allow-lossy", "alter.in-options": "--with-options"}
"""Options that accept what a guard refuses, by the code of the refusal."""


def alter_paimon(
    run: Run,
    table: str,
    storage: Storage,
    request: AlterRequest,
    command: str,
    *,
    dry_run: bool,
    yes: bool,
    check: bool = False,
) -> None:
    """Change the schema of a Paimon table after confirmation.

    With `check` or `dry_run` only the plan is written. Raises Refused, and Exit where `check` found a change that is
    due.
    """
    try:
        _alter(run, table, storage, request, command, dry_run=dry_run, yes=yes, check=check)
    except Refused as refusal:
        if refusal.hint is None and (option := _OVERRIDES.get(refusal.code)) is not None:
            refusal.hint = again_with(invocation.arguments, option)
        raise


def _alter(
    run: Run,
    table: str,
    storage: Storage,
    request: AlterRequest,
    command: str,
    *,
    dry_run: bool,
    yes: bool,
    check: bool,
) -> None:
    from deltacli.operations.paimon.alter import plan_alter, refusal_of

    if yes and not (dry_run or check):
        _execute(run, table, storage, request, command)
        return
    planned = plan_alter(storage, run.engine, request, clock=run.clock)
    if planned.refusal is not None:
        _write(run, planned, command, is_dry=True)
        raise refusal_of(planned)
    if dry_run or check or planned.is_noop:
        _write(run, planned, command, is_dry=dry_run or check)
        if check and not planned.is_noop:
            raise typer.Exit(EXIT_FINDINGS)
        if dry_run and not planned.is_noop:
            run.say_next(again_without(invocation.arguments, "--dry-run"))
        return
    what = f"change the schema of {storage.uri}: {_in_words(planned.changes)}"
    require_confirmation(run, what, yes=yes, show_plan=lambda: _write(run, planned, command, is_dry=True))
    _execute(run, table, storage, request, command)


def _execute(run: Run, table: str, storage: Storage, request: AlterRequest, command: str) -> None:
    from deltacli.operations.paimon.alter import execute_alter

    with telling_commit():
        outcome = execute_alter(storage, run.engine, request, clock=run.clock)
    _write(run, outcome, command, is_dry=False)
    if outcome.committed is not None:
        run.say_next(f"deltacli history {quoted_table(table)} --limit 5")


def _write(run: Run, outcome: AlterOutcome, command: str, *, is_dry: bool) -> None:
    from deltacli.cli.render.paimon.alter import AlterResult

    run.write(AlterResult(outcome, command, is_dry))


def _in_words(changes: Sequence[Change]) -> str:
    from deltacli.paimon.schema_changes import ChangeKind, sentence

    said = [sentence(change) for change in changes if change.kind is not ChangeKind.HIGHEST_FIELD_ID]
    more = f" and {len(said) - _MOST_IN_QUESTION} more" if len(said) > _MOST_IN_QUESTION else ""
    return "; ".join(said[:_MOST_IN_QUESTION]) + more
