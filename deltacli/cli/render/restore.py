"""A restore as text: what comes back and goes, what stays as it is, who notices it, and what objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from deltacli.cli.output.grids import Grid, make_batch_grid
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.output.surface import Surface
from deltacli.cli.render.plans import make_refusal_rows, make_section_rows
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.times import format_moment
from deltacli.core.typing import RecordBatch
from deltacli.core.units import format_count, format_size, plural
from deltacli.operations.restore.difference import COLUMNS
from deltacli.operations.restore.restore import RestoreOutcome, RestorePlan, changed_file_batches

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.changing.file_totals import FileTotals

_NAMED = 5


def restore_result(plan: RestorePlan, outcome: RestoreOutcome | None, *, is_plan: bool) -> SingleResult:
    """Return a plan, or what became of it, as a result; its rows are the files that come back and go."""
    content = plan.as_json(dry_run=is_plan) if outcome is None else outcome.as_json()
    committed = None if outcome is None else outcome.committed_version
    said = list(_sections(plan, committed, is_plan=is_plan))

    lost = () if outcome is None else outcome.lost
    rows = partial(changed_file_batches, plan, lost)
    drawn = partial(_draw, plan, said)
    return _Restored("restore", plan.table.uri, content, lambda: said, (), (), drawn, batches=rows)


@dataclass(eq=False, repr=False, kw_only=True)
class _Restored(SingleResult):
    """Its rows are those of `batches`, and there may be millions of them."""

    batches: Callable[[], Iterable[RecordBatch]]

    def grid(self) -> Grid:
        return make_batch_grid(COLUMNS, self.batches())


def _sections(plan: RestorePlan, committed: int | None, *, is_plan: bool) -> Iterator[Section]:
    now, target, found = plan.now.version, plan.target.version, plan.difference
    if plan.is_noop and not plan.refusals:
        yield Section("nothing to do", [f"{plan.table.uri}, version {now}: nothing differs from version {target}"])
        yield Section("notes", [] if plan.request.where is None else list(plan.notes))
        return
    yield Section("table", [plan.table.uri])
    yield Section("version", [f"{now}, newest"])
    yield Section("restore", [f"{target}{_moment(plan)}"])
    yield Section("limited to", [] if plan.request.where is None else [plan.request.where])
    yield Section("bring back", [amount_text(found.added_amount)])
    yield Section("are copied", list(_brought(plan)))
    yield Section("remove", [amount_text(found.removed_amount)])
    yield Section("keep", [plural(found.unchanged, "file")])
    yield Section("changes", list(_changes(plan)))
    yield Section("commit", [_commit(plan, committed, is_plan=is_plan)])
    yield Section("notes", list(plan.notes))
    yield Section("noticed by", [f"{client.name}: {client.effect}" for client in plan.clients])
    yield Section("unusable", list(_problems(plan)), Style.PROBLEM)
    yield make_refusal_section(f"{one.message} [{one.code}]" for one in plan.refusals)


def amount_text(amount: FileTotals) -> str:
    if not amount.files:
        return "nothing"
    rows = "unknown rows" if amount.rows is None else plural(amount.rows, "row")
    return f"{format_file_totals(amount.files, amount.size_bytes)}, {rows}"


def _moment(plan: RestorePlan) -> str:
    time = plan.target.time
    return "" if time is None else f", committed {format_moment(time.timestamp_ms)} UTC"


def _changes(plan: RestorePlan) -> Iterator[str]:
    if plan.schema is None:
        return
    from deltacli.operations.schemas.described import shown

    for change in plan.schema.changes:
        yield shown(change)


def _commit(plan: RestorePlan, committed: int | None, *, is_plan: bool) -> str:
    if committed is not None:
        return f"version {committed}, committed"
    if plan.refusals:
        return "none, the restore is refused"
    return f"version {plan.now.version + 1}, would be committed" if is_plan else "none"


def _problems(plan: RestorePlan) -> Iterator[str]:
    lost = plan.lost
    for one in lost[:_NAMED]:
        yield f"{one.path}: {one.why}"
    if len(lost) > _NAMED:
        yield f"and {len(lost) - _NAMED:,} more"


def _brought(plan: RestorePlan) -> Iterator[str]:
    if plan.brought is not None:
        names = ", ".join(plan.brought.names)
        yield f"{format_file_totals(plan.brought.count, plan.brought.size_bytes)}, from {names}"


_ABOVE = ("table", "version", "restore", "limited to")
_IN_TABLE = ("bring back", "remove", "keep", "refused")


def _draw(plan: RestorePlan, said: Sequence[Section], canvas: Surface) -> None:
    """Draw what comes back and goes, and what becomes of it; `said` are the sections of the text form."""
    if plan.is_noop and not plan.refusals:
        canvas.draw_parts(make_section_rows(canvas, said))
        return
    found = plan.difference
    stays: list[RenderableType] = [canvas.text("keep"), format_count(found.unchanged), "", ""]
    rows = [
        _drawn_row(canvas, "bring back", found.added_amount, Style.ADDED),
        _drawn_row(canvas, "remove", found.removed_amount, Style.REMOVED),
        stays,
    ]
    canvas.draw_parts(
        make_section_rows(canvas, [section for section in said if section.label in _ABOVE]),
        canvas.matrix(("", "files", "size", "rows"), rows, right=(1, 2, 3)),
        [
            *make_section_rows(canvas, [section for section in said if section.label not in (*_ABOVE, *_IN_TABLE)]),
            *make_refusal_rows(canvas, [(one.message, one.code, plan.filled(one) or None) for one in plan.refusals]),
        ],
    )


def _drawn_row(canvas: Surface, name: str, amount: FileTotals, style: Style) -> list[RenderableType]:
    rows = "unknown" if amount.rows is None else format_count(amount.rows)
    return [
        canvas.text(name, style if amount.files else Style.PLAIN),
        format_count(amount.files),
        canvas.text(format_size(amount.size_bytes), Style.SIZE),
        rows,
    ]
