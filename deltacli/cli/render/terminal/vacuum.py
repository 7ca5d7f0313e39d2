"""The plan of a vacuum on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.plans import (
    PlanRow,
    draw_parts,
    plan_table,
    refusal_rows,
    section_rows,
    version_strip,
)
from deltacli.cli.render.vacuum.screen import UNRECOGNIZED, kept_kinds, kind_name, span_of_ages, vacuum_sections
from deltacli.cli.terminal.term import Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan

_ABOVE = ("table", "version", "cutoff", "mode", "limited to")
_IN_TABLE = ("delete", "planned", "keep", "refused")


def draw_vacuum(canvas: Canvas, terminal: Terminal, plan: VacuumPlan, outcome: VacuumOutcome | None) -> None:
    """Draw what is deleted and kept, the versions that lose files, and what became of the plan."""
    sections = vacuum_sections(plan, outcome, terminal)
    above = [section for section in sections if section.label in _ABOVE]
    below = [section for section in sections if section.label not in (*_ABOVE, *_IN_TABLE)]
    rows = list(_rows(plan, terminal, "delete" if outcome is None else "planned"))
    draw_parts(
        canvas,
        section_rows(canvas, above),
        plan_table(canvas, rows, "age or reason"),
        [
            *_examples(canvas, plan),
            *_strip(canvas, plan),
            *section_rows(canvas, below),
            *refusal_rows(
                canvas, [(one.message, one.code, one.override) for one in plan.refusals], error_has_code=True
            ),
        ],
    )


def _rows(plan: VacuumPlan, terminal: Terminal, verb: str) -> Iterator[PlanRow]:
    if len(plan.totals) != 1:
        yield PlanRow(verb, "all" if plan.files else "nothing", plan.files, plan.size_bytes if plan.files else None)
    for reason, total in plan.totals.items():
        ages = span_of_ages(plan, total.ages, terminal)
        yield PlanRow(verb, kind_name(reason), total.amount.files, total.amount.size_bytes, ages)
    kept = plan.kept
    if kept.live.files:
        yield PlanRow("keep", "live", *kept.live, "in the newest version")
    for name, why in kept_kinds(plan).items():
        count = getattr(kept, name)
        if count:
            yield PlanRow("keep", name.replace("outside_selection", "not selected"), count, None, why)
    if kept.foreign.files:
        yield PlanRow(UNRECOGNIZED, "kept", *kept.foreign, "--include-foreign deletes them")


def _examples(canvas: Canvas, plan: VacuumPlan) -> Iterator[tuple[str, RenderableType]]:
    """Yield some of the files that are not part of a table."""
    names = plan.kept.foreign_examples[:5]
    for number, name in enumerate(names):
        yield "" if number else UNRECOGNIZED, canvas.text(name)
    if names and plan.kept.foreign.files > len(names):
        yield "", canvas.text(f"and {plan.kept.foreign.files - len(names):,} more")


def _strip(canvas: Canvas, plan: VacuumPlan) -> Iterator[tuple[str, RenderableType]]:
    """Yield the versions that lose files and those that do not."""
    reach = plan.reach
    if reach.first_version is None:
        return
    first = reach.first_version if reach.oldest_before is None else min(reach.oldest_before, reach.first_version)
    if first <= plan.snapshot_version:
        yield "versions", version_strip(canvas, first, plan.snapshot_version, reach.lost, label_cells=16)
