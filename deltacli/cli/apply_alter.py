"""Run a change of a Paimon table's schema: plan, confirmation, result and next command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.render.columns import Column
from deltacli.cli.render.json import envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, line_of
from deltacli.cli.terminal.interrupts import telling_commit
from deltacli.cli.terminal.shell import again_with, again_without, quoted_table
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.errors import EXIT_FINDINGS, Refused
from deltacli.operations.paimon.alter import AlterOutcome, AlterRequest, execute_alter, plan_alter, refusal_of
from deltacli.paimon.casts import Loss
from deltacli.paimon.schema_changes import Change, ChangeKind, dotted, sentence

if TYPE_CHECKING:
    from deltacli.storage import Storage


@dataclass
class _AlterResult(Result):
    """The next version of a schema. `command` is the one that was given: `alter` or `widen-type`."""

    outcome: AlterOutcome
    command: str
    is_dry: bool

    def document(self) -> Document:
        fields = envelope(f"deltacli.{self.command}", self.outcome.table, complete=True, table_format="paimon")
        return Document(fields | self.outcome.as_json(dry_run=self.is_dry))

    def lines(self, emit: Emit) -> bool:
        content = {"table": self.outcome.table, **self.outcome.as_json(dry_run=self.is_dry)}
        emit(line_of(content, "alter"))
        return True

    def grid(self) -> Grid:
        columns: list[Column[Change]] = [
            Column("kind", lambda change: change.kind.value),
            Column("field", _named),
            Column("fieldId", lambda change: change.field_id),
            Column("class", lambda change: change.loss.value),
            Column("cast", lambda change: change.cast),
            Column("change", sentence),
        ]
        return RowGrid(columns, self.outcome.changes)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        outcome = self.outcome
        if outcome.is_noop:
            said = f"{outcome.table}, schema {outcome.before.id}, is already as requested"
            return [Section("nothing to do", [said], is_cut=False)]
        shown = [
            Section("table", [outcome.table]),
            Section("branch", [outcome.request.branch] if outcome.request.branch != "main" else []),
            Section("schema", [_schema_line(outcome, is_dry=self.is_dry)]),
            Section("changes", list(_changes(outcome)), is_cut=False),
            Section("warnings", [message for _, message in outcome.warnings], Style.PROBLEM, is_cut=False),
            Section("refused", list(_refusal(outcome)), Style.PROBLEM, is_cut=False),
        ]
        return [section for section in shown if section.lines]


def _named(change: Change) -> str | None:
    """Return the path of a column, or the key of an option."""
    is_option = change.kind in (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION)
    return (change.path[0] if is_option else dotted(change.path)) if change.path else None


def _schema_line(outcome: AlterOutcome, *, is_dry: bool) -> str:
    before = outcome.before.id
    if outcome.committed is not None:
        return f"{before} -> {outcome.committed}, created"
    return f"{before} -> {before + 1}, would be created" if is_dry and outcome.refusal is None else f"{before}"


def _changes(outcome: AlterOutcome) -> Iterator[str]:
    for change in outcome.changes:
        if change.kind is not ChangeKind.HIGHEST_FIELD_ID:
            yield f"{sentence(change)}{_class(change)}"


def _class(change: Change) -> str:
    """Return the class of a change of type, and of what loses data: `(lossy: longer values are cut; implicit cast)`."""
    if change.kind is not ChangeKind.TYPE and change.loss is Loss.LOSSLESS:
        return f"  [id {change.field_id}]" if change.kind is ChangeKind.ADD_COLUMN else ""
    said = f"{change.loss}: {change.reason}" if change.reason else str(change.loss)
    cast = f"; {change.cast} cast in Paimon" if change.cast else ""
    return f"  ({said}{cast})"


def _refusal(outcome: AlterOutcome) -> Iterator[str]:
    refusal = outcome.refusal
    if refusal is None:
        return
    yield f"{refusal.message} [{refusal.code}]"
    yield from (f"{name}: {value}" for name, value in refusal.facts.items())


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
    with telling_commit():
        outcome = execute_alter(storage, run.engine, request, clock=run.clock)
    _write(run, outcome, command, is_dry=False)
    if outcome.committed is not None:
        run.say_next(f"deltacli history {quoted_table(table)} --limit 5")


def _write(run: Run, outcome: AlterOutcome, command: str, *, is_dry: bool) -> None:
    run.write(_AlterResult(outcome, command, is_dry))


def _in_words(changes: Sequence[Change]) -> str:
    said = [sentence(change) for change in changes if change.kind is not ChangeKind.HIGHEST_FIELD_ID]
    more = f" and {len(said) - _MOST_IN_QUESTION} more" if len(said) > _MOST_IN_QUESTION else ""
    return "; ".join(said[:_MOST_IN_QUESTION]) + more
