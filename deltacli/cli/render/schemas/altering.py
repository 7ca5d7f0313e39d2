"""Changes of a Delta table by `alter` and `widen-type`: how they are made, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.cli.invocation import invocation
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.output.surface import Labelled, Surface
from deltacli.cli.render.plans import make_refusal_rows, make_section_rows
from deltacli.cli.running.changing import ChangePresentation
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.characters import count_cells
from deltacli.cli.terminal.suggested_commands import spell_tables_as_typed
from deltacli.cli.terminal.wrapping import MIN_VALUE_CELLS
from deltacli.core.errors import quote_table
from deltacli.core.texts import summarize_names
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural
from deltacli.operations.change.widen_type import WideningOutcome

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.delta.evolution.draft import Effect
    from deltacli.delta.log.actions import Action
    from deltacli.delta.protocol.clients import ClientAccess
    from deltacli.operations.change.alter import AlterationOutcome
    from deltacli.operations.streams.streams import StreamsReport

_CSV = ("change", "subject", "from", "to")


def make_alteration_presentation(
    name: str, streams: StreamsReport | None = None
) -> ChangePresentation[AlterationOutcome, AlterationOutcome]:
    """Return how changes of a table are told; `name` is as the user wrote it, `streams` are queries that may stop."""
    history = f"deltacli history {quote_table(name)} --limit 5"

    def stopped(planned: AlterationOutcome) -> Iterable[str]:
        if streams is None or planned.is_noop:
            return ()
        before, after = planned.evolution.before, planned.evolution.after
        return streams.describe_stopped(
            metadata=None if after.metadata == before.metadata else after.metadata,
            protocol=None if after.protocol == before.protocol else after.protocol,
        )

    return ChangePresentation(
        list_notes=stopped,
        build_question=_question,
        build_plan_result=alteration_result,
        build_outcome_result=lambda made: alteration_result(made, False),
        suggest_after_change=lambda made: None if made.committed_version is None else history,
    )


def _question(planned: AlterationOutcome) -> str:
    due = planned.evolution.due
    listed = summarize_names([_asked(effect) for effect in due], 5, "; ")
    return f"make {plural(len(due), 'change')} of {planned.table.uri}: {listed}"


def alteration_result(outcome: AlterationOutcome, dry_run: bool) -> SingleResult:
    """Return a plan, or what was committed, as a result."""
    content = outcome.as_json(dry_run=dry_run)

    def draw(canvas: Surface) -> None:
        draw_alteration(canvas, outcome, _sections(outcome, dry_run=dry_run))

    return SingleResult(
        "alter",
        outcome.table.uri,
        content,
        lambda: _sections(outcome, dry_run=dry_run),
        content["changes"],
        _CSV,
        draw,
        line_type="alteration",
    )


def _sections(outcome: AlterationOutcome, *, dry_run: bool) -> list[Section]:
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
        make_refusal_section(_refusals(outcome), in_error=len(outcome.refusals)),
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
        way_out = f"; {spell_tables_as_typed(refusal.hint, invocation.arguments)}" if refusal.hint else ""
        yield f"{refusal.message} [{refusal.code}]{way_out}"


_CSV_OF_WIDENING = ("column", "fromType", "toType", "allowed")


def make_widening_presentation(
    name: str, streams: StreamsReport | None = None
) -> ChangePresentation[WideningOutcome, WideningOutcome]:
    """Return the texts of a change to wider types.

    Args:
        name: The table as the user wrote it.
        streams: Queries that the change may stop; None if no checkpoint was named.
    """
    checkpoint = f"deltacli checkpoint {quote_table(name)}"

    def stopped(planned: WideningOutcome) -> Iterable[str]:
        metadata = planned.plan.metadata_after
        if streams is None or metadata is None:
            return ()
        return streams.describe_stopped(metadata=metadata, protocol=planned.plan.protocol_after)

    return ChangePresentation(
        list_notes=stopped,
        build_question=_widening_question,
        build_plan_result=widening_result,
        build_outcome_result=lambda made: widening_result(made, False),
        suggest_after_change=lambda made: None if made.committed_version is None else checkpoint,
    )


def _widening_question(planned: WideningOutcome) -> str:
    due = planned.plan.due
    listed = ", ".join(f"{change.column} from {change.from_type} to {change.to_type}" for change in due)
    return f"widen {plural(len(due), 'column')} of {planned.table.uri}: {listed}"


def widening_result(outcome: WideningOutcome, dry_run: bool) -> SingleResult:
    """Return a plan, or what was committed, as a result."""
    content = outcome.as_json(dry_run=dry_run)

    def draw(canvas: Surface) -> None:
        draw_widening(canvas, outcome, _widening_sections(outcome, dry_run=dry_run))

    return SingleResult(
        "widen-type",
        outcome.table.uri,
        content,
        lambda: _widening_sections(outcome, dry_run=dry_run),
        content["changes"],
        _CSV_OF_WIDENING,
        draw,
    )


def _widening_sections(outcome: WideningOutcome, *, dry_run: bool) -> list[Section]:
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
        make_refusal_section(_refusals(outcome), in_error=len(outcome.refusals)),
    ]


def _widening_protocol(outcome: WideningOutcome) -> Iterator[str]:
    plan = outcome.plan
    if plan.protocol_after is None:
        return
    yield f"{protocol_versions(plan.protocol_before)} -> {protocol_versions(plan.protocol_after)}"
    if plan.added_features:
        yield f"added: {', '.join(plan.added_features)}"


def protocol_versions(protocol: Action) -> str:
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
    yield f"{format_file_totals(files.count, files.size_bytes)}{rows} keep the older types"
    if outcome.impact.partition_values is not None:
        yield f"{plural(outcome.impact.partition_values, 'partition value')} will be read in the new type"


def _is_impossible(outcome: WideningOutcome) -> bool:
    return any(one.code == "widen.not-allowed" for one in outcome.refusals)


def _consequences(outcome: WideningOutcome) -> Iterator[str]:
    if _is_impossible(outcome):
        return
    yield "writers that started before the commit fail and must be restarted"
    if all(one.code != "alter.streams" for one in outcome.plan.warnings):
        yield "streaming readers stop at the commit and must be restarted with the new schema"


# -- changes of settings, types and protocols --------------------------------------------------------------------------

Grid = list[Labelled]


def change(canvas: Surface, before: str | None, after: str | None) -> RenderableType:
    """Return `before → after` coloured as a diff; None: there is no such value."""
    absent = "(not set)"
    return canvas.joined(
        [
            (absent if before is None else before, Style.QUIET if before is None else Style.REMOVED),
            " -> " if canvas.is_ascii else " → ",
            (absent if after is None else after, Style.QUIET if after is None else Style.ADDED),
        ]
    )


def draw_widening(canvas: Surface, outcome: WideningOutcome, said: Sequence[Section]) -> None:
    """Draw what widening columns changes, for which clients, and what forbids it; `said`: the text form."""
    sections = {section.label: section for section in said}
    plan = outcome.plan
    if plan.is_noop:
        canvas.draw_parts(make_section_rows(canvas, sections.values()))
        return
    due: list[list[RenderableType]] = [[one.column, change(canvas, one.from_type, one.to_type)] for one in plan.due]
    parts: list[RenderableType | Grid] = [
        _chosen(canvas, sections, "table", "commit"),
        canvas.matrix(("column", "type"), due),
    ]
    if plan.protocol_after is not None or plan.enables_property:
        parts.append(
            protocol_matrix(
                canvas, plan.protocol_before, plan.protocol_after or plan.protocol_before, plan.added_features
            )
        )
    if plan.enables_property:
        parts.append([("property", canvas.joined(["delta.enableTypeWidening ", change(canvas, None, "true")]))])
    if outcome.clients:
        parts.append(client_matrix(canvas, outcome.clients))
    refusals = [
        (one.message, one.code, spell_tables_as_typed(one.hint or "", invocation.arguments)) for one in outcome.refusals
    ]
    parts.append([*_chosen(canvas, sections, "files", "then", "warnings"), *make_refusal_rows(canvas, refusals)])
    canvas.draw_parts(*parts)


def draw_alteration(canvas: Surface, outcome: AlterationOutcome, said: Sequence[Section]) -> None:
    """Draw what `alter` changes, before and after, who reads and writes the table then, and what forbids it."""
    from deltacli.delta.evolution.requests import KIND_OF

    sections = {section.label: section for section in said}
    evolution = outcome.evolution
    if evolution.is_noop:
        canvas.draw_parts(make_section_rows(canvas, sections.values()))
        return
    due: list[list[RenderableType]] = [
        [KIND_OF[type(one.change)], one.subject, change(canvas, one.before, one.after)] for one in evolution.due
    ]
    parts: list[RenderableType | Grid] = [_chosen(canvas, sections, "table", "commit")]
    if due:
        parts.append(
            canvas.matrix(("change", "target", "before → after" if not canvas.is_ascii else "before -> after"), due)
        )
    before, after = evolution.before, evolution.after
    if before.protocol != after.protocol:
        added = sorted(after.config.features - before.config.features)
        parts.append(protocol_matrix(canvas, before.protocol, after.protocol, added))
    if outcome.clients:
        parts.append(client_matrix(canvas, outcome.clients))
    refusals = [
        (one.message, one.code, spell_tables_as_typed(one.hint or "", invocation.arguments) or None)
        for one in outcome.refusals
    ]
    parts.append([*_chosen(canvas, sections, "warnings"), *make_refusal_rows(canvas, refusals)])
    canvas.draw_parts(*parts)


def draw_settings(
    canvas: Surface, content: JsonObject, said: Sequence[Section], clients: Sequence[ClientAccess]
) -> None:
    """Draw a change of properties or features that was made, or would be.

    Args:
        canvas: The surface.
        content: The document of the change.
        said: The sections of the text form.
        clients: What the change means for clients.
    """
    sections = {section.label: section for section in said}
    changes = content["changes"]
    if not changes:
        canvas.draw_parts(make_section_rows(canvas, sections.values()))
        return
    is_of_features = "feature" in changes[0]
    before, after = content["protocolBefore"], content["protocolAfter"]
    parts: list[RenderableType | Grid] = [_chosen(canvas, sections, "table", "version")]
    if is_of_features:
        rows = [[canvas.text(f"+{one['feature']}", Style.ADDED), one.get("neededBy", "")] for one in changes]
        heading = ("feature", "needed by") if any(needed for _, needed in rows) else ("feature",)
        parts.append(canvas.matrix(heading, [row[: len(heading)] for row in rows]))
    else:
        parts.append(_properties(canvas, changes))
    if before != after:
        added = [one["feature"] for one in changes if "feature" in one] or sorted(_features(after) - _features(before))
        parts.append(protocol_matrix(canvas, before, after, added))
        if clients:
            parts.append(client_matrix(canvas, clients))
    parts.append(_chosen(canvas, sections, "row ids", "readers", "writers", "clients"))
    canvas.draw_parts(*parts)


def _properties(canvas: Surface, changes: Sequence[JsonObject]) -> RenderableType:
    """Return what becomes of each property: as a table, or below its key where the table would fold keys."""
    rows = [(one["key"], change(canvas, one.get("before"), one.get("after"))) for one in changes]
    if max(count_cells(key) for key, _ in rows) + 2 + MIN_VALUE_CELLS > canvas.width:
        return canvas.grid(rows)
    return canvas.matrix(("property", "before → after" if not canvas.is_ascii else "before -> after"), rows)


def _chosen(canvas: Surface, sections: Mapping[str, Any], *labels: str) -> Grid:  # Any: Section
    return make_section_rows(canvas, [sections[label] for label in labels if label in sections])


def protocol_matrix(canvas: Surface, before: JsonObject, after: JsonObject, added: Sequence[str]) -> RenderableType:
    """Return what a protocol demands of those that read and write the table, before and after. Of the features that
    are listed afterwards, those in `added` are new; the others were implied by the versions.
    """
    rows: list[list[RenderableType]] = []
    for title, version, listed in (
        ("read", "minReaderVersion", "readerFeatures"),
        ("write", "minWriterVersion", "writerFeatures"),
    ):
        old, new = str(before.get(version)), str(after.get(version))
        versions = canvas.text(new) if old == new else change(canvas, old, new)
        rows.append([title, versions, _features_text(canvas, after.get(listed) or (), added)])
    return canvas.matrix(("to", "version", "features"), rows)


def _features_text(canvas: Surface, names: Sequence[str], added: Sequence[str]) -> RenderableType:
    parts: list[tuple[str, Style]] = []
    for name in sorted(names):
        parts += [(", ", Style.PLAIN)] if parts else []
        parts.append((f"+{name}", Style.ADDED) if name in added else (name, Style.PLAIN))
    return canvas.joined(parts)


def _features(protocol: JsonObject) -> set[str]:
    return {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}


def client_matrix(canvas: Surface, clients: Sequence[ClientAccess]) -> RenderableType:
    """Return which clients read and write the table afterwards, from which version on, and which lose that."""
    rows: list[list[RenderableType]] = [
        [one.name, _reads(canvas, one), _writes(canvas, one), one.since or "", ", ".join(one.sources)]
        for one in clients
    ]
    titles = ("client", "read", "write", "from version", "source")
    narrow = canvas.width < _WIDE and not canvas.never_cuts
    return canvas.matrix(titles[:-1] if narrow else titles, [row[:-1] for row in rows] if narrow else rows)


_WIDE = 110
"""Cells from which the sources of what is known of clients have room."""


def _answer(canvas: Surface, does: bool | None) -> RenderableType:
    if does is None:
        return canvas.text("unknown", Style.QUIET)
    return canvas.text("yes", Style.GOOD) if does else canvas.text("no", Style.PROBLEM)


def _reads(canvas: Surface, one: ClientAccess) -> RenderableType:
    return canvas.text("loses", Style.PROBLEM) if one.loses_reads else _answer(canvas, one.reads)


def _writes(canvas: Surface, one: ClientAccess) -> RenderableType:
    if one.loses_writes:
        return canvas.text("loses", Style.PROBLEM)
    return _answer(canvas, one.writes) if one.client.writes else canvas.text("never", Style.QUIET)
