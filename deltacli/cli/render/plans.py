"""Parts of plans that several commands draw: files by action, a strip of versions, refusals, labelled lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.cli.output.sections import Section
from deltacli.cli.output.surface import Labelled, Sheet, Surface
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.wrapping import wrap_with_commands
from deltacli.core.units import format_count, format_size

if TYPE_CHECKING:
    from rich.console import RenderableType

_ACTION_STYLES = {"delete": Style.REMOVED, "keep": Style.GOOD, "unrecognized": Style.WARNING}
_LABEL_CELLS = 12
"""The cells of the labels of a plan, with the gap behind them."""
_MAX_STRIP_CELLS = 60
_MAX_CELLS_PER_VERSION = 3
_MARKS = {Style.REMOVED: "░", Style.CHANGED: "▒", Style.ADDED: "█"}
_ASCII_MARKS = {Style.REMOVED: "-", Style.CHANGED: "~", Style.ADDED: "+"}

Spans = Sequence[tuple[int, int]]
"""Ranges of versions, both ends included."""


class PlanRow(NamedTuple):
    """Some files of a plan.

    Attributes:
        action: What is done with them: `delete`, `keep`, `unrecognized`, …
        kind: The kind of the files.
        files: Their number; None if they are not counted.
        size_bytes: Their size; None if it is not known.
        remark: The age or the reason.
    """

    action: str
    kind: str
    files: int | None
    size_bytes: int | None
    remark: str


def make_plan_table(canvas: Surface, rows: Sequence[PlanRow], remarks: str) -> RenderableType:
    """Return the files of a plan by action and kind; `remarks` is the title of the last column."""
    cells: list[list[RenderableType]] = []
    previous_action = ""
    for row in rows:
        # An action is named in its first row only.
        action = "" if row.action == previous_action else row.action
        files = "" if row.files is None else format_count(row.files)
        size = "" if row.size_bytes is None else format_size(row.size_bytes)
        cells.append(
            [
                canvas.text(action, _ACTION_STYLES.get(row.action, Style.PLAIN)),
                row.kind,
                files,
                canvas.text(size, Style.SIZE),
                canvas.text(row.remark, Style.QUIET),
            ]
        )
        previous_action = row.action
    return canvas.matrix(("", "kind", "files", "size", remarks), cells, right=(2, 3))


def make_version_strip(canvas: Surface, first: int, last: int, lost: Spans, label_cells: int = 0) -> RenderableType:
    """Return the versions as blocks between their numbers. A block is lost, kept, or partly both.

    Args:
        canvas: What the strip is drawn on.
        first: The first version.
        last: The last version.
        lost: The versions that are lost.
        label_cells: The cells that the label takes beside the strip.
    """
    versions = last - first + 1
    number_cells = len(f"{first:,} {last:,}") + 1
    room = max(min(canvas.width - label_cells - number_cells, _MAX_STRIP_CELLS), 1)
    blocks = min(versions, room)
    cells_per_block = max(min(room // blocks, _MAX_CELLS_PER_VERSION), 1)
    marks = _ASCII_MARKS if canvas.is_ascii else _MARKS

    parts = [(f"{first:,} ", Style.QUIET)]
    for block in range(blocks):
        start = first + versions * block // blocks
        end = first + versions * (block + 1) // blocks
        style = _style_of_block(start, end, lost)
        parts.append((marks[style] * cells_per_block, style))
    parts.append((f" {last:,}", Style.QUIET))
    return canvas.joined(parts, folds=False)


def _style_of_block(start: int, end: int, lost: Spans) -> Style:
    """Return the look of the versions from `start` up to and without `end`."""
    lost_versions = 0
    for first_lost, last_lost in lost:
        lost_versions += max(min(end, last_lost + 1) - max(start, first_lost), 0)
    if not lost_versions:
        return Style.ADDED
    return Style.REMOVED if lost_versions == end - start else Style.CHANGED


def make_refusal_rows(
    canvas: Surface, refusals: Iterable[tuple[str, str, str | None]], *, error_has_code: bool = False
) -> list[Labelled]:
    """Return rows of a grid: the message and the code of each refusal, and below it what overrides it.

    If the error with the messages and overrides follows in the same place, the rows have the codes only, and on a
    terminal nothing if the error has the codes, too.

    Args:
        canvas: What the rows are drawn on.
        refusals: The message, the code, and the option or command that overrides the refusal, if there is one.
        error_has_code: Whether the error states the codes.
    """
    if canvas.shows_errors:
        is_repeated = error_has_code and not isinstance(canvas, Sheet)
        if is_repeated:
            return []
        return [("refused", canvas.text(code, Style.PROBLEM)) for _, code, _ in refusals]

    rows: list[Labelled] = []
    for message, code, override in refusals:
        parts = [(message, Style.PROBLEM)]
        if not message.endswith("]"):
            parts.append((f" [{code}]", Style.QUIET))
        rows.append(("refused", canvas.joined(parts)))
        if override:
            rows += _make_override_rows(canvas, override)
    return rows


def _make_override_rows(canvas: Surface, override: str) -> list[Labelled]:
    label = "override: " if override.startswith("--") else "fix: "
    first_line, *other_lines = wrap_with_commands(f"{label}{override}", canvas.width - _LABEL_CELLS)
    first_line = first_line.removeprefix(label.strip()).strip()
    rows: list[Labelled] = [("", canvas.joined([label, (first_line, Style.NEXT)]))]
    rows += [("", canvas.text(line, Style.NEXT)) for line in other_lines]
    return rows


def make_section_rows(canvas: Surface, sections: Iterable[Section]) -> list[Labelled]:
    """Return rows of a grid: the lines of sections beside their labels."""
    room = canvas.width - _LABEL_CELLS
    rows: list[Labelled] = []
    for section in sections:
        lines = [part for line in section.lines for part in wrap_with_commands(line, room)]
        for number, line in enumerate(lines):
            rows.append((section.label if number == 0 else "", canvas.text(line, section.style)))
    return rows
