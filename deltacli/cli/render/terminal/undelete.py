"""The plan of an undelete on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.plans import PlanRow, draw_parts, plan_table, refusal_rows, section_rows
from deltacli.cli.render.undelete_sections import by_kind, lost_files, sections_of
from deltacli.operations.recover.plan import MISSING, PLANNED

if TYPE_CHECKING:
    from deltacli.operations.recover.plan import UndeletePlan
    from deltacli.operations.recover.put import Journal

_ABOVE = ("table", "version", "needed")
_IN_TABLE = ("would restore", "restored", "refused")


def draw_undelete(canvas: Canvas, plan: UndeletePlan, restored: Journal | None) -> None:
    """Draw what comes back and from where, and what stays lost."""
    sections = [
        section._replace(lines=list(lost_files(plan))) if section.label == "missing" and section.lines else section
        for section in sections_of(plan, restored)
    ]
    rows = list(_rows(plan, "restore" if restored is None else "restored"))
    draw_parts(
        canvas,
        section_rows(canvas, [section for section in sections if section.label in _ABOVE]),
        plan_table(canvas, rows, "from") if rows else [],
        [
            *section_rows(
                canvas, [one for one in sections if one.label not in (*_ABOVE, *(_IN_TABLE if rows else ()))]
            ),
            *refusal_rows(canvas, [(one.message, one.code, None) for one in plan.refusals]),
        ],
    )


def _rows(plan: UndeletePlan, verb: str) -> Iterator[PlanRow]:
    kinds, missing = by_kind(plan, PLANNED), by_kind(plan, MISSING)
    if len(kinds) > 1 or (missing and not kinds):
        yield PlanRow(verb, "all" if kinds else "nothing", plan.found.files, plan.found.size_bytes if kinds else None)
    for (kind, source), (files, size_bytes) in kinds.items():
        yield PlanRow(verb, kind, files, size_bytes, source)
    for (kind, _), (files, size_bytes) in missing.items():
        yield PlanRow("missing", kind, files, size_bytes or None, "in no source")
