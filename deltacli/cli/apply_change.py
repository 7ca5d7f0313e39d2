"""Run a change of a schema in one commit: plan, confirmation, result and next command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import telling_commit
from deltacli.cli.terminal.shell import again_with, again_without
from deltacli.errors import EXIT_FINDINGS, Refused

if TYPE_CHECKING:
    from deltacli.cli.results import Result


Planned = TypeVar("Planned")


@dataclass(frozen=True)
class SchemaEdit(Generic[Planned]):
    """A change of the schema of a table, of either format: how it is planned, made and shown."""

    plan: Callable[[bool], Planned]
    """Plans the change; with True, also what it affects."""
    make: Callable[[], Planned]
    is_noop: Callable[[Planned], bool]
    refusal: Callable[[Planned], Refused | None]
    question: Callable[[Planned], str]
    result: Callable[[Planned, bool], Result]
    """Makes the result; with True, that of a plan."""
    next: Callable[[Planned], str | None]
    """The command to run after the change; None where nothing was committed."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """The options that accept what a guard refuses, by the code of the refusal."""


def edit_schema(run: Run, edit: SchemaEdit[Any], *, dry_run: bool, yes: bool, check: bool = False) -> None:
    """Change the schema of a table after confirmation.

    With `check` or `dry_run` only the plan is written. Raises Refused, and Exit where `check` found a change that is
    due.
    """
    try:
        _edit_schema(run, edit, dry_run=dry_run, yes=yes, check=check)
    except Refused as refusal:
        if refusal.hint is None and (option := edit.overrides.get(refusal.code)) is not None:
            refusal.hint = again_with(invocation.arguments, option)
        raise


def _edit_schema(run: Run, edit: SchemaEdit[Planned], *, dry_run: bool, yes: bool, check: bool) -> None:
    if not yes or dry_run or check:
        planned = edit.plan(not check)
        refusal = edit.refusal(planned)
        if dry_run or check or refusal is not None or edit.is_noop(planned):
            run.write(edit.result(planned, dry_run or check or refusal is not None))
            if refusal is not None:
                raise refusal
            if check and not edit.is_noop(planned):
                raise typer.Exit(EXIT_FINDINGS)
            if dry_run and not edit.is_noop(planned):
                run.say_next(again_without(invocation.arguments, "--dry-run"))
            return
        what = edit.question(planned)
        require_confirmation(run, what, yes=yes, show_plan=lambda: run.write(edit.result(planned, True)))
    with telling_commit():
        made = edit.make()
    run.write(edit.result(made, False))
    if (command := edit.next(made)) is not None:
        run.say_next(command)
