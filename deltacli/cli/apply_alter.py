"""A change of a Paimon table's schema: how it is made, and its result as sections, rows and documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.cli.apply_change import SchemaEdit
from deltacli.cli.render.columns import Column
from deltacli.cli.render.sections import Section, refused
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, line_of
from deltacli.cli.terminal.shell import quoted_table
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.documents import envelope
from deltacli.operations.paimon.alter import AlterOutcome, AlterRequest, execute_alter, plan_alter, refusal_of
from deltacli.paimon.casts import Loss
from deltacli.paimon.schema_changes import Change, ChangeKind, dotted, sentence

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle


@dataclass
class AlterResult(Result):
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
            return [Section("nothing to do", [said])]
        return [
            Section("table", [outcome.table]),
            Section("branch", [outcome.request.branch] if outcome.request.branch != "main" else []),
            Section("schema", [_schema_line(outcome, is_dry=self.is_dry)]),
            Section("changes", list(_changes(outcome))),
            Section("warnings", [message for _, message in outcome.warnings], Style.PROBLEM),
            refused(_refusal(outcome)),
        ]


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


def altering(table: TableHandle, name: str, request: AlterRequest, command: str) -> SchemaEdit[AlterOutcome]:
    """Return a change of the schema of a Paimon table. `command` is the one that was given: `alter` or `widen-type`."""
    history = f"deltacli history {quoted_table(name)} --limit 5"
    return SchemaEdit(
        plan=lambda _: plan_alter(table, request),
        make=lambda: execute_alter(table, request),
        is_noop=lambda planned: planned.is_noop,
        refusal=lambda planned: None if planned.refusal is None else refusal_of(planned),
        question=lambda planned: f"change the schema of {table.uri}: {_in_words(planned.changes)}",
        result=lambda planned, is_dry: AlterResult(planned, command, is_dry),
        next=lambda made: None if made.committed is None else history,
        overrides={"alter.lossy": "--allow-lossy", "alter.in-options": "--with-options"},
    )


def _in_words(changes: Sequence[Change]) -> str:
    said = [sentence(change) for change in changes if change.kind is not ChangeKind.HIGHEST_FIELD_ID]
    more = f" and {len(said) - _MOST_IN_QUESTION} more" if len(said) > _MOST_IN_QUESTION else ""
    return "; ".join(said[:_MOST_IN_QUESTION]) + more
