"""The plan of a fleet: a line per due step and per problem, then the sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import BinaryIO, NamedTuple, overload

from deltacli.cli.render.columns import Column
from deltacli.cli.render.fleet.check import Items, fleet_fields
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Document, Listing
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.fleet.planning.due import PlannedStep
from deltacli.fleet.planning.plan import FleetPlan, PlanProblem, TablePlan
from deltacli.storage.secrets import without_secrets
from deltacli.typing import Json, JsonObject
from deltacli.units import format_size, plural

ExactPlans = Mapping[tuple[str, str], JsonObject]


class FleetPlanRow(NamedTuple):
    """A due step of a table, or the problem of a table or directory."""

    name: str
    group: str
    step: PlannedStep | None
    why: str
    problem: PlanProblem | None = None
    exact: JsonObject | None = None


class _Rows(Sequence[FleetPlanRow]):
    """The rows, made at the first use: NDJSON and JSON need none."""

    def __init__(self, plan: FleetPlan, exact: ExactPlans) -> None:
        self._plan, self._exact = plan, exact

    @cached_property
    def _all(self) -> Sequence[FleetPlanRow]:
        return list(_rows(self._plan, self._exact))

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, place: int) -> FleetPlanRow: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[FleetPlanRow]: ...
    def __getitem__(self, place: int | slice) -> FleetPlanRow | Sequence[FleetPlanRow]:
        return self._all[place]


class PlanResult(Listing[FleetPlanRow]):
    """The rows, then the sums."""

    def document(self) -> Document:
        return Document({**self.fields, self.items_name: list(self.items)})

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.rows:
            shown = [column for column in self.columns if column.on_screen or not terminal.is_drawn]
            write_table(sink, terminal, shown, self.rows)
            sink.write(b"\n")
        write_sections(sink, terminal, self.sections(terminal))


def plan_result(plan: FleetPlan, exact: ExactPlans) -> PlanResult:
    """Return the plan as a result. `exact` are the exact plans of destructive steps, by table and step."""
    content = {
        "timestampMs": plan.now_ms,
        "problems": [problem.as_json() for problem in plan.problems],
        "summary": plan.summary(),
    }
    file = str(plan.file.path)
    said = _sections(plan)
    return PlanResult(
        fleet_fields("fleet-plan", file) | content,
        "fleet-table",
        Items(plan.tables, lambda table: _item(table, exact)),
        _columns(),
        _Rows(plan, exact),
        items_name="tables",
        last={"type": "fleet-plan", "file": file, **content},
        said=lambda _: said,
    )


def _item(table: TablePlan, exact: ExactPlans) -> dict[str, Json]:
    item = table.as_json()
    for step in item["steps"]:
        if (found := exact.get((table.name, step["kind"]))) is not None:
            step["plan"] = found
    return item


def _rows(plan: FleetPlan, exact: ExactPlans) -> Iterator[FleetPlanRow]:
    for name, group, _, problem in plan.problems:
        yield FleetPlanRow(without_secrets(name), group, None, problem.sentence, problem)
    for table in plan.tables:
        name = without_secrets(table.name)
        if table.problem is not None:
            yield FleetPlanRow(name, table.group, None, table.problem.sentence, table.problem)
        for step in table.steps:
            yield FleetPlanRow(name, table.group, step, step.reason, None, exact.get((table.name, step.kind)))


def _columns() -> list[Column[FleetPlanRow]]:
    return [
        Column("table", lambda row: row.name, priority=1, least=20, keep_end=True, folds=True),
        Column("group", lambda row: row.group, priority=4),
        Column("step", lambda row: row.step and row.step.kind, _step, _style, priority=1, least=18),
        Column("why", lambda row: row.why, style=_style, priority=2, least=24, folds=True),
        Column("plan", _exact, priority=2, least=12, folds=True),
        Column("consent", _consent, on_screen=False),
        Column("calls", lambda row: row.step and row.step.estimate.calls, right=True, priority=6),
        Column("bytes", lambda row: row.step and row.step.estimate.size_bytes, _size, right=True, priority=6),
        Column("seconds", lambda row: row.step and round(row.step.estimate.seconds, 3), _time, right=True, priority=3),
    ]  # fmt: skip


def _consent(row: FleetPlanRow) -> bool | None:
    return row.step.consent if row.step and row.step.is_destructive else None


def _step(row: FleetPlanRow) -> str:
    if row.step is None:
        return ""
    return row.step.kind if row.step.consent else f"{row.step.kind} (no consent)"


def _style(row: FleetPlanRow) -> Style:
    return Style.PROBLEM if row.problem is not None else Style.PLAIN


def _size(row: FleetPlanRow) -> str:
    if row.step is None:
        return ""
    return "unknown" if row.step.estimate.size_bytes is None else format_size(row.step.estimate.size_bytes)


def _time(row: FleetPlanRow) -> str:
    return f"{row.step.estimate.seconds:.1f} s" if row.step else ""


def _exact(row: FleetPlanRow) -> str | None:
    """Return what an exact plan deletes, or why it cannot be executed."""
    if row.exact is None:
        return None
    if (error := row.exact.get("error")) is not None:
        return f"error: {error['message']}"
    if row.exact["refusals"]:
        return f"refused: {row.exact['refusals'][0]['message']}"
    candidates = row.exact["candidates"]
    return f"deletes {plural(candidates['files'], 'file')} ({format_size(candidates['sizeBytes'])})"


def _sections(plan: FleetPlan) -> list[Section]:
    summary = plan.summary()
    tables = f"{plural(summary['tables'], 'table')}, {summary['due']:,} with due steps"
    troubles = [(summary["unreadable"], "unreadable"), (summary["otherFormats"], "of another format")]
    tables += "".join(f", {count:,} {what}" for count, what in troubles if count)
    missed = f"{plural(summary['problems'], 'path')} not searched, whose tables are missing here"
    steps = ", ".join(f"{count:,} {kind}" for kind, count in summary["steps"].items())
    cost = f"{plural(summary['calls'], 'call')}, {format_size(summary['sizeBytes'])}, {summary['seconds']:,.1f} s"
    sections = [
        Section("tables", [tables], Style.PROBLEM if summary["unreadable"] else Style.PLAIN),
        Section("problems", [missed] if summary["problems"] else [], Style.PROBLEM),
        Section("due", [steps or "nothing"], Style.PLAIN if steps else Style.GOOD),
        Section("estimated", [f"{cost} of work"] if steps else []),
    ]
    return [section for section in sections if section.lines]
