"""The plan of a restore on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.plans import draw_parts, refusal_rows, section_rows
from deltacli.cli.render.terminal.tables import matrix
from deltacli.cli.terminal.term import Style
from deltacli.units import format_count, format_size

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.sections import Section
    from deltacli.operations.restore.difference import Amount
    from deltacli.operations.restore.plan import RestorePlan

_ABOVE = ("table", "version", "restore", "limited to")
_IN_TABLE = ("bring back", "remove", "keep", "refused")


def draw_restore(canvas: Canvas, plan: RestorePlan, said: Sequence[Section]) -> None:
    """Draw what comes back and goes, and what becomes of it; `said` are the sections of the text form."""
    if plan.is_noop and not plan.refusals:
        draw_parts(canvas, section_rows(canvas, said))
        return
    found = plan.difference
    stays: list[str | Text] = [canvas.text("keep"), format_count(found.unchanged), "", ""]
    rows = [
        _row(canvas, "bring back", found.added_amount, Style.ADDED),
        _row(canvas, "remove", found.removed_amount, Style.REMOVED),
        stays,
    ]
    draw_parts(
        canvas,
        section_rows(canvas, [section for section in said if section.label in _ABOVE]),
        matrix(canvas, ("", "files", "size", "rows"), rows, right=(1, 2, 3)),
        [
            *section_rows(canvas, [section for section in said if section.label not in (*_ABOVE, *_IN_TABLE)]),
            *refusal_rows(canvas, [(one.message, one.code, plan.filled(one) or None) for one in plan.refusals]),
        ],
    )


def _row(canvas: Canvas, name: str, amount: Amount, style: Style) -> list[str | Text]:
    rows = "unknown" if amount.rows is None else format_count(amount.rows)
    return [
        canvas.text(name, style if amount.files else Style.PLAIN),
        format_count(amount.files),
        canvas.text(format_size(amount.size_bytes), Style.SIZE),
        rows,
    ]
