"""A change of a Paimon table's schema: how it is made, and its result as sections, rows and documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltacli.cli.changing import Wording
from deltacli.cli.render.sections import Section, refused
from deltacli.cli.results import Outcome
from deltacli.cli.terminal.shell import quoted_table
from deltacli.cli.terminal.term import Style
from deltacli.core.typing import JsonObject
from deltacli.core.units import some_of
from deltacli.operations.paimon.alter import AlterOutcome
from deltacli.paimon.casts import Loss
from deltacli.paimon.schema_changes import Change, ChangeKind, dotted, sentence

_COLUMNS = ("kind", "field", "fieldId", "class", "cast", "change")


def _result(outcome: AlterOutcome, command: str, *, is_dry: bool) -> Outcome:
    """Return the next version of a schema as a result. `command` is the one that was given: `alter` or `widen-type`."""
    return Outcome(
        command,
        outcome.table,
        outcome.as_json(dry_run=is_dry),
        lambda: _sections(outcome, is_dry=is_dry),
        map(_row, outcome.changes),
        _COLUMNS,
        line="alter",
        table_format="paimon",
    )


def _row(change: Change) -> JsonObject:
    values = (change.kind.value, _named(change), change.field_id, change.loss.value, change.cast, sentence(change))
    return dict(zip(_COLUMNS, values, strict=True))


def _sections(outcome: AlterOutcome, *, is_dry: bool) -> list[Section]:
    if outcome.is_noop:
        said = f"{outcome.table}, schema {outcome.before.id}, is already as requested"
        return [Section("nothing to do", [said])]
    return [
        Section("table", [outcome.table]),
        Section("branch", [outcome.request.branch] if outcome.request.branch != "main" else []),
        Section("schema", [_schema_line(outcome, is_dry=is_dry)]),
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


def wording_of_schema(name: str, command: str) -> Wording[AlterOutcome, AlterOutcome]:
    """Return how a change of the schema of a Paimon table is told. `command` is the one that was given: `alter` or
    `widen-type`.
    """
    history = f"deltacli history {quoted_table(name)} --limit 5"
    return Wording(
        question=lambda plan: f"change the schema of {plan.table}: {_in_words(plan.changes)}",
        planned=lambda plan, is_dry: _result(plan, command, is_dry=is_dry),
        done=lambda made: _result(made, command, is_dry=False),
        following=lambda made: None if made.committed is None else history,
        overrides={"alter.lossy": "--allow-lossy", "alter.in-options": "--with-options"},
    )


def _in_words(changes: Sequence[Change]) -> str:
    said = [sentence(change) for change in changes if change.kind is not ChangeKind.HIGHEST_FIELD_ID]
    return some_of(said, 5, "; ")
