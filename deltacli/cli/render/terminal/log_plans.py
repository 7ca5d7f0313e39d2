"""The plans of `log expire` and `checkpoint` on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from deltacli.cli.render.sections import Section
from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.plans import (
    PlanRow,
    draw_parts,
    plan_table,
    refusal_rows,
    section_rows,
    version_strip,
)
from deltacli.cli.render.terminal.tables import matrix
from deltacli.cli.terminal.term import Style
from deltacli.units import format_count, format_size, plural, ranges_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.operations.checkpoint.execute import CheckpointResult
    from deltacli.operations.log.expire import ExpiryPlan
    from deltacli.operations.log.expire_deleting import ExpiryOutcome

_FILES = 10


def draw_expiry(canvas: Canvas, plan: ExpiryPlan, outcome: ExpiryOutcome | None, sections: Sequence[Section]) -> None:
    """Draw what of a log is deleted, which versions are lost, and what the sections say besides."""
    above = [section for section in sections if section.label in ("table", "cutoff", "log begins")]
    below = [section for section in sections if section.label in ("versions", "deleted")]
    rows = [*_strip(canvas, plan), *section_rows(canvas, below)]
    rows += refusal_rows(canvas, [(one.message, one.code, one.override) for one in plan.refusals])
    draw_parts(canvas, section_rows(canvas, above), _files(canvas, plan, outcome), rows)


def _files(canvas: Canvas, plan: ExpiryPlan, outcome: ExpiryOutcome | None) -> RenderableType:
    verb = "delete" if outcome is None else "planned"
    kinds = plan.as_json()["candidates"]["byKind"]
    rows = [PlanRow(verb, kind, amount["files"], amount["sizeBytes"]) for kind, amount in sorted(kinds.items())]
    if len(rows) != 1:
        total = PlanRow(verb, "all", len(plan.files), plan.size_bytes) if rows else PlanRow(verb, "nothing", 0, None)
        rows = [total, *rows]
    kept = f"{plural(plan.kept_versions, 'version')} can still be rebuilt"
    return plan_table(canvas, [*rows, PlanRow("keep", "log", None, None, kept)], "")


def _strip(canvas: Canvas, plan: ExpiryPlan) -> list[tuple[str, RenderableType]]:
    if not plan.lost_versions:
        return []
    first, lost = plan.lost_versions[0], ranges_of(plan.lost_versions)
    return [("", version_strip(canvas, first, plan.newest_version, lost, label_cells=16))]


def draw_checkpoint(canvas: Canvas, result: CheckpointResult, sections: Sequence[Section]) -> None:
    """Draw a checkpoint that was written, or would be, its files, and what the sections say besides."""
    if result.skipped:
        draw_parts(canvas, section_rows(canvas, sections))
        return
    above = [section for section in sections if section.label in ("table", "version", "checkpoint")]
    below = [section for section in sections if section.label not in ("table", "version", "checkpoint", "files")]
    parts: list[RenderableType | list[tuple[str, RenderableType]]] = [section_rows(canvas, above)]
    if result.files:
        parts.append(matrix(canvas, ("file", "size", "rows"), _checkpoint_files(canvas, result), right=(1, 2)))
    draw_parts(canvas, *parts, section_rows(canvas, below))


def _checkpoint_files(canvas: Canvas, result: CheckpointResult) -> list[list[str | Text]]:
    shown = result.files if canvas.never_cuts else result.files[:_FILES]
    rows: list[list[str | Text]] = [
        [file.path, _size(canvas, file.size_bytes), "" if file.rows is None else format_count(file.rows)]
        for file in shown
    ]
    if rest := result.files[len(shown) :]:
        size = sum(file.size_bytes for file in rest)
        rows.append([f"and {plural(len(rest), 'more file')}: --json names all", _size(canvas, size), ""])
    return rows


def _size(canvas: Canvas, size_bytes: int) -> Text:
    return canvas.text(format_size(size_bytes), Style.SIZE)
