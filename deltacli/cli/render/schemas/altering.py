"""Changes of a Delta table by `alter` and `widen-type`: how they are made, and their results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.render.columns import Section, file_amount, refused
from deltacli.cli.results import Outcome
from deltacli.cli.running.changing import Wording
from deltacli.cli.terminal.shell import as_typed, quoted_table
from deltacli.cli.terminal.term import Style
from deltacli.core.units import plural, some_of
from deltacli.operations.change.widen_type import WideningOutcome

if TYPE_CHECKING:
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.delta.evolution.draft import Effect
    from deltacli.delta.log.actions import Action
    from deltacli.delta.protocol.clients import ClientAccess
    from deltacli.operations.change.alter import AlterationOutcome

_CSV = ("change", "subject", "from", "to")


def wording_of_alteration(name: str) -> Wording[AlterationOutcome, AlterationOutcome]:
    """Return how the changes of a table are told; `name` is the table as the user wrote it."""
    history = f"deltacli history {quoted_table(name)} --limit 5"
    return Wording(
        question=_question,
        planned=alteration_result,
        done=lambda made: alteration_result(made, False),
        following=lambda made: None if made.committed_version is None else history,
    )


def _question(planned: AlterationOutcome) -> str:
    due = planned.evolution.due
    listed = some_of([_asked(effect) for effect in due], 5, "; ")
    return f"make {plural(len(due), 'change')} of {planned.table.uri}: {listed}"


def alteration_result(outcome: AlterationOutcome, dry_run: bool) -> Outcome:
    """Return a plan, or what was committed, as a result."""
    content = outcome.as_json(dry_run=dry_run)

    def draw(canvas: Canvas) -> None:
        from deltacli.cli.render.terminal.plans import draw_alteration

        draw_alteration(canvas, outcome, _sections(outcome, dry_run=dry_run))

    return Outcome(
        "alter",
        outcome.table.uri,
        content,
        lambda: _sections(outcome, dry_run=dry_run),
        content["changes"],
        _CSV,
        draw,
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


def _kind(effect: Effect) -> str:
    from deltacli.delta.evolution.requests import KIND_OF

    return KIND_OF[type(effect.change)]


def _asked(effect: Effect) -> str:
    what = f"{_kind(effect)} {effect.subject}"
    if effect.after is None:
        return what
    before, after = (f"'{one}'" if _kind(effect) in _OF_TEXTS else one for one in (effect.before, effect.after))
    return f"{what}: {after}" if effect.before is None else f"{what}: from {before} to {after}"


_OF_TEXTS = frozenset({"comment", "name", "table-comment"})
"""Changes of what is words of people."""


def _sentence(effect: Effect) -> str:
    what = f"{_kind(effect)}  {effect.subject}"
    if effect.before is None:
        return f"{what}  + {effect.after}"
    if effect.after is None:
        return f"{what}  - {effect.before}"
    return f"{what}  {effect.before} -> {effect.after}"


def _commit(outcome: AlterationOutcome | WideningOutcome, *, dry_run: bool) -> str:
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


def _refusals(outcome: AlterationOutcome | WideningOutcome) -> Iterator[str]:
    for refusal in outcome.refusals:
        way_out = f"; {as_typed(refusal.hint, invocation.arguments)}" if refusal.hint else ""
        yield f"{refusal.message} [{refusal.code}]{way_out}"


_CSV_OF_WIDENING = ("column", "fromType", "toType", "allowed")


def wording_of_widening(name: str) -> Wording[WideningOutcome, WideningOutcome]:
    """Return how wider types are told; `name` is the table as the user wrote it."""
    checkpoint = f"deltacli checkpoint {quoted_table(name)}"
    return Wording(
        question=_widening_question,
        planned=widening_result,
        done=lambda made: widening_result(made, False),
        following=lambda made: None if made.committed_version is None else checkpoint,
    )


def _widening_question(planned: WideningOutcome) -> str:
    due = planned.plan.due
    listed = ", ".join(f"{change.column} from {change.from_type} to {change.to_type}" for change in due)
    return f"widen {plural(len(due), 'column')} of {planned.table.uri}: {listed}"


def widening_result(outcome: WideningOutcome, dry_run: bool) -> Outcome:
    """Return a plan, or what was committed, as a result."""
    content = outcome.as_json(dry_run=dry_run)

    def draw(canvas: Canvas) -> None:
        from deltacli.cli.render.terminal.plans import draw_widening

        draw_widening(canvas, outcome, _widening_sections(outcome, dry_run=dry_run))

    return Outcome(
        "widen-type",
        outcome.table.uri,
        content,
        lambda: _widening_sections(outcome, dry_run=dry_run),
        content["changes"],
        _CSV_OF_WIDENING,
        draw,
    )


def _widening_sections(outcome: WideningOutcome, *, dry_run: bool) -> list[Section]:
    """The sections of a plan, or of what was done; those with nothing to say are left out."""
    plan = outcome.plan
    if plan.is_noop:
        columns = ", ".join(f"{change.column} is {change.to_type}" for change in plan.changes)
        return [Section("nothing to do", [f"{outcome.table.uri}, version {outcome.read_version}: {columns}"])]
    return [
        Section("table", [outcome.table.uri]),
        Section("columns", [f"{change.column}  {change.from_type} -> {change.to_type}" for change in plan.due]),
        Section("commit", [_commit(outcome, dry_run=dry_run)]),
        Section("protocol", list(_widening_protocol(outcome))),
        Section("property", ["delta.enableTypeWidening=true"] if plan.enables_property else []),
        Section("clients", [client_line(client) for client in outcome.clients]),
        Section("files", list(_files(outcome))),
        Section("then", list(_consequences(outcome))),
        Section("warnings", [caution.message for caution in plan.warnings], Style.PROBLEM),
        refused(_refusals(outcome), in_error=len(outcome.refusals)),
    ]


def _widening_protocol(outcome: WideningOutcome) -> Iterator[str]:
    plan = outcome.plan
    if plan.protocol_after is None:
        return
    yield f"{protocol_versions(plan.protocol_before)} -> {protocol_versions(plan.protocol_after)}"
    if plan.added_features:
        yield f"added: {', '.join(plan.added_features)}"


def protocol_versions(protocol: Action) -> str:
    """Return the two versions of a protocol in words."""
    return f"reader {protocol.get('minReaderVersion')}, writer {protocol.get('minWriterVersion')}"


def client_line(client: ClientAccess) -> str:
    """Return what a client can do afterwards."""
    version = f"{'in' if client.client.is_exact else 'from'} {client.since}"
    if client.reads is None:
        verdict = "unknown"
    elif not client.reads:
        verdict = f"{f'loses {client.loses}, ' if client.loses_reads else ''}no known version reads it"
        verdict += ", it only writes it" if client.writes else ""
    elif client.writes:
        verdict = f"reads and writes it {version}" if client.since else "reads and writes it"
    else:
        does = "may not write it" if client.writes is None else "does not write it"
        does = "loses writing" if client.loses_writes else does
        does = does if client.client.writes else "writes no tables"
        verdict = f"reads it {version}, {does}" if client.since else f"reads it, {does}"
    return f"{client.name}: {verdict}"


def _files(outcome: WideningOutcome) -> Iterator[str]:
    if outcome.impact is None or _is_impossible(outcome):
        return
    files = outcome.impact.files
    rows = "" if files.rows is None else f", {plural(files.rows, 'row')}"
    yield f"{file_amount(files.count, files.size_bytes)}{rows} keep the older types"
    if outcome.impact.partition_values is not None:
        yield f"{plural(outcome.impact.partition_values, 'partition value')} will be read in the new type"


def _is_impossible(outcome: WideningOutcome) -> bool:
    """Return True if no option could make the change possible."""
    return any(one.code == "widen.not-allowed" for one in outcome.refusals)


def _consequences(outcome: WideningOutcome) -> Iterator[str]:
    if _is_impossible(outcome):
        return
    yield "writers that started before the commit fail and must be restarted"
    if all(one.code != "alter.streams" for one in outcome.plan.warnings):
        yield "streaming readers stop at the commit and must be restarted with the new schema"
