"""Changes of a Delta table by `alter`: how they are made, and their result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.apply_change import SchemaEdit
from deltacli.cli.invocation import invocation
from deltacli.cli.render.sections import Section, refused
from deltacli.cli.render.widening import client_line, protocol_versions
from deltacli.cli.results import Outcome
from deltacli.cli.terminal.shell import as_typed, quoted_table
from deltacli.cli.terminal.term import Style
from deltacli.delta.evolution.requests import KIND_OF
from deltacli.operations.change.alter import (
    AlterationOutcome,
    AlterationRequest,
    execute_alteration,
    plan_alteration,
)
from deltacli.operations.change.widen_type import refusal_error
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.delta.evolution.draft import Effect

_CSV = ("change", "subject", "from", "to")
_MOST_IN_QUESTION = 5


def alteration(table: Table, name: str, request: AlterationRequest) -> SchemaEdit[AlterationOutcome]:
    """Return the changes of a table; `name` is the table as the user wrote it."""
    history = f"deltacli history {quoted_table(name)} --limit 5"
    return SchemaEdit(
        plan=lambda _: plan_alteration(table, request),
        make=lambda: execute_alteration(table, request),
        is_noop=lambda planned: planned.is_noop,
        refusal=lambda planned: refusal_error(planned.refusals) if planned.refusals else None,
        question=_question,
        result=alteration_result,
        next=lambda made: None if made.committed_version is None else history,
    )


def _question(planned: AlterationOutcome) -> str:
    due = planned.evolution.due
    listed = "; ".join(_asked(effect) for effect in due[:_MOST_IN_QUESTION])
    more = f" and {len(due) - _MOST_IN_QUESTION} more" if len(due) > _MOST_IN_QUESTION else ""
    return f"make {plural(len(due), 'change')} of {planned.table.uri}: {listed}{more}"


def alteration_result(outcome: AlterationOutcome, dry_run: bool) -> Outcome:
    """Return a plan, or what was committed, as a result."""
    content = outcome.as_json(dry_run=dry_run)
    return Outcome(
        "alter",
        outcome.table.uri,
        content,
        lambda: _sections(outcome, dry_run=dry_run),
        content["changes"],
        _CSV,
        lambda canvas: _draw(canvas, outcome, dry_run=dry_run),
        line="alteration",
    )


def _sections(outcome: AlterationOutcome, *, dry_run: bool) -> list[Section]:
    """The sections of a plan, or of what was done; those with nothing to say are left out."""
    evolution = outcome.evolution
    if evolution.is_noop:
        said = f"{outcome.table.uri}, version {outcome.read_version}, is already as requested"
        return [Section("nothing to do", [said])]
    return [
        Section("table", [outcome.table.uri]),
        Section("changes", [_sentence(effect) for effect in evolution.due]),
        Section("commit", [_commit(outcome, dry_run=dry_run)]),
        Section("protocol", list(_protocol(outcome))),
        Section("clients", [client_line(client) for client in outcome.clients]),
        Section("warnings", [caution.message for caution in evolution.cautions], Style.PROBLEM),
        refused(_refusals(outcome), in_error=len(outcome.refusals)),
    ]


def _asked(effect: Effect) -> str:
    what = f"{KIND_OF[type(effect.change)]} {effect.subject}"
    if effect.after is None:
        return what
    return f"{what}: {effect.after}" if effect.before is None else f"{what}: {effect.before} to {effect.after}"


def _sentence(effect: Effect) -> str:
    what = f"{KIND_OF[type(effect.change)]}  {effect.subject}"
    if effect.before is None:
        return f"{what}  + {effect.after}"
    if effect.after is None:
        return f"{what}  - {effect.before}"
    return f"{what}  {effect.before} -> {effect.after}"


def _commit(outcome: AlterationOutcome, *, dry_run: bool) -> str:
    if outcome.committed_version is not None:
        return f"version {outcome.committed_version}, committed"
    if outcome.refusals:
        return "none, the change is refused"
    return f"version {outcome.read_version + 1}, would be committed" if dry_run else "none"


def _protocol(outcome: AlterationOutcome) -> Iterator[str]:
    before, after = outcome.evolution.before, outcome.evolution.after
    if before.protocol == after.protocol:
        return
    yield f"{protocol_versions(before.protocol)} -> {protocol_versions(after.protocol)}"
    yield f"added: {', '.join(sorted(after.config.features - before.config.features))}"


def _refusals(outcome: AlterationOutcome) -> Iterator[str]:
    for refusal in outcome.refusals:
        way_out = f"; {as_typed(refusal.way_out, invocation.arguments)}" if refusal.way_out else ""
        yield f"{refusal.message} [{refusal.code}]{way_out}"


def _draw(canvas: Canvas, outcome: AlterationOutcome, *, dry_run: bool) -> None:
    """Draw the same on a terminal."""
    from deltacli.cli.render.terminal import protocol

    protocol.draw_alteration(canvas, outcome, _sections(outcome, dry_run=dry_run))
