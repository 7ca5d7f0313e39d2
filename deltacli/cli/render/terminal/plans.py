"""Plans on a terminal: what is deleted and kept, versions as a strip, refusals with what overrides them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from deltacli.cli.invocation import invocation
from deltacli.cli.render.columns import Section
from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.tables import LEAST_ROOM, change, grid, matrix
from deltacli.cli.terminal.shell import as_typed
from deltacli.cli.terminal.term import Style, cells, pasted_lines
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_count, format_size
from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.clients import ClientAccess
from deltacli.table.known_clients import clients_after

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.cli.render.columns import Section
    from deltacli.operations.change.alter import AlterationOutcome
    from deltacli.operations.change.widen_type import WideningOutcome

# -- plans on a terminal -----------------------------------------------------------------------------------------------

_ACTIONS = {"delete": Style.REMOVED, "keep": Style.GOOD, "unrecognized": Style.WARNING}
_LABEL_CELLS = 12
"""Of the labels of a plan, with the gap behind them."""
_STRIP_CELLS = 60
_CELLS_PER_VERSION = 3
_MARKS = {Style.REMOVED: "░", Style.CHANGED: "▒", Style.ADDED: "█"}
_ASCII_MARKS = {Style.REMOVED: "-", Style.CHANGED: "~", Style.ADDED: "+"}

Spans = Sequence[tuple[int, int]]
"""Ranges of versions, both ends included."""


class PlanRow(NamedTuple):
    """Some files of a plan: `action` is delete, keep or unrecognized. None: not counted."""

    action: str
    kind: str
    files: int | None
    size_bytes: int | None
    remark: str = ""


def plan_table(canvas: Canvas, rows: Sequence[PlanRow], remarks: str) -> RenderableType:
    """Return the files of a plan by action and kind; `remarks` is the title of the last column."""
    texts: list[list[str | Text]] = []
    previous = ""
    for row in rows:
        action = "" if row.action == previous else row.action
        size = "" if row.size_bytes is None else format_size(row.size_bytes)
        texts.append(
            [
                canvas.text(action, _ACTIONS.get(row.action, Style.PLAIN)),
                row.kind,
                "" if row.files is None else format_count(row.files),
                canvas.text(size, Style.SIZE),
                canvas.text(row.remark, Style.QUIET),
            ]
        )
        previous = row.action
    return matrix(canvas, ("", "kind", "files", "size", remarks), texts, right=(2, 3))


def version_strip(canvas: Canvas, first: int, last: int, lost: Spans, label_cells: int = 0) -> Text:
    """Return the versions from `first` to `last` as blocks between their numbers: lost, kept, or both in one block.

    `label_cells` is the room that is taken beside the strip.
    """
    count = last - first + 1
    ends = len(f"{first:,} {last:,}") + 1
    room = max(min(canvas.width - label_cells - ends, _STRIP_CELLS), 1)
    blocks = min(count, room)
    repeat = max(min(room // blocks, _CELLS_PER_VERSION), 1)
    marks = _ASCII_MARKS if canvas.is_ascii else _MARKS
    drawn = canvas.joined([(f"{first:,} ", Style.QUIET)], folds=False)
    for block in range(blocks):
        start, end = first + count * block // blocks, first + count * (block + 1) // blocks
        missing = sum(max(min(end, to + 1) - max(start, begin), 0) for begin, to in lost)
        style = Style.ADDED if not missing else Style.REMOVED if missing == end - start else Style.CHANGED
        drawn.append(marks[style] * repeat, str(style))
    return drawn.append_text(canvas.joined([(f" {last:,}", Style.QUIET)]))


def refusal_rows(
    canvas: Canvas, refusals: Iterable[tuple[str, str, str | None]], *, error_has_code: bool = False
) -> list[tuple[str, RenderableType]]:
    """Return rows of a grid: the message and the code of each refusal, and below it what overrides it.

    Of a single one the code only, where the error with its message and its override follows on the same terminal, and
    nothing where the error has the code, too.
    """
    refusals = list(refusals)
    rows: list[tuple[str, RenderableType]] = []
    if len(refusals) == 1 and sys.stderr is not None and sys.stderr.isatty():
        return [] if error_has_code else [("refused", canvas.text(refusals[0][1], Style.PROBLEM))]
    for message, code, override in refusals:
        parts = [(message, Style.PROBLEM)] + ([] if message.endswith("]") else [(f" [{code}]", Style.QUIET)])
        rows.append(("refused", canvas.joined(parts)))
        if override:
            label = "override: " if override.startswith("--") else "fix: "
            first, *others = pasted_lines(f"{label}{override}", canvas.width - _LABEL_CELLS)
            rows.append(("", canvas.joined([label, (first.removeprefix(label.strip()).strip(), Style.NEXT)])))
            rows += [("", canvas.text(line, Style.NEXT)) for line in others]
    return rows


def section_rows(canvas: Canvas, sections: Iterable[Section]) -> list[tuple[str, RenderableType]]:
    """Return rows of a grid: the lines of sections beside their labels."""
    room = canvas.width - _LABEL_CELLS
    return [
        ("" if number else section.label, canvas.text(part, section.style))
        for section in sections
        for number, part in enumerate(part for line in section.lines for part in pasted_lines(line, room))
    ]


def draw_parts(canvas: Canvas, *parts: RenderableType | Sequence[tuple[str, RenderableType]]) -> None:
    """Draw grids (as their rows) and other parts below each other, an empty line between two; empty ones are left out.

    The labels of all grids have one width.
    """
    longest = max((len(label) for part in parts if isinstance(part, list) for label, _ in part), default=0)
    drawn: list[RenderableType] = []
    for part in parts:
        if isinstance(part, list):
            shown = [grid(canvas, [(f"{label:<{longest}}", value) for label, value in part])] if part else []
        else:
            shown = [part]  # type: ignore[list-item]  # no sequence is given but lists
        if shown:
            drawn += [*([Text("")] if drawn else []), *shown]
    canvas.draw(*drawn)


# -- changes of settings, types and protocols on a terminal ------------------------------------------------------------

Grid = list[tuple[str, "RenderableType"]]


def draw_widening(canvas: Canvas, outcome: WideningOutcome, said: Sequence[Section]) -> None:
    """Draw what widening columns changes, who reads and writes the table then, and what forbids it; `said` are the
    sections of the text form.
    """
    sections = {section.label: section for section in said}
    plan = outcome.plan
    if plan.is_noop:
        draw_parts(canvas, section_rows(canvas, sections.values()))
        return
    due: list[list[str | Text]] = [[one.column, change(canvas, one.from_type, one.to_type)] for one in plan.due]
    parts: list[RenderableType | Grid] = [
        _chosen(canvas, sections, "table", "commit"),
        matrix(canvas, ("column", "type"), due),
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
    refusals = [(one.message, one.code, as_typed(one.hint or "", invocation.arguments)) for one in outcome.refusals]
    parts.append([*_chosen(canvas, sections, "files", "then", "warnings"), *refusal_rows(canvas, refusals)])
    draw_parts(canvas, *parts)


def draw_alteration(canvas: Canvas, outcome: AlterationOutcome, said: Sequence[Section]) -> None:
    """Draw what `alter` changes, before and after, who reads and writes the table then, and what forbids it."""
    from deltacli.delta.evolution.requests import KIND_OF

    sections = {section.label: section for section in said}
    evolution = outcome.evolution
    if evolution.is_noop:
        draw_parts(canvas, section_rows(canvas, sections.values()))
        return
    due: list[list[str | Text]] = [
        [KIND_OF[type(one.change)], one.subject, change(canvas, one.before, one.after)] for one in evolution.due
    ]
    parts: list[RenderableType | Grid] = [_chosen(canvas, sections, "table", "commit")]
    if due:
        parts.append(
            matrix(canvas, ("change", "target", "before → after" if not canvas.is_ascii else "before -> after"), due)
        )
    before, after = evolution.before, evolution.after
    if before.protocol != after.protocol:
        added = sorted(after.config.features - before.config.features)
        parts.append(protocol_matrix(canvas, before.protocol, after.protocol, added))
    if outcome.clients:
        parts.append(client_matrix(canvas, outcome.clients))
    refusals = [
        (one.message, one.code, as_typed(one.hint or "", invocation.arguments) or None) for one in outcome.refusals
    ]
    parts.append([*_chosen(canvas, sections, "warnings"), *refusal_rows(canvas, refusals)])
    draw_parts(canvas, *parts)


def draw_settings(canvas: Canvas, content: JsonObject, said: Sequence[Section]) -> None:
    """Draw a change of properties or features that was made, or would be; `said` are the sections of the text form."""
    sections = {section.label: section for section in said}
    changes = content["changes"]
    if not changes:
        draw_parts(canvas, section_rows(canvas, sections.values()))
        return
    is_of_features = "feature" in changes[0]
    before, after = content["protocolBefore"], content["protocolAfter"]
    parts: list[RenderableType | Grid] = [_chosen(canvas, sections, "table", "version")]
    if is_of_features:
        rows = [[canvas.text(f"+{one['feature']}", Style.ADDED), one.get("neededBy", "")] for one in changes]
        heading = ("feature", "needed by") if any(needed for _, needed in rows) else ("feature",)
        parts.append(matrix(canvas, heading, [row[: len(heading)] for row in rows]))
    else:
        parts.append(_properties(canvas, changes))
    if before != after:
        added = [one["feature"] for one in changes if "feature" in one] or sorted(_features(after) - _features(before))
        parts.append(protocol_matrix(canvas, before, after, added))
        had = read_protocol(before, "protocol").supported_features
        if clients := clients_after(added, used=not is_of_features, before=had):
            parts.append(client_matrix(canvas, clients))
    parts.append(_chosen(canvas, sections, "readers", "writers", "clients"))
    draw_parts(canvas, *parts)


def _properties(canvas: Canvas, changes: Sequence[JsonObject]) -> RenderableType:
    """Return what becomes of each property: as a table, or below its key where the table would fold keys."""
    rows = [(one["key"], change(canvas, one.get("before"), one.get("after"))) for one in changes]
    if max(cells(key) for key, _ in rows) + 2 + LEAST_ROOM > canvas.width:
        return grid(canvas, rows)
    return matrix(canvas, ("property", "before → after" if not canvas.is_ascii else "before -> after"), rows)


def _chosen(canvas: Canvas, sections: Mapping[str, Any], *labels: str) -> Grid:  # Any: Section
    return section_rows(canvas, [sections[label] for label in labels if label in sections])


def protocol_matrix(canvas: Canvas, before: JsonObject, after: JsonObject, added: Sequence[str]) -> RenderableType:
    """Return what a protocol demands of those that read and write the table, before and after. Of the features that
    are listed afterwards, those in `added` are new; the others were implied by the versions.
    """
    rows: list[list[str | Text]] = []
    for title, version, listed in (
        ("read", "minReaderVersion", "readerFeatures"),
        ("write", "minWriterVersion", "writerFeatures"),
    ):
        old, new = str(before.get(version)), str(after.get(version))
        versions = canvas.text(new) if old == new else change(canvas, old, new)
        rows.append([title, versions, _features_text(canvas, after.get(listed) or (), added)])
    return matrix(canvas, ("to", "version", "features"), rows)


def _features_text(canvas: Canvas, names: Sequence[str], added: Sequence[str]) -> Text:
    parts: list[tuple[str, Style]] = []
    for name in sorted(names):
        parts += [(", ", Style.PLAIN)] if parts else []
        parts.append((f"+{name}", Style.ADDED) if name in added else (name, Style.PLAIN))
    return canvas.joined(parts)


def _features(protocol: JsonObject) -> set[str]:
    return {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}


def client_matrix(canvas: Canvas, clients: Sequence[ClientAccess]) -> RenderableType:
    """Return which clients read and write the table afterwards, from which version on, and which lose that."""
    rows: list[list[str | Text]] = [
        [one.name, _reads(canvas, one), _writes(canvas, one), one.since or "", ", ".join(one.sources)]
        for one in clients
    ]
    titles = ("client", "read", "write", "from version", "source")
    narrow = canvas.width < _WIDE and not canvas.never_cuts
    return matrix(canvas, titles[:-1] if narrow else titles, [row[:-1] for row in rows] if narrow else rows)


_WIDE = 110
"""Cells from which the sources of what is known of clients have room."""


def _answer(canvas: Canvas, does: bool | None) -> Text:
    if does is None:
        return canvas.text("unknown", Style.QUIET)
    return canvas.text("yes", Style.GOOD) if does else canvas.text("no", Style.PROBLEM)


def _reads(canvas: Canvas, one: ClientAccess) -> Text:
    return canvas.text("loses", Style.PROBLEM) if one.loses_reads else _answer(canvas, one.reads)


def _writes(canvas: Canvas, one: ClientAccess) -> Text:
    if one.loses_writes:
        return canvas.text("loses", Style.PROBLEM)
    return _answer(canvas, one.writes) if one.client.writes else canvas.text("never", Style.QUIET)
