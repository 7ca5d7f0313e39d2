"""Plans on a terminal: what is deleted and kept, versions as a strip, refusals with what overrides them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.sections import grid
from deltacli.cli.render.terminal.tables import matrix
from deltacli.cli.terminal.term import Style, pasted_lines
from deltacli.core.units import format_count, format_size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.cli.render.sections import Section

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
